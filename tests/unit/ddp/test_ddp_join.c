/* Uneven inputs: mirrored passes, divisors, early termination, the final model. */
#include <string.h>

#include "ddpcore/ddp/batch_norm.h"
#include "ddpcore/ddp/drift.h"
#include "ddpcore/ddp/scaler.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

struct join_case {
    struct ddp_join_config join;
    uint32_t steps[4]; /* of each rank */
    bool find_unused;
    bool has_micro; /* every second pass is a micro-batch without synchronisation */
};

static uint32_t most_steps(const struct join_case *row, uint32_t size)
{
    uint32_t most = 0;

    for (uint32_t r = 0; r < size; r++) {
        most = row->steps[r] > most ? row->steps[r] : most;
    }
    return most;
}

/* The divisor and the ranks that take part in a step follow from the case alone. */
static void check_step(const struct world_rank *rank, const struct join_case *row,
                       const struct job *job, uint32_t step)
{
    const uint32_t size = rank->env.world_size;
    uint32_t active = 0;

    for (uint32_t r = 0; r < size; r++) {
        active += row->steps[r] > step ? 1 : 0;
    }
    for (size_t i = 0; i < JOB_PARAM_COUNT; i++) {
        for (size_t k = 0; k < job_elem_counts[i]; k++) {
            const uint32_t divisor = row->join.divide_by_initial_world_size ? size : active;
            float expected = 0;

            for (uint32_t r = 0; r < size; r++) {
                if (row->steps[r] > step) {
                    expected += job_gradient(r, step, i, k) * (float)(1.0 / (double)divisor);
                }
            }
            CT_CHECK(job->grad[i][k] == expected);
        }
    }
}

static void joins(struct world_rank *rank)
{
    const struct join_case *row = rank->arg;
    const uint32_t size = rank->env.world_size;
    struct ddp_config config = job_config();
    struct ddp_event_entry entry;
    struct ddp_err err = {""};
    uint32_t last = 0;
    struct job job;

    config.broadcast_buffers = true;
    config.find_unused_parameters = row->find_unused;
    job_init(&job, rank->rank);
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                             &config, &job.ddp, &err));
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &row->join));
    for (uint32_t step = 0; step < row->steps[rank->rank]; step++) {
        job_zero_grad(&job);
        if (row->has_micro && step % 2 == 0) {
            ddp_set_sync(job.ddp, false);
            CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
            ddp_set_sync(job.ddp, true);
            continue;
        }
        CT_REQUIRE_OK(job_step(&job, rank->rank, step, NULL));
        check_step(rank, row, &job, step);
        job.data[0][0] = (float)(1000 * rank->rank + step);
        job.buffer[0] = (float)(500 * rank->rank + step);
    }
    CT_REQUIRE_OK(ddp_join_end(job.ddp));
    for (uint32_t r = 0; r < size; r++) {
        last = row->steps[r] == most_steps(row, size) ? r : last;
    }
    if (most_steps(row, size) > 0 && !row->has_micro) {
        CT_CHECK(job.data[0][0] == (float)(1000 * last + row->steps[last] - 1));
        CT_CHECK(job.buffer[0] == (float)(500 * last + row->steps[last] - 1));
    }
    CT_CHECK(world_events(rank, DDP_EVENT_JOIN, &entry) > 0);
    CT_CHECK_EQ_U64(entry.arg[0], DDP_JOIN_EVENT_DONE);
    CT_CHECK_EQ_U64(entry.arg[1], last);
    /* Outside join all ranks divide by the world again. */
    job_zero_grad(&job);
    CT_REQUIRE_OK(job_step(&job, rank->rank, 9, NULL));
    CT_CHECK_EQ_U64(rank->group.seq, world_done_count(rank->world));
    ddp_destroy(job.ddp);
}

/* Ranks with any number of steps finish together: each average has the right divisor, joined ranks
 * add nothing, and all end with the model of the highest rank among the last to end. */
CT_TEST(ddp_join, uneven_steps)
{
    struct join_case cases[] = {
        {{true, false}, {4, 4, 4, 4}, false, false},  {{true, false}, {1, 4, 2, 4}, false, false},
        {{false, false}, {1, 4, 2, 4}, false, false}, {{false, false}, {0, 0, 3, 0}, true, false},
        {{true, false}, {3, 0, 0, 0}, true, false},   {{true, false}, {0, 0, 0, 0}, false, false},
        {{true, true}, {2, 2, 2, 2}, false, false},   {{false, false}, {2, 5, 4, 1}, false, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, joins, &cases[i], false});
        world_run(&(struct world_config){4, DDP_SEMANTICS_PYTORCH, 0, joins, &cases[i], false});
    }
}

