/* The prober: what it measures of the built-in algorithms is what their schedules say, it leaves no
 * trace, and a collective that misbehaves ends in the right finding. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/oracle/subject.h"
#include "tests/ct.h"
#include "tests/rank_mask.h"
#include "tests/unit/rank/probe_sums.h"
#include "tests/unit/rank/probe_world.h"

static const struct harness_probe_request one_request[] = {{40, DDP_DTYPE_F32}};

static void probe_twice(struct probe_rank *rank)
{
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_FIRST, one_request, 1));
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_LAST, one_request, 1));
    CT_CHECK_EQ_U64(rank->hook_count, 0);
}

/* --- what the judge makes of it --------------------------------------------------------------- */

struct judged {
    struct harness_emulation emulation;
    struct harness_trace trace;
    struct harness_program program;
    struct harness_bucket bucket;
    struct harness_emulation_input input;
    struct harness_findings findings;
};

/* Findings of the oracle "tree" on a run that ended well on all ranks. */
static void judge(struct probe_world *world, bool has_last, struct judged *judged)
{
    struct ddp_mem *mem = ddp_mem_pool_mem(world->pool);
    struct harness_emulation *e = &judged->emulation;
    struct harness_tree_map map;
    struct ddp_err err = {""};
    uint32_t count = world->config.count;

    memset(judged, 0, sizeof(*judged));
    judged->bucket.elem_count = one_request[0].elem_count;
    judged->program = (struct harness_program){.first = {&judged->bucket, 1}};
    judged->input.program = &judged->program;
    harness_findings_init(&judged->findings, mem);
    harness_trace_init(&judged->trace, mem, count, "sim");
    judged->trace.events = ddp_mem_array(mem, count, sizeof(judged->trace.events[0]));
    judged->trace.ends = ddp_mem_array(mem, count, sizeof(judged->trace.ends[0]));
    judged->trace.event_capacity = count;
    for (uint32_t r = 0; r < count; r++) {
        struct harness_trace_event *event = &judged->trace.events[judged->trace.event_count++];

        *event = (struct harness_trace_event){.rank = r};
        event->entry.event = DDP_EVENT_RANK_END;
        judged->trace.ends[r].how = HARNESS_END_EXITED;
    }
    judged->input.trace = &judged->trace;
    e->input = &judged->input;
    e->mem = mem;
    e->world = count;
    e->buckets.count = 1;
    harness_trees_init(&e->trees, mem);
    CT_REQUIRE_OK(harness_index_build(mem, &judged->trace, &e->index));
    for (int round = HARNESS_PROBE_FIRST; round <= (has_last ? HARNESS_PROBE_LAST : 0); round++) {
        CT_REQUIRE(probe_read_trees(world, one_request, (enum harness_probe_round)round, &map));
        CT_REQUIRE_OK(harness_trees_add(&e->trees, &map, count, &err));
    }
    CT_CHECK_OK(harness_check_tree(e, &judged->findings, &err));
}

/* Run probes twice over a table's sum and judge; the world stays open. */
static bool run_and_judge(struct probe_world *world, uint32_t count, probe_sum sum,
                          struct judged *judged)
{
    const struct probe_config config = {
        .count = count, .program = probe_twice, .sum = sum, .seed = 3};

    if (!probe_world_run(world, &config)) {
        return false;
    }
    judge(world, true, judged);
    return true;
}

static void check_only_finding(const struct judged *judged, enum harness_verdict verdict,
                               uint64_t culprits)
{
    CT_CHECK(judged->findings.count > 0);
    for (size_t i = 0; i < judged->findings.count; i++) {
        const struct harness_finding *finding = &judged->findings.items[i];

        CT_CHECK_STR(harness_verdict_name(finding->verdict), harness_verdict_name(verdict));
        CT_CHECK_EQ_U64(mask_of_rank_set(&finding->culprits), culprits);
        CT_CHECK_EQ_U64(finding->oracle, HARNESS_ORACLE_TREE);
        CT_CHECK_EQ_I64(finding->op.bucket, 0);
    }
}

