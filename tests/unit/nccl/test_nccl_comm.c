/* The communicator's states, driven by a scripted NCCL. */
#include <sched.h>
#include <string.h>

#include "ddpcore/nccl/comm.h"
#include "tests/ct.h"
#include "tests/unit/nccl/nccl_fake.h"

struct bench {
    struct nccl_fake fake;
    struct ddp_clock_virtual clock;
    struct ddp_nccl_comm *comm;
    struct ddp_nccl_comm_handle *handle;
};

#define INIT_NS UINT64_C(1000)
#define END_NS  UINT64_C(500)

static ddp_status try_connect(struct bench *bench, struct ddp_err *err)
{
    struct ddp_nccl_comm_config config = {.library = &bench->fake.library,
                                          .clock = &bench->clock.base,
                                          .member = 1,
                                          .member_count = 2,
                                          .init_timeout_ns = INIT_NS,
                                          .end_timeout_ns = END_NS};

    memset(&config.id, 0x5a, sizeof(config.id));
    bench->handle = &bench->fake.comms[bench->fake.comm_count];
    return ddp_nccl_comm_create(&config, &bench->comm, err);
}

static void open_bench(struct bench *bench, bool has_revoke)
{
    nccl_fake_open(&bench->fake, has_revoke);
    ddp_clock_virtual_init(&bench->clock, 1);
    bench->comm = NULL;
}

/* Until it is READY. */
static void connect_bench(struct bench *bench, bool has_revoke)
{
    struct ddp_err err = {""};

    open_bench(bench, has_revoke);
    CT_REQUIRE_OK(try_connect(bench, &err));
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench->comm), DDP_PENDING);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench->comm), DDP_NCCL_COMM_CONNECTING);
    CT_CHECK_OK(ddp_nccl_comm_poll(bench->comm));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench->comm), DDP_NCCL_COMM_READY);
}

/* Threads decide when they return: the virtual clock stands still meanwhile. */
static ddp_status poll_out(struct bench *bench)
{
    ddp_status status = DDP_PENDING;

    while ((status = ddp_nccl_comm_poll(bench->comm)) == DDP_PENDING) {
        (void)sched_yield();
    }
    return status;
}

static void end(struct bench *bench)
{
    ddp_nccl_comm_abort(bench->comm);
    (void)poll_out(bench);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench->comm), DDP_NCCL_COMM_GONE);
    ddp_nccl_comm_destroy(bench->comm);
    nccl_fake_close(&bench->fake);
}

static ddp_status call(struct bench *bench)
{
    struct ddp_nccl_comm_handle *handle = ddp_nccl_comm_begin(bench->comm);

    atomic_store(&handle->async, handle->call_async);
    return ddp_nccl_comm_started(bench->comm, handle->call_async, "ncclAllReduce");
}

CT_TEST(nccl_comm, connects_calls_and_ends_in_order)
{
    struct bench bench;

    connect_bench(&bench, true);
    CT_CHECK_OK(call(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_BUSY);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    CT_CHECK_OK(ddp_nccl_comm_poll(bench.comm));
    ddp_nccl_comm_finalize(bench.comm);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_FINALIZING);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_I64(bench.handle->finalizes, 1);
    CT_CHECK_EQ_I64(bench.handle->destroys, 1);
    CT_CHECK_EQ_I64(bench.handle->aborts, 0);
    CT_CHECK_EQ_I64(bench.handle->revokes, 0);
    CT_CHECK_STR(ddp_nccl_comm_error(bench.comm), "");
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 0);
}

CT_TEST(nccl_comm, members_that_never_come_end_at_the_deadline)
{
    struct ddp_err err = {""};
    struct bench bench;

    open_bench(&bench, true);
    bench.fake.init_after = DDP_NCCL_IN_PROGRESS;
    CT_REQUIRE_OK(try_connect(&bench, &err));
    for (int i = 0; i < 100; i++) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    }
    ddp_clock_virtual_advance_to(&bench.clock, 1 + INIT_NS);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK(strstr(ddp_nccl_comm_error(bench.comm), "in time") != NULL);
    end(&bench);
    /* It was never whole, so there was nothing to revoke. */
    CT_CHECK_EQ_I64(bench.handle->revokes, 0);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

