/* Actions on a real process: the calling one. A stopped process is continued by its launcher, which
 * knows from the plan when; nothing here can, because a stopped process runs no code. */
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "harness/inject/inject.h"

#ifdef DDPROVE_COVERAGE
void __gcov_dump(void);
#define SAVE_COUNTERS() __gcov_dump()
#else
#define SAVE_COUNTERS() ((void)0)
#endif

static void pause_for_ever(void)
{
    for (;;) {
        (void)pause();
    }
}

static void process_kill(void *context, int signal_number)
{
    (void)context;
    SAVE_COUNTERS();
    (void)kill(getpid(), signal_number);
    /* A signal that is ignored or handled did not end the rank; it must not go on either. */
    pause_for_ever();
}

static void process_exit(void *context, int code)
{
    (void)context;
    SAVE_COUNTERS();
    _exit(code);
}

static void process_stop(void *context, uint64_t ms)
{
    (void)context;
    (void)ms;
    (void)raise(SIGSTOP);
}

static void process_delay(void *context, uint64_t ms)
{
    struct timespec until;

    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

const struct harness_victim *harness_victim_process(void)
{
    static const struct harness_victim victim = {
        .context = NULL,
        .kill = process_kill,
        .exit = process_exit,
        .stop = process_stop,
        .delay = process_delay,
    };

    return &victim;
}
