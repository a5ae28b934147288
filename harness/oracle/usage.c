/* Purpose: errors that ranks reported themselves: misuse, mismatches, refused checkpoints, failed
 * operations. Every error of a rank becomes a finding.
 * Idea: the rank that detected the error is to blame, not the ones that were told of it; the
 * parameters are those that it named. PEER_DIED and REVOKED only say that another rank failed:
 * usage_victims.c compares whom they name. What follows from other findings the judge decides. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/checkpoint_state.h"
#include "harness/oracle/subject.h"
#include "harness/trace/taken.h"

static const struct {
    ddp_status status;
    enum harness_verdict verdict;
    const char *what;
} rules[] = {
    {DDP_E_UNUSED_PARAMETER, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER,
     "parameters got no gradient and find_unused_parameters is off"},
    {DDP_E_READY_TWICE, HARNESS_VERDICT_USAGE_READY_TWICE, "a gradient was ready twice"},
    {DDP_E_MISMATCH, HARNESS_VERDICT_MISMATCH_OP, "ranks posted different operations"},
    {DDP_E_MESSAGE, HARNESS_VERDICT_MISMATCH_MESSAGE, "messages were lost or came out of turn"},
    {DDP_E_MODEL, HARNESS_VERDICT_MISMATCH_MODEL, "another model or configuration"},
    {DDP_E_MEMBER, HARNESS_VERDICT_LAUNCH_ENVIRONMENT, "who is which rank, or of how many"},
    {DDP_E_EARLY_TERMINATION, HARNESS_VERDICT_DATA_UNEVEN, "a rank ran out of data inside join"},
    {DDP_E_PREFIX, HARNESS_VERDICT_CHECKPOINT_PREFIX, "the checkpoint's keys have another prefix"},
    {DDP_E_KEYS, HARNESS_VERDICT_CHECKPOINT_KEYS, "the checkpoint's keys are not the model's"},
    {DDP_E_SHAPE, HARNESS_VERDICT_CHECKPOINT_DTYPE, "a stored tensor has another shape or type"},
    {DDP_E_CORRUPT, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "the checkpoint is damaged"},
    {DDP_E_TIMEOUT, HARNESS_VERDICT_HANG_NOT_JOINED, "a wait ended by its time-out"},
    {DDP_E_INJECTED, HARNESS_VERDICT_CRASH_EXITED, "an operation failed"},
    {DDP_E_INVALID, HARNESS_VERDICT_CRASH_EXITED, "an argument was out of range"},
    {DDP_E_STATE, HARNESS_VERDICT_CRASH_EXITED, "a call came at the wrong time"},
    {DDP_E_NOMEM, HARNESS_VERDICT_RESOURCE_HOST_MEMORY, "memory could not be allocated"},
    {DDP_E_IO, HARNESS_VERDICT_CRASH_EXITED, "a file or socket operation failed"},
    {DDP_E_NO_SPACE, HARNESS_VERDICT_RESOURCE_DISK, "the disk is full"},
    {DDP_E_NO_FD, HARNESS_VERDICT_RESOURCE_FD, "no file descriptor is left"},
    {DDP_E_PARSE, HARNESS_VERDICT_CRASH_EXITED, "text could not be read"},
    {DDP_E_UNSUPPORTED, HARNESS_VERDICT_CRASH_EXITED, "an operation is not supported"},
    {DDP_E_NOT_FOUND, HARNESS_VERDICT_CRASH_EXITED, "something was not there"},
    {DDP_E_SYSTEM, HARNESS_VERDICT_CRASH_EXITED, "a system call failed"},
    {DDP_E_DEVICE_MEMORY, HARNESS_VERDICT_RESOURCE_DEVICE_MEMORY,
     "memory of the device could not be allocated"},
    {DDP_E_DEVICE, HARNESS_VERDICT_CRASH_DEVICE, "the device or its library failed"},
    {DDP_E_OVERFLOW, HARNESS_VERDICT_CRASH_EXITED, "a capacity was exceeded"},
};

enum harness_verdict harness_usage_verdict_of(ddp_status status)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        if (rules[i].status == status) {
            return rules[i].verdict;
        }
    }
    return HARNESS_VERDICT_CRASH_EXITED;
}

/* Everything that ranks reported with one status. */
struct reports {
    bool is_any;
    struct harness_rank_set raised;   /* ranks that detected the error, or that it names */
    struct harness_rank_set reported; /* ranks that ended with it */
    bool is_own;                      /* a rank that the error names reported it */
    int32_t step;                     /* of the earliest such report, else of the earliest one */
    uint64_t step_ns;                 /* when that was */
    uint64_t seq;                     /* of the earliest collective in which it was met; 0: none */
    uint64_t time_ns;                 /* of the earliest report */
};

