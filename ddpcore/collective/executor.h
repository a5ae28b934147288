/* The executor's state, shared by its place in the queue (executor.c) and its steps
 * (executor_step.c). Internal. */
#ifndef DDPCORE_COLLECTIVE_EXECUTOR_H
#define DDPCORE_COLLECTIVE_EXECUTOR_H

#include "ddpcore/collective/compiled.h"
#include "ddpcore/collective/mover.h"
#include "ddpcore/collective/queue.h"

struct ddp_executor {
    struct ddp_queue queue;           /* its transport carries the data, too */
    struct ddp_message_count *counts; /* [member]: each message carries its number */
    struct ddp_links *links;          /* shows them to whoever watches; NULL: nobody */
    bool is_checked;
    bool is_agreement;
    struct ddp_cache cache;
    struct ddp_compiled_scratch scratch;
    bool is_running;              /* the head's schedule was started */
    uint64_t signature;           /* of the head; 0 when not checked */
    uint32_t next_stray;          /* peer whose oldest message is looked at next */
    uint32_t *node_of_member;     /* [member], or NULL: all are on one node */
    struct ddp_coll_mover *mover; /* of all-reduces, or NULL: schedules do them */
    bool is_moving;               /* it has begun with the head, which way is of */
    struct ddp_coll_way way;
};

/* Another member, as watchers know it. */
static inline uint64_t ddp_executor_link(const struct ddp_executor *executor, uint32_t peer)
{
    return ddp_links_key(executor->queue.base.comm, executor->queue.member_rank[peer]);
}

/* Try one active step of the head's schedule: OK, PENDING, or an error that ends the group. */
ddp_status ddp_executor_step(struct ddp_executor *executor, struct ddp_compiled *compiled,
                             uint32_t index);
/* The oldest message of a peer is not the next that it sent: tell everybody. E_MESSAGE. */
ddp_status ddp_executor_astray(struct ddp_executor *executor, uint32_t peer,
                               const struct ddp_message *message);
/* A message of another collective: tell everybody, if messages are checked. E_MISMATCH. */
ddp_status ddp_executor_mismatch(struct ddp_executor *executor, uint32_t peer,
                                 const struct ddp_message *message);

/* executor_move.c: collectives that the group's mover does. In a checked group an agreement comes
 * first, as a schedule. */
bool ddp_executor_moves(const struct ddp_executor *executor, const struct ddp_coll_args *args);
/* Go on with the head, whose agreement is over. */
ddp_status ddp_executor_move(struct ddp_executor *executor, struct ddp_coll_work *head);
/* Slots of struct ddp_engine. */
bool ddp_executor_may_be_death(struct ddp_queue *queue, ddp_status error,
                               ddp_status *out_unexplained);
bool ddp_executor_waits_for_message(const struct ddp_queue *queue,
                                    const struct ddp_coll_work *head);
void ddp_executor_stop(struct ddp_queue *queue, ddp_status status);

#endif
