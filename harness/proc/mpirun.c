/* mpirun as launcher: starting it, and reaping it. It starts one guard a rank; guards open what
 * they need of this process through /proc, because mpirun passes no descriptors on. mpirun's own
 * files lie in the run folder. */
#include "harness/proc/mpirun.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/mpi.h"
#include "harness/proc/env.h"

enum { POKE_MS = 20, GUARD_GRACE_MS = 1000, CLEANER_GRACE_MS = 4000 };
/* How long mpirun may take to end by itself, and then to end after SIGTERM. */
static const uint64_t close_grace_ns = 3 * DDP_NS_PER_S;
static const uint64_t term_grace_ns = 3 * DDP_NS_PER_S;
/* How long processes of a rank's group may take to end after the rank. */
static const uint64_t group_grace_ns = 100 * DDP_NS_PER_MS;

/* Variables that this process has if it is itself a rank of some launcher: torchrun's would take
 * precedence over mpirun's, and mpirun would take itself for a rank of another mpirun. */
static bool is_dropped(const char *item)
{
    static const char *const always[] = {
        "RANK=", "LOCAL_RANK=", "GROUP_RANK=", "WORLD_SIZE=", "LOCAL_WORLD_SIZE="};
    static const char *const nested[] = {"OMPI_", "PMIX_", "PMI_", "ORTE_", "PRTE_"};
    bool is_nested = getenv("PMIX_RANK") != NULL || getenv("OMPI_COMM_WORLD_RANK") != NULL;

    for (size_t i = 0; i < sizeof(always) / sizeof(always[0]); i++) {
        if (strncmp(item, always[i], strlen(always[i])) == 0) {
            return true;
        }
    }
    for (size_t i = 0; is_nested && i < sizeof(nested) / sizeof(nested[0]); i++) {
        if (strncmp(item, nested[i], strlen(nested[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* Variables that the user has set are kept. */
static void add_mpi_settings(struct harness_proc_env *env, const struct harness_proc_mpirun *mpirun)
{
    struct harness_mpi_setting settings[HARNESS_MPI_SETTINGS_MAX];

    harness_mpi_settings(mpirun->files_path, settings);
    for (size_t i = 0; i < HARNESS_MPI_SETTINGS_MAX; i++) {
        if (getenv(settings[i].name) == NULL) {
            harness_proc_env_add(env, "%s=%s", settings[i].name, settings[i].value);
        }
    }
}

static ddp_status make_environment(struct harness_proc_job *job, char ***out)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    struct harness_proc_env env;

    DDP_TRY(harness_proc_env_init(&env, ddp_mem_pool_mem(job->pool)));
    harness_proc_env_add_job(&env, job->config, job->store_port);
    harness_proc_env_add(&env, HARNESS_PROC_ENV_GUARD "=%ld/%d/%d", (long)getpid(), job->job_fd,
                         mpirun->pipe_fd[1]);
    /* Open MPI up to 4, and Open MPI from 5 on. */
    harness_proc_env_add(&env, "OMPI_MCA_orte_tmpdir_base=%s", mpirun->files_path);
    harness_proc_env_add(&env, "PRTE_MCA_prte_tmpdir_base=%s", mpirun->files_path);
    if (harness_plan_may_use_mpi(job->config->plan)) {
        add_mpi_settings(&env, mpirun);
    }
    if (geteuid() == 0) {
        harness_proc_env_add(&env, "OMPI_ALLOW_RUN_AS_ROOT=1");
        harness_proc_env_add(&env, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    DDP_TRY(harness_proc_env_inherit(&env, is_dropped, job->err));
    *out = env.items;
    return DDP_OK;
}

/* In the child: become mpirun, which ends with the launcher and starts with default signals. */
__attribute__((noreturn)) static void become_mpirun(char **argv, char **environment, int log_fd,
                                                    pid_t launcher)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;

    (void)setpgid(0, 0);
    for (int i = 1; i < NSIG; i++) {
        (void)signal(i, SIG_DFL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* On SIGTERM it ends its processes and removes its files. */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != launcher || dup2(null_fd, 0) < 0 || dup2(log_fd, 1) < 0 ||
        dup2(log_fd, 2) < 0) {
        _exit(127);
    }
    (void)execvpe(argv[0], argv, environment);
    (void)dprintf(2, "%s cannot be run: %s; install openmpi-bin\n", argv[0], strerror(errno));
    _exit(127);
}

/* --- the cleaner ------------------------------------------------------------------------------ */

/* In the child: wait for the death of the launcher, then for the end of mpirun, and remove the
 * files of both mpirun and the ranks, which cannot do so: they are killed, some while they make
 * these files. mpirun is known to hang now and then when it is ended while it starts its ranks. */
__attribute__((noreturn)) static void clean_after(pid_t launcher, pid_t mpirun, const char *files)
{
    struct pollfd watched = {.events = POLLIN};
    sigset_t order;
    int number;

    /* Whoever waits for the end of one of the launcher's descriptors must not wait for us. */
    (void)close_range(0, UINT_MAX, 0);
    watched.fd = (int)syscall(SYS_pidfd_open, mpirun, 0);
    (void)setpgid(0, 0);
    (void)sigemptyset(&order);
    (void)sigaddset(&order, SIGTERM);
    (void)sigprocmask(SIG_SETMASK, &order, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == launcher) {
        (void)sigwait(&order, &number);
    }
    if (watched.fd >= 0 && poll(&watched, 1, CLEANER_GRACE_MS) == 0) {
        (void)syscall(SYS_pidfd_send_signal, watched.fd, SIGKILL, NULL, 0);
        (void)poll(&watched, 1, -1);
    }
    /* Guards that have lost mpirun end their ranks within this time. */
    (void)poll(NULL, 0, GUARD_GRACE_MS);
    _exit(ddp_files_remove_tree(files, NULL) == DDP_OK ? 0 : 1);
}

static ddp_status start_cleaner(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    pid_t launcher = getpid();

    mpirun->cleaner = fork();
    if (mpirun->cleaner == 0) {
        clean_after(launcher, mpirun->pid, mpirun->files_path);
    }
    if (mpirun->cleaner < 0) {
        mpirun->cleaner = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "fork: %s", strerror(errno));
    }
    return DDP_OK;
}

static void stop_cleaner(struct harness_proc_mpirun *mpirun)
{
    siginfo_t info;

    if (mpirun->cleaner != 0) {
        (void)kill(mpirun->cleaner, SIGKILL);
        (void)waitid(P_PID, (id_t)mpirun->cleaner, &info, WEXITED);
        mpirun->cleaner = 0;
    }
}

/* --- start and close -------------------------------------------------------------------------- */

static ddp_status spawn(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    char np[16], host[32], program[] = "mpirun", np_option[] = "-np", host_option[] = "--host",
                           over[] = "--oversubscribe", bind[] = "--bind-to", bind_to[] = "none",
                           command[] = "rank";
    char *self = ddp_mem_strdup(ddp_mem_pool_mem(job->pool), job->config->self_path);
    char *argv[] = {program, np_option, np,   host_option, host, over,
                    bind,    bind_to,   self, command,     NULL};
    char **environment;
    pid_t launcher = getpid();
    int log_fd;

    if (self == NULL) {
        return DDP_E_NOMEM;
    }
    (void)snprintf(np, sizeof(np), "%" PRIu32, job->world_size);
    (void)snprintf(host, sizeof(host), "localhost:%" PRIu32, job->world_size);
    DDP_TRY(make_environment(job, &environment));
    log_fd = open(mpirun->log_path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "%s: %s", mpirun->log_path, strerror(errno));
    }
    mpirun->pid = fork();
    if (mpirun->pid == 0) {
        become_mpirun(argv, environment, log_fd, launcher);
    }
    (void)close(log_fd);
    if (mpirun->pid < 0) {
        mpirun->pid = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "fork of mpirun: %s", strerror(errno));
    }
    job->not_started_count = job->world_size;
    return DDP_OK;
}

/* mpirun's output, and the folder for its files. */
static ddp_status open_files(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    char *run_dir = realpath(job->config->rank.run_dir, NULL);
    int log_size, files_size;

    if (run_dir == NULL) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "%s: %s", job->config->rank.run_dir,
                           strerror(errno));
    }
    log_size = snprintf(mpirun->log_path, sizeof(mpirun->log_path), "%s/launcher.log", run_dir);
    files_size = snprintf(mpirun->files_path, sizeof(mpirun->files_path), "%s/mpirun", run_dir);
    free(run_dir);
    if (log_size >= (int)sizeof(mpirun->log_path) ||
        files_size >= (int)sizeof(mpirun->files_path)) {
        return ddp_err_set(job->err, DDP_E_INVALID, "the run folder's path is too long for mpirun");
    }
    DDP_TRY(ddp_files_remove_tree(mpirun->files_path, job->err));
    return ddp_files_make_dirs(mpirun->files_path, job->err);
}

static ddp_status mpirun_start(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = ddp_mem_array(job->mem, 1, sizeof(*mpirun));

    if (mpirun == NULL) {
        return DDP_E_NOMEM;
    }
    job->mpirun = mpirun;
    mpirun->pipe_fd[0] = -1;
    mpirun->pipe_fd[1] = -1;
    mpirun->guards = ddp_mem_array(job->mem, job->world_size, sizeof(*mpirun->guards));
    if (mpirun->guards == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < job->world_size; r++) {
        mpirun->guards[r].fd = -1;
    }
    /* If mpirun is killed, its guards become our children, and we reap them. */
    (void)prctl(PR_GET_CHILD_SUBREAPER, &mpirun->was_subreaper);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (pipe2(mpirun->pipe_fd, O_CLOEXEC | O_NONBLOCK) != 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "pipe of the guards: %s", strerror(errno));
    }
    DDP_TRY(harness_proc_loop_add(job, mpirun->pipe_fd[0]));
    DDP_TRY(open_files(job));
    DDP_TRY(spawn(job));
    return start_cleaner(job);
}

/* mpirun sleeps between the signals that it sends to a failed job; SIGCHLD ends such a sleep. */
static bool is_mpirun_ended_by(struct harness_proc_job *job, uint64_t end_ns)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;

    while (!harness_proc_mpirun_is_ended(mpirun) && ddp_clock_now_ns(job->clock) < end_ns) {
        (void)kill(mpirun->pid, SIGCHLD);
        (void)poll(NULL, 0, POKE_MS);
    }
    return mpirun->is_ended;
}

