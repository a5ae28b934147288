/* Results of collectives: ranks are processes that use the library, and who reads what they report
 * judges. What each rank gets is worked out in it, so nothing is sent. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/file.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/guest/sums.h"
#include "harness/watch/analyse.h"
#include "harness/watch/arena.h"
#include "tests/ct.h"

enum { SIZE_MAX_RANKS = 5, COUNT_MAX = 3000, BYTES_MAX = COUNT_MAX * SIZE_MAX_RANKS * 8 };

struct trial;
/* Changes a result before its rank sees it; all values are of the trial's type. */
typedef void (*tamper)(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count);

struct trial {
    uint32_t kind, dtype, redop, size;
    uint64_t count;
    uint32_t root;
    double weight[SIZE_MAX_RANKS]; /* of contributions in sums, less 1: 0 is right */
    tamper tamper;
    uint32_t who;     /* whom it is about */
    bool is_in_place; /* of all_reduce */
    bool is_hidden;   /* no result is shown */
    bool is_changed;  /* `who` overwrites its input meanwhile */
    bool is_equal;    /* all put in the same */
    bool is_backward; /* sums begin with the last rank */
    double bad_input; /* in the last element of `who`'s input, if it is not 0 */
    struct guest_fault fault;
    const char *folder; /* of kept data; NULL: none */
};

struct outcome {
    size_t count; /* findings */
    enum harness_verdict verdict;
    uint32_t culprits; /* a bit each */
    char text[512];
    struct harness_watch_tally tally;
};

static uint64_t bytes_of(uint32_t dtype)
{
    static const uint8_t sizes[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = size_bytes,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };

    return sizes[dtype];
}

static void put(uint32_t dtype, void *data, uint64_t i, double value)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16:
        ((uint16_t *)data)[i] = ddp_f16_from_f32((float)value);
        break;
    case DDPROVE_GUEST_BF16:
        ((uint16_t *)data)[i] = ddp_bf16_from_f32((float)value);
        break;
    case DDPROVE_GUEST_F32:
        ((float *)data)[i] = (float)value;
        break;
    case DDPROVE_GUEST_F64:
        ((double *)data)[i] = value;
        break;
    case DDPROVE_GUEST_I32:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    case DDPROVE_GUEST_I64:
        ((int64_t *)data)[i] = (int64_t)value;
        break;
    default:
        ((uint8_t *)data)[i] = (uint8_t)(int64_t)value;
    }
}

static double get(uint32_t dtype, const void *data, uint64_t i)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F16:
        return (double)ddp_f16_to_f32(((const uint16_t *)data)[i]);
    case DDPROVE_GUEST_BF16:
        return (double)ddp_bf16_to_f32(((const uint16_t *)data)[i]);
    case DDPROVE_GUEST_F32:
        return (double)((const float *)data)[i];
    case DDPROVE_GUEST_F64:
        return ((const double *)data)[i];
    case DDPROVE_GUEST_I32:
        return ((const int32_t *)data)[i];
    case DDPROVE_GUEST_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return ((const uint8_t *)data)[i];
    }
}

/* --- what goes in and comes out
 * ----------------------------------------------------------------------------------- */

/* Element i of what a rank puts in. */
static void fill(const struct trial *trial, uint32_t rank, void *in, uint64_t in_count)
{
    const bool is_integer = trial->dtype != DDPROVE_GUEST_F16 &&
                            trial->dtype != DDPROVE_GUEST_BF16 &&
                            trial->dtype != DDPROVE_GUEST_F32 && trial->dtype != DDPROVE_GUEST_F64;
    const uint32_t number = trial->is_equal ? 0 : rank;
    uint32_t state = 12345 + 977 * number;

    for (uint64_t i = 0; i < in_count; i++) {
        state = state * 1664525u + 1013904223u;
        put(trial->dtype, in, i,
            is_integer ? (double)(state >> 20) - 2048
                       : ((double)(state >> 8) - (1 << 23)) / (1 << 22) * (1 + 0.3 * number));
    }
    if (rank == trial->who && !(trial->bad_input == 0)) {
        put(trial->dtype, in, in_count - 1, trial->bad_input);
    }
}

