/* The environment for a process that is to be started, and starting a rank with it. Internal to the
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

/* Variables for a rank, in addition to torchrun's. */
#define HARNESS_PROC_ENV_PARENT "DDPROVE_PARENT_PID" /* when this process ends, the rank ends */
/* "pid/memory/pipe": the launcher, and its descriptors of the job's memory and of the pipe for
 * reports from guards. Set: `rank` is to be a guard; empty: it is a rank. */
#define HARNESS_PROC_ENV_GUARD "DDPROVE_GUARD"

/* An environment: first the variables that are added, then those of this process. */
struct harness_proc_env {
    struct ddp_mem *mem;
    char **items; /* NULL-terminated */
    size_t count, capacity;
    size_t own_count; /* the first ones are added */
    bool is_failed;
};
DDP_MUST_USE ddp_status harness_proc_env_init(struct harness_proc_env *env, struct ddp_mem *mem);
/* Add "NAME=value". mem is a pool: there is no _fini. */
void harness_proc_env_add(struct harness_proc_env *env, const char *format, ...) DDP_PRINTF(2, 3);
/* Add what every rank needs, whoever starts it: the store, the plan, the run's options. */
void harness_proc_env_add_job(struct harness_proc_env *env,
                              const struct harness_launch_config *config, uint16_t store_port);
/* Add the variables of this process, except those that are there already and those for which
 * is_dropped (may be NULL) is true; it is given "NAME=value". */
DDP_MUST_USE ddp_status harness_proc_env_inherit(struct harness_proc_env *env,
                                                 bool (*is_dropped)(const char *item),
                                                 struct ddp_err *err);

/* Start "PATH rank" in a process group of its own, its output in run_dir/rank<N>.log, the job's
 * memory as HARNESS_PROC_JOB_FD. Returns an errno value. */
int harness_proc_rank_spawn(const char *path, char **environment, const char *run_dir,
                            uint32_t rank, int job_fd, pid_t *out_pid);

/* getenv, as ddp_rendezvous_parse takes it. */
const char *harness_proc_env_lookup(void *context, const char *name);

#ifdef __cplusplus
}
#endif
#endif