CT_TEST(nccl_comm, refusal_to_connect_is_told_with_its_text)
{
    struct ddp_err err = {""};
    struct bench bench;

    open_bench(&bench, false);
    bench.fake.is_init_null = true;
    bench.fake.init_result = DDP_NCCL_CUDA_ERROR;
    bench.fake.last_error = "no driver";
    CT_CHECK_STATUS(try_connect(&bench, &err), DDP_E_DEVICE);
    CT_CHECK_STR(err.text, "ncclCommInitRankConfig: unhandled cuda error (no driver)");
    nccl_fake_close(&bench.fake);
}

CT_TEST(nccl_comm, refused_handle_is_given_back_by_abort)
{
    struct ddp_err err = {""};
    struct bench bench;

    open_bench(&bench, true);
    bench.fake.init_result = DDP_NCCL_SYSTEM_ERROR;
    CT_REQUIRE_OK(try_connect(&bench, &err));
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_SYSTEM);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

static void check_async(int result, ddp_status status, const char *text)
{
    struct bench bench;

    connect_bench(&bench, false);
    CT_CHECK_OK(call(&bench));
    bench.fake.last_error = "socket 7";
    atomic_store(&bench.handle->after, result);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), status);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_FAILED);
    CT_CHECK_STR(ddp_nccl_comm_error(bench.comm), text);
    /* Final: what NCCL says later changes nothing. */
    atomic_store(&bench.handle->async, DDP_NCCL_SUCCESS);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), status);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    CT_CHECK_EQ_I64(bench.handle->destroys, 0);
}

CT_TEST(nccl_comm, background_errors_are_final_and_translated)
{
    check_async(DDP_NCCL_REMOTE_ERROR, DDP_E_PEER_DIED,
                "in the background: remote process exited or there was a network error (socket 7)");
    check_async(DDP_NCCL_INVALID_USAGE, DDP_E_STATE, "in the background: invalid usage (socket 7)");
    check_async(DDP_NCCL_SYSTEM_ERROR, DDP_E_SYSTEM,
                "in the background: unhandled system error (socket 7)");
    check_async(DDP_NCCL_INTERNAL_ERROR, DDP_E_SYSTEM,
                "in the background: internal error (socket 7)");
    check_async(DDP_NCCL_CUDA_ERROR, DDP_E_DEVICE,
                "in the background: unhandled cuda error (socket 7)");
    check_async(77, DDP_E_SYSTEM, "in the background: unknown result code (socket 7)");
}

CT_TEST(nccl_comm, error_at_rest_is_seen)
{
    struct bench bench;

    connect_bench(&bench, false);
    atomic_store(&bench.handle->async, DDP_NCCL_REMOTE_ERROR);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_PEER_DIED);
    end(&bench);
}

CT_TEST(nccl_comm, refused_call_names_itself)
{
    struct bench bench;

    connect_bench(&bench, false);
    (void)ddp_nccl_comm_begin(bench.comm);
    CT_CHECK_STATUS(ddp_nccl_comm_started(bench.comm, DDP_NCCL_INVALID_ARGUMENT, "ncclBroadcast"),
                    DDP_E_INVALID);
    CT_CHECK_STR(ddp_nccl_comm_error(bench.comm), "ncclBroadcast: invalid argument");
    end(&bench);
}

/* A device that is lost fails NCCL's revocation half-way; an abort behind that never returns. */
CT_TEST(nccl_comm, abort_never_revokes_first)
{
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        struct bench bench;

        connect_bench(&bench, true);
        bench.fake.is_device_lost = is_lost;
        CT_CHECK_OK(call(&bench));
        if (is_lost) {
            atomic_store(&bench.handle->async, DDP_NCCL_CUDA_ERROR);
            CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_DEVICE);
        }
        ddp_nccl_comm_abort(bench.comm);
        CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_ABORTING);
        CT_CHECK_OK(poll_out(&bench));
        CT_CHECK_EQ_I64(bench.handle->revokes, 0);
        CT_CHECK_EQ_I64(bench.handle->aborts, 1);
        end(&bench);
    }
}

