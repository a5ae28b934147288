#include "tests/unit/guest/results.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/dtype.h"
#include "harness/results/results.h"
#include "harness/watch/analyse.h"
#include "harness/watch/arena.h"
#include "tests/ct.h"

enum { BYTES_MAX = RESULTS_COUNT_MAX * RESULTS_RANKS_MAX * 8 };

static uint64_t bytes_of(uint32_t dtype)
{
    static const uint8_t sizes[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = size_bytes,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };

    return sizes[dtype];
}

void results_put(uint32_t dtype, void *data, uint64_t i, double value)
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

double results_get(uint32_t dtype, const void *data, uint64_t i)
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

void results_fill(const struct trial *trial, uint32_t rank, void *in, uint64_t in_count)
{
    const bool is_integer = trial->dtype != DDPROVE_GUEST_F16 &&
                            trial->dtype != DDPROVE_GUEST_BF16 &&
                            trial->dtype != DDPROVE_GUEST_F32 && trial->dtype != DDPROVE_GUEST_F64;
    const uint32_t number = trial->is_equal ? 0 : rank;
    uint32_t state = 12345 + 977 * number + 7919 * trial->seed;

    for (uint64_t i = 0; i < in_count; i++) {
        state = trial->is_constant && rank == trial->who ? state : state * 1664525u + 1013904223u;
        results_put(trial->dtype, in, i,
                    is_integer
                        ? (double)(state >> 20) - 2048
                        : ((double)(state >> 8) - (1 << 23)) / (1 << 22) * (1 + 0.3 * number));
    }
    if (rank == trial->who && !(trial->bad_input == 0)) {
        results_put(trial->dtype, in, in_count - 1, trial->bad_input);
    }
}

static uint64_t in_count_of(const struct trial *trial, uint32_t rank)
{
    return trial->count * guest_parts_in(trial->kind, rank, trial->root, trial->size).count;
}

/* Which element of its input a rank adds to element i; at the ends, its own. */
static uint64_t place_of(const struct trial *trial, uint32_t rank, uint64_t i)
{
    const int64_t place = (int64_t)i - (rank == trial->who ? trial->shift : 0);

    return place < 0 || place >= (int64_t)trial->count ? i : (uint64_t)place;
}

double results_sum_at(const struct trial *trial, void *const *in, uint64_t i)
{
    const uint32_t start = trial->is_backward ? trial->size - 1 : 0;
    const void *first = in[start];
    const double first_weight = 1 + trial->weight[start];
    unsigned char place[8];

    results_put(trial->dtype, place, 0,
                results_get(trial->dtype, first, place_of(trial, start, i)) * first_weight);
    for (uint32_t k = 1; k < trial->size; k++) {
        const uint32_t r = trial->is_backward ? trial->size - 1 - k : k;
        const double next =
            results_get(trial->dtype, in[r], place_of(trial, r, i)) * (1 + trial->weight[r]);
        const double sum = results_get(trial->dtype, place, 0);

        results_put(trial->dtype, place, 0,
                    trial->redop == DDPROVE_GUEST_MAX ? fmax(sum, next) : sum + next);
    }
    return trial->redop == DDPROVE_GUEST_AVG ? results_get(trial->dtype, place, 0) / trial->size
                                             : results_get(trial->dtype, place, 0);
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
                results_put(trial->dtype, out, at,
                            results_get(trial->dtype, in[part], i) * (1 + trial->weight[part]));
                break;
            case DDPROVE_GUEST_BROADCAST:
                results_put(trial->dtype, out, at, results_get(trial->dtype, in[trial->root], i));
                break;
            case DDPROVE_GUEST_SCATTER:
                results_put(trial->dtype, out, at,
                            results_get(trial->dtype, in[trial->root], part * trial->count + i));
                break;
            case DDPROVE_GUEST_ALL_TO_ALL:
                results_put(trial->dtype, out, at,
                            results_get(trial->dtype, in[part / trial->size],
                                        part % trial->size * trial->count + i));
                break;
            default:
                results_put(trial->dtype, out, at,
                            results_sum_at(trial, in, part * trial->count + i));
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
    void *in[RESULTS_RANKS_MAX];
    void *sent[RESULTS_RANKS_MAX];
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
        results_fill(trial, r, in[r], in_count_of(trial, r));
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
    if (trial->is_of_device) { /* an address that the host cannot read */
        call.out = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
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
    const struct harness_watch_limits limits = {UINT64_MAX, UINT64_MAX, 0};
    struct harness_watch watch;
    struct harness_findings findings;
    struct ddp_mem_pool *pool;

    memset(out, 0, sizeof *out);
    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&watch, ddp_mem_pool_mem(pool), arena->head) == DDP_OK);
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    harness_watch_read(&watch, 1);
    harness_watch_analyse(&watch, &limits, &findings);
    harness_results_judge(&watch, &findings);
    harness_results_finish(&watch);
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

struct outcome results_run(const struct trial *trial)
{
    struct harness_watch_arena arena;
    struct ddp_err err = {{0}};
    struct outcome outcome = {0};
    pid_t pids[RESULTS_RANKS_MAX];

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

struct trial results_trial(uint32_t kind, uint32_t dtype, uint32_t size, uint64_t count)
{
    const bool is_sum = kind == DDPROVE_GUEST_ALL_REDUCE || kind == DDPROVE_GUEST_REDUCE ||
                        kind == DDPROVE_GUEST_REDUCE_SCATTER;

    return (struct trial){.kind = kind,
                          .dtype = dtype,
                          .redop = is_sum ? DDPROVE_GUEST_SUM : DDPROVE_GUEST_NO_REDOP,
                          .size = size,
                          .count = count};
}

struct trial results_sum(uint32_t size)
{
    return results_trial(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_F32, size, 1000);
}

void results_expect(const struct trial *trial, enum harness_verdict verdict, uint32_t culprits,
                    const char *words)
{
    const struct outcome got = results_run(trial);

    CT_CHECK_EQ_U64(got.count, 1);
    CT_CHECK_STR(harness_verdict_name(got.verdict), harness_verdict_name(verdict));
    CT_CHECK_EQ_U64(got.culprits, culprits == RESULTS_ALL ? (1u << trial->size) - 1 : culprits);
    CT_CHECK_EQ_U64(got.tally.judged, 1);
    if (strstr(got.text, words) == NULL) {
        CT_FAIL("\"%s\" is not in \"%s\"", words, got.text);
    }
}
