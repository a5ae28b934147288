/* Groups over NCCL's stand-in when something is wrong: mismatches, deaths, errors of NCCL and of
 * the device, revocation, injected faults, aborts that take their time. */
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/nccl/nccl_world.h"

#define COUNT 8u

static float data[NCCL_MEMBERS_MAX][COUNT];

static struct ddp_coll_args args_of(uint32_t rank)
{
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .dtype = DDP_DTYPE_F32,
                                       .input = data[rank],
                                       .output = data[rank],
                                       .elem_count = COUNT};

    return args;
}

static void post(struct nccl_world *world, uint32_t rank)
{
    const struct ddp_coll_args args = args_of(rank);

    CT_CHECK_OK(nccl_world_post(world, rank, &args));
}

static ddp_status status_of(const struct nccl_world *world, uint32_t rank)
{
    return world->ranks[rank].works[0].status;
}

static const char *last_error(const struct nccl_world *world, uint32_t rank)
{
    struct ddp_coll *coll = world->ranks[rank].coll;

    return coll->ops->last_error(coll);
}

/* Whatever differs, no member has called NCCL. */
CT_TEST(nccl_failure, mismatch_is_found_before_nccl_is_called)
{
    for (int what = 0; what < 3; what++) {
        const struct nccl_world_options options = {.is_checked = true, .has_revoke = true};
        struct nccl_world world;
        struct ddp_coll_args args = args_of(2);
        struct ddp_revocation revocation;

        CT_REQUIRE(nccl_world_open(&world, 3, &options));
        args.elem_count = what == 0 ? 0 : what == 1 ? COUNT - 1 : COUNT;
        args.kind = what == 2 ? DDP_COLL_BARRIER : args.kind;
        post(&world, 0);
        post(&world, 1);
        CT_CHECK_OK(nccl_world_post(&world, 2, &args));
        nccl_world_run(&world);
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct ddp_coll *coll = world.ranks[rank].coll;

            CT_CHECK(status_of(&world, rank) == DDP_E_MISMATCH ||
                     status_of(&world, rank) == DDP_E_REVOKED);
            CT_CHECK(coll->ops->is_revoked(coll, &revocation));
            CT_CHECK_STATUS(revocation.status, DDP_E_MISMATCH);
            CT_CHECK(nccl_world_post(&world, rank, &args) < 0);
        }
        CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 0);
        nccl_world_close(&world);
    }
}

CT_TEST(nccl_failure, missing_member_keeps_nccl_from_being_called)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    post(&world, 0);
    post(&world, 2);
    nccl_world_settle(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
    CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 0);
    nccl_world_close(&world);
}

/* While members agree, the page says whose message is missing; NCCL's wait has no such member. */
CT_TEST(nccl_failure, page_names_a_member_only_while_members_agree)
{
    enum { ENTRIES = 64 };
    void *storage = ddp_mem_array(ddp_mem_system(), ddp_recorder_size_bytes(ENTRIES), 1);
    struct ddp_recorder recorder;
    const struct nccl_world_options options = {.is_checked = true, .recorder = &recorder};
    struct nccl_world world;

    CT_REQUIRE(storage != NULL);
    ddp_recorder_init(&recorder, storage, ENTRIES, ddp_clock_monotonic(), 0, 2, 1);
    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    world.ranks[1].point = DDP_FAULT_POINT_COLLECTIVE_LAUNCH;
    world.ranks[1].action = DDP_FAULT_SKIP;
    post(&world, 0);
    nccl_world_settle(&world);
    CT_CHECK_EQ_U64(recorder.page->wait_peer, 1 + 1);
    post(&world, 1);
    nccl_world_settle(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
    CT_CHECK_EQ_U64(recorder.page->wait_peer, 0);
    nccl_world_close(&world);
    ddp_mem_free(ddp_mem_system(), storage);
}

/* A member died before the launch: nobody has called NCCL. After: its kernels are stopped. */
static void check_death(bool is_checked, bool has_revoke)
{
    const struct nccl_world_options options = {.is_checked = is_checked, .has_revoke = has_revoke};
    struct ddp_revocation revocation;
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    post(&world, 0);
    post(&world, 2);
    nccl_world_settle(&world);
    nccl_world_kill(&world, 1);
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < 3; rank += 2) {
        struct ddp_coll *coll = world.ranks[rank].coll;

        CT_CHECK_STATUS(status_of(&world, rank), DDP_E_PEER_DIED);
        CT_CHECK_EQ_I64(coll->ops->dead_rank(coll), 1);
        CT_CHECK(!coll->ops->is_revoked(coll, &revocation));
    }
    CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), is_checked ? 0 : 2);
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommRevoke"), 0);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommDestroy"), 0);
}

