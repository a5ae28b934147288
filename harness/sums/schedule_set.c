/* Purpose: gather dumps into sets, and find an order in which the steps of a set can run.
 * Idea: a message moves only when its send and its receive both are the next of their pair and all
 * that they depend on is done (rendezvous). A step that can run stays able to run whatever else
 * runs, so one greedy order finds a deadlock if there is one. */
#include "harness/sums/schedule_set.h"

#include <string.h>

#include "harness/sums/arith.h"

void harness_schedules_init(struct harness_schedules *schedules, struct ddp_mem *mem)
{
    *schedules = (struct harness_schedules){.mem = mem};
}

static void free_buffers(struct harness_schedule_set *set)
{
    for (uint32_t r = 0; set->buffer != NULL && r < set->size; r++) {
        for (size_t k = 2; set->buffer[r] != NULL && k < set->member[r]->buffer_count; k++) {
            ddp_mem_free(set->mem, set->buffer[r][k]);
        }
        ddp_mem_free(set->mem, set->buffer[r]);
    }
    ddp_mem_free(set->mem, set->buffer);
    set->buffer = NULL;
}

void harness_schedules_fini(struct harness_schedules *schedules)
{
    for (size_t s = 0; s < schedules->set_count; s++) {
        struct harness_schedule_set *set = &schedules->sets[s];

        free_buffers(set);
        for (uint32_t r = 0; r < set->size; r++) {
            if (set->member[r] != NULL) {
                harness_schedule_fini(set->member[r]);
                ddp_mem_free(set->mem, set->member[r]);
            }
        }
        ddp_mem_free(set->mem, set->member);
        ddp_mem_free(set->mem, set->events);
    }
    ddp_mem_free(schedules->mem, schedules->sets);
    harness_schedules_init(schedules, schedules->mem);
}

static bool is_same_operation(const struct harness_schedule *a, const struct harness_schedule *b)
{
    return a->kind == b->kind && a->size == b->size && a->elem_count == b->elem_count &&
           a->dtype == b->dtype && a->root == b->root && strcmp(a->algorithm, b->algorithm) == 0;
}

static ddp_status grow_sets(struct harness_schedules *schedules)
{
    struct harness_schedule_set *sets =
        ddp_mem_grow(schedules->mem, schedules->sets, schedules->set_count,
                     &schedules->set_capacity, sizeof(*sets));

    if (sets == NULL) {
        return DDP_E_NOMEM;
    }
    schedules->sets = sets;
    return DDP_OK;
}

static ddp_status find_or_add_set(struct harness_schedules *schedules,
                                  const struct harness_schedule *schedule,
                                  struct harness_schedule_set **out)
{
    for (size_t s = 0; s < schedules->set_count; s++) {
        if (is_same_operation(schedules->sets[s].any, schedule)) {
            *out = &schedules->sets[s];
            return DDP_OK;
        }
    }
    DDP_TRY(grow_sets(schedules));
    *out = &schedules->sets[schedules->set_count];
    **out = (struct harness_schedule_set){.mem = schedules->mem, .size = schedule->size};
    (*out)->member = ddp_mem_array(schedules->mem, schedule->size, sizeof(*(*out)->member));
    return (*out)->member == NULL ? DDP_E_NOMEM : DDP_OK;
}

struct harness_schedule *harness_schedules_member(const struct harness_schedules *schedules,
                                                  const struct harness_schedule *like)
{
    DDP_ASSERT(like->rank < like->size);
    for (size_t s = 0; s < schedules->set_count; s++) {
        if (is_same_operation(schedules->sets[s].any, like)) {
            return schedules->sets[s].member[like->rank];
        }
    }
    return NULL;
}

ddp_status harness_schedules_add(struct harness_schedules *schedules,
                                 const struct harness_schedule *schedule, struct ddp_err *err)
{
    struct harness_schedule_set *set = NULL;
    struct harness_schedule *kept;

    DDP_ASSERT(schedule->rank < schedule->size);
    DDP_TRY(find_or_add_set(schedules, schedule, &set));
    DDP_ASSERT(set->size == schedule->size);
    if (set->member[schedule->rank] != NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "two schedules of rank %u for one operation",
                           schedule->rank);
    }
    kept = ddp_mem_array(schedules->mem, 1, sizeof(*kept));
    if (kept == NULL) {
        if (set->member_count == 0) {
            ddp_mem_free(schedules->mem, set->member);
        }
        return DDP_E_NOMEM;
    }
    *kept = *schedule;
    set->member[schedule->rank] = kept;
    set->any = kept;
    if (set->member_count++ == 0) {
        schedules->set_count++; /* a set is in the list once it has a member */
    }
    DDP_ASSERT(set->member_count <= set->size);
    return DDP_OK;
}

