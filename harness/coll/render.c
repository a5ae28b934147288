/* Purpose: a report as text and as JSON.
 * Idea: the table has a line a property; what does not hold is said below it with its smallest
 * case, and where the case has an order, with its picture. */
#include "harness/coll/render.h"

enum { PICTURE_RANKS_MAX = 8 };

static const uint32_t *nodes_of(const struct harness_coll_result *result)
{
    return result->has_nodes ? result->nodes : NULL;
}

static void print_head(const struct harness_coll_report *report, struct ddp_text *out)
{
    ddp_text_add(out, "%s %s: %s, worlds of %llu to %llu ranks, %llu to %llu elements, %zu cases",
                 ddp_coll_kind_name(report->kind), report->name,
                 harness_outcome_name(harness_coll_outcome(report)),
                 (unsigned long long)report->worlds.first, (unsigned long long)report->worlds.last,
                 (unsigned long long)report->counts.first, (unsigned long long)report->counts.last,
                 report->case_count);
    if (report->is_stopped) {
        ddp_text_add(out, " of %zu (the time was up)", report->case_total);
    }
    ddp_text_add(out, ", %.1f s\n", (double)report->elapsed_ns / 1e9);
}

static void print_property(const struct harness_coll_report *report,
                           enum harness_coll_property property, struct ddp_text *out)
{
    ddp_text_add(out, "  %-14s %-12s %s\n", harness_coll_property_name(property),
                 harness_coll_state_name(report->result[property].state),
                 harness_coll_property_meaning(property));
}

static void print_example(enum harness_coll_property property,
                          const struct harness_coll_result *result, struct ddp_text *out)
{
    ddp_text_add(out, "%s, smallest counterexample: ", harness_coll_property_name(property));
    harness_coll_print_case(&result->at, nodes_of(result), out);
    ddp_text_add(out, "\n  %s\n", result->text);
}

static void print_costs(const struct harness_coll_report *report, struct ddp_text *out)
{
    if (report->cost_count == 0) {
        return;
    }
    ddp_text_add(
        out,
        "cost of n elements if a rank sends one message at a time and takes one, and the least "
        "that is possible\n(alpha a message, beta an element sent, gamma one added):\n");
    ddp_text_add(out, "  %5s  %-15s %-19s %-19s %s\n", "ranks", "alpha", "beta", "gamma",
                 "a rank sends at most");
    for (size_t i = 0; i < report->cost_count; i++) {
        const struct harness_coll_cost *cost = &report->cost[i];
        double n = (double)cost->elem_count;

        ddp_text_add(out,
                     "  %5u  %-4.0f least %-4.0f %-6.2f n least %-4.2f n %-6.2f n least %-4.2f n "
                     "%3llu messages, %5.2f n\n",
                     cost->world, cost->rounds, cost->least_rounds, cost->transfers / n,
                     cost->least_transfers / n, cost->additions / n, cost->least_additions / n,
                     (unsigned long long)cost->rank_messages, (double)cost->rank_elems / n);
    }
}

static void print_bounds(const struct harness_coll_report *report, struct ddp_text *out)
{
    if (report->cost_count == 0 || !ddp_coll_kind_is_sum(report->kind)) {
        return;
    }
    ddp_text_add(out,
                 "how wrong a sum may be, beside the sum of magnitudes ((1 + u)^d - 1 for d "
                 "roundings in a row):\n  %5s  %-18s",
                 "ranks", "additions in a row");
    for (size_t t = 0; t < HARNESS_COLL_TYPES; t++) {
        ddp_text_add(out, "  %8s", ddp_dtype_name(harness_coll_type(t)));
    }
    ddp_text_add(out, "\n");
    for (size_t i = 0; i < report->cost_count; i++) {
        const struct harness_coll_cost *cost = &report->cost[i];

        ddp_text_add(out, "  %5u  %-18u", cost->world, cost->depth);
        for (size_t t = 0; t < HARNESS_COLL_TYPES; t++) {
            ddp_text_add(out, "  %8.2g", cost->bound[t]);
        }
        ddp_text_add(out, "\n");
    }
}

