/* The prober on NCCL's adapter over NCCL's stand-in, whose device holds its work back: what the
 * ranks of a GPU run do, in one thread. Nothing here is a GPU result. */
#include <stdio.h>
#include <string.h>

#include "harness/rank/probe.h"
#include "harness/sums/tree.h"
#include "harness/task/fiber.h"
#include "tests/ct.h"
#include "tests/unit/nccl/nccl_world.h"
#include "tests/unit/rank/probe_sums.h"

#define RANKS    4u
#define REQUESTS 3u
static const struct harness_probe_request requests[REQUESTS] = {
    {37, DDP_DTYPE_F32}, {37, DDP_DTYPE_BF16}, {1, DDP_DTYPE_F16}};

/* A rank's fiber, and how it waits: it lets the others, the devices and the clock go on. */
struct probing {
    struct ddp_idle idle; /* first, to find the fiber */
    struct harness_fiber *fiber;
    struct nccl_world *world;
    uint32_t rank;
    void *input[REQUESTS], *output[REQUESTS]; /* in the rank's memory */
    uint32_t marked; /* what the device's word names after the first round */
};

static void give_way(struct ddp_idle *idle, const struct ddp_idle_hint *hint)
{
    (void)hint;
    harness_fiber_yield(((struct probing *)idle)->fiber);
}

static void go_on(struct ddp_idle *idle)
{
    harness_fiber_yield(((struct probing *)idle)->fiber);
}

static ddp_status probe(struct probing *probing, enum harness_probe_round round)
{
    struct nccl_rank *rank = &probing->world->ranks[probing->rank];
    const struct harness_probe config = {.env = &rank->env,
                                         .coll = rank->coll,
                                         .device = &rank->device.base,
                                         .store = rank->store,
                                         .name = "world",
                                         .run_dir = "run",
                                         .requests = requests,
                                         .request_count = REQUESTS,
                                         .round = round};
    struct ddp_err err = {""};
    ddp_status status = harness_probe_run(&config, &err);

    CT_CHECK_STR(err.text, "");
    return status;
}

/* The group's own collectives, numbered from 1, between the rounds. */
static void reduce_random(struct probing *probing)
{
    struct nccl_rank *rank = &probing->world->ranks[probing->rank];

    for (size_t i = 0; i < REQUESTS; i++) {
        size_t size_bytes = requests[i].elem_count * ddp_dtype_size_bytes(requests[i].dtype);
        struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                     .dtype = requests[i].dtype,
                                     .role = DDP_ROLE_BUCKET,
                                     .index = (uint32_t)i,
                                     .elem_count = requests[i].elem_count};
        struct ddp_coll_work *work = &rank->works[i];

        probing->input[i] = ddp_mem_array(rank->env.mem, size_bytes, 1);
        probing->output[i] = ddp_mem_array(rank->env.mem, size_bytes, 1);
        CT_REQUIRE(probing->input[i] != NULL && probing->output[i] != NULL);
        probe_fill_random(&requests[i], probing->rank, probing->input[i]);
        memcpy(probing->output[i], probing->input[i], size_bytes);
        args.input = probing->output[i];
        args.output = probing->output[i];
        CT_REQUIRE_OK(nccl_world_post(probing->world, probing->rank, &args));
        while (work->status == DDP_PENDING) {
            (void)rank->coll->ops->poll(rank->coll, work);
            harness_fiber_yield(probing->fiber);
        }
        CT_CHECK_OK(work->status);
    }
}

static void run_rank(void *context)
{
    struct probing *probing = context;
    struct nccl_rank *rank = &probing->world->ranks[probing->rank];
    const struct ddp_progress *progress = probing->world->options.progress;

    CT_CHECK_OK(probe(probing, HARNESS_PROBE_FIRST));
    CT_CHECK_EQ_U64(rank->fired[DDP_FAULT_POINT_COLLECTIVE_ENQUEUE], 0);
    probing->marked = ddp_mark_index(progress->stream[DDP_PROGRESS_COMM].reached);
    reduce_random(probing);
    CT_CHECK_EQ_U64(rank->fired[DDP_FAULT_POINT_COLLECTIVE_ENQUEUE], REQUESTS);
    CT_CHECK_OK(probe(probing, HARNESS_PROBE_LAST));
}

