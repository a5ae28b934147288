/* The simulator without faults: right ends, equal replicas, same seed same bytes. */
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/unit/sim/sim_job.h"

/* Whether all ranks ended well, left nothing in their memory and hold the same parameters. */
static void check_healthy(const struct sim_job *job)
{
    uint64_t hash = sim_job_param_hash(job, 0);

    CT_CHECK(hash != 0);
    for (uint32_t rank = 0; rank < job->plan.job.ranks; rank++) {
        CT_CHECK_STATUS(sim_job_status(job, rank), DDP_OK);
        CT_CHECK(job->trace.ends[rank].how == HARNESS_END_EXITED &&
                 job->trace.ends[rank].code == 0);
        CT_CHECK_EQ_U64(sim_job_param_hash(job, rank), hash);
    }
    CT_CHECK_EQ_U64(job->trace.lost_count, 0);
    for (size_t i = 0; i < job->trace.diagnoses.count; i++) {
        CT_FAIL("diagnosis: %s", job->trace.diagnoses.items[i].text);
    }
    CT_CHECK_EQ_U64(job->stats.leaked_block_count, 0);
}

/* Worlds of one to four end well with equal replicas. */
CT_TEST(sim, small_worlds_end_well)
{
    for (uint32_t ranks = 1; ranks <= 4; ranks++) {
        struct sim_job job;

        sim_job_init(&job, ranks);
        CT_REQUIRE_OK(sim_job_run(&job));
        check_healthy(&job);
        CT_CHECK_EQ_U64(sim_job_count(&job, ranks - 1, DDP_EVENT_LOSS), 4);
        CT_CHECK_EQ_U64(sim_job_count(&job, ranks - 1, DDP_EVENT_DATA_SAMPLE), 4 * 8);
        sim_job_fini(&job);
    }
}

/* A world of 64 is no different. */
CT_TEST(sim, large_world_ends_well)
{
    struct sim_job job;

    sim_job_init(&job, 64);
    job.plan.job.steps = 2;
    job.plan.job.collective.algorithm = DDP_ALGORITHM_RECURSIVE_DOUBLING;
    CT_REQUIRE_OK(sim_job_run(&job));
    check_healthy(&job);
    sim_job_fini(&job);
}

/* The same configuration gives the same bytes. */
CT_TEST(sim, same_seed_same_trace)
{
    struct sim_job a, b;

    sim_job_init(&a, 4);
    sim_job_init(&b, 4);
    CT_REQUIRE_OK(sim_job_run(&a));
    CT_REQUIRE_OK(sim_job_run(&b));
    CT_CHECK(strcmp(sim_job_text(&a), sim_job_text(&b)) == 0);
    CT_CHECK_EQ_U64(a.stats.switch_count, b.stats.switch_count);
    sim_job_fini(&a);
    sim_job_fini(&b);
}

/* Without the header, which names the seed. */
static const char *events_of(struct sim_job *job)
{
    return strchr(sim_job_text(job), '\n');
}

/* Another seed is another interleaving, and the same result. */
CT_TEST(sim, other_seed_same_parameters)
{
    struct sim_job a, b;

    sim_job_init(&a, 4);
    sim_job_init(&b, 4);
    b.config.seed = 2;
    CT_REQUIRE_OK(sim_job_run(&a));
    CT_REQUIRE_OK(sim_job_run(&b));
    CT_CHECK(strcmp(events_of(&a), events_of(&b)) != 0);
    CT_CHECK_EQ_U64(sim_job_param_hash(&a, 0), sim_job_param_hash(&b, 0));
    sim_job_fini(&a);
    sim_job_fini(&b);
}

/* Micro-batches are accumulated locally and reduced once a step. */
CT_TEST(sim, micro_batches_reduce_once)
{
    struct sim_job plain, micro;

    sim_job_init(&plain, 2);
    sim_job_init(&micro, 2);
    micro.plan.job.micro_batches = 3;
    CT_REQUIRE_OK(sim_job_run(&plain));
    CT_REQUIRE_OK(sim_job_run(&micro));
    check_healthy(&micro);
    CT_CHECK_EQ_U64(sim_job_count(&micro, 0, DDP_EVENT_LOSS), 12);
    CT_CHECK_EQ_U64(sim_job_count(&micro, 0, DDP_EVENT_COLL_POST),
                    sim_job_count(&plain, 0, DDP_EVENT_COLL_POST));
    sim_job_fini(&plain);
    sim_job_fini(&micro);
}