CT_TEST(nccl_comm, revoked_communicator_rests_until_it_is_aborted)
{
    struct bench bench;

    connect_bench(&bench, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK(!ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_REVOKED);
    CT_CHECK(!ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK_EQ_I64(bench.handle->aborts, 0);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->revokes, 1);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

CT_TEST(nccl_comm, abort_while_revoking_follows_it)
{
    struct bench bench;

    connect_bench(&bench, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    ddp_nccl_comm_abort(bench.comm);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_GONE);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    end(&bench);
}

/* The call that revokes returns, but the communicator never comes to rest: then abort. Unless it
 * was asked for already, that is a failure: what was to be stopped may still run. */
static void check_endless_revocation(bool is_aborted)
{
    struct bench bench;
    uint32_t asked;

    connect_bench(&bench, true);
    nccl_fake_hang(&bench.fake, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    if (is_aborted) {
        ddp_nccl_comm_abort(bench.comm);
    }
    asked = bench.handle->asked;
    nccl_fake_await_hanging(&bench.fake, 1);
    atomic_store(&bench.handle->after, DDP_NCCL_IN_PROGRESS);
    nccl_fake_hang(&bench.fake, false);
    /* NCCL is asked once the call has returned. */
    while (bench.handle->asked < asked + 100) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
        CT_CHECK_EQ_I64(bench.handle->aborts, 0);
        (void)sched_yield();
    }
    ddp_clock_virtual_advance_to(&bench.clock, 2 + END_NS);
    CT_CHECK_STATUS(poll_out(&bench), is_aborted ? DDP_OK : DDP_E_TIMEOUT);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm),
                    is_aborted ? DDP_NCCL_COMM_GONE : DDP_NCCL_COMM_FAILED);
    CT_CHECK_EQ_I64(bench.handle->aborts, is_aborted ? 1 : 0);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

CT_TEST(nccl_comm, endless_revocation_ends_at_the_deadline)
{
    check_endless_revocation(true);
    check_endless_revocation(false);
}

static void check_left_behind(bool is_revoked)
{
    struct bench bench;

    connect_bench(&bench, is_revoked);
    nccl_fake_hang(&bench.fake, true);
    if (is_revoked) {
        CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    }
    ddp_nccl_comm_abort(bench.comm);
    for (int i = 0; i < 100; i++) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    }
    ddp_clock_virtual_advance_to(&bench.clock, 1 + END_NS);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_GONE);
    /* The thread still has the communicator's memory, and frees it once it is let go. */
    ddp_nccl_comm_destroy(bench.comm);
    nccl_fake_await_hanging(&bench.fake, 1);
    CT_CHECK_EQ_I64(is_revoked ? bench.handle->revokes : bench.handle->aborts, 1);
    nccl_fake_close(&bench.fake);
}

CT_TEST(nccl_comm, thread_that_hangs_in_nccl_is_left_behind)
{
    check_left_behind(false);
    check_left_behind(true);
}

CT_TEST(nccl_comm, endless_finalize_is_aborted_at_the_deadline)
{
    struct bench bench;

    connect_bench(&bench, true);
    atomic_store(&bench.handle->after, DDP_NCCL_IN_PROGRESS);
    ddp_nccl_comm_finalize(bench.comm);
    for (int i = 0; i < 100; i++) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    }
    ddp_clock_virtual_advance_to(&bench.clock, 1 + END_NS);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    CT_CHECK_EQ_I64(bench.handle->destroys, 0);
    /* NCCL refuses to revoke what it finalizes. */
    CT_CHECK_EQ_I64(bench.handle->revokes, 0);
    end(&bench);
}

CT_TEST(nccl_comm, failed_finalize_is_aborted)
{
    struct bench bench;

    connect_bench(&bench, true);
    bench.fake.finalize_async = DDP_NCCL_REMOTE_ERROR;
    ddp_nccl_comm_finalize(bench.comm);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_ABORTING);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    end(&bench);
}

CT_TEST(nccl_comm, abort_of_a_communicator_that_connects)
{
    struct ddp_err err = {""};
    struct bench bench;

    open_bench(&bench, true);
    bench.fake.init_after = DDP_NCCL_IN_PROGRESS;
    CT_REQUIRE_OK(try_connect(&bench, &err));
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->revokes, 0);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

static const uint32_t excluded[] = {0};

CT_TEST(nccl_comm, shrinks_into_a_child_that_is_ready)
{
    struct ddp_nccl_comm *child = NULL;
    struct bench bench;

    connect_bench(&bench, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK_OK(poll_out(&bench));
    ddp_nccl_comm_shrink(bench.comm, excluded, 1, INIT_NS);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_SHRINKING);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_SHRUNK);
    /* The caller's list is not the one that NCCL sorts. */
    CT_CHECK_EQ_U64(excluded[0], 0);
    CT_REQUIRE_OK(ddp_nccl_comm_take_child(bench.comm, &child));
    CT_CHECK_OK(ddp_nccl_comm_poll(child));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(child), DDP_NCCL_COMM_READY);
    CT_CHECK_EQ_U64(bench.fake.comms[1].member_count, 1);
    CT_CHECK_EQ_U64(bench.fake.comms[1].member, 0);
    ddp_nccl_comm_finalize(child);
    while (ddp_nccl_comm_poll(child) == DDP_PENDING) {
        (void)sched_yield();
    }
    ddp_nccl_comm_destroy(child);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->revokes, 1);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    CT_CHECK_EQ_I64(bench.fake.comms[1].destroys, 1);
    CT_CHECK_EQ_I64(bench.fake.comms[1].aborts, 0);
}

