/* Starting ranks: torchrun's environment plus the job's own, the job's memory as descriptor 3, a
 * process group each, a log each. A rank asks the kernel itself to die with its launcher. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/launch/proc_job.h"

enum { ENV_OWN_MAX = 24 };

/* An environment being put together. */
struct environment {
    struct ddp_mem *mem;
    char **items; /* NULL-terminated */
    size_t count;
    size_t own_count; /* the first ones are ours */
    bool is_failed;
};

static void env_add(struct environment *env, const char *format, ...) DDP_PRINTF(2, 3);

static void env_add(struct environment *env, const char *format, ...)
{
    struct ddp_text text;
    va_list args;
    char line[4352]; /* a path and its name */

    va_start(args, format);
    if (vsnprintf(line, sizeof(line), format, args) >= (int)sizeof(line)) {
        env->is_failed = true;
    }
    va_end(args);
    ddp_text_init(&text, env->mem);
    ddp_text_add(&text, "%s", line);
    env->is_failed = env->is_failed || text.is_failed;
    env->items[env->count++] = text.data;
    env->own_count = env->count;
}

static bool is_own(const struct environment *env, const char *item)
{
    size_t size = strcspn(item, "=");

    for (size_t i = 0; i < env->own_count; i++) {
        if (env->items[i] != NULL && strncmp(env->items[i], item, size + 1) == 0) {
            return true;
        }
    }
    return false;
}

/* torchrun's contract, then what harness_launch_rank_main reads, then ours unless replaced. */
static ddp_status make_environment(struct proc_job *job, uint32_t rank, char ***out)
{
    const struct harness_rank_options *options = &job->config->rank;
    struct environment env = {.mem = ddp_mem_pool_mem(job->pool)};
    size_t inherited = 0;

    while (environ[inherited] != NULL) {
        inherited++;
    }
    env.items = ddp_mem_array(env.mem, inherited + ENV_OWN_MAX + 1, sizeof(*env.items));
    if (env.items == NULL) {
        return DDP_E_NOMEM;
    }
    env_add(&env, "RANK=%" PRIu32, rank);
    env_add(&env, "LOCAL_RANK=%" PRIu32, rank);
    env_add(&env, "WORLD_SIZE=%" PRIu32, job->world_size);
    env_add(&env, "LOCAL_WORLD_SIZE=%" PRIu32, job->world_size);
    env_add(&env, "MASTER_ADDR=127.0.0.1");
    env_add(&env, "MASTER_PORT=%u", (unsigned)job->store_port);
    env_add(&env, "TORCHELASTIC_USE_AGENT_STORE=True");
    env_add(&env, "OPENBLAS_NUM_THREADS=1");
    env_add(&env, "DDPROVE_LAUNCHER_PID=%ld", (long)getpid());
    env_add(&env, "DDPROVE_PLAN=%s", job->config->plan_path);
    env_add(&env, "DDPROVE_RUN_DIR=%s", options->run_dir);
    env_add(&env, "DDPROVE_CHECKPOINT=%s",
            options->checkpoint_path != NULL ? options->checkpoint_path : "");
    env_add(&env, "DDPROVE_HASHING=%d", options->is_hashing ? 1 : 0);
    env_add(&env, "DDPROVE_RESTORING=%d", options->is_restoring ? 1 : 0);
    env_add(&env, "DDPROVE_PAYLOAD_STEP=%" PRId64, options->payload_step);
    env_add(&env, "DDPROVE_PROGRAM_HASH=%" PRIu64, job->config->program->hash);
    DDP_ASSERT(env.count <= ENV_OWN_MAX);
    if (env.is_failed) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < inherited; i++) {
        if (!is_own(&env, environ[i])) {
            env.items[env.count++] = environ[i];
        }
    }
    *out = env.items;
    return DDP_OK;
}

/* Returns an errno value. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;
    int error;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    error = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF);
    error = error != 0 ? error : posix_spawnattr_setpgroup(attributes, 0);
    error = error != 0 ? error : posix_spawnattr_setsigmask(attributes, &none);
    return error != 0 ? error : posix_spawnattr_setsigdefault(attributes, &all);
}

/* Returns an errno value. */
static int set_files(posix_spawn_file_actions_t *files, const struct proc_job *job,
                     const char *log_path)
{
    int error = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);

    error = error != 0 ? error
                       : posix_spawn_file_actions_addopen(files, 1, log_path,
                                                          O_WRONLY | O_CREAT | O_TRUNC, 0644);
    error = error != 0 ? error : posix_spawn_file_actions_adddup2(files, 1, 2);
    return error != 0 ? error : posix_spawn_file_actions_adddup2(files, job->job_fd, PROC_JOB_FD);
}

static ddp_status spawn_rank(struct proc_job *job, uint32_t rank)
{
    char name[] = "ddprove";
    char command[] = "rank";
    char *argv[] = {name, command, NULL};
    char log_path[4352];
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    char **environment;
    int error;

    DDP_TRY(make_environment(job, rank, &environment));
    (void)snprintf(log_path, sizeof(log_path), "%s/rank%" PRIu32 ".log", job->config->rank.run_dir,
                   rank);
    if (posix_spawn_file_actions_init(&files) != 0) {
        return DDP_E_NOMEM;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return DDP_E_NOMEM;
    }
    error = set_attributes(&attributes);
    error = error != 0 ? error : set_files(&files, job, log_path);
    error = error != 0 ? error
                       : posix_spawn(&job->ranks[rank].pid, job->config->self_path, &files,
                                     &attributes, argv, environment);
    (void)posix_spawnattr_destroy(&attributes);
    (void)posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
        job->ranks[rank].pid = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "rank %" PRIu32 " cannot be started from %s: %s",
                           rank, job->config->self_path, strerror(error));
    }
    return DDP_OK;
}

ddp_status proc_job_spawn(struct proc_job *job)
{
    for (uint32_t r = 0; r < job->world_size; r++) {
        struct proc_rank *rank = &job->ranks[r];

        DDP_TRY(spawn_rank(job, r));
        job->alive_count++;
        rank->process =
            (struct harness_process){HARNESS_PROCESS_RUNNING, 0, ddp_clock_now_ns(job->clock)};
        proc_state_store(&job->head->states[r], &rank->process);
        rank->pid_fd = (int)syscall(SYS_pidfd_open, rank->pid, 0);
        if (rank->pid_fd < 0) {
            return ddp_err_set(job->err, DDP_E_SYSTEM, "pidfd_open: %s", strerror(errno));
        }
        DDP_TRY(proc_loop_add(job, rank->pid_fd));
    }
    return DDP_OK;
}
