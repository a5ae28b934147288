/* The prover notices broken schedules, each as what it is, and says what happens. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/emit.h"
#include "tests/ct.h"
#include "tests/unit/coll/made_source.h"

static void drop_dependencies(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        schedule->steps[i].dep_count = 0;
    }
}

static void shift_message(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].kind == DDP_STEP_SEND && schedule->steps[i].round == 0) {
            schedule->steps[i].src.first += 4;
        }
    }
}

static void drop_last_step(struct ddp_schedule *schedule)
{
    schedule->step_count--;
}

static void reduce_becomes_copy(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].kind == DDP_STEP_RECV_REDUCE) {
            schedule->steps[i].kind = DDP_STEP_RECV;
        }
    }
}

static void shorten_message(struct ddp_schedule *schedule)
{
    schedule->steps[0].src.elem_count--;
}

static void send_unwritten(struct ddp_schedule *schedule)
{
    uint32_t scratch = ddp_schedule_add_scratch(schedule, DDP_DTYPE_F32, 100);

    schedule->steps[0].src.buffer = DDP_BUFFER_SCRATCH;
    schedule->steps[0].src.scratch = scratch;
}

static void read_past_the_end(struct ddp_schedule *schedule)
{
    schedule->steps[0].src.first = schedule->params.elem_count;
}

static void send_bytes(struct ddp_schedule *schedule)
{
    uint32_t scratch = ddp_schedule_add_scratch(schedule, DDP_DTYPE_U8, 100);

    schedule->steps[0].src.buffer = DDP_BUFFER_SCRATCH;
    schedule->steps[0].src.scratch = scratch;
}

static void overlap_itself(struct ddp_schedule *schedule)
{
    struct ddp_step step = {.kind = DDP_STEP_COPY,
                            .dst = {DDP_BUFFER_OUTPUT, 0, 1, 2},
                            .src = {DDP_BUFFER_OUTPUT, 0, 0, 2}};

    for (uint32_t i = 0; i < DDP_STEP_DEPS_MAX; i++) {
        step.dep[step.dep_count++] = (uint32_t)schedule->step_count - 1 - i;
    }
    (void)ddp_schedule_add(schedule, &step);
}

static void (*mutate)(struct ddp_schedule *schedule); /* what emit_mutated does to rank 0 */

static void emit_mutated(struct ddp_schedule *schedule)
{
    ddp_algorithm_find(schedule->params.kind, DDP_ALGORITHM_NONE)->emit(schedule);
    if (schedule->params.rank == 0) {
        mutate(schedule);
    }
}

/* Expects the property to fail with these words, in a world and count that every mutant can be made
 * in. */
static void expect(enum ddp_coll_kind kind, uint64_t world, uint64_t count,
                   enum harness_coll_property property, const char *words)
{
    struct made_source made = made_source_of(emit_mutated);
    const struct harness_coll_options options = {.worlds = {world, world, true},
                                                 .counts = {count, count, true},
                                                 .clock = ddp_clock_monotonic()};
    struct harness_coll_report report;
    struct ddp_err err = {""};

    made.base.kind = kind;
    CT_REQUIRE_OK(harness_coll_check(&made.base, &options, &report, &err));
    if (report.result[property].state != HARNESS_COLL_FAIL ||
        strstr(report.result[property].text, words) == NULL) {
        CT_FAIL("%s is %s, \"%s\", which does not say \"%s\"", harness_coll_property_name(property),
                harness_coll_state_name(report.result[property].state),
                report.result[property].text, words);
    }
    /* What the words name is there for programs too. */
    if (report.result[property].place.rank < 0) {
        CT_FAIL("\"%s\" has no rank", report.result[property].text);
    }
    if (strncmp(report.result[property].text, "step ", 5) == 0 &&
        report.result[property].place.step != strtol(report.result[property].text + 5, NULL, 10)) {
        CT_FAIL("\"%s\" is said to be in step %lld", report.result[property].text,
                (long long)report.result[property].place.step);
    }
}

CT_TEST(coll_prover, notices)
{
    static const struct {
        void (*mutate)(struct ddp_schedule *schedule);
        enum harness_coll_property property;
        const char *words;
    } mutants[] = {
        {drop_dependencies, HARNESS_COLL_ORDERED, "without an order"},
        {shift_message, HARNESS_COLL_COMPLETE, "adds elements from 4 to elements from 0"},
        {drop_last_step, HARNESS_COLL_LIVE, "waits for ever"},
        {reduce_becomes_copy, HARNESS_COLL_COMPLETE, "contribution"},
        {shorten_message, HARNESS_COLL_MATCHED, "takes 4 elements, step"},
        {send_unwritten, HARNESS_COLL_COMPLETE, "uses elements that nobody wrote"},
        {read_past_the_end, HARNESS_COLL_EMITS, "range outside of its buffer"},
        {send_bytes, HARNESS_COLL_MATCHED, "takes elements of u8 as f32"},
        {overlap_itself, HARNESS_COLL_ORDERED, "without an order"},
    };

    for (size_t i = 0; i < sizeof(mutants) / sizeof(mutants[0]); i++) {
        mutate = mutants[i].mutate;
        expect(DDP_COLL_ALL_REDUCE, 4, 16, mutants[i].property, mutants[i].words);
    }
}