static uint64_t in_count_of(const struct trial *trial, uint32_t rank)
{
    return trial->count * guest_parts_in(trial->kind, rank, trial->root, trial->size).count;
}

/* Element i of the sum of everybody's input, rounded after each addition. */
static double sum_at(const struct trial *trial, void *const *in, uint64_t i)
{
    const void *first = in[trial->is_backward ? trial->size - 1 : 0];
    const double first_weight = 1 + trial->weight[trial->is_backward ? trial->size - 1 : 0];
    unsigned char place[8];

    put(trial->dtype, place, 0, get(trial->dtype, first, i) * first_weight);
    for (uint32_t k = 1; k < trial->size; k++) {
        const uint32_t r = trial->is_backward ? trial->size - 1 - k : k;
        const double next = get(trial->dtype, in[r], i) * (1 + trial->weight[r]);
        const double sum = get(trial->dtype, place, 0);

        put(trial->dtype, place, 0,
            trial->redop == DDPROVE_GUEST_MAX ? fmax(sum, next) : sum + next);
    }
    return trial->redop == DDPROVE_GUEST_AVG ? get(trial->dtype, place, 0) / trial->size
                                             : get(trial->dtype, place, 0);
}

/* What comes out on a rank. Returns how many elements. */
static uint64_t produce(const struct trial *trial, uint32_t rank, void *const *in, void *out)
{
    const struct guest_parts parts = guest_parts_out(trial->kind, rank, trial->root, trial->size);

    for (uint64_t p = 0; p < parts.count; p++) {
        const uint64_t part = parts.first + p * parts.stride;

        for (uint64_t i = 0; i < trial->count; i++) {
            const uint64_t at = p * trial->count + i;

            switch ((enum ddprove_guest_kind)trial->kind) {
            case DDPROVE_GUEST_ALL_GATHER:
            case DDPROVE_GUEST_GATHER:
                put(trial->dtype, out, at,
                    get(trial->dtype, in[part], i) * (1 + trial->weight[part]));
                break;
            case DDPROVE_GUEST_BROADCAST:
                put(trial->dtype, out, at, get(trial->dtype, in[trial->root], i));
                break;
            case DDPROVE_GUEST_SCATTER:
                put(trial->dtype, out, at,
                    get(trial->dtype, in[trial->root], part * trial->count + i));
                break;
            case DDPROVE_GUEST_ALL_TO_ALL:
                put(trial->dtype, out, at,
                    get(trial->dtype, in[part / trial->size],
                        part % trial->size * trial->count + i));
                break;
            default:
                put(trial->dtype, out, at, sum_at(trial, in, part * trial->count + i));
            }
        }
    }
    return parts.count * trial->count;
}

/* --- running
 * ------------------------------------------------------------------------------------------------------
 */

/* In a process of its own. */
static int be_rank(const struct trial *trial, uint32_t rank)
{
    void *in[SIZE_MAX_RANKS];
    void *sent[SIZE_MAX_RANKS];
    void *out = calloc(1, BYTES_MAX);
    const void *shown;
    struct ddprove_guest_call call = {
        .size_bytes = sizeof call,
        .kind = trial->kind,
        .dtype = trial->dtype,
        .redop = trial->redop,
        .root = trial->root,
        .elem_count = trial->count,
        .out_count =
            guest_parts_out(trial->kind, rank, trial->root, trial->size).count * trial->count};

    for (uint32_t r = 0; r < trial->size; r++) {
        in[r] = calloc(1, BYTES_MAX);
        sent[r] = in[r];
        fill(trial, r, in[r], in_count_of(trial, r));
    }
    if (ddprove_guest_attach((int)rank, (int)trial->size) == 0) {
        return 1;
    }
    call.comm = ddprove_guest_comm_create(7, rank, trial->size, "world");
    if (trial->is_in_place) {
        memcpy(out, in[rank], trial->count * bytes_of(trial->dtype));
    }
    shown = trial->is_in_place ? out : in[rank];
    call.in = in_count_of(trial, rank) > 0 ? shown : NULL;
    call.out = trial->is_hidden || call.out_count == 0 ? NULL : out;
    ddprove_guest_step(3);
    (void)ddprove_guest_call_begin(&call);
    if (call.in != NULL) { /* a fault may have changed what this rank sends */
        sent[rank] = memcpy(calloc(1, BYTES_MAX), call.in,
                            in_count_of(trial, rank) * bytes_of(trial->dtype));
    }
    if (trial->fault.rank > 0 && rank + 1 != trial->fault.rank) {
        sent[trial->fault.rank - 1] = calloc(1, BYTES_MAX); /* zeros, as the fault has it */
    }
    (void)produce(trial, rank, sent, out);
    if (trial->tamper != NULL && call.out_count > 0) {
        trial->tamper(trial, rank, out, call.out_count);
    }
    if (trial->is_changed && rank == trial->who) {
        ((unsigned char *)in[rank])[2] ^= 1;
    }
    ddprove_guest_call_end(&call);
    ddprove_guest_detach();
    return 0;
}

