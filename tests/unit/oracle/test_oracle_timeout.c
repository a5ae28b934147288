/* Who is to blame when ranks give up waiting: hand-made records of when who posted what. */
#include "ddpcore/seam/link.h"
#include "harness/oracle/subject.h"
#include "tests/ct.h"

enum { RANKS = 3, GAVE_UP_NS = 1000 };

struct waits {
    struct ddp_mem_pool *pool;
    struct harness_trace trace;
    struct harness_emulation_input input;
    struct harness_emulation e;
    struct harness_finding finding;
};

static void waits_open(struct waits *waits)
{
    CT_REQUIRE_OK(ddp_mem_pool_create(&waits->pool));
    harness_trace_init(&waits->trace, ddp_mem_pool_mem(waits->pool), RANKS, "sim");
}

static void record_status(struct waits *waits, uint32_t rank, enum ddp_event event, uint64_t seq,
                          ddp_status status, uint64_t time_ns)
{
    const struct ddp_event_entry ring[1] = {{.index = 1,
                                             .time_ns = time_ns,
                                             .step = 5,
                                             .phase = DDP_PHASE_BACKWARD,
                                             .event = (uint8_t)event,
                                             .arg = {seq, 0, 0, (uint64_t)status}}};

    CT_REQUIRE_OK(harness_trace_add_ring(&waits->trace, rank, ring, 1, 1));
}

static void record(struct waits *waits, uint32_t rank, enum ddp_event event, uint64_t seq,
                   uint64_t time_ns)
{
    record_status(waits, rank, event, seq, DDP_OK, time_ns);
}

/* Rank 0 gave up waiting for collective 2. */
static void blame(struct waits *waits)
{
    struct ddp_mem *mem = ddp_mem_pool_mem(waits->pool);

    waits->input = (struct harness_emulation_input){.trace = &waits->trace};
    waits->e = (struct harness_emulation){.input = &waits->input, .mem = mem, .world = RANKS};
    CT_REQUIRE_OK(harness_index_build(mem, &waits->trace, &waits->e.index));
    harness_finding_init(&waits->finding, mem, HARNESS_VERDICT_HANG_NOT_JOINED,
                         HARNESS_ORACLE_USAGE, HARNESS_MODE_STATUS);
    waits->finding.op.is_set = true;
    waits->finding.op.seq = 2;
    harness_rank_set_add(&waits->finding.victims, 0);
    harness_usage_blame_awaited(&waits->e, GAVE_UP_NS, &waits->finding);
}

static void check_culprit(struct waits *waits, uint32_t rank, enum harness_verdict verdict)
{
    CT_CHECK_EQ_U64(waits->finding.verdict, verdict);
    CT_CHECK(harness_rank_set_count(&waits->finding.culprits) == 1 &&
             harness_rank_set_has(&waits->finding.culprits, rank));
    ddp_mem_pool_destroy(waits->pool);
}

/* Whoever had not posted it by then, though it did later. */
CT_TEST(oracle_timeout, blames_who_comes_late)
{
    struct waits waits;

    waits_open(&waits);
    record(&waits, 0, DDP_EVENT_COLL_POST, 2, 10);
    record(&waits, 1, DDP_EVENT_COLL_POST, 2, 2000);
    record(&waits, 2, DDP_EVENT_COLL_POST, 2, 20);
    blame(&waits);
    check_culprit(&waits, 1, HARNESS_VERDICT_HANG_NOT_JOINED);
}

/* Whether a connection broke, what is found of it, and who is at its ends. */
static bool check_links(struct waits *waits, struct harness_findings *found,
                        struct harness_rank_set *ends)
{
    struct harness_rank_set victims;

    waits->input = (struct harness_emulation_input){.trace = &waits->trace};
    waits->e = (struct harness_emulation){
        .input = &waits->input, .mem = ddp_mem_pool_mem(waits->pool), .world = RANKS};
    CT_CHECK_OK(harness_index_build(waits->e.mem, &waits->trace, &waits->e.index));
    harness_findings_init(found, waits->e.mem);
    victims = harness_rank_set_in(waits->e.mem);
    *ends = harness_rank_set_in(waits->e.mem);
    return harness_usage_check_links(&waits->e, &victims, found, ends);
}

/* Rank 1's time was up while it joined, or in training; rank 0 sees that it leaves, before its own
 * is up, and calls it dead: so much later rank 1 says why it left. Whether that is a connection
 * that broke. */
