/* Purpose: the table of oracles and the order in which they judge.
 * Idea: the emulation runs once; every oracle reads it and the trace. */
#include <string.h>

#include "harness/emulation/checkpoint_keys.h"
#include "harness/oracle/report.h"

static const struct harness_oracle oracles[] = {
    {"program", "every rank posted the planned collectives in order", harness_check_program},
    {"ledger", "every rank trained on the samples that the sampler's rules give it",
     harness_check_ledger},
    {"gradient", "local gradients are the reference's, bit for bit", harness_check_gradient},
    {"schedule", "each dumped schedule combines every contribution exactly once, without deadlock",
     harness_check_schedule},
    {"tree", "measured orders of sums are orders, the same on all members and after the last step",
     harness_check_tree},
    {"reduction",
     "reduced buckets are the scheduled or measured sums of scaled gradients, bit for bit",
     harness_check_reduction},
    {"update", "parameters and optimizer state are those of an own optimizer, bit for bit",
     harness_check_update},
    {"replicas", "all ranks hold the same parameters and buffers", harness_check_replicas},
    {"broadcast", "every member has the root's tensors, and the root is the right one",
     harness_check_broadcast},
    {"global_batch", "averaged gradients lie within a derived bound of the global batch's",
     harness_check_global_batch},
    {"liveness", "every rank ended for a known reason and completed what it posted",
     harness_check_liveness},
    {"usage", "what ranks reported themselves: misuse, mismatch, refused checkpoints",
     harness_check_usage},
    {"checkpoint", "the checkpoint holds the right keys and values, read byte by byte",
     harness_check_checkpoint},
    {"restore", "a run from a checkpoint goes on as the uninterrupted one", harness_check_restore},
    {"happens_before",
     "device work uses memory in an order that streams and events prove, whatever the timing",
     harness_check_happens_before},
    {"evidence", "what was found right was recorded in full", harness_check_evidence},
};

const struct harness_oracle *harness_oracle_table(size_t *out_count)
{
    *out_count = sizeof(oracles) / sizeof(oracles[0]);
    return oracles;
}

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

/* The checkpoint says which state it claims to be; keep that one while emulating. */
static ddp_status want_checkpoint(struct harness_emulation *e, struct ddp_err *err)
{
    struct harness_checkpoint file;
    struct harness_rank_set writers;
    uint32_t saved = 0;
    char path[4096];
    ddp_status status = DDP_OK;

    if (!harness_checkpoint_last_save(e, &saved, &writers) ||
        !harness_checkpoint_path(e->input, path, sizeof(path))) {
        return DDP_OK;
    }
    DDP_TRY(harness_checkpoint_open(e->mem, path, &file, err));
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
    for (size_t i = 0; status == DDP_OK && i < sizeof(oracles) / sizeof(oracles[0]); i++) {
        status = oracles[i].check(emulation, out, err);
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

        if ((strcmp(finding->oracle, "gradient") != 0 &&
             strcmp(finding->oracle, "reduction") != 0) ||
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
