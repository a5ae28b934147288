/* One shard: the cases whose number leaves its index when divided by the count of shards. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "harness/campaign/workers.h"

struct shard {
    const struct harness_campaign_config *config;
    struct harness_campaign_head head;
    struct harness_campaign_lines lines; /* that it begins with */
    char path[4096];
    int fd;
    struct harness_campaign_progress progress;
};

static ddp_status append(struct shard *shard, const struct ddp_text *text, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    size_t done = 0;

    if (text->is_failed) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a line of %s", shard->path);
    }
    while (done < text->size_bytes) {
        size_t written = 0;
        ddp_status status = files->ops->write(files, shard->fd, text->data + done,
                                              text->size_bytes - done, &written, err);

        if (status != DDP_OK) {
            return ddp_err_wrap(err, status, "%s", shard->path);
        }
        done += written;
    }
    return DDP_OK;
}

/* What an earlier run of this shard left, up to its last whole line; else a file with a head. */
static ddp_status open_file(struct shard *shard, struct ddp_err *err)
{
    const struct harness_campaign_config *config = shard->config;
    struct ddp_files *files = ddp_files_system();
    struct harness_campaign_head found;
    struct ddp_text head;
    size_t good_bytes = 0;
    ddp_status status;

    (void)snprintf(shard->path, sizeof shard->path, "%s/shard.%" PRIu32 "of%" PRIu32 ".txt",
                   config->out_dir, config->shard, config->shard_count);
    DDP_TRY(ddp_files_make_dirs(config->out_dir, err));
    status = harness_campaign_lines_read(&shard->lines, shard->path, &found, &good_bytes, err);
    if (status == DDP_OK && !config->is_resumed) {
        return ddp_err_set(err, DDP_E_STATE, "%s is there already; --resume goes on with it",
                           shard->path);
    }
    if (status == DDP_OK &&
        (!harness_campaign_head_is_same(&found, &shard->head) || found.shard != shard->head.shard ||
         found.shard_count != shard->head.shard_count)) {
        return ddp_err_set(err, DDP_E_STATE, "%s is of another campaign: name another --out",
                           shard->path);
    }
    /* A shard that was killed before its head was whole has nothing. */
    if (status == DDP_E_PARSE && good_bytes == 0 && config->is_resumed) {
        status = DDP_E_NOT_FOUND;
    }
    if (status != DDP_OK && status != DDP_E_NOT_FOUND) {
        return status;
    }
    DDP_TRY(files->ops->append(files, shard->path, &shard->fd, err));
    if (ftruncate(shard->fd, (off_t)good_bytes) != 0) {
        return ddp_err_set(err, DDP_E_IO, "cannot cut %s: %s", shard->path, strerror(errno));
    }
    if (good_bytes > 0) {
        return DDP_OK;
    }
    ddp_text_init(&head, shard->lines.mem);
    harness_campaign_head_print(&shard->head, &head);
    return append(shard, &head, err);
}

static ddp_status take(void *context, const struct harness_campaign_result *result,
                       struct ddp_err *err)
{
    struct shard *shard = context;
    struct ddp_text line;
    ddp_status status;

    ddp_text_init(&line, ddp_mem_system());
    harness_campaign_line_print(result, &line);
    status = append(shard, &line, err);
    ddp_text_fini(&line);
    shard->progress.done++;
    shard->progress.failed += harness_campaign_is_wrong(result);
    if (shard->config->progress != NULL) {
        shard->config->progress(shard->config->context, &shard->progress);
    }
    return status;
}

static bool is_done(const struct shard *shard, size_t *cursor, uint64_t number,
                    enum harness_driver driver)
{
    const struct harness_campaign_lines *lines = &shard->lines;

    while (*cursor < lines->count &&
           (lines->items[*cursor].number < number ||
            (lines->items[*cursor].number == number && lines->items[*cursor].driver < driver))) {
        (*cursor)++;
    }
    return *cursor < lines->count && lines->items[*cursor].number == number &&
           lines->items[*cursor].driver == driver;
}

/* What is left to do, in order. */
static ddp_status list_tasks(struct shard *shard, struct harness_campaign_task **out,
                             size_t *out_count)
{
    const struct harness_campaign_config *config = shard->config;
    uint64_t most = (config->campaign->case_count / config->shard_count + 1) * HARNESS_DRIVER_COUNT;
    size_t cursor = 0;

    *out_count = 0;
    *out = ddp_mem_array(shard->lines.mem, most, sizeof **out);
    if (*out == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint64_t number = config->shard; number < config->campaign->case_count;
         number += config->shard_count) {
        for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
            enum harness_driver driver = (enum harness_driver)d;

            if (!config->campaign->is_driver[d]) {
                continue;
            }
            shard->progress.total++;
            if (is_done(shard, &cursor, number, driver)) {
                shard->progress.done++;
                shard->progress.resumed++;
                shard->progress.failed += harness_campaign_is_wrong(&shard->lines.items[cursor]);
            } else {
                (*out)[(*out_count)++] = (struct harness_campaign_task){number, driver};
            }
        }
    }
    return DDP_OK;
}

ddp_status harness_campaign_run(const struct harness_campaign_config *config, int *out_signal,
                                struct ddp_err *err)
{
    struct shard shard = {.config = config, .fd = -1};
    struct harness_campaign_task *tasks = NULL;
    struct ddp_mem_pool *pool;
    size_t task_count = 0;
    ddp_status status;

    DDP_ASSERT(config->shard < config->shard_count);
    *out_signal = 0;
    DDP_TRY(ddp_mem_pool_create(&pool));
    shard.lines.mem = ddp_mem_pool_mem(pool);
    shard.progress.started_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    harness_campaign_head_of(config, &shard.head);
    status = open_file(&shard, err);
    status = status == DDP_OK ? harness_campaign_lines_sort(&shard.lines, err) : status;
    status = status == DDP_OK ? list_tasks(&shard, &tasks, &task_count) : status;
    if (status == DDP_OK) {
        status = harness_campaign_work(config, tasks, task_count, take, &shard, out_signal, err);
    }
    if (shard.fd >= 0) { /* where a file lies over a network, here is told what was not written */
        ddp_status closed = ddp_files_system()->ops->close(ddp_files_system(), shard.fd,
                                                           status == DDP_OK ? err : NULL);

        status = status != DDP_OK || closed == DDP_OK ? status
                                                      : ddp_err_wrap(err, closed, "%s", shard.path);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}