static void check_break(enum ddp_phase phase, uint64_t later_ns, bool is_expected)
{
    const enum ddp_event kinds[] = {DDP_EVENT_LINK_LOST, DDP_EVENT_RANK_ERROR, DDP_EVENT_RANK_END};
    struct harness_findings found;
    struct waits waits;
    struct harness_rank_set ends;

    waits_open(&waits);
    for (uint32_t i = 0; i < 3; i++) {
        struct ddp_event_entry entry = {.index = 1,
                                        .time_ns = 10 + later_ns + i,
                                        .phase = (uint8_t)phase,
                                        .event = (uint8_t)kinds[i]};

        if (i > 0) {
            entry.arg[0] = (uint64_t)(int64_t)DDP_E_TIMEOUT;
            CT_REQUIRE_OK(harness_trace_add_ring(&waits.trace, 1, &entry, 1, 1));
        }
        entry.time_ns = 10;
        entry.arg[0] = i == 0 ? 1 : (uint64_t)(int64_t)DDP_E_PEER_DIED;
        entry.arg[1] = i == 0 ? DDP_LINK_ENDED : 0;
        CT_REQUIRE_OK(harness_trace_add_ring(&waits.trace, 0, &entry, 1, 1));
    }
    CT_CHECK(check_links(&waits, &found, &ends) == is_expected);
    CT_CHECK_EQ_U64(harness_rank_set_count(&ends), is_expected ? 2 : 0);
    ddp_mem_pool_destroy(waits.pool);
}

/* Rank 1 ends because of another rank, and closes its connections as it does: rank 0 loses it,
 * behind a connection that broke at rank 1's store, or not. Whether one broke between ranks that
 * live. */
static void check_parting(uint64_t teardown_ns, bool is_at_store, uint64_t lost_ns,
                          uint32_t expected_count)
{
    const struct ddp_event_entry events[] = {
        {.time_ns = lost_ns, .event = DDP_EVENT_LINK_LOST, .arg = {1, DDP_LINK_ENDED}},
        {.time_ns = 10, .event = DDP_EVENT_LINK_LOST, .arg = {UINT64_MAX, DDP_LINK_RESET}},
        {.time_ns = teardown_ns, .event = DDP_EVENT_PHASE, .arg = {DDP_PHASE_TEARDOWN}},
        {.time_ns = UINT64_C(5000000000), /* it says that rank 2 had died */
         .event = DDP_EVENT_RANK_END,
         .arg = {(uint64_t)(int64_t)DDP_E_PEER_DIED}}};
    struct harness_rank_set ends;
    struct harness_findings found;
    struct waits waits;

    waits_open(&waits);
    for (uint32_t i = 0; i < 5; i++) { /* of rank 0 the first, of rank 1 the others; both end */
        struct ddp_event_entry entry = events[i < 4 ? i : 3];

        entry.index = 1;
        if (i != 1 || is_at_store) {
            CT_REQUIRE_OK(harness_trace_add_ring(&waits.trace, i % 4 > 0, &entry, 1, 1));
        }
    }
    (void)check_links(&waits, &found, &ends);
    CT_CHECK_EQ_U64(found.count, expected_count);
    if (expected_count == 1) {
        CT_CHECK(harness_rank_set_has(&found.items[0].culprits, is_at_store ? 1 : 0));
    }
    ddp_mem_pool_destroy(waits.pool);
}

CT_TEST(oracle_timeout, whoever_ends_breaks_no_connection)
{
    check_parting(20, false, 20, 0);
    check_parting(21, false, 20, 1);
}

/* What broke at its store was another rank's end, if rank 0 loses it only as it ends itself, or
 * much later. */
CT_TEST(oracle_timeout, who_has_the_store_lost_the_one_that_lost_it_next)
{
    check_parting(30, true, 20, 1);
    check_parting(20, true, 20, 0);
}

/* Rank 0 loses rank 1, which the launcher ended, so much later than that. */
static void check_reaped(uint64_t later_ns, uint32_t expected_count)
{
    const struct ddp_event_entry lost = {
        .index = 1, .time_ns = 10, .event = DDP_EVENT_LINK_LOST, .arg = {1, DDP_LINK_ENDED}};
    struct harness_rank_set ends;
    struct harness_findings found;
    struct waits waits;

    waits_open(&waits);
    CT_REQUIRE_OK(harness_trace_add_ring(&waits.trace, 0, &lost, 1, 1));
    waits.trace.ends[1] =
        (struct harness_rank_end){.how = HARNESS_END_REAPED, .time_ns = 10 + later_ns};
    (void)check_links(&waits, &found, &ends);
    CT_CHECK_EQ_U64(found.count, expected_count);
    ddp_mem_pool_destroy(waits.pool);
}

