/* To be preloaded: the process whose variable RANK is that of DDPROVE_LATE_RANK is held for
 * DDPROVE_LATE_MS at its end, however it ends, as a driver of a device holds it that takes a
 * context down. A tracer may do that: it is a child, of another group, that ends with the process.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void hold(pid_t pid, long ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    int status = 0;

    while (waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status)) {
        const bool is_at_end = status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8);
        const bool is_signal = status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP;

        if (is_at_end) {
            (void)nanosleep(&time, NULL);
        }
        (void)ptrace(PTRACE_CONT, pid, NULL, is_signal ? (long)WSTOPSIG(status) : 0L);
    }
}

__attribute__((constructor)) static void begin(void)
{
    const char *rank = getenv("RANK");
    const char *late = getenv("DDPROVE_LATE_RANK");
    const char *ms = getenv("DDPROVE_LATE_MS");
    const pid_t self = getpid();
    int ready[2];
    char byte;

    if (rank == NULL || late == NULL || ms == NULL || strcmp(rank, late) != 0 || pipe(ready) != 0) {
        return;
    }
    (void)unsetenv("DDPROVE_LATE_RANK"); /* not what it starts */
    if (fork() == 0) {
        (void)setsid();
        (void)dup2(ready[1], 0);
        (void)close_range(1, ~0U, 0);
        if (ptrace(PTRACE_SEIZE, self, NULL, (long)PTRACE_O_TRACEEXIT) == 0) {
            (void)!write(0, "", 1);
            (void)close(0);
            hold(self, strtol(ms, NULL, 10));
        }
        _exit(0);
    }
    (void)close(ready[1]);
    if (read(ready[0], &byte, 1) != 1) {
        abort(); /* it may not be traced */
    }
    (void)close(ready[0]);
}
