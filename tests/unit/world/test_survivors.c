/* Jobs that go on after ranks have died, and state of each rank. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/ddp/ddp.h"
#include "ddpcore/hook/hooks.h"
#include "ddpcore/world/state.h"
#include "ddpcore/world/subgroup.h"
#include "tests/ct.h"
#include "tests/unit/world/world_ranks.h"

enum { PARAM_COUNT = 2, ELEMS = 8, STEPS = 6 };

/* --- losses ----------------------------------------------------------------------------------- */

struct trainer {
    struct ddp_world *world;
    struct ddp_group *group;
    struct ddp *ddp;
    struct ddp_param params[PARAM_COUNT];
    float data[PARAM_COUNT][ELEMS], grad[PARAM_COUNT][ELEMS];
};

static float gradient_of(uint32_t rank, uint32_t step, size_t param, size_t elem)
{
    return (float)((int)((rank * 7 + step * 5 + param * 3 + elem) % 17) - 8);
}

static ddp_status wrap(struct trainer *trainer)
{
    const struct ddp_config config = {.bucket_cap_bytes = 16, .first_bucket_cap_bytes = 16};
    const struct ddp_model model = {.params = trainer->params, .param_count = PARAM_COUNT};
    struct ddp_err err = {{0}};

    return ddp_create(trainer->group, trainer->world->device, &model, &config, &trainer->ddp, &err);
}

static void die_if(const struct trainer *trainer, const struct plan *plan, uint32_t step,
                   enum when when)
{
    if (step == LOST_STEP && plan->when == when &&
        (plan->dying >> trainer->world->where.rank & 1) != 0) {
        (void)kill(getpid(), SIGKILL);
    }
}

static ddp_status train_step(struct trainer *trainer, const struct plan *plan, uint32_t step)
{
    die_if(trainer, plan, step, BEFORE_FORWARD);
    DDP_TRY(ddp_forward_begin(trainer->ddp));
    DDP_TRY(ddp_backward_begin(trainer->ddp, NULL));
    for (size_t p = PARAM_COUNT; p-- > 0;) {
        for (size_t i = 0; i < ELEMS; i++) {
            trainer->grad[p][i] = gradient_of(trainer->world->where.rank, step, p, i);
        }
        DDP_TRY(ddp_grad_ready(trainer->ddp, p));
        if (p > 0) {
            die_if(trainer, plan, step, AFTER_FIRST_BUCKET);
        }
    }
    DDP_TRY(ddp_backward_end(trainer->ddp));
    die_if(trainer, plan, step, AFTER_BACKWARD);
    if (plan->when == IN_BARRIER) {
        die_if(trainer, plan, step, IN_BARRIER);
        DDP_TRY(ddp_group_barrier(trainer->group));
    }
    return DDP_OK;
}

/* The average over the ranks of a list. */
static bool is_average(const struct trainer *trainer, uint32_t step, const uint32_t *ranks,
                       uint32_t rank_count)
{
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        for (size_t i = 0; i < ELEMS; i++) {
            double sum = 0.0;

            for (uint32_t r = 0; r < rank_count; r++) {
                sum += (double)gradient_of(ranks[r], step, p, i) / rank_count;
            }
            if (!((double)trainer->grad[p][i] - sum < 1e-5) ||
                !(sum - (double)trainer->grad[p][i] < 1e-5)) {
                return false;
            }
        }
    }
    return true;
}

/* The first step that some rank has not done. */
static ddp_status find_first(struct ddp_group *group, uint32_t step, uint32_t *out)
{
    int32_t value = (int32_t)step;
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .redop = DDP_REDOP_MIN,
                                       .dtype = DDP_DTYPE_I32,
                                       .input = &value,
                                       .output = &value,
                                       .elem_count = 1};

    DDP_TRY(ddp_group_run(group, &args));
    *out = (uint32_t)value;
    return DDP_OK;
}

