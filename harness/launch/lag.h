/* How long a silent process was ready to run while no CPU ran it. On a loaded machine that time
 * does not count against the process. */
#ifndef HARNESS_LAUNCH_LAG_H
#define HARNESS_LAUNCH_LAG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For a process that is silent for less, nothing is read: healthy ranks cost nothing. */
#define HARNESS_LAG_START_NS UINT64_C(20000000)
/* After that it is read so often; the time since the last reading counts as time without a CPU. */
#define HARNESS_LAG_INTERVAL_NS UINT64_C(10000000)

struct harness_lag {
    uint64_t silent_ns;                /* when this silence began */
    uint64_t start_ns, read_ns;        /* of the first and the last reading; 0: none */
    uint64_t base_delay_ns;            /* the kernel's count of its waits at the first reading, */
    uint64_t ran_ns, delay_ns, slices; /* and at the last one; delay: of waits that have ended */
    uint64_t wait_ns, wait_ran_ns;     /* when the present wait began, and the run time then */
    uint64_t starved_ns;               /* result of the last reading */
    bool is_known;                     /* the kernel has these counts */
};

/* For how much of the time from silent_ns to now_ns the thread `tid` (of a process: its main
 * thread) was ready to run without a CPU; the time before the first reading counts in full. Another
 * silent_ns starts anew. 0 if the kernel has no counts. lag: zeroed at first. */
uint64_t harness_lag_read(struct harness_lag *lag, pid_t tid, uint64_t silent_ns, uint64_t now_ns);

/* How long the calling process's first thread was ready to run and had no CPU; 0 if the kernel does
 * not say. */
uint64_t harness_lag_self_ns(void);

#ifdef __cplusplus
}
#endif
#endif
