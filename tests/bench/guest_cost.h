/* What it costs a program to be watched, and to have its results judged: its collectives bare,
 * shown to ddprove, and with what their data come to, in turn. For programs that `ddprove exec
 * --prove sums` runs. */
#ifndef TESTS_BENCH_GUEST_COST_H
#define TESTS_BENCH_GUEST_COST_H

#include <stdbool.h>
#include <stddef.h>

struct cost_program {
    const char *name;
    int rank, ranks;
    void (*barrier)(void);
    /* An all-reduce of floats; in == out: in place. */
    void (*bare)(const float *in, float *out, size_t count);
    void (*shown)(const float *in, float *out, size_t count);
};

/* On all ranks; rank 0 prints a table. Exits if it cannot. */
void cost_measure(const struct cost_program *program);

#endif
