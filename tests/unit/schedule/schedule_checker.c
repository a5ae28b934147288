/* Symbolic execution of schedules. An element's value is the set of ranks that it holds and the
 * index it came from; adding overlapping sets is a contribution counted twice. */
#include "tests/unit/schedule/schedule_checker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX  16u
#define TEXT_BYTES 256

struct value {
    uint32_t ranks; /* bit per contributing rank; 0: undefined */
    uint32_t index; /* element of the contributors' input */
};

struct rank {
    struct ddp_schedule schedule;
    struct value *buffer[2 + 8]; /* in, out, scratch; in == out when in place */
    bool *is_done;
    uint32_t *heard; /* per step: ranks whose start happens before its end */
    uint8_t *before; /* [step][step]: column is an ancestor of the row */
};

struct check {
    const struct schedule_case *test;
    struct rank ranks[RANKS_MAX];
    char *text;
};

static void fail(struct check *check, const char *what, uint32_t rank, size_t step)
{
    if (check->text[0] == '\0') {
        (void)snprintf(check->text, TEXT_BYTES,
                       "%s size %u count %zu root %u segment %zu in_place %d: rank %u step %zu: %s",
                       check->test->algorithm->name, check->test->size, check->test->elem_count,
                       check->test->root, check->test->segment_elem_count, check->test->is_in_place,
                       rank, step, what);
    }
}

static size_t buffer_count(const struct check *check, const struct rank *rank,
                           enum ddp_buffer_kind buffer, uint32_t scratch)
{
    size_t count = check->test->elem_count;

    if (buffer == DDP_BUFFER_SCRATCH) {
        return scratch < rank->schedule.scratch_count ? rank->schedule.scratch[scratch].elem_count
                                                      : 0;
    }
    if (check->test->algorithm->kind == DDP_COLL_ALL_GATHER &&
        (buffer == DDP_BUFFER_OUTPUT || check->test->is_in_place)) {
        return count * check->test->size;
    }
    return count;
}

static struct value *values(const struct check *check, struct rank *rank,
                            const struct ddp_range *range)
{
    size_t count = buffer_count(check, rank, range->buffer, range->scratch);
    size_t buffer = range->buffer == DDP_BUFFER_SCRATCH ? 2 + range->scratch : range->buffer;

    if (range->first > count || range->elem_count > count - range->first) {
        return NULL;
    }
    return rank->buffer[buffer] + range->first;
}

/* The start: who contributes what. */
static void fill(const struct check *check, struct rank *rank, uint32_t number)
{
    enum ddp_coll_kind kind = check->test->algorithm->kind;
    size_t first = 0;

    if (kind == DDP_COLL_BARRIER) {
        rank->buffer[2][0].ranks = 1;
        return;
    }
    if (kind == DDP_COLL_BROADCAST && number != check->test->root) {
        return;
    }
    if (kind == DDP_COLL_ALL_GATHER && check->test->is_in_place) {
        first = number * check->test->elem_count;
    }
    for (size_t i = 0; i < check->test->elem_count; i++) {
        rank->buffer[0][first + i].ranks = 1u << number;
        rank->buffer[0][first + i].index = (uint32_t)i;
    }
}

static void open_rank(struct check *check, uint32_t number,
                      void (*mutate)(struct ddp_schedule *schedule))
{
    const struct schedule_case *test = check->test;
    struct rank *rank = &check->ranks[number];
    const struct ddp_schedule_params params = {
        .kind = test->algorithm->kind,
        .dtype = DDP_DTYPE_F32,
        .rank = number,
        .size = test->size,
        .elem_count = test->elem_count,
        .root = test->root,
        .segment_elem_count = test->segment_elem_count,
        .channels = 1,
        .is_in_place = test->is_in_place,
    };
    size_t steps;

    ddp_schedule_init(&rank->schedule, ddp_mem_system(), test->algorithm->name, &params);
    test->algorithm->emit(&rank->schedule);
    if (mutate != NULL && number == 0) {
        mutate(&rank->schedule);
    }
    if (rank->schedule.status != DDP_OK || rank->schedule.scratch_count > 8) {
        fail(check, "emit failed", number, 0);
    }
    for (uint32_t i = 0; i < 2 + rank->schedule.scratch_count; i++) {
        size_t count = i == 0   ? buffer_count(check, rank, DDP_BUFFER_INPUT, 0)
                       : i == 1 ? buffer_count(check, rank, DDP_BUFFER_OUTPUT, 0)
                                : rank->schedule.scratch[i - 2].elem_count;

        rank->buffer[i] =
            i == 1 && test->is_in_place ? rank->buffer[0] : calloc(count + 1, sizeof(struct value));
    }
    steps = rank->schedule.step_count;
    rank->is_done = calloc(steps + 1, sizeof(bool));
    rank->heard = calloc(steps + 1, sizeof(uint32_t));
    rank->before = calloc(steps * steps + 1, 1);
    if (test->algorithm->kind != DDP_COLL_BARRIER || rank->schedule.scratch_count > 0) {
        fill(check, rank, number);
    }
}