/* Uneven shards under join: every rank ends well with the last one's parameters. */
CT_TEST(sim, join_ends_well)
{
    struct sim_job job;

    sim_job_init(&job, 3);
    job.plan.job.join.is_set = true;
    job.plan.job.shard_sizes = job.shard;
    job.shard[1] = 16;
    CT_REQUIRE_OK(sim_job_run(&job));
    for (uint32_t rank = 0; rank < 3; rank++) {
        CT_CHECK_STATUS(sim_job_status(&job, rank), DDP_OK);
    }
    CT_CHECK_EQ_U64(sim_job_count(&job, 0, DDP_EVENT_LOSS), 4);
    CT_CHECK_EQ_U64(sim_job_count(&job, 1, DDP_EVENT_LOSS), 2);
    CT_CHECK_EQ_U64(job.trace.diagnoses.count, 0);
    CT_CHECK_EQ_U64(job.stats.leaked_block_count, 0);
    sim_job_fini(&job);
}

static char *make_run_dir(struct sim_job *job)
{
    char *path = ddp_mem_strdup(job->mem, "/tmp/ddprove_sim_XXXXXX");

    CT_CHECK(path != NULL && mkdtemp(path) != NULL);
    job->config.rank.run_dir = path;
    return path;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_tree(const char *path)
{
    CT_CHECK(nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static bool is_file(const char *dir, const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, R_OK) == 0;
}

static const char *payload_name(uint64_t hash, char name[40])
{
    (void)snprintf(name, 40, "payload/%016" PRIx64, hash);
    return name;
}

/* Schedules, wanted tensors and the checkpoint reach the run folder. */
CT_TEST(sim, evidence_reaches_the_run_folder)
{
    struct sim_job job;
    uint64_t wanted, other;
    char name[40];
    const char *dir;

    sim_job_init(&job, 2);
    dir = make_run_dir(&job);
    job.plan.job.checkpoint_every = 2;
    CT_CHECK_OK(sim_job_run(&job));
    wanted = sim_job_last(&job, 1, DDP_EVENT_COLL_DONE, 4) != 0
                 ? sim_job_last(&job, 1, DDP_EVENT_COLL_DONE, 4)
                 : sim_job_last(&job, 1, DDP_EVENT_GRAD_FINAL, 1);
    other = sim_job_last(&job, 1, DDP_EVENT_PARAM_UPDATED, 1);
    job.config.rank.wanted = &wanted;
    job.config.rank.wanted_count = 1;
    CT_CHECK_OK(sim_job_run(&job));
    check_healthy(&job);
    CT_CHECK(is_file(dir, "checkpoint.safetensors"));
    CT_CHECK(is_file(dir, payload_name(wanted, name)));
    CT_CHECK(is_file(dir, "schedules/rank1.txt"));
    CT_CHECK(!is_file(dir, payload_name(other, name)));
    CT_CHECK_EQ_U64(sim_job_count(&job, 0, DDP_EVENT_CHECKPOINT_SAVED), 2);
    CT_CHECK_EQ_U64(sim_job_count(&job, 1, DDP_EVENT_CHECKPOINT_SAVED), 0);
    remove_tree(dir);
    sim_job_fini(&job);
}

/* A run that resumes from a checkpoint ends with the parameters of one that never stopped, wrapped
 * keys or not. */
CT_TEST(sim, resumed_run_equals_uninterrupted)
{
    for (int is_wrapped = 0; is_wrapped < 2; is_wrapped++) {
        struct sim_job whole, first, second;
        const char *dir;

        sim_job_init(&whole, 2);
        sim_job_init(&first, 2);
        sim_job_init(&second, 2);
        dir = make_run_dir(&first);
        first.plan.job.steps = 2;
        first.plan.job.checkpoint_every = 2;
        first.plan.job.is_checkpoint_wrapped = is_wrapped == 1;
        second.plan.job.start_step = 2;
        second.plan.restore.prefix = HARNESS_PREFIX_AUTO;
        second.config.rank.is_restoring = true;
        second.config.rank.checkpoint_path = sim_job_path(&second, dir, "checkpoint.safetensors");
        CT_CHECK_OK(sim_job_run(&whole));
        CT_CHECK_OK(sim_job_run(&first));
        CT_CHECK_OK(sim_job_run(&second));
        check_healthy(&second);
        CT_CHECK_EQ_U64(sim_job_count(&second, 0, DDP_EVENT_LOSS), 2);
        CT_CHECK_EQ_U64(sim_job_param_hash(&second, 1), sim_job_param_hash(&whole, 0));
        remove_tree(dir);
        sim_job_fini(&whole);
        sim_job_fini(&first);
        sim_job_fini(&second);
    }
}

/* Wrapped keys are refused by a bare model that insists on exact keys; every rank says so. */
CT_TEST(sim, exact_policy_refuses_a_prefix)
{
    struct sim_job first, second;
    const char *dir;

    sim_job_init(&first, 2);
    sim_job_init(&second, 2);
    dir = make_run_dir(&first);
    first.plan.job.checkpoint_every = 4;
    first.plan.job.is_checkpoint_wrapped = true;
    second.plan.job.start_step = 4;
    second.plan.restore.prefix = HARNESS_PREFIX_EXACT;
    second.config.rank.is_restoring = true;
    second.config.rank.checkpoint_path = sim_job_path(&second, dir, "checkpoint.safetensors");
    CT_CHECK_OK(sim_job_run(&first));
    CT_CHECK_OK(sim_job_run(&second));
    CT_CHECK_STATUS(sim_job_status(&second, 0), DDP_E_PREFIX);
    CT_CHECK_STATUS(sim_job_status(&second, 1), DDP_E_PREFIX);
    CT_CHECK_EQ_U64(second.stats.leaked_block_count, 0);
    remove_tree(dir);
    sim_job_fini(&first);
    sim_job_fini(&second);
}

/* Buffers are part of a checkpoint: a resumed model with buffers equals one that never stopped. */
CT_TEST(sim, buffers_are_restored)
{
    struct sim_job whole, first, second;
    const char *dir;

    sim_job_init(&whole, 2);
    sim_job_init(&first, 2);
    sim_job_init(&second, 2);
    sim_job_use_branchy(&whole);
    sim_job_use_branchy(&first);
    sim_job_use_branchy(&second);
    dir = make_run_dir(&first);
    first.plan.job.steps = 2;
    first.plan.job.checkpoint_every = 2;
    second.plan.job.start_step = 2;
    second.config.rank.is_restoring = true;
    second.config.rank.checkpoint_path = sim_job_path(&second, dir, "checkpoint.safetensors");
    CT_CHECK_OK(sim_job_run(&whole));
    CT_CHECK_OK(sim_job_run(&first));
    CT_CHECK_OK(sim_job_run(&second));
    check_healthy(&whole);
    check_healthy(&second);
    CT_CHECK(sim_job_last(&whole, 1, DDP_EVENT_BUFFER_SYNCED, 1) != 0);
    CT_CHECK_EQ_U64(sim_job_last(&second, 1, DDP_EVENT_BUFFER_SYNCED, 1),
                    sim_job_last(&whole, 1, DDP_EVENT_BUFFER_SYNCED, 1));
    remove_tree(dir);
    sim_job_fini(&whole);
    sim_job_fini(&first);
    sim_job_fini(&second);
}

/* Parameters that nobody uses in a step are fine if the job looks for them. */
CT_TEST(sim, unused_parameters_are_found)
{
    struct sim_job job;

    sim_job_init(&job, 2);
    sim_job_use_branchy(&job);
    job.plan.job.branch = REF_BRANCH_BY_STEP;
    job.plan.job.find_unused_parameters = true;
    CT_REQUIRE_OK(sim_job_run(&job));
    check_healthy(&job);
    sim_job_fini(&job);
}
