/* The communicator's states, over NCCL's stand-in. */
#include <sched.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/unit/nccl/nccl_bench.h"

static void connect_bench(struct nccl_bench *bench, bool has_revoke)
{
    nccl_bench_connect(bench, 2, has_revoke);
}

static ddp_status poll_out(const struct nccl_bench *bench)
{
    return nccl_bench_poll_out(bench->comm);
}

static uint64_t aborts(void)
{
    return nccl_turns_count("0: ncclCommAbort");
}

static uint64_t revokes(void)
{
    return nccl_turns_count("0: ncclCommRevoke");
}

static uint64_t destroys(void)
{
    return nccl_turns_count("0: ncclCommDestroy");
}

CT_TEST(nccl_comm, connects_calls_and_ends_in_order)
{
    struct nccl_bench bench;

    connect_bench(&bench, true);
    CT_CHECK_OK(nccl_bench_call(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_BUSY);
    nccl_bench_check_pending(&bench);
    nccl_bench_call_others(&bench);
    CT_CHECK_OK(ddp_nccl_comm_poll(bench.comm));
    ddp_nccl_comm_finalize(bench.comm);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_FINALIZING);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommFinalize"), 1);
    CT_CHECK_EQ_U64(destroys(), 1);
    CT_CHECK_EQ_U64(aborts(), 0);
    CT_CHECK_EQ_U64(revokes(), 0);
    CT_CHECK_STR(ddp_nccl_comm_error(bench.comm), "");
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(aborts(), 0);
}

CT_TEST(nccl_comm, members_that_never_come_end_at_the_deadline)
{
    struct ddp_err err = {""};
    struct nccl_bench bench;

    nccl_bench_open(&bench, 2, true);
    CT_REQUIRE_OK(nccl_bench_try_connect(&bench, &err));
    nccl_bench_check_pending(&bench);
    ddp_clock_virtual_advance_to(&bench.clock, 1 + NCCL_BENCH_INIT_NS);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK(strstr(ddp_nccl_comm_error(bench.comm), "in time") != NULL);
    nccl_bench_end(&bench);
    /* It was never whole, so there was nothing to revoke. */
    CT_CHECK_EQ_U64(revokes(), 0);
    CT_CHECK_EQ_U64(aborts(), 1);
}

CT_TEST(nccl_comm, refusal_to_connect_is_told_with_its_text)
{
    struct ddp_err err = {""};
    struct nccl_bench bench;

    nccl_bench_open(&bench, 2, false);
    nccl_turns_script("", "rank1:init_call=cuda_error");
    CT_CHECK_STATUS(nccl_bench_try_connect(&bench, &err), DDP_E_DEVICE);
    CT_CHECK_STR(err.text,
                 "ncclCommInitRankConfig: unhandled cuda error (run with NCCL_DEBUG=INFO for "
                 "details) (stand-in script: init_call=1)");
    nccl_bench_close(&bench);
}

CT_TEST(nccl_comm, refused_handle_is_given_back_by_abort)
{
    struct ddp_err err = {""};
    struct nccl_bench bench;

    nccl_bench_open(&bench, 2, true);
    nccl_turns_script("", "rank1:init_handle=system_error");
    CT_REQUIRE_OK(nccl_bench_try_connect(&bench, &err));
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_SYSTEM);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(aborts(), 1);
}

static void check_async(const char *script, ddp_status status, const char *text)
{
    struct nccl_bench bench;
    uint64_t asked;

    connect_bench(&bench, false);
    nccl_turns_script("", script);
    CT_CHECK_OK(nccl_bench_call(&bench));
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_PENDING);
    nccl_bench_settle();
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), status);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_FAILED);
    CT_CHECK_STR(ddp_nccl_comm_error(bench.comm), text);
    /* Final: what NCCL says later changes nothing. */
    asked = ddp_nccl_standin_asked();
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), status);
    CT_CHECK_EQ_U64(ddp_nccl_standin_asked(), asked);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(aborts(), 1);
    CT_CHECK_EQ_U64(destroys(), 0);
}

