/* Findings and verdicts: what a checker says, and what follows from it. Pure data. */
#ifndef HARNESS_VERDICT_VERDICT_H
#define HARNESS_VERDICT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"
#include "ddpcore/seam/phase.h"
#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

enum harness_verdict {
    HARNESS_VERDICT_NONE,
#define X(family, name, meaning) HARNESS_VERDICT_##family##_##name,
#include "harness/verdict/verdict.def"
#undef X
    HARNESS_VERDICT_COUNT
};
/* "NONE", "CRASH.SIGNALED", ... Static storage. */
const char *harness_verdict_name(enum harness_verdict verdict);
const char *harness_verdict_meaning(enum harness_verdict verdict);
DDP_MUST_USE ddp_status harness_verdict_parse(const char *name, enum harness_verdict *out);

/* Exit codes: 0 PASS, 1 FAIL, 3 ERROR, 4 INCONCLUSIVE, 77 SKIP. */
enum harness_outcome {
    HARNESS_OUTCOME_PASS,
    HARNESS_OUTCOME_FAIL,
    HARNESS_OUTCOME_INCONCLUSIVE, /* a planned fault did not fire, or evidence was lost */
    HARNESS_OUTCOME_ERROR,        /* the harness itself failed */
    HARNESS_OUTCOME_SKIP
};
const char *harness_outcome_name(enum harness_outcome outcome);
DDP_MUST_USE ddp_status harness_outcome_parse(const char *name, enum harness_outcome *out);
int harness_outcome_exit_code(enum harness_outcome outcome);
/* Of several scenarios: ERROR, FAIL, INCONCLUSIVE, PASS in that order; SKIP only if all skipped. */
enum harness_outcome harness_outcome_worse(enum harness_outcome a, enum harness_outcome b);

/* A set of ranks. */
#define HARNESS_RANKS_MAX 1024
struct harness_rank_set {
    uint64_t word[HARNESS_RANKS_MAX / 64];
};
void harness_rank_set_add(struct harness_rank_set *set, uint32_t rank);
bool harness_rank_set_has(const struct harness_rank_set *set, uint32_t rank);
bool harness_rank_set_is_empty(const struct harness_rank_set *set);
bool harness_rank_set_is_equal(const struct harness_rank_set *a, const struct harness_rank_set *b);
bool harness_rank_set_is_subset(const struct harness_rank_set *a,
                                const struct harness_rank_set *of);
uint32_t harness_rank_set_count(const struct harness_rank_set *set);

/* Which operation a finding is about; fields that do not apply are unset. */
struct harness_finding_op {
    bool is_set;
    uint64_t seq; /* 0 = unknown */
    enum ddp_coll_kind kind;
    enum ddp_coll_role role;
    int32_t bucket; /* -1 = none */
    uint64_t elem_count;
};

#define HARNESS_FINDING_PARAMS_MAX 512
struct harness_finding {
    enum harness_verdict verdict;
    const char *oracle; /* static: name of the checker */
    const char *mode;   /* static: "bitwise", "bound", "provable", "budget", "status", "ledger" */
    struct harness_rank_set culprits, victims;
    struct harness_finding_op op;
    uint32_t param[HARNESS_FINDING_PARAMS_MAX]; /* indices into the model's table */
    uint32_t param_count;
    int32_t step, micro;  /* -1 = none */
    int32_t phase;        /* enum ddp_phase or -1 */
    int64_t detect_ns;    /* fault fired (or process ended) -> noticed; -1 = not measured */
    int64_t attribute_ns; /* fired -> culprit named; -1 = not measured */
    char text[512];       /* one sentence with the evidence */
};
void harness_finding_init(struct harness_finding *finding, enum harness_verdict verdict,
                          const char *oracle, const char *mode);

/* Collected findings. Growing array in mem. */
struct harness_findings {
    struct ddp_mem *mem;
    struct harness_finding *items;
    size_t count, capacity;
    bool is_failed;        /* out of memory: the outcome is ERROR */
    bool is_evidence_lost; /* torn or overwritten records: the outcome is INCONCLUSIVE */
    char lost_text[256];
};
void harness_findings_init(struct harness_findings *findings, struct ddp_mem *mem);
void harness_findings_fini(struct harness_findings *findings);
void harness_findings_add(struct harness_findings *findings, const struct harness_finding *finding);

#ifdef __cplusplus
}
#endif
#endif
