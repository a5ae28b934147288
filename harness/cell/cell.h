/* One cell, from plan to verdict: the pipeline. Launch, trace, oracles, a replay with payloads if a
 * bucket differs, a restore run if one is asked for, the judge, and the run folder that holds a
 * file for every arrow between them: plan.yaml program.txt schedules/ trace.txt trace.rank<N>.txt
 * graph.txt (the cuts of the monitor's first conclusions in words, for people; if it came to any)
 * verdict.json rank<N>.log replay/ (payload run)  restore/ (restore run, same files,
 * and given.safetensors, the checkpoint that it was given) */
#ifndef HARNESS_CELL_CELL_H
#define HARNESS_CELL_CELL_H

#include <jansson.h>

#include "harness/judge/judge.h"
#include "harness/launch/launch.h"
#include "harness/plan/plan.h"
#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_cell_config {
    enum harness_driver driver;
    uint64_t seed;                  /* of the simulator's scheduler */
    const char *run_dir;            /* made if missing */
    const char *self_path;          /* executable to start ranks from */
    enum harness_launcher launcher; /* proc: who starts them */
    bool is_time_enforced;          /* judge within_ms on real time too */
    bool is_bare;                   /* no hashing, no oracles: `ddprove train`, for timing */
};

/* Run and judge. *out_verdict: the verdict.json object, owned by the caller; also written to
 * run_dir. Errors are the harness's own (outcome ERROR); the object is made even then. */
DDP_MUST_USE ddp_status harness_cell_run(const struct harness_plan *plan,
                                         const struct harness_cell_config *config,
                                         json_t **out_verdict, struct ddp_err *err);

/* The verdict.json object of a cell that nobody judged: ERROR or SKIP, and why. */
json_t *harness_cell_unjudged(const struct harness_plan *plan,
                              const struct harness_cell_config *config,
                              enum harness_outcome outcome, const char *reason);

/* Judge a recorded run again from its folder's plan.yaml and trace.txt; is_time_enforced as in the
 * config of the run. */
DDP_MUST_USE ddp_status harness_cell_check(const char *run_dir, bool is_time_enforced,
                                           json_t **out_verdict, struct ddp_err *err);

/* Add what a recorded run shows of the moment of the first diagnosis: faults that fired, what the
 * monitor saw (graph.txt), the last events before it. Of a run without graph.txt, what trace.txt
 * alone tells of each rank: its place, whom its open operation needs, its last events. */
DDP_MUST_USE ddp_status harness_cell_explain(const char *run_dir, struct ddp_text *out,
                                             struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
