/* Mechanical mutants of every algorithm that moves values: a lost or changed step is always
 * noticed. Where a lost dependency or an exchanged buffer is not, the mutant is right: whatever
 * order its steps take, it computes the same. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/emit.h"
#include "harness/coll/mutant.h"
#include "tests/ct.h"
#include "tests/unit/coll/made_source.h"

/* --- what a set computes, in a random order --------------------------------------------------- */

enum { VALUES_MAX = 16, BUFFERS_MAX = 5, STEPS_MAX = 256, ORDERS = 12 };

struct random_run {
    const struct harness_schedule_set *set;
    uint64_t value[VALUES_MAX][BUFFERS_MAX][VALUES_MAX];
    bool is_done[VALUES_MAX][STEPS_MAX];
    struct ddp_prng prng;
    uint64_t draws;
};

static bool is_free(const struct random_run *run, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = &run->set->member[rank]->steps[index];

    for (uint32_t d = 0; d < step->dep_count; d++) {
        if (!run->is_done[rank][step->dep[d]]) {
            return false;
        }
    }
    return !run->is_done[rank][index];
}

/* The messages before it of the same direction and peer. */
static bool is_next(const struct random_run *run, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *steps = run->set->member[rank]->steps;

    for (uint32_t s = 0; s < index; s++) {
        bool is_same =
            steps[s].peer == steps[index].peer &&
            (steps[s].kind == HARNESS_STEP_SEND) == (steps[index].kind == HARNESS_STEP_SEND);

        if (is_same && !run->is_done[rank][s]) {
            return false;
        }
    }
    return true;
}

/* The send that a receive meets; UINT32_MAX: it is not there yet. */
static uint32_t sent_to(const struct random_run *run, uint32_t from, uint32_t to)
{
    const struct harness_schedule *member = run->set->member[from];

    for (uint32_t s = 0; s < member->step_count; s++) {
        const struct harness_schedule_step *step = &member->steps[s];

        if (step->kind == HARNESS_STEP_SEND && step->peer == to && !run->is_done[from][s]) {
            return is_free(run, from, s) ? s : UINT32_MAX;
        }
    }
    return UINT32_MAX;
}

static void apply(struct random_run *run, uint32_t rank, const struct harness_schedule_step *step,
                  uint32_t from, const struct harness_span *src)
{
    uint64_t *target = &run->value[rank][step->dst.buffer][step->dst.first];
    const uint64_t *source = &run->value[from][src->buffer][src->first];
    bool is_sum = step->kind == HARNESS_STEP_RECV_REDUCE || step->kind == HARNESS_STEP_REDUCE;

    for (size_t i = 0; i < step->dst.elem_count; i++) {
        target[i] = is_sum ? target[i] + source[i] : source[i];
    }
}

/* False: it cannot run yet. */
static bool try_step(struct random_run *run, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = &run->set->member[rank]->steps[index];
    uint32_t sent;

    if (step->kind == HARNESS_STEP_SEND || !is_free(run, rank, index)) {
        return false;
    }
    if (step->kind != HARNESS_STEP_RECV && step->kind != HARNESS_STEP_RECV_REDUCE) {
        apply(run, rank, step, rank, &step->src);
    } else {
        sent = sent_to(run, step->peer, rank);
        if (sent == UINT32_MAX || !is_next(run, rank, index)) {
            return false;
        }
        apply(run, rank, step, step->peer, &run->set->member[step->peer]->steps[sent].src);
        run->is_done[step->peer][sent] = true;
    }
    run->is_done[rank][index] = true;
    return true;
}

/* Of the steps that can run, one at random, until none can. */
static void run_randomly(struct random_run *run)
{
    bool has_run = true;

    while (has_run) {
        uint64_t total = 0;
        uint64_t skipped;

        has_run = false;
        for (uint32_t r = 0; r < run->set->size; r++) {
            total += run->set->member[r]->step_count;
        }
        skipped = total > 0 ? ddp_prng_at(&run->prng, run->draws++) % total : 0;
        for (uint64_t i = 0; i < total && !has_run; i++) {
            uint64_t at = (skipped + i) % total;
            uint32_t rank = 0;

            while (at >= run->set->member[rank]->step_count) {
                at -= run->set->member[rank++]->step_count;
            }
            has_run = try_step(run, rank, (uint32_t)at);
        }
    }
}

/* A contribution tells its rank, four bits each, and above them its element. */
static uint64_t contribution(uint32_t rank, size_t elem)
{
    return (UINT64_C(1) << (4 * rank)) + ((uint64_t)elem << 32);
}

/* What an element of the output must be, by what the kind means. */
static uint64_t expected(const struct harness_schedule *member, size_t elem)
{
    size_t own = member->rank * member->elem_count;
    uint32_t block = (uint32_t)(elem / member->elem_count);
    uint64_t sum = 0;

    switch (member->kind) {
    case DDP_COLL_BROADCAST:
        return contribution(member->root, elem);
    case DDP_COLL_ALL_GATHER:
        return contribution(block, elem % member->elem_count);
    case DDP_COLL_ALL_TO_ALL:
        return contribution(block, own + elem % member->elem_count);
    default:
        for (uint32_t rank = 0; rank < member->size; rank++) {
            sum += contribution(rank, member->kind == DDP_COLL_REDUCE_SCATTER ? own + elem : elem);
        }
        return sum;
    }
}