void harness_coll_print(const struct harness_coll_report *report, struct ddp_text *out)
{
    print_head(report, out);
    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        if (harness_coll_is_asked(report, (enum harness_coll_property)p)) {
            print_property(report, (enum harness_coll_property)p, out);
        }
    }
    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        if (report->result[p].text[0] != '\0') {
            print_example((enum harness_coll_property)p, &report->result[p], out);
        }
    }
    print_costs(report, out);
    print_bounds(report, out);
}

/* --- pictures --------------------------------------------------------------------------------- */

/* The first property that fails; NULL: none does. */
static const struct harness_coll_result *first_failure(const struct harness_coll_report *report,
                                                       enum harness_coll_property *out_property)
{
    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        if (report->result[p].state == HARNESS_COLL_FAIL) {
            *out_property = (enum harness_coll_property)p;
            return &report->result[p];
        }
    }
    return NULL;
}

ddp_status harness_coll_print_picture(struct harness_coll_source *source,
                                      const struct harness_coll_case *test, bool is_svg,
                                      struct ddp_text *out, struct ddp_err *err)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_schedules schedules;
    struct harness_findings findings;
    uint32_t rank = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "no memory");
    }
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    status = harness_coll_emit(source, test, &schedules, &rank, err);
    if (status == DDP_OK && is_svg) {
        status = harness_coll_draw_svg(&schedules.sets[0], ddp_mem_pool_mem(pool), out);
    } else if (status == DDP_OK) {
        status = harness_coll_draw(&schedules.sets[0], ddp_mem_pool_mem(pool), out);
    }
    if (status == DDP_OK && !is_svg && ddp_coll_kind_is_sum(source->kind)) {
        status = harness_schedule_set_prove(&schedules.sets[0], &findings);
        if (status == DDP_OK && findings.count == 0 && !findings.is_failed) {
            status = harness_coll_draw_sums(&schedules.sets[0], ddp_mem_pool_mem(pool), out);
        }
    }
    ddp_mem_pool_destroy(pool);
    if (status == DDP_E_NOMEM) {
        (void)ddp_err_set(err, status, "no memory");
    }
    return status;
}

ddp_status harness_coll_print_failure(struct harness_coll_source *source,
                                      const struct harness_coll_report *report, bool is_svg,
                                      struct ddp_text *out, struct ddp_err *err)
{
    enum harness_coll_property property = HARNESS_COLL_EMITS;
    const struct harness_coll_result *result = first_failure(report, &property);
    struct harness_coll_case test;

    if (result == NULL || property == HARNESS_COLL_EMITS || property == HARNESS_COLL_PURE ||
        (!is_svg && result->at.world > PICTURE_RANKS_MAX)) {
        return DDP_OK; /* there is no picture of it, or too large a one */
    }
    test = result->at;
    test.node_of_rank = nodes_of(result);
    if (!is_svg) {
        ddp_text_add(out, "%s, moment by moment (+<1: add what rank 1 sends; =<1: take it):\n",
                     harness_coll_property_name(property));
    }
    return harness_coll_print_picture(source, &test, is_svg, out, err);
}

/* --- JSON ------------------------------------------------------------------------------------- */

/* null: it is not said. */
static json_t *known_json(int64_t value)
{
    return value >= 0 ? json_integer((json_int_t)value) : json_null();
}

static json_t *example_json(const struct harness_coll_result *result)
{
    json_t *nodes = result->has_nodes ? json_array() : json_null();

    if (result->text[0] == '\0') {
        json_decref(nodes);
        return json_null();
    }
    for (uint32_t r = 0; result->has_nodes && r < result->at.world; r++) {
        (void)json_array_append_new(nodes, json_integer(result->nodes[r]));
    }
    return json_pack("{s:i, s:I, s:s, s:I, s:b, s:i, s:o, s:o, s:o, s:o, s:s}", "world",
                     (int)result->at.world, "count", (json_int_t)result->at.elem_count, "dtype",
                     ddp_dtype_name(result->at.dtype), "segment",
                     (json_int_t)result->at.segment_elem_count, "in_place", result->at.is_in_place,
                     "root", (int)result->at.root, "nodes", nodes, "rank",
                     known_json(result->place.rank), "step", known_json(result->place.step),
                     "element", known_json(result->place.elem), "text", result->text);
}

