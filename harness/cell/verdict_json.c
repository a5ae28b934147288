/* verdict.json: the judgement of one cell for people and programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "harness/cell/stage.h"
#include "harness/plan/names.h"

#define VERDICT_SCHEMA "ddprove.verdict/1"

static json_t *ranks_json(const struct harness_rank_set *set)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < harness_rank_set_count(set); i++) {
        (void)json_array_append_new(list, json_integer(harness_rank_set_at(set, i)));
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

/* Any text as a JSON string. If it is not UTF-8 (a path need not be), each byte beyond ASCII
 * becomes a question mark. */
static json_t *text_json(const char *text)
{
    json_t *object = json_string(text);
    struct ddp_text plain;

    if (object != NULL) {
        return object;
    }
    ddp_text_init(&plain, ddp_mem_system());
    for (const char *c = text; *c != '\0'; c++) {
        ddp_text_add_bytes(&plain, (unsigned char)*c < 0x80 ? c : "?", 1);
    }
    object = json_string(ddp_text_str(&plain));
    ddp_text_fini(&plain);
    return object;
}

static json_t *text_or_null(const char *text)
{
    return text != NULL ? json_string(text) : json_null();
}

static json_t *op_json(const struct harness_cell *cell, const struct harness_finding *finding)
{
    json_t *params = json_array();

    for (uint32_t i = 0; i < finding->params.count; i++) {
        uint32_t param = harness_list_at(&finding->params, i);

        if (param < cell->param_count) {
            (void)json_array_append_new(params, text_json(cell->params[param].name));
        }
    }
    if (!finding->op.is_set && finding->params.count == 0) {
        json_decref(params);
        return json_null();
    }
    if (harness_plan_is_guest(&cell->plan)) {
        return json_pack(
            "{s:o, s:o, s:n, s:o, s:o, s:o}", "seq",
            number_or_null(finding->op.seq == 0 ? -1 : (int64_t)finding->op.seq), "kind",
            text_or_null(harness_names_of(HARNESS_NAMES_GUEST_KINDS, finding->guest.kind)), "role",
            "bucket", number_or_null(finding->op.bucket), "params", params, "comm",
            text_json(finding->guest.comm));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o*}", "seq",
                     number_or_null(finding->op.seq == 0 ? -1 : (int64_t)finding->op.seq), "kind",
                     text_or_null(finding->op.is_set ? ddp_coll_kind_name(finding->op.kind) : NULL),
                     "role",
                     text_or_null(finding->op.is_set ? ddp_coll_role_name(finding->op.role) : NULL),
                     "bucket", number_or_null(finding->op.bucket), "params", params, "comm",
                     finding->guest.comm[0] != '\0' ? text_json(finding->guest.comm) : NULL);
}

/* Which finding it follows from, counted from 0, and why. */
static json_t *cause_json(const struct harness_finding *finding)
{
    return finding->cause < 0 ? json_null()
                              : json_pack("{s:I, s:s}", "finding", (json_int_t)finding->cause,
                                          "because", finding->cause_words);
}

