/* What the monitor saw when it first came to each kind of conclusion: the cut that it judged, in
 * words. For people; no verdict depends on it. One block that never grows and is a whole text at
 * any moment, so that it can lie in memory that outlives its writer. */
#ifndef HARNESS_MONITOR_WAIT_SNAPSHOT_H
#define HARNESS_MONITOR_WAIT_SNAPSHOT_H

#include "harness/monitor/conclusions.h"
#include "harness/monitor/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for a few pictures of the largest job. */
#define HARNESS_WAIT_SNAPSHOT_BYTES_MAX ((size_t)256 * 1024)

struct harness_wait_snapshot {
    uint64_t start_ns;       /* of the job: times are told from here */
    uint64_t taken[2];       /* bits of the verdicts that were met */
    uint64_t left_out_count; /* pictures that found no room */
    uint64_t size_bytes;     /* of what is in text; stored last */
    char text[HARNESS_WAIT_SNAPSHOT_BYTES_MAX];
};

/* Of zeroed memory. */
void harness_wait_snapshot_init(struct harness_wait_snapshot *picture, uint64_t start_ns);
/* Add the cut that was just noted, once for each new kind among the conclusions that it led to.
 * Allocates nothing. */
void harness_wait_snapshot_take(struct harness_wait_snapshot *picture,
                                const struct harness_plan *plan,
                                const struct harness_program *program,
                                const struct harness_cut *cut,
                                const struct harness_conclusions *watch);
/* Append all that was taken; nothing if nothing was. */
void harness_wait_snapshot_print(const struct harness_wait_snapshot *picture, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
