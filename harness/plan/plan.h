/* The plan: a scenario with no randomness and no choice left. Everything that a run and its judge
 * need, and nothing that depends on the machine. It prints as YAML in the scenario format, and that
 * text parses back to the same plan. Pure data.
 *
 * The members that scenarios set come from the rows of key.def, where their meaning and their range
 * stand; text lives in the plan's pool. Names of models and datasets are text, because reference
 * owns their tables: the parser looks them up, and reference does when it builds them. */
#ifndef HARNESS_PLAN_PLAN_H
#define HARNESS_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/text.h"
#include "ddpcore/seam/fault_point.h"
#include "ddpcore/seam/phase.h"
#include "ddpcore/seam/recorder.h"
#include "harness/plan/kind.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest job that the drivers run. The memory of sim grows with the square of the ranks: 0.6
 * GB at 1,024, 6.8 GB at 4,096, where a step takes minutes. */
#define HARNESS_JOB_RANKS_MAX 1024

typedef bool harness_driver_set[HARNESS_DRIVER_COUNT];
typedef bool harness_leak_set[HARNESS_LEAK_COUNT];
typedef bool harness_oracle_set[HARNESS_ORACLE_COUNT];
typedef uint64_t harness_phase_ms[DDP_PHASE_COUNT];

struct harness_texts {
    const char **items;
    size_t count;
};
struct harness_sizes {
    size_t *items;
    size_t count;
};
struct harness_verdicts {
    enum harness_verdict items[4];
    size_t count;
};

#define MEMBER(key, c_type, member, ...) c_type member;

struct harness_guest {
    bool is_set;
#define GUEST MEMBER
#include "harness/plan/key.def"
};

struct harness_optimizer {
#define OPTIMIZER MEMBER
#include "harness/plan/key.def"
};

/* Of a plan whose job is a guest: what its arena has room for. */
#define HARNESS_GUEST_FAULTS_MAX 16

struct harness_join {
    bool is_set;
#define JOIN MEMBER
#include "harness/plan/key.def"
};

struct harness_mixed {
    bool is_set;
#define MIXED MEMBER
#include "harness/plan/key.def"
};

/* Members in the order of the keys: NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
struct harness_job {
#define JOB MEMBER
#include "harness/plan/key.def"
    /* Never parsed: of a restored run, steps its checkpoint has completed, and where its epoch goes
     * on if it has another number of ranks. */
    uint32_t start_step;
    uint64_t start_index, start_epoch, start_used; /* as struct ref_shard_start */
    /* Never parsed: it is the job of those that go on after a loss (survivors.h). */
    bool is_continued;
    uint32_t source; /* the member whose state all take */
};

/* When a fault fires: every field that is set must match (-1 = any); hit counts the matches of the
 * others. */
struct harness_trigger {
#define AT MEMBER
#include "harness/plan/key.def"
};

/* Which calls of the rank's files fail, from the point on. */
struct harness_io_fault {
    bool is_set;
#define IO MEMBER
#include "harness/plan/key.def"
};

/* What it does; of the other members only those that the kind takes are used. */
struct harness_action {
    enum harness_action_kind kind;
#define DO MEMBER
#include "harness/plan/key.def"
    uint64_t arg_value; /* arg: count, root, index; kind, dtype, redop as their enum */
};

struct harness_fault {
#define FAULT MEMBER
#include "harness/plan/key.def"
};

/* A second run that starts from the first one's checkpoint. */
struct harness_restore {
    bool is_set;
#define RESTORE MEMBER
#include "harness/plan/key.def"
};

/* Ranks, as keys of the types CULPRIT and VICTIMS say them. */
struct harness_culprit {
    bool is_stated;   /* false: expect.findings state theirs; of victims: they are not judged */
    bool is_injected; /* the ranks of all faults that do something */
    bool is_all;
    bool is_others;                /* all but the culprits */
    struct harness_rank_set ranks; /* otherwise; empty = none */
};

struct harness_expect_op {
    bool is_set;
#define OP MEMBER
#include "harness/plan/key.def"
};

/* One of several findings. */
struct harness_expect_finding {
#define FINDING MEMBER
#include "harness/plan/key.def"
};
struct harness_expect_findings {
    struct harness_expect_finding *items;
    size_t count;
};

struct harness_survivors {
    bool is_set;
#define SURVIVORS MEMBER
#include "harness/plan/key.def"
};

struct harness_expect_restore {
    bool is_set;
#define EXPECT_RESTORE MEMBER
#include "harness/plan/key.def"
};

struct harness_expect {
#define EXPECT MEMBER
#include "harness/plan/key.def"
};

struct harness_forbid {
#define FORBID MEMBER
#include "harness/plan/key.def"
};

struct harness_canary {
    bool is_set;
#define CANARY MEMBER
#include "harness/plan/key.def"
};

struct harness_plan {
    struct ddp_mem_pool *pool;
    const char *file;    /* where it came from */
    const char *purpose; /* the comment at the head of the file, one line */
    uint32_t fault_count;
#define TOP MEMBER
#include "harness/plan/key.def"
};
#undef MEMBER

/* The run that a fault is for: no first run passes the point checkpoint/load. */
enum harness_run harness_plan_run_of(const struct harness_fault *fault);
/* Adds the ranks of all faults of a run whose action is not NONE. */
void harness_plan_injected(const struct harness_plan *plan, enum harness_run run,
                           struct harness_rank_set *out);
/* YAML in the scenario format; parses back to an equal plan (harness/scenario/scenario.h). */
void harness_plan_print(const struct harness_plan *plan, struct ddp_text *out);
const char *harness_driver_name(enum harness_driver driver);
DDP_MUST_USE ddp_status harness_driver_parse(const char *name, enum harness_driver *out);
const char *harness_guest_adapter_name(enum harness_guest_adapter adapter);
DDP_MUST_USE ddp_status harness_guest_adapter_parse(const char *name,
                                                    enum harness_guest_adapter *out);
const char *harness_guest_launcher_name(enum harness_guest_launcher launcher);
DDP_MUST_USE ddp_status harness_guest_launcher_parse(const char *name,
                                                     enum harness_guest_launcher *out);
const char *harness_action_name(enum harness_action_kind kind);
/* Where an action may be used. */
enum harness_action_place harness_action_place(enum harness_action_kind kind);
/* A fault strikes calls of a rank's process (harness_io_is_of_process). */
bool harness_plan_strikes_process(const struct harness_plan *plan);
/* Whether the plan can run there: its own list of drivers; guests, GPUs, opaque engines, faults of
 * a process's calls and a store of rank 0's have real processes only. */
bool harness_plan_runs_on(const struct harness_plan *plan, enum harness_driver driver);
/* The scenario is written for other world sizes. */
bool harness_plan_is_for_other_ranks(const struct harness_plan *plan);
/* Whether the job is a program of somebody else's (job.guest). */
bool harness_plan_is_guest(const struct harness_plan *plan);
/* Whether the plan's ranks compute on GPUs. */
bool harness_plan_is_cuda(const struct harness_plan *plan);
/* Whether its collectives are MPI's. */
bool harness_plan_is_mpi(const struct harness_plan *plan);
/* Whether nobody knows in which order its all-reduce adds until that was measured. */
bool harness_plan_is_opaque(const struct harness_plan *plan);
/* MPI, or a plug-in, which may be an MPI's. */
bool harness_plan_may_use_mpi(const struct harness_plan *plan);
/* The all-reduce's algorithm as its dumped schedules name it; NULL if it was not chosen. */
const char *harness_plan_algorithm(const struct harness_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