static void end_mpirun(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    uint64_t now_ns = ddp_clock_now_ns(job->clock);

    if (mpirun->pid == 0 || is_mpirun_ended_by(job, now_ns + close_grace_ns)) {
        return;
    }
    (void)kill(mpirun->pid, SIGTERM);
    if (!is_mpirun_ended_by(job, now_ns + close_grace_ns + term_grace_ns)) {
        (void)kill(mpirun->pid, SIGKILL);
        (void)is_mpirun_ended_by(job, DDP_DEADLINE_NEVER);
    }
}

/* Guards that are released, or have lost mpirun or the launcher, end by themselves. */
static void end_guards(struct harness_proc_job *job)
{
    for (uint32_t r = 0; r < job->world_size; r++) {
        struct harness_proc_mpirun_guard *guard = &job->mpirun->guards[r];
        struct pollfd watched = {.fd = guard->fd, .events = POLLIN};

        if (guard->fd < 0) {
            continue;
        }
        if (poll(&watched, 1, GUARD_GRACE_MS) == 0) {
            (void)syscall(SYS_pidfd_send_signal, guard->fd, SIGKILL, NULL, 0);
            (void)poll(&watched, 1, -1);
        }
        (void)close(guard->fd);
        guard->fd = -1;
    }
}

/* Reap processes that the rank started and that end with it, such as a sanitizer's leak checker.
 * The audit reports those that do not end. */
