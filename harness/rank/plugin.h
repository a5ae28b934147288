/* Schedules of somebody else's algorithm, for whoever makes collectives of schedules. */
#ifndef HARNESS_RANK_PLUGIN_H
#define HARNESS_RANK_PLUGIN_H

#include "ddpcore/collective/collective.h"

/* Emits all-reduces by asking a plug-in. */
struct harness_plugin_emitter {
    struct ddp_schedule_emitter emitter; /* first: the emitter's pointer is this one's */
    const char *path;                    /* of the shared object; borrowed */
    struct ddp_err *err;                 /* where it says why there is no schedule */
    ddp_status status;                   /* then; else DDP_OK */
};
void harness_plugin_emitter_init(struct harness_plugin_emitter *emitter, const char *path,
                                 struct ddp_err *err);

#endif
