/* How long a silent process was ready to run while no CPU ran it. On a loaded machine that is time
 * that says nothing about the process. Internal to the proc driver. */
#ifndef HARNESS_PROC_LAG_H
#define HARNESS_PROC_LAG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that is silent for less is not looked at: healthy ranks cost nothing. */
#define HARNESS_PROC_LAG_START_NS UINT64_C(20000000)
/* Then it is looked at so often; the time since counts as waited. */
#define HARNESS_PROC_LAG_INTERVAL_NS UINT64_C(10000000)

struct harness_proc_lag {
    uint64_t silent_ns;                /* which silence this is about */
    uint64_t start_ns, look_ns;        /* the first and the last look; 0: none */
    uint64_t base_delay_ns;            /* the kernel's count of its waits at the first look, */
    uint64_t ran_ns, delay_ns, slices; /* and at the last one; delay: of waits that have ended */
    uint64_t wait_ns, wait_ran_ns;     /* the present wait began then, having run so long */
    uint64_t starved_ns;               /* what came of the last look */
    bool is_known;                     /* the kernel told */
};

/* Of the time from silent_ns to now_ns: what the main thread of `pid` spent ready to run without a
 * CPU, and all of it before the first look. Another silent_ns begins anew. 0 if the kernel does not
 * tell. lag: zeroed at first. Other threads do not count: one that polls for ever would explain any
 * silence on a machine that is full. */
uint64_t harness_proc_lag_read(struct harness_proc_lag *lag, pid_t pid, uint64_t silent_ns,
                               uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