static void judge(const struct harness_watch_arena *arena, uint32_t size, struct outcome *out)
{
    const struct harness_watch_limits limits = {UINT64_MAX, UINT64_MAX};
    struct harness_watch watch;
    struct harness_findings findings;
    struct ddp_mem_pool *pool;

    memset(out, 0, sizeof *out);
    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&watch, ddp_mem_pool_mem(pool), arena->head) == DDP_OK);
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    harness_watch_read(&watch, 1);
    harness_watch_analyse(&watch, &limits, &findings);
    harness_watch_finish_tally(&watch);
    CT_CHECK(!watch.is_failed && !watch.tally.has_lost);
    out->count = findings.count;
    out->tally = watch.tally;
    if (findings.count > 0) {
        out->verdict = findings.items[0].verdict;
        (void)snprintf(out->text, sizeof out->text, "%s", findings.items[0].text);
        for (uint32_t r = 0; r < size; r++) {
            out->culprits |= (uint32_t)harness_rank_set_has(&findings.items[0].culprits, r) << r;
        }
        CT_CHECK_EQ_I64(findings.items[0].step, 3);
    }
    harness_watch_fini(&watch);
    ddp_mem_pool_destroy(pool);
}

static struct outcome run(const struct trial *trial)
{
    struct harness_watch_arena arena;
    struct ddp_err err = {{0}};
    struct outcome outcome = {0};
    pid_t pids[SIZE_MAX_RANKS];

    CT_CHECK(harness_watch_arena_create(trial->size, 64, &arena, &err) == DDP_OK);
    arena.head->is_observed = 1;
    if (trial->fault.action != GUEST_ACTION_NOTHING) {
        arena.head->faults[arena.head->fault_count++] = trial->fault;
    }
    if (trial->folder != NULL) {
        arena.head->keep_end = 10;
        (void)snprintf(arena.head->keep_folder, sizeof arena.head->keep_folder, "%s",
                       trial->folder);
    }
    (void)setenv(GUEST_ARENA_VARIABLE, arena.where, 1);
    for (uint32_t r = 0; r < trial->size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            _exit(be_rank(trial, r));
        }
    }
    for (uint32_t r = 0; r < trial->size; r++) {
        int status = 1;

        CT_CHECK(waitpid(pids[r], &status, 0) == pids[r] && status == 0);
    }
    judge(&arena, trial->size, &outcome);
    harness_watch_arena_destroy(&arena);
    return outcome;
}

static struct trial trial_of(uint32_t kind, uint32_t dtype, uint32_t size, uint64_t count)
{
    const bool is_sum = kind == DDPROVE_GUEST_ALL_REDUCE || kind == DDPROVE_GUEST_REDUCE ||
                        kind == DDPROVE_GUEST_REDUCE_SCATTER;

    return (struct trial){.kind = kind,
                          .dtype = dtype,
                          .redop = is_sum ? DDPROVE_GUEST_SUM : DDPROVE_GUEST_NO_REDOP,
                          .size = size,
                          .count = count};
}

static struct trial sum_of(uint32_t size)
{
    return trial_of(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_F32, size, 1000);
}

enum { ALL = 1000 };

