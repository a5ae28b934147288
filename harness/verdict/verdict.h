/* Findings: what an oracle, the monitor or the launcher found. Verdicts: what kind of error it is.
 * Outcomes: what follows for the run. Pure data. */
#ifndef HARNESS_VERDICT_VERDICT_H
#define HARNESS_VERDICT_VERDICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"
#include "ddpcore/seam/phase.h"
#include "ddpcore/seam/recorder.h"
#include "harness/verdict/set.h"

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
/* What a verdict is about: the first half of its name. */
enum harness_family {
    HARNESS_FAMILY_NONE,
    HARNESS_FAMILY_CRASH,
    HARNESS_FAMILY_HANG,
    HARNESS_FAMILY_SLOW,
    HARNESS_FAMILY_MISMATCH,
    HARNESS_FAMILY_USAGE,
    HARNESS_FAMILY_VALUE,
    HARNESS_FAMILY_DATA,
    HARNESS_FAMILY_CHECKPOINT,
    HARNESS_FAMILY_LAUNCH,
    HARNESS_FAMILY_RESOURCE
};
enum harness_family harness_verdict_family(enum harness_verdict verdict);
/* A hang that progress words of devices show. */
bool harness_verdict_is_of_device(enum harness_verdict verdict);
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

/* Who finds: an oracle, or a part of the run that reports by itself (oracle.def). */
enum harness_oracle_id {
    HARNESS_ORACLE_NONE,
#define X(kind, id, name, gives, proves) HARNESS_ORACLE_##id,
#include "harness/verdict/oracle.def"
#undef X
    HARNESS_ORACLE_COUNT
};
/* "monitor", "gradient", ...; NULL for NONE. Static storage. */
const char *harness_oracle_name(enum harness_oracle_id oracle);
DDP_MUST_USE ddp_status harness_oracle_parse(const char *name, enum harness_oracle_id *out);
const char *harness_oracle_proves(enum harness_oracle_id oracle);
/* What it may find of ranks of our own: verdicts, and families with all of theirs. */
const char *harness_oracle_gives(enum harness_oracle_id oracle);
bool harness_oracle_can_give(enum harness_oracle_id oracle, enum harness_verdict verdict);
/* An oracle: it judges a finished run. False: a part of the run. */
bool harness_oracle_is_checker(enum harness_oracle_id oracle);

/* How a finding was reached. X(id, name) */
#define HARNESS_MODE_TABLE(X)                                                           \
    X(BITWISE, "bitwise")   /* two values are not the same bits */                      \
    X(BOUND, "bound")       /* a value lies outside of a derived bound */               \
    X(PROVABLE, "provable") /* it follows from the record alone, whatever the timing */ \
    X(BUDGET, "budget")     /* something took longer than its budget */                 \
    X(STATUS, "status")     /* a rank, or a reader of its files, reports it */          \
    X(LEDGER, "ledger")     /* samples used against samples due */                      \
    X(PROBE, "probe")       /* an order of sums that was measured with inputs of our own */
enum harness_mode {
    HARNESS_MODE_NONE,
#define X(id, name) HARNESS_MODE_##id,
    HARNESS_MODE_TABLE(X)
#undef X
        HARNESS_MODE_COUNT
};
/* "bitwise", ...; NULL for NONE. Static storage. */
const char *harness_mode_name(enum harness_mode mode);
DDP_MUST_USE ddp_status harness_mode_parse(const char *name, enum harness_mode *out);

/* Where in a step a value was compared, in the order of cause and effect. */
enum harness_stage {
    HARNESS_STAGE_DATA,      /* the samples of a batch */
    HARNESS_STAGE_STATISTIC, /* what BatchNorms exchange over all ranks' batches */
    HARNESS_STAGE_GRADIENT,  /* loss and local gradients */
    HARNESS_STAGE_INPUT,     /* what went into a bucket's all-reduce */
    HARNESS_STAGE_OUTPUT,    /* what came out */
    HARNESS_STAGE_FINAL,     /* averaged gradients, copied back */
    HARNESS_STAGE_UPDATE,    /* parameters and optimizer state */
    HARNESS_STAGE_BUFFER, /* buffers that survivors of a loss begin with: no step records buffers */
    HARNESS_STAGE_COUNT
};

/* Which operation a finding is about; fields that do not apply are unset. */
struct harness_finding_op {
    bool is_set;
    uint64_t seq; /* 0 = unknown */
    enum ddp_coll_kind kind;
    enum ddp_coll_role role;
    int32_t bucket; /* -1 = none */
    uint64_t elem_count;
    uint32_t index; /* of USER: its place in job.posts */
};

/* What else is known of a guest's call; comm is said of what is posted in job.groups, too. */
struct harness_finding_guest {
    int32_t kind;  /* 1 + enum ddprove_guest_kind; 0: it is none */
    char comm[32]; /* the communicator's name; "" */
};

/* Where in schedules something is wrong; each -1 if that is not said. */
struct harness_step_place {
    int64_t rank;
    int64_t step; /* of that rank's schedule */
    int64_t elem; /* of the buffer that the step touches, without a step of the output */
};
#define HARNESS_STEP_PLACE_NONE ((struct harness_step_place){-1, -1, -1})

struct harness_finding {
    enum harness_verdict verdict;
    enum harness_oracle_id oracle;
    enum harness_mode mode;
    ddp_status status; /* what ranks reported, if that is what was found; else DDP_OK */
    struct harness_rank_set culprits, victims;
    struct harness_finding_op op;
    struct harness_finding_guest guest; /* if op is a guest's call */
    struct harness_list params;         /* indices into the model's table, each once */
    int32_t step, micro;                /* -1 = none */
    int32_t phase;                      /* enum ddp_phase or -1 */
    struct harness_step_place place;    /* in the schedules of op */
    int32_t stage;        /* enum harness_stage of values compared with the emulation, or -1 */
    int64_t detect_ns;    /* fault fired (or process ended) -> noticed; -1 = not measured */
    int64_t attribute_ns; /* fired -> culprit named; -1 = not measured */
    char text[512];       /* one sentence with the evidence */
    /* The judge's: which other finding it follows from, as an index, and why; -1: from none. */
    int64_t cause;
    const char *cause_words;
    double factor_low, factor_high; /* factors that would explain all that differs; 0: none would */
    bool is_of_algorithm;           /* about a schedule or a tree itself, whoever has it */
    bool is_after_loss; /* of what the survivors did by themselves: its causes were found there */
};
/* mem: of its sets (set.h). Like them, a finding may be copied by assignment. */
void harness_finding_init(struct harness_finding *finding, struct ddp_mem *mem,
                          enum harness_verdict verdict, enum harness_oracle_id oracle,
                          enum harness_mode mode);
/* Once each, in the order of the calls. */
void harness_finding_add_param(struct harness_finding *finding, uint32_t param);
/* Out of memory: a rank or a parameter is missing. */
bool harness_finding_is_failed(const struct harness_finding *finding);
/* A copy whose sets share nothing with the original, for memory that is no pool; and its release.
 */
struct harness_finding harness_finding_copy(const struct harness_finding *finding,
                                            struct ddp_mem *mem);
void harness_finding_free(struct harness_finding *finding);

/* Collected findings. Where findings are made, not only kept, mem is a pool (set.h). */
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
/* Adds a copy whose sets are in findings->mem. */
void harness_findings_add(struct harness_findings *findings, const struct harness_finding *finding);

#ifdef __cplusplus
}
#endif
#endif
