/* Purpose: a run from a checkpoint goes on as the uninterrupted one would have.
 * Idea: the emulation starts from step 0 whatever the run did, so a difference in the first step
 * after the restart is state that was not restored. A rank that loaded nothing says so by its first
 * step. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/checkpoint_state.h"
#include "harness/oracle/subject.h"

/* Ranks that trained from the start: they loaded nothing. */
static void find_unloaded(const struct harness_emulation *e, struct harness_rank_set *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_DATA_BATCH, &count);

        if (count > 0 && list[0]->entry.step < e->input->restored_step) {
            harness_rank_set_add(out, r);
        }
    }
}

/* They add gradients of other samples than the others at other parameters, so all else follows. */
static bool report_unloaded(const struct harness_emulation *e, struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_CHECKPOINT_STATE,
                         HARNESS_ORACLE_RESTORE, HARNESS_MODE_PROVABLE);
    find_unloaded(e, &finding.culprits);
    if (harness_rank_set_is_empty(&finding.culprits)) {
        return false;
    }
    (void)snprintf(finding.text, sizeof(finding.text),
                   "%s began with step 0: the checkpoint of %u steps was not loaded there",
                   harness_subject_ranks_text(&finding.culprits, ranks, sizeof(ranks)),
                   e->input->restored_step);
    harness_findings_add(out, &finding);
    return true;
}

static void find_loaded(const struct harness_emulation *e, struct harness_rank_set *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_CHECKPOINT_LOADED, &count);

        if (count > 0 && list[0]->entry.arg[3] == (uint64_t)(uint32_t)DDP_OK) {
            harness_rank_set_add(out, r);
        }
    }
}

static const char *bare(const char *name)
{
    while (strncmp(name, "module.", 7) == 0) {
        name += 7;
    }
    return name;
}

/* Another parameter has the same name but for wrappers: which tensor is whose is not told here. */
static bool is_twin(const struct harness_emulation *e, size_t param)
{
    bool is_other = false;

    for (size_t p = 0; p < e->params.count; p++) {
        is_other = is_other || (p != param && strcmp(bare(e->input->params[p].name),
                                                     bare(e->input->params[param].name)) == 0);
    }
    return is_other;
}

/* A tensor that is none of the model's by its shape: as many elements, in other rows. */
static void check_shape(struct harness_checkpoint *file, const char *key,
                        const struct ddp_param *param)
{
    const struct harness_checkpoint_tensor *tensor = harness_checkpoint_find_bare(file, key);
    bool is_same = tensor == NULL || tensor->ndim == param->ndim;

    for (uint32_t k = 0; tensor != NULL && is_same && k < param->ndim; k++) {
        is_same = tensor->shape[k] == param->shape[k];
    }
    if (!is_same && file->damage == HARNESS_VERDICT_NONE) {
        file->damage = HARNESS_VERDICT_CHECKPOINT_DTYPE;
        (void)snprintf(file->text, sizeof(file->text), "%.200s has another shape there", key);
    }
}

static void check_shapes(const struct harness_emulation *e, struct harness_checkpoint *file)
{
    for (size_t p = 0; p < e->params.count; p++) {
        const struct ddp_param *param = &e->input->params[p];
        char key[512];

        if (is_twin(e, p)) {
            continue;
        }
        check_shape(file, param->name, param);
        for (uint32_t s = 0; s < e->slot_count; s++) {
            (void)snprintf(key, sizeof(key), "optim.%s.%s", e->slot_name[s], param->name);
            check_shape(file, key, param);
        }
    }
}

/* Ranks took a file that the judge's own reader finds damaged: whatever they did with it follows.
 */
static ddp_status report_damage(const struct harness_emulation *e, bool *out_is_reported,
                                struct harness_findings *out, struct ddp_err *err)
{
    struct harness_checkpoint file;
    struct harness_finding finding;
    char ranks[96];
    char path[4096];

