/* The process group: numbering, fault points, failures and who is blamed. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_world.h"

struct point {
    struct ddp_fault_hook hook;
    enum ddp_fault_action action;
    uint32_t only_rank;
    uint32_t fired_count;
    uint64_t seq;
};

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct point *self = (struct point *)hook;

    (void)point;
    self->fired_count++;
    self->seq = context->seq;
    return self->fired_count == 1 ? self->action : DDP_FAULT_GO;
}

static ddp_status sum(struct world_rank *rank, float *value)
{
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .role = DDP_ROLE_USER,
                                       .input = value,
                                       .output = value,
                                       .elem_count = 1};

    return ddp_group_run(&rank->group, &args);
}

static void numbers(struct world_rank *rank)
{
    float value = (float)(rank->rank + 1);

    CT_CHECK_OK(sum(rank, &value));
    CT_CHECK(value == 6);
    CT_CHECK_EQ_U64(rank->group.seq, 1);
    CT_CHECK_OK(ddp_group_barrier(&rank->group));
    CT_CHECK_EQ_U64(rank->group.seq, 2);
    CT_CHECK_EQ_U64(world_done_count(rank->world), 2);
    CT_CHECK_EQ_U64(rank->recorder.page->wait_kind, DDP_WAIT_NONE);
}

/* Collectives are numbered 1, 2, ... and their results arrive. */
CT_TEST(group, numbers_collectives)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, numbers, NULL, false});
}

static void number_together(struct world_rank *rank)
{
    uint64_t numbers = 4; /* four collectives of other groups came before */
    float value = 1;

    ddp_group_number_by(&rank->group, &numbers);
    CT_CHECK_OK(sum(rank, &value));
    CT_CHECK_EQ_U64(rank->group.seq, 5);
    CT_CHECK_EQ_U64(numbers, 5);
    numbers++; /* one of a group that this rank is not in */
    CT_CHECK_OK(ddp_group_barrier(&rank->group));
    CT_CHECK_EQ_U64(rank->group.seq, 7);
    CT_CHECK_EQ_U64(numbers, 7);
}

/* Several groups of a rank count in one row. */
CT_TEST(group, numbers_together)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, number_together, NULL, false});
}

static void follow(struct world_rank *rank)
{
    struct ddp_group failed = {.failure = {DDP_E_MISMATCH, 1, 7, 12}};
    float value = 1;

    if (rank->rank == 0) {
        ddp_group_follow(&rank->group, &failed);
        CT_CHECK_STATUS(sum(rank, &value), DDP_E_MISMATCH);
        CT_CHECK(rank->group.failure.rank == 1);
        CT_CHECK_EQ_U64(rank->group.failure.detail, 12);
    } else {
        CT_CHECK_STATUS(sum(rank, &value), DDP_E_MISMATCH);
        CT_CHECK(rank->group.failure.rank == 1); /* whose failure it was, not who told it */
    }
}

/* Who loses one group of its own ends the others, and whoever waits there learns why. */
CT_TEST(group, follows_another_group)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, follow, NULL, false});
}

static void skip_on_all(struct world_rank *rank)
{
    struct point point = {
        {UINT64_C(1) << DDP_FAULT_POINT_COLLECTIVE_PRE, fire}, DDP_FAULT_SKIP, 0, 0, 0};
    float value = 1;

    rank->env.faults = &point.hook;
    CT_CHECK_OK(sum(rank, &value));
    CT_CHECK(value == 1);
    CT_CHECK_EQ_U64(rank->group.seq, 0);
    CT_CHECK_EQ_U64(point.seq, 1);
    CT_CHECK_OK(sum(rank, &value));
    CT_CHECK(value == 2);
    CT_CHECK_EQ_U64(rank->group.seq, 1);
    rank->env.faults = NULL;
}

/* A skipped collective takes no number and leaves its buffer alone. */
CT_TEST(group, skip)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, skip_on_all, NULL, false});
}

static void dup_on_all(struct world_rank *rank)
{
    struct point point = {
        {UINT64_C(1) << DDP_FAULT_POINT_COLLECTIVE_PRE, fire}, DDP_FAULT_DUP, 0, 0, 0};
    float value = 1;

    rank->env.faults = &point.hook;
    CT_CHECK_OK(sum(rank, &value));
    CT_CHECK(value == 4); /* 2 ranks, summed twice in place */
    CT_CHECK_EQ_U64(rank->group.seq, 2);
    CT_CHECK(rank->group.duplicates == NULL);
    rank->env.faults = NULL;
}

/* A doubled collective runs twice, takes two numbers, and leaves nothing behind. */
CT_TEST(group, dup)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, dup_on_all, NULL, false});
}

