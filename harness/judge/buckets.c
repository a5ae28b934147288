/* What follows from another list of rebuilt buckets. Rank 0 makes the list, so what is wrong with
 * its own, all ranks have; else only those that received another one. */
#include "harness/judge/buckets.h"

static bool is_list(const struct harness_finding *a)
{
    return a->oracle == HARNESS_ORACLE_MODEL && a->op.is_set && a->op.role == DDP_ROLE_REBUILD;
}

static bool has_list(const struct harness_finding *a, const struct harness_finding *b)
{
    DDP_ASSERT(!harness_rank_set_is_empty(&a->culprits));
    return harness_rank_set_has(&a->culprits, 0) || harness_path_is_of(b, a);
}

bool harness_buckets_is_listed_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b)
{
    return is_list(b) && paths->plan->job.join.is_set &&
           a->verdict == HARNESS_VERDICT_DATA_MISSING && a->step < b->step &&
           harness_rank_set_has(&a->culprits, 0) && harness_rank_set_has(&b->culprits, 0);
}

bool harness_buckets_is_posted_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b)
{
    const bool is_about_buckets = b->op.role == DDP_ROLE_REBUILD || b->op.role == DDP_ROLE_BUCKET;

    (void)paths;
    return is_list(a) && b->op.is_set && is_about_buckets && b->op.seq > a->op.seq &&
           has_list(a, b);
}

/* The rank had adopted no list when it posted what b is about, or in that step. */
static bool is_still_first(const struct harness_paths *paths, uint32_t rank,
                           const struct harness_finding *b)
{
    const struct harness_trace_event *const *list;
    const struct harness_trace_event *post;
    size_t count = 0;

    if (rank >= paths->index.world_size) {
        return false; /* there is no trace */
    }
    list = harness_index_list(&paths->index, rank, DDP_EVENT_BUCKET_REBUILT, &count);
    post = harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_POST, b->op.seq);
    return count == 0 || (int64_t)list[0]->entry.step > b->step ||
           (post != NULL && post->entry.index < list[0]->entry.index);
}

/* A rank that left the pass out after which buckets are rebuilt goes on with those that it has. */
bool harness_buckets_is_unlisted(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b)
{
    DDP_ASSERT(a != b);
    for (uint32_t i = 0; i < harness_rank_set_count(&b->culprits); i++) {
        if (!is_still_first(paths, harness_rank_set_at(&b->culprits, i), b)) {
            return false;
        }
    }
    return (a->verdict == HARNESS_VERDICT_MISMATCH_MISSING ||
            a->verdict == HARNESS_VERDICT_DATA_MISSING) &&
           harness_path_is_of(b, a) && a->step < b->step && harness_path_bucket(paths, b) >= 0 &&
           paths->plan->job.bucket_order == HARNESS_BUCKET_ORDER_PYTORCH;
}

bool harness_buckets_is_laid_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    return is_list(a) && b->step >= a->step && harness_path_bucket(paths, b) >= 0 && has_list(a, b);
}

bool harness_buckets_is_refused(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    (void)paths;
    return is_list(a) && b->status == DDP_E_STATE && b->step == a->step && has_list(a, b);
}