static int train(struct ddp_world *world, const struct plan *plan)
{
    uint32_t ranks[RANKS_MAX], rank_count = plan->world_size;
    uint32_t all[RANKS_MAX], alive_count = 0;
    const struct ddp_lost_group loss = {.group = &world->group,
                                        .ranks = all,
                                        .rank_count = plan->world_size,
                                        .name = "first",
                                        .settle_ns = 10 * DDP_NS_PER_S};
    struct trainer trainer = {.world = world, .group = &world->group};
    uint32_t first = 0;
    struct ddp_group rest;
    struct ddp_err err = {{0}};
    bool is_shrunk = false;

    for (uint32_t r = 0; r < plan->world_size; r++) {
        ranks[r] = all[r] = r;
        alive_count += (plan->dying >> r & 1) == 0;
    }
    for (size_t p = 0; p < PARAM_COUNT; p++) {
        trainer.params[p] = (struct ddp_param){.name = p == 0 ? "weight" : "bias",
                                               .data = trainer.data[p],
                                               .grad = trainer.grad[p],
                                               .elem_count = ELEMS,
                                               .ndim = 1,
                                               .shape = {ELEMS}};
        trainer.data[p][0] = (float)world->where.rank;
    }
    HOLDS(wrap(&trainer) == DDP_OK);
    HOLDS(ddp_world_survivors(world, &loss, ranks, &rank_count, &err) == DDP_E_STATE);
    for (uint32_t step = 0; step < STEPS; step++) {
        const ddp_status status = train_step(&trainer, plan, step);

        if (status == DDP_OK) {
            HOLDS(is_average(&trainer, step, ranks, rank_count));
            continue;
        }
        if ((plan->dying >> world->where.rank & 1) != 0) {
            (void)kill(getpid(), SIGKILL); /* it saw the other one's end first */
        }
        /* Ranks are up to a step apart. */
        HOLDS(!is_shrunk && status == DDP_E_PEER_DIED && step + 1 >= LOST_STEP);
        is_shrunk = true;
        ddp_destroy(trainer.ddp);
        HOLDS(ddp_world_survivors(world, &loss, ranks, &rank_count, &err) == DDP_OK);
        HOLDS(rank_count == alive_count);
        for (uint32_t i = 0; i < rank_count; i++) {
            HOLDS((plan->dying >> ranks[i] & 1) == 0);
        }
        HOLDS(ddp_subgroup_open(world, "rest", ranks, rank_count, &rest, &err) == DDP_OK);
        trainer.group = &rest;
        HOLDS(wrap(&trainer) == DDP_OK);
        HOLDS(find_first(&rest, step, &first) == DDP_OK);
        HOLDS(first <= step && first + 1 >= step);
        step = first - 1; /* again, for those that had it */
    }
    HOLDS(is_shrunk);
    ddp_destroy(trainer.ddp);
    HOLDS(ddp_group_barrier(&rest) == DDP_OK);
    ddp_group_fini(&rest);
    return 0;
}

/* PyTorch 17113 (survivors never end), 60820 of ray (rank 0 may be lost, too): whatever the phase.
 */
CT_TEST(survivors, train_on_after_a_loss)
{
    for (uint32_t when = AFTER_FIRST_BUCKET; when <= IN_BARRIER; when++) {
        run_plan(&(struct plan){4, 1u << 2, (enum when)when, train});
    }
    run_plan(&(struct plan){3, 1u, AFTER_FIRST_BUCKET, train});
    run_plan(&(struct plan){2, 1u << 1, BEFORE_FORWARD, train});
}

/* Of two that die only one is seen at once; the other one is left out after the time to settle. */
CT_TEST(survivors, two_at_once)
{
    run_plan(&(struct plan){5, 1u << 1 | 1u << 4, AFTER_FIRST_BUCKET, train});
}

/* --- what a hook keeps of each rank ----------------------------------------------------------- */

enum { ROWS = 12, COLUMNS = 9, MATRIX = ROWS * COLUMNS };

/* A matrix whose gradients PowerSGD squeezes, with error feedback. */
struct squeezed {
    struct ddp_param param;
    struct ddp_hook *hook;
    struct ddp *ddp;
    float data[MATRIX], grad[MATRIX];
};