static json_t *finding_json(const struct harness_cell *cell, const struct harness_finding *finding)
{
    return json_pack(
        "{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "verdict",
        harness_verdict_name(finding->verdict), "oracle", harness_oracle_name(finding->oracle),
        "mode", harness_mode_name(finding->mode), "culprit", ranks_json(&finding->culprits),
        "victims", ranks_json(&finding->victims), "op", op_json(cell, finding), "step",
        number_or_null(finding->step), "micro", number_or_null(finding->micro), "phase",
        text_or_null(finding->phase >= 0 ? ddp_phase_name((enum ddp_phase)finding->phase) : NULL),
        "detect_ms", ms_or_null(finding->detect_ns), "attribute_ms",
        ms_or_null(finding->attribute_ns), "follows_from", cause_json(finding), "text",
        text_json(finding->text));
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

/* What the culprits said last, or the first rank that said anything; null: nobody did. */
static json_t *said_json(const struct harness_cell *cell, const char *run_dir, uint32_t world_size,
                         const struct harness_rank_set *culprits)
{
    uint32_t rank = 0;
    const char *line = harness_stage_said(cell, run_dir, world_size, culprits, &rank);

    return line == NULL ? json_null()
                        : json_pack("{s:i, s:o}", "rank", (int)rank, "text", text_json(line));
}

/* What the second run did: what it loaded, or why it did not; null if there was none. */
static json_t *restore_json(const struct harness_cell *cell,
                            const struct harness_judge_facts *facts)
{
    const struct harness_plan *plan = &cell->plan;
    bool is_good = facts->restore_verdict == HARNESS_VERDICT_NONE;

    if (!facts->is_restore_run) {
        return json_null();
    }
    return json_pack(
        "{s:o, s:b, s:s, s:o, s:o, s:o}", "from_step", number_or_null(facts->restored_from_step),
        "equals", facts->is_restore_equal, "verdict", harness_verdict_name(facts->restore_verdict),
        "culprit", ranks_json(&facts->restore_culprits), "text", text_json(facts->restore_text),
        "said",
        is_good ? json_null()
                : said_json(cell, harness_stage_path(cell->mem, cell->run_dir, "restore"),
                            plan->restore.ranks > 0 ? plan->restore.ranks : plan->job.ranks,
                            &facts->restore_culprits));
}

/* The card on which the gradients were computed again. */
static json_t *gpu_json(const struct harness_cell *cell)
{
    if (cell->gpu.card_count == 0) {
        return json_null();
    }
    return json_pack("{s:s, s:i, s:i, s:i}", "name", cell->gpu.name, "driver",
                     (int)cell->gpu.driver_version, "runtime", (int)cell->gpu.runtime_version,
                     "compute_capability", (int)cell->gpu.compute_capability);
}

/* A word as a shell reads it. */
static void add_word(struct ddp_text *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./=,:@%+-";

    if (word[strspn(word, plain)] == '\0') {
        ddp_text_add(out, "%s", word);
        return;
    }
    ddp_text_add(out, "'");
    for (const char *c = word; *c != '\0'; c++) {
        if (*c == '\'') {
            ddp_text_add(out, "'\\''");
        } else {
            ddp_text_add_bytes(out, c, 1);
        }
    }
    ddp_text_add(out, "'");
}

/* The command that runs this cell again, from its plan file. */
static json_t *reproduce_json(const struct harness_cell_config *config)
{
    struct ddp_text path;
    struct ddp_text line;
    json_t *object;

    ddp_text_init(&path, ddp_mem_system());
    ddp_text_init(&line, ddp_mem_system());
    ddp_text_add(&path, "%s/plan.yaml", config->run_dir);
    ddp_text_add(&line, "ddprove run ");
    add_word(&line, ddp_text_str(&path));
    ddp_text_add(&line, " --driver %s --seed %" PRIu64 "%s%s", harness_driver_name(config->driver),
                 config->seed,
                 config->launcher == HARNESS_LAUNCHER_MPIRUN ? " --launcher mpirun" : "",
                 config->is_time_enforced ? " --enforce-time" : "");
    object = text_json(ddp_text_str(&line));
    ddp_text_fini(&line);
    ddp_text_fini(&path);
    return object;
}

static json_t *base_json(const struct harness_plan *plan, const struct harness_cell_config *config,
                         const struct harness_judgement *judgement)
{
    json_t *covers = json_array();

    for (uint32_t i = 0; i < plan->covers.count; i++) {
        (void)json_array_append_new(covers, text_json(plan->covers.items[i]));
    }
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:s, s:I, s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "schema",
        VERDICT_SCHEMA, "id", text_json(plan->id), "cell", text_json(plan->cell), "purpose",
        text_json(plan->purpose != NULL ? plan->purpose : ""), "driver",
        harness_driver_name(config->driver), "seed", (json_int_t)config->seed, "outcome",
        harness_outcome_name(judgement->outcome), "verdict",
        harness_verdict_name(judgement->verdict), "reason", text_json(judgement->reason), "covers",
        covers, "run_dir", text_json(config->run_dir), "reproduce",
        judgement->outcome == HARNESS_OUTCOME_SKIP ? json_null() : reproduce_json(config),
        "capsule", capsule_json());
}