CT_TEST(nccl_failure, death_before_and_after_the_launch)
{
    check_death(true, true);
    check_death(true, false);
    check_death(false, true);
    check_death(false, false);
}

/* An error of NCCL's on one rank ends the group on all, with its text there. */
static void check_error(int result, ddp_status status, const char *text)
{
    const struct nccl_world_options options = {.is_checked = true, .has_revoke = true};
    struct ddp_revocation revocation;
    struct nccl_world world;
    char script[32];

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    (void)snprintf(script, sizeof(script), "rank0:launch1=%d", result);
    nccl_world_script(&world, script);
    post(&world, 0);
    post(&world, 1);
    if (result == DDP_NCCL_REMOTE_ERROR || status == DDP_E_SYSTEM) { /* a death might explain it */
        nccl_world_settle(&world);
        CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
        nccl_world_advance(&world, DDP_NS_PER_S);
    }
    nccl_world_run(&world);
    CT_CHECK_STATUS(status_of(&world, 0), status);
    CT_CHECK_STATUS(status_of(&world, 1), DDP_E_REVOKED);
    CT_CHECK_STR(last_error(&world, 0), text);
    CT_CHECK(world.ranks[1].coll->ops->is_revoked(world.ranks[1].coll, &revocation));
    CT_CHECK_STATUS(revocation.status, status);
    CT_CHECK_EQ_U64(revocation.rank, 0);
    CT_CHECK_EQ_U64(revocation.detail, 1);
    CT_CHECK_STATUS(nccl_world_post(&world, 0, &world.ranks[0].works[0].args), status);
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("1: ncclCommAbort"), 1);
}

CT_TEST(nccl_failure, background_errors_end_the_group_everywhere)
{
    check_error(DDP_NCCL_REMOTE_ERROR, DDP_E_DEVICE,
                "in the background: remote process exited or there was a network error "
                "(stand-in script: launch1=6)");
    check_error(DDP_NCCL_INVALID_USAGE, DDP_E_STATE,
                "in the background: invalid usage (run with NCCL_DEBUG=WARN for details) "
                "(stand-in script: launch1=5)");
    check_error(DDP_NCCL_SYSTEM_ERROR, DDP_E_SYSTEM,
                "in the background: unhandled system error (run with NCCL_DEBUG=INFO for details) "
                "(stand-in script: launch1=2)");
    check_error(DDP_NCCL_INTERNAL_ERROR, DDP_E_SYSTEM,
                "in the background: internal error - please report this issue to the NCCL "
                "developers (stand-in script: launch1=3)");
    check_error(DDP_NCCL_CUDA_ERROR, DDP_E_DEVICE,
                "in the background: unhandled cuda error (run with NCCL_DEBUG=INFO for details) "
                "(stand-in script: launch1=1)");
}

/* An error that a death explains: everybody sees the death, nobody revokes. While members connect,
 * NCCL calls a lost connection an internal error. */
