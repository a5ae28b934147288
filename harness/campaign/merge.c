/* Shards put together. The result is the same whatever the order of the folders, and merging again
 * changes nothing. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/campaign/lines.h"

enum { SIGNATURES_SHOWN = 40 };

struct merge {
    struct ddp_mem *mem;
    struct harness_campaign_lines lines;
    struct harness_campaign_head head;
    bool has_head;
    bool *is_shard; /* [head.shard_count] there is one */
    size_t file_count;
};

static bool is_shard_file(const char *path)
{
    const char *name = strrchr(path, '/');
    size_t size;

    name = name == NULL ? path : name + 1;
    size = strlen(name);
    return strncmp(name, "shard.", 6) == 0 && size > 4 && strcmp(name + size - 4, ".txt") == 0;
}

static ddp_status take_file(void *context, const char *path, struct ddp_err *err)
{
    struct merge *merge = context;
    struct harness_campaign_head head;
    size_t good_bytes;

    if (!is_shard_file(path)) {
        return DDP_OK;
    }
    DDP_TRY(harness_campaign_lines_read(&merge->lines, path, &head, &good_bytes, err));
    if (merge->has_head && (!harness_campaign_head_is_same(&merge->head, &head) ||
                            merge->head.shard_count != head.shard_count)) {
        return ddp_err_set(err, DDP_E_STATE, "%s is of another campaign than the files before it",
                           path);
    }
    if (!merge->has_head) {
        merge->head = head;
        merge->has_head = true;
        merge->is_shard = ddp_mem_array(merge->mem, head.shard_count, sizeof *merge->is_shard);
        if (merge->is_shard == NULL) {
            return DDP_E_NOMEM;
        }
    }
    merge->is_shard[head.shard] = true;
    merge->file_count++;
    return DDP_OK;
}

static ddp_status write_results(const struct merge *merge, const char *out_dir, struct ddp_err *err)
{
    struct harness_campaign_head head = merge->head;
    struct ddp_text text;
    char path[4096];
    ddp_status status;

    head.shard_count = 0;
    ddp_text_init(&text, ddp_mem_system());
    harness_campaign_head_print(&head, &text);
    for (size_t i = 0; i < merge->lines.count; i++) {
        harness_campaign_line_print(&merge->lines.items[i], &text);
    }
    (void)snprintf(path, sizeof path, "%s/results.txt", out_dir);
    status = ddp_files_make_dirs(out_dir, err);
    if (status == DDP_OK) {
        status = text.is_failed ? DDP_E_NOMEM
                                : ddp_files_write_atomic(ddp_files_system(), path, text.data,
                                                         text.size_bytes, err);
    }
    ddp_text_fini(&text);
    return status;
}

/* One file of a failed case, from the first folder that has it. */
static ddp_status copy_failed(const struct merge *merge, const char *const *dirs, size_t dir_count,
                              const char *out_dir, const struct harness_campaign_result *result,
                              const char *name, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    char folder[64];
    char to[4096];

    (void)snprintf(folder, sizeof folder, "failed/%08" PRIu64 ".%s", result->number,
                   harness_driver_name(result->driver));
    (void)snprintf(to, sizeof to, "%s/%s", out_dir, folder);
    DDP_TRY(ddp_files_make_dirs(to, err));
    (void)snprintf(to + strlen(to), sizeof to - strlen(to), "/%s", name);
    for (size_t i = 0; i < dir_count; i++) {
        char from[4096];
        void *data = NULL;
        size_t size_bytes = 0;

        (void)snprintf(from, sizeof from, "%s/%s/%s", dirs[i], folder, name);
        if (strcmp(from, to) != 0 &&
            files->ops->read_all(files, from, merge->mem, &data, &size_bytes, NULL) == DDP_OK) {
            ddp_status status = ddp_files_write_atomic(files, to, data, size_bytes, err);

            ddp_mem_free(merge->mem, data);
            return status;
        }
    }
    return DDP_OK;
}

static int compare_texts(const void *left, const void *right)
{
    const struct harness_campaign_result *a = *(const struct harness_campaign_result *const *)left;
    const struct harness_campaign_result *b = *(const struct harness_campaign_result *const *)right;
    int order = strcmp(a->text, b->text);

    return order != 0 ? order : a->number < b->number ? -1 : a->number > b->number;
}

/* A group of failures with one signature. */
struct group {
    const struct harness_campaign_result *first;
    size_t count;
};

static int compare_groups(const void *left, const void *right)
{
    const struct group *a = left;
    const struct group *b = right;

    if (a->count != b->count) {
        return a->count > b->count ? -1 : 1;
    }
    return strcmp(a->first->text, b->first->text);
}

/* Failures by signature, the most frequent first, each with its first case. */
static ddp_status print_failures(const struct merge *merge, const char *out_dir,
                                 struct ddp_text *out)
{
    const struct harness_campaign_result **failures;
    struct group *groups;
    size_t count = 0;
    size_t group_count = 0;