/* culprit: a rank, or ALL. */
static void expect(const struct trial *trial, enum harness_verdict verdict, uint32_t culprits,
                   const char *words)
{
    const struct outcome got = run(trial);

    CT_CHECK_EQ_U64(got.count, 1);
    CT_CHECK_STR(harness_verdict_name(got.verdict), harness_verdict_name(verdict));
    CT_CHECK_EQ_U64(got.culprits, culprits == ALL ? (1u << trial->size) - 1 : culprits);
    CT_CHECK_EQ_U64(got.tally.judged, 1);
    if (strstr(got.text, words) == NULL) {
        CT_FAIL("\"%s\" is not in \"%s\"", words, got.text);
    }
}

static void expect_nothing(const struct trial *trial)
{
    const struct outcome got = run(trial);

    if (got.count != 0 || got.tally.judged != 1) {
        CT_FAIL("kind %u, type %u, %u ranks, %llu elements: %zu findings, %llu judged: %s",
                trial->kind, trial->dtype, trial->size, (unsigned long long)trial->count, got.count,
                (unsigned long long)got.tally.judged, got.text);
    }
}

/* --- tampering
 * ----------------------------------------------------------------------------------------------------
 */

static void add_to_element(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    put(trial->dtype, out, out_count / 2, get(trial->dtype, out, out_count / 2) + 0.25);
}

static void add_on_one(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    if (rank == trial->who) {
        add_to_element(trial, rank, out, out_count);
    }
}

/* The last bit: no more than rounding. */
static void nudge_on_one(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)out_count;
    if (rank == trial->who) {
        *(unsigned char *)out ^= 1;
    }
}

static void divide(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    for (uint64_t i = 0; i < out_count; i++) {
        put(trial->dtype, out, i, get(trial->dtype, out, i) / trial->size);
    }
}

static void spoil(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    put(trial->dtype, out, out_count - 1, (double)NAN);
}

/* Two elements change places, on all ranks. */
static void swap(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    const double first = get(trial->dtype, out, 3);

    (void)rank;
    put(trial->dtype, out, 3, get(trial->dtype, out, out_count - 2));
    put(trial->dtype, out, out_count - 2, first);
}

/* --- tests
 * --------------------------------------------------------------------------------------------------------
 */

static const uint32_t kinds[] = {DDPROVE_GUEST_ALL_REDUCE,     DDPROVE_GUEST_REDUCE,
                                 DDPROVE_GUEST_REDUCE_SCATTER, DDPROVE_GUEST_BROADCAST,
                                 DDPROVE_GUEST_GATHER,         DDPROVE_GUEST_ALL_GATHER,
                                 DDPROVE_GUEST_SCATTER,        DDPROVE_GUEST_ALL_TO_ALL};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

CT_TEST(results, healthy)
{
    static const uint32_t dtypes[] = {DDPROVE_GUEST_F32,  DDPROVE_GUEST_F64, DDPROVE_GUEST_F16,
                                      DDPROVE_GUEST_BF16, DDPROVE_GUEST_I32, DDPROVE_GUEST_I64,
                                      DDPROVE_GUEST_U8};

    for (size_t k = 0; k < KINDS; k++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            struct trial trial = trial_of(kinds[k], dtypes[d], 1 + (uint32_t)(k + d) % 4,
                                          dtypes[d] == DDPROVE_GUEST_BF16 ? 40 : 257 + 13 * d);

            trial.root = trial.size - 1;
            expect_nothing(&trial);
        }
    }
}

/* Divided once, before or after; in place; in pieces of all lengths. */
CT_TEST(results, healthy_sums)
{
    static const uint64_t counts[] = {1, 255, 256, 1023, 1024, 1025, 3000};
    struct trial trial = sum_of(3);

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        trial.count = counts[i];
        trial.is_in_place = i % 2 == 0;
        expect_nothing(&trial);
    }
    trial.redop = DDPROVE_GUEST_AVG;
    trial.is_in_place = false;
    expect_nothing(&trial);
    trial.redop = DDPROVE_GUEST_MAX;
    CT_CHECK_EQ_U64(run(&trial).tally.compared, 1);
}

