/* A bench for causes: a record of four ranks, and findings in few words.
 *
 * The record: four ranks, step 3 with operations 8 (join's count), 9 (buffers), 10 (bucket 0:
 * parameters 3 and 2), 11 (bucket 1: parameters 1 and 0), and step 4 with 12 and 13 for the
 * buckets. Rank 2 took a batch in step 4 alone, the others none. Rank 1 took no loss, completed 10
 * and nothing later; ranks 0 and 2 wait in 12, rank 3 completed it. */
#ifndef TESTS_UNIT_JUDGE_CAUSE_BENCH_H
#define TESTS_UNIT_JUDGE_CAUSE_BENCH_H

#include "harness/judge/cause.h"

enum { WORLD = 4, EVENT_MAX = 64, OP_COUNT = 6, FIRST_SEQ = 8, OPEN_SEQ = 12 };

struct cause_bench {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    struct harness_plan plan;
    struct harness_program program;
    struct harness_op ops[OP_COUNT];
    struct harness_bucket buckets[2];
    struct harness_trace trace;
    struct harness_trace_event events[EVENT_MAX];
    struct harness_paths paths;
};

/* A finding in few words. */
struct cause_spec {
    enum harness_verdict verdict;
    enum harness_oracle_id oracle;
    enum harness_mode mode;
    uint32_t ranks, victims, params; /* bits */
    int32_t step;
    struct harness_finding_op op;
    enum harness_stage stage; /* DATA: none */
    ddp_status status;
};

#define BIT(n) (1u << (n))
#define MONITOR(v) \
    .verdict = HARNESS_VERDICT_##v, .oracle = HARNESS_ORACLE_MONITOR, .mode = HARNESS_MODE_PROVABLE
#define REPORTED(v) \
    .verdict = HARNESS_VERDICT_##v, .oracle = HARNESS_ORACLE_USAGE, .mode = HARNESS_MODE_STATUS
#define FOUND(v, o) \
    .verdict = HARNESS_VERDICT_##v, .oracle = HARNESS_ORACLE_##o, .mode = HARNESS_MODE_BITWISE
#define BUCKET(seq, b) \
    .op = {true, seq, DDP_COLL_ALL_REDUCE, DDP_ROLE_BUCKET, b, (b) == 0 ? 1056 : 2080}
#define OTHER(seq, role) .op = {true, seq, DDP_COLL_BROADCAST, DDP_ROLE_##role, -1, 32}

void cause_bench_init(struct cause_bench *f);
void cause_bench_fini(struct cause_bench *f);
struct harness_finding cause_bench_make(const struct cause_bench *f, const struct cause_spec *spec);

struct cause_row {
    const char *name;
    struct cause_spec a, b;
    const char *words; /* NULL: b does not follow from a */
};

void cause_bench_check(const struct cause_row *rows, size_t count);
#define CAUSE_CHECK_ROWS(rows) cause_bench_check(rows, sizeof(rows) / sizeof((rows)[0]))

#define CRASH_1                                                            \
    {                                                                      \
        MONITOR(CRASH_SIGNALED), .ranks = BIT(1), .step = 3, BUCKET(11, 1) \
    }
#define STOP_2                                                           \
    {                                                                    \
        MONITOR(HANG_STOPPED), .ranks = BIT(2), .step = 4, BUCKET(12, 0) \
    }
#define MISSING_1                                                            \
    {                                                                        \
        MONITOR(MISMATCH_MISSING), .ranks = BIT(1), .step = 3, BUCKET(11, 1) \
    }
#define EARLY_1                                                                  \
    {                                                                            \
        MONITOR(CRASH_FINISHED_EARLY), .ranks = BIT(1), .step = 3, BUCKET(11, 1) \
    }
#define UNUSED_1                                                                       \
    {                                                                                  \
        REPORTED(USAGE_UNUSED_PARAMETER), .ranks = BIT(1), .step = 3, .params = BIT(1) \
    }
#define TIMEOUT_12                                                                         \
    {                                                                                      \
        REPORTED(HANG_NOT_JOINED), .ranks = BIT(1), .victims = BIT(0) | BIT(2), .step = 4, \
                                   BUCKET(12, 0)                                           \
    }

#define LOST_INPUT                                                                           \
    {                                                                                        \
        FOUND(VALUE_LOST, REDUCTION), .ranks = BIT(1), .step = 3, .params = BIT(0) | BIT(1), \
                                      BUCKET(11, 1), .stage = HARNESS_STAGE_INPUT            \
    }
#define WRONG_OUTPUT                                                                              \
    {                                                                                             \
        FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(1), .step = 3, .params = BIT(0) | BIT(1), \
                                           BUCKET(11, 1), .stage = HARNESS_STAGE_OUTPUT           \
    }
#define SPLIT(r, p, s)                                                                \
    {                                                                                 \
        FOUND(VALUE_DIVERGED, REPLICAS), .ranks = BIT(r), .params = BIT(p), .step = s \
    }
#define GRADIENT(r, s)                                                                   \
    {                                                                                    \
        FOUND(VALUE_CORRUPTED, GRADIENT), .ranks = BIT(r), .params = BIT(0), .step = s,  \
                                          BUCKET(11, 1), .stage = HARNESS_STAGE_GRADIENT \
    }

#endif
