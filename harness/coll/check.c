/* Purpose: judge an algorithm by many cases, and keep the smallest case of each property in which
 * it does not hold.
 * Idea: cases come in order of size, so the first counterexample is the smallest. What a violation
 * keeps from being judged is not counted as judged: of a collective that hangs nobody can say what
 * it would have added. */
#include <stdio.h>
#include <string.h>

#include "harness/coll/cases.h"
#include "harness/coll/measure.h"
#include "harness/coll/order.h"

enum { PROGRESS_EVERY = 16 };

struct check {
    struct harness_coll_source *source;
    const struct harness_coll_options *options;
    struct harness_coll_report *report;
    struct harness_coll_orders orders;
    uint64_t start_ns;
    size_t total;
    ddp_status status;
    struct ddp_err *err;
};

/* --- results ---------------------------------------------------------------------------------- */

static bool is_claimed(const struct check *check, enum harness_coll_property property)
{
    switch (property) {
    case HARNESS_COLL_SAME_BITS:
        return (check->source->claims & (unsigned)HARNESS_COLL_CLAIM_RANKS) != 0;
    case HARNESS_COLL_SAME_ORDER:
        return (check->source->claims & (unsigned)HARNESS_COLL_CLAIM_ORDER) != 0;
    case HARNESS_COLL_ROUNDS:
        return (check->source->claims & (unsigned)HARNESS_COLL_CLAIM_ROUNDS) != 0;
    default:
        return true;
    }
}

/* text NULL: it holds in this case. */
static void judge(const struct check *check, enum harness_coll_property property,
                  const struct harness_coll_case *test, const char *text,
                  struct harness_step_place place)
{
    struct harness_coll_result *result = &check->report->result[property];

    result->case_count++;
    if (text == NULL) {
        result->state =
            result->state == HARNESS_COLL_NOT_JUDGED ? HARNESS_COLL_PASS : result->state;
        return;
    }
    if (result->text[0] != '\0') {
        return; /* a smaller one is known */
    }
    result->state = is_claimed(check, property) ? HARNESS_COLL_FAIL : HARNESS_COLL_NOT_CLAIMED;
    result->at = *test;
    result->has_nodes = test->node_of_rank != NULL;
    for (uint32_t r = 0; result->has_nodes && r < test->world && r < HARNESS_COLL_NODES_MAX; r++) {
        result->nodes[r] = test->node_of_rank[r];
    }
    result->at.node_of_rank = NULL;
    result->place = place;
    (void)snprintf(result->text, sizeof result->text, "%s", text);
}

static enum harness_coll_property property_of(enum harness_verdict verdict)
{
    switch (verdict) {
    case HARNESS_VERDICT_HANG_CYCLE:
        return HARNESS_COLL_LIVE;
    case HARNESS_VERDICT_MISMATCH_COUNT:
    case HARNESS_VERDICT_MISMATCH_DTYPE:
        return HARNESS_COLL_MATCHED;
    case HARNESS_VERDICT_VALUE_CORRUPTED:
        return HARNESS_COLL_ORDERED;
    default:
        return HARNESS_COLL_COMPLETE;
    }
}

/* The prover begins with what the collective is; the case says so already. */
static const char *without_head(const char *text)
{
    const char *colon = strstr(text, ": ");

    return colon != NULL ? colon + 2 : text;
}

/* --- proof ------------------------------------------------------------------------------------ */

/* False: what it computes cannot be judged. */
static bool judge_findings(const struct check *check, const struct harness_coll_case *test,
                           const struct harness_findings *findings)
{
    const char *violated[HARNESS_COLL_PROPERTY_COUNT] = {NULL};
    struct harness_step_place place[HARNESS_COLL_PROPERTY_COUNT] = {HARNESS_STEP_PLACE_NONE};

    for (size_t i = 0; i < findings->count; i++) {
        enum harness_coll_property property = property_of(findings->items[i].verdict);

        violated[property] = without_head(findings->items[i].text);
        place[property] = findings->items[i].place;
    }
    judge(check, HARNESS_COLL_LIVE, test, violated[HARNESS_COLL_LIVE], place[HARNESS_COLL_LIVE]);
    if (violated[HARNESS_COLL_LIVE] != NULL) {
        return false;
    }
    judge(check, HARNESS_COLL_ORDERED, test, violated[HARNESS_COLL_ORDERED],
          place[HARNESS_COLL_ORDERED]);
    judge(check, HARNESS_COLL_MATCHED, test, violated[HARNESS_COLL_MATCHED],
          place[HARNESS_COLL_MATCHED]);
    if (violated[HARNESS_COLL_MATCHED] != NULL) {
        return false;
    }
    judge(check, HARNESS_COLL_COMPLETE, test, violated[HARNESS_COLL_COMPLETE],
          place[HARNESS_COLL_COMPLETE]);
    return violated[HARNESS_COLL_COMPLETE] == NULL;
}

