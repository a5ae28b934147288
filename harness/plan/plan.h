/* The plan: a scenario with no randomness and no choice left. Everything that a run and its judge
 * need, and nothing that depends on the machine. It prints as YAML in the scenario format, and that
 * text parses back to the same plan. Pure data. */
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
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest job that the drivers run; schema.def says the same. */
#define HARNESS_JOB_RANKS_MAX 1024

enum harness_driver { HARNESS_DRIVER_SIM, HARNESS_DRIVER_PROC, HARNESS_DRIVER_COUNT };

/* Names are checked against the tables of their owners (models, algorithms, ...) when a plan is
 * wired, so that this layer depends on none of them. Strings live in the plan's pool. */
struct harness_job {
    uint32_t ranks, steps, micro_batches;
    uint32_t start_step; /* of a restored run: steps its checkpoint has completed; never parsed */
    const char *model;   /* reference/model.h */
    const char *branch;  /* branchy's rule: "both", ... */
    uint32_t skip_rank;  /* for branch rank_skips */
    uint32_t ranks_per_gpu; /* cuda: ranks that share a card */
    size_t width[65];       /* mlp widths, or width_count 0: the model's default */
    size_t width_count;
    const char *data;         /* reference/data.h */
    size_t samples, features; /* 0: default */
    size_t *batch_per_rank;   /* size_t[ranks] */
    size_t *shard_sizes;      /* size_t[ranks] or NULL */
    bool is_shuffled;
    const char *optimizer; /* "sgd", "adamw" */
    double lr, momentum, dampening, weight_decay, beta1, beta2, eps;
    bool nesterov;
    size_t bucket_cap_bytes, first_bucket_cap_bytes; /* 0: default */
    const char *bucket_order;                        /* "reverse" */
    const char *gradient_scale;                      /* "pre", "post" */
    bool find_unused_parameters, broadcast_buffers;
    uint32_t checkpoint_every;  /* steps; 0 = never */
    bool is_checkpoint_wrapped; /* save with "module." keys, as through the wrapper */
    uint64_t seed;
    const char *semantics;  /* "strict", "pytorch" */
    const char *collective; /* all_reduce algorithm; "mpi"; "nccl" or "nccl/<algorithm>" on cuda */
    const char *device;     /* "cpu", "cuda" */
    uint64_t timeout_ns;    /* per wait; 0 = never */
    bool is_join, divide_by_initial_world_size, throw_on_early_termination;
    uint32_t model_drift_rank; /* + 1: this rank builds another model (wider layer); 0 = none */
    uint64_t phase_budget_ms[DDP_PHASE_COUNT]; /* silence longer than this is a hang */
};

/* When a fault fires: every field that is set must match; hit counts the matches of the others. */
struct harness_trigger {
    uint32_t rank;
    int64_t step, micro, bucket, param, layer, seq; /* -1 = any */
    int32_t phase;                                  /* enum ddp_phase or -1 */
    uint32_t hit;                                   /* from 1 */
    uint32_t times; /* how often it fires from that hit on; 0 = every time */
};

/* X(identifier, name, meaning) */
#define HARNESS_ACTION_TABLE(X)                                                              \
    X(HARNESS_ACTION_NONE, "none", "nothing: the trigger is evaluated, no fault")            \
    X(HARNESS_ACTION_KILL, "kill", "end the process by a signal: {kill: SIGKILL}")           \
    X(HARNESS_ACTION_EXIT, "exit", "_exit(code): {exit: 0}")                                 \
    X(HARNESS_ACTION_ABORT, "abort", "abort(): {abort: true}")                               \
    X(HARNESS_ACTION_STOP, "stop", "SIGSTOP, continued after ms, or never: {stop: forever}") \
    X(HARNESS_ACTION_DELAY, "delay", "host code takes so many ms longer: {delay: 20}")       \
    X(HARNESS_ACTION_HANG, "hang", "host code never goes on: {hang: true}")                  \
    X(HARNESS_ACTION_SKIP, "skip", "what comes next is left out: {skip: true}")              \
    X(HARNESS_ACTION_DUP, "dup", "what comes next is done twice: {dup: true}")               \
    X(HARNESS_ACTION_FAIL, "fail", "what comes next fails: {fail: true}")                    \
    X(HARNESS_ACTION_CORRUPT, "corrupt", "change the data: {corrupt: zero}")                 \
    X(HARNESS_ACTION_SPIN, "spin", "a kernel runs for ms, or for ever: {spin: forever}")     \
    X(HARNESS_ACTION_TRAP, "trap", "a kernel makes an illegal access: {trap: true}")         \
    X(HARNESS_ACTION_ARG, "arg", "change an argument: {arg: count, value: 10}")
