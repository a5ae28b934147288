/* The files of a run folder: read, written, and checked to be what the run left. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/cell/stage.h"

char *harness_stage_path(struct ddp_mem *mem, const char *dir, const char *name)
{
    struct ddp_text text;

    ddp_text_init(&text, mem);
    ddp_text_add(&text, "%s/%s", dir, name);
    DDP_ASSERT(!text.is_failed);
    return text.data;
}

struct ddp_files *harness_stage_files(const struct harness_cell_config *config)
{
    return config->memory != NULL ? ddp_files_memory_files(config->memory) : ddp_files_unsynced();
}

ddp_status harness_stage_make_dirs(const struct harness_cell_config *config, const char *path,
                                   struct ddp_err *err)
{
    return config->memory == NULL ? ddp_files_make_dirs(path, err) : DDP_OK;
}

ddp_status harness_stage_read(const struct harness_cell *cell, const char *dir, const char *name,
                              void **out, size_t *out_size_bytes, struct ddp_err *err)
{
    struct ddp_files *files = harness_stage_files(&cell->config);
    const char *path = harness_stage_path(cell->mem, dir, name);

    return files->ops->read_all(files, path, cell->mem, out, out_size_bytes, err);
}

ddp_status harness_stage_write(const struct harness_cell_config *config, const char *dir,
                               const char *name, const struct ddp_text *text, struct ddp_err *err)
{
    char path[4096];
    int size = snprintf(path, sizeof path, "%s/%s", dir, name);

    if (text->is_failed) {
        return ddp_err_set(err, DDP_E_NOMEM, "out of memory while writing %s", name);
    }
    if (size < 0 || (size_t)size >= sizeof path) {
        return ddp_err_set(err, DDP_E_INVALID, "path of %s is too long", name);
    }
    return ddp_files_write_atomic(harness_stage_files(config), path, ddp_text_str(text),
                                  text->size_bytes, err);
}

static void take(struct harness_trace_files *files, const void *data, size_t size_bytes)
{
    files->count++;
    files->size_bytes += size_bytes;
    files->digest = ddp_hash_bytes(data, size_bytes, files->digest);
}

static ddp_status take_text(void *context, const char *text, struct ddp_err *err)
{
    (void)err;
    take(context, text, strlen(text));
    return DDP_OK;
}

/* A file that does not exist is none. */
static ddp_status take_file(const struct harness_cell *cell, const char *name,
                            struct harness_trace_files *out, struct ddp_err *err)
{
    void *data = NULL;
    size_t size_bytes = 0;
    struct ddp_err why = {""};
    ddp_status status = harness_stage_read(cell, cell->run_dir, name, &data, &size_bytes, &why);

    if (status == DDP_OK) {
        take(out, data, size_bytes);
        ddp_mem_free(cell->mem, data);
    }
    return status == DDP_OK || status == DDP_E_NOT_FOUND ? DDP_OK
                                                         : ddp_err_set(err, status, "%s", why.text);
}

ddp_status harness_stage_find_files(const struct harness_cell *cell,
                                    struct harness_trace_files *out, struct ddp_err *err)
{
    const struct {
        const char *name;
        enum harness_files files;
        bool is_folder;
    } all[] = {{"plan.yaml", HARNESS_FILES_PLAN, false},
               {"program.txt", HARNESS_FILES_PROGRAM, false},
               {"schedules", HARNESS_FILES_SCHEDULES, true},
               {"trees", HARNESS_FILES_TREES, true},
               {"checkpoint.safetensors", HARNESS_FILES_CHECKPOINT, false},
               {"given.safetensors", HARNESS_FILES_GIVEN, false},
               {"survivors/schedules", HARNESS_FILES_SURVIVORS, true},
               {"survivors/checkpoint.safetensors", HARNESS_FILES_SURVIVORS, false}};

    memset(out, 0, HARNESS_FILES_COUNT * sizeof *out);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct harness_trace_files *files = &out[all[i].files];

        DDP_TRY(all[i].is_folder
                    ? ddp_files_each_text(harness_stage_files(&cell->config),
                                          harness_stage_path(cell->mem, cell->run_dir, all[i].name),
                                          ".txt", cell->mem, take_text, files, err)
                    : take_file(cell, all[i].name, files, err));
    }
    return DDP_OK;
}

/* program.txt, which people read, says what the plan's program is. */
static ddp_status check_program(const struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_text planned;
    void *text;
    size_t size_bytes;
    bool is_same;

    DDP_TRY(harness_stage_read(cell, cell->run_dir, "program.txt", &text, &size_bytes, err));
    ddp_text_init(&planned, cell->mem);
    harness_program_print(&cell->program, &planned);
    is_same = !planned.is_failed && size_bytes == planned.size_bytes &&
              memcmp(text, ddp_text_str(&planned), size_bytes) == 0;
    ddp_text_fini(&planned);
    return is_same ? DDP_OK
                   : ddp_err_set(err, DDP_E_CORRUPT, "program: it is not the one of plan.yaml");
}

ddp_status harness_stage_check_files(const struct harness_cell *cell, struct ddp_err *err)
{
    struct harness_trace_files found[HARNESS_FILES_COUNT];

    DDP_TRY(harness_stage_find_files(cell, found, err));
    for (unsigned i = 0; i < HARNESS_FILES_COUNT; i++) {
        const struct harness_trace_files *recorded = &cell->trace.files[i];
        const char *name = harness_files_name((enum harness_files)i);

        if (found[i].count != recorded->count) {
            return ddp_err_set(
                err, DDP_E_CORRUPT, "%s: the run left %" PRIu64 " %s, and %" PRIu64 " are there",
                name, recorded->count, recorded->count == 1 ? "file" : "files", found[i].count);
        }
        if (found[i].size_bytes != recorded->size_bytes || found[i].digest != recorded->digest) {
            return ddp_err_set(err, DDP_E_CORRUPT, "%s: changed since the run", name);
        }
    }
    return check_program(cell, err);
}