static void close_rank(const struct check *check, struct rank *rank)
{
    for (uint32_t i = 0; i < 2 + rank->schedule.scratch_count; i++) {
        if (i != 1 || !check->test->is_in_place) {
            free(rank->buffer[i]);
        }
    }
    free(rank->is_done);
    free(rank->heard);
    free(rank->before);
    ddp_schedule_fini(&rank->schedule);
}

static bool is_send(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_SEND;
}

static bool is_recv(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_RECV || step->kind == DDP_STEP_RECV_REDUCE;
}

static bool is_ready(const struct rank *rank, size_t index)
{
    const struct ddp_step *step = &rank->schedule.steps[index];

    if (rank->is_done[index]) {
        return false;
    }
    for (uint32_t i = 0; i < step->dep_count; i++) {
        if (!rank->is_done[step->dep[i]]) {
            return false;
        }
    }
    return true;
}

/* First step of the stream that is not done, or SIZE_MAX. */
static size_t stream_head(const struct rank *rank, bool is_sending, uint32_t peer)
{
    for (size_t i = 0; i < rank->schedule.step_count; i++) {
        const struct ddp_step *step = &rank->schedule.steps[i];

        if (!rank->is_done[i] && step->peer == peer &&
            (is_sending ? is_send(step) : is_recv(step))) {
            return i;
        }
    }
    return SIZE_MAX;
}

static uint32_t heard_before(const struct rank *rank, uint32_t number, size_t index)
{
    const struct ddp_step *step = &rank->schedule.steps[index];
    uint32_t heard = 1u << number;

    for (uint32_t i = 0; i < step->dep_count; i++) {
        heard |= rank->heard[step->dep[i]];
    }
    return heard;
}

static void apply(struct check *check, uint32_t number, size_t index, const struct value *source)
{
    struct rank *rank = &check->ranks[number];
    const struct ddp_step *step = &rank->schedule.steps[index];
    struct value *target = values(check, rank, &step->dst);
    bool is_reducing = step->kind == DDP_STEP_RECV_REDUCE || step->kind == DDP_STEP_REDUCE;

    if (target == NULL || source == NULL) {
        fail(check, "range outside its buffer", number, index);
        return;
    }
    for (size_t i = 0; i < step->dst.elem_count; i++) {
        if (source[i].ranks == 0) {
            fail(check, "undefined element used", number, index);
        }
        if (!is_reducing) {
            target[i] = source[i];
            continue;
        }
        if ((target[i].ranks & source[i].ranks) != 0) {
            fail(check, "contribution counted twice", number, index);
        }
        if (target[i].ranks == 0 || target[i].index != source[i].index) {
            fail(check, "different elements reduced", number, index);
        }
        target[i].ranks |= source[i].ranks;
    }
}

/* Run a receive together with its send, if both are ready. */
static bool try_message(struct check *check, uint32_t number, size_t index)
{
    struct rank *rank = &check->ranks[number];
    const struct ddp_step *step = &rank->schedule.steps[index];
    struct rank *peer = &check->ranks[step->peer];
    size_t sending = stream_head(peer, true, number);
    const struct ddp_step *send;

    if (stream_head(rank, false, step->peer) != index || sending == SIZE_MAX ||
        !is_ready(peer, sending)) {
        return false;
    }
    send = &peer->schedule.steps[sending];
    if (send->src.elem_count != step->dst.elem_count) {
        fail(check, "message of another length", number, index);
        return false;
    }
    apply(check, number, index, values(check, peer, &send->src));
    peer->heard[sending] = heard_before(peer, step->peer, sending);
    rank->heard[index] = heard_before(rank, number, index) | peer->heard[sending];
    rank->is_done[index] = true;
    peer->is_done[sending] = true;
    return true;
}

static bool try_step(struct check *check, uint32_t number, size_t index)
{
    struct rank *rank = &check->ranks[number];
    const struct ddp_step *step = &rank->schedule.steps[index];

    if (!is_ready(rank, index) || is_send(step)) {
        return false;
    }
    if (is_recv(step)) {
        return try_message(check, number, index);
    }
    apply(check, number, index, values(check, rank, &step->src));
    rank->heard[index] = heard_before(rank, number, index);
    rank->is_done[index] = true;
    return true;
}

