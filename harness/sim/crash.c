/* Rank code that crashes, or that never gives up its CPU. Ranks share the simulator's process, so
 * both would take it along. A signal that a rank's code raises ends that rank alone, as it ends a
 * process of its own, and a rank that computes for longer than any phase may take is left where it
 * stands: silent, as a process that loops. What a rank wrote before it crashed may have been
 * anybody's memory; if that takes the simulator down later, the run is an ERROR.
 *
 * Sanitizers report crashes themselves, so nothing is caught there. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "harness/sim/job.h"

static const int crash_signals[HARNESS_SIM_CRASH_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                                             SIGABRT};

/* The simulation that runs in this thread, for the handlers. */
static _Thread_local struct harness_sim *watched;
/* A handler cannot run on the stack of a fiber that has used it up. */
static _Thread_local char handler_stack[64 * 1024];

static struct harness_sim_rank *running_rank(void)
{
    const struct harness_sim_actor *actor = watched == NULL ? NULL : watched->scheduler.running;

    return actor == NULL ? NULL : &watched->ranks[actor - watched->scheduler.actors];
}

static void on_crash(int signal_number)
{
    struct harness_sim_rank *rank = running_rank();

    if (rank == NULL && watched != NULL && watched->watch.is_guarded) {
        watched->watch.is_guarded = false;
        siglongjmp(watched->watch.guarded, 1);
    }
    if (rank == NULL) { /* the harness itself: end as without a handler */
        (void)signal(signal_number, SIG_DFL);
        (void)raise(signal_number);
        return;
    }
    harness_sim_rank_crash(rank, signal_number);
}

/* The budget of the phase that the rank is in, as on real time. Budgets are often set low where
 * time is virtual. */
static unsigned second_limit(const struct harness_sim_rank *rank)
{
    enum ddp_phase phase = (enum ddp_phase)rank->recorder.phase;
    uint64_t budget_ns = harness_monitor_budget_ns(rank->sim->config->plan, phase);

    return budget_ns < 10 * DDP_NS_PER_S ? 10 : (unsigned)(budget_ns / DDP_NS_PER_S) + 1;
}

/* Another second of this process's CPU time is over. */
static void on_second(int signal_number)
{
    struct harness_sim_rank *rank = running_rank();
    struct harness_sim_watch *watch;

    (void)signal_number;
    if (rank == NULL) {
        return;
    }
    watch = &rank->sim->watch;
    if (watch->switch_count != rank->sim->scheduler.switch_count) {
        watch->switch_count = rank->sim->scheduler.switch_count;
        watch->second_count = 0;
    } else if (++watch->second_count >= second_limit(rank)) {
        watch->second_count = 0;
        harness_sim_rank_leave(rank);
    }
}

void harness_sim_watch_open(struct harness_sim *sim)
{
    struct harness_sim_watch *watch = &sim->watch;
    const struct itimerval second = {{1, 0}, {1, 0}};
    struct sigaction action = {.sa_flags = SA_ONSTACK | SA_RESTART};
    stack_t stack = {.ss_sp = handler_stack, .ss_size = sizeof handler_stack};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return;
#endif
    (void)sigfillset(&action.sa_mask);
    (void)sigaltstack(&stack, &watch->old_stack);
    action.sa_handler = on_crash;
    for (size_t i = 0; i < HARNESS_SIM_CRASH_SIGNALS; i++) {
        (void)sigaction(crash_signals[i], &action, &watch->old_crash[i]);
    }
    action.sa_handler = on_second;
    (void)sigaction(SIGVTALRM, &action, &watch->old_second);
    watch->outer = watched;
    watched = sim;
    watch->is_open = true;
    (void)setitimer(ITIMER_VIRTUAL, &second, NULL);
}

void harness_sim_watch_close(struct harness_sim *sim)
{
    struct harness_sim_watch *watch = &sim->watch;
    const struct itimerval never = {{0, 0}, {0, 0}};

    if (!watch->is_open) {
        return;
    }
    (void)setitimer(ITIMER_VIRTUAL, &never, NULL);
    watched = watch->outer;
    (void)sigaction(SIGVTALRM, &watch->old_second, NULL);
    for (size_t i = 0; i < HARNESS_SIM_CRASH_SIGNALS; i++) {
        (void)sigaction(crash_signals[i], &watch->old_crash[i], NULL);
    }
    (void)sigaltstack(&watch->old_stack, NULL);
    watch->is_open = false;
}
