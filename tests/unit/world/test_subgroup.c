/* Groups of some ranks beside the world's: collectives of their own, and models of their own. */
#include <string.h>
#include <unistd.h>

#include "ddpcore/ddp/ddp.h"
#include "ddpcore/ddp/drift.h"
#include "ddpcore/hook/hooks.h"
#include "ddpcore/world/state.h"
#include "ddpcore/world/subgroup.h"
#include "tests/ct.h"
#include "tests/unit/world/world_ranks.h"

static ddp_status sum_up(struct ddp_group *group, float *value)
{
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .redop = DDP_REDOP_SUM,
                                       .dtype = DDP_DTYPE_F32,
                                       .input = value,
                                       .output = value,
                                       .elem_count = 1};

    return ddp_group_run(group, &args);
}

static int use_two_groups(struct ddp_world *world, const struct plan *plan)
{
    const uint32_t rank = world->where.rank;
    const uint32_t sides[2][3] = {{0, 2, 4}, {1, 3, 5}};
    const uint32_t *side = sides[rank % 2];
    const uint32_t falling[2] = {1, 0};
    struct ddp_group group;
    struct ddp_err err = {{0}};

    (void)plan;
    HOLDS(ddp_subgroup_open(world, "falling", falling, 2, &group, &err) == DDP_E_INVALID);
    HOLDS(ddp_subgroup_open(world, "", side, 3, &group, &err) == DDP_E_INVALID);
    HOLDS(ddp_subgroup_open(world, "others", sides[(rank + 1) % 2], 3, &group, &err) ==
          DDP_E_MEMBER);
    HOLDS(ddp_subgroup_open(world, rank % 2 == 0 ? "even" : "odd", side, 3, &group, &err) ==
          DDP_OK);
    HOLDS(group.coll->member == rank / 2 && group.coll->member_count == 3);
    HOLDS(group.coll->comm != world->group.coll->comm);
    for (int round = 0; round < 20; round++) {
        float own = (float)rank;
        float all = 1.0F;

        /* Members of one group come in the same order; the two groups do not wait for each other.
         */
        if (rank % 2 == 0) {
            HOLDS(sum_up(&group, &own) == DDP_OK);
            HOLDS(sum_up(&world->group, &all) == DDP_OK);
        } else {
            HOLDS(sum_up(&world->group, &all) == DDP_OK);
            HOLDS(sum_up(&group, &own) == DDP_OK);
        }
        HOLDS(own == (rank % 2 == 0 ? 6.0F : 9.0F) && all == 6.0F);
    }
    ddp_group_fini(&group);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

CT_TEST(subgroup, two_groups_beside_the_world)
{
    run_plan(&(struct plan){6, 0, AFTER_BACKWARD, use_two_groups});
}

/* Whether this process has a group's shared segment. */
static bool has_segment(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    bool is_found = false;

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        is_found = is_found || strstr(line, "memfd:ddp-group") != NULL;
    }
    return maps == NULL || fclose(maps) != 0 || is_found;
}

static int use_two_groups_over_sockets(struct ddp_world *world, const struct plan *plan)
{
    const uint32_t sides[2][2] = {{0, 2}, {1, 3}};
    const uint32_t side = world->where.rank % 2;
    float own = (float)world->where.rank;
    struct ddp_group group;
    struct ddp_err err = {{0}};

    (void)plan;
    HOLDS(!has_segment());
    HOLDS(ddp_subgroup_open(world, side == 0 ? "even" : "odd", sides[side], 2, &group, &err) ==
          DDP_OK);
    HOLDS(!has_segment());
    HOLDS(sum_up(&group, &own) == DDP_OK);
    HOLDS(own == (side == 0 ? 2.0F : 4.0F));
    ddp_group_fini(&group);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

/* Members on different hosts share no memory. */
CT_TEST(subgroup, goes_by_the_transport_of_the_world)
{
    run_plan_over(&(struct plan){4, 0, AFTER_BACKWARD, use_two_groups_over_sockets},
                  DDP_WORLD_TRANSPORT_TCP);
}

/* --- a model for each group ------------------------------------------------------------------- */

enum { SIDE_RANKS = 3, PARAM_COUNT = 2, ELEMS = 8 };

struct side {
    struct ddp_world *world;
    const uint32_t *ranks; /* [SIDE_RANKS] */
    struct ddp_group group;
    struct ddp_hook *hook; /* or NULL */
    struct ddp *ddp;
    struct ddp_param params[PARAM_COUNT];
    float data[PARAM_COUNT][ELEMS], grad[PARAM_COUNT][ELEMS];
};

static bool open_side(struct side *side, struct ddp_world *world, const char *name)
{
    static const uint32_t sides[2][SIDE_RANKS] = {{0, 2, 4}, {1, 3, 5}};
    struct ddp_err err = {{0}};
    char whole[16];

    memset(side, 0, sizeof(*side));
    side->world = world;
    side->ranks = sides[world->where.rank % 2];
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        side->params[p] = (struct ddp_param){.name = p == 0 ? "weight" : "bias",
                                             .data = side->data[p],
                                             .grad = side->grad[p],
                                             .elem_count = ELEMS,
                                             .ndim = 1,
                                             .shape = {ELEMS}};
        side->data[p][0] = (float)world->where.rank + 1;
    }
    (void)snprintf(whole, sizeof(whole), "%s%u", name, world->where.rank % 2);
    return ddp_subgroup_open(world, whole, side->ranks, SIDE_RANKS, &side->group, &err) == DDP_OK;
}

