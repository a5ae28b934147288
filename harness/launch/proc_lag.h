/* How long a silent process was ready to run while no CPU ran it. On a loaded machine that is time
 * that says nothing about the process. Internal to the proc driver. */
#ifndef HARNESS_LAUNCH_PROC_LAG_H
#define HARNESS_LAUNCH_PROC_LAG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that is silent for less is not looked at: healthy ranks cost nothing. */
#define PROC_LAG_START_NS UINT64_C(20000000)
/* Time since the last look counts as waited, and after so much there is another. */
#define PROC_LAG_INTERVAL_NS UINT64_C(10000000)
enum { PROC_LAG_THREADS_MAX = 32 };

struct proc_lag_thread {
    pid_t tid;
    uint64_t base_delay_ns;            /* its waits for a CPU when it was first looked at */
    uint64_t ran_ns, delay_ns, slices; /* as the kernel counts; delay: of waits that ended */
    uint64_t wait_ns, wait_ran_ns;     /* the present wait began then, having run so long */
};

struct proc_lag {
    uint64_t silent_ns;  /* which silence this is about */
    uint64_t start_ns;   /* when it was first looked at */
    uint64_t look_ns;    /* the last look, 0: none, */
    uint64_t starved_ns; /* and what came of it */
    struct proc_lag_thread threads[PROC_LAG_THREADS_MAX];
    size_t thread_count;
};

/* Of the time from silent_ns to now_ns: what that thread of the process that waited longest spent
 * ready to run without a CPU, and all of it before the first look. Another silent_ns begins anew.
 * Of a process with more threads than the table holds, the first ones count. 0 if the kernel does
 * not tell. lag: zeroed at first. */
uint64_t proc_lag_look(struct proc_lag *lag, pid_t pid, uint64_t silent_ns, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
