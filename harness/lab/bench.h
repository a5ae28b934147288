/* How long collectives take on this machine: of the core's algorithms, of plug-ins, and of what
 * they are compared with, all measured and checked in one way. Ranks are processes. */
#ifndef HARNESS_LAB_BENCH_H
#define HARNESS_LAB_BENCH_H

#include <jansson.h>

#include "ddpcore/collective/tuned.h"
#include "harness/coll/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_BENCH_SUBJECTS_MAX 48u
#define HARNESS_BENCH_SIZES_MAX    64u

struct harness_bench_options {
    uint32_t ranks;
    size_t min_bytes, max_bytes;
    double factor; /* > 1; from one size to the next */
    uint32_t iters, warmup;
    bool is_checked;
    bool is_tcp;          /* ranks are connected by TCP, not by shared memory */
    size_t segment_bytes; /* longest message; 0: the algorithm's own */
    /* What is measured: names of algorithms, paths of plug-ins, "zero_copy" and "copy"; "tuned": by
     * size, as was learned: */
    const struct ddp_tuned_world *tuned; /* of these ranks; NULL: nothing was */
    const char *const *names;
    size_t name_count;
    const char *program; /* the path of ddprove itself */
    /* Called before each subject; may be NULL. */
    void (*progress)(void *context, const char *name, size_t done, size_t total);
    void *context;
};

/* In and out of place. */
enum { HARNESS_BENCH_APART, HARNESS_BENCH_IN_PLACE, HARNESS_BENCH_MODES };

struct harness_bench_time {
    double median_us, mean_us, least_us; /* of calls, each as long as its slowest rank's */
    double alg_gbps, bus_gbps;           /* of the median, as nccl-tests defines them */
    uint64_t wrong;                      /* elements, of all ranks and iterations */
    uint32_t wrong_rank;                 /* the first, */
    uint64_t wrong_elem;                 /* and where */
};

struct harness_bench_row {
    size_t size_bytes; /* of the longer of a rank's input and output */
    size_t elem_count;
    struct harness_bench_time time[HARNESS_BENCH_MODES];
    double predicted_us;           /* by the fit; 0: it says nothing */
    struct ddp_coll_choice choice; /* of what was learned: by which algorithm; else NONE */
};

/* What a subject costs in messages, elements and additions of one size. */
struct harness_bench_terms {
    double rounds, transfers, additions;
};

struct harness_bench_subject {
    char name[64];
    enum ddp_coll_kind kind;
    char text[256]; /* why it was not measured; "": it was */
    bool is_schedule;
    bool is_bitwise; /* every bit was known beforehand */
    struct harness_bench_row row[HARNESS_BENCH_SIZES_MAX];
    struct harness_bench_terms terms[HARNESS_BENCH_SIZES_MAX];
    size_t row_count;
};

/* alpha, beta, gamma of the cost model, as they explain the times of all algorithms best. */
struct harness_bench_fit {
    bool is_known;
    double alpha_us;         /* a message */
    double beta_us_per_mib;  /* sent */
    double gamma_us_per_mib; /* added */
    double error;            /* median of |predicted / measured - 1| */
};

struct harness_bench_report {
    uint32_t ranks, iters;
    bool is_checked, is_tcp;
    struct harness_bench_subject *subjects;
    size_t subject_count;
    struct harness_bench_fit fit;
};

/* Measures all. Errors: E_INVALID with what is wrong with the options, E_NOT_FOUND, E_NOMEM,
 * E_SYSTEM; a subject that cannot be measured is none. _fini also after an error. */
DDP_MUST_USE ddp_status harness_bench_run(const struct harness_bench_options *options,
                                          struct harness_bench_report *out, struct ddp_err *err);
void harness_bench_fini(struct harness_bench_report *report);
/* FAIL: something was wrong; ERROR: a subject could not be measured. */
enum harness_outcome harness_bench_outcome(const struct harness_bench_report *report);

/* fit.c: fills the fit and every row's prediction. */
void harness_bench_fit(struct harness_bench_report *report);

/* bench_render.c */
void harness_bench_print(const struct harness_bench_report *report, struct ddp_text *out);
json_t *harness_bench_json(const struct harness_bench_report *report);
/* Time by size, both on logarithmic scales, a line a subject. */
void harness_bench_svg(const struct harness_bench_report *report, struct ddp_text *out);

/* The process of a rank that mpirun has started: `ddprove lab PATH`. Returns its exit code. */
int harness_lab_main(const char *path, uint32_t rank);

/* tune.c: measures every all-reduce of the core with several lengths of messages, and takes the
 * fastest of each size. options: ranks, sizes, iterations and progress count. Errors: those of
 * harness_bench_run; E_INVALID: something was wrong. */
DDP_MUST_USE ddp_status harness_tuned_learn(const struct harness_bench_options *options,
                                            struct ddp_tuned_world *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