enum harness_action_kind {
#define X(id, name, meaning) id,
    HARNESS_ACTION_TABLE(X)
#undef X
        HARNESS_ACTION_KIND_COUNT
};

/* X(identifier, name, meaning) */
#define HARNESS_CORRUPT_TABLE(X)                                                              \
    X(HARNESS_CORRUPT_ZERO, "zero", "every element becomes 0: the contribution is lost")      \
    X(HARNESS_CORRUPT_DOUBLE, "double", "every element times 2: the contribution is doubled") \
    X(HARNESS_CORRUPT_HALF, "half", "every element times 1/2")                                \
    X(HARNESS_CORRUPT_SCALE, "scale", "every element times `value`")                          \
    X(HARNESS_CORRUPT_SHIFT, "shift", "elements move up by `value` places (default 1)")       \
    X(HARNESS_CORRUPT_NAN, "nan", "element `elem` becomes NaN")                               \
    X(HARNESS_CORRUPT_FLIP, "flip", "`bits` bits from `bit` on flip in element `elem`")       \
    X(HARNESS_CORRUPT_SET, "set", "element `elem` becomes `value`")
enum harness_corrupt_kind {
#define X(id, name, meaning) id,
    HARNESS_CORRUPT_TABLE(X)
#undef X
        HARNESS_CORRUPT_KIND_COUNT
};

/* Signals that `kill` may send; SIGSTOP is `stop`. X(identifier): also its name. */
#define HARNESS_SIGNAL_TABLE(X) \
    X(SIGHUP)                   \
    X(SIGINT)                   \
    X(SIGQUIT)                  \
    X(SIGILL)                   \
    X(SIGABRT)                  \
    X(SIGBUS)                   \
    X(SIGFPE)                   \
    X(SIGKILL)                  \
    X(SIGUSR1)                  \
    X(SIGSEGV)                  \
    X(SIGUSR2)                  \
    X(SIGPIPE)                  \
    X(SIGTERM)

/* X(identifier, name) : fields of a collective's arguments */
#define HARNESS_ARG_TABLE(X)      \
    X(HARNESS_ARG_KIND, "kind")   \
    X(HARNESS_ARG_COUNT, "count") \
    X(HARNESS_ARG_DTYPE, "dtype") \
    X(HARNESS_ARG_REDOP, "redop") \
    X(HARNESS_ARG_ROOT, "root")   \
    X(HARNESS_ARG_INDEX, "index")
enum harness_arg_field {
#define X(id, name) id,
    HARNESS_ARG_TABLE(X)
#undef X
        HARNESS_ARG_FIELD_COUNT
};

struct harness_action {
    enum harness_action_kind kind;
    int signal;    /* kill */
    int exit_code; /* exit */
    uint64_t ms;   /* stop and spin (0 = for ever), delay */
    enum harness_corrupt_kind corrupt;
    double value;           /* corrupt scale, shift, set */
    uint64_t elem, bit;     /* corrupt nan, flip, set */
    uint64_t bits;          /* corrupt flip: neighbouring bits that flip, from bit up */
    uint64_t count, stride; /* corrupt flip: so many elements, so far apart, from elem on */
    enum harness_arg_field arg;
    uint64_t arg_value; /* count, root, index; kind, dtype, redop as their enum */
};

struct harness_fault {
    struct harness_trigger at;
    enum ddp_fault_point point;
    struct harness_action action;
};

/* A second run that starts from the first one's checkpoint. */
/* X(identifier, name, meaning) */
#define HARNESS_EDIT_TABLE(X)                                                       \
    X(HARNESS_EDIT_NONE, "none", "the checkpoint is loaded as it was written")      \
    X(HARNESS_EDIT_ADD_PREFIX, "add_prefix", "one more module. on every key")       \
    X(HARNESS_EDIT_DOUBLE_PREFIX, "double_prefix", "two more module. on every key") \
    X(HARNESS_EDIT_MIXED_PREFIX, "mixed_prefix", "module. on every second key")     \
    X(HARNESS_EDIT_DROP_KEY, "drop_key", "the key `key` is removed")                \
    X(HARNESS_EDIT_EXTRA_KEY, "extra_key", "a key `key` is added")                  \
    X(HARNESS_EDIT_TRUNCATE, "truncate", "the file loses its last bytes")           \
    X(HARNESS_EDIT_FLIP_BYTE, "flip_byte", "one byte of the tensor `key` changes")