static json_t *properties_json(const struct harness_coll_report *report)
{
    json_t *properties = json_array();

    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        const struct harness_coll_result *result = &report->result[p];

        if (harness_coll_is_asked(report, (enum harness_coll_property)p)) {
            (void)json_array_append_new(
                properties,
                json_pack("{s:s, s:s, s:I, s:o}", "name",
                          harness_coll_property_name((enum harness_coll_property)p), "state",
                          harness_coll_state_name(result->state), "cases",
                          (json_int_t)result->case_count, "counterexample", example_json(result)));
        }
    }
    return properties;
}

static json_t *costs_json(const struct harness_coll_report *report)
{
    json_t *costs = json_array();

    for (size_t i = 0; i < report->cost_count; i++) {
        const struct harness_coll_cost *cost = &report->cost[i];

        json_t *bounds = json_object();

        for (size_t t = 0; ddp_coll_kind_is_sum(report->kind) && t < HARNESS_COLL_TYPES; t++) {
            (void)json_object_set_new(bounds, ddp_dtype_name(harness_coll_type(t)),
                                      json_real(cost->bound[t]));
        }
        (void)json_array_append_new(
            costs,
            json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:i, s:o}", "world",
                      (int)cost->world, "count", (json_int_t)cost->elem_count, "messages",
                      (json_int_t)cost->messages, "elements", (json_int_t)cost->elems,
                      "rank_messages", (json_int_t)cost->rank_messages, "rank_elements",
                      (json_int_t)cost->rank_elems, "alpha", cost->rounds, "beta", cost->transfers,
                      "gamma", cost->additions, "depth", (int)cost->depth, "error_bound", bounds));
    }
    return costs;
}

json_t *harness_coll_json(const struct harness_coll_report *report)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:[I, I], s:[I, I], s:f, s:o, s:o}", "schema",
        "ddprove.coll/1", "algorithm", report->name, "kind", ddp_coll_kind_name(report->kind),
        "outcome", harness_outcome_name(harness_coll_outcome(report)), "cases",
        (json_int_t)report->case_count, "planned", (json_int_t)report->case_total, "stopped",
        report->is_stopped, "worlds", (json_int_t)report->worlds.first,
        (json_int_t)report->worlds.last, "counts", (json_int_t)report->counts.first,
        (json_int_t)report->counts.last, "elapsed_ms", (double)report->elapsed_ns / 1e6,
        "properties", properties_json(report), "costs", costs_json(report));
}

static enum harness_outcome outcome_of(enum harness_coll_state state)
{
    switch (state) {
    case HARNESS_COLL_FAIL:
        return HARNESS_OUTCOME_FAIL;
    case HARNESS_COLL_NOT_JUDGED:
        return HARNESS_OUTCOME_INCONCLUSIVE;
    default:
        return HARNESS_OUTCOME_PASS;
    }
}

json_t *harness_coll_verdicts(const struct harness_coll_report *report)
{
    json_t *verdicts = json_array();

    for (int p = 0; p < HARNESS_COLL_PROPERTY_COUNT; p++) {
        const struct harness_coll_result *result = &report->result[p];
        enum harness_outcome outcome = outcome_of(result->state);
        struct ddp_text text;
        json_t *verdict;

        if (!harness_coll_is_asked(report, (enum harness_coll_property)p)) {
            continue;
        }
        if (report->is_stopped && outcome == HARNESS_OUTCOME_PASS) {
            outcome = HARNESS_OUTCOME_INCONCLUSIVE; /* the cases that are left may say otherwise */
        }
        ddp_text_init(&text, ddp_mem_system());
        if (result->state == HARNESS_COLL_FAIL) {
            harness_coll_print_case(&result->at, nodes_of(result), &text);
            ddp_text_add(&text, ": %s", result->text);
        }
        verdict = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "driver", "coll", "outcome",
                            harness_outcome_name(outcome), "verdict",
                            harness_coll_property_name((enum harness_coll_property)p), "reason",
                            ddp_text_str(&text), "cell", "", "text",
                            harness_coll_property_meaning((enum harness_coll_property)p));
        (void)json_object_set_new(verdict, "counterexample", example_json(result));
        (void)json_object_set_new(
            verdict, "id",
            json_sprintf("coll.%s.%s", report->name,
                         harness_coll_property_name((enum harness_coll_property)p)));
        (void)json_array_append_new(verdicts, verdict);
        ddp_text_fini(&text);
    }
    return verdicts;
}
