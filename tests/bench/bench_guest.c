/* What ddprove costs a program that is not its own, in one run: a call of the library where nobody
 * watches, in nanoseconds; how fast a buffer can be read at all (guest_read.c); then programs under
 * `ddprove exec --prove sums`, as guest_cost.h says.
 *
 *     bench_guest [RANKS...]      2 and 4 unless stated
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/guest/ddprove_guest.h"

enum { CALLS = 20000, ROUNDS = 2000, PATH_BYTES = 4096, FOLDER_BYTES = 2048, WORDS_MAX = 16 };

/* Best of some rounds, a call of the library at a time. */
static double ns_unwatched(void)
{
    double best = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        struct ddprove_guest_call call = {.size_bytes = sizeof call, .comm = 1};
        const uint64_t begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        double ns;

        for (int i = 0; i < CALLS; i++) {
            ddprove_guest_step((uint64_t)i);
            (void)ddprove_guest_call_begin(&call);
            ddprove_guest_call_end(&call);
        }
        ns = (double)(ddp_clock_now_ns(ddp_clock_monotonic()) - begin_ns) / (3.0 * CALLS);
        best = ns < best ? ns : best;
    }
    return best;
}

/* A program beside this one. Returns 0: it ended well. */
static int run_alone(const char *folder, const char *program)
{
    char path[PATH_BYTES];
    int status = 0;
    pid_t pid;

    (void)snprintf(path, sizeof path, "%s/%s", folder, program);
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        (void)execl(path, path, (char *)NULL);
        perror(path);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

/* Under ddprove; the words of its command line end with NULL. Returns 0: it ended well, or the
 * program was not built. */
static int run(const char *folder, const char *program, const char *const words[])
{
    char ddprove[PATH_BYTES];
    char path[PATH_BYTES];
    char *argv[WORDS_MAX] = {ddprove};
    size_t argc = 1;
    struct stat found;
    int status = 0;
    pid_t pid;

    (void)snprintf(ddprove, sizeof ddprove, "%s/ddprove", folder);
    (void)snprintf(path, sizeof path, "%s/%s", folder, program);
    if (stat(path, &found) != 0) {
        (void)printf("%s was not built\n", program);
        return 0;
    }
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    argv[argc] = path;
    (void)fflush(stdout);
    pid = fork();
    if (pid == 0) {
        (void)execv(ddprove, argv);
        perror(ddprove);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    static char *usual[] = {(char *)(uintptr_t) "2", (char *)(uintptr_t) "4"};
    char **ranks = argc > 1 ? argv + 1 : usual;
    const int count = argc > 1 ? argc - 1 : 2;
    const char *slash = strrchr(argv[0], '/');
    char folder[FOLDER_BYTES];
    int failures = 0;

    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - argv[0]) : 1,
                   slash != NULL ? argv[0] : ".");
    (void)printf("a call where nobody watches: %.2f ns\n", ns_unwatched());
    failures += run_alone(folder, "guest_read");
    for (int i = 0; i < count; i++) {
        const char *const mpi[] = {"exec",
                                   "--prove",
                                   "sums",
                                   "--adapter",
                                   "mpi",
                                   "--",
                                   "mpirun",
                                   "--oversubscribe",
                                   "--allow-run-as-root",
                                   "-n",
                                   ranks[i],
                                   NULL};
        const char *const sockets[] = {"exec", "--prove", "sums", "--ranks", ranks[i], "--", NULL};

        failures += run(folder, "guest_cost_mpi", mpi);
        failures += run(folder, "guest_cost_sockets", sockets);
    }
    return failures == 0 ? 0 : 1;
}