CT_TEST(results, contributions)
{
    struct trial trial = sum_of(4);

    trial.weight[2] = -1;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 2, "as if rank 2's contribution were left out");
    trial.weight[2] = 1;
    expect(&trial, HARNESS_VERDICT_VALUE_DUPLICATED, 1 << 2, "counted twice");
    trial.weight[2] = -0.5;
    expect(&trial, HARNESS_VERDICT_VALUE_SCALED, 1 << 2, "multiplied by 0.5");
    trial.weight[2] = 0.37; /* any rank's, by some factor */
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, ALL, "do not tell the ranks apart");
    trial.weight[2] = 0;
    trial.tamper = divide;
    expect(&trial, HARNESS_VERDICT_VALUE_SCALED, ALL, "all of it were multiplied by 0.25");
    trial.tamper = add_to_element;
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, ALL, "off by");
    trial.tamper = NULL;
    trial.dtype = DDPROVE_GUEST_I32;
    trial.weight[0] = -1;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 0, "rank 0");
    trial.kind = DDPROVE_GUEST_REDUCE_SCATTER;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 0, "rank 0");
    trial.dtype = DDPROVE_GUEST_F64;
    trial.kind = DDPROVE_GUEST_REDUCE;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 0, "rank 0");
}

/* Ranks put in the same: whose contribution is missing cannot be told, of two ranks not even
 * whether it is not the whole that was halved. */
CT_TEST(results, who_cannot_be_told)
{
    struct trial trial = sum_of(3);

    trial.is_equal = true;
    trial.weight[1] = -1;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, ALL, "rank 1's contribution were left out or");
    trial.size = 2;
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, ALL, "or all of it were multiplied by 0.5");
}

CT_TEST(results, replicas)
{
    struct trial trial = sum_of(3);

    trial.who = 1;
    trial.tamper = add_on_one;
    expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "ranks 0,2 and of rank 1");
    trial.size = 2; /* the sum says who is wrong */
    expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "they are off by");
    trial.tamper = nudge_on_one; /* and here it does not */
    expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, ALL, "who is right cannot be told");
    trial.size = 3;
    expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "ranks 0,2 and of rank 1");
    trial.redop = DDPROVE_GUEST_MAX;
    expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "ranks 0,2 and of rank 1");
}

CT_TEST(results, moves)
{
    for (size_t k = 3; k < KINDS; k++) {
        struct trial trial = trial_of(kinds[k], DDPROVE_GUEST_F32, 3, 100);

        trial.tamper = swap; /* in one place of the whole, or of each part */
        expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, ALL,
               "what came out is not what was put in");
    }
    for (size_t k = 4; k < 6; k++) {
        struct trial trial = trial_of(kinds[k], DDPROVE_GUEST_F32, 3, 100);

        trial.weight[1] = -1;
        expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1, "rank 1's contribution");
    }
    for (size_t k = 3; k < 6; k += 2) {
        struct trial trial = trial_of(kinds[k], DDPROVE_GUEST_BF16, 4, 100);

        trial.who = 2;
        trial.tamper = nudge_on_one;
        expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 2, "ranks 0,1,3 and of rank 2");
    }
}

CT_TEST(results, not_finite)
{
    struct trial trial = sum_of(3);

    trial.who = 2;
    trial.bad_input = (double)NAN;
    expect(&trial, HARNESS_VERDICT_VALUE_NONFINITE, 1 << 2, "put in a NaN");
    trial.bad_input = (double)INFINITY;
    expect(&trial, HARNESS_VERDICT_VALUE_NONFINITE, 1 << 2, "an infinite value");
    trial.bad_input = 3e38; /* 32 of them are too many for a float, and none is infinite */
    expect_nothing(&trial);
    trial.bad_input = 0;
    trial.tamper = spoil;
    expect(&trial, HARNESS_VERDICT_VALUE_NONFINITE, ALL, "cannot be too large");
}

CT_TEST(results, input_changes_in_flight)
{
    struct trial trial = sum_of(3);

    trial.is_changed = true;
    trial.who = 1;
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, 1 << 1, "changed while the call was in flight");
}