/* The first tree of the first round, as text. */
static void check_tree_text(struct probe_world *world, const struct harness_probe_request *request,
                            const char *expected)
{
    struct harness_tree_map map;
    char text[200];

    CT_REQUIRE(probe_read_trees(world, request, HARNESS_PROBE_FIRST, &map));
    CT_CHECK(map.is_measured);
    CT_CHECK_STR(map.text, "");
    CT_REQUIRE(map.is_measured);
    harness_tree_print(&map, 0, text, sizeof(text));
    CT_CHECK_STR(text, expected);
    CT_CHECK_EQ_U64(map.range_count, 1);
}

/* A collective that always adds from left to right is measured as that, twice, without finding. */
CT_TEST(probe, chain_is_measured)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 5, probe_sum_chain, &judged));
    check_tree_text(&world, one_request, "((((0 1) 2) 3) 4)");
    CT_CHECK_EQ_U64(judged.findings.count, 0);
    CT_CHECK(!judged.findings.is_evidence_lost);
    probe_world_close(&world);
}

/* Nobody else sees a probe: no event, not even of the device, and no fault point. But the rank
 * shows that it lives. */
CT_TEST(probe, nothing_is_recorded)
{
    struct probe_world world;
    const struct probe_config config = {
        .count = 3, .program = probe_twice, .algorithm = DDP_ALGORITHM_RING, .seed = 5};
    uint64_t recorded = 0;

    CT_REQUIRE(probe_world_run(&world, &config));
    for (uint32_t r = 0; r < 3; r++) {
        recorded += world.ranks[r].end_events;
        CT_CHECK(world.ranks[r].env.faults == &world.ranks[r].hook);
        CT_CHECK(world.ranks[r].env.recorder == &world.ranks[r].recorder);
        CT_CHECK_EQ_U64(world.ranks[r].recorder.page->seq_posted, 0);
        CT_CHECK(world.ranks[r].recorder.page->heartbeat_ns > 1000);
    }
    CT_CHECK_EQ_U64(recorded, 0);
    probe_world_close(&world);
}

static void watch_heartbeat(struct probe_world *world, uint64_t call,
                            const struct ddp_coll_args *args, void *const *input,
                            void *const *output)
{
    uint64_t *last = world->config.arg;
    uint64_t change = world->ranks[0].recorder.page->change;

    CT_CHECK(call == 0 || change > *last);
    *last = change;
    probe_sum_chain(world, call, args, input, output);
}

/* Each probe is a sign of life: a long round is no hang. */
CT_TEST(probe, every_probe_is_a_heartbeat)
{
    uint64_t last = 0;
    const struct probe_config config = {
        .count = 4, .program = probe_twice, .sum = watch_heartbeat, .arg = &last, .seed = 5};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    CT_CHECK_EQ_U64(world.call, 28);
    probe_world_close(&world);
}

/* --- misbehaviour ----------------------------------------------------------------------------- */

/* A new order in every call contradicts itself. */
CT_TEST(probe, random_order_is_reordered)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 6, probe_sum_random, &judged));
    check_only_finding(&judged, HARNESS_VERDICT_VALUE_REORDERED, 0);
    probe_world_close(&world);
}

/* An order that is another one after the last step: each round for itself is right. */
CT_TEST(probe, changed_order_is_reordered)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 4, probe_sum_changing, &judged));
    CT_REQUIRE(judged.findings.count == 1);
    check_only_finding(&judged, HARNESS_VERDICT_VALUE_REORDERED, 0);
    CT_CHECK(strstr(judged.findings.items[0].text, "(((0 1) 2) 3)") != NULL);
    CT_CHECK(strstr(judged.findings.items[0].text, "(0 (1 (2 3)))") != NULL);
    probe_world_close(&world);
}

/* A member whose contribution never arrives is named. */
CT_TEST(probe, lost_member_is_named)
{
    for (uint32_t count = 3; count <= 5; count++) {
        struct probe_world world;
        struct judged judged;

        CT_REQUIRE(run_and_judge(&world, count, probe_sum_losing, &judged));
        check_only_finding(&judged, HARNESS_VERDICT_VALUE_LOST, UINT64_C(1) << 2);
        probe_world_close(&world);
    }
}

