/* Purpose: place the events of a set in time.
 * Idea: of the events that nothing holds back, the one that can start first is next; it keeps the
 * sender's way out and the receiver's way in busy. */
#include "harness/coll/timeline.h"

#include <string.h>

#define NO_EVENT SIZE_MAX

struct placing {
    const struct harness_schedule_set *set;
    const struct harness_coll_model *model;
    struct harness_coll_timeline *out;
    size_t **event_of;  /* [rank][step] */
    size_t *missing;    /* [event] events that it still waits for */
    size_t *first_link; /* [event + 1] of its successors in `link` */
    size_t *link;       /* successors */
    size_t *ready;      /* events that wait for nothing */
    size_t ready_count;
    double *free_to_send, *free_to_recv; /* [rank] */
    double *not_before;                  /* [event] end of the last event that it waits for */
};

static bool is_message(const struct harness_schedule_event *event)
{
    return event->from_rank != HARNESS_NO_RANK;
}

/* --- who waits for whom ----------------------------------------------------------------------- */

/* Calls note(before, after) for each pair: dependencies of both steps, and the message before it
 * of the same two ranks. */
struct noting {
    struct placing *placing;
    bool is_filling; /* second time: write down, else count */
};

static void note(const struct noting *noting, size_t before, size_t after)
{
    struct placing *placing = noting->placing;

    if (before == NO_EVENT || before == after) {
        return;
    }
    if (noting->is_filling) {
        placing->link[placing->first_link[before]++] = after;
        placing->missing[after]++;
    } else {
        placing->first_link[before + 1]++;
    }
}

static void note_step(const struct noting *noting, uint32_t rank, uint32_t index, size_t after)
{
    const struct harness_schedule_step *step = &noting->placing->set->member[rank]->steps[index];

    for (uint32_t d = 0; d < step->dep_count; d++) {
        note(noting, noting->placing->event_of[rank][step->dep[d]], after);
    }
}

static void note_all(const struct noting *noting, size_t *last)
{
    const struct harness_schedule_set *set = noting->placing->set;

    for (size_t i = 0; i < (size_t)set->size * set->size; i++) {
        last[i] = NO_EVENT;
    }
    for (size_t e = 0; e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];

        note_step(noting, event->rank, event->step, e);
        if (is_message(event)) {
            size_t *before = &last[(size_t)event->from_rank * set->size + event->rank];

            note_step(noting, event->from_rank, event->from_step, e);
            note(noting, *before, e);
            *before = e;
        }
    }
}

static void find_events(const struct placing *placing)
{
    const struct harness_schedule_set *set = placing->set;

    for (uint32_t r = 0; r < set->size; r++) {
        for (size_t s = 0; s < set->member[r]->step_count; s++) {
            placing->event_of[r][s] = NO_EVENT;
        }
    }
    for (size_t e = 0; e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];

        placing->event_of[event->rank][event->step] = e;
        if (is_message(event)) {
            placing->event_of[event->from_rank][event->from_step] = e;
        }
    }
}

static ddp_status link_events(struct placing *placing)
{
    const struct harness_schedule_set *set = placing->set;
    struct ddp_mem *mem = placing->out->mem;
    struct noting noting = {placing, false};
    size_t *last = ddp_mem_array(mem, (size_t)set->size * set->size, sizeof(*last));

    if (last == NULL) {
        return DDP_E_NOMEM;
    }
    find_events(placing);
    note_all(&noting, last);
    for (size_t e = 0; e < set->event_count; e++) {
        placing->first_link[e + 1] += placing->first_link[e];
    }
    placing->link =
        ddp_mem_array(mem, placing->first_link[set->event_count] + 1, sizeof(*placing->link));
    if (placing->link != NULL) {
        noting.is_filling = true;
        note_all(&noting, last);
        /* Filling moved each first link to its end, which is the next one's first. */
        memmove(&placing->first_link[1], placing->first_link,
                set->event_count * sizeof(*placing->first_link));
        placing->first_link[0] = 0;
    }
    ddp_mem_free(mem, last);
    return placing->link == NULL ? DDP_E_NOMEM : DDP_OK;
}

/* --- time ------------------------------------------------------------------------------------- */

static double later(double a, double b)
{
    return a > b ? a : b;
}

static double start_of(const struct placing *placing, size_t e)
{
    const struct harness_schedule_event *event = &placing->set->events[e];
    double start = placing->not_before[e];

    if (is_message(event)) {
        start = later(start, placing->free_to_send[event->from_rank]);
        start = later(start, placing->free_to_recv[event->rank]);
    }
    return start;
}

/* Its number among the ready ones. */
static size_t earliest(const struct placing *placing)
{
    size_t best = 0;

    for (size_t i = 1; i < placing->ready_count; i++) {
        double start = start_of(placing, placing->ready[i]);
        double least = start_of(placing, placing->ready[best]);

        if (start < least || (!(start > least) && placing->ready[i] < placing->ready[best])) {
            best = i;
        }
    }
    return best;
}

