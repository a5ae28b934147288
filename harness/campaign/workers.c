/* Worker processes. Tasks are taken from a counter in shared memory, answers come back through a
 * pipe, whole, since a pipe keeps writes of this size together. A worker says in shared memory
 * which task it has, so that its death is that task's answer; another worker then takes its place.
 */
#include "harness/campaign/workers.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "harness/campaign/signature.h"

enum { WORKERS_MAX = 256, CASE_SECONDS_MAX = 300, NO_TASK = -1, WAIT_MS = 200 };
_Static_assert(sizeof(struct harness_campaign_result) <= 512, "a pipe keeps an answer whole");

/* What workers and their parent share. */
struct board {
    _Atomic size_t next;             /* task that nobody has taken */
    _Atomic bool is_over;            /* no more are to be taken */
    _Atomic long taken[WORKERS_MAX]; /* the task that a worker has, or NO_TASK */
};

struct workers {
    const struct harness_campaign_config *config;
    const struct harness_campaign_task *tasks;
    size_t task_count;
    struct board *board;
    pid_t pid[WORKERS_MAX]; /* 0: none */
    int pipe[2];
    unsigned live_count;
    sigset_t old_mask; /* in which SIGCHLD is not blocked */
};

static volatile sig_atomic_t ending_signal;

static void on_signal(int signal_number)
{
    ending_signal = signal_number;
}

/* A worker's end interrupts the wait for answers. */
static void on_child(int signal_number)
{
    (void)signal_number;
}

/* Everything until the counter is past the end. */
static void work(const struct workers *workers, unsigned slot)
{
    const struct harness_campaign_config *config = workers->config;
    struct board *board = workers->board;
    char failed_dir[4096];
    char work_dir[4096];

    (void)snprintf(failed_dir, sizeof failed_dir, "%s/failed", config->out_dir);
    (void)snprintf(work_dir, sizeof work_dir, "%s/work.%u.%u", config->out_dir, config->shard,
                   slot);
    while (!board->is_over) {
        struct harness_campaign_result result;
        size_t index = atomic_fetch_add(&board->next, 1);

        if (index >= workers->task_count) {
            return;
        }
        board->taken[slot] = (long)index;
        (void)alarm(CASE_SECONDS_MAX);
        harness_campaign_run_case(config->campaign, workers->tasks[index].number,
                                  workers->tasks[index].driver, config->self_path, work_dir,
                                  failed_dir, &result);
        (void)alarm(0);
        if (write(workers->pipe[1], &result, sizeof result) != (ssize_t)sizeof result) {
            return;
        }
        board->taken[slot] = NO_TASK;
    }
}

static ddp_status start(struct workers *workers, unsigned slot, struct ddp_err *err)
{
    pid_t parent = getpid();
    pid_t pid;

    workers->board->taken[slot] = NO_TASK;
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(3);
        }
        (void)signal(SIGINT, SIG_IGN); /* the parent's business */
        (void)signal(SIGTERM, SIG_DFL);
        (void)signal(SIGHUP, SIG_IGN);
        (void)signal(SIGCHLD, SIG_DFL);
        (void)sigprocmask(SIG_SETMASK, &workers->old_mask, NULL);
        (void)close(workers->pipe[0]);
        work(workers, slot);
        (void)fflush(NULL);
        _exit(0);
    }
    if (pid < 0) {
        return ddp_err_set(err, DDP_E_IO, "cannot fork: %s", strerror(errno));
    }
    workers->pid[slot] = pid;
    workers->live_count++;
    return DDP_OK;
}

/* A worker that ended in the middle of a task: that is the task's answer. */
static void answer_for(const struct workers *workers, unsigned slot, int wait_status,
                       struct harness_campaign_result *out)
{
    const struct harness_campaign_task *task = &workers->tasks[workers->board->taken[slot]];
    char text[128];

    if (WIFSIGNALED(wait_status)) {
        (void)snprintf(text, sizeof text, "the harness ended by signal %s",
                       strsignal(WTERMSIG(wait_status)));
    } else {
        (void)snprintf(text, sizeof text, "the harness exited");
    }
    *out = (struct harness_campaign_result){.number = task->number, .driver = task->driver};
    harness_campaign_signature_error(text, false, out);
}

static void note_end(const struct workers *workers, const struct harness_campaign_result *result)
{
    if (workers->config->is_fail_fast && harness_campaign_is_wrong(result)) {
        workers->board->is_over = true;
    }
}

/* Read every answer that is there. wait_ms: below a second. */
static ddp_status read_answers(struct workers *workers,
                               ddp_status (*take)(void *, const struct harness_campaign_result *,
                                                  struct ddp_err *),
                               void *context, int wait_ms, struct ddp_err *err)
{
    struct pollfd poll_fd = {.fd = workers->pipe[0], .events = POLLIN};
    struct timespec wait = {0, (long)wait_ms * 1000000};

    while (ppoll(&poll_fd, 1, &wait, &workers->old_mask) > 0 && (poll_fd.revents & POLLIN) != 0) {
        struct harness_campaign_result result;

        if (read(workers->pipe[0], &result, sizeof result) != (ssize_t)sizeof result) {
            return ddp_err_set(err, DDP_E_IO, "a worker's answer was cut short");
        }
        DDP_TRY(take(context, &result, err));
        note_end(workers, &result);
        wait.tv_nsec = 0;
    }
    return DDP_OK;
}

