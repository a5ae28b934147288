/* Purpose: run the oracles in the order of harness/verdict/oracle.def.
 * Idea: the emulation runs once; every oracle reads it and the trace. */
#include <stdio.h>

#include "harness/emulation/checkpoint_state.h"
#include "harness/evidence/evidence.h"
#include "harness/oracle/subject.h"

/* What the other oracles rely on was recorded in full: they compare only what is there. */
ddp_status harness_check_evidence(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    bool is_clean = out->count == 0 && e->input->trace->diagnoses.count == 0;
    struct harness_gap gap;
    ddp_status status = harness_evidence_check(e, is_clean, &gap);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "the evidence cannot be checked: %s",
                           ddp_status_text(status));
    }
    if (gap.is_set && !out->is_evidence_lost) {
        out->is_evidence_lost = true;
        (void)snprintf(out->lost_text, sizeof(out->lost_text), "%s", gap.text);
    }
    return DDP_OK;
}

/* harness_check_<name> of every oracle, in the order of oracle.def. */
static ddp_status (*const checks[])(const struct harness_emulation *emulation,
                                    struct harness_findings *out, struct ddp_err *err) = {
#define ORACLE(name) harness_check_##name,
#define SOURCE(name)
#define X(kind, id, name, gives, proves) kind(name)
#include "harness/verdict/oracle.def"
#undef X
#undef SOURCE
#undef ORACLE
};

/* Whether the restored run's past can be emulated with this run's world; if not, start from the
 * checkpoint. *out_is_known false: neither works. */
static ddp_status choose_start(struct harness_emulation *e, bool *out_is_known, struct ddp_err *err)
{
    const struct harness_trace *first = e->input->first_trace;

    *out_is_known = true;
    if (e->input->start != NULL) {
        *out_is_known = e->input->start->is_taken;
        if (*out_is_known) {
            harness_emulation_take_over(e, e->input->start);
        }
        return DDP_OK;
    }
    if (e->input->restored_step == 0 || first == NULL || first->world_size == e->world) {
        return DDP_OK;
    }
    return harness_checkpoint_load_state(e, out_is_known, err);
}

/* Keep the emulated state after as many steps as the checkpoint names. */
static ddp_status want_checkpoint(struct harness_emulation *e, struct ddp_err *err)
{
    struct harness_checkpoint file;
    struct harness_rank_set writers;
    uint32_t saved = 0;
    char path[4096];
    ddp_status status = DDP_OK;

    if (!harness_checkpoint_last_save(e, &saved, &writers) ||
        !harness_checkpoint_path(e->input->run_dir, path, sizeof(path))) {
        return DDP_OK;
    }
    DDP_TRY(harness_checkpoint_open(e->mem, harness_emulation_files(e->input), path, &file, err));
    if (file.is_found && file.steps_done >= 0) {
        status = harness_emulation_want(e, (uint32_t)file.steps_done);
    }
    harness_checkpoint_close(&file);
    return status;
}

static ddp_status emulate(struct harness_emulation *e, struct ddp_err *err)
{
    bool is_known = true;

    DDP_TRY(choose_start(e, &is_known, err));
    DDP_TRY(want_checkpoint(e, err));
    return is_known ? harness_emulation_run(e, err) : DDP_OK;
}

/* Device work without an order: the values that it leads to need not be the same again. */
static bool is_raced(const struct harness_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (findings->items[i].verdict == HARNESS_VERDICT_USAGE_UNORDERED) {
            return true;
        }
    }
    return false;
}

/* Strict ends a run in the step in which a rank left the program. How far its ranks get in that
 * step differs from a run to its replay, and nothing follows. */
static bool is_ended_by_mismatch(const struct harness_emulation *e,
                                 const struct harness_findings *out)
{
    for (size_t i = 0; e->input->plan->job.semantics == HARNESS_SEMANTICS_STRICT && i < out->count;
         i++) {
        int64_t step = out->items[i].step < 0 ? 0 : out->items[i].step;

        if (out->items[i].oracle == HARNESS_ORACLE_PROGRAM && e->unknown_from >= 0 &&
            step == e->unknown_from) {
            return true;
        }
    }
    return false;
}

/* What could not be judged for lack of a recorded tensor, or was not for there is too much. */
static void report_unjudged(const struct harness_emulation *e, struct harness_findings *out)
{
    if (out->is_evidence_lost || harness_emulation_is_restore(e) ||
        (e->unknown_from < 0 && !e->compare.is_cut_off) || is_raced(out) ||
        is_ended_by_mismatch(e, out)) {
        return;
    }
    out->is_evidence_lost = true;
    (void)snprintf(out->lost_text, sizeof(out->lost_text),
                   e->unknown_from < 0
                       ? "more than %zu differences: the rest was not judged"
                       : "a tensor that differs was not found again by a replay, so not all that "
                         "follows from it was judged (%zu differences)",
                   e->compare.count);
}

/* Diagnoses that the record contradicts blame nobody. */
static void leave_out_refuted(const struct harness_emulation *e, struct harness_findings *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->count; i++) {
        struct harness_finding *finding = &out->items[i];

        if (!harness_evidence_is_refuted(e, finding)) {
            out->items[kept++] = *finding;
            continue;
        }
        if (!out->is_evidence_lost) {
            out->is_evidence_lost = true;
            (void)snprintf(
                out->lost_text, sizeof(out->lost_text),
                "a diagnosis names collective %llu of a rank that recorded no other one there",
                (unsigned long long)finding->op.seq);
        }
        harness_finding_free(finding);
    }
    out->count = kept;
}

ddp_status harness_oracle_check_all(const struct harness_emulation_input *input,
                                    struct harness_findings *out, struct harness_hashes *out_wanted,
                                    struct ddp_err *err)
{
    struct harness_emulation *emulation = NULL;
    ddp_status status = harness_emulation_create(input, &emulation, err);

    if (status != DDP_OK) {
        return status;
    }
    leave_out_refuted(emulation, out);
    status = emulate(emulation, err);
    for (size_t i = 0; status == DDP_OK && i < sizeof(checks) / sizeof(checks[0]); i++) {
        status = checks[i](emulation, out, err);
    }
    report_unjudged(emulation, out);
    for (size_t i = 0; out_wanted != NULL && i < emulation->wanted.count; i++) {
        harness_hashes_add(out_wanted, emulation->wanted.items[i]);
    }
    harness_emulation_destroy(emulation);
    return status == DDP_OK && out->is_failed ? DDP_E_NOMEM : status;
}