static ddp_status judge_rounds(const struct check *check, const struct harness_coll_case *test,
                               const struct harness_schedule_set *set)
{
    struct harness_findings findings;
    const struct harness_finding *first;

    harness_findings_init(&findings, set->mem);
    DDP_TRY(harness_schedule_set_prove_rounds(set, &findings));
    first = findings.count > 0 ? &findings.items[0] : NULL;
    judge(check, HARNESS_COLL_ROUNDS, test, first == NULL ? NULL : without_head(first->text),
          first == NULL ? HARNESS_STEP_PLACE_NONE : first->place);
    return findings.is_failed ? DDP_E_NOMEM : DDP_OK;
}

static void judge_segments(const struct check *check, const struct harness_coll_case *test,
                           const struct harness_schedule_set *set)
{
    char text[160];

    for (uint32_t r = 0; test->segment_elem_count > 0 && r < set->size; r++) {
        for (size_t s = 0; s < set->member[r]->step_count; s++) {
            const struct harness_schedule_step *step = &set->member[r]->steps[s];

            if (step->kind == HARNESS_STEP_SEND &&
                step->src.elem_count > test->segment_elem_count) {
                (void)snprintf(text, sizeof text, "step %zu of rank %u sends %zu elements", s, r,
                               step->src.elem_count);
                judge(check, HARNESS_COLL_SEGMENTED, test, text,
                      (struct harness_step_place){r, (int64_t)s, -1});
                return;
            }
        }
    }
    judge(check, HARNESS_COLL_SEGMENTED, test, NULL, HARNESS_STEP_PLACE_NONE);
}

/* In place the output is no input. */
static bool writes_input(const struct harness_schedule *member, const struct harness_span *dst)
{
    struct harness_span input = harness_schedule_input(member);
    struct harness_span output = harness_schedule_output(member);
    bool is_output = dst->buffer == output.buffer && dst->first >= output.first &&
                     dst->first + dst->elem_count <= output.first + output.elem_count;

    return dst->elem_count > 0 && !is_output && dst->buffer == (member->is_in_place ? 1u : 0u) &&
           dst->buffer == input.buffer;
}

static void judge_input(const struct check *check, const struct harness_coll_case *test,
                        const struct harness_schedule_set *set)
{
    char text[96];

    for (uint32_t r = 0; r < set->size; r++) {
        const struct harness_schedule *member = set->member[r];

        for (size_t s = 0; s < member->step_count; s++) {
            if (writes_input(member, &member->steps[s].dst)) {
                (void)snprintf(text, sizeof text, "step %zu of rank %u writes to the input", s, r);
                judge(check, HARNESS_COLL_INPUT_KEPT, test, text,
                      (struct harness_step_place){r, (int64_t)s,
                                                  (int64_t)member->steps[s].dst.first});
                return;
            }
        }
    }
    judge(check, HARNESS_COLL_INPUT_KEPT, test, NULL, HARNESS_STEP_PLACE_NONE);
}

/* --- order of additions ----------------------------------------------------------------------- */