/* The steps of rank 0 from its first to its last loss: start-up and teardown left out. */
struct steps {
    uint64_t first_ns, last_ns;
    uint32_t count;
};

static struct steps find_steps(const struct harness_cell *cell)
{
    const struct harness_trace_event *event;
    struct steps steps = {0};
    size_t cursor = 0;

    while ((event = harness_trace_next(&cell->trace, &cursor, 0, DDP_EVENT_LOSS)) != NULL) {
        steps.first_ns = steps.count++ == 0 ? event->entry.time_ns : steps.first_ns;
        steps.last_ns = event->entry.time_ns;
    }
    return steps;
}

/* Time of the whole job at that pace, in ms. 0 with fewer than two steps. */
static double steps_ms(const struct steps *steps)
{
    return steps->count < 2 ? 0
                            : (double)(steps->last_ns - steps->first_ns) / 1e6 * steps->count /
                                  (steps->count - 1);
}

static double share_of(const struct steps *steps, uint64_t ns)
{
    /* Micro-batches of one step may be at one time. */
    return steps->last_ns == steps->first_ns
               ? 0
               : (double)ns / (double)(steps->last_ns - steps->first_ns);
}

/* How much of these steps buckets were under way in: posted, and not known to be done. Sums of a
 * rank are done in the order of their numbers. */
static double reduce_share(const struct harness_cell *cell, const struct steps *steps)
{
    const struct harness_trace_event *post;
    const struct harness_trace_event *done = NULL;
    uint64_t covered_ns = steps->first_ns, sum_ns = 0;
    size_t post_cursor = 0, done_cursor = 0;

    while ((post = harness_trace_next(&cell->trace, &post_cursor, 0, DDP_EVENT_COLL_POST)) !=
           NULL) {
        const struct ddp_event_op op = ddp_event_op_unpack(post->entry.arg[1]);
        uint64_t begin_ns = post->entry.time_ns, end_ns;

        while (done == NULL || done->entry.arg[0] < post->entry.arg[0]) {
            done = harness_trace_next(&cell->trace, &done_cursor, 0, DDP_EVENT_COLL_DONE);
            if (done == NULL) {
                return share_of(steps, sum_ns);
            }
        }
        if (op.role != DDP_ROLE_BUCKET || done->entry.arg[0] != post->entry.arg[0]) {
            continue;
        }
        begin_ns = begin_ns > covered_ns ? begin_ns : covered_ns;
        end_ns = done->entry.time_ns < steps->last_ns ? done->entry.time_ns : steps->last_ns;
        if (end_ns > begin_ns) {
            sum_ns += end_ns - begin_ns;
            covered_ns = end_ns;
        }
    }
    return share_of(steps, sum_ns);
}

/* How much of them rank 0 did nothing but wait in, in backward passes: sums that nothing hides. */
static double wait_share(const struct harness_cell *cell, const struct steps *steps)
{
    const struct harness_trace_event *event;
    uint64_t entered_ns = 0, sum_ns = 0; /* of all waits so far */
    bool is_backward = false;
    size_t cursor = 0;

    while ((event = harness_trace_next(&cell->trace, &cursor, 0, DDP_EVENT_PHASE)) != NULL) {
        const bool is_within =
            event->entry.time_ns > steps->first_ns && event->entry.time_ns <= steps->last_ns;

        sum_ns += is_backward && is_within ? event->entry.arg[1] - entered_ns : 0;
        is_backward = event->entry.arg[0] == DDP_PHASE_BACKWARD;
        entered_ns = event->entry.arg[1];
    }
    return share_of(steps, sum_ns);
}