static void reap_group(struct harness_proc_job *job, pid_t leader, uint64_t end_ns)
{
    siginfo_t info;

    while (kill(-leader, 0) == 0) {
        info.si_pid = 0;
        if (waitid(P_PGID, (id_t)leader, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
            continue;
        }
        if (ddp_clock_now_ns(job->clock) >= end_ns) {
            return;
        }
        (void)poll(NULL, 0, 1);
    }
}

/* A guard reaps its rank, and mpirun its guards. If one of them was killed, it is done here. */
static void reap_orphans(struct harness_proc_job *job)
{
    uint64_t end_ns = ddp_clock_now_ns(job->clock) + group_grace_ns;
    siginfo_t info;

    for (uint32_t r = 0; r < job->world_size; r++) {
        pid_t guard_pid = job->mpirun->guards[r].pid;
        pid_t rank_pid = job->ranks[r].pid;

        if (guard_pid != 0) {
            (void)waitid(P_PID, (id_t)guard_pid, &info, WEXITED);
            if (!job->ranks[r].is_given_up) {
                (void)waitid(P_PID, (id_t)rank_pid, &info, WEXITED); /* it died with its guard */
            }
            reap_group(job, rank_pid, end_ns);
            reap_group(job, guard_pid, end_ns);
        }
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, job->mpirun->was_subreaper);
}

static void mpirun_close(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;

    if (mpirun == NULL) {
        return;
    }
    for (int i = 0; i < 2 && mpirun->pipe_fd[i] > 0; i++) {
        (void)close(mpirun->pipe_fd[i]);
    }
    if (mpirun->guards != NULL) {
        for (uint32_t r = 0; r < job->world_size; r++) {
            harness_proc_mpirun_release(mpirun, r);
        }
        end_guards(job);
        end_mpirun(job);
        reap_orphans(job);
    }
    stop_cleaner(mpirun);
    if (mpirun->files_path[0] != '\0') {
        (void)!ddp_files_remove_tree(mpirun->files_path, NULL);
    }
    ddp_mem_free(job->mem, mpirun->guards);
    ddp_mem_free(job->mem, mpirun);
    job->mpirun = NULL;
}

const struct harness_proc_starter *harness_proc_starter_mpirun(void)
{
    static const struct harness_proc_starter starter = {
        .start = mpirun_start, .poll = harness_proc_mpirun_poll, .close = mpirun_close};

    return &starter;
}
