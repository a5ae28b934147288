/* The result of one call of a collective, and what its members put in. Internal to harness/results.
 */
#ifndef HARNESS_RESULTS_SUMS_H
#define HARNESS_RESULTS_SUMS_H

#include "harness/watch/analyse.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_sums_member {
    uint32_t rank; /* of the job */
    uint32_t handle;
    const struct harness_watch_call *call;
};

struct harness_sums_case {
    struct harness_watch *watch;
    const struct harness_watch_group *group;
    uint64_t seq;
    const struct harness_watch_call *call; /* some member's: all are alike */
    uint32_t kind, dtype, redop, root;
    uint32_t size;                             /* members */
    const struct harness_sums_member *members; /* [size], by rank within the group */
};

/* What several buffers come to. */
struct harness_sums_total {
    double sum, magnitude; /* of floats */
    uint64_t whole;        /* of integers, and hash: modulo 2^64 */
    uint64_t hash;
};

/* How far a result is from what was put in. */
struct harness_sums_off {
    bool is_wrong;
    bool is_integer;
    double off, bound;        /* of floats: rounding explains so much at most */
    uint64_t off_whole, mask; /* of integers, as far as they do not wrap */
};

/* Members whose results are the same. */
struct harness_sums_camp {
    uint32_t member; /* the first one */
    uint32_t count;
    bool is_wrong;               /* not what was put in */
    struct harness_sums_off off; /* from that */
    struct harness_sums_total total;
};

/* camps.c */
/* camps: [size]. Returns how many there are. What they differ by from what was put in is not
 * filled. */
uint32_t harness_sums_find_camps(const struct harness_sums_case *the,
                                 struct harness_sums_camp *camps);
/* is_known: which of them are wrong is known from what was put in. */
void harness_sums_add_diverged(const struct harness_sums_case *the,
                               const struct harness_sums_camp *camps, uint32_t count, bool is_known,
                               struct harness_findings *out);

/* bound.c */
/* Unit roundoff of a floating point type, its smallest subnormal number, below what a processor
 * that flushes such numbers takes for zero, and its largest number. */
struct harness_sums_precision {
    double unit, subnormal, flushed, largest;
};
struct harness_sums_precision harness_sums_precision(uint32_t dtype);
/* |result - sum of what was put in| <= this for every order of summation; `own`: roundings of
 * doubles in the judge's own sums. */
double harness_sums_bound(const struct harness_sums_case *the, double magnitude,
                          uint64_t elem_count, uint64_t own);
struct harness_sums_off harness_sums_compare(const struct harness_sums_case *the,
                                             const struct harness_sums_total *in,
                                             const struct harness_sums_total *out);
/* Rounding may come to as much as some contribution: that it is missing could not be seen. */
bool harness_sums_is_blind(const struct harness_sums_case *the, const struct harness_sums_off *off);

/* explain.c */
/* Say by how much a result is off, and what rounding explains: the sum of one change and of
 * rounding is within that only if the change is less than twice as much. */
void harness_sums_say_off(const struct harness_sums_off *off, struct harness_finding *finding);
/* Say of a wrong result by how much it is off and what would explain it; sets the verdict, the
 * culprits and the sentence's end. */
void harness_sums_explain(const struct harness_sums_case *the, const struct harness_sums_total *in,
                          const struct harness_sums_off *off, struct harness_finding *finding);

/* moved.c */
/* The elements whose signs are the same in every call: what was put in, and by how much what came
 * out is off. */
struct harness_sums_sample {
    double in, off, bound;
};
/* False: not all members have told theirs. */
bool harness_sums_find_sample(const struct harness_sums_case *the,
                              struct harness_sums_sample *sample);

/* case.c */
bool harness_sums_is_integer(const struct harness_sums_case *the);
/* Data are only moved. */
bool harness_sums_is_move(const struct harness_sums_case *the);
/* What comes out is known from what goes in: a sum, an average, or what is only moved. */
bool harness_sums_is_sum(const struct harness_sums_case *the);
/* How much of a contribution is in the result: all of it, or its part of an average. */
double harness_sums_factor(const struct harness_sums_case *the);
/* Add what a buffer comes to. */
void harness_sums_add(const struct harness_sums_case *the, const struct harness_watch_value *value,
                      struct harness_sums_total *total);
/* A finding about the call, with its name and step said. */
void harness_sums_begin(const struct harness_sums_case *the, enum harness_verdict verdict,
                        enum harness_mode mode, struct harness_findings *out,
                        struct harness_finding *finding);

/* What may have happened to a contribution, or to all, is one of so many things at most. */
enum { HARNESS_SUMS_CHANGES = 6 };
/* A difference that has nothing to do with any change that is tried comes this near to one of them
 * with a chance below one in a thousand. size: of the difference. */
bool harness_sums_is_telling(const struct harness_sums_case *the, double distance, double size);
/* Nobody can be told from the others. */
void harness_sums_blame_all(const struct harness_sums_case *the, struct harness_finding *finding);

/* moved.c */
/* Say of a wrong result what explains it in the elements that are looked at in every call (guest/
 * observe/sample.h): what ranks put into an earlier call, or a contribution that has moved by an
 * element. Sets the verdict and the culprits. False: neither does, and nothing was said. */
bool harness_sums_explain_moved(const struct harness_sums_case *the,
                                struct harness_finding *finding);

/* exact.c */
enum harness_sums_exact {
    HARNESS_SUMS_NOT_KEPT, /* or of a kind that is not recomputed */
    HARNESS_SUMS_BITWISE,  /* every element is what some order of summation gives */
    HARNESS_SUMS_BOUND,    /* no order is known that gives it; every element is within its bound */
    HARNESS_SUMS_WRONG     /* a finding was added */
};
/* Judge a sum, whose results are the same on all ranks, element by element, if its data were kept.
 * off: what its projection says; what that explains better is left to it. */
enum harness_sums_exact harness_sums_judge_exact(const struct harness_sums_case *the,
                                                 const struct harness_sums_off *off,
                                                 struct harness_findings *out);

#ifdef __cplusplus
}
#endif
#endif
