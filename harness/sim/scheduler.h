/* The simulator's scheduler: which rank runs next, and what time it is. Internal to the simulator.
 *
 * Each rank is an actor: READY (may run), PARKED (waits until it is woken, or for its deadline),
 * ASLEEP (host code that takes time: until its deadline) or GONE. The clock moves by
 * a few microseconds each time an actor runs, and jumps to the next event when none can. */
#ifndef HARNESS_SIM_SCHEDULER_H
#define HARNESS_SIM_SCHEDULER_H

#include <stdbool.h>
#include <stdint.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/base/prng.h"
#include "harness/task/fiber.h"

enum harness_sim_actor_state {
    HARNESS_SIM_ACTOR_READY,
    HARNESS_SIM_ACTOR_PARKED,
    HARNESS_SIM_ACTOR_ASLEEP,
    HARNESS_SIM_ACTOR_GONE
};

struct harness_sim_scheduler;

struct harness_sim_actor {
    struct ddp_idle idle; /* what the rank's environment points at; first, to find the actor */
    struct harness_sim_scheduler *scheduler;
    struct harness_fiber *fiber;
    enum harness_sim_actor_state state;
    uint32_t ready_index; /* place in scheduler->ready while READY */
    uint64_t deadline_ns; /* of PARKED and ASLEEP */
    uint64_t timer_ns;    /* time of this actor's live timer event; DDP_DEADLINE_NEVER if none */
    bool is_woken; /* while it slept: it may sleep in the middle of looking for messages, so that
                    * its next wait looks again */
};

/* Something that happens at a time: a message's arrival, or an actor's deadline. */
struct harness_sim_event {
    uint64_t time_ns;
    uint64_t order; /* of creation: decides between equal times */
    uint32_t actor;
    bool is_timer;
};

struct harness_sim_scheduler {
    struct ddp_mem *mem;
    struct ddp_clock_virtual clock;
    struct ddp_prng prng;
    struct harness_sim_actor *actors; /* [actor_count] */
    uint32_t actor_count, live_count;
    uint32_t *ready; /* [ready_count] */
    uint32_t ready_count;
    struct harness_sim_event *heap; /* binary heap by (time, order) */
    size_t heap_count, heap_capacity;
    size_t message_event_count; /* entries of heap that are not timers */
    uint64_t event_order;
    uint64_t switch_count;
    struct harness_sim_actor *running; /* whose fiber runs; NULL: the scheduler's side */
    bool is_out_of_memory;             /* an event was lost: the run is not valid */
};

/* Fibers run entry(contexts[i]); context_bytes apart. All actors start READY. */
struct harness_sim_scheduler_config {
    uint32_t actor_count;
    uint64_t seed, start_ns;
    void (*entry)(void *context);
    char *contexts;
    size_t context_bytes;
};
DDP_MUST_USE ddp_status
harness_sim_scheduler_init(struct harness_sim_scheduler *scheduler, struct ddp_mem *mem,
                           const struct harness_sim_scheduler_config *config);
/* Zeroed is fine too. */
void harness_sim_scheduler_fini(struct harness_sim_scheduler *scheduler);

/* From the scheduler's side. */
/* Make actors READY whose events are due. */
void harness_sim_scheduler_deliver(struct harness_sim_scheduler *scheduler);
/* Run one READY actor, chosen by the seed; returns its number. */
uint32_t harness_sim_scheduler_run_one(struct harness_sim_scheduler *scheduler);
/* Time of the next event that will make an actor READY, or DDP_DEADLINE_NEVER. */
uint64_t harness_sim_scheduler_next_ns(struct harness_sim_scheduler *scheduler);
/* No actor is READY, and no message under way will make one READY. */
bool harness_sim_scheduler_is_stable(const struct harness_sim_scheduler *scheduler);
/* The actor never runs again; its stack is freed. */
void harness_sim_scheduler_remove(struct harness_sim_scheduler *scheduler, uint32_t index);
/* At at_ns there is something for the actor: a PARKED one becomes READY. */
void harness_sim_scheduler_wake(struct harness_sim_scheduler *scheduler, uint32_t index,
                                uint64_t at_ns);

/* From the actor's side (its fiber). */
/* Be ASLEEP until until_ns (DDP_DEADLINE_NEVER: for ever). */
void harness_sim_actor_sleep(struct harness_sim_actor *actor, uint64_t until_ns);
/* Never run again; the scheduler's side removes the actor. Does not return. */
void harness_sim_actor_halt(struct harness_sim_actor *actor) __attribute__((noreturn));

#endif
