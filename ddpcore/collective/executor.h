/* The executor's state, shared by its queue (executor.c) and its steps (executor_step.c). Internal.
 */
#ifndef DDPCORE_COLLECTIVE_EXECUTOR_H
#define DDPCORE_COLLECTIVE_EXECUTOR_H

#include "ddpcore/collective/compiled.h"

struct ddp_executor {
    struct ddp_coll base;
    struct ddp_transport *transport;
    struct ddp_device *device;
    uint32_t *member_rank;
    bool is_checked;
    bool is_agreement;
    struct ddp_compiled_cache cache;
    struct ddp_coll_work *head, *tail;
    bool is_running;         /* the head's compiled schedule was started */
    uint64_t signature;      /* of the head; 0 when not checked */
    ddp_status failed;       /* what ended the group, or OK */
    uint64_t death_known_ns; /* when a wait first met a death; 0 = none */
    uint32_t next_stray;     /* peer whose oldest message is looked at next */
};

/* Try one active step of the head's schedule: OK, PENDING, or an error that ends the group. */
ddp_status ddp_executor_step(struct ddp_executor *executor, struct ddp_compiled *compiled,
                             uint32_t index);
/* A message of another collective: tell everybody, if messages are checked. E_MISMATCH. */
ddp_status ddp_executor_mismatch(struct ddp_executor *executor);

#endif