static void check_explained(int result)
{
    const struct nccl_world_options options = {.is_checked = false, .has_revoke = true};
    struct ddp_revocation revocation;
    struct nccl_world world;
    char script[32];

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    post(&world, 0);
    post(&world, 2);
    nccl_world_settle(&world);
    (void)snprintf(script, sizeof(script), "rank0:async=%d", result);
    nccl_world_script(&world, script);
    nccl_world_settle(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
    nccl_world_kill(&world, 1);
    nccl_world_run(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_E_PEER_DIED);
    CT_CHECK_STATUS(status_of(&world, 2), DDP_E_PEER_DIED);
    CT_CHECK(!world.ranks[2].coll->ops->is_revoked(world.ranks[2].coll, &revocation));
    nccl_world_close(&world);
}

CT_TEST(nccl_failure, error_is_held_against_deaths)
{
    check_explained(DDP_NCCL_REMOTE_ERROR);
    check_explained(DDP_NCCL_INTERNAL_ERROR);
    check_explained(DDP_NCCL_SYSTEM_ERROR);
}

/* A member leaves in good order, and takes no part in what the others have launched. They end, and
 * nobody is called dead, no device broken. error: what NCCL says on rank 0; "": nothing. */
static void check_left(const char *error)
{
    const struct nccl_world_options options = {.is_checked = false, .has_revoke = true};
    struct ddp_revocation revocation;
    struct nccl_world world;
    char script[64];

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    post(&world, 0);
    post(&world, 2);
    nccl_world_settle(&world);
    ddp_control_leave(&((struct ddp_nccl_coll *)world.ranks[1].coll)->control);
    nccl_world_advance(&world, DDP_NS_PER_MS);
    nccl_world_settle(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
    if (error[0] != '\0') {
        (void)snprintf(script, sizeof(script), "rank0:async=%s", error);
        nccl_world_script(&world, script);
        nccl_world_settle(&world);
        CT_CHECK_STATUS(((struct ddp_nccl_coll *)world.ranks[0].coll)->queue.failed,
                        DDP_E_PEER_DIED);
    }
    nccl_world_advance(&world, DDP_QUEUE_SUSPICION_NS);
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < 3; rank += 2) {
        struct ddp_coll *coll = world.ranks[rank].coll;

        CT_CHECK_STATUS(status_of(&world, rank), DDP_E_PEER_DIED);
        CT_CHECK_EQ_I64(coll->ops->dead_rank(coll), -1);
        CT_CHECK(!coll->ops->is_revoked(coll, &revocation));
    }
    nccl_world_abort(&world, 1);
    nccl_world_close(&world);
}

CT_TEST(nccl_failure, member_that_leaves_ends_what_waits_for_it)
{
    check_left("");
    check_left("remote_error");
    check_left("system_error");
}

CT_TEST(nccl_failure, refused_call_ends_the_group)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    nccl_world_script(&world, "rank1:op1=invalid_argument");
    post(&world, 0);
    post(&world, 1);
    nccl_world_run(&world);
    CT_CHECK_STATUS(status_of(&world, 1), DDP_E_INVALID);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_E_REVOKED);
    CT_CHECK_STR(last_error(&world, 1),
                 "ncclAllReduce: invalid argument (run with NCCL_DEBUG=WARN for details) "
                 "(stand-in script: op1=4)");
    nccl_world_close(&world);
}

