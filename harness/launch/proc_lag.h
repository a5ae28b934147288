/* How long a silent process was ready to run while no CPU ran it. On a loaded machine that is time
 * that says nothing about the process. Internal to the proc driver. */
#ifndef HARNESS_LAUNCH_PROC_LAG_H
#define HARNESS_LAUNCH_PROC_LAG_H

#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that is silent for less is not looked at: healthy ranks cost nothing. */
#define PROC_LAG_START_NS UINT64_C(20000000)

struct proc_lag {
    uint64_t silent_ns;             /* which silence this is about */
    uint64_t start_ns;              /* when it was first looked at */
    uint64_t base_delay_ns;         /* its waits for a CPU until then */
    uint64_t look_ns, cpu_ns;       /* the last look (0: none), its CPU time then, */
    uint64_t delay_ns, slice_count; /* and what the kernel had counted: waits that ended */
    uint64_t wait_ns, wait_cpu_ns;  /* the present wait began then, at that CPU time, or later */
};

/* Of the time from silent_ns to now_ns: what the main thread of `pid` spent ready to run without a
 * CPU, and all of it before the first look. Another silent_ns begins anew. 0 if the kernel does not
 * tell. lag: zeroed at first. */
uint64_t proc_lag_look(struct proc_lag *lag, pid_t pid, uint64_t silent_ns, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
