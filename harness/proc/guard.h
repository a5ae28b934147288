/* A guard: the process that mpirun starts in place of a rank. It starts the rank exactly as our own
 * launcher does, reports to the launcher what becomes of it, and ends in the same way, so that
 * mpirun sees the rank's end. Internal to the proc driver. */
#ifndef HARNESS_PROC_GUARD_H
#define HARNESS_PROC_GUARD_H

#include <signal.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum harness_proc_report_kind {
    HARNESS_PROC_REPORT_STARTED, /* the rank runs */
    HARNESS_PROC_REPORT_CHANGED, /* it ended, stopped or went on: code and status as of waitid */
    HARNESS_PROC_REPORT_ORDERED  /* mpirun ordered the guard to end, and it now ends the rank */
};

/* What a guard writes into the launcher's pipe, in one write. A rank that has ended stays a zombie
 * until its guard is released, so that no other process gets its pid while the launcher uses it. */
struct harness_proc_guard_report {
    uint32_t rank;
    uint32_t kind; /* enum harness_proc_report_kind */
    int32_t guard_pid, rank_pid;
    int32_t code, status;
};

/* The signal by which the launcher releases a guard: it may end now, as its rank did. */
#define HARNESS_PROC_GUARD_RELEASE SIGUSR1

/* `ddprove rank` with HARNESS_PROC_ENV_GUARD set. Returns the exit code, unless it ends by a signal
 * as the rank did. */
int harness_proc_guard_main(void);

#ifdef __cplusplus
}
#endif
#endif
