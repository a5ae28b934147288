/* Which processes are at their end, by what the kernel says of them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/ending.h"
#include "tests/ct.h"

static const char *const asleep = "Name:\tx\nSigPnd:\t0000000000000000\n"
                                  "ShdPnd:\t0000000000000000\nSigBlk:\t0000000000000100\n";
static const char *const killed = "Name:\tx\nSigPnd:\t0000000000000100\n"
                                  "ShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n";
static const char *const killed_whole = "Name:\tx\nSigPnd:\t0000000000000000\n"
                                        "ShdPnd:\t0000000000004100\n";

/* /proc/PID/stat, up to the flags and a little further. A name may hold anything. */
static bool is_told(char letter, unsigned flags, const char *status)
{
    char stat[160];

    (void)snprintf(stat, sizeof stat, "42 (a) R 1 (b) %c 1 2 2 34816 2 %u 5 6 7 8 9 1028", letter,
                   flags);
    return harness_ending_is_told(stat, status);
}

/* Flags: of a forked process 0x40 and 0x400000; exiting 0x4, killed by a signal 0x400. */
CT_TEST(launch_ending, is_told_by_flags_state_and_pending_kill)
{
    CT_CHECK(!is_told('S', 0x400040, ""));
    CT_CHECK(!is_told('R', 0x400040, asleep)); /* a blocked signal is not pending */
    CT_CHECK(!is_told('D', 0x400040, asleep));
    CT_CHECK(is_told('D', 0x400044, ""));
    CT_CHECK(is_told('R', 0x400440, ""));
    CT_CHECK(is_told('D', 0x400040, killed));
    CT_CHECK(is_told('D', 0x400040, killed_whole));
    CT_CHECK(is_told('Z', 0, ""));
    CT_CHECK(!harness_ending_is_told("", ""));
    CT_CHECK(!harness_ending_is_told("42 (x", ""));
}

static struct harness_ending look(pid_t pid)
{
    struct harness_ending ending;

    harness_ending_read(pid, &ending);
    return ending;
}

static pid_t start(void (*body)(void))
{
    pid_t pid = fork();

    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        body();
        for (;;) {
            (void)pause();
        }
    }
    return pid;
}

static void nothing(void)
{
}

/* A tracer holds the process at its end, for as long as the test wants. */
CT_TEST(launch_ending, of_a_killed_process_that_is_not_ended)
{
    pid_t pid = start(nothing);
    siginfo_t info;
    int status;

    CT_REQUIRE(ptrace(PTRACE_SEIZE, pid, NULL, (long)PTRACE_O_TRACEEXIT) == 0);
    CT_CHECK(!look(pid).is_so);
    CT_CHECK(kill(pid, SIGKILL) == 0);
    CT_REQUIRE(waitpid(pid, &status, 0) == pid);
    CT_REQUIRE(WIFSTOPPED(status) && status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8));
    CT_CHECK(look(pid).is_so && !look(pid).is_over);
    CT_CHECK(WIFSIGNALED(look(pid).status) && WTERMSIG(look(pid).status) == SIGKILL);
    CT_CHECK(ptrace(PTRACE_DETACH, pid, NULL, NULL) == 0);
    CT_CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0); /* a zombie */
    CT_CHECK(look(pid).is_so && !look(pid).is_over);
    CT_CHECK_EQ_I64(look(pid).status, SIGKILL);
    CT_CHECK(waitpid(pid, &status, 0) == pid);
    CT_CHECK(look(pid).is_so && look(pid).is_over);
}

static void *live_on(void *context)
{
    for (;;) {
        (void)pause();
    }
    return context;
}

static void leave_to_another_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, live_on, NULL) == 0) {
        (void)syscall(SYS_exit, 0); /* of this thread alone */
    }
}

/* Its first thread has ended, and it lives. */
CT_TEST(launch_ending, of_a_process_whose_first_thread_has_ended)
{
    pid_t pid = start(leave_to_another_thread);
    char path[64], text[256];
    bool is_zombie = false;

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    while (!is_zombie) {
        FILE *file = fopen(path, "re");

        CT_REQUIRE(file != NULL && fgets(text, sizeof text, file) != NULL);
        is_zombie = strstr(text, ") Z ") != NULL;
        (void)fclose(file);
    }
    CT_CHECK(!look(pid).is_so);
    CT_CHECK(kill(pid, SIGKILL) == 0);
    CT_CHECK(waitpid(pid, NULL, 0) == pid);
}
