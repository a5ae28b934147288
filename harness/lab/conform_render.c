/* Purpose: a report of what was tried, as text, JSON and verdicts. */
#include "harness/lab/conform.h"

void harness_conform_print(const struct harness_conform_report *report, struct ddp_text *out)
{
    ddp_text_add(out, "%s %s: %s, run by %u to %u ranks, %zu calls of them all%s, %.1f s\n",
                 ddp_coll_kind_name(report->kind), report->name,
                 harness_outcome_name(harness_conform_outcome(report)), report->first_world,
                 report->last_world, report->case_count,
                 report->is_stopped ? " (the time was up)" : "", (double)report->elapsed_ns / 1e9);
    for (int p = 0; p < HARNESS_CONFORM_COUNT; p++) {
        if (report->result[p].is_asked) {
            ddp_text_add(out, "  %-14s %-12s %s\n",
                         harness_conform_name((enum harness_conform_property)p),
                         harness_coll_state_name(report->result[p].state),
                         harness_conform_meaning((enum harness_conform_property)p));
        }
    }
    for (int p = 0; p < HARNESS_CONFORM_COUNT; p++) {
        const struct harness_conform_result *result = &report->result[p];

        if (result->text[0] != '\0') {
            ddp_text_add(out, "%s, smallest counterexample: %u rank%s, %zu element%s\n  %s\n",
                         harness_conform_name((enum harness_conform_property)p), result->world,
                         result->world == 1 ? "" : "s", result->elem_count,
                         result->elem_count == 1 ? "" : "s", result->text);
        }
    }
    if (report->untried[0] != '\0') {
        ddp_text_add(out, "not tried: %s, since %s\n", harness_conform_name(HARNESS_CONFORM_LARGE),
                     report->untried);
    }
    if (report->refused[0] != '\0') {
        ddp_text_add(out, "not taken: %s, perhaps other counts too\n", report->refused);
    }
    if (report->untaken[0] != '\0') {
        ddp_text_add(out, "not taken: %s\n", report->untaken);
    }
    if (report->order_count > 0) {
        ddp_text_add(out,
                     "%llu orders and losses of messages, and deaths of ranks, in one process\n",
                     (unsigned long long)report->order_count);
    }
    if (report->tree[0] != '\0') {
        ddp_text_add(out, "how %u ranks add, as probes show:\n%s", report->tree_world,
                     report->tree);
    }
}

/* null: it is not said. */
static json_t *known_json(int64_t value)
{
    return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *example_json(const struct harness_conform_result *result)
{
    if (result->text[0] == '\0') {
        return json_null();
    }
    return json_pack("{s:i, s:I, s:o, s:o, s:s}", "world", (int)result->world, "count",
                     (json_int_t)result->elem_count, "rank", known_json(result->rank), "element",
                     known_json(result->elem), "text", result->text);
}

json_t *harness_conform_json(const struct harness_conform_report *report)
{
    json_t *properties = json_array();

    for (int p = 0; p < HARNESS_CONFORM_COUNT; p++) {
        const struct harness_conform_result *result = &report->result[p];

        if (result->is_asked) {
            (void)json_array_append_new(
                properties,
                json_pack("{s:s, s:s, s:I, s:o}", "name",
                          harness_conform_name((enum harness_conform_property)p), "state",
                          harness_coll_state_name(result->state), "cases",
                          (json_int_t)result->case_count, "counterexample", example_json(result)));
        }
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:[i, i], s:I, s:I, s:b, s:f, s:o, s:s, s:s, s:s, s:s}",
                     "schema", "ddprove.coll.conform/1", "algorithm", report->name, "kind",
                     ddp_coll_kind_name(report->kind), "outcome",
                     harness_outcome_name(harness_conform_outcome(report)), "worlds",
                     (int)report->first_world, (int)report->last_world, "cases",
                     (json_int_t)report->case_count, "orders", (json_int_t)report->order_count,
                     "stopped", report->is_stopped, "elapsed_ms", (double)report->elapsed_ns / 1e6,
                     "properties", properties, "not_tried", report->untried, "not_taken",
                     report->untaken, "count_not_taken", report->refused, "trees", report->tree);
}

static enum harness_outcome outcome_of(const struct harness_conform_report *report,
                                       const struct harness_conform_result *result)
{
    switch (result->state) {
    case HARNESS_COLL_FAIL:
        return HARNESS_OUTCOME_FAIL;
    case HARNESS_COLL_NOT_JUDGED:
        return HARNESS_OUTCOME_INCONCLUSIVE;
    default:
        return report->is_stopped ? HARNESS_OUTCOME_INCONCLUSIVE : HARNESS_OUTCOME_PASS;
    }
}

json_t *harness_conform_verdicts(const struct harness_conform_report *report)
{
    json_t *verdicts = json_array();

    for (int p = 0; p < HARNESS_CONFORM_COUNT; p++) {
        const struct harness_conform_result *result = &report->result[p];
        const char *name = harness_conform_name((enum harness_conform_property)p);
        json_t *verdict;

        if (!result->is_asked) {
            continue;
        }
        verdict = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "driver", "coll", "outcome",
                            harness_outcome_name(outcome_of(report, result)), "verdict", name,
                            "reason", result->text, "cell", "", "text",
                            harness_conform_meaning((enum harness_conform_property)p));
        (void)json_object_set_new(verdict, "counterexample", example_json(result));
        (void)json_object_set_new(verdict, "id", json_sprintf("conform.%s.%s", report->name, name));
        (void)json_array_append_new(verdicts, verdict);
    }
    return verdicts;
}