CT_TEST(nccl_comm, background_errors_are_final_and_translated)
{
    check_async("rank1:launch1=remote_error", DDP_E_PEER_DIED,
                "in the background: remote process exited or there was a network error (stand-in "
                "script: launch1=6)");
    check_async("rank1:launch1=invalid_usage", DDP_E_STATE,
                "in the background: invalid usage (run with NCCL_DEBUG=WARN for details) (stand-in "
                "script: launch1=5)");
    check_async("rank1:launch1=system_error", DDP_E_SYSTEM,
                "in the background: unhandled system error (run with NCCL_DEBUG=INFO for details) "
                "(stand-in script: launch1=2)");
    check_async("rank1:launch1=internal_error", DDP_E_SYSTEM,
                "in the background: internal error - please report this issue to the NCCL "
                "developers (stand-in script: launch1=3)");
    check_async("rank1:launch1=cuda_error", DDP_E_DEVICE,
                "in the background: unhandled cuda error (run with NCCL_DEBUG=INFO for details) "
                "(stand-in script: launch1=1)");
    check_async("rank1:launch1=unknown", DDP_E_SYSTEM,
                "in the background: unknown result code (stand-in script: launch1=77)");
}

CT_TEST(nccl_comm, error_at_rest_is_seen)
{
    struct nccl_bench bench;

    connect_bench(&bench, false);
    nccl_turns_script("", "rank1:async=remote_error");
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_PEER_DIED);
    nccl_bench_end(&bench);
}

CT_TEST(nccl_comm, refused_call_names_itself)
{
    struct nccl_bench bench;

    connect_bench(&bench, false);
    (void)ddp_nccl_comm_begin(bench.comm);
    CT_CHECK_STATUS(ddp_nccl_comm_started(bench.comm, DDP_NCCL_INVALID_ARGUMENT, "ncclBroadcast"),
                    DDP_E_INVALID);
    CT_CHECK_STR(ddp_nccl_comm_error(bench.comm),
                 "ncclBroadcast: invalid argument (run with NCCL_DEBUG=WARN for details)");
    nccl_bench_end(&bench);
}

/* A device that is lost fails NCCL's revocation half-way; an abort behind that never returns. */
CT_TEST(nccl_comm, abort_never_revokes_first)
{
    for (int is_lost = 0; is_lost < 2; is_lost++) {
        struct nccl_bench bench;

        connect_bench(&bench, true);
        nccl_turns_script("abort_after_revoke=hang", is_lost ? "rank1:launch1=cuda_error" : "");
        CT_CHECK_OK(nccl_bench_call(&bench));
        if (is_lost) {
            nccl_bench_settle();
            CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_DEVICE);
        }
        ddp_nccl_comm_abort(bench.comm);
        CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_ABORTING);
        CT_CHECK_OK(poll_out(&bench));
        CT_CHECK_EQ_U64(revokes(), 0);
        CT_CHECK_EQ_U64(aborts(), 1);
        nccl_bench_end(&bench);
    }
}