/* So is one whose contribution comes twice. */
CT_TEST(probe, doubled_member_is_named)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 4, probe_sum_doubling, &judged));
    check_only_finding(&judged, HARNESS_VERDICT_VALUE_DUPLICATED, UINT64_C(1) << 1);
    probe_world_close(&world);
}

/* A range that was never reduced lacks all but one: nobody came twice. */
CT_TEST(probe, tail_that_was_not_reduced_is_lost)
{
    for (uint32_t count = 2; count <= 5; count++) {
        uint64_t others = ((UINT64_C(1) << count) - 1) & ~UINT64_C(2);
        struct probe_world world;
        struct judged judged;

        CT_REQUIRE(run_and_judge(&world, count, probe_sum_tail, &judged));
        check_only_finding(&judged, HARNESS_VERDICT_VALUE_LOST, others);
        CT_CHECK(count == 2 || strstr(judged.findings.items[0].text, "were not reduced") != NULL);
        probe_world_close(&world);
    }
}

/* A NaN in one element of one sum is no measurement. */
CT_TEST(probe, nan_is_nonfinite)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 4, probe_sum_nan, &judged));
    check_only_finding(&judged, HARNESS_VERDICT_VALUE_NONFINITE, 0);
    probe_world_close(&world);
}

/* A scaled sum is no number of units. */
CT_TEST(probe, scaled_sum_is_corrupted)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 4, probe_sum_scaled, &judged));
    check_only_finding(&judged, HARNESS_VERDICT_VALUE_CORRUPTED, 0);
    probe_world_close(&world);
}

/* A member that gets a sum of another order than the others is named. */
CT_TEST(probe, dissenting_member_is_named)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 4, probe_sum_dissenting, &judged));
    check_only_finding(&judged, HARNESS_VERDICT_VALUE_DIVERGED, UINT64_C(1) << 3);
    probe_world_close(&world);
}

/* Measured once only, the order proves nothing about what followed. */
CT_TEST(probe, missing_last_round_loses_evidence)
{
    struct probe_world world;
    struct judged judged;

    CT_REQUIRE(run_and_judge(&world, 4, probe_sum_chain, &judged));
    judge(&world, false, &judged);
    CT_CHECK_EQ_U64(judged.findings.count, 0);
    CT_CHECK(judged.findings.is_evidence_lost);
    probe_world_close(&world);
}

/* --- rounding --------------------------------------------------------------------------------- */

static const struct harness_probe_request float_requests[] = {
    {33, DDP_DTYPE_F32}, {33, DDP_DTYPE_BF16}, {33, DDP_DTYPE_F16}};

static void probe_floats(struct probe_rank *rank)
{
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_FIRST, float_requests, 3));
}

/* The table's sum of random values against the judge's sum in the measured tree, bit for bit. */
static void check_bits(struct probe_world *world, const struct harness_probe_request *request)
{
    struct harness_tree_map map;
    size_t size_bytes = request->elem_count * ddp_dtype_size_bytes(request->dtype);
    struct ddp_coll_args args = {
        .redop = DDP_REDOP_SUM, .dtype = request->dtype, .elem_count = request->elem_count};
    void *input[PROBE_RANKS_MAX];
    void *output[PROBE_RANKS_MAX];
    void *expected[PROBE_RANKS_MAX];

    CT_REQUIRE(probe_read_trees(world, request, HARNESS_PROBE_FIRST, &map));
    for (uint32_t r = 0; r < world->config.count; r++) {
        input[r] = ddp_mem_array(ddp_mem_pool_mem(world->pool), size_bytes, 1);
        output[r] = ddp_mem_array(ddp_mem_pool_mem(world->pool), size_bytes, 1);
        expected[r] = ddp_mem_array(ddp_mem_pool_mem(world->pool), size_bytes, 1);
        probe_fill_random(request, r, input[r]);
    }
    world->config.sum(world, 0, &args, input, output);
    CT_CHECK_OK(harness_tree_run(&map, input, expected));
    for (uint32_t r = 0; r < world->config.count; r++) {
        CT_CHECK_BYTES(output[r], expected[r], size_bytes);
    }
}