struct harness_schedule_set *harness_schedules_find(const struct harness_schedules *schedules,
                                                    enum ddp_coll_kind kind, const char *algorithm,
                                                    size_t elem_count, enum ddp_dtype dtype,
                                                    uint32_t root)
{
    struct harness_schedule_set *fallback = NULL;

    for (size_t s = 0; s < schedules->set_count; s++) {
        const struct harness_schedule *member = schedules->sets[s].any;

        if (member->kind != kind || member->elem_count != elem_count || member->dtype != dtype ||
            member->root != root) {
            continue;
        }
        if (algorithm == NULL || strcmp(member->algorithm, algorithm) == 0) {
            return &schedules->sets[s];
        }
        fallback = &schedules->sets[s];
    }
    return fallback;
}

/* --- order ------------------------------------------------------------------------------------ */

struct ordering {
    struct harness_schedule_set *set;
    bool **is_done;  /* [rank][step] */
    uint32_t **head; /* [rank][2 * peer + (0 sends, 1 receives)]: first step not yet taken */
    uint32_t **next; /* [rank][step]: the next one of that direction and peer */
    size_t *first;   /* [rank]: all steps before it are done */
};

static bool is_receive(const struct harness_schedule_step *step)
{
    return step->kind == HARNESS_STEP_RECV || step->kind == HARNESS_STEP_RECV_REDUCE;
}

static uint32_t *queue_of(const struct ordering *ordering, uint32_t rank, uint32_t peer,
                          bool is_receiving)
{
    DDP_ASSERT(peer < ordering->set->size && peer != rank);
    return &ordering->head[rank][2 * (size_t)peer + (is_receiving ? 1 : 0)];
}

/* Messages of a direction and peer move in order: each step knows the next one, the last one and a
 * queue without steps the number of all steps. */
static void link_queues(struct ordering *ordering, uint32_t rank)
{
    const struct harness_schedule *member = ordering->set->member[rank];
    uint32_t end = (uint32_t)member->step_count;

    for (size_t q = 0; q < 2 * (size_t)ordering->set->size; q++) {
        ordering->head[rank][q] = end;
    }
    for (uint32_t s = end; s-- > 0;) {
        const struct harness_schedule_step *step = &member->steps[s];

        if (step->kind == HARNESS_STEP_SEND || is_receive(step)) {
            uint32_t *head = queue_of(ordering, rank, step->peer, is_receive(step));

            DDP_ASSERT(*head > s); /* they are linked from behind */
            ordering->next[rank][s] = *head;
            *head = s;
        }
    }
}

static bool is_free(const struct ordering *ordering, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = &ordering->set->member[rank]->steps[index];

    for (uint32_t d = 0; d < step->dep_count; d++) {
        DDP_ASSERT(step->dep[d] < index);
        if (!ordering->is_done[rank][step->dep[d]]) {
            return false;
        }
    }
    return !ordering->is_done[rank][index];
}

static void finish(struct ordering *ordering, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = &ordering->set->member[rank]->steps[index];

    DDP_ASSERT(!ordering->is_done[rank][index]);
    ordering->is_done[rank][index] = true;
    if (step->kind == HARNESS_STEP_SEND || is_receive(step)) {
        *queue_of(ordering, rank, step->peer, is_receive(step)) = ordering->next[rank][index];
    }
}

static void take(struct ordering *ordering, const struct harness_schedule_event *event)
{
    finish(ordering, event->rank, event->step);
    if (event->from_rank != HARNESS_NO_RANK) {
        finish(ordering, event->from_rank, event->from_step);
    }
    ordering->set->events[ordering->set->event_count++] = *event;
}

/* Run one step of a rank if it can run now. Sends run with their receives. */
static bool try_step(struct ordering *ordering, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = &ordering->set->member[rank]->steps[index];
    struct harness_schedule_event event = {
        .rank = rank, .step = index, .from_rank = HARNESS_NO_RANK};

    if (step->kind == HARNESS_STEP_SEND || !is_free(ordering, rank, index)) {
        return false;
    }
    if (is_receive(step)) {
        event.from_rank = step->peer;
        event.from_step = *queue_of(ordering, step->peer, rank, false);
        if (*queue_of(ordering, rank, step->peer, true) != index ||
            event.from_step >= ordering->set->member[step->peer]->step_count ||
            !is_free(ordering, step->peer, event.from_step)) {
            return false;
        }
    }
    take(ordering, &event);
    return true;
}

