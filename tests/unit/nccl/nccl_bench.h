/* One communicator of the adapter over NCCL's stand-in in turns: it is member 1, the test itself
 * plays the others. */
#ifndef TESTS_UNIT_NCCL_NCCL_BENCH_H
#define TESTS_UNIT_NCCL_NCCL_BENCH_H

#include "ddpcore/nccl/comm.h"
#include "tests/unit/nccl/nccl_turns.h"

#define NCCL_BENCH_INIT_NS UINT64_C(1000)
#define NCCL_BENCH_END_NS  UINT64_C(500)
/* More turns than anything here takes. */
#define NCCL_BENCH_TURNS      100
#define NCCL_BENCH_OTHERS_MAX 2u

struct nccl_bench {
    struct ddp_nccl_library *library;
    struct ddp_clock_virtual clock;
    uint32_t member_count;
    struct ddp_nccl_id id;
    struct ddp_nccl_comm *comm; /* number 0 in the log */
    struct ddp_nccl_comm_handle *handle;
    struct ddp_nccl_comm_handle
        *others[NCCL_BENCH_OTHERS_MAX]; /* members 0 and 2; NULL: did not come */
    float data[1 + NCCL_BENCH_OTHERS_MAX];
};

void nccl_bench_open(struct nccl_bench *bench, uint32_t member_count, bool has_revoke);
ddp_status nccl_bench_try_connect(struct nccl_bench *bench, struct ddp_err *err);
/* Both, and the others connect, too, until it is READY. */
void nccl_bench_connect(struct nccl_bench *bench, uint32_t member_count, bool has_revoke);
/* NCCL goes on as far as it can. */
void nccl_bench_settle(void);
/* The same, and it stays pending. */
void nccl_bench_check_pending(const struct nccl_bench *bench);
/* Polls until it is not pending. Threads decide when they return: the virtual clock stands still
 * meanwhile. */
ddp_status nccl_bench_poll_out(struct ddp_nccl_comm *comm);
/* A collective: NCCL is busy until the others call it, too. */
ddp_status nccl_bench_call(struct nccl_bench *bench);
void nccl_bench_call_others(struct nccl_bench *bench);
/* It is aborted, if it has not ended; then as close. */
void nccl_bench_end(struct nccl_bench *bench);
void nccl_bench_close(struct nccl_bench *bench);

#endif
