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
        DDP_TRY(harness_stage_give_again(cell, again.run_dir, err));
    }
    status = harness_stage_launch(&again, &rank, err);
    harness_trace_fini(&again.trace);
    return status;
}

/* Each round finds out what is wanted next: a round for the first difference, whose replay also
 * gives the models of all later steps; one for all later differences; and one for what only these
 * led to. */
static ddp_status describe(struct harness_cell *cell, const struct harness_cell *first,
                           bool is_replaying, struct ddp_err *err)
{
    struct harness_hashes asked = {.mem = cell->mem};
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
