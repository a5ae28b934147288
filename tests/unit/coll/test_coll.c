/* The check of algorithms: built-in ones hold what they claim, each property finds what it is for,
 * with the smallest case, and what a check has not judged it does not call right. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/emit.h"
#include "harness/coll/render.h"
#include "tests/ct.h"
#include "tests/unit/coll/made_source.h"

static struct harness_coll_options options_of(uint64_t world_last)
{
    return (struct harness_coll_options){.worlds = {1, world_last, true},
                                         .clock = ddp_clock_monotonic()};
}

static struct harness_coll_report check(struct harness_coll_source *source,
                                        const struct harness_coll_options *options)
{
    struct harness_coll_report report;
    struct ddp_err err = {""};

    CT_CHECK_STATUS(harness_coll_check(source, options, &report, &err), DDP_OK);
    return report;
}

static struct harness_coll_report check_made(void (*emit)(struct ddp_schedule *schedule))
{
    struct made_source made = made_source_of(emit);
    const struct harness_coll_options options = options_of(4);

    return check(&made.base, &options);
}

/* --- built-in algorithms ---------------------------------------------------------------------- */

static void check_builtin(const char *name)
{
    struct harness_coll_source *source = NULL;
    const struct harness_coll_options options = options_of(9);
    struct harness_coll_report report;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(harness_coll_builtin_open(name, &source, &err));
    report = check(source, &options);
    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        const struct harness_coll_result *result = &report.result[p];
        bool is_asked = harness_coll_is_asked(&report, (enum harness_coll_property)p);
        /* A class that is not claimed does not hold: the claims leave nothing out. */
        bool is_claimed = p != HARNESS_COLL_SAME_ORDER ||
                          (source->claims & (unsigned)HARNESS_COLL_CLAIM_ORDER) != 0;

        if (is_asked &&
            result->state != (is_claimed ? HARNESS_COLL_PASS : HARNESS_COLL_NOT_CLAIMED)) {
            CT_FAIL("%s: %s %s: %s", name,
                    harness_coll_property_name((enum harness_coll_property)p),
                    harness_coll_state_name(result->state), result->text);
        }
    }
    CT_CHECK(harness_coll_outcome(&report) == HARNESS_OUTCOME_PASS);
    CT_CHECK_EQ_U64(report.case_count, report.case_total);
    CT_CHECK_EQ_U64(report.cost_count, source->kind != DDP_COLL_BARRIER ? HARNESS_COLL_COSTS : 0);
    harness_coll_source_close(source);
}

#define X(id, kind, name, emit, segment_bytes, meaning) \
    CT_TEST(coll_builtin, id)                           \
    {                                                   \
        check_builtin(name);                            \
    }
#include "ddpcore/schedule/algorithm.def"
#undef X

CT_TEST(coll, unknown_name)
{
    struct harness_coll_source *source = NULL;
    struct ddp_err err = {""};

    CT_CHECK_STATUS(harness_coll_builtin_open("rng", &source, &err), DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "did you mean \"ring\"?") != NULL);
    CT_CHECK_STATUS(harness_coll_builtin_open("", &source, &err), DDP_E_NOT_FOUND);
    harness_coll_source_close(NULL);
}

/* A ring: 2(n - 1) messages of a n-th of the elements, as many additions in a row as other ranks.
 * Recursive doubling: log2 n messages of all. */
CT_TEST(coll, costs)
{
    struct harness_coll_source *source = NULL;
    const struct harness_coll_options options = options_of(2);
    struct harness_coll_report report;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(harness_coll_builtin_open("ring", &source, &err));
    report = check(source, &options);
    harness_coll_source_close(source);
    CT_REQUIRE(report.cost_count == HARNESS_COLL_COSTS);
    CT_CHECK_EQ_U64(report.cost[2].world, 8);
    CT_CHECK_EQ_U64(report.cost[2].rank_messages, 14);
    CT_CHECK_EQ_U64(report.cost[2].messages, 8 * 14);
    CT_CHECK_EQ_U64((uint64_t)report.cost[2].rounds, 14);
    CT_CHECK_EQ_U64((uint64_t)report.cost[2].transfers, 14 * 64);
    CT_CHECK_EQ_U64((uint64_t)report.cost[2].additions, 7 * 64);
    CT_CHECK_EQ_U64(report.cost[2].depth, 7);
    CT_REQUIRE_OK(harness_coll_builtin_open("recursive_doubling", &source, &err));
    report = check(source, &options);
    harness_coll_source_close(source);
    CT_CHECK_EQ_U64((uint64_t)report.cost[2].rounds, 3);
    CT_CHECK_EQ_U64((uint64_t)report.cost[2].transfers, 3 * 512);
    CT_CHECK_EQ_U64(report.cost[2].depth, 3);
}

/* --- wrong ones ------------------------------------------------------------------------------- */

static struct ddp_part whole(const struct ddp_schedule *schedule)
{
    return (struct ddp_part){0, schedule->params.elem_count};
}