/* Ranks are ended one after the other, and the next one may see that. */
CT_TEST(oracle_timeout, the_end_of_all_breaks_no_connection)
{
    check_reaped(1000000, 0);
    check_reaped(UINT64_C(5000000000), 1);
}

/* Calls of rank 1 on both its connections fail: whichever of the others is called dead, it is of
 * that. */
CT_TEST(oracle_timeout, all_that_a_rank_loses_is_one_break)
{
    struct harness_rank_set ends;
    struct harness_findings found;
    struct waits waits;

    waits_open(&waits);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct ddp_event_entry entries[] = {
            {.index = 1, .time_ns = 10, .event = DDP_EVENT_LINK_LOST, .arg = {2, DDP_LINK_RESET}},
            {.index = 2, .time_ns = 11, .event = DDP_EVENT_LINK_LOST, .arg = {0, DDP_LINK_RESET}}};
        const struct ddp_event_entry end = {
            .index = 1, .time_ns = 20, .event = DDP_EVENT_RANK_END, .arg = {0}};

        if (r == 1) {
            CT_REQUIRE_OK(harness_trace_add_ring(&waits.trace, r, entries, 2, 2));
        }
        CT_REQUIRE_OK(harness_trace_add_ring(&waits.trace, r, &end, 1, 1));
    }
    CT_CHECK(check_links(&waits, &found, &ends));
    CT_CHECK_EQ_U64(harness_rank_set_count(&ends), RANKS);
    CT_CHECK(found.count == 1 && harness_rank_set_count(&found.items[0].culprits) == 1 &&
             harness_rank_set_has(&found.items[0].culprits, 1));
    ddp_mem_pool_destroy(waits.pool);
}

CT_TEST(oracle_timeout, whoever_leaves_when_its_time_is_up_breaks_no_connection)
{
    check_break(DDP_PHASE_INIT, 0, false);
    check_break(DDP_PHASE_INIT, UINT64_C(2000000000), true); /* it had not left then */
    check_break(DDP_PHASE_BACKWARD, 0, true);
}

/* Not a rank that has not come so far because it waits in an earlier one, for the same rank. */
CT_TEST(oracle_timeout, spares_who_waits_before_it)
{
    struct waits waits;

    waits_open(&waits);
    record(&waits, 0, DDP_EVENT_COLL_POST, 1, 10);
    record(&waits, 0, DDP_EVENT_COLL_DONE, 1, 11);
    record(&waits, 0, DDP_EVENT_COLL_POST, 2, 12);
    record(&waits, 1, DDP_EVENT_COLL_POST, 1, 20);
    blame(&waits);
    check_culprit(&waits, 2, HARNESS_VERDICT_HANG_NOT_JOINED);
}

/* Nor if its wait was ended by a revocation just before the first rank said that it had given up.
 */
CT_TEST(oracle_timeout, spares_whose_wait_was_revoked)
{
    struct waits waits;

    waits_open(&waits);
    record(&waits, 0, DDP_EVENT_COLL_POST, 1, 10);
    record(&waits, 0, DDP_EVENT_COLL_DONE, 1, 11);
    record(&waits, 0, DDP_EVENT_COLL_POST, 2, 12);
    record(&waits, 1, DDP_EVENT_COLL_POST, 1, 20);
    record_status(&waits, 1, DDP_EVENT_COLL_DONE, 1, DDP_E_REVOKED, GAVE_UP_NS - 1);
    blame(&waits);
    check_culprit(&waits, 2, HARNESS_VERDICT_HANG_NOT_JOINED);
}

/* If all had posted it: who was inside, and never even gave up. */
CT_TEST(oracle_timeout, blames_who_never_came_out)
{
    struct waits waits;

    waits_open(&waits);
    for (uint32_t r = 0; r < RANKS; r++) {
        record(&waits, r, DDP_EVENT_COLL_POST, 2, 10 + r);
    }
    record(&waits, 0, DDP_EVENT_RANK_END, 0, 1001);
    record(&waits, 2, DDP_EVENT_RANK_END, 0, 1002);
    blame(&waits);
    check_culprit(&waits, 1, HARNESS_VERDICT_HANG_HOST);
}
