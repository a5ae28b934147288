/* Where a run's checkpoint lies and what its keys are; shared by the oracles that read it. */
#ifndef HARNESS_EMULATION_CHECKPOINT_KEYS_H
#define HARNESS_EMULATION_CHECKPOINT_KEYS_H

#include "harness/emulation/checkpoint_file.h"
#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* run_dir/checkpoint.safetensors; false if there is no run folder. */
bool harness_checkpoint_path(const struct harness_emulation_input *input, char *path,
                             size_t size_bytes);
/* Steps done at the last save that this trace records, and the ranks that ever saved. */
bool harness_checkpoint_last_save(const struct harness_emulation *emulation,
                                  uint32_t *out_steps_done, struct harness_rank_set *out_writers);
/* A key without any leading "module.". */
const char *harness_checkpoint_bare(const char *key);
/* The state that a checkpoint of another world size holds, for a run that starts from it; names may
 * have been edited. *out_is_loaded false: the file does not hold it. */
DDP_MUST_USE ddp_status harness_checkpoint_load_state(struct harness_emulation *emulation,
                                                      bool *out_is_loaded, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