static void place(struct placing *placing, size_t e)
{
    const struct harness_schedule_event *event = &placing->set->events[e];
    const struct harness_schedule_step *step =
        &placing->set->member[event->rank]->steps[event->step];
    double count = (double)step->dst.elem_count;
    bool is_sum = step->kind == HARNESS_STEP_RECV_REDUCE || step->kind == HARNESS_STEP_REDUCE;
    double start = start_of(placing, e);
    double end = start;

    if (is_message(event)) {
        end += placing->model->alpha + count * placing->model->beta;
        placing->free_to_send[event->from_rank] = end;
    }
    end += is_sum ? count * placing->model->gamma : 0.0;
    if (is_message(event)) {
        placing->free_to_recv[event->rank] = end;
    }
    placing->out->start[e] = start;
    placing->out->end[e] = end;
    placing->out->total = later(placing->out->total, end);
    for (size_t i = placing->first_link[e]; i < placing->first_link[e + 1]; i++) {
        size_t next = placing->link[i];

        placing->not_before[next] = later(placing->not_before[next], end);
        DDP_ASSERT(placing->missing[next] > 0);
        if (--placing->missing[next] == 0) {
            placing->ready[placing->ready_count++] = next;
        }
    }
}

static void place_all(struct placing *placing)
{
    size_t placed = 0;

    for (size_t e = 0; e < placing->set->event_count; e++) {
        if (placing->missing[e] == 0) {
            placing->ready[placing->ready_count++] = e;
        }
    }
    while (placing->ready_count > 0) {
        size_t i = earliest(placing);
        size_t e = placing->ready[i];

        placing->ready[i] = placing->ready[--placing->ready_count];
        placing->out->order[placed++] = e;
        place(placing, e);
    }
    DDP_ASSERT(placed == placing->set->event_count); /* they ran in the set's order */
}

static ddp_status allocate(struct placing *placing)
{
    const struct harness_schedule_set *set = placing->set;
    struct ddp_mem *mem = placing->out->mem;
    size_t count = set->event_count;

    placing->event_of = ddp_mem_array(mem, set->size, sizeof(*placing->event_of));
    placing->missing = ddp_mem_array(mem, count, sizeof(*placing->missing));
    placing->first_link = ddp_mem_array(mem, count + 1, sizeof(*placing->first_link));
    placing->ready = ddp_mem_array(mem, count, sizeof(*placing->ready));
    placing->free_to_send = ddp_mem_array(mem, set->size, sizeof(double));
    placing->free_to_recv = ddp_mem_array(mem, set->size, sizeof(double));
    placing->not_before = ddp_mem_array(mem, count, sizeof(double));
    placing->out->start = ddp_mem_array(mem, count, sizeof(double));
    placing->out->end = ddp_mem_array(mem, count, sizeof(double));
    placing->out->order = ddp_mem_array(mem, count, sizeof(size_t));
    for (uint32_t r = 0; placing->event_of != NULL && r < set->size; r++) {
        placing->event_of[r] = ddp_mem_array(mem, set->member[r]->step_count, sizeof(size_t));
        if (placing->event_of[r] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return placing->event_of == NULL || placing->missing == NULL || placing->first_link == NULL ||
                   placing->ready == NULL || placing->free_to_send == NULL ||
                   placing->free_to_recv == NULL || placing->not_before == NULL ||
                   placing->out->start == NULL || placing->out->end == NULL ||
                   placing->out->order == NULL
               ? DDP_E_NOMEM
               : DDP_OK;
}

static void release(struct placing *placing)
{
    struct ddp_mem *mem = placing->out->mem;

    for (uint32_t r = 0; placing->event_of != NULL && r < placing->set->size; r++) {
        ddp_mem_free(mem, placing->event_of[r]);
    }
    ddp_mem_free(mem, placing->event_of);
    ddp_mem_free(mem, placing->missing);
    ddp_mem_free(mem, placing->first_link);
    ddp_mem_free(mem, placing->link);
    ddp_mem_free(mem, placing->ready);
    ddp_mem_free(mem, placing->free_to_send);
    ddp_mem_free(mem, placing->free_to_recv);
    ddp_mem_free(mem, placing->not_before);
}

ddp_status harness_coll_timeline_make(const struct harness_schedule_set *set,
                                      const struct harness_coll_model *model, struct ddp_mem *mem,
                                      struct harness_coll_timeline *out)
{
    struct placing placing = {.set = set, .model = model, .out = out};
    ddp_status status;

    *out = (struct harness_coll_timeline){.mem = mem};
    status = allocate(&placing);
    if (status == DDP_OK) {
        status = link_events(&placing);
    }
    if (status == DDP_OK) {
        place_all(&placing);
    }
    release(&placing);
    return status;
}

void harness_coll_timeline_fini(struct harness_coll_timeline *timeline)
{
    ddp_mem_free(timeline->mem, timeline->start);
    ddp_mem_free(timeline->mem, timeline->end);
    ddp_mem_free(timeline->mem, timeline->order);
}