/* Ranks that were told of the error may say so before the one that told them, and in the step
 * before. */
static void note(struct reports *reports, const struct harness_trace_event *event,
                 int64_t raised_by)
{
    const bool is_own = raised_by == (int64_t)event->rank;
    const bool is_better =
        is_own != reports->is_own ? is_own : event->entry.time_ns < reports->step_ns;

    if (!reports->is_any || event->entry.time_ns < reports->time_ns) {
        reports->time_ns = event->entry.time_ns;
    }
    if (!reports->is_any || is_better) {
        reports->is_own = is_own;
        reports->step = (int32_t)event->entry.step;
        reports->step_ns = event->entry.time_ns;
    }
    reports->is_any = true;
    harness_rank_set_add(&reports->reported, event->rank);
    if (raised_by >= 0) {
        harness_rank_set_add(&reports->raised, (uint32_t)raised_by);
    }
}

/* A collective that failed says its number; other errors say other things there. */
static void note_detail(struct reports *reports, ddp_status status, uint64_t detail)
{
    bool is_seq = status == DDP_E_MISMATCH || status == DDP_E_TIMEOUT || status == DDP_E_MESSAGE;

    if (is_seq && detail != 0 && (reports->seq == 0 || detail < reports->seq)) {
        reports->seq = detail;
    }
}

/* rank.error: status, peer (who is to blame, or -1), cause, detail. What was revoked, whoever was
 * told so reports, too. */
static void gather_rank(const struct harness_emulation *e, uint32_t rank, ddp_status status,
                        struct reports *reports)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    for (size_t i = 0; i < count; i++) {
        if (harness_index_status(list[i]->entry.arg[0]) == status) {
            note(reports, list[i], (int64_t)list[i]->entry.arg[1]);
            note_detail(reports, status, list[i]->entry.arg[3]);
        }
    }
    if (end != NULL && harness_index_status(end->entry.arg[0]) == status) {
        note(reports, end, -1);
    }
}

/* The parameters that ranks named with the error. param.error: param, status. */
static void add_params(const struct harness_emulation *e, ddp_status status,
                       struct harness_finding *finding)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_PARAM_ERROR, &count);

        for (size_t i = 0; i < count; i++) {
            if (harness_index_status(list[i]->entry.arg[1]) == status &&
                list[i]->entry.arg[0] < e->params.count) {
                harness_finding_add_param(finding, (uint32_t)list[i]->entry.arg[0]);
            }
        }
    }
}

/* Whether the reference's model leaves the parameter without a gradient in a step: of a rank
 * that has data for it, since one whose data have ended makes no pass. With `pytorch` semantics it
 * is reported one pass late: if the step was not reached, or is not predicted since the one before
 * did not succeed, the one before is meant. */
static bool is_unused_by_model(const struct harness_emulation *e, uint32_t rank, int32_t step,
                               uint32_t param)
{
    const uint32_t count = e->end_step - e->start_step;
    uint32_t k = (uint32_t)step - e->start_step;

    if (k > 0 && k <= count &&
        (k == count || e->expected.predicted[k] == HARNESS_PREDICTED_NOTHING)) {
        k--;
    }
    return k < count && e->expected.predicted[k] >= HARNESS_PREDICTED_GRADIENT &&
           harness_emulation_is_active(e, rank, e->start_step + k) &&
           !e->expected.has_grad[((size_t)k * e->world + rank) * e->params.count + param];
}

/* DDP looks for parameters without a gradient, and none of them is a mistake. */
static bool are_unused_found(const struct harness_emulation *e)
{
    return e->input->plan->job.find_unused_parameters || e->input->plan->job.static_graph;
}