/* A call that stays in progress: the rank's works wait until a member revokes the group. */
CT_TEST(nccl_failure, call_in_progress_for_ever_can_be_revoked)
{
    const struct ddp_revocation revocation = {.rank = 1, .status = DDP_E_TIMEOUT, .step = 3};
    const struct nccl_world_options options = {.is_checked = true, .has_revoke = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    nccl_world_script(&world, "rank0:launch1=hang");
    post(&world, 0);
    post(&world, 1);
    post(&world, 0);
    post(&world, 1);
    nccl_world_settle(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
    world.ranks[1].coll->ops->revoke(world.ranks[1].coll, &revocation);
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < 2; rank++) {
        CT_CHECK_STATUS(world.ranks[rank].works[1].status, DDP_E_REVOKED);
    }
    CT_CHECK_STATUS(status_of(&world, 0), DDP_E_REVOKED);
    nccl_world_close(&world);
}

/* Kernels may write to the buffers until the abort has returned, so works do not end before that.
 * If the abort hangs, they end at its deadline. */
CT_TEST(nccl_failure, started_works_wait_for_the_abort)
{
    const struct ddp_revocation revocation = {.rank = 0, .status = DDP_E_TIMEOUT};
    struct nccl_world_options options = {.is_checked = false,
                                         .abort_timeout_ns = 100 * DDP_NS_PER_MS};
    struct nccl_world world;

    for (int is_endless = 0; is_endless < 2; is_endless++) {
        CT_REQUIRE(nccl_world_open(&world, 2, &options));
        post(&world, 0);
        nccl_world_settle(&world);
        nccl_world_script(&world, "abort=hang");
        world.ranks[0].coll->ops->revoke(world.ranks[0].coll, &revocation);
        nccl_world_settle(&world);
        nccl_turns_await_hanging(1);
        CT_CHECK_STATUS(status_of(&world, 0), DDP_PENDING);
        if (is_endless) {
            nccl_world_advance(&world, 100 * DDP_NS_PER_MS);
        } else {
            nccl_world_script(&world, "");
        }
        nccl_world_run(&world);
        CT_CHECK_STATUS(status_of(&world, 0), DDP_E_REVOKED);
        if (is_endless) {
            /* The stream is left to the kernels that may still run on it. */
            world.ranks[0].device.is_killed = true;
            world.ranks[0].store->ops->destroy(world.ranks[0].store);
            nccl_world_script(&world, "");
        }
        nccl_world_close(&world);
    }
}

/* A work that was not started ends at once: no kernel uses its buffers. */
CT_TEST(nccl_failure, queued_works_end_at_once)
{
    const struct ddp_revocation revocation = {.rank = 0, .status = DDP_E_TIMEOUT};
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    post(&world, 0);
    nccl_world_settle(&world);
    nccl_world_script(&world, "abort=hang");
    world.ranks[0].coll->ops->revoke(world.ranks[0].coll, &revocation);
    CT_CHECK_STATUS(world.ranks[0].coll->ops->poll(world.ranks[0].coll, &world.ranks[0].works[0]),
                    DDP_E_REVOKED);
    nccl_world_script(&world, "");
    nccl_world_close(&world);
}

CT_TEST(nccl_failure, device_error_ends_the_group)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    post(&world, 0);
    nccl_world_settle(&world);
    world.ranks[0].device.is_broken = true;
    nccl_world_run(&world);
    CT_CHECK_STATUS(status_of(&world, 0), DDP_E_DEVICE);
    CT_CHECK_STR(last_error(&world, 0), "illegal access");
    post(&world, 1);
    nccl_world_run(&world);
    CT_CHECK_STATUS(status_of(&world, 1), DDP_E_REVOKED);
    nccl_world_close(&world);
}

/* Works that were complete before the error end with OK. */
CT_TEST(nccl_failure, ended_work_stays_good)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    post(&world, 0);
    post(&world, 1);
    /* Rank 0 launches all of it, but does not look whether it is done. */
    ddp_nccl_standin_turn();
    CT_CHECK_STATUS(world.ranks[0].coll->ops->poll(world.ranks[0].coll, &world.ranks[0].works[0]),
                    DDP_PENDING);
    while (world.ranks[1].coll->ops->poll(world.ranks[1].coll, &world.ranks[1].works[0]) ==
           DDP_PENDING) {
        (void)nccl_device_run(&world.ranks[0].device);
        (void)nccl_device_run(&world.ranks[1].device);
        ddp_nccl_standin_turn();
    }
    (void)nccl_device_run(&world.ranks[0].device);
    CT_CHECK_OK(status_of(&world, 1));
    nccl_world_script(&world, "rank0:async=invalid_usage");
    nccl_world_run(&world);
    CT_CHECK_OK(status_of(&world, 0));
    CT_CHECK_STATUS(nccl_world_post(&world, 0, &world.ranks[0].works[0].args), DDP_E_STATE);
    nccl_world_close(&world);
}

