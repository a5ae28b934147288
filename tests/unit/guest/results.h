/* One collective call of ranks that are processes and use the guest library, and what is said of
 * its result. What each rank gets is worked out in it, so nothing is sent. */
#ifndef TESTS_UNIT_GUEST_RESULTS_H
#define TESTS_UNIT_GUEST_RESULTS_H

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/observe/sums.h"
#include "harness/watch/analyse.h"

enum { RESULTS_RANKS_MAX = 5, RESULTS_COUNT_MAX = 3000 };

struct trial;
/* Changes a result before its rank sees it; all values are of the trial's type. */
typedef void (*tamper)(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count);

struct trial {
    uint32_t kind, dtype, redop, size;
    uint64_t count;
    uint32_t root;
    double weight[RESULTS_RANKS_MAX]; /* of contributions in sums, less 1: 0 is right */
    tamper tamper;
    uint32_t who;     /* whom it is about */
    bool is_in_place; /* of all_reduce */
    bool is_hidden;   /* no result is shown */
    bool is_of_device;
    bool is_changed;  /* `who` overwrites its input meanwhile */
    bool is_equal;    /* all put in the same */
    bool is_constant; /* all elements of `who`'s input are the same */
    int shift;        /* by how many elements `who`'s contribution lies further up in a sum */
    bool is_backward; /* sums begin with the last rank */
    double bad_input; /* in the last element of `who`'s input, if it is not 0 */
    struct guest_fault fault;
    const char *folder; /* of kept data; NULL: none */
    uint32_t seed;      /* of what is put in */
};

struct outcome {
    size_t count; /* findings */
    enum harness_verdict verdict;
    uint32_t culprits; /* a bit each */
    char text[512];
    struct harness_watch_tally tally;
};

/* An element of a type. */
void results_put(uint32_t dtype, void *data, uint64_t i, double value);
double results_get(uint32_t dtype, const void *data, uint64_t i);
/* What a rank puts in. */
void results_fill(const struct trial *trial, uint32_t rank, void *in, uint64_t in_count);
/* Element i of the sum of everybody's input, rounded after each addition. */
double results_sum_at(const struct trial *trial, void *const *in, uint64_t i);
struct outcome results_run(const struct trial *trial);

/* A call; sums are of f32 and 1,000 elements. */
struct trial results_trial(uint32_t kind, uint32_t dtype, uint32_t size, uint64_t count);
struct trial results_sum(uint32_t size);
enum { RESULTS_ALL = 1000 };
/* One finding, with these words; culprits: a bit each, or RESULTS_ALL. */
void results_expect(const struct trial *trial, enum harness_verdict verdict, uint32_t culprits,
                    const char *words);

#endif