/* What a fault does to a contribution happens on its way. */
CT_TEST(results, of_faults)
{
    struct trial trial = sum_of(3);

    trial.fault = (struct guest_fault){.point = GUEST_POINT_POST,
                                       .rank = 1 + 1,
                                       .hit = 1,
                                       .times = 1,
                                       .action = GUEST_ACTION_ZERO};
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1, "rank 1's contribution were left out");
    trial.is_in_place = true;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1, "rank 1's contribution were left out");
    trial.is_in_place = false; /* all parts, one for each member */
    trial.kind = DDPROVE_GUEST_REDUCE_SCATTER;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1, "rank 1's contribution were left out");
}

static void expect_unjudged(const struct trial *trial, enum harness_watch_unjudged reason)
{
    const struct outcome got = run(trial);

    if (got.count != 0 || got.tally.judged != 0 || got.tally.unjudged[reason] != 1) {
        CT_FAIL("kind %u, type %u, reason %d: %zu findings, %llu judged", trial->kind, trial->dtype,
                (int)reason, got.count, (unsigned long long)got.tally.judged);
    }
}

CT_TEST(results, not_judged)
{
    struct trial trial = sum_of(3);

    trial.is_hidden = true;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_HIDDEN);
    trial = trial_of(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_BF16, 5, 3000);
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_BLIND);
    trial = trial_of(DDPROVE_GUEST_SCAN, DDPROVE_GUEST_F32, 3, 30);
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_KIND);
    trial = trial_of(DDPROVE_GUEST_REDUCE, DDPROVE_GUEST_F32, 3, 30);
    trial.redop = DDPROVE_GUEST_MAX;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_ONE_RESULT);
    trial.kind = DDPROVE_GUEST_ALL_REDUCE;
    trial.bad_input = (double)NAN;
    trial.tamper = spoil;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_NOT_FINITE);
}

/* --- data that were kept
 * --------------------------------------------------------------------------------------------------------
 */

/* Element 17 of the sum, with a bit of one contribution flipped. */
static void flip_input(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    void *in[SIZE_MAX_RANKS];
    uint32_t bits;

    (void)rank;
    (void)out_count;
    for (uint32_t r = 0; r < trial->size; r++) {
        in[r] = calloc(1, BYTES_MAX);
        fill(trial, r, in[r], trial->count);
    }
    memcpy(&bits, (float *)in[trial->who] + 17, sizeof bits);
    bits ^= 1u << 24;
    memcpy((float *)in[trial->who] + 17, &bits, sizeof bits);
    put(trial->dtype, out, 17, sum_at(trial, in, 17));
    for (uint32_t r = 0; r < trial->size; r++) {
        free(in[r]);
    }
}

static void flip_sign_of_result(const struct trial *trial, uint32_t rank, void *out,
                                uint64_t out_count)
{
    (void)rank;
    (void)out_count;
    put(trial->dtype, out, 17, -get(trial->dtype, out, 17));
}

CT_TEST(results, kept)
{
    char folder[] = "/tmp/ddprove_results.XXXXXX";
    struct ddp_err err = {{0}};
    struct trial trial = sum_of(4);

    CT_REQUIRE(mkdtemp(folder) != NULL);
    trial.folder = folder;
    CT_CHECK_EQ_U64(run(&trial).tally.bitwise, 1);
    trial.is_backward = true;
    trial.is_in_place = true;
    CT_CHECK_EQ_U64(run(&trial).tally.bitwise, 1);
    trial.redop = DDPROVE_GUEST_AVG;
    CT_CHECK_EQ_U64(run(&trial).tally.bitwise, 1);
    trial.redop = DDPROVE_GUEST_SUM;
    trial.who = 2;
    trial.tamper = flip_input;
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, 1 << 2,
           "rank 2's contribution with bit 24 flipped");
    trial.kind = DDPROVE_GUEST_REDUCE;
    trial.is_in_place = false;
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, 1 << 2, "element 17 is");
    trial.tamper = flip_sign_of_result;
    expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, ALL, "the result itself with a bit flipped");
    trial.tamper = NULL; /* what is wrong everywhere, the sums say */
    trial.weight[1] = -1;
    expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1, "rank 1's contribution were left out");
    CT_CHECK(ddp_files_remove_tree(folder, &err) == DDP_OK);
}