CT_TEST(nccl_failure, fault_points)
{
    const struct nccl_world_options options = {.is_checked = true, .has_revoke = true};
    const struct ddp_coll_args args = args_of(0);
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    nccl_world_script(&world, "rank0:launch1=hang");
    post(&world, 0);
    post(&world, 1);
    nccl_world_settle(&world);
    nccl_world_script(&world, "");
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < 2; rank++) {
        /* Once each, however often NCCL was polled, and not again by the control channel. */
        CT_CHECK_EQ_U64(world.ranks[rank].fired[DDP_FAULT_POINT_COLLECTIVE_ENQUEUE], 1);
        CT_CHECK_EQ_U64(world.ranks[rank].fired[DDP_FAULT_POINT_COLLECTIVE_LAUNCH], 1);
        CT_CHECK_EQ_U64(world.ranks[rank].fired[DDP_FAULT_POINT_NCCL_ASYNC_ERROR], 1);
    }
    world.ranks[0].point = DDP_FAULT_POINT_COLLECTIVE_ENQUEUE;
    world.ranks[0].action = DDP_FAULT_FAIL;
    CT_CHECK_STATUS(nccl_world_post(&world, 0, &args), DDP_E_INJECTED);
    world.ranks[0].action = DDP_FAULT_SKIP;
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    CT_CHECK_OK(world.ranks[0].works[2].status);
    CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 2);
    nccl_world_close(&world);

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    world.ranks[1].point = DDP_FAULT_POINT_NCCL_ASYNC_ERROR;
    world.ranks[1].action = DDP_FAULT_FAIL;
    post(&world, 0);
    post(&world, 1);
    nccl_world_settle(&world);
    nccl_world_advance(&world, DDP_NS_PER_S);
    nccl_world_run(&world);
    CT_CHECK_STATUS(status_of(&world, 1), DDP_E_DEVICE);
    CT_CHECK(strstr(last_error(&world, 1), "injected: remote process exited") != NULL);
    CT_CHECK(status_of(&world, 0) == DDP_OK || status_of(&world, 0) == DDP_E_REVOKED);
    nccl_world_close(&world);
}

/* After the agreement: what is left out is reported done, and never reaches NCCL. */
CT_TEST(nccl_failure, launches_can_be_left_out_or_fail)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    for (int is_failing = 0; is_failing < 2; is_failing++) {
        CT_REQUIRE(nccl_world_open(&world, 2, &options));
        world.ranks[1].point = DDP_FAULT_POINT_COLLECTIVE_LAUNCH;
        world.ranks[1].action = is_failing ? DDP_FAULT_FAIL : DDP_FAULT_SKIP;
        post(&world, 0);
        post(&world, 1);
        nccl_world_settle(&world);
        CT_CHECK_STATUS(status_of(&world, 1), is_failing ? DDP_E_INJECTED : DDP_OK);
        CT_CHECK(nccl_turns_count(NCCL_TURNS_DATA) <= 1);
        nccl_world_close(&world);
    }
}

CT_TEST(nccl_failure, invalid_arguments)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct ddp_coll_args args = args_of(0);
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 1, &options));
    args.root = 1;
    CT_CHECK_STATUS(nccl_world_post(&world, 0, &args), DDP_E_INVALID);
    args = args_of(0);
    args.dtype = DDP_DTYPE_COUNT;
    CT_CHECK_STATUS(nccl_world_post(&world, 0, &args), DDP_E_INVALID);
    CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 0);
    post(&world, 0);
    nccl_world_run(&world);
    CT_CHECK_OK(world.ranks[0].works[2].status);
    nccl_world_close(&world);
}