static ddp_status wrap_side(struct side *side, enum ddp_bucket_order order, struct ddp_err *err)
{
    const struct ddp_config config = {.bucket_cap_bytes = 16,
                                      .first_bucket_cap_bytes = 16,
                                      .bucket_order = order,
                                      .hook = side->hook};
    const struct ddp_model model = {.params = side->params, .param_count = PARAM_COUNT};

    return ddp_create(&side->group, side->world->device, &model, &config, &side->ddp, err);
}

static float gradient_of(uint32_t rank, uint32_t step, size_t param, size_t elem)
{
    return (float)((int)((rank * 7 + step * 5 + param * 3 + elem) % 16) * 3);
}

static ddp_status step_side(struct side *side, uint32_t step)
{
    DDP_TRY(ddp_forward_begin(side->ddp));
    DDP_TRY(ddp_backward_begin(side->ddp, NULL));
    for (size_t p = PARAM_COUNT; p-- > 0;) {
        for (size_t i = 0; i < ELEMS; i++) {
            side->grad[p][i] = gradient_of(side->world->where.rank, step, p, i);
        }
        DDP_TRY(ddp_grad_ready(side->ddp, p));
    }
    return ddp_backward_end(side->ddp);
}

/* Over the members of the group alone. */
static bool is_side_average(const struct side *side, uint32_t step)
{
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        for (size_t i = 0; i < ELEMS; i++) {
            float sum = 0;

            for (uint32_t m = 0; m < SIDE_RANKS; m++) {
                sum += gradient_of(side->ranks[m], step, p, i);
            }
            if (!(side->grad[p][i] - sum / SIDE_RANKS < 1e-4F) ||
                !(sum / SIDE_RANKS - side->grad[p][i] < 1e-4F)) {
                return false;
            }
        }
    }
    return true;
}

