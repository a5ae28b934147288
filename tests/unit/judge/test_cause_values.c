/* Causes of wrong values: rows of the table in harness/judge/cause.c on synthetic findings, once
 * with the path and once with a path that breaks in one place: another rank, bucket, step or stage.
 */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/judge/cause_bench.h"

static const struct cause_row values_of_values_rows[] = {
    {"output, replicas", WRONG_OUTPUT, SPLIT(1, 0, 3), "hold"},
    {"input, replicas", LOST_INPUT, SPLIT(1, 0, 3), NULL},
    {"output, replicas of another rank", WRONG_OUTPUT, SPLIT(2, 0, 3), NULL},
    {"output, replicas of another bucket", WRONG_OUTPUT, SPLIT(1, 2, 3), NULL},
    {"output, replicas later", WRONG_OUTPUT, SPLIT(1, 0, 4), NULL},
    {"update, replicas before",
     {FOUND(VALUE_DIVERGED, UPDATE), .ranks = BIT(1), .params = BIT(0), .step = 4,
      .stage = HARNESS_STAGE_UPDATE},
     SPLIT(1, 0, 3),
     NULL},
    {"took no part, completed alone",
     WRONG_OUTPUT,
     {FOUND(VALUE_LOST, SCHEDULE), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     "alone"},
    {"took no part, another completed alone",
     WRONG_OUTPUT,
     {FOUND(VALUE_LOST, SCHEDULE), .ranks = BIT(2), .step = 3, BUCKET(11, 1)},
     NULL},
    {"input, completed alone",
     LOST_INPUT,
     {FOUND(VALUE_LOST, SCHEDULE), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     NULL},
    {"input, another input later",
     LOST_INPUT,
     {FOUND(VALUE_LOST, REDUCTION), .ranks = BIT(2), .step = 4, BUCKET(12, 0),
      .stage = HARNESS_STAGE_INPUT},
     NULL},
    {"input, gradient later", LOST_INPUT, GRADIENT(1, 4), NULL},
    {"crash, gradient", CRASH_1, GRADIENT(1, 3), NULL},
    {"received parameters, first gradient",
     {FOUND(VALUE_CORRUPTED, BROADCAST), .ranks = BIT(1), .step = -1, OTHER(2, PARAM_SYNC)},
     GRADIENT(1, 0),
     "received"},
    {"received parameters, gradient of another",
     {FOUND(VALUE_CORRUPTED, BROADCAST), .ranks = BIT(1), .step = -1, OTHER(2, PARAM_SYNC)},
     GRADIENT(2, 0),
     NULL},
    {"received parameters, a later gradient",
     {FOUND(VALUE_CORRUPTED, BROADCAST), .ranks = BIT(1), .step = -1, OTHER(2, PARAM_SYNC)},
     GRADIENT(1, 1),
     NULL},
    {"received buffers, gradient",
     {FOUND(VALUE_CORRUPTED, BROADCAST), .ranks = BIT(1), .step = 3, OTHER(9, BUFFER_SYNC)},
     GRADIENT(1, 3),
     NULL},
    {"received buffers, buffers",
     {FOUND(VALUE_CORRUPTED, BROADCAST), .ranks = BIT(1), .step = 3, OTHER(9, BUFFER_SYNC)},
     {FOUND(VALUE_DIVERGED, REPLICAS), .ranks = BIT(1), .step = 3},
     "received"},
};

/* Replicas differ where some hold another value; nothing else follows from a wrong value. */
CT_TEST(cause, values_of_values)
{
    CAUSE_CHECK_ROWS(values_of_values_rows);
}

static const struct cause_row values_of_other_things_rows[] = {
    {"operation, output",
     MISSING_1,
     {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(0), .step = 3, BUCKET(11, 1),
      .stage = HARNESS_STAGE_OUTPUT},
     "mixed"},
    {"operation, output before",
     MISSING_1,
     {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(0), .step = 3, BUCKET(10, 0),
      .stage = HARNESS_STAGE_OUTPUT},
     NULL},
    {"operation, own input",
     MISSING_1,
     {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(1), .step = 3, BUCKET(11, 1),
      .stage = HARNESS_STAGE_INPUT},
     "mixed"},
    {"operation, input of another",
     MISSING_1,
     {FOUND(VALUE_LOST, REDUCTION), .ranks = BIT(0), .step = 3, BUCKET(11, 1),
      .stage = HARNESS_STAGE_INPUT},
     NULL},
    {"operation, own update left out",
     MISSING_1,
     {FOUND(VALUE_DIVERGED, UPDATE), .ranks = BIT(1), .params = BIT(0), .step = 3,
      .stage = HARNESS_STAGE_UPDATE},
     "mixed"},
    {"operation, own update left out later",
     MISSING_1,
     {FOUND(VALUE_DIVERGED, UPDATE), .ranks = BIT(1), .params = BIT(0), .step = 4,
      .stage = HARNESS_STAGE_UPDATE},
     NULL},
    {"operation, update of another left out",
     MISSING_1,
     {FOUND(VALUE_DIVERGED, UPDATE), .ranks = BIT(2), .params = BIT(0), .step = 3,
      .stage = HARNESS_STAGE_UPDATE},
     NULL},
    {"operation, gradient", MISSING_1, GRADIENT(1, 3), NULL},
    {"operation, replicas", MISSING_1, SPLIT(1, 0, 3), "mixed"},
    {"operation, replicas of the bucket before", MISSING_1, SPLIT(1, 2, 3), NULL},
    {"operation, that bucket in the next step", MISSING_1, SPLIT(1, 2, 4), "mixed"},
    {"operation, buffers before",
     MISSING_1,
     {FOUND(VALUE_DIVERGED, REPLICAS), .ranks = BIT(1), .step = 3},
     NULL},
    {"operation, after join",
     MISSING_1,
     {FOUND(VALUE_DIVERGED, JOINED), .ranks = BIT(2), .step = 4},
     "mixed"},
    {"schedule, output",
     {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 0, BUCKET(2, 1)},
     WRONG_OUTPUT,
     "summed"},
    {"schedule of another length, output",
     {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 0, BUCKET(1, 0)},
     WRONG_OUTPUT,
     NULL},
    {"schedule, input",
     {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 0, BUCKET(2, 1)},
     LOST_INPUT,
     NULL},
    {"schedule, replicas",
     {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 0, BUCKET(2, 1)},
     SPLIT(1, 0, 3),
     "summed"},
    {"schedule, replicas of another bucket",
     {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 0, BUCKET(2, 1)},
     SPLIT(1, 2, 3),
     NULL},
    {"schedule first used later, output",
     {FOUND(VALUE_DUPLICATED, SCHEDULE), .step = 4, BUCKET(13, 1)},
     WRONG_OUTPUT,
     NULL},
    {"reordered sum, schedule",
     {FOUND(VALUE_REORDERED, REDUCTION), .ranks = BIT(1), .step = 0, BUCKET(2, 1),
      .stage = HARNESS_STAGE_OUTPUT},
     {FOUND(VALUE_CORRUPTED, SCHEDULE), .step = -1, BUCKET(2, 1)},
     NULL},
    {"a circle of waits, schedule",
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(2), .step = 4, BUCKET(12, 0)},
     {FOUND(HANG_CYCLE, SCHEDULE), .step = 0, BUCKET(1, 0)},
     NULL},
    {"samples, gradient",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     GRADIENT(1, 3),
     NULL},
    {"samples, global batch",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     {FOUND(VALUE_CORRUPTED, GLOBAL_BATCH), .step = 3, .params = BIT(0)},
     "trained"},
    {"samples, global batch later",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     {FOUND(VALUE_CORRUPTED, GLOBAL_BATCH), .step = 4, .params = BIT(0)},
     NULL},
    {"samples, gradient of another",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     GRADIENT(2, 3),
     NULL},
    {"samples, input of another without join",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(2), .step = 3},
     LOST_INPUT,
     NULL},
    {"samples, replicas",
     {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(1), .step = 3},
     SPLIT(1, 0, 3),
     NULL},
    {"race, that bucket",
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2), .step = 3, BUCKET(11, 1)},
     WRONG_OUTPUT,
     "in use"},
    {"race, another bucket",
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2), .step = 3, BUCKET(10, 0)},
     WRONG_OUTPUT,
     NULL},
    {"race, input of another rank",
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2), .step = 3, BUCKET(11, 1)},
     LOST_INPUT,
     NULL},
    {"race, before",
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2), .step = 4, BUCKET(13, 1)},
     WRONG_OUTPUT,
     NULL},
    {"unfinished pass, replicas", UNUSED_1, SPLIT(1, 0, 3), "did not end"},
    {"unfinished pass said late, replicas",
     {REPORTED(USAGE_UNUSED_PARAMETER), .ranks = BIT(1), .step = 4},
     SPLIT(1, 0, 3),
     "did not end"},
    {"finished pass, replicas",
     {REPORTED(USAGE_UNUSED_PARAMETER), .ranks = BIT(2), .step = 3},
     SPLIT(2, 0, 3),
     NULL},
    {"unfinished pass, race",
     UNUSED_1,
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(1), .step = 3, BUCKET(10, 0)},
     "reduced"},
    {"unfinished pass, race of another",
     UNUSED_1,
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2), .step = 3, BUCKET(10, 0)},
     NULL},
    {"extra work, race",
     {MONITOR(MISMATCH_EXTRA), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     "extra"},
    {"extra work, race for another bucket",
     {MONITOR(MISMATCH_EXTRA), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
     {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(1), .step = 3, BUCKET(10, 0)},
     NULL},
    {"state, file",
     {FOUND(CHECKPOINT_STATE, RESTORE), .ranks = BIT(1), .step = 4},
     {REPORTED(CHECKPOINT_TORN), .step = -1},
     NULL},
};

/* What comes out of mixed operations, wrong schedules, races, other samples, unfinished passes. */
CT_TEST(cause, values_of_other_things)
{
    CAUSE_CHECK_ROWS(values_of_other_things_rows);
}

/* An optimizer with state may show later what was wrong in a gradient. */
CT_TEST(cause, remembered_gradients)
{
    const struct cause_spec output = WRONG_OUTPUT;
    const struct cause_spec other = SPLIT(1, 2, 4);
    const struct cause_spec later = SPLIT(1, 0, 4);
    struct cause_bench f;
    struct harness_finding a;
    struct harness_finding b;

    cause_bench_init(&f);
    a = cause_bench_make(&f, &output);
    b = cause_bench_make(&f, &later);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    f.plan.job.optimizer.momentum = 0.9;
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    f.plan.job.optimizer.momentum = 0;
    f.plan.job.optimizer.kind = HARNESS_OPTIMIZER_ADAMW;
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    b = cause_bench_make(&f, &other);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    cause_bench_fini(&f);
}

/* Under join the number of ranks with data scales everybody's inputs or averages, and a rank that
 * leaves a step out and goes on is a step ahead: of itself, and of who counted it. Of a rank that
 * took nothing later nothing follows, since all else is judged for what it took. */
CT_TEST(cause, samples_under_join)
{
    static const struct cause_spec missing = {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(2),
                                              .step = 3};
    static const struct cause_spec ended = {FOUND(DATA_MISSING, LEDGER), .ranks = BIT(3),
                                            .step = 3};
    static const struct cause_spec follow[] = {
        {FOUND(VALUE_SCALED, REDUCTION), .ranks = BIT(1), .step = 3, BUCKET(11, 1),
         .stage = HARNESS_STAGE_FINAL},
        {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(2), .step = 3, OTHER(11, USED_MAP)},
        {MONITOR(MISMATCH_MISSING), .ranks = BIT(2), .step = 3, OTHER(8, JOIN_PRESENT)},
        {MONITOR(MISMATCH_MISSING), .ranks = BIT(0), .step = 4, BUCKET(12, 0)},
        {FOUND(VALUE_DIVERGED, JOINED), .ranks = BIT(0) | BIT(1), .step = 5},
        {FOUND(CHECKPOINT_CORRUPTED, CHECKPOINT), .ranks = BIT(0), .step = -1},
    };
    static const struct cause_spec stand_alone[] = {
        LOST_INPUT,
        WRONG_OUTPUT,
        {FOUND(VALUE_DIVERGED, JOINED), .ranks = BIT(0), .step = 5, .params = BIT(1)},
        {FOUND(CHECKPOINT_CORRUPTED, CHECKPOINT), .ranks = BIT(0), .step = -1, .params = BIT(1)},
        {MONITOR(MISMATCH_MISSING), .ranks = BIT(0), .step = 3, OTHER(8, JOIN_PRESENT)},
    };
    struct cause_bench f;
    struct harness_finding a;
    struct harness_finding b;

    cause_bench_init(&f);
    f.plan.job.broadcast_buffers = true;
    a = cause_bench_make(&f, &missing);
    for (int join = 0; join < 2; join++) {
        f.plan.job.join.is_set = join != 0;
        for (size_t i = 0; i < sizeof follow / sizeof follow[0]; i++) {
            b = cause_bench_make(&f, &follow[i]);
            CT_CHECK((harness_cause_of(&f.paths, &a, &b) != NULL) == (join != 0));
        }
        for (size_t i = 0; i < sizeof stand_alone / sizeof stand_alone[0]; i++) {
            b = cause_bench_make(&f, &stand_alone[i]);
            CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
        }
    }
    a = cause_bench_make(&f, &ended);
    for (size_t i = 0; i < sizeof follow / sizeof follow[0]; i++) {
        b = cause_bench_make(&f, &follow[i]);
        CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    }
    cause_bench_fini(&f);
}

/* A used map that came out of mixed operations says to everybody what is copied back and updated.
 */
CT_TEST(cause, mixed_used_map)
{
    static const struct cause_spec mismatch = {MONITOR(MISMATCH_MISSING), .ranks = BIT(1),
                                               .step = 3, BUCKET(11, 1)};
    static const struct cause_spec update = {FOUND(VALUE_DIVERGED, UPDATE), .ranks = BIT(2),
                                             .params = BIT(2), .step = 4,
                                             .stage = HARNESS_STAGE_UPDATE};
    struct cause_bench f;
    struct harness_finding a;
    struct harness_finding b;

    cause_bench_init(&f);
    a = cause_bench_make(&f, &mismatch);
    b = cause_bench_make(&f, &update);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    f.ops[OP_COUNT - 1].role = DDP_ROLE_USED_MAP; /* of step 4 */
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    b.step = 3;
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    cause_bench_fini(&f);
}

/* A rank that posts a bucket with another type, or another length, takes other values out of it, in
 * every step in which it does so. */
CT_TEST(cause, posted_otherwise_again)
{
    static const struct cause_spec mismatch = {MONITOR(MISMATCH_DTYPE), .ranks = BIT(2), .step = 3,
                                               BUCKET(10, 0)};
    static const struct cause_spec copied = {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(2),
                                             .params = BIT(2), .step = 4,
                                             .stage = HARNESS_STAGE_FINAL};
    struct harness_op ops[FIRST_SEQ - 1 + OP_COUNT] = {{0}}; /* by sequence number */
    struct cause_bench f;
    struct harness_finding a;
    struct harness_finding b;
    struct harness_trace_event *post = NULL;

    cause_bench_init(&f);
    memcpy(ops + FIRST_SEQ - 1, f.ops, sizeof f.ops);
    f.program.ops = ops;
    f.program.op_count = sizeof ops / sizeof ops[0];
    a = cause_bench_make(&f, &mismatch);
    b = cause_bench_make(&f, &copied);
    for (size_t i = 0; i < f.trace.event_count; i++) {
        if (f.events[i].rank == 2 && f.events[i].entry.event == DDP_EVENT_COLL_POST &&
            f.events[i].entry.arg[0] == OPEN_SEQ) {
            post = &f.events[i];
        }
    }
    CT_REQUIRE(post != NULL);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL); /* as planned */
    post->entry.arg[2]++;
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    post->entry.arg[2]--;
    struct ddp_event_op op = ddp_event_op_unpack(post->entry.arg[1]);
    op.dtype = DDP_DTYPE_F16;
    post->entry.arg[1] = ddp_event_op_pack(&op);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    op.index = 1; /* another bucket's */
    post->entry.arg[1] = ddp_event_op_pack(&op);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    cause_bench_fini(&f);
}

