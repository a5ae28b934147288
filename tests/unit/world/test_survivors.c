/* Groups of some ranks, jobs that go on after ranks have died, and state of each rank: real
 * processes, whose store the test hosts, as torchrun's agent does. A rank's process tells by its
 * exit code what went wrong. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/ddp/ddp.h"
#include "ddpcore/hook/hooks.h"
#include "ddpcore/world/state.h"
#include "ddpcore/world/subgroup.h"
#include "tests/ct.h"

enum { RANKS_MAX = 6, PARAM_COUNT = 2, ELEMS = 8, STEPS = 6, LOST_STEP = 3 };

/* When the ranks of a mask kill themselves in step LOST_STEP. */
enum when { AFTER_FIRST_BUCKET, BEFORE_FORWARD, AFTER_BACKWARD, IN_BARRIER };

struct plan {
    uint32_t world_size;
    uint32_t dying; /* mask */
    enum when when;
    int (*run)(struct ddp_world *world, const struct plan *plan);
};

static char rank_text[8], size_text[8], port_text[8];

static const char *lookup(void *context, const char *name)
{
    static const char *const variables[][2] = {{"RANK", rank_text},
                                               {"WORLD_SIZE", size_text},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"MASTER_PORT", port_text},
                                               {"TORCHELASTIC_USE_AGENT_STORE", "True"}};

    (void)context;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (strcmp(name, variables[i][0]) == 0) {
            return variables[i][1];
        }
    }
    return NULL;
}

/* In a rank's process: leave with a code that names the place, once something is not as it should.
 */
#define HOLDS(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            (void)fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #condition); \
            return 1;                                                                   \
        }                                                                               \
    } while (0)

static void run_child(const struct plan *plan, uint32_t rank)
{
    const struct ddp_world_config config = {.timeout_ns = 20 * DDP_NS_PER_S,
                                            .heap_bytes = (size_t)1 << 20};
    struct ddp_world world;
    struct ddp_err err = {{0}};
    int code;

    (void)snprintf(rank_text, sizeof(rank_text), "%u", rank);
    if (ddp_world_open(&world, lookup, NULL, &config, &err) != DDP_OK) {
        (void)fprintf(stderr, "rank %u: %s\n", rank, err.text);
        _exit(2);
    }
    code = plan->run(&world, plan);
    ddp_world_close(&world);
    _exit(code);
}

/* Serves the store until all ranks have ended. */
static void serve(struct ddp_store_server *server, const pid_t *pids, int *states, uint32_t count)
{
    uint32_t left = count;
    bool is_ended[RANKS_MAX] = {false};

    while (left > 0) {
        struct pollfd wait = {.fd = ddp_store_server_fd(server), .events = POLLIN};

        (void)poll(&wait, 1, 5);
        ddp_store_server_pump(server);
        for (uint32_t r = 0; r < count; r++) {
            if (!is_ended[r] && waitpid(pids[r], &states[r], WNOHANG) == pids[r]) {
                is_ended[r] = true;
                left--;
            }
        }
    }
}

static void run_plan(const struct plan *plan)
{
    struct ddp_store_server *server = NULL;
    struct ddp_err err = {{0}};
    pid_t pids[RANKS_MAX];
    int states[RANKS_MAX];
    uint16_t port = 0;
    int fd = -1;

    CT_REQUIRE(ddp_store_listen("127.0.0.1", 0, &fd, &port, &err) == DDP_OK);
    (void)snprintf(port_text, sizeof(port_text), "%u", port);
    (void)snprintf(size_text, sizeof(size_text), "%u", plan->world_size);
    for (uint32_t r = 0; r < plan->world_size; r++) {
        pids[r] = fork();
        CT_REQUIRE(pids[r] >= 0);
        if (pids[r] == 0) {
            (void)close(fd);
            run_child(plan, r);
        }
    }
    CT_REQUIRE(ddp_store_server_create(ddp_mem_system(), fd, &server, &err) == DDP_OK);
    serve(server, pids, states, plan->world_size);
    ddp_store_server_destroy(server);
    for (uint32_t r = 0; r < plan->world_size; r++) {
        if ((plan->dying >> r & 1) != 0) {
            CT_CHECK(WIFSIGNALED(states[r]) && WTERMSIG(states[r]) == SIGKILL);
        } else {
            CT_CHECK(WIFEXITED(states[r]) && WEXITSTATUS(states[r]) == 0);
        }
    }
}

/* --- groups of some ranks --------------------------------------------------------------------- */

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
    world->where.world_size++;
    HOLDS(ddp_world_load(world, path, &state, &err) == DDP_E_SHAPE);
    HOLDS(strstr(err.text, "hook.powersgd.error.weight is of 3 ranks, this job has 4") != NULL);
    world->where.world_size--;
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
