/* Purpose: find an order in which the steps of a set can run.
 * Idea: a message moves only when its send and its receive both are the next of their pair and all
 * that they depend on is done (rendezvous). A step that can run stays able to run whatever else
 * runs, so one greedy order finds a deadlock if there is one. Ranks are gone through in turn, and
 * each runs what it can in the order of its steps; a bit for each step says that it can, so that
 * none is looked at before. */
#include "harness/sums/schedule_prove.h"

enum { WORD_BITS = 64 };

/* Steps of all ranks have numbers in a row: those of a rank begin at first[rank]. */
struct sweep {
    struct harness_schedule_set *set;
    size_t *first;      /* [rank] */
    size_t *ready_at;   /* [rank]: its first word in ready */
    size_t step_count;  /* of all ranks */
    uint8_t *missing;   /* [step]: dependencies that are not done */
    bool *is_done;      /* [step] */
    uint32_t *next;     /* [step]: the next one of that direction and peer, as number of the rank */
    uint32_t *head;     /* [rank][2 * peer + (0 sends, 1 receives)]: first step not yet taken */
    size_t *heirs_from; /* [step + 1]: where those that depend on it begin in heirs */
    uint32_t *heirs;    /* steps of the same rank */
    uint64_t *ready;    /* a bit a step: it can run; sends run with their receives */
};

static bool is_receive(const struct harness_schedule_step *step)
{
    return step->kind == HARNESS_STEP_RECV || step->kind == HARNESS_STEP_RECV_REDUCE;
}

static bool is_message(const struct harness_schedule_step *step)
{
    return step->kind == HARNESS_STEP_SEND || is_receive(step);
}

static const struct harness_schedule_step *step_at(const struct sweep *sweep, uint32_t rank,
                                                   uint32_t index)
{
    DDP_ASSERT(index < sweep->set->member[rank]->step_count);
    return &sweep->set->member[rank]->steps[index];
}

static uint32_t *head_of(const struct sweep *sweep, uint32_t rank, uint32_t peer, bool is_receiving)
{
    DDP_ASSERT(peer < sweep->set->size && peer != rank);
    return &sweep->head[2 * ((size_t)rank * sweep->set->size + peer) + (is_receiving ? 1 : 0)];
}

/* --- what can run ----------------------------------------------------------------------------- */

static void set_ready(const struct sweep *sweep, uint32_t rank, uint32_t index)
{
    sweep->ready[sweep->ready_at[rank] + index / WORD_BITS] |= UINT64_C(1) << (index % WORD_BITS);
}

static bool is_waiting_at(const struct sweep *sweep, uint32_t rank, uint32_t index)
{
    return index < sweep->set->member[rank]->step_count &&
           sweep->missing[sweep->first[rank] + index] == 0;
}

/* The next message from one rank to another moves if both of its ends wait for it. */
static void look_at_pair(const struct sweep *sweep, uint32_t from, uint32_t to)
{
    uint32_t taken = *head_of(sweep, to, from, true);

    if (is_waiting_at(sweep, to, taken) &&
        is_waiting_at(sweep, from, *head_of(sweep, from, to, false))) {
        set_ready(sweep, to, taken);
    }
}

