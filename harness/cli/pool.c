/* Worker processes. A worker runs a batch of cells (one, if its ranks are processes), writes
 * verdict.json into the run folder of each, and exits; the parent reads those files. What a worker
 * has begun and ended stands in memory that both share, so that its death is the answer of the cell
 * that it was at, and of no other. A worker ends with its parent (PR_SET_PDEATHSIG), and ranks end
 * with the worker. Signals are blocked except while the parent waits for them, so that none is
 * missed. */
#include "harness/cli/pool.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/status.h"
#include "harness/report/report.h"

/* If a cell takes longer than this, the harness itself hangs. */
#define TASK_SECONDS_MAX 600
/* An interrupted worker that is not gone after this is killed; its ranks die with it. */
#define END_GRACE_NS (5 * DDP_NS_PER_S)
/* A cell that takes this long is named in the progress line. */
#define SLOW_NS (3 * DDP_NS_PER_S)
/* A simulated cell takes some milliseconds, of which a process of its own would be a third. */
#define BATCH_MAX 16

/* When a worker was at a task; 0: not yet. */
struct stamp {
    _Atomic uint64_t started_ns;
    _Atomic uint64_t ended_ns;
};

/* What workers and their parent share. */
struct board {
    _Atomic bool is_over; /* no other task is to be begun */
    struct stamp stamps[];
};

/* Tasks [first, over) are done and not handed out yet; [over, end) are still the worker's. */
struct worker {
    pid_t pid; /* 0: none runs */
    size_t first;
    size_t over;
    size_t end;
};

struct pool {
    struct cli_task *tasks;
    size_t task_count;
    size_t next; /* the first task that no worker was given; task_count: give out no more */
    struct worker *workers;
    unsigned jobs;
    size_t batch_max;
    struct board *board;
    size_t board_bytes;
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

static void run_task(const struct cli_task *task)
{
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    ddp_status status;

    if (task->is_kept_failed && task->config.driver == HARNESS_DRIVER_SIM && run_unkept(task)) {
        return;
    }
    status = harness_cell_run(task->plan, &task->config, &verdict, &err);
    json_decref(verdict);
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s: %s\n", task->plan->id,
                      err.text[0] != '\0' ? err.text : ddp_status_text(status));
    }
}

/* The process of a worker: its batch, as far as more is wanted. */
static void work(const struct pool *pool, const struct worker *worker, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(3);
    }
    /* Ctrl-C signals the whole foreground group; the parent alone handles it. */
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    (void)signal(SIGTERM, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &pool->old_mask, NULL);
    for (size_t i = worker->first; i < worker->end && !pool->board->is_over; i++) {
        struct stamp *stamp = &pool->board->stamps[i];

        stamp->started_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        (void)alarm(TASK_SECONDS_MAX);
        run_task(&pool->tasks[i]);
        stamp->ended_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    }
    (void)fflush(NULL);
    exit(0);
}

static json_t *error_verdict(const struct cli_task *task, const char *text)
{
    DDP_ASSERT(task != NULL);
    return harness_cell_unjudged(task->plan, &task->config, HARNESS_OUTCOME_ERROR, text);
}

/* How many tasks from `first` on the next worker gets: no more than leave some for all others. */
static size_t batch_end(const struct pool *pool, size_t first)
{
    size_t share = (pool->task_count - first) / ((size_t)4 * pool->jobs);
    size_t most = share < 1 ? 1 : share > pool->batch_max ? pool->batch_max : share;
    size_t end = first + 1;

    while (end < pool->task_count && end - first < most && pool->tasks[end].verdict == NULL &&
           pool->tasks[end].config.driver == HARNESS_DRIVER_SIM &&
           pool->tasks[first].config.driver == HARNESS_DRIVER_SIM) {
        end++;
    }
    return end;
}

/* Start a process for the tasks [first, end). Where that fails, the first of them has its verdict.
 */
static void start(struct pool *pool, struct worker *worker)
{
    pid_t parent = getpid();

    DDP_ASSERT(worker->pid == 0 && worker->first < worker->end);
    (void)fflush(NULL);
    worker->over = worker->first;
    worker->pid = fork();
    if (worker->pid == 0) {
        work(pool, worker, parent);
    }
    if (worker->pid < 0) {
        pool->tasks[worker->first].verdict =
            error_verdict(&pool->tasks[worker->first], "fork failed");
        worker->pid = 0;
        worker->over = worker->first + 1;
    }
}

