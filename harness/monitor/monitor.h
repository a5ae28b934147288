/* The analyser: from what ranks show (pages, progress words), the states of their processes, and
 * the program, to findings. `harness_monitor_analyse` is a pure function of one cut. */
#ifndef HARNESS_MONITOR_MONITOR_H
#define HARNESS_MONITOR_MONITOR_H

#include "ddpcore/seam/recorder.h"
#include "harness/plan/program.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum harness_process_state {
    HARNESS_PROCESS_NOT_STARTED,
    HARNESS_PROCESS_RUNNING,
    HARNESS_PROCESS_STOPPED, /* SIGSTOP */
    HARNESS_PROCESS_EXITED,  /* code */
    HARNESS_PROCESS_SIGNALED /* code = signal */
};
struct harness_process {
    enum harness_process_state state;
    int code;
    uint64_t since_ns; /* when the state was first seen */
    /* Stopped by a fault that is planned to end within HARNESS_MONITOR_STOP_HOLD_NS: no hang, even
     * if a loaded machine makes it longer. */
    bool is_brief;
    /* When the process was first seen to be at its end, which the kernel may take seconds for: it
     * was killed or exits, and runs no code of its own any more. 0: it was not seen to be. */
    uint64_t ending_ns;
    bool is_unended; /* shown as ended, as it will, though the kernel has not got there for long */
};

/* A snapshot of the whole job: all ranks at one moment, if it is_stable. */
struct harness_cut {
    uint32_t world_size;
    uint64_t now_ns;
    /* [world_size], consistent copies, taken after the processes' states: an ended rank's page is
     * final. Zero while it is invalid: such a rank is in its first phase, posted nothing and waits
     * for nothing. */
    const struct ddp_page *pages;
    const struct harness_process *processes; /* [world_size] */
    const bool *is_page_valid;               /* [world_size], false: never initialised */
    const struct ddp_progress *progress;     /* [world_size], copies, zero while a page is invalid;
                                              * NULL: no rank's device shows words */
    const uint64_t *progress_ns;             /* [world_size], when one of a rank's words was last
                                              * seen to move; NULL if progress is */
    /* [world_size], how long of its silence a rank was ready to run and had no CPU; that time does
     * not count against it. NULL in virtual time. */
    const uint64_t *starved_ns;
    const struct harness_program *program; /* whose groups ranks are in; NULL: that of all */
    bool is_stable;     /* no page and no word changed between two readings around this cut */
    uint64_t change_ns; /* when one was last seen to change; 0 = not watched */
};

/* That a process took longer than this to end, is said. */
#define HARNESS_MONITOR_ENDING_SAID_NS UINT64_C(100000000)
/* A stopped process counts only after this long: a stop of 50 ms that ends by itself is no hang. */
#define HARNESS_MONITOR_STOP_HOLD_NS UINT64_C(80000000)
/* A plug-in that has not returned for this long keeps its rank from waiting; so does whatever else
 * keeps a process that waits from looking for this long, though it has a CPU. */
#define HARNESS_MONITOR_PLUGIN_HOLD_NS UINT64_C(100000000)
/* A circle of waits that involves several groups or the store counts only after this long: the
 * answer that ends it may have arrived at a rank that has no CPU yet. */
#define HARNESS_MONITOR_CYCLE_HOLD_NS UINT64_C(1500000000)

/* Add all findings of a cut in order of certainty, provable ones first; none for a healthy cut. The
 * same cut always gives the same findings. While a process is at its end, it is not known yet how
 * it will have ended, and nothing that hangs is found: it does not run, and others may wait for it.
 * Provable: a posted operation that differs from the program; a rank that ended before its work was
 * done; a stopped process that others wait for; in a stable cut, a circle of waits while no device
 * works. By budget: a rank that is silent in host code for longer than its phase's budget; a device
 * without progress for that long (a compute kernel that does not end, a collective that does not
 * start, or one that does not end). */
void harness_monitor_analyse(const struct harness_plan *plan, const struct harness_program *program,
                             const struct harness_cut *cut, struct harness_findings *out);
/* Only who ended before the work was done. */
void harness_monitor_analyse_ends(const struct harness_plan *plan,
                                  const struct harness_program *program,
                                  const struct harness_cut *cut, struct harness_findings *out);
/* Silence in this phase for longer is called a hang. */
uint64_t harness_monitor_budget_ns(const struct harness_plan *plan, enum ddp_phase phase);
/* When the rank or its device last showed a sign of life. */
uint64_t harness_monitor_alive_ns(const struct harness_cut *cut, uint32_t rank);
/* A printed cut shows at most so many ranks with their devices, and so many waits. */
#define HARNESS_CUT_PRINT_RANKS_MAX 64
#define HARNESS_CUT_PRINT_EDGES_MAX 64
/* Print a cut. One line a rank: its process, its place, what it posted, what others wait for; then
 * a line about its device, if that has progress words. One line an edge of the wait-for graph,
 * those to culprits first: "r2 waits for r0: all_reduce seq 7 (bucket 1: fc1.bias, fc1.weight)", or
 * "r2 device waits for r0 device: ..." if only progress words show it. One line a circle: "circle
 * of waits: r0 → r1 → r0". culprits: of the finding that the cut led to; they are marked. What
 * exceeds the limits above is counted. */
void harness_cut_print(const struct harness_plan *plan, const struct harness_program *program,
                       const struct harness_cut *cut, const struct harness_rank_set *culprits,
                       struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
