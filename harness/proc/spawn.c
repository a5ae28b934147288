/* The own launcher: every rank is a child of this process, which waits for it. A rank asks the
 * kernel itself to die with its launcher. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/proc/env.h"
#include "harness/proc/job.h"

/* torchrun's contract, then what harness_launch_rank_main reads, then ours unless replaced. */
static ddp_status spawn_rank(struct proc_job *job, uint32_t rank)
{
    const struct harness_launch_config *config = job->config;
    struct proc_env env;
    int error;

    DDP_TRY(proc_env_init(&env, ddp_mem_pool_mem(job->pool)));
    proc_env_add(&env, "RANK=%" PRIu32, rank);
    proc_env_add(&env, "LOCAL_RANK=%" PRIu32, rank);
    proc_env_add(&env, "WORLD_SIZE=%" PRIu32, job->world_size);
    proc_env_add(&env, "LOCAL_WORLD_SIZE=%" PRIu32, job->world_size);
    proc_env_add(&env, PROC_ENV_PARENT "=%ld", (long)getpid());
    proc_env_add(&env, PROC_ENV_GUARD "=");
    proc_env_add_job(&env, config, job->store_port);
    DDP_TRY(proc_env_inherit(&env, NULL, job->err));
    error = proc_rank_spawn(config->self_path, env.items, config->rank.run_dir, rank, job->job_fd,
                            &job->ranks[rank].pid);
    if (error != 0) {
        job->ranks[rank].pid = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "rank %" PRIu32 " cannot be started from %s: %s",
                           rank, config->self_path, strerror(error));
    }
    return DDP_OK;
}

static ddp_status own_start(struct proc_job *job)
{
    for (uint32_t r = 0; r < job->world_size; r++) {
        DDP_TRY(spawn_rank(job, r));
        DDP_TRY(proc_loop_note_birth(job, r));
    }
    return DDP_OK;
}

static ddp_status own_look(struct proc_job *job, bool *out_is_news)
{
    *out_is_news = false;
    for (uint32_t r = 0; r < job->world_size; r++) {
        siginfo_t info;

        while (proc_rank_is_alive(&job->ranks[r])) {
            memset(&info, 0, sizeof(info));
            if (waitid(P_PID, (id_t)job->ranks[r].pid, &info,
                       WEXITED | WSTOPPED | WCONTINUED | WNOHANG) != 0 ||
                info.si_pid == 0) {
                break;
            }
            proc_loop_note(job, r, info.si_code, info.si_status);
            *out_is_news = true;
        }
    }
    return DDP_OK;
}

static void own_close(struct proc_job *job)
{
    (void)job; /* its ranks are reaped, and it has nothing else */
}

const struct proc_starter *proc_starter_own(void)
{
    static const struct proc_starter starter = {
        .start = own_start, .look = own_look, .close = own_close};

    return &starter;
}