/* An extra operation that reduces no bucket: its twin's buffer is in use. A race with a bucket's
 * extra operation is over with its step; on a device another race is not. */
CT_TEST(cause, races_of_extra_operations)
{
    static const struct cause_row rows[] = {
        {"extra, use of its twin's buffer",
         {MONITOR(MISMATCH_EXTRA), .ranks = BIT(1), .step = 3, OTHER(9, BUFFER_SYNC)},
         {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(1), .step = 3,
          OTHER(8, BUFFER_SYNC)},
         "extra work"},
        {"extra, use of another one's buffer",
         {MONITOR(MISMATCH_EXTRA), .ranks = BIT(1), .step = 3, OTHER(9, BUFFER_SYNC)},
         {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(1), .step = 3,
          OTHER(10, BUFFER_SYNC)},
         NULL},
        {"extra, use on another rank",
         {MONITOR(MISMATCH_EXTRA), .ranks = BIT(1), .step = 3, OTHER(9, BUFFER_SYNC)},
         {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2), .step = 3,
          OTHER(9, BUFFER_SYNC)},
         NULL},
        {"left out, use of that buffer",
         MISSING_1,
         {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(1), .step = 3, BUCKET(11, 1)},
         NULL},
    };
    static const struct cause_spec race = {FOUND(USAGE_UNORDERED, HAPPENS_BEFORE), .ranks = BIT(2),
                                           .step = 3, BUCKET(10, 0)};
    static const struct cause_spec later = {FOUND(VALUE_CORRUPTED, REDUCTION), .ranks = BIT(2),
                                            .step = 4, BUCKET(12, 0), .stage = HARNESS_STAGE_FINAL};
    struct cause_bench f;
    struct harness_finding a;
    struct harness_finding b;

    CAUSE_CHECK_ROWS(rows);
    cause_bench_init(&f);
    f.plan.job.device = HARNESS_DEVICE_CUDA;
    a = cause_bench_make(&f, &race);
    b = cause_bench_make(&f, &later);
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    for (size_t i = 0; i < f.trace.event_count; i++) { /* 11 is bucket 0 once more */
        struct ddp_event_entry *entry = &f.events[i].entry;

        if (f.events[i].rank == 2 && entry->event == DDP_EVENT_COLL_POST && entry->arg[0] == 11) {
            struct ddp_event_op op = ddp_event_op_unpack(entry->arg[1]);

            op.index = 0;
            entry->arg[1] = ddp_event_op_pack(&op);
        }
    }
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) == NULL);
    b.step = 3;
    CT_CHECK(harness_cause_of(&f.paths, &a, &b) != NULL);
    cause_bench_fini(&f);
}
