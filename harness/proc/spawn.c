/* Our own launcher: every rank is a child of this process. A rank itself asks the kernel to end it
 * when its launcher ends. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/inject/inject.h"
#include "harness/proc/env.h"
#include "harness/proc/job.h"

/* In front of what this process was started with. */
static void add_preload(struct harness_proc_env *env, const char *path)
{
    const char *inherited = harness_proc_env_lookup(NULL, "LD_PRELOAD");

    if (path != NULL) {
        harness_proc_env_add(env, "LD_PRELOAD=%s%s%s", path, inherited != NULL ? " " : "",
                             inherited != NULL ? inherited : "");
    }
}

/* The rank's environment: torchrun's variables, those that harness_proc_rank_main reads, and those
 * of this process. */
static ddp_status spawn_rank(struct harness_proc_job *job, uint32_t rank)
{
    const struct harness_launch_config *config = job->config;
    struct harness_proc_env env;
    int error;

    DDP_TRY(harness_proc_env_init(&env, ddp_mem_pool_mem(job->pool)));
    harness_proc_env_add(&env, "RANK=%" PRIu32, rank);
    harness_proc_env_add(&env, "LOCAL_RANK=%" PRIu32, rank);
    harness_proc_env_add(&env, "WORLD_SIZE=%" PRIu32, job->world_size);
    harness_proc_env_add(&env, "LOCAL_WORLD_SIZE=%" PRIu32, job->world_size);
    harness_proc_env_add(&env, HARNESS_PROC_ENV_PARENT "=%ld", (long)getpid());
    harness_proc_env_add(&env, HARNESS_PROC_ENV_GUARD "=");
    harness_proc_env_add_job(&env, config, job->store_port);
    add_preload(&env, harness_inject_preload(config->plan, rank));
    DDP_TRY(harness_proc_env_inherit(&env, NULL, job->err));
    error = harness_proc_rank_spawn(config->self_path, env.items, config->rank.run_dir, rank,
                                    job->job_fd, &job->ranks[rank].pid);
    if (error != 0) {
        job->ranks[rank].pid = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "rank %" PRIu32 " cannot be started from %s: %s",
                           rank, config->self_path, strerror(error));
    }
    return DDP_OK;
}

static ddp_status own_start(struct harness_proc_job *job)
{
    for (uint32_t r = 0; r < job->world_size; r++) {
        DDP_TRY(spawn_rank(job, r));
        DDP_TRY(harness_proc_loop_note_start(job, r));
    }
    return DDP_OK;
}

static ddp_status own_poll(struct harness_proc_job *job, bool *out_has_events)
{
    *out_has_events = false;
    for (uint32_t r = 0; r < job->world_size; r++) {
        siginfo_t info;

        while (harness_proc_rank_is_alive(&job->ranks[r])) {
            memset(&info, 0, sizeof(info));
            if (waitid(P_PID, (id_t)job->ranks[r].pid, &info,
                       WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
                info.si_pid == 0) {
                break;
            }
            harness_proc_loop_note_change(job, r, info.si_code, info.si_status);
            *out_has_events = true;
        }
    }
    return DDP_OK;
}

static void own_close(struct harness_proc_job *job)
{
    (void)job; /* its ranks are reaped, and there is nothing else */
}

const struct harness_proc_starter *harness_proc_starter_own(void)
{
    static const struct harness_proc_starter starter = {
        .start = own_start, .poll = own_poll, .close = own_close};

    return &starter;
}