static void check_rounding(probe_sum sum, const char *f32, const char *bf16, const char *f16)
{
    const char *const expected[] = {f32, bf16, f16};
    const struct probe_config config = {.count = 4, .program = probe_floats, .sum = sum, .seed = 9};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    for (size_t i = 0; i < 3; i++) {
        check_tree_text(&world, &float_requests[i], expected[i]);
        check_bits(&world, &float_requests[i]);
    }
    probe_world_close(&world);
}

/* Rounded at every hop, or only at the end: measured apart, and the judge rounds alike. */
CT_TEST(probe, hops_and_wide_sums_are_told_apart)
{
    check_rounding(probe_sum_chain, "(((0 1) 2) 3)", "(((0 1) 2) 3)", "(((0 1) 2) 3)");
    check_rounding(probe_sum_wide_chain, "([[0 1] 2] 3)", "([[0 1] 2] 3)", "([[0 1] 2] 3)");
}

/* Three operands and more in one rounding are one node. */
CT_TEST(probe, one_rounding_is_one_node)
{
    check_rounding(probe_sum_exact, "(0 1 2 3)", "(0 1 2 3)", "(0 1 2 3)");
    check_rounding(probe_sum_exact_groups, "((0 1 2) 3)", "((0 1 2) 3)", "((0 1 2) 3)");
}

/* An adder that aligns its operands and cuts them off gives no order away: nothing is judged. */
CT_TEST(probe, cut_off_operands_are_opaque)
{
    const struct probe_config config = {
        .count = 4, .program = probe_floats, .sum = probe_sum_aligned, .seed = 9};
    struct probe_world world;
    struct harness_tree_map map;
    char why[160];

    CT_REQUIRE(probe_world_run(&world, &config));
    CT_REQUIRE(probe_read_trees(&world, &float_requests[0], HARNESS_PROBE_FIRST, &map));
    check_tree_text(&world, &float_requests[0], "{0 1 2 3}");
    CT_CHECK(!harness_tree_is_known(&map, why, sizeof(why)));
    CT_CHECK_STR(why, "how {0 1 2 3} rounds is not known (elements from 0)");
    CT_CHECK_STATUS(harness_tree_run(&map, NULL, NULL), DDP_E_STATE);
    probe_world_close(&world);
}

/* (0 1 (2 3)) and ((0 1) 2 3) leave the same over: neither is guessed. */
CT_TEST(probe, orders_that_lose_alike_are_unknown)
{
    const struct probe_config config = {
        .count = 4, .program = probe_floats, .sum = probe_sum_exact_pair, .seed = 9};
    struct probe_world world;
    struct harness_tree_map map;

    CT_REQUIRE(probe_world_run(&world, &config));
    for (size_t i = 0; i < 3; i++) {
        CT_REQUIRE(probe_read_trees(&world, &float_requests[i], HARNESS_PROBE_FIRST, &map));
        CT_CHECK(!map.is_measured && map.verdict == HARNESS_VERDICT_NONE);
        CT_CHECK_STR(map.text, "what probes left of element 0 fits several orders");
    }
    probe_world_close(&world);
}

/* What is lost comes back in the next addition: no tree gives these bits. */
CT_TEST(probe, compensated_sum_is_opaque)
{
    const struct probe_config config = {
        .count = 4, .program = probe_floats, .sum = probe_sum_compensated, .seed = 9};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    for (size_t i = 0; i < 3; i++) {
        check_tree_text(&world, &float_requests[i], "({{0 1} 2} 3)");
    }
    probe_world_close(&world);
}

/* Kept wider than the type, but not as wide as the next: not judged either. */
CT_TEST(probe, odd_width_is_opaque)
{
    const struct probe_config config = {
        .count = 4, .program = probe_floats, .sum = probe_sum_odd_chain, .seed = 9};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    check_tree_text(&world, &float_requests[1], "({{0 1} 2} 3)");
    check_tree_text(&world, &float_requests[2], "({{0 1} 2} 3)");
    probe_world_close(&world);
}
