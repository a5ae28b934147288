/* What a world's config says of its schedules reaches the groups: seen by how sums are rounded. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/world/subgroup.h"
#include "tests/ct.h"
#include "tests/unit/world/world_ranks.h"

enum { RANKS = 4, PATH_BYTES = 64 };

static ddp_status sum_up(struct ddp_group *group, float *values, size_t elem_count)
{
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .redop = DDP_REDOP_SUM,
                                       .dtype = DDP_DTYPE_F32,
                                       .input = values,
                                       .output = values,
                                       .elem_count = elem_count};

    return ddp_group_run(group, &args);
}

/* --- choices that were learned ---------------------------------------------------------------- */

static void write_choices(char *path, const char *choices)
{
    char machine[256];
    int fd;
    FILE *file;

    (void)snprintf(path, PATH_BYTES, "/tmp/ddprove_test_choices.XXXXXX");
    fd = mkstemp(path);
    CT_REQUIRE(fd >= 0);
    file = fdopen(fd, "w");
    CT_REQUIRE(file != NULL);
    ddp_tuned_machine(machine, sizeof(machine));
    (void)fprintf(file, "ddprove collectives 1\nmachine %s\n%s", machine, choices);
    CT_REQUIRE(fclose(file) == 0);
}

/* (1 + 1e8) + (-1e8 + 1) = 0 where neighbours come together first; ((1 + 1e8) - 1e8) + 1 = 1 where
 * one rank after the other does. */
