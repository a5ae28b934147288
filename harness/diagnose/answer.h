/* What follows from the evidence. */
#ifndef HARNESS_DIAGNOSE_ANSWER_H
#define HARNESS_DIAGNOSE_ANSWER_H

#include "harness/dumps/evidence.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_DIAG_ALTERNATIVES_MAX 4
#define HARNESS_DIAG_LINES_MAX        24

/* How sure a finding is. */
enum harness_diag_sure {
    HARNESS_DIAG_POSSIBLE, /* one of several readings */
    HARNESS_DIAG_LIKELY,   /* the reading that needs the fewest assumptions */
    HARNESS_DIAG_CERTAIN   /* it follows from what was recorded, whatever the timing */
};

struct harness_diag_finding {
    enum harness_verdict verdict;
    enum harness_verdict alternatives[HARNESS_DIAG_ALTERNATIVES_MAX]; /* what it may be instead */
    size_t alternative_count;
    enum harness_diag_sure sure;
    struct harness_rank_set culprits;
    struct harness_rank_set suspects; /* one of these, if there are no culprits */
    struct harness_rank_set victims;
    size_t group;                              /* SIZE_MAX: none */
    int64_t seq;                               /* 0: none */
    struct harness_diag_call expected, posted; /* kind NULL: there is none */
    const char *what;                          /* one sentence */
    const char *why;                           /* why that and not something else; "" */
    const char *lines[HARNESS_DIAG_LINES_MAX]; /* what each piece of evidence says */
    size_t line_count;
    bool has_ended; /* of a crash: something says that the rank ended */
    size_t matched; /* of a mismatch: the calls behind it that fit the reading */
};

struct harness_diag_answer {
    enum harness_outcome outcome; /* FAIL: a fault is named. PASS, INCONCLUSIVE */
    struct harness_diag_finding *findings;
    size_t finding_count, finding_capacity;
    const char *unknown[HARNESS_DIAG_LINES_MAX]; /* what cannot be known from this */
    size_t unknown_count;
};

/* All zero and empty. */
struct harness_diag_finding harness_diag_finding_make(struct harness_diag_evidence *evidence,
                                                      enum harness_verdict verdict);
/* More than HARNESS_DIAG_LINES_MAX are left out. */
void harness_diag_finding_line(struct harness_diag_finding *finding, const char *line);
void harness_diag_answer_unknown(struct harness_diag_answer *answer, const char *line);
void harness_diag_finding_or(struct harness_diag_finding *finding,
                             enum harness_verdict alternative);

/* Compares what the members of a group have posted, call by call: the first difference, if there is
 * one. Never takes a certain rank for the right one. */
bool harness_diag_compare(struct harness_diag_evidence *evidence, size_t group,
                          struct harness_diag_finding *out);
/* Whether the calls of this member up to (not including) the one at index lead one to expect it. */
enum harness_diag_expected {
    HARNESS_DIAG_NOT_TOLD,
    HARNESS_DIAG_EXPECTED,
    HARNESS_DIAG_UNEXPECTED
};
enum harness_diag_expected harness_diag_is_expected(struct harness_diag_evidence *evidence,
                                                    const struct harness_diag_member *member,
                                                    size_t index);

/* Who waits for whom over all groups. */
void harness_diag_waits(struct harness_diag_evidence *evidence, struct harness_diag_answer *answer);
/* What ended ranks by themselves. */
bool harness_diag_crashes(struct harness_diag_evidence *evidence, struct harness_diag_finding *out);
/* Equal calls from different lines: that cannot be known. */
void harness_diag_sites(struct harness_diag_evidence *evidence, struct harness_diag_answer *answer);
void harness_diag_conclude(struct harness_diag_evidence *evidence, struct harness_diag_answer *out);
void harness_diag_answer_add(struct harness_diag_evidence *evidence,
                             struct harness_diag_answer *answer,
                             const struct harness_diag_finding *finding);

#ifdef __cplusplus
}
#endif
#endif
