/* Payload capture: the tensors whose recorded hashes somebody wants are kept as files, each once. A
 * file that cannot be written fails the run, which is repeated for these files only. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank/session.h"

/* The list's order: rising. */
static int compare_hashes(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static ddp_status write_payload(const struct harness_keeper *keeper, uint64_t hash,
                                const void *data, size_t size_bytes)
{
    struct ddp_text path;
    ddp_status status = DDP_E_NOMEM;

    ddp_text_init(&path, keeper->env->mem);
    ddp_text_add(&path, "%s/payload/%016" PRIx64, keeper->options->run_dir, hash);
    if (!path.is_failed) {
        status =
            harness_file_write(keeper->env, ddp_text_str(&path), data, size_bytes, keeper->err);
    }
    ddp_text_fini(&path);
    return status;
}

static void see(void *context, uint64_t hash, const void *data, size_t size_bytes)
{
    struct harness_keeper *keeper = context;
    const uint64_t *wanted = keeper->options->wanted;
    const uint64_t *found =
        bsearch(&hash, wanted, keeper->options->wanted_count, sizeof wanted[0], compare_hashes);

    if (found == NULL || keeper->is_kept[found - wanted] || keeper->status != DDP_OK) {
        return;
    }
    keeper->is_kept[found - wanted] = true;
    keeper->status = write_payload(keeper, hash, data, size_bytes);
}

ddp_status harness_keeper_open(struct harness_keeper *keeper, struct ddp_env *env,
                               const struct harness_rank_options *options, struct ddp_err *err)
{
    *keeper = (struct harness_keeper){
        .witness = {keeper, see}, .env = env, .options = options, .err = err};
    if (options->wanted_count == 0 || options->run_dir == NULL || env->recorder == NULL) {
        return DDP_OK;
    }
    keeper->is_kept = ddp_mem_array(env->mem, options->wanted_count, sizeof(bool));
    if (keeper->is_kept == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to keep %zu tensors",
                           options->wanted_count);
    }
    env->recorder->witness = &keeper->witness;
    return DDP_OK;
}

void harness_keeper_close(struct harness_keeper *keeper)
{
    if (keeper->is_kept != NULL) {
        keeper->env->recorder->witness = NULL;
        ddp_mem_free(keeper->env->mem, keeper->is_kept);
    }
}

/* --- the list, from the launcher to its ranks ------------------------------------------------- */

ddp_status harness_wanted_write(const char *path, const uint64_t *wanted, size_t count,
                                struct ddp_mem *mem, struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status = DDP_E_NOMEM;

    ddp_text_init(&text, mem);
    for (size_t i = 0; i < count; i++) {
        ddp_text_add(&text, "%016" PRIx64 "\n", wanted[i]);
    }
    if (!text.is_failed) {
        status = ddp_files_write_whole(ddp_files_system(), path, ddp_text_str(&text),
                                       text.size_bytes, err);
    }
    ddp_text_fini(&text);
    return status;
}

ddp_status harness_wanted_read(const char *path, struct ddp_mem *mem, uint64_t **out,
                               size_t *out_count, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    void *data = NULL;
    size_t size_bytes = 0;
    char *next;

    *out_count = 0;
    DDP_TRY(files->ops->read_all(files, path, mem, &data, &size_bytes, err));
    *out = ddp_mem_array(mem, size_bytes / 17 + 1, sizeof **out);
    next = data;
    while (*out != NULL && *out_count < size_bytes / 17) {
        (*out)[(*out_count)++] = strtoull(next, &next, 16);
    }
    ddp_mem_free(mem, data);
    return *out == NULL ? DDP_E_NOMEM : DDP_OK;
}