static bool sweep_rank(struct ordering *ordering, uint32_t rank)
{
    const struct harness_schedule *member = ordering->set->member[rank];
    bool has_run = false;

    while (ordering->first[rank] < member->step_count &&
           ordering->is_done[rank][ordering->first[rank]]) {
        ordering->first[rank]++;
    }
    for (size_t s = ordering->first[rank]; s < member->step_count; s++) {
        has_run = try_step(ordering, rank, (uint32_t)s) || has_run;
    }
    return has_run;
}

/* If not, the set says where it is stuck. */
static bool is_everything_done(const struct ordering *ordering)
{
    for (uint32_t r = 0; r < ordering->set->size; r++) {
        for (size_t s = 0; s < ordering->set->member[r]->step_count; s++) {
            if (!ordering->is_done[r][s]) {
                ordering->set->stuck_rank = r;
                ordering->set->stuck_step = (uint32_t)s;
                return false;
            }
        }
    }
    return true;
}

static ddp_status allocate_ordering(struct ordering *ordering)
{
    struct harness_schedule_set *set = ordering->set;
    size_t total = 0;

    ordering->is_done = ddp_mem_array(set->mem, set->size, sizeof(*ordering->is_done));
    ordering->head = ddp_mem_array(set->mem, set->size, sizeof(*ordering->head));
    ordering->next = ddp_mem_array(set->mem, set->size, sizeof(*ordering->next));
    ordering->first = ddp_mem_array(set->mem, set->size, sizeof(*ordering->first));
    if (ordering->is_done == NULL || ordering->head == NULL || ordering->next == NULL ||
        ordering->first == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < set->size; r++) {
        total += set->member[r]->step_count;
        ordering->is_done[r] = ddp_mem_array(set->mem, set->member[r]->step_count, sizeof(bool));
        ordering->head[r] = ddp_mem_array(set->mem, 2 * (size_t)set->size, sizeof(uint32_t));
        ordering->next[r] = ddp_mem_array(set->mem, set->member[r]->step_count, sizeof(uint32_t));
        if (ordering->is_done[r] == NULL || ordering->head[r] == NULL ||
            ordering->next[r] == NULL) {
            return DDP_E_NOMEM;
        }
        link_queues(ordering, r);
    }
    ddp_mem_free(set->mem, set->events);
    set->events = ddp_mem_array(set->mem, total, sizeof(*set->events));
    set->event_count = 0;
    return set->events == NULL ? DDP_E_NOMEM : DDP_OK;
}

static void free_ordering(struct ordering *ordering)
{
    struct ddp_mem *mem = ordering->set->mem;

    for (uint32_t r = 0; r < ordering->set->size; r++) {
        if (ordering->is_done != NULL) {
            ddp_mem_free(mem, ordering->is_done[r]);
        }
        if (ordering->head != NULL) {
            ddp_mem_free(mem, ordering->head[r]);
        }
        if (ordering->next != NULL) {
            ddp_mem_free(mem, ordering->next[r]);
        }
    }
    ddp_mem_free(mem, ordering->is_done);
    ddp_mem_free(mem, ordering->head);
    ddp_mem_free(mem, ordering->next);
    ddp_mem_free(mem, ordering->first);
}

static ddp_status order_set(struct harness_schedule_set *set)
{
    struct ordering ordering = {.set = set};
    bool has_run = true;
    ddp_status status;

    if (set->member_count < set->size) {
        return DDP_OK; /* some rank never used it: nothing can have completed */
    }
    status = allocate_ordering(&ordering);
    while (status == DDP_OK && has_run) {
        has_run = false;
        for (uint32_t r = 0; r < set->size; r++) {
            has_run = sweep_rank(&ordering, r) || has_run;
        }
    }
    if (status == DDP_OK) {
        set->is_ordered = is_everything_done(&ordering);
        set->is_stuck = !set->is_ordered;
    }
    free_ordering(&ordering);
    return status;
}

ddp_status harness_schedules_order(struct harness_schedules *schedules)
{
    for (size_t s = 0; s < schedules->set_count; s++) {
        if (!schedules->sets[s].is_ordered && !schedules->sets[s].is_stuck) {
            DDP_TRY(order_set(&schedules->sets[s]));
        }
    }
    return DDP_OK;
}