CT_TEST(nccl_comm, refused_shrink_is_told_with_its_text)
{
    struct bench bench;

    connect_bench(&bench, false);
    bench.fake.shrink_result = DDP_NCCL_REMOTE_ERROR;
    ddp_nccl_comm_shrink(bench.comm, excluded, 1, INIT_NS);
    CT_CHECK_STATUS(poll_out(&bench), DDP_E_PEER_DIED);
    CT_CHECK(strstr(ddp_nccl_comm_error(bench.comm), "ncclCommShrink: remote process") != NULL);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

/* NCCL leaves a handle that has to be aborted, too. */
CT_TEST(nccl_comm, child_that_fails_is_aborted_behind_its_parent)
{
    struct bench bench;

    connect_bench(&bench, false);
    bench.fake.shrink_after = DDP_NCCL_SYSTEM_ERROR;
    ddp_nccl_comm_shrink(bench.comm, excluded, 1, INIT_NS);
    CT_CHECK_STATUS(poll_out(&bench), DDP_E_SYSTEM);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    CT_CHECK_EQ_I64(bench.fake.comms[1].aborts, 1);
}

CT_TEST(nccl_comm, shrink_that_nobody_joins_ends_at_the_deadline)
{
    struct bench bench;

    connect_bench(&bench, false);
    bench.fake.shrink_after = DDP_NCCL_IN_PROGRESS;
    ddp_nccl_comm_shrink(bench.comm, excluded, 1, INIT_NS);
    while (bench.handle->shrinks == 0 || atomic_load(&bench.handle->async) == 0) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
        (void)sched_yield();
    }
    for (int i = 0; i < 100; i++) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    }
    ddp_clock_virtual_advance_to(&bench.clock, 1 + INIT_NS);
    while (ddp_nccl_comm_state(bench.comm) == DDP_NCCL_COMM_SHRINKING) {
        (void)ddp_nccl_comm_poll(bench.comm);
    }
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    end(&bench);
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
}

CT_TEST(nccl_comm, abort_waits_for_the_call_that_shrinks)
{
    struct bench bench;

    connect_bench(&bench, false);
    nccl_fake_hang(&bench.fake, true);
    ddp_nccl_comm_shrink(bench.comm, excluded, 1, INIT_NS);
    nccl_fake_await_hanging(&bench.fake, 1);
    ddp_nccl_comm_abort(bench.comm);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    CT_CHECK_EQ_I64(bench.handle->aborts, 0);
    nccl_fake_hang(&bench.fake, false);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_I64(bench.handle->aborts, 1);
    end(&bench);
}

CT_TEST(nccl_comm, results_and_types_are_translated)
{
    CT_CHECK_STATUS(ddp_nccl_status(0), DDP_OK);
    CT_CHECK_STATUS(ddp_nccl_status(1), DDP_E_DEVICE);
    CT_CHECK_STATUS(ddp_nccl_status(2), DDP_E_SYSTEM);
    CT_CHECK_STATUS(ddp_nccl_status(3), DDP_E_SYSTEM);
    CT_CHECK_STATUS(ddp_nccl_status(4), DDP_E_INVALID);
    CT_CHECK_STATUS(ddp_nccl_status(5), DDP_E_STATE);
    CT_CHECK_STATUS(ddp_nccl_status(6), DDP_E_PEER_DIED);
    CT_CHECK_STATUS(ddp_nccl_status(7), DDP_PENDING);
    CT_CHECK_STATUS(ddp_nccl_status(8), DDP_E_SYSTEM);
    CT_CHECK_STATUS(ddp_nccl_status(-1), DDP_E_SYSTEM);
    CT_CHECK_EQ_I64(ddp_nccl_dtype_of(DDP_DTYPE_F32), 7);
    CT_CHECK_EQ_I64(ddp_nccl_dtype_of(DDP_DTYPE_BF16), 9);
    CT_CHECK_EQ_I64(ddp_nccl_dtype_of(DDP_DTYPE_U8), 1);
    CT_CHECK_EQ_I64(ddp_nccl_redop_of(DDP_REDOP_SUM), 0);
    CT_CHECK_EQ_I64(ddp_nccl_redop_of(DDP_REDOP_MIN), 3);
}