static ddp_status open_squeezed(struct squeezed *out, struct ddp_world *world)
{
    struct ddp_powersgd_config powersgd;
    struct ddp_config config = {.bucket_cap_bytes = 1024, .first_bucket_cap_bytes = 1024};
    const struct ddp_model model = {.params = &out->param, .param_count = 1};
    struct ddp_err err = {{0}};

    memset(out, 0, sizeof(*out));
    out->param = (struct ddp_param){.name = "weight",
                                    .data = out->data,
                                    .grad = out->grad,
                                    .elem_count = MATRIX,
                                    .ndim = 2,
                                    .shape = {ROWS, COLUMNS}};
    ddp_powersgd_defaults(&powersgd);
    powersgd.start_iteration = 2;
    DDP_TRY(ddp_hook_powersgd_create(world->env.mem, &powersgd, &out->hook));
    config.hook = out->hook;
    return ddp_create(&world->group, world->device, &model, &config, &out->ddp, &err);
}

static void close_squeezed(struct squeezed *model)
{
    ddp_destroy(model->ddp);
    ddp_hook_destroy(model->hook);
}

static ddp_status step_squeezed(struct squeezed *model, uint32_t rank, uint32_t step)
{
    DDP_TRY(ddp_forward_begin(model->ddp));
    DDP_TRY(ddp_backward_begin(model->ddp, NULL));
    for (size_t i = 0; i < MATRIX; i++) {
        model->grad[i] = gradient_of(rank, step, i % 5, i * i);
    }
    DDP_TRY(ddp_grad_ready(model->ddp, 0));
    return ddp_backward_end(model->ddp);
}

/* A second model goes on from the first one's file with the same bits; without the hook's part of
 * it, or in a job of another size, it is refused. */
static int resume_squeezed(struct ddp_world *world, const struct plan *plan)
{
    const uint32_t rank = world->where.rank;
    struct squeezed first, second;
    struct ddp_world_state state = {.tensors = &first.param, .tensor_count = 1, .steps_done = 4};
    struct ddp_err err = {{0}};
    char path[64];

    (void)snprintf(path, sizeof(path), "/tmp/ddprove_test_state.%d", (int)getppid());
    (void)plan;
    HOLDS(open_squeezed(&first, world) == DDP_OK);
    for (uint32_t step = 0; step < 4; step++) {
        HOLDS(step_squeezed(&first, rank, step) == DDP_OK);
    }
    state.ddp = first.ddp;
    HOLDS(ddp_world_save(world, path, &state, &err) == DDP_OK);
    HOLDS(ddp_group_barrier(&world->group) == DDP_OK);
    HOLDS(open_squeezed(&second, world) == DDP_OK);
    state = (struct ddp_world_state){.tensors = &second.param, .tensor_count = 1};
    HOLDS(ddp_world_load(world, path, &state, &err) == DDP_E_KEYS);
    state.ddp = second.ddp;
    world->group.coll->member_count++;
    HOLDS(ddp_world_load(world, path, &state, &err) == DDP_E_SHAPE);
    HOLDS(strstr(err.text, "hook.powersgd.error.weight is of 3 ranks, this job has 4") != NULL);
    world->group.coll->member_count--;
    HOLDS(ddp_world_load(world, path, &state, &err) == DDP_OK && state.steps_done == 4);
    for (uint32_t step = 4; step < STEPS; step++) {
        HOLDS(step_squeezed(&first, rank, step) == DDP_OK);
        HOLDS(step_squeezed(&second, rank, step) == DDP_OK);
        HOLDS(memcmp(first.grad, second.grad, sizeof(first.grad)) == 0);
    }
    close_squeezed(&first);
    close_squeezed(&second);
    HOLDS(ddp_world_finish(world) == DDP_OK);
    return rank == 0 ? unlink(path) : 0;
}

CT_TEST(world, hook_goes_on_from_each_ranks_own_state)
{
    run_plan(&(struct plan){3, 0, AFTER_BACKWARD, resume_squeezed});
}