    failures = ddp_mem_array(merge->mem, merge->lines.count, sizeof(*failures));
    groups = ddp_mem_array(merge->mem, merge->lines.count, sizeof *groups);
    if (failures == NULL || groups == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < merge->lines.count; i++) {
        if (merge->lines.items[i].outcome != HARNESS_OUTCOME_PASS) {
            failures[count++] = &merge->lines.items[i];
        }
    }
    qsort((void *)failures, count, sizeof(*failures), compare_texts);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(failures[i]->text, failures[i - 1]->text) != 0) {
            groups[group_count++].first = failures[i];
        }
        groups[group_count - 1].count++;
    }
    qsort(groups, group_count, sizeof *groups, compare_groups);
    for (size_t i = 0; i < group_count && i < SIGNATURES_SHOWN; i++) {
        ddp_text_add(out, "%6zu x %s\n", groups[i].count, groups[i].first->text);
        if (harness_campaign_is_wrong(groups[i].first)) {
            ddp_text_add(out, "         first: %s/failed/%08" PRIu64 ".%s/plan.yaml\n", out_dir,
                         groups[i].first->number, harness_driver_name(groups[i].first->driver));
        }
    }
    if (group_count > SIGNATURES_SHOWN) {
        ddp_text_add(out, "         and %zu more signatures\n", group_count - SIGNATURES_SHOWN);
    }
    return DDP_OK;
}

/* Cases of a shard: 0 <= shard + k * shard_count < case_count. */
static uint64_t shard_cases(const struct harness_campaign_head *head, uint32_t shard)
{
    return shard >= head->case_count ? 0 : (head->case_count - shard - 1) / head->shard_count + 1;
}

/* Shards that no folder has, if all are due, and the answers that the due ones lack. */
static void print_missing(const struct merge *merge, bool are_all_due,
                          struct harness_campaign_summary *summary, struct ddp_text *out)
{
    uint64_t wanted = 0;

    for (uint32_t shard = 0; shard < merge->head.shard_count; shard++) {
        if (are_all_due || merge->is_shard[shard]) {
            wanted +=
                shard_cases(&merge->head, shard) * harness_campaign_head_drivers(&merge->head);
        }
    }
    summary->missing_count = wanted - merge->lines.count;
    for (uint32_t shard = 0; are_all_due && shard < merge->head.shard_count; shard++) {
        if (!merge->is_shard[shard]) {
            ddp_text_add(out, "shard %" PRIu32 "/%" PRIu32 " is missing\n", shard,
                         merge->head.shard_count);
        }
    }
    if (summary->missing_count > 0) {
        ddp_text_add(out, "%" PRIu64 " of %" PRIu64 " answers are missing; --resume goes on\n",
                     summary->missing_count, wanted);
    }
}

/* A case that both drivers answer rightly must be answered alike. */
static void compare_drivers(const struct merge *merge, struct harness_campaign_summary *summary,
                            struct ddp_text *out)
{
    for (size_t i = 1; i < merge->lines.count; i++) {
        const struct harness_campaign_result *a = &merge->lines.items[i - 1];
        const struct harness_campaign_result *b = &merge->lines.items[i];

        if (a->number == b->number && a->outcome == HARNESS_OUTCOME_PASS &&
            b->outcome == HARNESS_OUTCOME_PASS && strcmp(a->text, b->text) != 0) {
            ddp_text_add(out, "case %" PRIu64 " differs: %s on %s, %s on %s\n", a->number, a->text,
                         harness_driver_name(a->driver), b->text, harness_driver_name(b->driver));
            summary->outcome = harness_outcome_worse(summary->outcome, HARNESS_OUTCOME_FAIL);
        }
    }
}

static ddp_status conclude(struct merge *merge, const char *const *dirs, size_t dir_count,
                           const char *out_dir, struct harness_campaign_summary *summary,
                           struct ddp_text *out, struct ddp_err *err)
{
    summary->outcome = HARNESS_OUTCOME_PASS;
    for (size_t i = 0; i < merge->lines.count; i++) {
        const struct harness_campaign_result *result = &merge->lines.items[i];

        summary->counts[result->outcome]++;
        if (!harness_campaign_is_wrong(result)) {
            continue;
        }
        summary->outcome = harness_outcome_worse(summary->outcome, result->outcome);
        if (out_dir != NULL) {
            DDP_TRY(copy_failed(merge, dirs, dir_count, out_dir, result, "plan.yaml", err));
            DDP_TRY(copy_failed(merge, dirs, dir_count, out_dir, result, "signature.txt", err));
        }
    }
    if (summary->counts[HARNESS_OUTCOME_SKIP] == merge->lines.count && merge->lines.count > 0) {
        summary->outcome = HARNESS_OUTCOME_SKIP;
    }
    summary->case_count = merge->lines.count;
    print_missing(merge, out_dir != NULL, summary, out);
    compare_drivers(merge, summary, out);
    DDP_TRY(print_failures(merge, out_dir != NULL ? out_dir : dirs[0], out));
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}

ddp_status harness_campaign_merge(const char *const *dirs, size_t dir_count, const char *out_dir,
                                  struct harness_campaign_summary *out_summary,
                                  struct ddp_text *summary, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    struct merge merge = {.has_head = false};
    struct ddp_mem_pool *pool;
    ddp_status status = DDP_OK;

    memset(out_summary, 0, sizeof *out_summary);
    DDP_TRY(ddp_mem_pool_create(&pool));
    merge.mem = ddp_mem_pool_mem(pool);
    merge.lines.mem = merge.mem;
    for (size_t i = 0; status == DDP_OK && i < dir_count; i++) {
        status = files->ops->each(files, dirs[i], take_file, &merge, err);
    }
    if (status == DDP_OK && merge.file_count == 0) {
        status = ddp_err_set(err, DDP_E_NOT_FOUND, "%s has no shard of a campaign", dirs[0]);
    }
    status = status == DDP_OK ? harness_campaign_lines_sort(&merge.lines, err) : status;
    if (status == DDP_OK && out_dir != NULL) {
        status = write_results(&merge, out_dir, err);
    }
    if (status == DDP_OK) {
        status = conclude(&merge, dirs, dir_count, out_dir, out_summary, summary, err);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}