static bool run_all(struct nccl_world *world, struct probing *probings)
{
    static const struct ddp_idle_ops idle_ops = {give_way, go_on};
    bool is_done = false;

    for (uint32_t r = 0; r < RANKS; r++) {
        probings[r] = (struct probing){.idle.ops = &idle_ops, .world = world, .rank = r};
        world->ranks[r].env.idle = &probings[r].idle;
        if (harness_fiber_create((size_t)256 * 1024, run_rank, &probings[r], &probings[r].fiber) !=
            DDP_OK) {
            return false;
        }
    }
    while (!is_done) {
        is_done = true;
        for (uint32_t r = 0; r < RANKS; r++) {
            if (!harness_fiber_is_done(probings[r].fiber)) {
                harness_fiber_resume(probings[r].fiber);
                is_done = false;
            }
        }
        (void)nccl_world_step(world);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        harness_fiber_destroy(probings[r].fiber);
        world->ranks[r].env.idle = &world->idle;
    }
    return true;
}

static bool read_map(struct ddp_files *files, const struct harness_probe_request *request,
                     const char *round, struct harness_tree_map *out)
{
    struct ddp_err err = {""};
    void *text = NULL;
    size_t size_bytes = 0;
    char path[160];
    ddp_status status;

    (void)snprintf(path, sizeof(path), "run/trees/all_reduce.n%zu.%s.%s.txt", request->elem_count,
                   ddp_dtype_name(request->dtype), round);
    status = files->ops->read_all(files, path, ddp_mem_system(), &text, &size_bytes, &err);
    if (status == DDP_OK) {
        status = harness_tree_parse(ddp_mem_system(), text, out, &err);
    }
    CT_CHECK_STR(err.text, "");
    ddp_mem_free(ddp_mem_system(), text);
    return status == DDP_OK;
}

/* Both rounds agree, and the judge's sums in the measured trees are what NCCL returned. */
static void check_request(struct ddp_files *files, const struct probing *probings, size_t i,
                          const char *expected)
{
    size_t size_bytes = requests[i].elem_count * ddp_dtype_size_bytes(requests[i].dtype);
    struct harness_tree_map first, last;
    void *input[RANKS];
    void *output[RANKS];
    char text[100];

    CT_REQUIRE(read_map(files, &requests[i], "first", &first));
    CT_REQUIRE(read_map(files, &requests[i], "last", &last));
    CT_CHECK_STR(first.text, "");
    CT_REQUIRE(first.is_measured && last.is_measured);
    CT_CHECK_EQ_U64(harness_tree_compare(&first, &last), requests[i].elem_count);
    harness_tree_print(&first, 0, text, sizeof(text));
    if (expected != NULL) {
        CT_CHECK_STR(text, expected);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        input[r] = probings[r].input[i];
        output[r] = ddp_mem_array(ddp_mem_system(), size_bytes, 1);
    }
    CT_CHECK_OK(harness_tree_run(&first, input, output));
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK_BYTES(probings[r].output[i], output[r], size_bytes);
        ddp_mem_free(ddp_mem_system(), output[r]);
        ddp_mem_free(probings[r].world->ranks[r].env.mem, probings[r].input[i]);
        ddp_mem_free(probings[r].world->ranks[r].env.mem, probings[r].output[i]);
    }
    harness_tree_fini(&first);
    harness_tree_fini(&last);
}

static void check_adapter(bool is_checked, enum ddp_algorithm_id algorithm, const char *expected)
{
    struct ddp_progress progress = {.is_mapped = 1};
    const struct nccl_world_options options = {
        .is_checked = is_checked, .algorithm = algorithm, .progress = &progress};
    struct ddp_files_memory *files = NULL;
    struct probing probings[RANKS];
    struct nccl_world world;

    CT_REQUIRE_OK(ddp_files_memory_create(&files));
    CT_REQUIRE(nccl_world_open(&world, RANKS, &options));
    for (uint32_t r = 0; r < RANKS; r++) {
        world.ranks[r].env.files = ddp_files_memory_files(files);
    }
    CT_REQUIRE(run_all(&world, probings));
    for (size_t i = 0; i < REQUESTS; i++) {
        check_request(ddp_files_memory_files(files), probings, i, expected);
    }
    /* To a monitor, the device was at no collective. */
    CT_CHECK_EQ_U64(probings[0].marked, 0);
    CT_CHECK(ddp_mark_count(progress.stream[DDP_PROGRESS_COMM].reached) > 0);
    nccl_world_close(&world);
    ddp_files_memory_destroy(files);
}

/* NCCL's own all-reduce, with and without agreement before each launch: the first chunk of its ring
 * is folded from rank 1 round to rank 0. */
CT_TEST(probe_nccl, order_is_measured)
{
    check_adapter(false, DDP_ALGORITHM_NONE, "(0 ((1 2) 3))");
    check_adapter(true, DDP_ALGORITHM_NONE, "(0 ((1 2) 3))");
}

/* A schedule over NCCL's send and receive. */
CT_TEST(probe_nccl, schedule_over_nccl_is_measured)
{
    check_adapter(true, DDP_ALGORITHM_RING, NULL);
}
