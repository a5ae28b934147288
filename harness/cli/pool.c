/* Worker processes. A worker runs one cell, writes verdict.json into its run folder and exits; the
 * parent reads that file. A worker ends with its parent (PR_SET_PDEATHSIG), and ranks end with the
 * worker. Signals are blocked except while the parent waits for them, so that none is missed. */
#include "harness/cli/pool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/report/report.h"

/* If a cell takes longer than this, the harness itself hangs. */
#define TASK_SECONDS_MAX 600
/* An interrupted worker that is not gone after this is killed; its ranks die with it. */
#define END_GRACE_NS (5 * DDP_NS_PER_S)
/* A cell that takes this long is named in the progress line. */
#define SLOW_NS (3 * DDP_NS_PER_S)

struct pool {
    struct cli_task *tasks;
    size_t task_count;
    size_t next; /* the first task that was not begun; task_count: begin no more */
    size_t running;
    unsigned jobs;
    sigset_t interrupts;
    sigset_t awaited; /* those and SIGCHLD; blocked outside of waits */
    sigset_t old_mask;
};

/* Wait for SIGCHLD, and for interrupting signals except those that this process inherited as
 * ignored (nohup, background jobs of a shell). */
static void open_signals(struct pool *pool)
{
    static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};

    (void)sigemptyset(&pool->interrupts);
    (void)sigemptyset(&pool->awaited);
    (void)sigaddset(&pool->awaited, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof interrupts / sizeof interrupts[0]; i++) {
        struct sigaction action;

        if (sigaction(interrupts[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            (void)sigaddset(&pool->interrupts, interrupts[i]);
            (void)sigaddset(&pool->awaited, interrupts[i]);
        }
    }
    (void)sigprocmask(SIG_BLOCK, &pool->awaited, &pool->old_mask);
}

static char *verdict_path(const struct cli_task *task, struct ddp_text *out)
{
    ddp_text_init(out, ddp_mem_system());
    ddp_text_add(out, "%s/verdict.json", task->run_dir);
    return out->data;
}

/* In memory; then nothing but the verdict is written. False: it did not pass, and is to be run
 * again for its files. */
static bool run_unkept(const struct cli_task *task)
{
    struct harness_cell_config config = task->config;
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    bool is_done = false;

    if (ddp_files_memory_create(&config.memory) != DDP_OK) {
        return false;
    }
    config.run_dir = "run";
    if (harness_cell_run(task->plan, &config, &verdict, &err) == DDP_OK &&
        harness_report_outcome(verdict) == HARNESS_OUTCOME_PASS) {
        char *text = json_dumps(verdict, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        struct ddp_text path;

        is_done = text != NULL && ddp_files_make_dirs(task->run_dir, &err) == DDP_OK &&
                  verdict_path(task, &path) != NULL;
        if (is_done) {
            is_done = ddp_files_write_atomic(ddp_files_unsynced(), ddp_text_str(&path), text,
                                             strlen(text), &err) == DDP_OK;
            ddp_text_fini(&path);
        }
        free(text);
    }
    json_decref(verdict);
    ddp_files_memory_destroy(config.memory);
    return is_done;
}

static void worker(const struct pool *pool, const struct cli_task *task, pid_t parent)
{
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    ddp_status status;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(3);
    }
    /* Ctrl-C signals the whole foreground group; the parent alone handles it. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &pool->old_mask, NULL);
    (void)alarm(TASK_SECONDS_MAX);
    if (task->is_kept_failed && task->config.driver == HARNESS_DRIVER_SIM && run_unkept(task)) {
        exit(0);
    }
    status = harness_cell_run(task->plan, &task->config, &verdict, &err);
    json_decref(verdict);
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s: %s\n", task->plan->id,
                      err.text[0] != '\0' ? err.text : ddp_status_text(status));
    }
    (void)fflush(NULL);
    exit(0);
}

static json_t *error_verdict(const struct cli_task *task, const char *text)
{
    return harness_cell_unjudged(task->plan, &task->config, HARNESS_OUTCOME_ERROR, text);
}

/* False: nothing was started, and the task has its verdict. */
static bool start(const struct pool *pool, struct cli_task *task)
{
    pid_t parent = getpid();

    if (task->verdict != NULL) {
        return false;
    }
    (void)fflush(NULL);
    task->started_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    task->pid = fork();
    if (task->pid == 0) {
        worker(pool, task, parent);
    }
    if (task->pid < 0) {
        task->verdict = error_verdict(task, "fork failed");
        task->pid = 0;
    }
    return task->pid > 0;
}

/* The worker has ended: fetch its verdict. */
static void finish(struct cli_task *task, int wait_status)
{
    struct ddp_text path;
    char text[128];
    json_error_t error;
    uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());

    if (verdict_path(task, &path) != NULL) {
        task->verdict = json_load_file(path.data, 0, &error);
    }
    ddp_text_fini(&path);
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

/* The signal that asks us to end, or 0; sleeps until it or SIGCHLD comes if is_waiting, a second at
 * most. */
static int take_interrupt(const struct pool *pool, bool is_waiting)
{
    const struct timespec now = {0, 0};
    const struct timespec second = {1, 0};
    int got = is_waiting ? sigtimedwait(&pool->awaited, NULL, &second)
                         : sigtimedwait(&pool->interrupts, NULL, &now);

    return got > 0 && got != SIGCHLD ? got : 0;
}

/* A task whose worker has ended, if there is one. */
static struct cli_task *reap(const struct pool *pool)
{
    int wait_status;
    pid_t pid = waitpid(-1, &wait_status, WNOHANG);

    for (size_t i = 0; pid > 0 && i < pool->task_count; i++) {
        if (pool->tasks[i].pid == pid) {
            finish(&pool->tasks[i], wait_status);
            return &pool->tasks[i];
        }
    }
    return NULL;
}

static void tell_slow(const struct pool *pool, const struct cli_pool_events *events, void *context)
{
    uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    const struct cli_task *longest = NULL;

    for (size_t i = 0; i < pool->task_count; i++) {
        const struct cli_task *task = &pool->tasks[i];

        if (task->pid > 0 && (longest == NULL || task->started_ns < longest->started_ns)) {
            longest = task;
        }
    }
    if (events->slow != NULL && longest != NULL && now_ns - longest->started_ns >= SLOW_NS) {
        events->slow(context, longest, now_ns - longest->started_ns);
    }
}

static void signal_workers(const struct pool *pool, int signal_number)
{
    for (size_t i = 0; i < pool->task_count; i++) {
        if (pool->tasks[i].pid > 0) {
            (void)kill(pool->tasks[i].pid, signal_number);
        }
    }
}

/* Ask the workers to end (their drivers end the ranks), and wait for them. */
static void end_workers(struct pool *pool)
{
    const struct timespec slice = {0, 50 * (long)DDP_NS_PER_MS};
    uint64_t end_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), END_GRACE_NS);
    sigset_t child;

    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    signal_workers(pool, SIGTERM);
    while (pool->running > 0) {
        struct cli_task *ended = reap(pool);

        if (ended != NULL) {
            ended->is_interrupted = true;
            pool->running--;
            continue;
        }
        if (ddp_clock_now_ns(ddp_clock_monotonic()) >= end_ns) {
            signal_workers(pool, SIGKILL);
        }
        (void)sigtimedwait(&child, NULL, &slice);
    }
}