static int sum_by_size(struct ddp_world *world, const struct plan *plan)
{
    static const float value[RANKS] = {1.0F, 1e8F, -1e8F, 1.0F};
    const uint32_t pair[2] = {0, 2};
    const float own = value[world->where.rank];
    float small[1] = {own}, large[2] = {own, own};
    struct ddp_group group;
    struct ddp_err err = {{0}};

    (void)plan;
    HOLDS(sum_up(&world->group, small, 1) == DDP_OK && sum_up(&world->group, large, 2) == DDP_OK);
    HOLDS(small[0] == 0.0F && large[0] == 1.0F && large[1] == 1.0F);
    if (world->where.rank % 2 == 0) { /* nothing was learned of two */
        float both = 1.0F;

        HOLDS(ddp_subgroup_open(world, "pair", pair, 2, &group, &err) == DDP_OK);
        HOLDS(sum_up(&group, &both, 1) == DDP_OK && both == 2.0F);
        ddp_group_fini(&group);
    }
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

CT_TEST(world_choices, are_those_that_rank_0_has_read)
{
    char path[PATH_BYTES];

    write_choices(path, "ranks 4 bytes 4 algorithm recursive_doubling segment 0\n"
                        "ranks 4 bytes 64 algorithm linear segment 0\n");
    run_plan_in(&(struct plan){RANKS, 0, AFTER_BACKWARD, sum_by_size},
                &(struct ddp_world_config){.tuned_path = path});
    CT_CHECK(unlink(path) == 0);
}

/* A file that is longer than a value of the store. */
CT_TEST(world_choices, come_in_parts)
{
    char path[PATH_BYTES], choices[8192];
    size_t length = 0;

    for (unsigned ranks = 2; ranks <= 4; ranks++) {
        for (unsigned i = 0; i < 30; i++) {
            length +=
                (size_t)snprintf(choices + length, sizeof(choices) - length,
                                 "ranks %u bytes %u algorithm %s segment 1048576\n", ranks, 4 + i,
                                 ranks == 4 && i == 0 ? "recursive_doubling" : "linear");
        }
    }
    CT_REQUIRE(length > DDP_STORE_VALUE_BYTES_MAX && length < sizeof(choices));
    write_choices(path, choices);
    run_plan_in(&(struct plan){RANKS, 0, AFTER_BACKWARD, sum_by_size},
                &(struct ddp_world_config){.tuned_path = path});
    CT_CHECK(unlink(path) == 0);
}

CT_TEST(world_choices, every_rank_learns_why_there_are_none)
{
    char path[PATH_BYTES];

    refuse_world(RANKS, "ddprove coll tune learns it",
                 &(struct ddp_world_config){.tuned_path = "/nowhere/collectives.txt"});
    write_choices(path, "ranks 4 bytes 4 algorithm nonsense segment 0\n");
    refuse_world(RANKS, "line 3: there is no all-reduce",
                 &(struct ddp_world_config){.tuned_path = path});
    CT_CHECK(unlink(path) == 0);
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Nodes of ranks 0, 2 and 1, 3: (1e8 - 1e8) + (1 + 1) = 2. All on one: ((1e8 + 1) - 1e8) + 1 = 1,
 * or 0 by pairs. */
static int sum_on_nodes(struct ddp_world *world, const struct plan *plan)
{
    static const float value[RANKS] = {1e8F, 1.0F, -1e8F, 1.0F};
    const uint32_t all[RANKS] = {0, 1, 2, 3};
    float sum = value[world->where.rank];
    struct ddp_group again;
    struct ddp_err err = {{0}};

    (void)plan;
    HOLDS(sum_up(&world->group, &sum, 1) == DDP_OK && sum == 2.0F);
    /* A group of some ranks has the algorithm and the nodes, too. */
    sum = value[world->where.rank];
    HOLDS(ddp_subgroup_open(world, "again", all, RANKS, &again, &err) == DDP_OK);
    HOLDS(sum_up(&again, &sum, 1) == DDP_OK && sum == 2.0F);
    ddp_group_fini(&again);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

CT_TEST(world_nodes, are_the_callers)
{
    const size_t nodes[RANKS] = {0, 1, 0, 1};

    run_plan_in(
        &(struct plan){RANKS, 0, AFTER_BACKWARD, sum_on_nodes},
        &(struct ddp_world_config){.algorithm = DDP_ALGORITHM_HIERARCHICAL, .node_of_rank = nodes});
}

static int share_a_host(struct ddp_world *world, const struct plan *plan)
{
    float one = 1.0F;

    (void)plan;
    HOLDS(world->node_of_rank != NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        HOLDS(world->node_of_rank[r] == 0);
    }
    HOLDS(sum_up(&world->group, &one, 1) == DDP_OK && one == 4.0F);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

/* tests/transport has ranks on several. */
CT_TEST(world_nodes, are_found_by_address)
{
    run_plan_in(&(struct plan){RANKS, 0, AFTER_BACKWARD, share_a_host},
                &(struct ddp_world_config){.algorithm = DDP_ALGORITHM_HIERARCHICAL,
                                           .transport = DDP_WORLD_TRANSPORT_TCP});
}

/* --- decorators ------------------------------------------------------------------------------- */

static char decorated[64];

static ddp_status note_group(void *context, const char *group, struct ddp_coll *inner,
                             struct ddp_coll **out)
{
    const size_t length = strlen(decorated);

    (void)snprintf(decorated + length, sizeof(decorated) - length, "%s%s ", (const char *)context,
                   group);
    *out = inner;
    return DDP_OK;
}

static int open_a_pair(struct ddp_world *world, const struct plan *plan)
{
    const uint32_t pair[2] = {0, 1};
    struct ddp_group group;
    struct ddp_err err = {{0}};

    (void)plan;
    HOLDS(ddp_subgroup_open(world, "pair", pair, 2, &group, &err) == DDP_OK);
    HOLDS(strcmp(decorated, "+world +pair ") == 0);
    HOLDS(ddp_group_barrier(&group) == DDP_OK);
    ddp_group_fini(&group);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

CT_TEST(world_decorator, is_around_every_group)
{
    char mark[] = "+";

    run_plan_in(&(struct plan){2, 0, AFTER_BACKWARD, open_a_pair},
                &(struct ddp_world_config){.decorate = note_group, .context = mark});
}