static int remove_temporary(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    size_t size = strlen(path);

    (void)info;
    (void)walk;
    if (type == FTW_F && size > 4 && strcmp(path + size - 4, ".tmp") == 0) {
        (void)unlink(path);
    }
    return 0;
}

void cli_task_tidy(const struct cli_task *task)
{
    (void)nftw(task->run_dir, remove_temporary, 16, FTW_PHYS);
}

/* A task that its worker is no longer at: fetch its verdict. `ended_ns` is 0 if the worker ended
 * in the middle of it. */
static void finish(struct cli_task *task, uint64_t started_ns, uint64_t ended_ns, int wait_status)
{
    struct ddp_text path;
    struct ddp_files *files = ddp_files_system();
    struct ddp_err why = {""};
    json_error_t error;
    char text[1100] = ""; /* and an error's text in it */
    void *data = NULL;
    size_t size_bytes = 0;
    uint64_t until_ns = ended_ns != 0 ? ended_ns : ddp_clock_now_ns(ddp_clock_monotonic());

    if (verdict_path(task, &path) != NULL) {
        ddp_status status =
            files->ops->read_all(files, path.data, ddp_mem_system(), &data, &size_bytes, &why);

        if (status == DDP_OK) {
            task->verdict = json_loadb(data, size_bytes, 0, &error);
            ddp_mem_free(ddp_mem_system(), data);
        }
    }
    ddp_text_fini(&path);
    if (WIFSIGNALED(wait_status)) {
        (void)snprintf(text, sizeof text, "the harness itself ended by signal %d (%s)",
                       WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
        cli_task_tidy(task);
    } else if (WEXITSTATUS(wait_status) != 0) {
        (void)snprintf(text, sizeof text, "the harness itself exited with status %d",
                       WEXITSTATUS(wait_status));
    } else if (task->verdict == NULL) {
        (void)snprintf(text, sizeof text, "the harness wrote no verdict%s%s",
                       why.text[0] != '\0' ? ": " : "", why.text);
    }
    if (text[0] != '\0') {
        json_decref(task->verdict);
        task->verdict = error_verdict(task, text);
    }
    (void)json_object_set_new(task->verdict, "wall_ms",
                              json_real((double)(until_ns - started_ns) / 1e6));
}

/* A worker has ended: its tasks, as far as it got, have their verdicts. An end that is not good is
 * the last one's: it was at that, or (a leak that a sanitizer tells at the end) it may have been
 * any. The tasks that it had not begun stay its own. */
static void settle(struct pool *pool, struct worker *worker, int wait_status)
{
    size_t begun = worker->first;

    while (begun < worker->end && pool->board->stamps[begun].started_ns != 0) {
        begun++;
    }
    if (begun == worker->first && !pool->board->is_over) {
        pool->board->stamps[begun].started_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        begun++;
    }
    for (size_t i = worker->first; i < begun; i++) {
        pool->tasks[i].was_begun = true;
        finish(&pool->tasks[i], pool->board->stamps[i].started_ns, pool->board->stamps[i].ended_ns,
               i + 1 == begun ? wait_status : 0);
    }
    worker->pid = 0;
    worker->over = begun;
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

/* Take in a worker that has ended. False: none has. */
static bool reap(struct pool *pool)
{
    int wait_status;
    pid_t pid = waitpid(-1, &wait_status, WNOHANG);

    for (unsigned i = 0; pid > 0 && i < pool->jobs; i++) {
        if (pool->workers[i].pid == pid) {
            settle(pool, &pool->workers[i], wait_status);
            return true;
        }
    }
    return false;
}

static void tell_slow(const struct pool *pool, const struct cli_pool_events *events, void *context)
{
    uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    uint64_t since_ns = now_ns;
    size_t longest = 0;

    for (unsigned i = 0; i < pool->jobs; i++) {
        const struct worker *worker = &pool->workers[i];

        for (size_t task = worker->first; worker->pid > 0 && task < worker->end; task++) {
            const struct stamp *stamp = &pool->board->stamps[task];

            if (stamp->started_ns != 0 && stamp->ended_ns == 0 && stamp->started_ns < since_ns) {
                since_ns = stamp->started_ns;
                longest = task;
            }
        }
    }
    if (events->slow != NULL && now_ns - since_ns >= SLOW_NS) {
        events->slow(context, &pool->tasks[longest], now_ns - since_ns);
    }
}

static unsigned count_running(const struct pool *pool)
{
    unsigned count = 0;

    for (unsigned i = 0; i < pool->jobs; i++) {
        count += pool->workers[i].pid > 0;
    }
    return count;
}

static void signal_workers(const struct pool *pool, int signal_number)
{
    for (unsigned i = 0; i < pool->jobs; i++) {
        if (pool->workers[i].pid > 0) {
            (void)kill(pool->workers[i].pid, signal_number);
        }
    }
}

/* Ask the workers to end (their drivers end the ranks), and wait for them. What they were at is
 * marked as interrupted. */
static void end_workers(struct pool *pool)
{
    const struct timespec slice = {0, 50 * (long)DDP_NS_PER_MS};
    uint64_t end_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), END_GRACE_NS);
    sigset_t child;

    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    pool->board->is_over = true;
    signal_workers(pool, SIGTERM);
    while (count_running(pool) > 0) {
        if (reap(pool)) {
            continue;
        }
        if (ddp_clock_now_ns(ddp_clock_monotonic()) >= end_ns) {
            signal_workers(pool, SIGKILL);
        }
        (void)sigtimedwait(&child, NULL, &slice);
    }
    for (unsigned i = 0; i < pool->jobs; i++) {
        for (size_t task = pool->workers[i].first; task < pool->workers[i].over; task++) {
            pool->tasks[task].is_interrupted = true;
        }
    }
}