static void terminates_early(struct world_rank *rank)
{
    const struct ddp_join_config join = {true, true};
    const uint32_t steps = rank->rank == 1 ? 2 : 5;
    const struct ddp_config config = job_config();
    struct ddp_err err = {""};
    ddp_status status = DDP_OK;
    uint32_t done = 0;
    struct job job;

    job_init(&job, rank->rank);
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                             &config, &job.ddp, &err));
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &join));
    while (status == DDP_OK && done < steps) {
        status = job_step(&job, rank->rank, done, NULL);
        done += status == DDP_OK ? 1 : 0;
    }
    if (rank->rank == 1) {
        CT_CHECK_STATUS(status, DDP_OK);
        status = ddp_join_end(job.ddp);
    }
    CT_CHECK_STATUS(status, DDP_E_EARLY_TERMINATION);
    CT_CHECK_EQ_U64(done, 2);
    CT_CHECK_EQ_I64(rank->group.failure.status, DDP_OK);
    /* Join is over on all of them: the next epoch begins. */
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &join));
    CT_CHECK_OK(job_step(&job, rank->rank, done, NULL));
    ddp_destroy(job.ddp);
}

/* With throw_on_early_termination all ranks stop in the forward pass after the first one ended. */
CT_TEST(ddp_join, early_termination)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, terminates_early, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, 0, terminates_early, NULL, false});
}

static void joins_unused(struct world_rank *rank)
{
    const bool is_strict = rank->group.semantics == DDP_SEMANTICS_STRICT;
    const bool used[JOB_PARAM_COUNT] = {true, true, true, true, false};
    const struct ddp_join_config join = {true, false};
    struct ddp_config config = job_config();
    struct ddp_err err = {""};
    struct job job;

    config.find_unused_parameters = true;
    job_init(&job, rank->rank);
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                             &config, &job.ddp, &err));
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &join));
    CT_REQUIRE_OK(job_step(&job, rank->rank, 0, NULL));
    if (rank->rank == 0) {
        job_zero_grad(&job);
        CT_REQUIRE_OK(job_step(&job, rank->rank, 1, used));
        CT_CHECK(job.params[4].is_grad_defined == !is_strict);
    }
    CT_REQUIRE_OK(ddp_join_end(job.ddp));
    ddp_destroy(job.ddp);
}

/* A joined rank votes for no parameter in strict semantics; PyTorch's still sends the last reduced
 * map, so a parameter that nobody used looks used. */
CT_TEST(ddp_join, used_map_of_joined_ranks)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, joins_unused, NULL, false});
    world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, joins_unused, NULL, false});
}

/* Calls that every rank has to make: which one this run is about. */
enum call { CALL_SCALER, CALL_DRIFT, CALL_BATCH_NORM, CALL_COUNT };

struct alone {
    enum call call;
    bool throws;
};

static ddp_status make_call(struct ddp *ddp, enum call call)
{
    float mean = 0, variance = 1, inverse = 0;
    struct ddp_batch_norm_stats stats = {&mean, &variance, &inverse, 1, 4, 1e-5F};
    struct ddp_batch_norm *norm = NULL;
    struct ddp_scaler scaler;
    struct ddp_drift drift;
    ddp_status status;

    ddp_scaler_init(&scaler);
    switch (call) {
    case CALL_SCALER:
        return ddp_scaler_unscale(&scaler, ddp);
    case CALL_DRIFT:
        return ddp_check_drift(ddp, &drift);
    default:
        break;
    }
    DDP_TRY(ddp_batch_norm_create(ddp, 1, &norm));
    status = ddp_batch_norm_forward(norm, 0, &stats);
    ddp_batch_norm_destroy(norm);
    return status;
}

static void calls_alone(struct world_rank *rank)
{
    const struct alone *alone = rank->arg;
    const bool is_refused = !alone->throws && rank->group.semantics == DDP_SEMANTICS_STRICT;
    const struct ddp_join_config join = {true, alone->throws};
    const struct ddp_config config = job_config();
    struct ddp_err err = {""};
    struct job job;

    job_init(&job, rank->rank);
    CT_REQUIRE_OK(ddp_create(&rank->group, rank->device,
                             &(struct ddp_model){job.params, JOB_PARAM_COUNT, job.buffers, 1},
                             &config, &job.ddp, &err));
    CT_REQUIRE_OK(ddp_join_begin(job.ddp, &join));
    CT_CHECK_OK(job_step(&job, rank->rank, 0, NULL));
    CT_CHECK_STATUS(make_call(job.ddp, alone->call), is_refused ? DDP_E_UNSUPPORTED : DDP_OK);
    ddp_destroy(job.ddp);
}

/* As soon as one rank's data had ended, the others would wait for it in there; or blame it. */
CT_TEST(ddp_join, refuses_what_nobody_mirrors)
{
    struct alone alone;

    for (int call = 0; call < CALL_COUNT; call++) {
        alone = (struct alone){(enum call)call, true};
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, calls_alone, &alone, false});
        alone.throws = false;
        world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, calls_alone, &alone, false});
        world_run(&(struct world_config){2, DDP_SEMANTICS_PYTORCH, 0, calls_alone, &alone, false});
    }
}