json_t *harness_stage_verdict(const struct harness_cell *cell,
                              const struct harness_judge_facts *facts,
                              const struct harness_judgement *judgement)
{
    static const struct harness_finding nothing = {.op = {.bucket = -1},
                                                   .step = -1,
                                                   .micro = -1,
                                                   .phase = -1,
                                                   .stage = -1,
                                                   .detect_ns = -1,
                                                   .attribute_ns = -1};
    const struct harness_finding *primary =
        judgement->primary >= 0 ? &cell->findings.items[judgement->primary] : &nothing;
    bool is_judged =
        judgement->outcome != HARNESS_OUTCOME_ERROR && judgement->outcome != HARNESS_OUTCOME_SKIP;
    json_t *object = base_json(&cell->plan, &cell->config, judgement);
    json_t *findings = json_array();
    const struct steps steps = find_steps(cell);
    json_t *rest;

    DDP_ASSERT(primary != NULL); /* findings.items is set if there are findings */
    for (size_t i = 0; i < cell->findings.count; i++) {
        (void)json_array_append_new(findings, finding_json(cell, &cell->findings.items[i]));
    }
    rest = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f}",
        "culprit", ranks_json(&primary->culprits), "victims", ranks_json(&primary->victims), "op",
        op_json(cell, primary), "step", number_or_null(primary->step), "micro",
        number_or_null(primary->micro), "phase",
        text_or_null(primary->phase >= 0 ? ddp_phase_name((enum ddp_phase)primary->phase) : NULL),
        "oracle", text_or_null(harness_oracle_name(primary->oracle)), "mode",
        text_or_null(
            harness_mode_name(primary->mode != HARNESS_MODE_NONE || !is_judged ? primary->mode
                              : cell->accounts != NULL ? harness_watch_mode_of(cell->accounts)
                                                       : HARNESS_MODE_BITWISE)),
        "detect_ms", ms_or_null(primary->detect_ns), "attribute_ms",
        ms_or_null(primary->attribute_ns), "survivors_ms", ms_or_null(facts->survivor_latency_ns),
        "fired", fired_json(cell, facts), "judged", harness_stage_judged(cell->accounts),
        "not_judged", harness_stage_not_judged(cell->accounts), "findings", findings, "unexpected",
        number_or_null(judgement->unexpected), "restore", restore_json(cell, facts), "text",
        text_json(primary->text), "said",
        judgement->primary < 0
            ? json_null()
            : said_json(cell, cell->run_dir, cell->plan.job.ranks, &primary->culprits),
        "run_ms", (double)(cell->trace.end_ns - cell->trace.start_ns) / 1e6, "steps_ms",
        steps_ms(&steps), "reduce_share", reduce_share(cell, &steps), "wait_share",
        wait_share(cell, &steps));
    DDP_ASSERT(rest !=
               NULL); /* numbers are finite, texts are UTF-8: nothing of a verdict is lost */
    (void)json_object_update(object, rest);
    json_decref(rest);
    (void)json_object_set_new(json_object_get(object, "capsule"), "gpu", gpu_json(cell));
    return object;
}

json_t *harness_cell_unjudged(const struct harness_plan *plan,
                              const struct harness_cell_config *config,
                              enum harness_outcome outcome, const char *reason)
{
    struct harness_cell cell;
    struct harness_judge_facts facts;
    struct harness_judgement judgement;

    memset(&cell, 0, sizeof cell);
    memset(&facts, 0, sizeof facts);
    memset(&judgement, 0, sizeof judgement);
    cell.plan = *plan;
    cell.plan.fault_count = 0; /* what fired is not known */
    cell.config = *config;
    facts.survivor_latency_ns = -1;
    judgement.outcome = outcome;
    judgement.verdict = HARNESS_VERDICT_NONE;
    judgement.primary = -1;
    judgement.unexpected = -1;
    (void)snprintf(judgement.reason, sizeof judgement.reason, "%s", reason);
    return harness_stage_verdict(&cell, &facts, &judgement);
}