/* Every rank whose model left a reported parameter without a gradient is to blame, not only the
 * first one that reported it. If no parameter was reported (`pytorch` semantics), all that the
 * model left without one are meant. */
static void blame_unused(const struct harness_emulation *e, struct harness_finding *finding)
{
    bool is_any_reported = finding->params.count > 0;

    for (uint32_t r = 0; r < e->world; r++) {
        for (uint32_t p = 0; p < e->params.count; p++) {
            bool is_named = !is_any_reported;

            for (uint32_t i = 0; is_any_reported && i < finding->params.count; i++) {
                is_named = is_named || harness_list_at(&finding->params, i) == p;
            }
            if (is_named && is_unused_by_model(e, r, finding->step, p)) {
                harness_rank_set_add(&finding->culprits, r);
                harness_finding_add_param(finding, p);
            }
        }
    }
}

/* Under a static graph a parameter that was unused at first is ready too often: on every rank that
 * uses it now, not only on the one that was the first to say so. */
static void blame_changed(const struct harness_emulation *e, struct harness_finding *finding)
{
    const uint32_t k = (uint32_t)finding->step - e->start_step;

    if (!e->input->plan->job.static_graph || k >= e->end_step - e->start_step ||
        e->expected.predicted[k] < HARNESS_PREDICTED_GRADIENT) {
        return;
    }
    for (uint32_t r = 0; r < e->world; r++) {
        for (uint32_t i = 0; i < finding->params.count; i++) {
            const size_t p = harness_list_at(&finding->params, i);

            if (p < e->params.count && !e->graph[r * e->params.count + p] &&
                e->expected.has_grad[((size_t)k * e->world + r) * e->params.count + p]) {
                harness_rank_set_add(&finding->culprits, r);
            }
        }
    }
}

static void describe_unused(const struct harness_emulation *e, struct harness_finding *finding)
{
    uint32_t confirmed_count = 0;
    uint32_t reported_count = 0;
    size_t used = strlen(finding->text);

    for (uint32_t r = 0; r < e->world; r++) {
        for (uint32_t i = 0;
             harness_rank_set_has(&finding->culprits, r) && i < finding->params.count; i++) {
            reported_count++;
            confirmed_count +=
                is_unused_by_model(e, r, finding->step, harness_list_at(&finding->params, i));
        }
    }
    if (used < sizeof(finding->text)) {
        (void)snprintf(finding->text + used, sizeof(finding->text) - used,
                       "; the reference confirms %u of %u", confirmed_count, reported_count);
    }
}

/* A file that ends too early is torn, not corrupted. */
static ddp_status refine_damage(const struct harness_emulation *e, struct harness_finding *finding,
                                struct ddp_err *err)
{
    struct harness_checkpoint file;
    char path[4096];

    if (!harness_checkpoint_path(e->input->run_dir, path, sizeof(path))) {
        return DDP_OK;
    }
    DDP_TRY(harness_checkpoint_open(e->mem, harness_emulation_files(e->input), path, &file, err));
    if (file.is_found && file.damage == HARNESS_VERDICT_CHECKPOINT_TORN) {
        finding->verdict = HARNESS_VERDICT_CHECKPOINT_TORN;
    }
    harness_checkpoint_close(&file);
    return DDP_OK;
}

/* The first step of which one of the ranks, which took too few batches, left one out. */
static int32_t first_missing(const struct harness_emulation *e,
                             const struct harness_rank_set *ranks)
{
    const uint64_t micro_batches = e->input->job->micro_batches;
    const uint64_t first = e->input->restored_step * micro_batches;
    uint64_t missing = UINT64_MAX;

    for (uint32_t i = 0; i < harness_rank_set_count(ranks); i++) {
        uint64_t own =
            harness_taken_in_turn(&e->index, harness_rank_set_at(ranks, i), first, micro_batches);

        missing = own < missing ? own : missing;
    }
    return missing == UINT64_MAX ? -1 : (int32_t)(missing / micro_batches);
}

/* Of two ranks, one's data ended before the other's. To blame are those whose data had ended; but
 * who said so and had more, left batches out, and who goes on with more than it has, took some
 * again. */
