/* What a model's communication hook keeps, in a trainer's state file: "hook.<name>", and of what
 * differs from rank to rank a row for each member of the model's group. Internal to ddpcore/world.
 */
#ifndef DDPCORE_WORLD_STATE_HOOK_H
#define DDPCORE_WORLD_STATE_HOOK_H

#include "ddpcore/base/text.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "ddpcore/world/state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Tensors that a file has of it, and their size. */
size_t ddp_world_hook_count(struct ddp *ddp);
size_t ddp_world_hook_bytes(struct ddp *ddp);
/* All members call. block: ddp_world_hook_bytes, which dict borrows; NULL: this rank writes no
 * file. An error of who writes keeps no other waiting. */
DDP_MUST_USE ddp_status ddp_world_hook_fill(struct ddp_world *world, struct ddp *ddp, char *block,
                                            struct ddp_state_dict *dict);
/* "hook.<name>" of tensor `index`. out: initialised, also after an error. */
DDP_MUST_USE ddp_status ddp_world_hook_name(struct ddp *ddp, size_t index, struct ddp_mem *mem,
                                            struct ddp_text *out);
/* Compares all tensors with the file's, whose names the caller has compared; err says what is
 * wrong. Errors: E_SHAPE. */
DDP_MUST_USE ddp_status ddp_world_hook_check(struct ddp *ddp, const struct ddp_state_dict *dict,
                                             struct ddp_err *err);
/* Fills the hook's tensors from the file, with this rank's own rows; after the check. */
DDP_MUST_USE ddp_status ddp_world_hook_take(struct ddp_world *world, struct ddp *ddp,
                                            const struct ddp_state_dict *dict);

#ifdef __cplusplus
}
#endif
#endif