/* The last step of rank 0 is missing, at one world and count alone. */
static void emit_broken_at_3_and_4(struct ddp_schedule *schedule)
{
    ddp_emit_ring(schedule);
    if (schedule->params.size == 3 && schedule->params.elem_count == 4 &&
        schedule->params.rank == 0) {
        schedule->step_count--;
    }
}

CT_TEST(coll, smallest_counterexample)
{
    struct harness_coll_report report = check_made(emit_broken_at_3_and_4);
    const struct harness_coll_result *live = &report.result[HARNESS_COLL_LIVE];

    CT_CHECK(live->state == HARNESS_COLL_FAIL);
    CT_CHECK_EQ_U64(live->at.world, 3);
    CT_CHECK_EQ_U64(live->at.elem_count, 4);
    CT_CHECK(!live->at.is_in_place && live->at.segment_elem_count == 0);
    CT_CHECK(strstr(live->text, "waits for ever") != NULL);
    CT_CHECK(harness_coll_outcome(&report) == HARNESS_OUTCOME_FAIL);
    /* Where it hangs nothing is said of its sums, in either direction. */
    CT_CHECK(report.result[HARNESS_COLL_COMPLETE].state == HARNESS_COLL_PASS);
    CT_CHECK(report.result[HARNESS_COLL_COMPLETE].case_count < live->case_count);
    CT_CHECK_EQ_U64(report.cost_count, 0);
}

/* Each rank adds its own data first: the ranks' bits differ from three ranks on. Nor does it care
 * how long its messages may be. */
static void emit_own_first(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct ddp_range output = ddp_emit_range(DDP_BUFFER_OUTPUT, whole(schedule));
    uint32_t scratch = ddp_schedule_add_scratch(schedule, params->dtype, params->elem_count);
    struct ddp_range own = ddp_emit_scratch(scratch, whole(schedule));
    uint32_t dep[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    schedule->params.segment_elem_count = 0;
    if (!params->is_in_place) {
        dep[0] = ddp_emit_copy(schedule, 0, output,
                               ddp_emit_range(DDP_BUFFER_INPUT, whole(schedule)), dep);
    }
    dep[0] = ddp_emit_copy(schedule, 0, own, output, dep);
    for (uint32_t i = 1; i < params->size; i++) {
        (void)ddp_emit_send(schedule, 0, (params->rank + i) % params->size, own, dep);
    }
    for (uint32_t i = 1; i < params->size; i++) {
        dep[0] = ddp_emit_recv(schedule, DDP_STEP_RECV_REDUCE, 0, (params->rank + i) % params->size,
                               output, dep);
    }
}

CT_TEST(coll, ranks_differ)
{
    struct harness_coll_report report = check_made(emit_own_first);
    const struct harness_coll_result *bits = &report.result[HARNESS_COLL_SAME_BITS];

    CT_CHECK(report.result[HARNESS_COLL_COMPLETE].state == HARNESS_COLL_PASS);
    CT_CHECK(bits->state == HARNESS_COLL_FAIL);
    CT_CHECK_EQ_U64(bits->at.world, 3);
    CT_CHECK_EQ_U64(bits->at.elem_count, 1);
    CT_CHECK_STR(bits->text, "element 0: rank 0 adds ((0 1) 2), rank 1 adds (0 (1 2))");
    CT_CHECK(bits->place.rank == 1 && bits->place.step == -1 && bits->place.elem == 0);
    CT_CHECK(report.result[HARNESS_COLL_SEGMENTED].state == HARNESS_COLL_FAIL);
    CT_CHECK(strstr(report.result[HARNESS_COLL_SEGMENTED].text, "elements") != NULL);
}

/* An algorithm that remembers: every second question is answered with a step less. */
static uint32_t question;
static void emit_with_memory(struct ddp_schedule *schedule)
{
    ddp_emit_linear(schedule);
    if (question++ % 2 == 1 && schedule->step_count > 0) {
        schedule->step_count--;
    }
}

CT_TEST(coll, memory_shows)
{
    struct harness_coll_report report = check_made(emit_with_memory);

    CT_CHECK(report.result[HARNESS_COLL_PURE].state == HARNESS_COLL_FAIL);
    CT_CHECK(strstr(report.result[HARNESS_COLL_PURE].text, "answers twice differently") != NULL);
}

static void emit_past_the_end(struct ddp_schedule *schedule)
{
    ddp_emit_ring(schedule);
    if (schedule->step_count > 0 && schedule->steps[0].kind == DDP_STEP_SEND) {
        schedule->steps[0].src.first = schedule->params.elem_count;
    }
}

CT_TEST(coll, not_well_formed)
{
    struct harness_coll_report report = check_made(emit_past_the_end);
    const struct harness_coll_result *emits = &report.result[HARNESS_COLL_EMITS];

    CT_CHECK(emits->state == HARNESS_COLL_FAIL);
    CT_CHECK_EQ_U64(emits->at.world, 2);
    CT_CHECK(strstr(emits->text, "range outside of its buffer") != NULL);
}

/* --- what was not judged ---------------------------------------------------------------------- */

static void never(struct ddp_schedule *schedule)
{
    schedule->status = DDP_E_INVALID;
}

CT_TEST(coll, nothing_to_judge)
{
    struct harness_coll_report report = check_made(never);

    CT_CHECK(report.result[HARNESS_COLL_EMITS].state == HARNESS_COLL_FAIL);
    CT_CHECK(report.result[HARNESS_COLL_LIVE].state == HARNESS_COLL_NOT_JUDGED);
    CT_CHECK(harness_coll_outcome(&report) == HARNESS_OUTCOME_FAIL);
}

/* A second a question. */
static uint64_t tick(struct ddp_clock *clock)
{
    static uint64_t now_ns;

    (void)clock;
    now_ns += DDP_NS_PER_S;
    return now_ns;
}

CT_TEST(coll, time_is_up)
{
    struct made_source made = made_source_of(ddp_emit_ring);
    struct harness_coll_options options = options_of(4);
    struct ddp_clock clock = {.now_ns = tick};
    struct harness_coll_report report;
    json_t *verdicts;

    options.clock = &clock;
    options.budget_ns = 5 * DDP_NS_PER_S;
    report = check(&made.base, &options);
    CT_CHECK(report.is_stopped && report.case_count == 5 && report.case_total > 5);
    CT_CHECK(harness_coll_outcome(&report) == HARNESS_OUTCOME_INCONCLUSIVE);
    verdicts = harness_coll_verdicts(&report);
    CT_CHECK_STR(json_string_value(json_object_get(json_array_get(verdicts, 0), "outcome")),
                 "INCONCLUSIVE");
    json_decref(verdicts);
}

/* --- renderings ------------------------------------------------------------------------------- */

CT_TEST(coll, pictures)
{
    struct made_source made = made_source_of(ddp_emit_linear);
    const struct harness_coll_case test = {.world = 3, .elem_count = 2, .is_in_place = true};
    struct ddp_err err = {""};
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    CT_REQUIRE_OK(harness_coll_print_picture(&made.base, &test, false, &text, &err));
    CT_CHECK_STR(ddp_text_str(&text), "      rank 0         rank 1         rank 2\n"
                                      "   1  out[0..1] +<1  out[0..1] >0\n"
                                      "   2  out[0..1] +<2                 out[0..1] >0\n"
                                      "   3  out[0..1] >1   out[0..1] =<0\n"
                                      "   4  out[0..1] >2                  out[0..1] =<0\n"
                                      "out[0..1] = ((0 1) 2)\n");
    ddp_text_fini(&text);
    ddp_text_init(&text, ddp_mem_system());
    CT_REQUIRE_OK(harness_coll_print_picture(&made.base, &test, true, &text, &err));
    CT_CHECK(strncmp(ddp_text_str(&text), "<svg ", 5) == 0);
    CT_CHECK(strstr(ddp_text_str(&text), "add 0+2</text>") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "</svg>\n") != NULL);
    ddp_text_fini(&text);
}