static void refine_ended(const struct harness_emulation *e, struct harness_finding *finding)
{
    const uint64_t micro_batches = e->input->job->micro_batches;
    const uint64_t first = e->input->restored_step * micro_batches;
    struct harness_rank_set early = harness_rank_set_in(finding->culprits.ranks.mem);
    struct harness_rank_set late = harness_rank_set_in(finding->culprits.ranks.mem);
    bool is_more = false; /* some rank goes on with what it has */

    harness_rank_set_clear(&finding->culprits);
    for (uint32_t r = 0; r < e->world; r++) {
        const uint64_t due = harness_emulation_due(e, r);
        const bool is_ended = harness_taken_ended(&e->index, r) != NULL;
        size_t count = 0;

        (void)harness_index_list(&e->index, r, DDP_EVENT_DATA_BATCH, &count);
        is_more = is_more || (!is_ended && first + count <= due);
        harness_rank_set_add(is_ended ? first + count < due ? &early : &finding->culprits : &late,
                             r);
    }
    if (harness_rank_set_is_empty(&finding->culprits)) {
        finding->verdict = HARNESS_VERDICT_DATA_MISSING;
        finding->culprits = early;
        finding->step = first_missing(e, &early);
    } else if (!is_more) {
        finding->verdict = HARNESS_VERDICT_DATA_DUPLICATED;
        finding->culprits = late;
    }
}

/* A restore run that finds no file: the run before wrote none. Before it has met the others, a rank
 * looks for other things. */
static bool is_without_checkpoint(const struct harness_emulation *e, ddp_status status)
{
    bool is_found = false;

    for (uint32_t r = 0;
         status == DDP_E_NOT_FOUND && harness_emulation_is_restore(e) && r < e->world && !is_found;
         r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_RANK_ERROR, &count);

        for (size_t i = 0; i < count; i++) {
            is_found = is_found || (harness_index_status(list[i]->entry.arg[0]) == status &&
                                    list[i]->entry.phase > DDP_PHASE_RENDEZVOUS);
        }
    }
    return is_found;
}

static bool is_checkpoint_status(const struct harness_emulation *e, ddp_status status)
{
    return is_without_checkpoint(e, status) || status == DDP_E_PREFIX || status == DDP_E_KEYS ||
           status == DDP_E_SHAPE || status == DDP_E_CORRUPT;
}

/* Verdicts of a status that says that something failed, but not why. */
static bool is_failure(enum harness_verdict verdict)
{
    return verdict == HARNESS_VERDICT_CRASH_EXITED || verdict == HARNESS_VERDICT_CRASH_DEVICE ||
           verdict == HARNESS_VERDICT_RESOURCE_HOST_MEMORY ||
           verdict == HARNESS_VERDICT_RESOURCE_DEVICE_MEMORY ||
           verdict == HARNESS_VERDICT_RESOURCE_DISK || verdict == HARNESS_VERDICT_RESOURCE_FD;
}

/* Step and phase in which the first of the blamed ranks failed. */
static void place_failure(const struct harness_emulation *e, ddp_status status,
                          struct harness_finding *finding)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_RANK_ERROR, &count);

        for (size_t i = 0; harness_rank_set_has(&finding->culprits, r) && i < count; i++) {
            if (harness_index_status(list[i]->entry.arg[0]) == status) {
                finding->step = (int32_t)list[i]->entry.step;
                finding->phase = list[i]->entry.phase;
                return;
            }
        }
    }
}

/* What a rank's own failure was in: a call, or the rendezvous, where it has verdicts of its own. */
static void settle_failure(const struct harness_emulation *e, ddp_status status,
                           struct harness_finding *finding)
{
    place_failure(e, status, finding);
    if (finding->verdict == HARNESS_VERDICT_CRASH_EXITED &&
        finding->phase == (int32_t)DDP_PHASE_RENDEZVOUS) {
        finding->verdict = status == DDP_E_NOT_FOUND || status == DDP_E_PARSE
                               ? HARNESS_VERDICT_LAUNCH_ENVIRONMENT
                               : HARNESS_VERDICT_LAUNCH_CONNECT;
    }
    harness_subject_set_op(e, harness_subject_open_seq(e, &finding->culprits), finding);
}

