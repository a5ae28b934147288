/* A rank's program: the reference model trained under DDP, straight-line code that runs as a real
 * process or as a fiber of the simulator. Everything it needs comes in through harness_rank_wiring;
 * everything it did is in its recorder. */
#ifndef HARNESS_RANK_RANK_H
#define HARNESS_RANK_RANK_H

#include "ddpcore/collective/collective.h"
#include "ddpcore/seam/env.h"
#include "ddpcore/store/store.h"
#include "ddpcore/transport/transport.h"
#include "harness/plan/plan.h"
#include "reference/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Payload capture: on a second run, the tensors whose hashes are recorded and wanted are kept as
 * files "<run_dir>/payload/<hash>", 16 hexadecimal digits. */
struct harness_rank_options {
    bool is_hashing;        /* record hashes of gradients, buckets, parameters (judged runs) */
    const uint64_t *wanted; /* [wanted_count], rising: hashes of the tensors to keep */
    size_t wanted_count;
    bool is_restoring;   /* start from the checkpoint in checkpoint_path */
    const char *run_dir; /* for schedules/ and payload/, which must exist; NULL: none kept */
    const char *checkpoint_path; /* read when restoring; else written, NULL = in run_dir */
    uint64_t program_hash;       /* announced in rank.begin; 0 = unknown */
    bool is_fast;                /* cuda: the fastest kernels, whose bits need not repeat */
    uint32_t card;               /* cuda: ordinal of this rank's card */
    bool has_threads;            /* the rank may start threads of its own */
    const char *cublas_path;     /* libraries to load; NULL: by their usual names */
    const char *nccl_path;
    const char *mpi_path;        /* of the module; NULL: this driver has none */
    const struct ref_data *data; /* the dataset, shared read-only; NULL: the rank opens its own */
};

/* Who is in a group, of whom env->rank is number `member`. */
struct harness_rank_members {
    const char *name;
    uint32_t member, count;
    const uint32_t *ranks; /* rising; NULL: all of the world */
};

/* How a rank reaches the others; supplied by the driver. */
struct harness_rank_wiring {
    void *context;
    /* Store of the job; called once. */
    ddp_status (*store)(void *context, struct ddp_env *env, uint64_t deadline_ns,
                        struct ddp_store **out, struct ddp_err *err);
    /* Transport endpoint of the whole world; called once, after the store. */
    ddp_status (*transport)(void *context, struct ddp_env *env, struct ddp_store *store,
                            uint64_t deadline_ns, struct ddp_transport **out, struct ddp_err *err);
    /* The same of a group of some ranks of the world; once for each name. */
    ddp_status (*members)(void *context, struct ddp_env *env, struct ddp_store *store,
                          const struct harness_rank_members *members, uint64_t deadline_ns,
                          struct ddp_transport **out, struct ddp_err *err);
    /* Open descriptors of the rank's process; NULL: it has none of its own. */
    uint64_t (*count_descriptors)(void);
};

/* Run to the end. Records rank.end itself. Returns the status that ended the job on this rank; err
 * says why for people. */
ddp_status harness_rank_run(struct ddp_env *env, const struct harness_plan *plan,
                            const struct harness_rank_options *options,
                            const struct harness_rank_wiring *wiring, struct ddp_err *err);

/* The plan's job in the reference's terms; arrays are borrowed from the plan. The dataset's size
 * and default widths (ref_model_defaults) are left to whoever opens the dataset. Errors:
 * E_NOT_FOUND with the known names. */
DDP_MUST_USE ddp_status harness_rank_job(const struct harness_plan *plan, struct ref_job *out,
                                         struct ddp_err *err);
/* How many samples the plan's dataset has; 0: it cannot be had. */
size_t harness_rank_sample_count(const struct harness_plan *plan);

/* The list of wanted hashes as a file, for ranks that are processes. read: a block of mem. */
DDP_MUST_USE ddp_status harness_wanted_write(const char *path, const uint64_t *wanted, size_t count,
                                             struct ddp_mem *mem, struct ddp_err *err);
DDP_MUST_USE ddp_status harness_wanted_read(const char *path, struct ddp_mem *mem, uint64_t **out,
                                            size_t *out_count, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
