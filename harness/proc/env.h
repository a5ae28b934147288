/* The environment of a process about to be started, and starting a rank with one. Internal to the
 * proc driver. */
#ifndef HARNESS_PROC_ENV_H
#define HARNESS_PROC_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "harness/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Variables through which a rank is told what torchrun's do not say. */
#define HARNESS_PROC_ENV_PARENT "DDPROVE_PARENT_PID" /* the process that a rank dies with */
/* "pid/memory/words": the launcher, its descriptors of the job's memory and of the pipe for words
 * from guards. Set: `rank` is to be a guard; empty: it is a rank. */
#define HARNESS_PROC_ENV_GUARD "DDPROVE_GUARD"

/* An environment being put together: ours first, then what we have ourselves. */
struct harness_proc_env {
    struct ddp_mem *mem;
    char **items; /* NULL-terminated */
    size_t count, capacity;
    size_t own_count; /* the first ones are ours */
    bool is_failed;
};
DDP_MUST_USE ddp_status harness_proc_env_init(struct harness_proc_env *env, struct ddp_mem *mem);
/* Add "NAME=value". mem is a pool: there is no _fini. */
void harness_proc_env_add(struct harness_proc_env *env, const char *format, ...) DDP_PRINTF(2, 3);
/* What every rank is told, whoever starts it: the store, the plan, the run's options. */
void harness_proc_env_add_job(struct harness_proc_env *env,
                              const struct harness_launch_config *config, uint16_t store_port);
/* Add our own variables, except those that were added and those for which is_dropped (may be NULL)
 * is true; it is given "NAME=value". */
DDP_MUST_USE ddp_status harness_proc_env_inherit(struct harness_proc_env *env,
                                                 bool (*is_dropped)(const char *item),
                                                 struct ddp_err *err);

/* Start "PATH rank" in a process group of its own, its output in run_dir/rank<N>.log, the job's
 * memory as HARNESS_PROC_JOB_FD. Returns an errno value. */
int harness_proc_rank_spawn(const char *path, char **environment, const char *run_dir,
                            uint32_t rank, int job_fd, pid_t *out_pid);

#ifdef __cplusplus
}
#endif
#endif
