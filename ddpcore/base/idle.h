/* Waiting. Every operation that can wait is post / poll / abort; the one place that waits is
 * ddp_wait, and how it passes the time belongs to the driver: the simulator switches to its
 * scheduler, a real process spins, yields, then sleeps on the word that a peer will change. */
#ifndef DDPCORE_BASE_IDLE_H
#define DDPCORE_BASE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the waiting operation knows about when it could go on. */
struct ddp_idle_hint {
    uint64_t started_ns;      /* when this wait began */
    uint64_t deadline_ns;     /* give up then (DDP_DEADLINE_NEVER allowed) */
    uint32_t *doorbell;       /* shared word that peers change on progress; NULL if none */
    uint32_t *doorbell_sleep; /* set to 1 while sleeping on doorbell, so that peers wake us */
    uint32_t doorbell_seen;   /* its value read before the poll that returned PENDING */
    int fd;                   /* descriptor to watch, -1 if none */
    short fd_events;          /* poll(2) events for fd */
};

struct ddp_idle;
struct ddp_idle_ops {
    /* Pass time until the hint says progress may be possible; may return early, never later than
     * about the deadline. Called only from ddp_wait. */
    void (*wait)(struct ddp_idle *idle, const struct ddp_idle_hint *hint);
    /* A point where a rank that computes lets others go on. A real process does nothing; the
     * simulator may switch to another rank, as its seed decides. */
    void (*progress)(struct ddp_idle *idle);
};
/* What a process does for others while it waits, for whatever it waits: the host of a store serves
 * those who ask. Called from ddp_wait for as long as it waits, often: it decides by the time what
 * is due, does that, and never waits itself. */
struct ddp_idle_attendant {
    void (*attend)(struct ddp_idle_attendant *attendant, uint64_t now_ns);
    struct ddp_idle_attendant *next; /* of the same process: the idle's */
};
struct ddp_idle {
    const struct ddp_idle_ops *ops;
    struct ddp_idle_attendant *attendants; /* NULL: none */
};
/* The attendant is the caller's, until it is removed. Only by the thread that waits. */
void ddp_idle_add(struct ddp_idle *idle, struct ddp_idle_attendant *attendant);
void ddp_idle_remove(struct ddp_idle *idle, struct ddp_idle_attendant *attendant);

/* A process's last wait: when it began, and when it last looked whether it may go on, which it
 * could not. An observer in another process may read both at any time, polled_ns first: if
 * started_ns is not later, the process has waited between the two by its own doing. */
struct ddp_idle_polls {
    uint64_t started_ns, polled_ns; /* 0: none */
};

/* Real processes: spin <= 50 us when spin is allowed (ranks <= cores), sched_yield <= 200 us, then
 * sleep on the doorbell (futex) or the descriptor (ppoll) in slices of <= 1 ms. */
struct ddp_idle_process {
    struct ddp_idle base;
    struct ddp_clock *clock;
    bool may_spin;
    struct ddp_idle_polls *polls; /* kept up to date; NULL, as after init: nobody looks */
};
void ddp_idle_process_init(struct ddp_idle_process *idle, struct ddp_clock *clock, bool may_spin);

/* Change a doorbell that lives in shared memory and wake its owner if it sleeps. */
void ddp_doorbell_ring(uint32_t *doorbell, const uint32_t *doorbell_sleep);

/* Something that can be polled. */
struct ddp_pollable {
    /* DDP_PENDING or the final status; final statuses are repeated on later calls. */
    ddp_status (*poll)(void *self);
    /* Fill doorbell/fd fields (the rest is ddp_wait's). Called before poll. May be NULL. */
    void (*hint)(void *self, struct ddp_idle_hint *hint);
    void *self;
};

/* Poll until not PENDING, or E_TIMEOUT once deadline_ns has passed. */
DDP_MUST_USE ddp_status ddp_wait(struct ddp_idle *idle, struct ddp_clock *clock,
                                 const struct ddp_pollable *pollable, uint64_t deadline_ns);

#ifdef __cplusplus
}
#endif
#endif
