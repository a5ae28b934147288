/* Purpose: what an algorithm does wrong is said of the algorithm, also if it crashes or never ends.
 * Idea: a signal that its code raises jumps back behind it. A plug-in runs in a process of its own
 * instead (harness/plugin); a built-in one is asked too often for that.
 *
 * Sanitizers report crashes themselves, so nothing is caught there. */
#include "harness/coll/guarded.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
ddp_status harness_coll_guarded_emit(const struct ddp_algorithm *algorithm,
                                     struct ddp_schedule *schedule, unsigned cpu_ms,
                                     struct ddp_err *err)
{
    (void)err;
    (void)cpu_ms;
    algorithm->emit(schedule);
    return DDP_OK;
}
#else
enum { GUARDED_SIGNALS = 6, STACK_BYTES = 64 * 1024 };

/* SIGVTALRM: it has computed for too long. */
static const int signals[GUARDED_SIGNALS] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM};
static sigjmp_buf behind;

static void on_signal(int signal_number)
{
    siglongjmp(behind, signal_number);
}

ddp_status harness_coll_guarded_emit(const struct ddp_algorithm *algorithm,
                                     struct ddp_schedule *schedule, unsigned cpu_ms,
                                     struct ddp_err *err)
{
    static char stack_bytes[STACK_BYTES]; /* the algorithm may have used up the own one */
    const struct itimerval limit = {{0, 0}, {cpu_ms / 1000, (long)(cpu_ms % 1000) * 1000}};
    const struct itimerval never = {{0, 0}, {0, 0}};
    const stack_t stack = {.ss_sp = stack_bytes, .ss_size = sizeof stack_bytes};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    struct sigaction old[GUARDED_SIGNALS];
    stack_t old_stack;
    int signal_number;

    (void)sigfillset(&action.sa_mask);
    (void)sigaltstack(&stack, &old_stack);
    for (size_t i = 0; i < GUARDED_SIGNALS; i++) {
        (void)sigaction(signals[i], &action, &old[i]);
    }
    (void)setitimer(ITIMER_VIRTUAL, &limit, NULL);
    signal_number = sigsetjmp(behind, 1);
    if (signal_number == 0) {
        algorithm->emit(schedule);
    }
    (void)setitimer(ITIMER_VIRTUAL, &never, NULL);
    for (size_t i = 0; i < GUARDED_SIGNALS; i++) {
        (void)sigaction(signals[i], &old[i], NULL);
    }
    (void)sigaltstack(&old_stack, NULL);
    if (signal_number == SIGVTALRM) {
        return ddp_err_set(err, DDP_E_INVALID, "%s does not end", algorithm->name);
    }
    return signal_number == 0 ? DDP_OK
                              : ddp_err_set(err, DDP_E_INVALID, "%s crashes: %s", algorithm->name,
                                            strsignal(signal_number));
}
#endif
