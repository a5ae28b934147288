/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * The stand-in itself, its ranks as threads of this process: every communicator has its own card.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "tests/ct.h"
#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"

#define RANKS_MAX 4

struct rank {
    pthread_t thread;
    struct standin_id id;
    int rank, rank_count;
    bool is_blocking;
    const char *(*run)(struct rank *rank);
    struct standin_comm *comm;
    const char *failure;
};

static void *rank_main(void *context)
{
    struct rank *rank = context;
    int result = case_init(&rank->id, rank->rank, rank->rank_count, rank->is_blocking, &rank->comm);
    rank->failure = result == STANDIN_SUCCESS ? rank->run(rank) : ncclGetErrorString(result);
    return NULL;
}

static void run_ranks(int rank_count, bool is_blocking, const char *(*run)(struct rank *))
{
    struct rank ranks[RANKS_MAX];
    memset(ranks, 0, sizeof ranks);
    struct standin_id id;
    CT_REQUIRE(ncclGetUniqueId(&id) == STANDIN_SUCCESS);
    for (int i = 0; i < rank_count; i++) {
        ranks[i].id = id;
        ranks[i].rank = i;
        ranks[i].rank_count = rank_count;
        ranks[i].is_blocking = is_blocking;
        ranks[i].run = run;
        CT_CHECK(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]) == 0);
    }
    for (int i = 0; i < rank_count; i++) {
        CT_CHECK(pthread_join(ranks[i].thread, NULL) == 0);
        if (ranks[i].failure != NULL) {
            CT_FAIL("rank %d of %d: %s (%s)", i, rank_count, ranks[i].failure,
                    ncclGetLastError(NULL));
        }
    }
    for (int i = 0; i < rank_count; i++) {
        CT_CHECK_EQ_I64(ncclCommAbort(ranks[i].comm), STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

static void all_shapes(const char *(*run)(struct rank *))
{
    CT_REQUIRE(ddp_nccl_standin_script("bus_id=unique") == STANDIN_SUCCESS);
    for (int rank_count = 1; rank_count <= RANKS_MAX; rank_count++) {
        run_ranks(rank_count, rank_count % 2 == 0, run);
    }
    run_ranks(3, true, run);
}

static const char *sums(struct rank *rank)
{
    return case_all_reduce(rank->comm, STANDIN_SUM);
}

CT_TEST(nccl_standin, sums_as_documented)
{
    all_shapes(sums);
}

static const char *other_reductions(struct rank *rank)
{
    for (int redop = STANDIN_PROD; redop <= STANDIN_MIN; redop++) {
        const char *failure = case_all_reduce(rank->comm, redop);
        if (failure != NULL) {
            return failure;
        }
    }
    return NULL;
}

CT_TEST(nccl_standin, other_reductions)
{
    CT_REQUIRE(ddp_nccl_standin_script("bus_id=unique") == STANDIN_SUCCESS);
    run_ranks(3, false, other_reductions);
}

/* One rank brings a NaN: minimum and maximum are of the numbers. */
static const char *drops_nan(struct rank *rank)
{
    for (int redop = STANDIN_MAX; redop <= STANDIN_MIN; redop++) {
        float single = rank->rank == 1 ? NAN : (float)rank->rank;
        uint16_t half = ddp_f16_from_f32(single);
        int result = ncclAllReduce(&single, &single, 1, STANDIN_FLOAT32, redop, rank->comm, NULL);
        if (case_finish(rank->comm, result) != STANDIN_SUCCESS) {
            return "the call failed";
        }
        result = ncclAllReduce(&half, &half, 1, STANDIN_FLOAT16, redop, rank->comm, NULL);
        if (case_finish(rank->comm, result) != STANDIN_SUCCESS) {
            return "the call failed";
        }
        float expected = redop == STANDIN_MAX ? 2.0f : 0.0f;
        if (single != expected || ddp_f16_to_f32(half) != expected) {
            return "the NaN was not dropped";
        }
    }
    return NULL;
}

CT_TEST(nccl_standin, extremes_drop_nan)
{
    CT_REQUIRE(ddp_nccl_standin_script("bus_id=unique") == STANDIN_SUCCESS);
    run_ranks(3, false, drops_nan);
}

/* ncclAvg multiplies by 1/3 in bf16 before the sum; integers are divided after it. */
static const char *averages(struct rank *rank)
{
    uint16_t half = ddp_bf16_from_f32(3.0f);
    int32_t whole = 10 * (rank->rank + 1);
    float third = ddp_bf16_to_f32(ddp_bf16_from_f32(1.0f / 3));
    float expected = ddp_bf16_to_f32(ddp_bf16_from_f32(3.0f * third));
    uint16_t sum = ddp_bf16_from_f32(expected);
    sum = ddp_bf16_from_f32(expected + ddp_bf16_to_f32(sum));
    sum = ddp_bf16_from_f32(expected + ddp_bf16_to_f32(sum));
    int result = ncclAllReduce(&half, &half, 1, STANDIN_BFLOAT16, STANDIN_AVG, rank->comm, NULL);
    if (case_finish(rank->comm, result) != STANDIN_SUCCESS) {
        return "the call failed";
    }
    result = ncclAllReduce(&whole, &whole, 1, STANDIN_INT32, STANDIN_AVG, rank->comm, NULL);
    if (case_finish(rank->comm, result) != STANDIN_SUCCESS) {
        return "the call failed";
    }
    return half == sum && whole == 20 ? NULL : "wrong average";
}

CT_TEST(nccl_standin, averages_as_nccl)
{
    CT_REQUIRE(ddp_nccl_standin_script("bus_id=unique") == STANDIN_SUCCESS);
    run_ranks(3, false, averages);
}

static const char *other_collectives(struct rank *rank)
{
    const char *(*const cases[])(struct standin_comm *) = {
        case_broadcast, case_reduce, case_all_gather, case_reduce_scatter, case_send_recv};
    const char *failure = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && failure == NULL; i++) {
        failure = cases[i](rank->comm);
    }
    return failure;
}

CT_TEST(nccl_standin, other_collectives)
{
    all_shapes(other_collectives);
}
