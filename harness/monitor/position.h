/* Where a rank's device is, from its progress words. Internal to harness/monitor. */
#ifndef HARNESS_MONITOR_POSITION_H
#define HARNESS_MONITOR_POSITION_H

#include "harness/monitor/draft.h"

#ifdef __cplusplus
extern "C" {
#endif

enum harness_compute {
    HARNESS_COMPUTE_DRAINED, /* nothing is left on the stream */
    HARNESS_COMPUTE_OPEN,    /* the last mark is reached; work after it may still run */
    HARNESS_COMPUTE_BUSY     /* a mark is enqueued that is not reached */
};
enum harness_comm {
    HARNESS_COMM_IDLE,
    HARNESS_COMM_BEFORE, /* the next collective is enqueued, and not started */
    HARNESS_COMM_INSIDE, /* a collective has started, and not ended */
    HARNESS_COMM_OPEN    /* it has started; the host has not enqueued the mark of its end yet */
};
struct harness_position {
    bool is_known; /* false: the device has no words, and the rest means nothing */
    enum harness_compute compute;
    enum harness_comm comm;
    uint64_t compute_reached, compute_enqueued; /* words */
    uint64_t rounds_left; /* of an open collective: those that the host has not enqueued yet */
    uint64_t seq;         /* of the collective that comm is before or in; 0 if idle */
    uint64_t seq_ended;   /* last collective that ended, on the device or for the host; 0 = none */
};

/* Known only for a live, running rank with words. */
struct harness_position harness_position_of(const struct harness_cut *cut, uint32_t rank);
/* The device has work whose end may end waits. */
bool harness_position_is_working(const struct harness_position *position);
/* "forward layer 2", "backward": the work that follows a mark. */
#define HARNESS_MARK_TEXT_BYTES 32
void harness_position_name_mark(uint64_t word, char out[HARNESS_MARK_TEXT_BYTES]);
/* "compute in forward layer 2 (mark 37 of 41): started, not ended; comm before all_reduce seq 7
 * (bucket 0: fc0.weight): enqueued, not started" */
void harness_position_say(const struct harness_program *program,
                          const struct harness_position *position, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
