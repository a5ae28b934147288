/* Where in the learned program a communicator is. Internal to harness/observed. */
#ifndef HARNESS_OBSERVED_PLACE_H
#define HARNESS_OBSERVED_PLACE_H

#include "harness/observed/learned.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator's place in the program. */
struct learned_place {
    bool is_known; /* its counterpart was looked for */
    bool is_done;  /* it has deviated, or has no counterpart */
    bool is_left; /* behind the record's end it does not repeat the record: who knows what is due */
    const struct harness_learned_comm *comm;
    uint64_t seq; /* up to here all is as recorded */
    uint32_t step;
    const struct harness_learned_call *list; /* of the step; NULL: the record does not say */
    size_t count, index;
    uint64_t differs_ns; /* since when somebody deviates; 0: nobody does */
};

/* Where in the program a call is. */
struct learned_at {
    const struct harness_learned_call *list;
    size_t count, index;
    const struct harness_learned_call *due; /* NULL: nothing is */
    bool is_behind;                         /* what is due is of a step before the call's */
    uint32_t step;                          /* of what is due */
    bool is_alike;
};

void harness_learned_look_up(const struct harness_learned *learned,
                             const struct learned_place *place,
                             const struct harness_watch_call *call, struct learned_at *out);

#ifdef __cplusplus
}
#endif
#endif