CT_TEST(coll, counterexample_is_drawn)
{
    struct made_source made = made_source_of(emit_broken_at_3_and_4);
    struct harness_coll_report report = check_made(emit_broken_at_3_and_4);
    struct ddp_err err = {""};
    struct ddp_text text;
    json_t *root, *first;

    ddp_text_init(&text, ddp_mem_system());
    harness_coll_print(&report, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "all_reduce made: FAIL") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "deadlock_free, smallest counterexample: 3 ranks, 4 "
                                         "elements, input and output apart\n  ") != NULL);
    CT_REQUIRE_OK(harness_coll_print_failure(&made.base, &report, false, &text, &err));
    CT_CHECK(strstr(ddp_text_str(&text), "for ever\n      rank 2 waits in step ") != NULL);
    ddp_text_fini(&text);
    root = harness_coll_json(&report);
    CT_REQUIRE(root != NULL);
    CT_CHECK_STR(json_string_value(json_object_get(root, "outcome")), "FAIL");
    first = json_array_get(json_object_get(root, "properties"), HARNESS_COLL_LIVE);
    CT_CHECK_STR(json_string_value(json_object_get(first, "state")), "FAIL");
    CT_CHECK_EQ_I64(
        json_integer_value(json_object_get(json_object_get(first, "counterexample"), "world")), 3);
    first = json_object_get(first, "counterexample");
    CT_CHECK_EQ_I64(json_integer_value(json_object_get(first, "count")), 4);
    CT_CHECK(json_is_integer(json_object_get(first, "rank")));
    CT_CHECK(json_is_integer(json_object_get(first, "step")));
    CT_CHECK(json_is_null(json_object_get(first, "element")));
    CT_CHECK_STR(json_string_value(json_object_get(first, "dtype")), "f32");
    json_decref(root);
}