enum harness_edit_kind {
#define X(id, name, meaning) id,
    HARNESS_EDIT_TABLE(X)
#undef X
        HARNESS_EDIT_KIND_COUNT
};
struct harness_restore {
    bool is_set;
    bool is_wrapped;    /* load into the wrapped model (keys with "module."), else the bare one */
    const char *prefix; /* "auto", "exact", "pytorch" */
    enum harness_edit_kind edit;
    const char *key;
    uint32_t ranks;            /* 0 = as before */
    bool skip_optimizer_state; /* injected omission: the state is not restored */
};

struct harness_expect {
    enum harness_verdict verdict;
    /* Extra verdicts that may appear beside it. */
    enum harness_verdict also[4];
    uint32_t also_count;
    bool is_culprit_injected; /* culprit: injected = the ranks of all faults that do something */
    bool is_culprit_all;      /* culprit: all */
    struct harness_rank_set culprits; /* otherwise; empty = none */
    struct {
        bool is_set;
        int64_t bucket, seq; /* -1 = not stated */
        const char **params; /* names, exact set; NULL = not stated */
        uint32_t param_count;
    } op;
    int64_t step;                  /* -1 = not stated */
    int32_t phase;                 /* -1 = not stated */
    enum harness_oracle_id oracle; /* NONE = not stated */
    enum harness_mode mode;        /* NONE = not stated */
    struct {
        bool is_set;
        ddp_status status;
        uint64_t within_ms; /* 0 = not stated */
    } survivors;
    struct {
        bool is_set;
        int64_t from_step; /* -1 = not stated */
        bool equals_uninterrupted;
        enum harness_verdict refused; /* NONE = must load */
    } restore;
};

struct harness_forbid {
    bool accuse_others;                   /* no rank outside the expected culprits is named */
    bool leak_process, leak_shm, leak_fd; /* nothing of that kind may be left behind */
};

struct harness_canary {
    bool is_set;
    enum harness_outcome outcome; /* what the inner judge must return */
    enum harness_verdict verdict; /* and its verdict (FAIL only; NONE = not stated) */
};

struct harness_plan {
    struct ddp_mem_pool *pool;
    const char *id;      /* "crash.sigkill_in_allreduce" */
    const char *title;   /* for reports; NULL = none */
    const char *cell;    /* "faults.0.at.rank=first,job.ranks=2", or "" */
    const char *file;    /* where it came from */
    const char *purpose; /* the comment at the head of the file, one line */
    const char **covers; /* rows of the fault catalog */
    uint32_t cover_count;
    bool is_driver[HARNESS_DRIVER_COUNT]; /* `drivers: [sim, proc]`, default both */
    struct harness_job job;
    struct harness_fault *faults;
    uint32_t fault_count;
    struct harness_restore restore;
    struct harness_expect expect;
    struct harness_forbid forbid;
    struct harness_canary canary;
};

/* Adds the ranks of all faults whose action is not NONE. */
void harness_plan_injected(const struct harness_plan *plan, struct harness_rank_set *out);
/* YAML in the scenario format; parses back to an equal plan (harness/scenario/scenario.h). */
void harness_plan_print(const struct harness_plan *plan, struct ddp_text *out);
const char *harness_driver_name(enum harness_driver driver);
/* Whether the plan can run there: its own list of drivers; GPUs and MPI have real processes only.
 */
bool harness_plan_runs_on(const struct harness_plan *plan, enum harness_driver driver);
/* Whether the plan's ranks compute on GPUs. */
bool harness_plan_is_cuda(const struct harness_plan *plan);
/* Whether its collectives are MPI's. */
bool harness_plan_is_mpi(const struct harness_plan *plan);
/* Whether nobody knows in which order its all-reduce adds until that was measured. */
bool harness_plan_is_opaque(const struct harness_plan *plan);
/* The algorithm whose schedules run over NCCL ("nccl/ring": "ring"), or NULL. */
const char *harness_plan_nccl_algorithm(const struct harness_plan *plan);
/* The all-reduce's algorithm as its dumped schedules name it; an opaque one dumps none. */
const char *harness_plan_algorithm(const struct harness_plan *plan);
const char *harness_action_name(enum harness_action_kind kind);
const char *harness_corrupt_name(enum harness_corrupt_kind kind);
const char *harness_arg_name(enum harness_arg_field field);
const char *harness_edit_name(enum harness_edit_kind kind);
/* "SIGKILL"; NULL if it is not in the table. */
const char *harness_signal_name(int signal);
/* Text as YAML that reads back as this very text: plain if that is safe, else quoted. */
void harness_plan_print_text(const char *text, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
