/* A trainer's state in a file: tensors of a device and how many steps are done. Rank 0 writes, or,
 * with a wrapped model, the first member of its group; all read. safetensors; the keys may carry
 * the "module." prefix of a wrapped model. */
#ifndef DDPCORE_WORLD_STATE_H
#define DDPCORE_WORLD_STATE_H

#include "ddpcore/base/param.h"
#include "ddpcore/ddp/ddp.h"
#include "ddpcore/ddp/sampler.h"
#include "ddpcore/world/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The model's parameters, and whatever else the next step depends on (momentum): of each, name,
 * type, shape and data. */
struct ddp_world_state {
    const struct ddp_param *tensors;
    size_t tensor_count;
    uint64_t steps_done;
    struct ddp_sampler_state samples; /* ddp_loader_state; zeros: the first epoch from its head */
    /* The wrapped model, whose communication hook's state (hook.h) goes along as "hook.<name>", of
     * each member of its group what is its own; NULL: without. */
    struct ddp *ddp;
};

/* Atomically, as ddp_safetensors_save. Others than the one who writes return OK at once: that the
 * file is there they know after the next collective. With ddp all members of its group call,
 * between steps: a hook may keep something of each one's own, which is gathered. Errors: those of
 * ddp_safetensors_save and of copies from the device. */
DDP_MUST_USE ddp_status ddp_world_save(struct ddp_world *world, const char *path,
                                       const struct ddp_world_state *state, struct ddp_err *err);
/* Fills the tensors, steps_done and samples; nothing is written unless all of the file fits.
 * Errors: E_NOT_FOUND (no such file), E_KEYS, E_PREFIX, E_SHAPE, E_CORRUPT, in words, and those of
 * copies.
 */
DDP_MUST_USE ddp_status ddp_world_load(struct ddp_world *world, const char *path,
                                       struct ddp_world_state *state, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
