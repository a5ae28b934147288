/* What the emulation takes from a run's checkpoint. */
#ifndef HARNESS_EMULATION_CHECKPOINT_STATE_H
#define HARNESS_EMULATION_CHECKPOINT_STATE_H

#include "harness/emulation/emulation.h"
#include "harness/tensor/checkpoint_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Steps done at the last save that this trace records, and the ranks that ever saved. */
bool harness_checkpoint_last_save(const struct harness_emulation *emulation,
                                  uint32_t *out_steps_done, struct harness_rank_set *out_writers);
/* The checkpoint that a restore run loads, as it was given to it: its own saves take the other
 * one's place. False: there is no run folder, or the path does not fit. */
bool harness_checkpoint_given_path(const struct harness_emulation *emulation, char *path,
                                   size_t size_bytes);
/* Start the emulation from the state in the run's checkpoint, which another world size may have
 * written; keys may have gained or lost a prefix. *out_is_loaded false: the file does not hold it.
 */
DDP_MUST_USE ddp_status harness_checkpoint_load_state(struct harness_emulation *emulation,
                                                      bool *out_is_loaded, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
