/* Conclusions over time: which findings of successive cuts are said, and when. Crashes and
 * mismatches are said at once; whatever leans on a stable cut is said when it is seen again later,
 * so that a cut taken between two steps of a healthy rank accuses nobody. */
#ifndef HARNESS_MONITOR_WATCH_H
#define HARNESS_MONITOR_WATCH_H

#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two sightings of a hang must lie this far apart. */
#define HARNESS_WATCH_SETTLE_NS UINT64_C(10000000)

struct harness_sighting {
    struct harness_finding finding;
    uint64_t time_ns; /* said: when; candidates: first seen */
    bool is_seen;     /* candidates: in the present cut */
};

struct harness_sightings {
    struct harness_sighting *items;
    size_t count, capacity;
};

struct harness_watch {
    struct ddp_mem *mem;
    struct harness_sightings said;       /* in order; a fuller finding takes its part's place */
    struct harness_sightings candidates; /* seen once, not yet said */
    bool is_failed;                      /* out of memory: something may be unsaid */
    /* Told of each new conclusion. May be NULL. */
    void (*tell)(void *context, uint64_t time_ns, const struct harness_finding *finding);
    void *tell_context;
};

void harness_watch_init(struct harness_watch *watch, struct ddp_mem *mem);
void harness_watch_fini(struct harness_watch *watch);
/* The findings of the cut taken at now_ns. */
void harness_watch_note(struct harness_watch *watch, const struct harness_findings *findings,
                        uint64_t now_ns);
/* Take a conclusion as it is. A finding of the same verdict about some of the same ranks gives way
 * to it; one that adds nothing is dropped. Returns whether it was news. */
bool harness_watch_say(struct harness_watch *watch, const struct harness_finding *finding,
                       uint64_t time_ns);

#ifdef __cplusplus
}
#endif
#endif