static uint32_t chain_length; /* steps that pass an element on, one after the other */
static uint32_t broken_link;  /* one of them that does not wait for the one before */

/* Rank 0 passes what nobody wrote along a scratch buffer: that is wrong too, and no hazard. */
static void add_chain(struct ddp_schedule *schedule)
{
    uint32_t scratch = ddp_schedule_add_scratch(schedule, DDP_DTYPE_F32, chain_length + 1);
    uint32_t before = 0;

    for (uint32_t i = 0; i < chain_length; i++) {
        struct ddp_step step = {.kind = DDP_STEP_COPY,
                                .dst = {DDP_BUFFER_SCRATCH, scratch, i + 1, 1},
                                .src = {DDP_BUFFER_SCRATCH, scratch, i, 1},
                                .dep = {before}};

        step.dep_count = i > 0 && i != broken_link ? 1 : 0;
        before = ddp_schedule_add(schedule, &step);
    }
}

/* Orders are read off a table, of long schedules by a walk: both ways see a link that is missing,
 * and nothing else. */
CT_TEST(coll_prover, orders_of_long_schedules)
{
    static const uint32_t lengths[] = {60, 130, 9000};

    mutate = add_chain;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct made_source made = made_source_of(emit_mutated);
        const struct harness_coll_options options = {
            .worlds = {2, 2, true}, .counts = {2, 2, true}, .clock = ddp_clock_monotonic()};
        struct harness_coll_report report;
        struct ddp_err err = {""};

        chain_length = lengths[i];
        broken_link = UINT32_MAX;
        CT_REQUIRE_OK(harness_coll_check(&made.base, &options, &report, &err));
        CT_CHECK(report.result[HARNESS_COLL_ORDERED].state == HARNESS_COLL_PASS);
        broken_link = chain_length - 1;
        expect(DDP_COLL_ALL_REDUCE, 2, 2, HARNESS_COLL_ORDERED, "without an order");
    }
}

/* Rank 0 sends each signal without waiting for those that it should pass on. */
static void signal_early(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        if (schedule->steps[i].kind == DDP_STEP_SEND) {
            schedule->steps[i].dep_count = 0;
        }
    }
}

static void read_own_input(struct ddp_schedule *schedule)
{
    struct ddp_step step = {.kind = DDP_STEP_COPY,
                            .dst = {DDP_BUFFER_OUTPUT, 0, 0, 1},
                            .src = {DDP_BUFFER_INPUT, 0, 0, 1},
                            .dep_count = 1};

    (void)ddp_schedule_add(schedule, &step);
}

/* Rank 0 swaps where two of its elements come from. */
static void swap_blocks(struct ddp_schedule *schedule)
{
    for (size_t i = 0; i < schedule->step_count; i++) {
        struct ddp_range *src = &schedule->steps[i].src;

        if (schedule->steps[i].kind == DDP_STEP_COPY && src->buffer == DDP_BUFFER_INPUT) {
            src->first = src->first == 0 ? 4 : 0;
        }
    }
}

static void write_elsewhere(struct ddp_schedule *schedule)
{
    struct ddp_step step = {.kind = DDP_STEP_COPY,
                            .dst = {DDP_BUFFER_INPUT, 0, 4, 1},
                            .src = {DDP_BUFFER_INPUT, 0, 5, 1}};

    for (uint32_t i = 0; i < DDP_STEP_DEPS_MAX; i++) {
        step.dep[step.dep_count++] = (uint32_t)schedule->step_count - 1 - i;
    }
    (void)ddp_schedule_add(schedule, &step);
}

/* What is special about a kind: a barrier's signals, a broadcast's inputs, blocks of inputs. */
CT_TEST(coll_prover, knows_the_kinds)
{
    mutate = signal_early;
    expect(DDP_COLL_BARRIER, 5, 0, HARNESS_COLL_COMPLETE, "leaves the barrier before rank");
    mutate = drop_last_step;
    expect(DDP_COLL_REDUCE, 3, 4, HARNESS_COLL_LIVE, "waits for ever");
    expect(DDP_COLL_REDUCE_SCATTER, 4, 4, HARNESS_COLL_COMPLETE, "of rank 0 are never written");
    mutate = swap_blocks;
    expect(DDP_COLL_ALL_TO_ALL, 4, 4, HARNESS_COLL_COMPLETE, "of rank 0 are those from 4");
    mutate = reduce_becomes_copy;
    expect(DDP_COLL_REDUCE, 3, 4, HARNESS_COLL_COMPLETE, "of rank 0");
    expect(DDP_COLL_REDUCE_SCATTER, 4, 4, HARNESS_COLL_COMPLETE, "contribution");
    mutate = write_elsewhere;
    expect(DDP_COLL_REDUCE_SCATTER, 4, 4, HARNESS_COLL_INPUT_KEPT, "of rank 0 writes to the input");
    mutate = read_own_input;
    expect(DDP_COLL_BROADCAST, 3, 4, HARNESS_COLL_COMPLETE,
           "of rank 0 uses elements that nobody wrote");
}