static ddp_status judge_sums(struct check *check, const struct harness_coll_case *test,
                             const struct harness_schedule_set *set)
{
    char text[sizeof check->report->result[0].text] = "";
    struct harness_step_place place = HARNESS_STEP_PLACE_NONE;
    struct harness_schedule_sums sums;
    ddp_status status = harness_schedule_sums_make(set, set->mem, &sums);

    if (status == DDP_OK && harness_coll_is_asked(check->report, HARNESS_COLL_SAME_BITS)) {
        status = harness_coll_compare_ranks(&sums, &place, text, sizeof text);
        judge(check, HARNESS_COLL_SAME_BITS, test, text[0] != '\0' ? text : NULL, place);
    }
    text[0] = '\0';
    if (status == DDP_OK && harness_coll_is_asked(check->report, HARNESS_COLL_SAME_ORDER)) {
        status = harness_coll_compare_order(&check->orders, test, &sums, &place, text, sizeof text);
        judge(check, HARNESS_COLL_SAME_ORDER, test, text[0] != '\0' ? text : NULL, place);
    }
    harness_schedule_sums_fini(&sums, set);
    return status;
}

/* --- one case --------------------------------------------------------------------------------- */

/* What the first answer leaves may be kept for the next one; this was the second. */
static void judge_leak(const struct check *check, const struct harness_coll_case *test)
{
    char text[96];

    (void)snprintf(text, sizeof text, "%llu bytes are left behind, each time",
                   (unsigned long long)check->source->leaked_bytes);
    judge(check, HARNESS_COLL_FREED, test, check->source->leaked_bytes > 0 ? text : NULL,
          HARNESS_STEP_PLACE_NONE);
}

static ddp_status judge_repeats(const struct check *check, const struct harness_coll_case *test,
                                struct ddp_mem *mem)
{
    char words[80] = "";
    struct harness_step_place place = HARNESS_STEP_PLACE_NONE;

    for (uint32_t r = 0; words[0] == '\0' && r < test->world; r++) {
        struct ddp_text text[2];
        ddp_status status = DDP_OK;

        place.rank = r;
        for (int i = 0; i < 2; i++) {
            ddp_text_init(&text[i], mem);
        }
        for (int i = 0; status == DDP_OK && i < 2; i++) {
            status = check->source->ops->emit(check->source, test, r, &text[i], check->err);
        }
        if (status == DDP_OK && strcmp(ddp_text_str(&text[0]), ddp_text_str(&text[1])) != 0) {
            (void)snprintf(words, sizeof words, "rank %u answers twice differently", r);
        }
        for (int i = 0; i < 2; i++) {
            ddp_text_fini(&text[i]);
        }
        if (status == DDP_E_INVALID) {
            (void)snprintf(words, sizeof words, "rank %u answers once and then not", r);
        } else if (status != DDP_OK) {
            return status;
        }
    }
    judge(check, HARNESS_COLL_PURE, test, words[0] == '\0' ? NULL : words, place);
    if (check->source->is_measured) {
        judge_leak(check, test);
    }
    return DDP_OK;
}

static ddp_status judge_set(struct check *check, const struct harness_coll_case *test,
                            const struct harness_schedule_set *set)
{
    struct harness_findings findings;
    bool is_right;

    harness_findings_init(&findings, set->mem);
    DDP_TRY(harness_schedule_set_prove(set, &findings));
    if (findings.is_failed) {
        return DDP_E_NOMEM;
    }
    is_right = judge_findings(check, test, &findings);
    if (set->is_ordered) {
        DDP_TRY(judge_rounds(check, test, set));
    }
    judge_segments(check, test, set);
    judge_input(check, test, set);
    return is_right && (harness_coll_is_asked(check->report, HARNESS_COLL_SAME_BITS) ||
                        harness_coll_is_asked(check->report, HARNESS_COLL_SAME_ORDER))
               ? judge_sums(check, test, set)
               : DDP_OK;
}

static ddp_status judge_case(struct check *check, const struct harness_coll_case *test)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_schedules schedules;
    char text[sizeof check->err->text + 32];
    uint32_t rank = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return status;
    }
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    status = harness_coll_emit(check->source, test, &schedules, &rank, check->err);
    if (status == DDP_E_INVALID || status == DDP_E_PARSE) {
        (void)snprintf(text, sizeof text, "rank %u: %s", rank, check->err->text);
        judge(check, HARNESS_COLL_EMITS, test, text, (struct harness_step_place){rank, -1, -1});
        status = DDP_OK;
    } else if (status == DDP_OK) {
        judge(check, HARNESS_COLL_EMITS, test, NULL, HARNESS_STEP_PLACE_NONE);
        status = judge_set(check, test, &schedules.sets[0]);
        if (status == DDP_OK && test->world <= HARNESS_COLL_REPEATED_MAX &&
            test->segment_elem_count == 0 && test->node_of_rank == NULL) {
            status = judge_repeats(check, test, ddp_mem_pool_mem(pool));
        }
    }
    ddp_mem_pool_destroy(pool);
    return status;
}

