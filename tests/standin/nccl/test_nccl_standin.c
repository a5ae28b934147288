/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * The stand-in itself, its ranks as threads of this process: every communicator has its own card.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
