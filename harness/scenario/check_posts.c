/* What a job posts beside the DDP core, and the groups in which it does. */
#include <string.h>

#include "harness/plan/posted.h"
#include "harness/scenario/reader.h"

/* One algorithm a kind: a group has one of each. */
static ddp_status check_post(const struct harness_job *job, size_t index,
                             enum ddp_algorithm_id of_kind[DDP_COLL_KIND_COUNT],
                             struct ddp_err *err)
{
    struct harness_posted posted;
    struct harness_group group;
    uint32_t number, ranks;

    DDP_TRY(harness_posted_parse(job->posts.items[index], &posted, err));
    DDP_TRY(harness_posted_group(&posted, job, &number, &group, err));
    ranks = number > 0 ? group.rank_count : job->ranks;
    if (posted.root >= ranks) {
        return ddp_err_set(err, DDP_E_INVALID, "root %u of %u ranks", posted.root, ranks);
    }
    if (posted.elem_count * job->ranks > 4 * HARNESS_POSTED_ELEMS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "%llu elements for each of %u ranks: too many",
                           (unsigned long long)posted.elem_count, job->ranks);
    }
    if (posted.algorithm != DDP_ALGORITHM_NONE && of_kind[posted.kind] != DDP_ALGORITHM_NONE &&
        of_kind[posted.kind] != posted.algorithm) {
        return ddp_err_set(err, DDP_E_INVALID, "a job has one algorithm for each kind");
    }
    if (posted.algorithm != DDP_ALGORITHM_NONE) {
        of_kind[posted.kind] = posted.algorithm;
    }
    return DDP_OK;
}

/* Names are told apart, ranks are there. */
static ddp_status check_group(const struct harness_job *job, size_t index, struct ddp_err *err)
{
    struct harness_group group, other;

    DDP_TRY(harness_group_parse(job->groups.items[index], &group, err));
    if (group.ranks[group.rank_count - 1] >= job->ranks) {
        return ddp_err_set(err, DDP_E_INVALID, "rank %u of %u ranks",
                           group.ranks[group.rank_count - 1], job->ranks);
    }
    for (size_t i = 0; i < index; i++) {
        DDP_TRY(harness_group_parse(job->groups.items[i], &other, err));
        if (strcmp(other.name, group.name) == 0) {
            return ddp_err_set(err, DDP_E_INVALID, "another group is called %s, too", group.name);
        }
    }
    return DDP_OK;
}

static ddp_status check_groups(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_groups);
    struct ddp_err err = {{0}};

    if (job->groups.count == 0) {
        return DDP_OK;
    }
    node = node != NULL ? node : map;
    if (job->groups.count > HARNESS_GROUPS_MAX) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID, "at most %u groups, not %zu",
                                 HARNESS_GROUPS_MAX, job->groups.count);
    }
    if (job->collective.engine != HARNESS_ENGINE_SCHEDULE) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "groups of some ranks run by schedules: collective %s is none",
                                 harness_collective_name(job->collective));
    }
    for (size_t i = 0; i < job->groups.count; i++) {
        if (check_group(job, i, &err) != DDP_OK) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID, "groups, entry %zu: %s", i,
                                     err.text);
        }
    }
    return DDP_OK;
}

ddp_status harness_scenario_check_posts(const struct harness_reader *reader,
                                        const struct harness_yaml_node *map,
                                        const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_posts);
    enum ddp_algorithm_id of_kind[DDP_COLL_KIND_COUNT] = {DDP_ALGORITHM_NONE};
    struct ddp_err err = {{0}};

    DDP_TRY(check_groups(reader, map, job));
    if (job->posts.count == 0) {
        return DDP_OK;
    }
    node = node != NULL ? node : map;
    if (job->posts.count > HARNESS_POSTED_MAX) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID, "at most %u posts, not %zu",
                                 HARNESS_POSTED_MAX, job->posts.count);
    }
    if (job->join.is_set || job->collective.engine != HARNESS_ENGINE_SCHEDULE) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 job->join.is_set
                                     ? "under join nothing mirrors posts: leave one of them out"
                                     : "posts are run by schedules: collective %s is none",
                                 harness_collective_name(job->collective));
    }
    for (size_t i = 0; i < job->posts.count; i++) {
        if (check_post(job, i, of_kind, &err) != DDP_OK) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID, "posts, entry %zu: %s", i,
                                     err.text);
        }
    }
    return DDP_OK;
}
