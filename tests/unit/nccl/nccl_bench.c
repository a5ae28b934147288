/* See the header. */
#include "tests/unit/nccl/nccl_bench.h"

#include <sched.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/hooks.h"

void nccl_bench_open(struct nccl_bench *bench, uint32_t member_count, bool has_revoke)
{
    memset(bench, 0, sizeof(*bench));
    bench->library = nccl_turns_open(has_revoke);
    bench->member_count = member_count;
    nccl_turns_script("", "");
    ddp_clock_virtual_init(&bench->clock, 1);
}

ddp_status nccl_bench_try_connect(struct nccl_bench *bench, struct ddp_err *err)
{
    struct ddp_nccl_comm_config config = {.library = bench->library,
                                          .clock = &bench->clock.base,
                                          .member = 1,
                                          .member_count = bench->member_count,
                                          .init_timeout_ns = NCCL_BENCH_INIT_NS,
                                          .end_timeout_ns = NCCL_BENCH_END_NS};

    CT_CHECK_EQ_I64(bench->library->calls.get_unique_id(&bench->id), DDP_NCCL_SUCCESS);
    config.id = bench->id;
    return ddp_nccl_comm_create(&config, &bench->comm, err);
}

void nccl_bench_settle(void)
{
    for (int i = 0; i < NCCL_BENCH_TURNS; i++) {
        ddp_nccl_standin_turn();
    }
}

void nccl_bench_check_pending(const struct nccl_bench *bench)
{
    for (int i = 0; i < NCCL_BENCH_TURNS; i++) {
        CT_CHECK_STATUS(ddp_nccl_comm_poll(bench->comm), DDP_PENDING);
        ddp_nccl_standin_turn();
    }
}

static void connect_others(struct nccl_bench *bench)
{
    struct ddp_nccl_config config = {.size = sizeof(config),
                                     .magic = DDP_NCCL_CONFIG_MAGIC,
                                     .version = DDP_NCCL_CONFIG_VERSION,
                                     .blocking = 0};

    for (uint32_t i = 0; i + 1 < bench->member_count; i++) {
        CT_CHECK_EQ_I64(bench->library->calls.init(&bench->others[i], (int)bench->member_count,
                                                   bench->id, (int)(2 * i), &config),
                        DDP_NCCL_IN_PROGRESS);
    }
    nccl_bench_settle();
}

void nccl_bench_connect(struct nccl_bench *bench, uint32_t member_count, bool has_revoke)
{
    struct ddp_err err = {""};

    nccl_bench_open(bench, member_count, has_revoke);
    CT_REQUIRE_OK(nccl_bench_try_connect(bench, &err));
    nccl_bench_check_pending(bench);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench->comm), DDP_NCCL_COMM_CONNECTING);
    connect_others(bench);
    CT_CHECK_OK(ddp_nccl_comm_poll(bench->comm));
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench->comm), DDP_NCCL_COMM_READY);
    bench->handle = ddp_nccl_comm_begin(bench->comm);
}

ddp_status nccl_bench_poll_out(struct ddp_nccl_comm *comm)
{
    ddp_status status = DDP_PENDING;

    while ((status = ddp_nccl_comm_poll(comm)) == DDP_PENDING) {
        ddp_nccl_standin_turn();
        (void)sched_yield();
    }
    return status;
}

void nccl_bench_close(struct nccl_bench *bench)
{
    nccl_turns_script("", "");
    for (uint32_t i = 0; i < NCCL_BENCH_OTHERS_MAX; i++) {
        (void)bench->library->calls.abort(bench->others[i]);
    }
    nccl_turns_close(bench->library);
}

void nccl_bench_end(struct nccl_bench *bench)
{
    ddp_nccl_comm_abort(bench->comm);
    (void)nccl_bench_poll_out(bench->comm);
    CT_CHECK_EQ_U64(ddp_nccl_comm_state(bench->comm), DDP_NCCL_COMM_GONE);
    ddp_nccl_comm_destroy(bench->comm);
    nccl_bench_close(bench);
}

static int all_reduce(struct nccl_bench *bench, uint32_t i, struct ddp_nccl_comm_handle *handle)
{
    return bench->library->calls.all_reduce(&bench->data[i], &bench->data[i], 1, DDP_NCCL_F32,
                                            DDP_NCCL_SUM, handle, NULL);
}

ddp_status nccl_bench_call(struct nccl_bench *bench)
{
    return ddp_nccl_comm_started(
        bench->comm, all_reduce(bench, 0, ddp_nccl_comm_begin(bench->comm)), "ncclAllReduce");
}

void nccl_bench_call_others(struct nccl_bench *bench)
{
    for (uint32_t i = 0; i + 1 < bench->member_count; i++) {
        CT_CHECK_EQ_I64(all_reduce(bench, i + 1, bench->others[i]), DDP_NCCL_IN_PROGRESS);
    }
    nccl_bench_settle();
}
