/* What drivers share: how they are configured, and their interface. A driver runs all ranks of a
 * plan, returns the trace, and leaves nothing behind, whatever happens. harness/sim and
 * harness/proc have one each. */
#ifndef HARNESS_LAUNCH_LAUNCH_H
#define HARNESS_LAUNCH_LAUNCH_H

#include "harness/plan/program.h"
#include "harness/rank/rank.h"
#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who starts the ranks of the proc driver: this process itself, or Open MPI's mpirun. The
 * rendezvous is ours in both, and both run on this host alone. */
enum harness_launcher { HARNESS_LAUNCHER_OWN, HARNESS_LAUNCHER_MPIRUN };
#define HARNESS_LAUNCHER_COUNT 2
const char *harness_launcher_name(enum harness_launcher launcher);
DDP_MUST_USE ddp_status harness_launcher_parse(const char *name, enum harness_launcher *out);
/* The first line of `mpirun --version`; empty for our own launcher. Errors: E_NOT_FOUND, it is not
 * installed; E_UNSUPPORTED, it is not Open MPI's; err says what to install. */
DDP_MUST_USE ddp_status harness_launcher_describe(enum harness_launcher launcher, char *out,
                                                  size_t size_bytes, struct ddp_err *err);

/* The path of the running program, under the name that lists of processes show. Static storage. */
const char *harness_launch_self_path(void);

struct harness_launch_config {
    const struct harness_plan *plan;
    const struct harness_program *program;
    const struct harness_tables *tables; /* the program's; NULL: nobody goes on after a loss */
    struct harness_rank_options rank;    /* run_dir must exist */
    struct ddp_files_memory *memory;     /* sim: where it lies; NULL: with the operating system */
    uint64_t seed;                       /* of the simulator's scheduler and network */
    const char *self_path;               /* proc: executable to start ranks from */
    enum harness_launcher launcher;      /* proc */
    const char *plan_path;               /* proc: file with the plan, for the ranks to read */
    uint64_t linger_ns; /* how long survivors get to end by themselves after a conclusion; 0 =
                         * default (proc 2 s, or 0.3 s if they cannot end; sim 10 s virtual) */
};

/* Entries of each rank's ring, enough for the whole run. A power of two. */
uint64_t harness_launch_ring_entry_count(const struct harness_plan *plan,
                                         const struct harness_program *program);

struct harness_driver_ops {
    const char *name;
    /* Run to the end and fill trace, which the callee initialises. Errors are the harness's own
     * (outcome ERROR); what ranks do is in the trace. */
    ddp_status (*run)(struct ddp_mem *mem, const struct harness_launch_config *config,
                      struct harness_trace *out, struct ddp_err *err);
};

#ifdef __cplusplus
}
#endif
#endif