/* Give the worker something to do, or take what it has done. NULL: no task has its verdict now. */
static struct cli_task *serve(struct pool *pool, struct worker *worker)
{
    DDP_ASSERT(pool->tasks != NULL || pool->task_count == 0);
    if (worker->first < worker->over) {
        return &pool->tasks[worker->first++];
    }
    if (worker->pid > 0 || pool->board->is_over) {
        return NULL;
    }
    if (worker->first == worker->end) {
        if (pool->next >= pool->task_count) {
            return NULL;
        }
        if (pool->tasks[pool->next].verdict != NULL) {
            return &pool->tasks[pool->next++];
        }
        worker->first = worker->over = pool->next;
        worker->end = pool->next = batch_end(pool, pool->next);
    }
    start(pool, worker);
    return worker->first < worker->over ? &pool->tasks[worker->first++] : NULL;
}

/* A task that has its verdict now, if there is one. */
static struct cli_task *advance(struct pool *pool)
{
    for (unsigned i = 0; i < pool->jobs; i++) {
        struct cli_task *task = serve(pool, &pool->workers[i]);

        if (task != NULL) {
            return task;
        }
    }
    return NULL;
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

static ddp_status open_pool(struct pool *pool, struct ddp_err *err)
{
    void *board;

    pool->board_bytes = sizeof *pool->board + pool->task_count * sizeof pool->board->stamps[0];
    board =
        mmap(NULL, pool->board_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pool->workers = calloc(pool->jobs, sizeof *pool->workers);
    pool->board = board != MAP_FAILED ? board : NULL;
    if (pool->board == NULL || pool->workers == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for %u workers", pool->jobs);
    }
    return DDP_OK;
}

static void close_pool(struct pool *pool)
{
    if (pool->board != NULL) {
        (void)munmap(pool->board, pool->board_bytes);
    }
    free(pool->workers);
}

ddp_status cli_pool_run(struct cli_task *tasks, size_t task_count,
                        const struct cli_pool_config *config, int *out_interrupt,
                        struct ddp_err *err)
{
    struct pool pool = {.tasks = tasks,
                        .task_count = task_count,
                        .jobs = config->jobs,
                        .batch_max = config->is_one_by_one ? 1 : BATCH_MAX};
    int interrupt = 0;
    ddp_status status = open_pool(&pool, err);

    if (status != DDP_OK) {
        close_pool(&pool);
        return status;
    }
    open_signals(&pool);
    while (interrupt == 0) {
        struct cli_task *ended = advance(&pool);

        if (ended != NULL) {
            if (!config->events->done(config->context, ended)) {
                pool.board->is_over = true; /* what runs already goes on to its end */
            }
        } else if (!reap(&pool)) {
            if (count_running(&pool) == 0) {
                break;
            }
            interrupt = take_interrupt(&pool, true);
            tell_slow(&pool, config->events, config->context);
        }
        interrupt = interrupt != 0 ? interrupt : take_interrupt(&pool, false);
    }
    if (interrupt != 0) {
        end_workers(&pool);
    }
    (void)sigprocmask(SIG_SETMASK, &pool.old_mask, NULL);
    close_pool(&pool);
    *out_interrupt = interrupt;
    return DDP_OK;
}
