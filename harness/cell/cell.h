/* One cell, from plan to verdict: the pipeline. Launch, trace, oracles, a replay with payloads if a
 * bucket differs, a restore run if the plan has one, the judge. The run folder holds what each step
 * passes to the next:
 *   plan.yaml program.txt schedules/ trace.txt trace.rank<N>.txt rank<N>.log verdict.json
 *   graph.txt   what the monitor saw when it first reported something, in words
 *   replay/     the run with payloads
 *   restore/    the restore run: the same files, and given.safetensors, the checkpoint it loads */
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
    uint64_t seed;       /* of the simulator's scheduler */
    const char *run_dir; /* made if missing; holds nothing of an earlier run */
    /* sim: files of this run alone, in memory. Then only what its own stages read again is
     * written, and no record is kept: no plan, program, trace or verdict. NULL: run_dir lies with
     * the operating system. */
    struct ddp_files_memory *memory;
    /* What may be found instead of plan.expect: judged by the first of all these that passes. */
    const struct harness_expect *alternatives;
    size_t alternative_count;
    const char *self_path;          /* executable to start ranks from */
    enum harness_launcher launcher; /* proc: who starts them */
    bool is_time_enforced;          /* judge within_ms on real time too */
    bool is_bare;                   /* no hashing, no oracles: `ddprove train`, for timing */
};

/* Remove what an earlier run left in a folder, and nothing else: none of it may be taken for the
 * next run's. A folder that does not exist is fine. Errors: E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_cell_clear(const char *run_dir, struct ddp_err *err);

/* Run and judge. *out_verdict: the verdict.json object, owned by the caller; also written to
 * run_dir. Errors are the harness's own (outcome ERROR); the object is made even then. */
DDP_MUST_USE ddp_status harness_cell_run(const struct harness_plan *plan,
                                         const struct harness_cell_config *config,
                                         json_t **out_verdict, struct ddp_err *err);

/* The plan's job without ranks, for timing: the global batch on one device, or DataParallel
 * (reference/data_parallel.h) with as many devices as the plan has ranks. Nothing is judged. */
enum { HARNESS_PACE_DEVICES_MAX = 64 };
struct harness_pace {
    uint64_t ns;                                   /* of all steps */
    float loss;                                    /* of the last one */
    uint32_t device_count;                         /* DataParallel only, as what follows */
    size_t device_bytes[HARNESS_PACE_DEVICES_MAX]; /* of a device's tensors */
};
/* Errors: E_UNSUPPORTED (keys of the job that only ranks obey), E_STATE (the data ends too early),
 * and those of devices and trainers. */
DDP_MUST_USE ddp_status harness_cell_pace(const struct harness_plan *plan, bool is_single,
                                          struct harness_pace *out, struct ddp_err *err);
/* A line a bucket: its type, elements, bytes and parameters, in the order in which they are
 * reduced. */
DDP_MUST_USE ddp_status harness_cell_print_buckets(const struct harness_plan *plan,
                                                   struct ddp_text *out, struct ddp_err *err);

/* The verdict.json object of a cell that was not judged: ERROR or SKIP, and why. */
json_t *harness_cell_unjudged(const struct harness_plan *plan,
                              const struct harness_cell_config *config,
                              enum harness_outcome outcome, const char *reason);

/* Judge a recorded run again from its folder's plan.yaml and trace.txt; is_time_enforced as in the
 * config of the run. */
DDP_MUST_USE ddp_status harness_cell_check(const char *run_dir, bool is_time_enforced,
                                           json_t **out_verdict, struct ddp_err *err);

/* Try a plan in the simulator, without a folder and without judging: every fault must fire, and
 * every name that the plan expects must be one of the job's. A plan that the simulator does not run
 * is only asked for its names. out_key: the key of the scenario that is to blame, as "faults.0.at";
 * "" if none is. Errors: E_INVALID, those of the job's tables, E_NOMEM. */
#define HARNESS_BLAMED_KEY_BYTES 64
DDP_MUST_USE ddp_status harness_cell_rehearse(const struct harness_plan *plan,
                                              char out_key[HARNESS_BLAMED_KEY_BYTES],
                                              struct ddp_err *err);

/* Add what a recorded run looked like at its first diagnosis, or at its end: a table of its ranks.
 */
struct harness_diagnosis_options {
    const json_t *verdict; /* names culprits and victims */
    bool has_events; /* also faults that fired, what the monitor saw (graph.txt), the last events */
};
DDP_MUST_USE ddp_status
harness_cell_print_diagnosis(const char *run_dir, const struct harness_diagnosis_options *options,
                             struct ddp_text *out, struct ddp_err *err);

/* export.c: what a job starts from and what one device makes of it, into the folder dir, which is
 * made if need be. Errors: E_INVALID (a guest's job), those of the model, the data and the files.
 */
DDP_MUST_USE ddp_status harness_cell_export(const struct harness_plan *plan, const char *dir,
                                            struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
