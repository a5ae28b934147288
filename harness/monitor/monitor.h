/* The detector: from what ranks show (pages), what the operating system says of their processes,
 * and the program, to who is to blame. `harness_monitor_analyse` is a pure function of one stable
 * cut: a process calls it in proc, an actor in virtual time in sim. It only watches. */
#ifndef HARNESS_MONITOR_MONITOR_H
#define HARNESS_MONITOR_MONITOR_H

#include "ddpcore/seam/recorder.h"
#include "harness/plan/program.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

enum harness_process_state {
    HARNESS_PROCESS_NOT_STARTED, /* not started (yet) */
    HARNESS_PROCESS_RUNNING,
    HARNESS_PROCESS_STOPPED, /* SIGSTOP */
    HARNESS_PROCESS_EXITED,  /* code */
    HARNESS_PROCESS_SIGNALED /* code = signal */
};
struct harness_process {
    enum harness_process_state state;
    int code;
    uint64_t since_ns; /* when the state was first seen */
    /* Stopped by a fault that ends within HARNESS_MONITOR_STOP_HOLD_NS: no hang, however late the
     * injector is on a loaded machine. */
    bool is_brief;
};

/* One moment of the whole job. */
struct harness_cut {
    uint32_t world_size;
    uint64_t now_ns;
    const struct ddp_page *pages;            /* [world_size], consistent copies, taken after the
                                              * processes' states: an ended rank's page is final */
    const struct harness_process *processes; /* [world_size] */
    const bool *is_page_valid;               /* [world_size], false: never initialised */
    const struct ddp_progress *progress;     /* [world_size], copies, zero while a page is invalid;
                                              * NULL: no rank's device shows words */
    const uint64_t *progress_ns;             /* [world_size], when one of a rank's words was last
                                              * seen to move; NULL as progress is */
    /* [world_size], of the time since a rank last showed a sign of life: how long it was ready to
     * run and had no CPU, which says nothing about it; NULL in virtual time. */
    const uint64_t *starved_ns;
    bool is_stable;     /* no page and no word changed between two readings around this cut */
    uint64_t change_ns; /* when one was last seen to change; 0 = not watched */
};

/* A stopped process counts only after this long: a stop of 50 ms that ends by itself is no hang. */
#define HARNESS_MONITOR_STOP_HOLD_NS UINT64_C(80000000)
/* A circle of waits through different groups or the store counts only after this long: an answer of
 * the store, or a message, may be under way to a rank that a busy machine gives no time. */
#define HARNESS_MONITOR_CYCLE_HOLD_NS UINT64_C(1500000000)

/* Everything that can be said of a cut. Findings are added in order of certainty, provable ones
 * first; none are added for a healthy cut. The same cut always gives the same findings.
 * Provable: a posted operation that differs from the program; a rank that ended while its work was
 * not done; a stopped process that others wait for; in a stable cut, waits that only their own
 * members could end while no device works. By budget: a rank silent in host code longer than its
 * phase's budget; a device whose words stand still for so long: a compute kernel that does not end,
 * a collective that does not start, or one that does not end. */
void harness_monitor_analyse(const struct harness_plan *plan, const struct harness_program *program,
                             const struct harness_cut *cut, struct harness_findings *out);
/* When the rank, or its device, last showed a sign of life: from here on it is silent. */
uint64_t harness_monitor_alive_ns(const struct harness_cut *cut, uint32_t rank);
/* Lines of a picture: so many ranks with their devices, so many waits. */
#define HARNESS_CUT_PRINT_RANKS_MAX 64
#define HARNESS_CUT_PRINT_EDGES_MAX 64
/* A cut in words. A line a rank: its process, place, what it posted and owes; below it a line where
 * its device is, if that shows words. A line an edge of the wait-for graph, those to culprits
 * first: "r2 waits for r0: all_reduce seq 7 (bucket 1: fc1.bias, fc1.weight)", or "r2 device waits
 * for r0 device: ..." where only their words tell. A line a circle: "circle of waits: r0 → r1 →
 * r0". culprits: of the finding that it explains; marked, and told of first. What is too much is
 * counted instead. */
void harness_cut_print(const struct harness_plan *plan, const struct harness_program *program,
                       const struct harness_cut *cut, const struct harness_rank_set *culprits,
                       struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
