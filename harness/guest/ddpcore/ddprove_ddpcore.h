/* Shows a trainer that is built on ddpcore to `ddprove exec`: what the DDP core posts, waits for
 * and gets, its buckets, and what the optimizer makes of the model. Faults of scenarios reach the
 * core's collectives by the same way. Without `ddprove exec` around the trainer, a collective costs
 * a few nanoseconds more.
 *
 *   config.decorate = ddprove_core_watch;      of struct ddp_world_config, before ddp_world_open
 *   ddprove_core_model(ddp, mem, params, n);   after ddp_create
 *   in each step:
 *     ddprove_guest_step(step);
 *     ddprove_core_next(&batches, ...);        in place of ddp_loader_next
 *     ddprove_core_update_begin(&update);      before the optimizer
 *     ddprove_core_updated(&update);           after it
 *   ddprove_guest_detach();                    at the good end
 *
 * Data that the host cannot read (a GPU's) is not judged: then only the calls themselves are. */
#ifndef DDPROVE_DDPCORE_H
#define DDPROVE_DDPCORE_H

#include <ddprove_guest.h>

#include "ddpcore/collective/collective.h"
#include "ddpcore/ddp/ddp.h"
#include "ddpcore/ddp/loader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Decorator of collectives, for ddp_world_config.decorate: of the world's group and of subgroups.
 * Attaches the process as the rank that inner->env says, if it is not attached yet. group: the
 * communicator's name in reports. context: not used. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddprove_core_watch(void *context, const char *group, struct ddp_coll *inner,
                                           struct ddp_coll **out);

/* Which parameters travel in which bucket. Whenever the buckets change, again. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddprove_core_model(const struct ddp *ddp, struct ddp_mem *mem,
                                           const struct ddp_param *params, size_t param_count);

/* The batches of a loader. batch, is_again: zeros at first. */
struct ddprove_core_batches {
    struct ddp_loader *loader;
    struct ddp_env *env;
    struct ddp_loader_batch batch;
    bool is_again; /* by a fault it comes once more */
};
/* ddp_loader_next: the batch's samples are told, and of each epoch how many there are. A fault at
 * data/next makes the loader lose a batch, or repeat one the next time. Errors: the loader's, and
 * E_NOMEM. */
DDP_MUST_USE ddp_status ddprove_core_next(struct ddprove_core_batches *batches,
                                          uint64_t deadline_ns, struct ddp_loader_batch *out);

/* An update of all parameters by one optimizer. Nothing is told of memory that the host cannot
 * read. */
struct ddprove_core_update {
    const struct ddp_param *params;
    size_t param_count;
    const struct ddprove_guest_optimizer *optimizer; /* NULL: not told, so not replayed */
    void *const *state[2]; /* of each parameter: momentum, or first and second moment; or NULL */
    uint64_t update_count; /* updates before this one */
    struct ddp_device *device;
};
/* Before and after the optimizer's step, in every step. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddprove_core_update_begin(const struct ddprove_core_update *update);
DDP_MUST_USE ddp_status ddprove_core_updated(const struct ddprove_core_update *update);

#ifdef __cplusplus
}
#endif
#endif