    *out_is_reported = false;
    if (!harness_checkpoint_given_path(e, path, sizeof(path))) {
        return DDP_OK;
    }
    DDP_TRY(harness_checkpoint_open(e->mem, harness_emulation_files(e->input), path, &file, err));
    if (file.is_found) {
        check_shapes(e, &file);
    }
    harness_finding_init(&finding, out->mem, file.damage, HARNESS_ORACLE_RESTORE,
                         HARNESS_MODE_PROVABLE);
    find_loaded(e, &finding.culprits);
    if (file.is_found && file.damage != HARNESS_VERDICT_NONE &&
        !harness_rank_set_is_empty(&finding.culprits)) {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "%s loaded a damaged checkpoint as if it were whole: %s",
                       harness_subject_ranks_text(&finding.culprits, ranks, sizeof(ranks)),
                       file.text);
        harness_findings_add(out, &finding);
        *out_is_reported = true;
    }
    harness_checkpoint_close(&file);
    return DDP_OK;
}

/* What a checkpoint holds shows in the first step's gradients, buffers and updates, on all ranks.
 * Into its sums goes nothing of it but what a hook keeps, into later steps but a loss's scale: what
 * is wrong there went wrong there. */
static bool is_of_state(const struct harness_emulation *e,
                        const struct harness_difference *difference)
{
    const struct harness_job *job = &e->input->plan->job;

    return job->hook == HARNESS_HOOK_POWERSGD || job->hook == HARNESS_HOOK_LOCAL_SGD ||
           job->optimizer.loss_scale > 0 ||
           (difference->step == e->input->restored_step &&
            harness_rank_set_count(&difference->ranks) == e->world &&
            difference->stage != HARNESS_STAGE_INPUT && difference->stage != HARNESS_STAGE_OUTPUT &&
            difference->stage != HARNESS_STAGE_FINAL);
}

/* Of a value: the oracle whose stage it is, and its verdict. */
static void begin(const struct harness_emulation *e, const struct harness_difference *difference,
                  struct ddp_mem *mem, struct harness_finding *out)
{
    enum harness_verdict verdict = harness_subject_verdict(difference);
    enum harness_oracle_id oracle = HARNESS_ORACLE_REDUCTION;

    if (is_of_state(e, difference)) {
        verdict = HARNESS_VERDICT_CHECKPOINT_STATE;
        oracle = HARNESS_ORACLE_RESTORE;
    } else if (difference->stage == HARNESS_STAGE_UPDATE) {
        verdict = harness_rank_set_count(&difference->ranks) < e->world
                      ? HARNESS_VERDICT_VALUE_DIVERGED
                      : verdict;
        oracle = HARNESS_ORACLE_UPDATE;
    } else if (difference->stage == HARNESS_STAGE_GRADIENT ||
               difference->stage == HARNESS_STAGE_STATISTIC) {
        oracle = HARNESS_ORACLE_GRADIENT;
    }
    harness_finding_init(out, mem, verdict, oracle, HARNESS_MODE_BITWISE);
    if (oracle != HARNESS_ORACLE_RESTORE) {
        out->stage = (int32_t)difference->stage;
    }
}

ddp_status harness_check_restore(const struct harness_emulation *e, struct harness_findings *out,
                                 struct ddp_err *err)
{
    const struct harness_difference *difference = e->compare.items;
    struct harness_finding finding;
    char ranks[96];
    bool is_damaged = false;

    if (harness_emulation_is_restore(e)) {
        DDP_TRY(report_damage(e, &is_damaged, out, err));
    }
    /* Differences are in the order of steps and stages: the first one tells what was not restored,
     * or went wrong. */
    if (!harness_emulation_is_restore(e) || is_damaged || report_unloaded(e, out) ||
        e->compare.count == 0) {
        return DDP_OK;
    }
    begin(e, difference, out->mem, &finding);
    harness_subject_set_difference(e, difference, &finding);
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "after the restart from %u steps, %s%s of step %u differs from the "
        "uninterrupted run on %s",
        e->input->restored_step, difference->first.slot >= 0 ? "the optimizer state of " : "",
        finding.params.count > 0
            ? harness_subject_param_name(e, (int32_t)harness_list_at(&finding.params, 0))
            : "the loss",
        difference->step, harness_subject_ranks_text(&difference->ranks, ranks, sizeof(ranks)));
    harness_findings_add(out, &finding);
    return DDP_OK;
}
