/* Rows of what ranks post beside the buckets: collectives of their own, groups of some ranks, looks
 * at whether replicas drift; and of which parameters come last. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "harness/grammar/draw.h"
#include "harness/grammar/job.h"
#include "harness/plan/group.h"
#include "harness/plan/posted.h"

/* " by <algorithm>", or nothing: one algorithm for each kind of a job. Those of all-reduces and
 * all-gathers are keys of their own. */
static void add_algorithm(const struct harness_job *job, const char *kind, char *text,
                          size_t size_bytes)
{
    const struct ddp_algorithm *table;
    size_t count = 0;
    size_t fitting = 0;

    if (strcmp(kind, "all_reduce") == 0 || strcmp(kind, "all_gather") == 0) {
        return;
    }
    table = ddp_algorithm_table(&count);
    for (size_t i = 0; i < count; i++) {
        fitting += strcmp(ddp_coll_kind_name(table[i].kind), kind) == 0;
    }
    for (size_t i = 0, k = 0; i < count; i++) {
        if (strcmp(ddp_coll_kind_name(table[i].kind), kind) == 0 &&
            k++ == job->seed % (fitting + 1)) {
            size_t used = strlen(text);

            (void)snprintf(text + used, size_bytes - used, " by %s", table[i].name);
        }
    }
}

/* Under join nothing mirrors them. */
void grammar_JOB_posts(struct harness_draw *draw)
{
    static const char *const kinds[] = {"reduce_scatter", "reduce",     "all_to_all", "all_gather",
                                        "broadcast",      "all_reduce", "barrier"};
    static const char *const dtypes[] = {"f32", "f16", "bf16", "i32", "i64"};
    static const char *const redops[] = {"sum", "max", "min"};
    enum { KIND_COUNT = 7, TEXT_BYTES = 96, TEXTS_MAX = 3 };
    struct harness_job *job = &draw->plan->job;
    size_t count = harness_draw_between(draw, 1, TEXTS_MAX);

    if (job->join.is_set) {
        return;
    }
    job->posts.items = harness_draw_array(draw, TEXTS_MAX, sizeof job->posts.items[0]);
    for (size_t i = 0; job->posts.items != NULL && i < count; i++) {
        char *text = harness_draw_array(draw, TEXT_BYTES, 1);
        size_t kind = harness_draw_below(draw, KIND_COUNT);
        bool is_sum = kind < 2 || kind == 5, has_root = kind == 1 || kind == 4;
        char root[32] = "";

        if (text == NULL) {
            return;
        }
        if (has_root) {
            (void)snprintf(root, sizeof root, " root %u",
                           (unsigned)harness_draw_below(draw, job->ranks));
        }
        if (kind + 1 == KIND_COUNT) {
            (void)snprintf(text, TEXT_BYTES, "%s", kinds[kind]);
        } else {
            (void)snprintf(text, TEXT_BYTES, "%s %s %u%s%s%s%s", kinds[kind],
                           dtypes[harness_draw_below(draw, 5)],
                           (unsigned)harness_draw_below(draw, 70), is_sum ? " " : "",
                           is_sum ? redops[harness_draw_below(draw, 3)] : "", root,
                           harness_draw_chance(draw, 40) ? " in_place" : "");
        }
        add_algorithm(job, kinds[kind], text, TEXT_BYTES);
        job->posts.items[i] = text;
        job->posts.count++;
    }
}

/* "a 0 2 5": each rank as likely, at least one. */
static const char *draw_group(struct harness_draw *draw, size_t index)
{
    enum { TEXT_BYTES = 96 };
    const struct harness_job *job = &draw->plan->job;
    const uint32_t sure = (uint32_t)harness_draw_below(draw, job->ranks);
    char *text = harness_draw_array(draw, TEXT_BYTES, 1);
    int used;

    if (text == NULL) {
        return "";
    }
    used = snprintf(text, TEXT_BYTES, "%c", (char)('a' + index));
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        if (rank == sure || harness_draw_chance(draw, 50)) {
            used += snprintf(text + used, (size_t)(TEXT_BYTES - used), " %u", rank);
        }
    }
    return text;
}

/* Into a group whose members are enough for its root. */
static void move_post(struct harness_draw *draw, const char **inout_text)
{
    const struct harness_job *job = &draw->plan->job;
    const char *group_text = job->groups.items[harness_draw_below(draw, job->groups.count)];
    struct harness_posted posted;
    struct harness_group group;
    size_t size_bytes = strlen(*inout_text) + sizeof " in " + HARNESS_GROUP_NAME_BYTES;
    char *text = harness_draw_array(draw, size_bytes, 1);

    if (text == NULL || harness_posted_parse(*inout_text, &posted, NULL) != DDP_OK ||
        harness_group_parse(group_text, &group, NULL) != DDP_OK ||
        posted.root >= group.rank_count) {
        return;
    }
    (void)snprintf(text, size_bytes, "%s in %s", *inout_text, group.name);
    *inout_text = text;
}

/* Groups that overlap, or not, and some in which nothing is posted. */
void grammar_JOB_groups(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;
    const size_t count = harness_draw_between(draw, 1, 3);

    if (job->posts.count == 0) {
        return;
    }
    job->groups.items = harness_draw_array(draw, count, sizeof job->groups.items[0]);
    for (size_t i = 0; job->groups.items != NULL && i < count; i++) {
        job->groups.items[i] = draw_group(draw, i);
        job->groups.count++;
    }
    for (size_t i = 0; job->groups.count > 0 && i < job->posts.count; i++) {
        if (harness_draw_chance(draw, 70)) {
            move_post(draw, &job->posts.items[i]);
        }
    }
}

/* Where ranks hold the same behind every step. */
void grammar_JOB_drift_every(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;

    if (!job->join.is_set && job->hook != HARNESS_HOOK_LOCAL_SGD) {
        job->drift_every = (uint32_t)harness_draw_between(draw, 1, job->steps);
    }
}

/* Any of the model's parameters, from one to all. */
void grammar_JOB_delayed(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;
    const struct ddp_param *params = NULL;
    size_t count = 0;
    const unsigned percent = (unsigned)HARNESS_DRAW_ONE_OF(draw, 20, 50, 100);

    draw->status = harness_grammar_params(draw->mem, job, &params, &count, NULL);
    if (draw->status == DDP_OK) {
        job->delayed.items = harness_draw_array(draw, count, sizeof job->delayed.items[0]);
    }
    for (size_t i = 0; job->delayed.items != NULL && i < count; i++) {
        if (harness_draw_chance(draw, percent)) {
            job->delayed.items[job->delayed.count++] = params[i].name;
        }
    }
}