CT_TEST(nccl_comm, revoked_communicator_rests_until_it_is_aborted)
{
    struct nccl_bench bench;

    connect_bench(&bench, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK(!ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_REVOKED);
    CT_CHECK(!ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK_EQ_U64(aborts(), 0);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(revokes(), 1);
    CT_CHECK_EQ_U64(aborts(), 1);
}

CT_TEST(nccl_comm, abort_while_revoking_follows_it)
{
    struct nccl_bench bench;

    connect_bench(&bench, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    ddp_nccl_comm_abort(bench.comm);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_GONE);
    CT_CHECK_EQ_U64(aborts(), 1);
    nccl_bench_end(&bench);
}

/* The call that revokes returns, but the communicator never comes to rest: then abort. Unless it
 * was asked for already, that is a failure: what was to be stopped may still run. */
static void check_endless_revocation(bool is_aborted)
{
    struct nccl_bench bench;
    uint64_t asked;

    connect_bench(&bench, true);
    nccl_turns_script("", "revoke=hang");
    asked = ddp_nccl_standin_asked();
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    if (is_aborted) {
        ddp_nccl_comm_abort(bench.comm);
    }
    /* NCCL is asked once the call has returned. */
    while (ddp_nccl_standin_asked() < asked + NCCL_BENCH_TURNS) {
        nccl_bench_check_pending(&bench);
        CT_CHECK_EQ_U64(aborts(), 0);
        (void)sched_yield();
    }
    ddp_clock_virtual_advance_to(&bench.clock, 2 + NCCL_BENCH_END_NS);
    CT_CHECK_STATUS(poll_out(&bench), is_aborted ? DDP_OK : DDP_E_TIMEOUT);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm),
                    is_aborted ? DDP_NCCL_COMM_GONE : DDP_NCCL_COMM_FAILED);
    CT_CHECK_EQ_U64(aborts(), is_aborted ? 1 : 0);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(aborts(), 1);
}

CT_TEST(nccl_comm, endless_revocation_ends_at_the_deadline)
{
    check_endless_revocation(true);
    check_endless_revocation(false);
}

static void check_left_behind(bool is_revoked)
{
    struct nccl_bench bench;

    connect_bench(&bench, is_revoked);
    nccl_turns_script("", "rank1:revoke_call=hang;rank1:abort=hang");
    if (is_revoked) {
        CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    }
    ddp_nccl_comm_abort(bench.comm);
    nccl_bench_check_pending(&bench);
    ddp_clock_virtual_advance_to(&bench.clock, 1 + NCCL_BENCH_END_NS);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_GONE);
    /* The thread still has the communicator's memory, and frees it once it is let go. */
    ddp_nccl_comm_destroy(bench.comm);
    nccl_turns_await_hanging(1);
    CT_CHECK_EQ_U64(is_revoked ? revokes() : aborts(), 1);
    CT_CHECK_EQ_U64(is_revoked ? aborts() : revokes(), 0);
    nccl_turns_script("", "");
    while (ddp_nccl_standin_hanging() > 0) {
        (void)sched_yield();
    }
    if (is_revoked) { /* a revocation that hung has not touched it */
        CT_CHECK_EQ_I64(bench.library->calls.abort(bench.handle), DDP_NCCL_SUCCESS);
    }
    nccl_bench_close(&bench);
}

CT_TEST(nccl_comm, thread_that_hangs_in_nccl_is_left_behind)
{
    check_left_behind(false);
    check_left_behind(true);
}

CT_TEST(nccl_comm, endless_finalize_is_aborted_at_the_deadline)
{
    struct nccl_bench bench;

    connect_bench(&bench, true);
    nccl_turns_script("", "finalize=hang");
    ddp_nccl_comm_finalize(bench.comm);
    nccl_bench_check_pending(&bench);
    ddp_clock_virtual_advance_to(&bench.clock, 1 + NCCL_BENCH_END_NS);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(aborts(), 1);
    CT_CHECK_EQ_U64(destroys(), 0);
    /* NCCL refuses to revoke what it finalizes. */
    CT_CHECK_EQ_U64(revokes(), 0);
    nccl_bench_end(&bench);
}

CT_TEST(nccl_comm, failed_finalize_is_aborted)
{
    struct nccl_bench bench;

    connect_bench(&bench, true);
    nccl_turns_script("", "finalize=remote_error");
    ddp_nccl_comm_finalize(bench.comm);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_ABORTING);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(aborts(), 1);
    nccl_bench_end(&bench);
}

CT_TEST(nccl_comm, abort_of_a_communicator_that_connects)
{
    struct ddp_err err = {""};
    struct nccl_bench bench;

    nccl_bench_open(&bench, 2, true);
    CT_REQUIRE_OK(nccl_bench_try_connect(&bench, &err));
    nccl_bench_check_pending(&bench);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(revokes(), 0);
    CT_CHECK_EQ_U64(aborts(), 1);
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
