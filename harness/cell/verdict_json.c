/* verdict.json: the judgement of one cell for people and programs. */
#include <inttypes.h>
#include <string.h>
#include <sys/utsname.h>

#include "harness/cell/stage.h"

#define VERDICT_SCHEMA "ddprove.verdict/1"

static json_t *ranks_json(const struct harness_rank_set *set)
{
    json_t *list = json_array();

    for (uint32_t rank = 0; rank < HARNESS_RANKS_MAX; rank++) {
        if (harness_rank_set_has(set, rank)) {
            (void)json_array_append_new(list, json_integer(rank));
        }
    }
    return list;
}

static json_t *number_or_null(int64_t value)
{
    return value >= 0 ? json_integer(value) : json_null();
}

static json_t *ms_or_null(int64_t value_ns)
{
    return value_ns >= 0 ? json_real((double)value_ns / 1e6) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static json_t *op_json(const struct harness_cell *cell, const struct harness_finding *finding)
{
    json_t *params = json_array();

    for (uint32_t i = 0; i < finding->param_count; i++) {
        if (finding->param[i] < cell->param_count) {
            (void)json_array_append_new(params, json_string(cell->params[finding->param[i]].name));
        }
    }
    if (!finding->op.is_set && finding->param_count == 0) {
        json_decref(params);
        return json_null();
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "seq",
                     number_or_null(finding->op.seq == 0 ? -1 : (int64_t)finding->op.seq), "kind",
                     text_or_null(finding->op.is_set ? ddp_coll_kind_name(finding->op.kind) : NULL),
                     "role",
                     text_or_null(finding->op.is_set ? ddp_coll_role_name(finding->op.role) : NULL),
                     "bucket", number_or_null(finding->op.bucket), "params", params);
}

static json_t *finding_json(const struct harness_cell *cell, const struct harness_finding *finding)
{
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "verdict",
        harness_verdict_name(finding->verdict), "oracle", finding->oracle, "mode", finding->mode,
        "culprit", ranks_json(&finding->culprits), "victims", ranks_json(&finding->victims), "op",
        op_json(cell, finding), "step", number_or_null(finding->step), "micro",
        number_or_null(finding->micro), "phase",
        text_or_null(finding->phase >= 0 ? ddp_phase_name((enum ddp_phase)finding->phase) : NULL),
        "detect_ms", ms_or_null(finding->detect_ns), "attribute_ms",
        ms_or_null(finding->attribute_ns), "text", finding->text);
}

static json_t *fired_json(const struct harness_cell *cell, const struct harness_judge_facts *facts)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < cell->plan.fault_count; i++) {
        const struct harness_fault *fault = &cell->plan.faults[i];

        (void)json_array_append_new(
            list, json_pack("{s:i, s:s, s:s, s:i, s:i}", "fault", (int)i, "point",
                            ddp_fault_point_name(fault->point), "action",
                            harness_action_name(fault->action.kind), "rank", (int)fault->at.rank,
                            "times", (int)facts->fired_count[i]));
    }
    return list;
}

/* What the result may depend on besides the plan. */
static json_t *capsule_json(void)
{
    struct utsname system;

    if (uname(&system) != 0) {
        memset(&system, 0, sizeof system);
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "ddprove", DDPROVE_VERSION, "compiler",
                     __VERSION__, "kernel", system.release, "machine", system.machine, "blas",
                     ddp_blas_describe(), "blas_core", ddp_blas_core_type());
}

/* Command that runs this very cell again; the plan file has no choice left in it. */
static json_t *reproduce_json(const struct harness_plan *plan,
                              const struct harness_cell_config *config)
{
    json_t *line = json_sprintf("ddprove run %s/plan.yaml --driver %s --seed %" PRIu64,
                                config->run_dir, harness_driver_name(config->driver), config->seed);

    return line != NULL ? line : json_string(plan->id);
}

static json_t *base_json(const struct harness_plan *plan, const struct harness_cell_config *config,
                         enum harness_outcome outcome, enum harness_verdict verdict,
                         const char *reason)
{
    json_t *covers = json_array();

    for (uint32_t i = 0; i < plan->cover_count; i++) {
        (void)json_array_append_new(covers, json_string(plan->covers[i]));
    }
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:o, s:s, s:o, s:o}", "schema",
        VERDICT_SCHEMA, "id", plan->id, "cell", plan->cell, "purpose",
        plan->purpose != NULL ? plan->purpose : "", "driver", harness_driver_name(config->driver),
        "seed", (json_int_t)config->seed, "outcome", harness_outcome_name(outcome), "verdict",
        harness_verdict_name(verdict), "reason", reason, "covers", covers, "run_dir",
        config->run_dir, "reproduce", reproduce_json(plan, config), "capsule", capsule_json());
}

/* Time of the whole job at the pace of rank 0 between its first and its last step, in ms: start-up
 * and teardown left out. 0 with fewer than two steps. */
static double steps_ms(const struct harness_cell *cell)
{
    const struct harness_trace_event *event;
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;
    uint32_t count = 0;
    size_t cursor = 0;

    while ((event = harness_trace_next(&cell->trace, &cursor, 0, DDP_EVENT_LOSS)) != NULL) {
        first_ns = count++ == 0 ? event->entry.time_ns : first_ns;
        last_ns = event->entry.time_ns;
    }
    return count < 2 ? 0 : (double)(last_ns - first_ns) / 1e6 * count / (count - 1);
}

json_t *harness_stage_verdict(const struct harness_cell *cell,
                              const struct harness_judge_facts *facts,
                              const struct harness_judgement *judgement)
{
    static const struct harness_finding nothing = {.op = {.bucket = -1},
                                                   .step = -1,
                                                   .micro = -1,
                                                   .phase = -1,
                                                   .detect_ns = -1,
                                                   .attribute_ns = -1};
    const struct harness_finding *primary =
        judgement->primary >= 0 ? &cell->findings.items[judgement->primary] : &nothing;
    json_t *object = base_json(&cell->plan, &cell->config, judgement->outcome, judgement->verdict,
                               judgement->reason);
    json_t *findings = json_array();
    json_t *rest;

    for (size_t i = 0; i < cell->findings.count; i++) {
        (void)json_array_append_new(findings, finding_json(cell, &cell->findings.items[i]));
    }
    rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:f, s:f}",
        "culprit", ranks_json(&primary->culprits), "victims", ranks_json(&primary->victims), "op",
        op_json(cell, primary), "step", number_or_null(primary->step), "micro",
        number_or_null(primary->micro), "phase",
        text_or_null(primary->phase >= 0 ? ddp_phase_name((enum ddp_phase)primary->phase) : NULL),
        "oracle", text_or_null(primary->oracle), "mode",
        primary->mode != NULL ? json_string(primary->mode) : json_string("bitwise"), "detect_ms",
        ms_or_null(primary->detect_ns), "attribute_ms", ms_or_null(primary->attribute_ns),
        "survivors_ms", ms_or_null(facts->survivor_latency_ns), "fired", fired_json(cell, facts),
        "findings", findings, "text", primary->text, "run_ms",
        (double)(cell->trace.end_ns - cell->trace.start_ns) / 1e6, "steps_ms", steps_ms(cell));
    (void)json_object_update(object, rest);
    json_decref(rest);
    return object;
}

json_t *harness_stage_error(const struct harness_plan *plan,
                            const struct harness_cell_config *config, const char *text)
{
    return base_json(plan, config, HARNESS_OUTCOME_ERROR, HARNESS_VERDICT_NONE, text);
}
