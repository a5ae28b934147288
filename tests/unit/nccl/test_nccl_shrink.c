/* A communicator that is shrunk, over NCCL's stand-in. */
#include <sched.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/functions.h"
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

CT_TEST(nccl_comm, shrinks_into_a_child_that_is_ready)
{
    uint32_t excluded[] = {2, 0};
    struct ddp_nccl_comm *child = NULL;
    struct standin_comm *handle;
    struct nccl_bench bench;
    int value = -1;

    nccl_bench_connect(&bench, 3, true);
    CT_CHECK(ddp_nccl_comm_revoke(bench.comm));
    CT_CHECK_OK(poll_out(&bench));
    ddp_nccl_comm_shrink(bench.comm, excluded, 2, NCCL_BENCH_INIT_NS);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_SHRINKING);
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench.comm), DDP_NCCL_COMM_SHRUNK);
    /* The caller's list is not the one that NCCL sorts. */
    CT_CHECK(excluded[0] == 2 && excluded[1] == 0);
    CT_REQUIRE_OK(ddp_nccl_comm_take_child(bench.comm, &child));
    CT_CHECK_OK(ddp_nccl_comm_poll(child));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(child), DDP_NCCL_COMM_READY);
    handle = (struct standin_comm *)(void *)ddp_nccl_comm_begin(child);
    CT_CHECK_EQ_I64(ncclCommCount(handle, &value), 0);
    CT_CHECK_EQ_I64(value, 1);
    CT_CHECK_EQ_I64(ncclCommUserRank(handle, &value), 0);
    CT_CHECK_EQ_I64(value, 0);
    ddp_nccl_comm_finalize(child);
    CT_CHECK_OK(nccl_bench_poll_out(child));
    ddp_nccl_comm_destroy(child);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommRevoke"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("3: ncclCommDestroy"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("3: ncclCommAbort"), 0);
}

static const uint32_t first[] = {0};

CT_TEST(nccl_comm, refused_shrink_is_told_with_its_text)
{
    struct nccl_bench bench;

    connect_bench(&bench, false);
    nccl_turns_script("", "shrink_call=remote_error");
    ddp_nccl_comm_shrink(bench.comm, first, 1, NCCL_BENCH_INIT_NS);
    CT_CHECK_STATUS(poll_out(&bench), DDP_E_PEER_DIED);
    CT_CHECK(strstr(ddp_nccl_comm_error(bench.comm), "ncclCommShrink: remote process") != NULL);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
}

/* NCCL leaves a handle that has to be aborted, too. */
CT_TEST(nccl_comm, child_that_fails_is_aborted_behind_its_parent)
{
    struct nccl_bench bench;

    connect_bench(&bench, false);
    nccl_turns_script("", "child=system_error");
    ddp_nccl_comm_shrink(bench.comm, first, 1, NCCL_BENCH_INIT_NS);
    CT_CHECK_STATUS(poll_out(&bench), DDP_E_SYSTEM);
    nccl_bench_end(&bench);
    CT_CHECK_STR(nccl_turns_line("*: ncclCommAbort", 0), "0: ncclCommAbort");
    CT_CHECK_STR(nccl_turns_line("*: ncclCommAbort", 1), "2: ncclCommAbort");
    CT_CHECK_EQ_U64(nccl_turns_count("[02]: ncclCommAbort"), 2);
}

CT_TEST(nccl_comm, shrink_that_nobody_joins_ends_at_the_deadline)
{
    struct nccl_bench bench;
    uint64_t asked;

    nccl_bench_connect(&bench, 3, false);
    asked = ddp_nccl_standin_asked();
    ddp_nccl_comm_shrink(bench.comm, first, 1, NCCL_BENCH_INIT_NS);
    /* Until the call that shrinks has returned: from then on its progress is asked for. */
    while (ddp_nccl_standin_asked() == asked) {
        nccl_bench_check_pending(&bench);
        (void)sched_yield();
    }
    nccl_bench_check_pending(&bench);
    ddp_clock_virtual_advance_to(&bench.clock, 1 + NCCL_BENCH_INIT_NS);
    while (ddp_nccl_comm_state(bench.comm) == DDP_NCCL_COMM_SHRINKING) {
        (void)ddp_nccl_comm_poll(bench.comm);
    }
    CT_CHECK_STATUS(ddp_nccl_comm_poll(bench.comm), DDP_E_TIMEOUT);
    nccl_bench_end(&bench);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
}

CT_TEST(nccl_comm, abort_waits_for_the_call_that_shrinks)
{
    struct nccl_bench bench;

    connect_bench(&bench, false);
    nccl_turns_script("", "shrink_call=hang");
    ddp_nccl_comm_shrink(bench.comm, first, 1, NCCL_BENCH_INIT_NS);
    nccl_turns_await_hanging(1);
    ddp_nccl_comm_abort(bench.comm);
    nccl_bench_check_pending(&bench);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 0);
    nccl_turns_script("", "");
    CT_CHECK_OK(poll_out(&bench));
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    nccl_bench_end(&bench);
}
