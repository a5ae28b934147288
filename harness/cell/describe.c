/* Say more of what differs: the run is repeated for its tensors, and judged again with them. */
#include <string.h>

#include "harness/cell/stage.h"

/* More are not needed but for faults that a repetition does not repeat. */
enum { HARNESS_STAGE_REPLAYS_MAX = 5 };

/* Judge again with the tensors that lie in replay/payload. *out_is_more: some that are wanted now
 * were not asked for before. */
static ddp_status check_again(struct harness_cell *cell, const struct harness_cell *first,
                              struct harness_hashes *asked, bool *out_is_more, struct ddp_err *err)
{
    const char *folder = harness_stage_path(cell->mem, cell->run_dir, "replay/payload");

    harness_kept_destroy(cell->kept);
    DDP_TRY(harness_kept_load(cell->mem, harness_stage_files(&cell->config), folder, asked,
                              &cell->kept, err));
    cell->wanted = (struct harness_hashes){.mem = cell->mem};
    DDP_TRY(harness_stage_check(cell, first, err));
    *out_is_more = false;
    for (size_t i = 0; i < cell->wanted.count; i++) {
        *out_is_more = *out_is_more || !harness_hashes_has(asked, cell->wanted.items[i]);
    }
    return DDP_OK;
}

/* The checkpoint that a restore run was given, once more into run_dir. */
static ddp_status give_again(struct harness_cell *second, const char *run_dir, struct ddp_err *err)
{
    struct ddp_files *files = harness_stage_files(&second->config);
    void *data = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    DDP_TRY(harness_stage_make_dirs(&second->config, run_dir, err));
    status = files->ops->read_all(
        files, harness_stage_path(second->mem, second->run_dir, "given.safetensors"), second->mem,
        &data, &size_bytes, err);
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK; /* there was none for the first time, either */
    }
    DDP_TRY(status);
    status = ddp_files_write_atomic(
        files, harness_stage_path(second->mem, run_dir, "checkpoint.safetensors"), data, size_bytes,
        err);
    ddp_mem_free(second->mem, data);
    return status;
}

/* A restored run is repeated from the checkpoint that it was given. */
static ddp_status replay(struct harness_cell *cell, const struct harness_cell *first,
                         const struct harness_hashes *wanted, struct ddp_err *err)
{
    struct harness_rank_options rank = {.is_hashing = true,
                                        .is_restoring = first != NULL,
                                        .wanted = wanted->items,
                                        .wanted_count = wanted->count};
    struct harness_cell again = *cell;
    ddp_status status;

    memset(&again.trace, 0, sizeof again.trace);
    again.run_dir = harness_stage_path(cell->mem, cell->run_dir, "replay");
    if (first != NULL) {
        DDP_TRY(give_again(cell, again.run_dir, err));
    }
    status = harness_stage_launch(&again, &rank, err);
    if (again.unwritten[0] != '\0') {
        memcpy(cell->unwritten, again.unwritten, sizeof cell->unwritten);
    }
    harness_trace_fini(&again.trace);
    return status;
}

/* Each round finds out what is wanted next: a round for the first difference, whose replay also
 * gives the models of all later steps; one for all later differences; and one for what only these
 * led to. Real processes need not meet again what they met, or come as far: what is still missing
 * then is looked for again. */
static ddp_status describe(struct harness_cell *cell, const struct harness_cell *first,
                           bool is_replaying, struct ddp_err *err)
{
    struct harness_hashes asked = {.mem = cell->mem};
    const bool is_by_chance = is_replaying && cell->config.driver == HARNESS_DRIVER_PROC;
    bool is_more = cell->wanted.count > 0;

    for (int round = 0; is_more && round < HARNESS_STAGE_REPLAYS_MAX; round++) {
        for (size_t i = 0; i < cell->wanted.count; i++) {
            harness_hashes_add(&asked, cell->wanted.items[i]);
        }
        harness_hashes_sort(&asked);
        if (asked.is_failed) {
            return DDP_E_NOMEM;
        }
        if (is_replaying) {
            DDP_TRY(replay(cell, first, &asked, err));
        }
        DDP_TRY(check_again(cell, first, &asked, &is_more, err));
        is_more = is_more || (is_by_chance && cell->findings.is_evidence_lost);
    }
    return DDP_OK;
}

ddp_status harness_stage_describe(struct harness_cell *cell, const struct harness_cell *first,
                                  struct ddp_err *err)
{
    return describe(cell, first, true, err);
}

ddp_status harness_stage_describe_recorded(struct harness_cell *cell,
                                           const struct harness_cell *first, struct ddp_err *err)
{
    return describe(cell, first, false, err);
}
