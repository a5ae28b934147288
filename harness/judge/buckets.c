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

bool harness_buckets_is_posted_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b)
{
    const bool is_about_buckets = b->op.role == DDP_ROLE_REBUILD || b->op.role == DDP_ROLE_BUCKET;

    (void)paths;
    return is_list(a) && b->op.is_set && is_about_buckets && b->op.seq > a->op.seq &&
           has_list(a, b);
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
