/* The process group on the real executor and the loop transport: works of every kind under way at
 * once, a time of its own for a wait, and a barrier that says who does not come. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_world.h"

enum { SIZE = 5, ELEMS = 3 };
#define AWAY_NS (2 * DDP_NS_PER_MS)

static void post(struct world_rank *rank, struct ddp_coll_work *work, enum ddp_coll_kind kind,
                 const int32_t *input, int32_t *output)
{
    work->args = (struct ddp_coll_args){.kind = kind,
                                        .dtype = DDP_DTYPE_I32,
                                        .role = DDP_ROLE_USER,
                                        .root = ddp_coll_kind_has_root(kind) ? 2 : 0,
                                        .input = input,
                                        .output = output,
                                        .elem_count = kind == DDP_COLL_BARRIER ? 0 : ELEMS};
    CT_CHECK_OK(ddp_group_post(&rank->group, work));
}

/* Input element e of rank r is 100 * r + e. */
static void all_kinds(struct world_rank *rank)
{
    struct ddp_coll_work work[DDP_COLL_KIND_COUNT];
    int32_t input[SIZE * ELEMS], output[DDP_COLL_KIND_COUNT][SIZE * ELEMS];
    const int32_t own = (int32_t)rank->rank;

    memset(work, 0, sizeof work);
    memset(output, 0, sizeof output);
    for (int32_t e = 0; e < SIZE * ELEMS; e++) {
        input[e] = 100 * own + e;
    }
    memcpy(output[DDP_COLL_BROADCAST], input, sizeof input);
    for (unsigned k = 0; k < DDP_COLL_KIND_COUNT; k++) {
        post(rank, &work[k], (enum ddp_coll_kind)k, k == DDP_COLL_BROADCAST ? output[k] : input,
             output[k]);
    }
    /* The last one first: handles are waited for in any order. */
    for (unsigned k = DDP_COLL_KIND_COUNT; k-- > 0;) {
        CT_CHECK_OK(ddp_group_wait(&rank->group, &work[k]));
    }
    for (int32_t e = 0; e < ELEMS; e++) {
        const int32_t all = 1000 + SIZE * e; /* 100 * (0 + ... + 4) */

        CT_CHECK(output[DDP_COLL_ALL_REDUCE][e] == all);
        CT_CHECK(output[DDP_COLL_REDUCE][e] == (own == 2 ? all : 0));
        CT_CHECK(output[DDP_COLL_BROADCAST][e] == 200 + e);
        CT_CHECK(output[DDP_COLL_REDUCE_SCATTER][e] == 1000 + SIZE * (ELEMS * own + e));
        for (int32_t r = 0; r < SIZE; r++) {
            CT_CHECK(output[DDP_COLL_ALL_GATHER][r * ELEMS + e] == 100 * r + e);
            CT_CHECK(output[DDP_COLL_ALL_TO_ALL][r * ELEMS + e] == 100 * r + ELEMS * own + e);
        }
    }
}

CT_TEST(group_loop, every_kind_under_way_at_once)
{
    world_run(&(struct world_config){SIZE, DDP_SEMANTICS_STRICT, 0, all_kinds, NULL, true});
    world_run(&(struct world_config){SIZE, DDP_SEMANTICS_PYTORCH, 0, all_kinds, NULL, true});
}

static ddp_status is_late(void *self)
{
    const struct world_rank *rank = self;

    return ddp_clock_now_ns(rank->env.clock) >= AWAY_NS ? DDP_OK : DDP_PENDING;
}

/* The rank does something else meanwhile. */
static void stay_away(struct world_rank *rank)
{
    const struct ddp_pollable away = {is_late, NULL, rank};

    (void)!ddp_wait(rank->env.idle, rank->env.clock, &away, AWAY_NS);
}

static void barrier_of_three(struct world_rank *rank)
{
    bool is_missing[SIZE];

    CT_CHECK_OK(ddp_group_monitored_barrier(&rank->group, DDP_NS_PER_MS / 2, is_missing));
    for (uint32_t m = 0; m < SIZE; m++) {
        CT_CHECK(!is_missing[m]);
    }
    if (rank->rank == 1 || rank->rank == 3) {
        stay_away(rank);
        return;
    }
    CT_CHECK_STATUS(ddp_group_monitored_barrier(&rank->group, DDP_NS_PER_MS / 2, is_missing),
                    DDP_E_TIMEOUT);
    CT_CHECK(ddp_clock_now_ns(rank->env.clock) < AWAY_NS);
    for (uint32_t m = 0; m < SIZE; m++) {
        CT_CHECK(is_missing[m] == (m == 1 || m == 3));
    }
    CT_CHECK_STATUS(ddp_group_barrier(&rank->group), DDP_E_TIMEOUT);
}

/* Everybody who came names both that did not, also who only hears of the time-out. */
CT_TEST(group_loop, monitored_barrier_names_all_who_are_missing)
{
    world_run(&(struct world_config){SIZE, DDP_SEMANTICS_STRICT, 0, barrier_of_three, NULL, true});
}

/* The group waits for ever, this wait does not. */
static void own_time(struct world_rank *rank)
{
    static struct ddp_coll_work work; /* queued until the group is gone */

    if (rank->rank == 1) {
        stay_away(rank);
        return;
    }
    memset(&work, 0, sizeof work);
    post(rank, &work, DDP_COLL_BARRIER, NULL, NULL);
    CT_CHECK_STATUS(ddp_group_wait_for(&rank->group, &work, DDP_NS_PER_MS / 2), DDP_E_TIMEOUT);
    CT_CHECK(ddp_clock_now_ns(rank->env.clock) >= DDP_NS_PER_MS / 2);
    CT_CHECK(ddp_clock_now_ns(rank->env.clock) < AWAY_NS);
    CT_CHECK_EQ_I64(rank->group.failure.status, DDP_E_TIMEOUT);
}

CT_TEST(group_loop, a_wait_may_have_a_time_of_its_own)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, own_time, NULL, true});
}