/* All that the step depends on is done. */
static void release(const struct sweep *sweep, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = step_at(sweep, rank, index);

    DDP_ASSERT(sweep->missing[sweep->first[rank] + index] == 0);
    if (step->kind == HARNESS_STEP_SEND) {
        look_at_pair(sweep, rank, step->peer);
    } else if (is_receive(step)) {
        look_at_pair(sweep, step->peer, rank);
    } else {
        set_ready(sweep, rank, index);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

static void finish(const struct sweep *sweep, uint32_t rank, uint32_t index)
{
    size_t at = sweep->first[rank] + index;

    DDP_ASSERT(!sweep->is_done[at] && sweep->missing[at] == 0);
    sweep->is_done[at] = true;
    for (size_t h = sweep->heirs_from[at]; h < sweep->heirs_from[at + 1]; h++) {
        uint32_t heir = sweep->heirs[h];

        DDP_ASSERT(heir > index && sweep->missing[sweep->first[rank] + heir] > 0);
        if (--sweep->missing[sweep->first[rank] + heir] == 0) {
            release(sweep, rank, heir);
        }
    }
}

/* Takes the next message from one rank to another out of both queues; its send. */
static uint32_t take_message(const struct sweep *sweep, uint32_t from, uint32_t to)
{
    uint32_t *sent = head_of(sweep, from, to, false);
    uint32_t *taken = head_of(sweep, to, from, true);
    uint32_t step = *sent;

    DDP_ASSERT(is_waiting_at(sweep, from, *sent) && is_waiting_at(sweep, to, *taken));
    *sent = sweep->next[sweep->first[from] + *sent];
    *taken = sweep->next[sweep->first[to] + *taken];
    return step;
}

static void run_step(const struct sweep *sweep, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = step_at(sweep, rank, index);
    struct harness_schedule_event event = {
        .rank = rank, .step = index, .from_rank = HARNESS_NO_RANK};

    if (is_receive(step)) {
        DDP_ASSERT(*head_of(sweep, rank, step->peer, true) == index);
        event.from_rank = step->peer;
        event.from_step = take_message(sweep, step->peer, rank);
        finish(sweep, event.from_rank, event.from_step);
    }
    finish(sweep, rank, index);
    if (is_receive(step)) {
        look_at_pair(sweep, step->peer, rank);
    }
    sweep->set->events[sweep->set->event_count++] = event;
}

/* What becomes able to run behind the step that has just run is run in the same turn. */
static bool run_rank(const struct sweep *sweep, uint32_t rank)
{
    size_t step_count = sweep->set->member[rank]->step_count;
    uint64_t *ready = &sweep->ready[sweep->ready_at[rank]];
    bool has_run = false;

    for (size_t w = 0; w * WORD_BITS < step_count; w++) {
        uint64_t behind = UINT64_MAX;

        while ((ready[w] & behind) != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(ready[w] & behind);

            ready[w] &= ~(UINT64_C(1) << bit);
            behind = bit == WORD_BITS - 1 ? 0 : UINT64_MAX << (bit + 1);
            run_step(sweep, rank, (uint32_t)(w * WORD_BITS + bit));
            has_run = true;
        }
    }
    return has_run;
}

/* If not, the set says where it is stuck. */
static bool is_everything_done(const struct sweep *sweep)
{
    for (uint32_t r = 0; r < sweep->set->size; r++) {
        for (size_t s = 0; s < sweep->set->member[r]->step_count; s++) {
            if (!sweep->is_done[sweep->first[r] + s]) {
                sweep->set->stuck_rank = r;
                sweep->set->stuck_step = (uint32_t)s;
                return false;
            }
        }
    }
    return true;
}

/* --- preparation ------------------------------------------------------------------------------ */

/* Messages of a direction and peer move in order: each step knows the next one; the last one, and a
 * queue without steps, the number of all steps. */
static void link_queues(const struct sweep *sweep, uint32_t rank)
{
    const struct harness_schedule *member = sweep->set->member[rank];
    uint32_t end = (uint32_t)member->step_count;

    for (uint32_t peer = 0; peer < sweep->set->size; peer++) {
        if (peer != rank) {
            *head_of(sweep, rank, peer, false) = end;
            *head_of(sweep, rank, peer, true) = end;
        }
    }
    for (uint32_t s = end; s-- > 0;) {
        const struct harness_schedule_step *step = &member->steps[s];

        if (is_message(step)) {
            uint32_t *head = head_of(sweep, rank, step->peer, is_receive(step));

            DDP_ASSERT(*head > s); /* they are linked from behind */
            sweep->next[sweep->first[rank] + s] = *head;
            *head = s;
        }
    }
}

/* heirs_from holds where each step's heirs end, and comes down to where they begin. */
static void link_heirs(const struct sweep *sweep, uint32_t rank)
{
    const struct harness_schedule *member = sweep->set->member[rank];

    for (uint32_t s = (uint32_t)member->step_count; s-- > 0;) {
        const struct harness_schedule_step *step = &member->steps[s];

        for (uint32_t d = 0; d < step->dep_count; d++) {
            DDP_ASSERT(step->dep[d] < s);
            sweep->heirs[--sweep->heirs_from[sweep->first[rank] + step->dep[d]]] = s;
        }
        sweep->missing[sweep->first[rank] + s] = (uint8_t)step->dep_count;
    }
}

/* Returns the number of all dependencies. */
static size_t count_heirs(const struct sweep *sweep)
{
    size_t total = 0;

    for (uint32_t r = 0; r < sweep->set->size; r++) {
        const struct harness_schedule *member = sweep->set->member[r];

        for (size_t s = 0; s < member->step_count; s++) {
            for (uint32_t d = 0; d < member->steps[s].dep_count; d++) {
                sweep->heirs_from[sweep->first[r] + member->steps[s].dep[d]]++;
            }
        }
    }
    for (size_t s = 0; s < sweep->step_count; s++) {
        total += sweep->heirs_from[s];
        sweep->heirs_from[s] = total;
    }
    sweep->heirs_from[sweep->step_count] = total;
    return total;
}

static ddp_status allocate(struct sweep *sweep)
{
    struct harness_schedule_set *set = sweep->set;
    struct ddp_mem *mem = set->mem;
    size_t word_count = 0;

    sweep->first = ddp_mem_array(mem, set->size, sizeof(*sweep->first));
    sweep->ready_at = ddp_mem_array(mem, set->size, sizeof(*sweep->ready_at));
    for (uint32_t r = 0; sweep->first != NULL && sweep->ready_at != NULL && r < set->size; r++) {
        sweep->first[r] = sweep->step_count;
        sweep->ready_at[r] = word_count;
        sweep->step_count += set->member[r]->step_count;
        word_count += (set->member[r]->step_count + WORD_BITS - 1) / WORD_BITS;
    }
    sweep->missing = ddp_mem_array(mem, sweep->step_count, sizeof(*sweep->missing));
    sweep->is_done = ddp_mem_array(mem, sweep->step_count, sizeof(*sweep->is_done));
    sweep->next = ddp_mem_array(mem, sweep->step_count, sizeof(*sweep->next));
    sweep->head = ddp_mem_array(mem, 2 * (size_t)set->size * set->size, sizeof(*sweep->head));
    sweep->heirs_from = ddp_mem_array(mem, sweep->step_count + 1, sizeof(*sweep->heirs_from));
    sweep->ready = ddp_mem_array(mem, word_count, sizeof(*sweep->ready));
    ddp_mem_free(mem, set->events);
    set->events = ddp_mem_array(mem, sweep->step_count, sizeof(*set->events));
    set->event_count = 0;
    if (sweep->first == NULL || sweep->ready_at == NULL || sweep->missing == NULL ||
        sweep->is_done == NULL || sweep->next == NULL || sweep->head == NULL ||
        sweep->heirs_from == NULL || sweep->ready == NULL || set->events == NULL) {
        return DDP_E_NOMEM;
    }
    sweep->heirs = ddp_mem_array(mem, count_heirs(sweep), sizeof(*sweep->heirs));
    return sweep->heirs == NULL ? DDP_E_NOMEM : DDP_OK;
}

static void prepare(const struct sweep *sweep)
{
    for (uint32_t r = 0; r < sweep->set->size; r++) {
        link_queues(sweep, r);
        link_heirs(sweep, r);
    }
    for (uint32_t r = 0; r < sweep->set->size; r++) {
        for (uint32_t s = 0; s < sweep->set->member[r]->step_count; s++) {
            if (sweep->set->member[r]->steps[s].dep_count == 0) {
                release(sweep, r, s);
            }
        }
    }
}

static void release_memory(const struct sweep *sweep)
{
    struct ddp_mem *mem = sweep->set->mem;

    ddp_mem_free(mem, sweep->first);
    ddp_mem_free(mem, sweep->ready_at);
    ddp_mem_free(mem, sweep->missing);
    ddp_mem_free(mem, sweep->is_done);
    ddp_mem_free(mem, sweep->next);
    ddp_mem_free(mem, sweep->head);
    ddp_mem_free(mem, sweep->heirs_from);
    ddp_mem_free(mem, sweep->heirs);
    ddp_mem_free(mem, sweep->ready);
}

ddp_status harness_schedule_set_order(struct harness_schedule_set *set)
{
    struct sweep sweep = {.set = set};
    bool has_run = true;
    ddp_status status;

    if (set->member_count < set->size) {
        return DDP_OK; /* some rank never used it: nothing can have completed */
    }
    status = allocate(&sweep);
    if (status == DDP_OK) {
        prepare(&sweep);
        while (has_run) {
            has_run = false;
            for (uint32_t r = 0; r < set->size; r++) {
                has_run = run_rank(&sweep, r) || has_run;
            }
        }
        set->is_ordered = is_everything_done(&sweep);
        set->is_stuck = !set->is_ordered;
    }
    release_memory(&sweep);
    return status;
}
