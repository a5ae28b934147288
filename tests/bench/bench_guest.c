/* What ddprove costs a program that is not its own, in one run: a call of the library where nobody
 * watches, in nanoseconds; then programs under `ddprove exec --prove sums`, as guest_cost.h says.
 *
 *     bench_guest [RANKS...]      2 and 4 unless stated
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ddpcore/base/clock.h"
#include "harness/guest/ddprove_guest.h"

enum { CALLS = 20000, ROUNDS = 2000, PATH_BYTES = 4096 };

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

/* 0: it ran, or is not built. */
static int run(const char *folder, const char *options, const char *launcher, const char *program,
               const char *ranks)
{
    char path[2 * PATH_BYTES];
    char command[4 * PATH_BYTES];
    struct stat found;

    (void)snprintf(path, sizeof path, "%s/%s", folder, program);
    if (stat(path, &found) != 0) {
        (void)printf("%s was not built\n", program);
        return 0;
    }
    (void)snprintf(command, sizeof command, "'%s/ddprove' exec --prove sums %s%s -- %s%s '%s'",
                   folder, options, launcher[0] == '\0' ? ranks : "", launcher,
                   launcher[0] == '\0' ? "" : ranks, path);
    (void)fflush(stdout);
    return system(command);
}

int main(int argc, char **argv)
{
    static char *usual[] = {(char *)(uintptr_t) "2", (char *)(uintptr_t) "4"};
    char **ranks = argc > 1 ? argv + 1 : usual;
    const int count = argc > 1 ? argc - 1 : 2;
    const char *slash = strrchr(argv[0], '/');
    char folder[PATH_BYTES];
    int failures = 0;

    (void)snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - argv[0]) : 1,
                   slash != NULL ? argv[0] : ".");
    (void)printf("a call where nobody watches: %.2f ns\n", ns_unwatched());
    for (int i = 0; i < count; i++) {
        failures += run(folder, "--adapter mpi", "mpirun --oversubscribe --allow-run-as-root -n ",
                        "guest_cost_mpi", ranks[i]) != 0;
        failures += run(folder, "--ranks ", "", "guest_cost_sockets", ranks[i]) != 0;
    }
    return failures == 0 ? 0 : 1;
}
