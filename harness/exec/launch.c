/* The plan's faults in how ranks are started, and in how long they are stopped: what nobody inside
 * of a rank can do. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/exec/job.h"
#include "harness/exec/stat.h"
#include "harness/plan/names.h"

static bool is_at_launch(const struct harness_fault *fault, uint32_t rank)
{
    return fault->point == DDP_FAULT_POINT_LAUNCH_SPAWN && fault->at.rank == rank &&
           fault->at.hit == 1; /* a rank is started once */
}

bool harness_exec_pass_launch(struct exec_job *job, uint32_t rank)
{
    const struct harness_plan *plan = job->config->plan;
    bool is_started = true;

    for (uint32_t f = 0; plan != NULL && f < plan->fault_count; f++) {
        if (is_at_launch(&plan->faults[f], rank)) {
            job->watch->ranks[rank].fired[f]++;
            is_started = is_started && plan->faults[f].action.kind != HARNESS_ACTION_SKIP;
        }
    }
    return is_started;
}

static void take(const struct harness_action *action)
{
    const char *name;

    switch (action->kind) {
    case HARNESS_ACTION_ENV:
        name = harness_names_of(HARNESS_NAMES_VARIABLES, (int)action->env);
        if (strcmp(action->env_value, "unset") == 0) {
            (void)unsetenv(name);
        } else {
            (void)setenv(name, action->env_value, 1);
        }
        break;
    case HARNESS_ACTION_DELAY: {
        struct timespec left = {(time_t)(action->delay_ms / 1000),
                                (long)(action->delay_ms % 1000) * 1000000};

        while (nanosleep(&left, &left) != 0 && errno == EINTR) {
        }
        break;
    }
    case HARNESS_ACTION_KILL:
        (void)kill(getpid(), action->signal);
        break;
    case HARNESS_ACTION_EXIT:
        _exit(action->exit_code);
    case HARNESS_ACTION_ABORT:
        abort();
    default:
        break;
    }
}

void harness_exec_take_launch(const struct exec_job *job, uint32_t rank)
{
    const struct harness_plan *plan = job->config->plan;

    for (uint32_t f = 0; plan != NULL && job->config->ranks > 0 && f < plan->fault_count; f++) {
        if (is_at_launch(&plan->faults[f], rank)) {
            take(&plan->faults[f].action);
        }
    }
}

/* How long the stop that the rank is in lasts; 0: nobody lets it go on. */
static uint64_t stop_ns(const struct exec_job *job, uint32_t rank, uint32_t *out_fault)
{
    const struct guest_arena *arena = job->arena.head;
    const struct harness_watch_rank *self = &job->watch->ranks[rank];

    for (uint32_t f = 0; f < arena->fault_count; f++) {
        if (arena->faults[f].action == GUEST_ACTION_STOP &&
            self->fired[f] > job->ranks[rank].continued[f]) {
            *out_fault = f;
            return arena->faults[f].value;
        }
    }
    return 0;
}

void harness_exec_continue(struct exec_job *job, uint64_t now_ns)
{
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        struct harness_watch_rank *self = &job->watch->ranks[r];
        uint32_t fault = 0;
        const uint64_t length_ns =
            self->state == HARNESS_WATCH_STOPPED ? stop_ns(job, r, &fault) : 0;

        if (length_ns > 0 && now_ns - self->since_ns >= length_ns && job->ranks[r].pid > 0 &&
            kill(job->ranks[r].pid, SIGCONT) == 0) {
            job->ranks[r].continued[fault]++;
            self->state = HARNESS_WATCH_RUNNING;
            self->code = 0;
            self->since_ns = now_ns;
            job->watch->change_ns = now_ns;
        }
    }
}

/* The child with this process; child_count: none. */
static uint32_t child_of(const struct exec_job *job, uint64_t pid)
{
    uint32_t i = 0;

    while (i < job->child_count && (uint64_t)job->children[i].started_pid != pid) {
        i++;
    }
    return i;
}

static void note_claim(const struct exec_job *job, uint64_t pid, uint64_t rank)
{
    const uint32_t child = pid != 0 ? child_of(job, pid) : job->child_count;

    if (child < job->child_count && child != rank) {
        job->watch->ranks[child].claim = rank + 1;
    }
}

/* Two processes say that they are this rank. Where ddprove starts the ranks, the command that it
 * was told to start as often may start ranks of its own. What a rank starts itself inherits its
 * variables, and is none. */
static void note_rival(struct exec_job *job, uint32_t rank)
{
    const struct guest_page *page = guest_arena_page(job->arena.head, rank);
    const pid_t first_pid = (pid_t)__atomic_load_n(&page->pid, __ATOMIC_ACQUIRE);
    const pid_t rival_pid = (pid_t)__atomic_load_n(&page->rival_pid, __ATOMIC_ACQUIRE);
    struct exec_stat stat;

    if (rival_pid == 0 || rival_pid == job->ranks[rank].rival_pid) {
        return;
    }
    job->ranks[rank].rival_pid = rival_pid;
    if (harness_exec_read_stat(rival_pid, &stat) && !harness_exec_is_below(rival_pid, first_pid) &&
        !harness_exec_is_below(first_pid, rival_pid)) {
        job->watch->ranks[rank].has_rival = true;
    }
}

void harness_exec_note_claims(struct exec_job *job)
{
    const struct guest_arena *arena = job->arena.head;

    for (uint32_t r = 0; job->config->ranks > 0 && r < job->watch->world_size; r++) {
        const struct guest_page *page = guest_arena_page(arena, r);

        note_claim(job, __atomic_load_n(&page->pid, __ATOMIC_ACQUIRE), r);
        note_claim(job, __atomic_load_n(&page->rival_pid, __ATOMIC_ACQUIRE), r);
        note_rival(job, r);
    }
    if (job->config->ranks > 0) {
        const uint64_t stray_pid = __atomic_load_n(&arena->stray_pid, __ATOMIC_ACQUIRE);

        note_claim(job, stray_pid, __atomic_load_n(&arena->stray_rank, __ATOMIC_ACQUIRE));
    }
}
