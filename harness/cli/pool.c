/* Worker processes. A worker runs one cell, writes verdict.json into its run folder and exits; the
 * parent reads that file. A worker dies with its parent (PR_SET_PDEATHSIG), ranks die with it. */
#include "harness/cli/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"

/* A cell that takes longer than this has a harness that hangs. */
#define TASK_SECONDS_MAX 600

static volatile sig_atomic_t interrupted_by;

static void on_signal(int signal_number)
{
    interrupted_by = signal_number;
}

static void worker(const struct cli_task *task, pid_t parent)
{
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    ddp_status status;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(3);
    }
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)alarm(TASK_SECONDS_MAX);
    status = harness_cell_run(task->plan, &task->config, &verdict, &err);
    json_decref(verdict);
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s: %s\n", task->plan->id, err.text);
    }
    (void)fflush(NULL);
    exit(0);
}

static bool start(struct cli_task *task)
{
    pid_t parent = getpid();
    char path[4096];

    /* An old verdict must not be taken for this run's. */
    (void)snprintf(path, sizeof path, "%s/verdict.json", task->run_dir);
    (void)unlink(path);
    (void)fflush(NULL);
    task->started_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    task->pid = fork();
    if (task->pid == 0) {
        worker(task, parent);
    }
    return task->pid > 0;
}

static json_t *error_verdict(const struct cli_task *task, const char *text)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "schema",
                     "ddprove.verdict/1", "id", task->plan->id, "cell", task->plan->cell, "driver",
                     harness_driver_name(task->config.driver), "outcome", "ERROR", "verdict",
                     "NONE", "reason", text, "seed", (json_int_t)task->config.seed, "run_dir",
                     task->run_dir, "reproduce", task->plan->file);
}

/* The worker has ended: fetch its verdict. */
static void finish(struct cli_task *task, int wait_status)
{
    char path[4096];
    char text[128];
    json_error_t error;
    uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());

    (void)snprintf(path, sizeof path, "%s/verdict.json", task->run_dir);
    task->verdict = json_load_file(path, 0, &error);
    if (WIFSIGNALED(wait_status)) {
        (void)snprintf(text, sizeof text, "the harness itself ended by signal %d (%s)",
                       WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
        json_decref(task->verdict);
        task->verdict = error_verdict(task, text);
    } else if (task->verdict == NULL) {
        task->verdict = error_verdict(task, "the harness wrote no verdict");
    }
    (void)json_object_set_new(task->verdict, "wall_ms",
                              json_real((double)(now_ns - task->started_ns) / 1e6));
    task->pid = 0;
}

static struct cli_task *reap(struct cli_task *tasks, size_t task_count)
{
    int wait_status;
    pid_t pid = waitpid(-1, &wait_status, 0);

    for (size_t i = 0; pid > 0 && i < task_count; i++) {
        if (tasks[i].pid == pid) {
            finish(&tasks[i], wait_status);
            return &tasks[i];
        }
    }
    return NULL;
}

/* Ask the workers to end (their drivers end the ranks), and wait for them. */
static void end_workers(struct cli_task *tasks, size_t task_count)
{
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i].pid > 0) {
            (void)kill(tasks[i].pid, SIGTERM);
        }
    }
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i].pid > 0) {
            (void)waitpid(tasks[i].pid, NULL, 0);
            tasks[i].pid = 0;
        }
    }
}

int cli_pool_run(struct cli_task *tasks, size_t task_count, unsigned jobs, cli_task_done_fn *done,
                 void *context)
{
    struct sigaction action;
    size_t next = 0;
    size_t running = 0;

    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    interrupted_by = 0;
    while (interrupted_by == 0 && (next < task_count || running > 0)) {
        struct cli_task *ended;

        if (next < task_count && running < jobs) {
            if (start(&tasks[next])) {
                running++;
            } else {
                tasks[next].verdict = error_verdict(&tasks[next], "fork failed");
                done(context, &tasks[next]);
            }
            next++;
            continue;
        }
        ended = reap(tasks, task_count);
        if (ended != NULL) {
            running--;
            done(context, ended);
        }
    }
    if (interrupted_by != 0) {
        end_workers(tasks, task_count);
    }
    return interrupted_by;
}