static ddp_status add(const struct harness_emulation *e, size_t rule, const struct reports *reports,
                      struct harness_findings *out, struct ddp_err *err)
{
    ddp_status status = rules[rule].status;
    const char *what = rules[rule].what;
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, rules[rule].verdict, HARNESS_ORACLE_USAGE,
                         HARNESS_MODE_STATUS);
    finding.status = status;
    finding.step = reports->step;
    finding.culprits =
        harness_rank_set_is_empty(&reports->raised) ? reports->reported : reports->raised;
    if (status == DDP_E_EARLY_TERMINATION) {
        refine_ended(e, &finding);
    }
    if (status == DDP_E_MISMATCH || status == DDP_E_TIMEOUT || status == DDP_E_MEMBER ||
        is_checkpoint_status(e, status)) {
        /* Who noticed it did not cause it; a bad file is not blamed on a rank. */
        harness_rank_set_clear(&finding.culprits);
    }
    if (is_checkpoint_status(e, status)) {
        finding.step = -1;
    }
    if (is_without_checkpoint(e, status)) {
        finding.verdict = HARNESS_VERDICT_CHECKPOINT_TORN;
        what = "there is no checkpoint to restore";
    }
    if (status == DDP_E_UNUSED_PARAMETER && are_unused_found(e)) {
        what = "parameters were neither ready nor found to be unused";
    }
    if (is_failure(finding.verdict)) {
        settle_failure(e, status, &finding);
    } else {
        harness_subject_set_op(e, reports->seq, &finding);
    }
    if (status == DDP_E_UNUSED_PARAMETER || status == DDP_E_READY_TWICE) {
        add_params(e, status, &finding);
    }
    (void)snprintf(finding.text, sizeof(finding.text), "%s reported %s: %s",
                   harness_subject_ranks_text(&reports->reported, ranks, sizeof(ranks)),
                   ddp_status_name(status), what);
    if (status == DDP_E_MESSAGE) {
        harness_usage_blame_ends(e, &finding);
    }
    if (status == DDP_E_MISMATCH) {
        harness_usage_blame_displaced(e, &finding);
    }
    if (status == DDP_E_TIMEOUT) {
        finding.victims = reports->reported;
        harness_usage_blame_awaited(e, reports->time_ns, &finding);
    }
    if (status == DDP_E_UNUSED_PARAMETER && !are_unused_found(e)) {
        blame_unused(e, &finding);
        describe_unused(e, &finding);
    }
    if (status == DDP_E_READY_TWICE) {
        blame_changed(e, &finding);
    }
    if (status == DDP_E_CORRUPT) {
        DDP_TRY(refine_damage(e, &finding, err));
    }
    harness_findings_add(out, &finding);
    return DDP_OK;
}

/* A number that is no status, or none to end with: the core went by what nobody had set. */
static void check_unnamed(const struct harness_emulation *e, struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_CRASH_EXITED, HARNESS_ORACLE_USAGE,
                         HARNESS_MODE_STATUS);
    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *end = harness_index_end(&e->index, r);
        const ddp_status status = end == NULL ? DDP_OK : harness_index_status(end->entry.arg[0]);
        ddp_status same;

        if (status == DDP_PENDING || ddp_status_parse(ddp_status_name(status), &same) != DDP_OK) {
            harness_rank_set_add(&finding.culprits, r);
            finding.status = status;
        }
    }
    if (harness_rank_set_is_empty(&finding.culprits)) {
        return;
    }
    place_failure(e, finding.status, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "%s ended with status %d (%s), with which nothing can end",
                   harness_subject_ranks_text(&finding.culprits, ranks, sizeof(ranks)),
                   (int)finding.status, ddp_status_name(finding.status));
    harness_findings_add(out, &finding);
}

ddp_status harness_check_usage(const struct harness_emulation *e, struct harness_findings *out,
                               struct ddp_err *err)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct reports reports = {.raised = harness_rank_set_in(out->mem),
                                  .reported = harness_rank_set_in(out->mem),
                                  .step = -1};

        for (uint32_t r = 0; r < e->world; r++) {
            gather_rank(e, r, rules[i].status, &reports);
        }
        if (reports.is_any) {
            DDP_TRY(add(e, i, &reports, out, err));
        }
    }
    check_unnamed(e, out);
    harness_usage_check_victims(e, out);
    return DDP_OK;
}