/* Elements nobody wrote hold a number that no sum is. */
static bool is_right(struct random_run *run, uint64_t order)
{
    const struct harness_schedule_set *set = run->set;

    memset(run->is_done, 0, sizeof run->is_done);
    memset(run->value, 0x5a, sizeof run->value);
    run->prng = ddp_prng_make(order, "test/order");
    run->draws = 0;
    for (uint32_t r = 0; r < set->size; r++) {
        struct harness_span input = harness_schedule_input(set->member[r]);

        for (size_t i = 0; i < input.elem_count; i++) {
            run->value[r][input.buffer][input.first + i] = contribution(r, i);
        }
    }
    run_randomly(run);
    for (uint32_t r = 0; r < set->size; r++) {
        struct harness_span output = harness_schedule_output(set->member[r]);

        for (size_t i = 0; i < output.elem_count; i++) {
            if (run->value[r][1][output.first + i] != expected(set->member[r], i)) {
                return false;
            }
        }
    }
    return true;
}

/* --- mutants ---------------------------------------------------------------------------------- */

struct tally {
    const char *name;
    const struct harness_coll_case *test;
    unsigned made[HARNESS_COLL_MUTATION_COUNT], unnoticed[HARNESS_COLL_MUTATION_COUNT];
};

static ddp_status count(void *context, const struct harness_coll_mutant *mutant,
                        const struct harness_schedule_set *set, const char *text)
{
    static struct random_run run;
    struct tally *tally = context;

    tally->made[mutant->mutation]++;
    if (text[0] != '\0') {
        return DDP_OK;
    }
    tally->unnoticed[mutant->mutation]++;
    if (!harness_coll_mutation_may_be_right(mutant->mutation)) {
        CT_FAIL("%s, %u ranks, %zu elements, in place %d: %s of step %u of rank %u is not noticed",
                tally->name, tally->test->world, tally->test->elem_count, tally->test->is_in_place,
                harness_coll_mutation_name(mutant->mutation), mutant->step, mutant->rank);
    }
    run.set = set;
    for (uint64_t order = 0; order < ORDERS; order++) {
        if (!is_right(&run, order)) {
            CT_FAIL("%s, %u ranks, %zu elements, in place %d: %s of step %u of rank %u is called "
                    "right, and is wrong in order %llu",
                    tally->name, tally->test->world, tally->test->elem_count,
                    tally->test->is_in_place, harness_coll_mutation_name(mutant->mutation),
                    mutant->step, mutant->rank, (unsigned long long)order);
            return DDP_OK;
        }
    }
    return DDP_OK;
}

static void mutate(const char *name)
{
    struct harness_coll_source *source = NULL;
    struct tally tally = {.name = name};
    struct ddp_err err = {""};

    CT_REQUIRE_OK(harness_coll_builtin_open(name, &source, &err));
    for (uint32_t world = 2; world <= 5; world++) {
        /* All that a rank holds has to fit into VALUES_MAX. */
        bool is_cut = ddp_coll_input_blocks(source->kind, 2) > 1 ||
                      ddp_coll_output_blocks(source->kind, 2, true) > 1;

        for (int i = 0; i < 4; i++) {
            const struct harness_coll_case test = {.world = world,
                                                   .elem_count = is_cut ? 3 : 2 * (size_t)world + 1,
                                                   .root = world / 2,
                                                   .segment_elem_count = i % 2 == 0 ? 0 : 2,
                                                   .is_in_place = i >= 2};

            tally.test = &test;
            CT_CHECK_OK(harness_coll_mutants(source, &test, count, &tally, &err));
        }
    }
    harness_coll_source_close(source);
    for (int m = 0; m < HARNESS_COLL_MUTATION_COUNT; m++) {
        CT_CHECK(tally.made[m] > tally.unnoticed[m] || tally.made[m] == 0 ||
                 m == HARNESS_COLL_BUFFER_CHANGED);
    }
    CT_CHECK(tally.made[HARNESS_COLL_STEP_LOST] > 0);
}

#define X(id, kind, name, emit, segment_bytes, meaning) \
    CT_TEST(coll_mutants, id)                           \
    {                                                   \
        if (DDP_COLL_##kind != DDP_COLL_BARRIER) {      \
            mutate(name);                               \
        }                                               \
    }
#include "ddpcore/schedule/algorithm.def"
#undef X

/* The random order shows what it is for: without dependencies some order is wrong. */
static void emit_unordered(struct ddp_schedule *schedule)
{
    ddp_emit_ring(schedule);
    for (size_t i = 0; i < schedule->step_count; i++) {
        schedule->steps[i].dep_count = 0;
    }
}

CT_TEST(coll_mutants, random_order_shows_races)
{
    static struct random_run run;
    struct made_source made = made_source_of(emit_unordered);
    const struct harness_coll_case test = {.world = 3, .elem_count = 7, .is_in_place = true};
    struct harness_schedules schedules;
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {""};
    unsigned wrong = 0;
    uint32_t rank = 0;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    CT_REQUIRE_OK(harness_coll_emit(&made.base, &test, &schedules, &rank, &err));
    run.set = &schedules.sets[0];
    for (uint64_t order = 0; order < ORDERS; order++) {
        wrong += !is_right(&run, order);
    }
    CT_CHECK(wrong > 0);
    ddp_mem_pool_destroy(pool);
}