static int train_sides(struct ddp_world *world, const struct plan *plan)
{
    struct ddp_err err = {{0}};
    struct side side;
    float all = 1;

    (void)plan;
    HOLDS(open_side(&side, world, "train"));
    /* Each group in its own way: what one does is nothing to the other. */
    HOLDS(
        wrap_side(&side,
                  world->where.rank % 2 == 0 ? DDP_BUCKET_ORDER_REVERSE : DDP_BUCKET_ORDER_PYTORCH,
                  &err) == DDP_OK);
    HOLDS(side.data[0][0] == (float)side.ranks[0] + 1); /* the first member's */
    for (uint32_t step = 0; step < 4 + 2 * (world->where.rank % 2); step++) {
        HOLDS(step_side(&side, step) == DDP_OK);
        HOLDS(is_side_average(&side, step));
    }
    HOLDS(sum_up(&world->group, &all) == DDP_OK && all == 6.0F);
    ddp_destroy(side.ddp);
    ddp_group_fini(&side.group);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

CT_TEST(subgroup, each_trains_a_model_of_its_own)
{
    run_plan(&(struct plan){6, 0, AFTER_BACKWARD, train_sides});
}

/* Rank 5 is member 2 of its group: people know it as rank 5. */
static int name_global_ranks(struct ddp_world *world, const struct plan *plan)
{
    const bool is_odd = world->where.rank % 2 == 1;
    struct ddp_err err = {{0}};
    struct ddp_drift drift;
    struct side side;

    (void)plan;
    HOLDS(open_side(&side, world, "drift"));
    HOLDS(wrap_side(&side, DDP_BUCKET_ORDER_REVERSE, &err) == DDP_OK);
    side.data[1][3] += world->where.rank == 5 ? 1.0F : 0.0F;
    HOLDS(ddp_check_drift(side.ddp, &drift) == (is_odd ? DDP_E_MODEL : DDP_OK));
    HOLDS(drift.rank == (is_odd ? 5 : -1));
    ddp_destroy(side.ddp);
    ddp_group_fini(&side.group);

    HOLDS(open_side(&side, world, "model"));
    side.params[1].elem_count -= world->where.rank == 5 ? 1 : 0;
    side.params[1].shape[0] = side.params[1].elem_count;
    HOLDS(wrap_side(&side, DDP_BUCKET_ORDER_REVERSE, &err) == (is_odd ? DDP_E_MODEL : DDP_OK));
    HOLDS(!is_odd || side.group.failure.rank == 5);
    HOLDS(!is_odd ||
          strstr(err.text, "rank 5 has parameter 1 \"bias\" f32[7], rank 1 has ") != NULL);
    HOLDS(is_odd || (step_side(&side, 0) == DDP_OK && is_side_average(&side, 0)));
    ddp_destroy(side.ddp);
    ddp_group_fini(&side.group);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return 0;
}

CT_TEST(subgroup, differences_are_those_of_global_ranks)
{
    run_plan(&(struct plan){6, 0, AFTER_BACKWARD, name_global_ranks});
}

/* What the hook has left out so far of a parameter, on this rank. */
static float *errors_of(const struct side *side, size_t param)
{
    size_t count = 0;
    const struct ddp_param *state = ddp_hook_state(side->ddp, &count);

    return param < PARAM_COUNT && 1 + 2 * param < count ? state[1 + 2 * param].data : NULL;
}

/* Both groups save at the same time, each in a file of its own: rank 1 writes that of the odd ones.
 * Members 1 and 2 are other ranks of the world. */
static int save_sides(struct ddp_world *world, const struct plan *plan)
{
    struct ddp_powersgd_config powersgd;
    struct ddp_world_state state = {.tensor_count = PARAM_COUNT, .steps_done = 4};
    struct ddp_err err = {{0}};
    float kept[ELEMS];
    struct side side;
    char path[64];

    (void)plan;
    (void)snprintf(path, sizeof(path), "/tmp/ddprove_test_side.%d.%u", (int)getppid(),
                   world->where.rank % 2);
    ddp_powersgd_defaults(&powersgd);
    powersgd.start_iteration = 2;
    HOLDS(open_side(&side, world, "save"));
    HOLDS(ddp_hook_powersgd_create(world->env.mem, &powersgd, &side.hook) == DDP_OK);
    HOLDS(wrap_side(&side, DDP_BUCKET_ORDER_REVERSE, &err) == DDP_OK);
    for (uint32_t step = 0; step < 4; step++) {
        HOLDS(step_side(&side, step) == DDP_OK);
    }
    state.tensors = side.params;
    state.ddp = side.ddp;
    memcpy(kept, errors_of(&side, 1), sizeof(kept));
    HOLDS(ddp_world_save(world, path, &state, &err) == DDP_OK);
    HOLDS(ddp_group_barrier(&side.group) == DDP_OK);
    HOLDS(access(path, R_OK) == 0);
    memset(errors_of(&side, 1), 0, sizeof(kept));
    HOLDS(ddp_world_load(world, path, &state, &err) == DDP_OK);
    HOLDS(memcmp(errors_of(&side, 1), kept, sizeof(kept)) == 0);
    ddp_destroy(side.ddp);
    ddp_hook_destroy(side.hook);
    ddp_group_fini(&side.group);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return world->where.rank < 2 ? unlink(path) : 0;
}

CT_TEST(subgroup, hook_state_is_of_its_members)
{
    run_plan(&(struct plan){6, 0, AFTER_BACKWARD, save_sides});
}
