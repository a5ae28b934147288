/* A guard: the process that mpirun starts in place of a rank. It starts the rank exactly as the own
 * launcher does, tells the launcher what becomes of it, and ends as the rank ended, so that mpirun
 * sees it. Internal to the proc driver. */
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
    HARNESS_PROC_REPORT_ORDERED  /* the guard was told to end, and now ends the rank */
};

/* What a guard writes into the launcher's pipe, in one write. The rank stays a zombie until its
 * guard is released, so that its pid is its own as long as the launcher may use it. */
struct harness_proc_guard_report {
    uint32_t rank;
    uint32_t kind; /* enum harness_proc_report_kind */
    int32_t guard_pid, rank_pid;
    int32_t code, status;
};

/* From the launcher to a guard: nothing more is expected of you, end as your rank did. */
#define HARNESS_PROC_GUARD_RELEASE SIGUSR1

/* `ddprove rank` with HARNESS_PROC_ENV_GUARD set. Returns the exit code, unless it ends by a signal
 * as the rank did. */
int harness_proc_guard_main(void);

#ifdef __cplusplus
}
#endif
#endif