static void execute(struct check *check)
{
    bool has_moved = true;

    while (has_moved && check->text[0] == '\0') {
        has_moved = false;
        for (uint32_t number = 0; number < check->test->size; number++) {
            for (size_t i = 0; i < check->ranks[number].schedule.step_count; i++) {
                has_moved |= try_step(check, number, i);
            }
        }
    }
    for (uint32_t number = 0; number < check->test->size; number++) {
        for (size_t i = 0; i < check->ranks[number].schedule.step_count; i++) {
            if (!check->ranks[number].is_done[i]) {
                fail(check, "deadlock", number, i);
            }
        }
    }
}

static bool do_overlap(const struct check *check, const struct ddp_range *a,
                       const struct ddp_range *b)
{
    bool is_same =
        a->buffer == b->buffer && (a->buffer != DDP_BUFFER_SCRATCH || a->scratch == b->scratch);

    if (check->test->is_in_place && a->buffer != DDP_BUFFER_SCRATCH &&
        b->buffer != DDP_BUFFER_SCRATCH) {
        is_same = true;
    }
    return is_same && a->first < b->first + b->elem_count && b->first < a->first + a->elem_count;
}

/* Whether two steps touch the same memory and one of them writes. */
static bool do_conflict(const struct check *check, const struct ddp_step *a,
                        const struct ddp_step *b)
{
    bool a_writes = !is_send(a);
    bool b_writes = !is_send(b);
    bool a_reads = !is_recv(a);
    bool b_reads = !is_recv(b);

    return (a_writes && b_writes && do_overlap(check, &a->dst, &b->dst)) ||
           (a_writes && b_reads && do_overlap(check, &a->dst, &b->src)) ||
           (a_reads && b_writes && do_overlap(check, &a->src, &b->dst));
}

/* Every two conflicting steps of a rank are ordered by dependencies alone; a send counts as over
 * when it was acknowledged, so this covers writes to lent ranges. */
static void find_hazards(struct check *check, uint32_t number)
{
    struct rank *rank = &check->ranks[number];
    size_t steps = rank->schedule.step_count;

    for (size_t i = 0; i < steps; i++) {
        const struct ddp_step *step = &rank->schedule.steps[i];

        for (uint32_t j = 0; j < step->dep_count; j++) {
            rank->before[i * steps + step->dep[j]] = 1;
            for (size_t k = 0; k < step->dep[j]; k++) {
                rank->before[i * steps + k] |= rank->before[step->dep[j] * steps + k];
            }
        }
        for (size_t j = 0; j < i; j++) {
            if (rank->before[i * steps + j] == 0 &&
                do_conflict(check, &rank->schedule.steps[j], step)) {
                fail(check, "conflicts with an earlier step that it does not depend on", number, i);
            }
        }
    }
}

static void judge_result(struct check *check, uint32_t number)
{
    const struct schedule_case *test = check->test;
    struct rank *rank = &check->ranks[number];
    uint32_t everybody = (1u << test->size) - 1;
    uint32_t heard = 1u << number;

    for (size_t i = 0; i < rank->schedule.step_count; i++) {
        heard |= rank->heard[i];
    }
    if (test->algorithm->kind == DDP_COLL_BARRIER) {
        if (heard != everybody) {
            fail(check, "left the barrier without having heard from everybody", number, 0);
        }
        return;
    }
    for (size_t i = 0; i < buffer_count(check, rank, DDP_BUFFER_OUTPUT, 0); i++) {
        struct value expected = {everybody, (uint32_t)i};

        if (test->algorithm->kind == DDP_COLL_BROADCAST) {
            expected.ranks = 1u << test->root;
        } else if (test->algorithm->kind == DDP_COLL_ALL_GATHER) {
            expected.ranks = 1u << (i / test->elem_count);
            expected.index = (uint32_t)(i % test->elem_count);
        }
        if (rank->buffer[1][i].ranks != expected.ranks ||
            rank->buffer[1][i].index != expected.index) {
            fail(check, "wrong contributions in the output", number, i);
        }
    }
}

void schedule_check_mutated(const struct schedule_case *test,
                            void (*mutate)(struct ddp_schedule *schedule), char *text)
{
    struct check *check = calloc(1, sizeof(*check));

    text[0] = '\0';
    check->test = test;
    check->text = text;
    for (uint32_t i = 0; i < test->size; i++) {
        open_rank(check, i, mutate);
    }
    execute(check);
    for (uint32_t i = 0; i < test->size; i++) {
        find_hazards(check, i);
        judge_result(check, i);
    }
    for (uint32_t i = 0; i < test->size; i++) {
        close_rank(check, &check->ranks[i]);
    }
    free(check);
}

void schedule_check(const struct schedule_case *test, char *text)
{
    schedule_check_mutated(test, NULL, text);
}