/* What is wrong is often so in every element, each in a way of its own, and a proof of that takes
 * as long: long counts are for what held in all shorter ones. */
static bool is_spared(const struct check *check, const struct harness_coll_case *test)
{
    if (check->options->counts.is_chosen || test->elem_count < HARNESS_COLL_LONG_COUNT) {
        return false;
    }
    for (size_t p = 0; p < (size_t)HARNESS_COLL_PROPERTY_COUNT; p++) {
        if (check->report->result[p].state == HARNESS_COLL_FAIL) {
            return true;
        }
    }
    return false;
}

static bool visit(void *context, const struct harness_coll_case *test)
{
    struct check *check = context;
    const struct harness_coll_options *options = check->options;
    struct harness_coll_report *report = check->report;

    if (is_spared(check, test)) {
        return true;
    }
    if (options->budget_ns > 0 &&
        ddp_clock_now_ns(options->clock) - check->start_ns > options->budget_ns) {
        report->is_stopped = true;
        return false;
    }
    check->status = judge_case(check, test);
    if (check->status != DDP_OK) {
        return false;
    }
    report->worlds.first = report->case_count == 0 ? test->world : report->worlds.first;
    report->worlds.last = test->world;
    report->counts.first = report->case_count == 0 ? test->elem_count : report->counts.first;
    if (test->elem_count > report->counts.last) {
        report->counts.last = test->elem_count;
    }
    report->case_count++;
    if (check->source->is_crashed) { /* and what it said of it stands */
        return false;
    }
    if (options->progress != NULL && report->case_count % PROGRESS_EVERY == 0) {
        options->progress(options->context, report->case_count, report->case_total);
    }
    return true;
}

static bool count_case(void *context, const struct harness_coll_case *test)
{
    (void)test;
    ++*(size_t *)context;
    return true;
}

/* --- check ------------------------------------------------------------------------------------ */

static bool is_computed(const struct harness_coll_report *report)
{
    return report->result[HARNESS_COLL_EMITS].state == HARNESS_COLL_PASS &&
           report->result[HARNESS_COLL_LIVE].state == HARNESS_COLL_PASS &&
           report->result[HARNESS_COLL_MATCHED].state == HARNESS_COLL_PASS &&
           report->result[HARNESS_COLL_COMPLETE].state == HARNESS_COLL_PASS;
}

ddp_status harness_coll_check(struct harness_coll_source *source,
                              const struct harness_coll_options *options,
                              struct harness_coll_report *out, struct ddp_err *err)
{
    static const uint32_t worlds[HARNESS_COLL_COSTS] = {2, 4, 8, 16};
    struct check check = {.source = source, .options = options, .report = out, .err = err};

    *out = (struct harness_coll_report){.kind = source->kind, .is_measured = source->is_measured};
    (void)snprintf(out->name, sizeof out->name, "%s", source->name);
    err->text[0] = '\0';
    check.start_ns = ddp_clock_now_ns(options->clock);
    (void)harness_coll_cases(source->kind, options, count_case, &out->case_total);
    (void)harness_coll_cases(source->kind, options, visit, &check);
    for (size_t i = 0; check.status == DDP_OK && i < HARNESS_COLL_COSTS; i++) {
        if (source->kind != DDP_COLL_BARRIER && is_computed(out) && !out->is_stopped) {
            struct harness_coll_cost *cost = &out->cost[out->cost_count];

            check.status = harness_coll_measure(source, worlds[i], cost, err);
            out->cost_count += check.status == DDP_OK && cost->world > 0 ? 1 : 0;
        }
    }
    out->elapsed_ns = ddp_clock_now_ns(options->clock) - check.start_ns;
    return check.status == DDP_OK || err->text[0] != '\0'
               ? check.status
               : ddp_err_set(err, check.status, "%s", ddp_status_name(check.status));
}