/* A plan that takes its worker down leaves no plan behind by itself; it is drawn again. */
static void keep_plan(const struct workers *workers, const struct harness_campaign_result *result)
{
    const struct harness_campaign *campaign = workers->config->campaign;
    struct ddp_text text;
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/failed/%08llu.%s", workers->config->out_dir,
                   (unsigned long long)result->number, harness_driver_name(result->driver));
    ddp_text_init(&text, ddp_mem_system());
    if (ddp_files_make_dirs(path, NULL) == DDP_OK &&
        harness_grammar_draw(&campaign->options, campaign->seed, result->number, &text, NULL) ==
            DDP_OK) {
        (void)snprintf(path + strlen(path), sizeof path - strlen(path), "/plan.yaml");
        (void)!ddp_files_write_atomic(ddp_files_system(), path, ddp_text_str(&text),
                                      text.size_bytes, NULL);
    }
    ddp_text_fini(&text);
}

/* Workers that have ended: answers that they still wrote come first. */
static ddp_status reap(struct workers *workers,
                       ddp_status (*take)(void *, const struct harness_campaign_result *,
                                          struct ddp_err *),
                       void *context, struct ddp_err *err)
{
    for (unsigned slot = 0; slot < WORKERS_MAX; slot++) {
        int wait_status = 0;
        struct harness_campaign_result result;

        if (workers->pid[slot] == 0 ||
            waitpid(workers->pid[slot], &wait_status, WNOHANG) != workers->pid[slot]) {
            continue;
        }
        workers->pid[slot] = 0;
        workers->live_count--;
        DDP_TRY(read_answers(workers, take, context, 0, err));
        if (workers->board->taken[slot] == NO_TASK) {
            continue;
        }
        answer_for(workers, slot, wait_status, &result);
        keep_plan(workers, &result);
        DDP_TRY(take(context, &result, err));
        note_end(workers, &result);
        DDP_TRY(start(workers, slot, err));
    }
    return DDP_OK;
}

static void end_all(struct workers *workers)
{
    for (unsigned slot = 0; slot < WORKERS_MAX; slot++) {
        if (workers->pid[slot] != 0) {
            (void)kill(workers->pid[slot], SIGKILL);
            (void)waitpid(workers->pid[slot], NULL, 0);
        }
    }
}

static ddp_status work_all(struct workers *workers, uint64_t deadline_ns,
                           ddp_status (*take)(void *, const struct harness_campaign_result *,
                                              struct ddp_err *),
                           void *context, struct ddp_err *err)
{
    unsigned jobs = workers->config->jobs == 0 ? 1 : workers->config->jobs;

    jobs = jobs > WORKERS_MAX ? WORKERS_MAX : jobs;
    for (unsigned slot = 0; slot < jobs && slot < workers->task_count; slot++) {
        DDP_TRY(start(workers, slot, err));
    }
    while (workers->live_count > 0 && ending_signal == 0) {
        DDP_TRY(read_answers(workers, take, context, WAIT_MS, err));
        DDP_TRY(reap(workers, take, context, err));
        if (ddp_clock_now_ns(ddp_clock_monotonic()) >= deadline_ns) {
            workers->board->is_over = true;
        }
    }
    return DDP_OK;
}

ddp_status harness_campaign_work(const struct harness_campaign_config *config,
                                 const struct harness_campaign_task *tasks, size_t task_count,
                                 ddp_status (*take)(void *context,
                                                    const struct harness_campaign_result *result,
                                                    struct ddp_err *err),
                                 void *context, int *out_signal, struct ddp_err *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction old[sizeof signals / sizeof signals[0]];
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction child_action = {.sa_handler = on_child};
    struct sigaction old_child;
    sigset_t child;
    struct workers workers = {.config = config, .tasks = tasks, .task_count = task_count};
    ddp_status status;

    workers.board = mmap(NULL, sizeof *workers.board, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (workers.board == MAP_FAILED) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for workers");
    }
    if (pipe(workers.pipe) != 0) {
        (void)munmap(workers.board, sizeof *workers.board);
        return ddp_err_set(err, DDP_E_IO, "no pipe for workers: %s", strerror(errno));
    }
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigaction(SIGCHLD, &child_action, &old_child);
    (void)sigprocmask(SIG_BLOCK, &child, &workers.old_mask);
    (void)sigdelset(&workers.old_mask, SIGCHLD);
    ending_signal = 0;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)sigaction(signals[i], NULL, &old[i]);
        if (old[i].sa_handler != SIG_IGN) {
            (void)sigaction(signals[i], &action, NULL);
        }
    }
    status = work_all(&workers, ddp_clock_deadline_ns(ddp_clock_monotonic(), config->budget_ns),
                      take, context, err);
    end_all(&workers);
    *out_signal = ending_signal;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        (void)sigaction(signals[i], &old[i], NULL);
    }
    (void)sigprocmask(SIG_SETMASK, &workers.old_mask, NULL);
    (void)sigaction(SIGCHLD, &old_child, NULL);
    (void)close(workers.pipe[0]);
    (void)close(workers.pipe[1]);
    (void)munmap(workers.board, sizeof *workers.board);
    return status;
}
