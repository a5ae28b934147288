/* The cuts that led to conclusions, printed: the first one for each verdict. For people; no verdict
 * depends on it. It is one block of fixed size, and a complete text at any moment, so that it can
 * lie in shared memory that outlives its writer. */
#ifndef HARNESS_MONITOR_WAIT_SNAPSHOT_H
#define HARNESS_MONITOR_WAIT_SNAPSHOT_H

#include "harness/monitor/conclusions.h"
#include "harness/monitor/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Room for a few cuts of the largest job. */
#define HARNESS_WAIT_SNAPSHOT_BYTES_MAX ((size_t)256 * 1024)

struct harness_wait_snapshot {
    uint64_t start_ns;       /* of the job: times are counted from here */
    uint64_t taken[2];       /* a bit for each verdict that was met */
    uint64_t left_out_count; /* conclusions without room */
    uint64_t size_bytes;     /* of what is in text; stored last */
    char text[HARNESS_WAIT_SNAPSHOT_BYTES_MAX];
};

/* snapshot: zeroed memory. */
void harness_wait_snapshot_init(struct harness_wait_snapshot *snapshot, uint64_t start_ns);
/* Add this cut once for each new verdict among the conclusions that it led to. A cut for
 * which there is no memory is left out. */
void harness_wait_snapshot_take(struct harness_wait_snapshot *snapshot,
                                const struct harness_plan *plan,
                                const struct harness_program *program,
                                const struct harness_cut *cut,
                                const struct harness_conclusions *conclusions);
/* Append the text, which may be empty. */
void harness_wait_snapshot_print(const struct harness_wait_snapshot *snapshot,
                                 struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
