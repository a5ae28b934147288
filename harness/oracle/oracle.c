/* Purpose: run the oracles in the order of harness/verdict/oracle.def.
 * Idea: the emulation runs once; every oracle reads it and the trace. */
#include "harness/emulation/checkpoint_state.h"
#include "harness/oracle/subject.h"

/* harness_check_<name> of every oracle, in the order of oracle.def. */
static ddp_status (*const checks[])(const struct harness_emulation *emulation,
                                    struct harness_findings *out, struct ddp_err *err) = {
#define ORACLE(name) harness_check_##name,
#define SOURCE(name)
#define X(kind, id, name, stage, proves) kind(name)
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

ddp_status harness_oracle_check_all(const struct harness_emulation_input *input,
                                    struct harness_findings *out, struct ddp_err *err)
{
    struct harness_emulation *emulation = NULL;
    ddp_status status = harness_emulation_create(input, &emulation, err);

    if (status != DDP_OK) {
        return status;
    }
    status = emulate(emulation, err);
    for (size_t i = 0; status == DDP_OK && i < sizeof(checks) / sizeof(checks[0]); i++) {
        status = checks[i](emulation, out, err);
    }
    harness_emulation_destroy(emulation);
    return status == DDP_OK && out->is_failed ? DDP_E_NOMEM : status;
}

bool harness_oracle_first_difference(const struct harness_findings *findings, uint32_t *out_step,
                                     uint32_t *out_bucket)
{
    bool is_found = false;

    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_finding *finding = &findings->items[i];

        if ((finding->oracle != HARNESS_ORACLE_GRADIENT &&
             finding->oracle != HARNESS_ORACLE_REDUCTION) ||
            finding->step < 0 || !finding->op.is_set || finding->op.bucket < 0) {
            continue;
        }
        if (!is_found || (uint32_t)finding->step < *out_step) {
            *out_step = (uint32_t)finding->step;
            *out_bucket = (uint32_t)finding->op.bucket;
            is_found = true;
        }
    }
    return is_found;
}