static void fail_on_one(struct world_rank *rank)
{
    static const enum ddp_fault_point points[] = {DDP_FAULT_POINT_COLLECTIVE_PRE,
                                                  DDP_FAULT_POINT_COLLECTIVE_WAIT,
                                                  DDP_FAULT_POINT_COLLECTIVE_POST};
    const enum ddp_fault_point which = points[*(const int *)rank->arg];
    struct point point = {{UINT64_C(1) << which, fire}, DDP_FAULT_FAIL, 0, 0, 0};
    struct ddp_event_entry entry;
    float value = 1;
    ddp_status status;

    rank->env.faults = rank->rank == 1 ? &point.hook : NULL;
    rank->group.step = 5;
    status = sum(rank, &value);
    if (rank->rank == 1 || which == DDP_FAULT_POINT_COLLECTIVE_PRE) {
        CT_CHECK_STATUS(status, DDP_E_INJECTED); /* posted ones may complete for the others */
    }
    CT_CHECK_STATUS(ddp_group_barrier(&rank->group), DDP_E_INJECTED);
    CT_CHECK_EQ_I64(rank->group.failure.status, DDP_E_INJECTED);
    CT_CHECK_EQ_I64(rank->group.failure.rank, rank->rank == 1 ? -1 : 1);
    CT_CHECK_EQ_U64(rank->group.failure.step, 5);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_REVOKE, &entry), 1);
    CT_CHECK_EQ_U64(entry.arg[0], 1);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_RANK_ERROR, &entry), 1);
    CT_CHECK_EQ_U64(rank->recorder.page->revoke_rank, 2);
    rank->env.faults = NULL;
}

/* In strict semantics an operation that fails on one rank fails on all, with that rank named. */
CT_TEST(group, failure_reaches_all)
{
    for (int i = 0; i < 3; i++) {
        world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, fail_on_one, &i, false});
    }
}

static void dies(struct world_rank *rank)
{
    struct ddp_event_entry entry;
    float value = 1;

    if (rank->rank == 2) {
        world_die(rank);
        return;
    }
    CT_CHECK_STATUS(sum(rank, &value), DDP_E_PEER_DIED);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 2);
    CT_CHECK_EQ_U64(rank->group.failure.detail, 2);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_PEER_DIED, &entry), rank->rank == 1 ? 1 : 0);
    CT_CHECK_EQ_U64(world_events(rank, DDP_EVENT_REVOKE, &entry), 1);
    CT_CHECK_EQ_U64(entry.arg[0], 1);
    CT_CHECK_EQ_U64(entry.arg[3], 2);
}

/* A survivor that does not talk to the dead rank learns of it from one that does. */
CT_TEST(group, death_is_passed_on)
{
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, dies, NULL, false});
    world_run(&(struct world_config){4, DDP_SEMANTICS_PYTORCH, 0, dies, NULL, false});
}

static void times_out(struct world_rank *rank)
{
    const bool is_strict = rank->group.semantics == DDP_SEMANTICS_STRICT;
    float value = 1;

    if (rank->rank == 0) {
        return;
    }
    CT_CHECK_STATUS(sum(rank, &value), DDP_E_TIMEOUT);
    CT_CHECK_EQ_U64(rank->group.failure.detail, 1);
    CT_CHECK(ddp_clock_now_ns(rank->env.clock) >= 1000 + 7 * DDP_NS_PER_S);
    CT_CHECK_EQ_U64(rank->recorder.page->revoke_rank != 0, is_strict);
    CT_CHECK_STATUS(sum(rank, &value), DDP_E_TIMEOUT);
}

/* A wait ends at its timeout; strict semantics tell the others. */
CT_TEST(group, timeout)
{
    const uint64_t timeout_ns = 7 * DDP_NS_PER_S;

    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, timeout_ns, times_out, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, timeout_ns, times_out, NULL, false});
}

static void mismatches(struct world_rank *rank)
{
    float value[2] = {1, 1};

    if (rank->rank == 1) {
        CT_CHECK_STATUS(ddp_group_barrier(&rank->group), DDP_E_MISMATCH);
    } else {
        CT_CHECK_STATUS(sum(rank, value), DDP_E_MISMATCH);
    }
}

/* Ranks that post different operations all learn so. */
CT_TEST(group, mismatch)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, mismatches, NULL, false});
}

static void revokes(struct world_rank *rank)
{
    float value = 1;

    rank->group.step = 3;
    if (rank->rank == 1) {
        CT_CHECK_STATUS(ddp_group_revoke(&rank->group, DDP_E_STATE, 42), DDP_E_STATE);
        CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
    }
    CT_CHECK_STATUS(sum(rank, &value), DDP_E_STATE);
    CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
    CT_CHECK_EQ_U64(rank->group.failure.step, 3);
    CT_CHECK_EQ_U64(rank->group.failure.detail, 42);
}

/* A revocation ends every member's waits with its own status, step, detail and rank. */
CT_TEST(group, revocation_reaches_all)
{
    world_run(&(struct world_config){4, DDP_SEMANTICS_STRICT, 0, revokes, NULL, false});
}