/* Begin a task if there is room for it, else take one whose worker has ended. NULL: no task has its
 * verdict now; *out_is_idle: nor was one begun. */
static struct cli_task *advance(struct pool *pool, bool *out_is_idle)
{
    struct cli_task *task;

    *out_is_idle = false;
    if (pool->next < pool->task_count && pool->running < pool->jobs) {
        task = &pool->tasks[pool->next++];
        if (!start(pool, task)) {
            return task;
        }
        pool->running++;
        return NULL;
    }
    task = reap(pool);
    if (task != NULL) {
        pool->running--;
    }
    *out_is_idle = task == NULL;
    return task;
}

ddp_status cli_pool_clear(const struct cli_task *tasks, size_t task_count, struct ddp_err *err)
{
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i].verdict == NULL) {
            DDP_TRY(harness_cell_clear(tasks[i].run_dir, err));
        }
    }
    return DDP_OK;
}

int cli_pool_run(struct cli_task *tasks, size_t task_count, unsigned jobs,
                 const struct cli_pool_events *events, void *context)
{
    struct pool pool = {.tasks = tasks, .task_count = task_count, .jobs = jobs};
    int interrupt = 0;

    open_signals(&pool);
    while (interrupt == 0 && (pool.next < task_count || pool.running > 0)) {
        bool is_idle;
        struct cli_task *ended = advance(&pool, &is_idle);

        if (is_idle) {
            interrupt = take_interrupt(&pool, true);
            tell_slow(&pool, events, context);
        }
        interrupt = interrupt != 0 ? interrupt : take_interrupt(&pool, false);
        if (ended != NULL && interrupt == 0 && !events->done(context, ended)) {
            pool.next = task_count; /* what runs already goes on to its end */
        }
    }
    if (interrupt != 0) {
        end_workers(&pool);
    }
    (void)sigprocmask(SIG_SETMASK, &pool.old_mask, NULL);
    return interrupt;
}
