/* Purpose: change one step after the other of a proved case, and prove again.
 * Idea: a mutant is a copy of one rank's steps. What the reader of schedules refuses (ranges
 * outside of their buffer, dependencies on later steps) is not made. */
#include "harness/coll/mutant.h"

#include <string.h>

struct mutating {
    struct harness_schedules *schedules;
    ddp_status (*visit)(void *context, const struct harness_coll_mutant *mutant,
                        const struct harness_schedule_set *set, const char *text);
    void *context;
};

const char *harness_coll_mutation_name(enum harness_coll_mutation mutation)
{
    static const char *const names[] = {
#define X(id, name, may_be_right) name,
        HARNESS_COLL_MUTATION_TABLE(X)
#undef X
    };

    DDP_ASSERT(mutation < HARNESS_COLL_MUTATION_COUNT);
    return names[mutation];
}

bool harness_coll_mutation_may_be_right(enum harness_coll_mutation mutation)
{
    static const bool rows[] = {
#define X(id, name, may_be_right) may_be_right,
        HARNESS_COLL_MUTATION_TABLE(X)
#undef X
    };

    DDP_ASSERT(mutation < HARNESS_COLL_MUTATION_COUNT);
    return rows[mutation];
}

static bool is_send(const struct harness_schedule_step *step)
{
    return step->kind == HARNESS_STEP_SEND;
}

static bool is_receive(const struct harness_schedule_step *step)
{
    return step->kind == HARNESS_STEP_RECV || step->kind == HARNESS_STEP_RECV_REDUCE;
}

/* --- changes: false if there is no such mutant ------------------------------------------------ */

/* Steps behind it move up; what waited for it waits for nothing instead. */
static bool lose_step(struct harness_schedule *member, uint32_t index)
{
    memmove(&member->steps[index], &member->steps[index + 1],
            (member->step_count - index - 1) * sizeof(member->steps[0]));
    member->step_count--;
    for (size_t s = index; s < member->step_count; s++) {
        struct harness_schedule_step *step = &member->steps[s];
        uint32_t kept = 0;

        for (uint32_t d = 0; d < step->dep_count; d++) {
            if (step->dep[d] != index) {
                step->dep[kept++] = step->dep[d] - (step->dep[d] > index ? 1 : 0);
            }
        }
        step->dep_count = kept;
    }
    return true;
}

static bool change_kind(struct harness_schedule_step *step)
{
    static const enum harness_step_kind others[HARNESS_STEP_KIND_COUNT] = {
        [HARNESS_STEP_SEND] = HARNESS_STEP_SEND,
        [HARNESS_STEP_RECV] = HARNESS_STEP_RECV_REDUCE,
        [HARNESS_STEP_RECV_REDUCE] = HARNESS_STEP_RECV,
        [HARNESS_STEP_REDUCE] = HARNESS_STEP_COPY,
        [HARNESS_STEP_COPY] = HARNESS_STEP_REDUCE,
        [HARNESS_STEP_CONVERT] = HARNESS_STEP_CONVERT};
    bool is_changed = others[step->kind] != step->kind;

    step->kind = others[step->kind];
    return is_changed;
}

static bool shift(const struct harness_schedule *member, struct harness_span *span)
{
    size_t end = span->first + span->elem_count;

    if (span->elem_count == 0) {
        return false;
    }
    if (end < member->buffer_elem_count[span->buffer]) {
        span->first++;
        return true;
    }
    if (span->first > 0) {
        span->first--;
        return true;
    }
    return false;
}

static bool shorten(struct harness_schedule_step *step)
{
    if (step->src.elem_count == 1 || step->dst.elem_count == 1) {
        return false;
    }
    step->src.elem_count -= step->src.elem_count > 0 ? 1 : 0;
    step->dst.elem_count -= step->dst.elem_count > 0 ? 1 : 0;
    return true;
}

static bool change_peer(const struct harness_schedule *member, struct harness_schedule_step *step)
{
    uint32_t other = step->peer;

    if ((!is_send(step) && !is_receive(step)) || member->size < 3) {
        return false;
    }
    do {
        other = (other + 1) % member->size;
    } while (other == member->rank);
    step->peer = other;
    return true;
}

/* Two messages of one direction and peer change their ranges. */
static bool change_order(struct harness_schedule *member, uint32_t index)
{
    struct harness_schedule_step *step = &member->steps[index];

    for (size_t s = index + 1; s < member->step_count; s++) {
        struct harness_schedule_step *other = &member->steps[s];

        if (other->peer == step->peer &&
            ((is_send(step) && is_send(other)) || (is_receive(step) && is_receive(other)))) {
            struct harness_span src = step->src;
            struct harness_span dst = step->dst;
            bool is_same = is_send(step)
                               ? src.buffer == other->src.buffer && src.first == other->src.first
                               : dst.first == other->dst.first;

            step->src = other->src;
            step->dst = other->dst;
            other->src = src;
            other->dst = dst;
            return !is_same;
        }
    }
    return false;
}

static bool lose_dependency(struct harness_schedule_step *step, uint32_t which)
{
    if (which >= step->dep_count) {
        return false;
    }
    step->dep[which] = step->dep[--step->dep_count];
    return true;
}

/* The input is read for the output, or the other way round. */
static bool change_buffer(const struct harness_schedule *member, struct harness_schedule_step *step)
{
    struct harness_span *span = &step->src;

    if (member->is_in_place || span->elem_count == 0 || span->buffer > 1 ||
        member->buffer_elem_count[0] != member->buffer_elem_count[1]) {
        return false;
    }
    span->buffer = 1 - span->buffer;
    return true;
}

static bool change(struct harness_schedule *member, const struct harness_coll_mutant *mutant)
{
    struct harness_schedule_step *step = &member->steps[mutant->step];

    switch (mutant->mutation) {
    case HARNESS_COLL_STEP_LOST:
        return lose_step(member, mutant->step);
    case HARNESS_COLL_KIND_CHANGED:
        return change_kind(step);
    case HARNESS_COLL_TARGET_SHIFTED:
        return shift(member, &step->dst);
    case HARNESS_COLL_SOURCE_SHIFTED:
        return shift(member, &step->src);
    case HARNESS_COLL_SHORTENED:
        return shorten(step);
    case HARNESS_COLL_PEER_CHANGED:
        return change_peer(member, step);
    case HARNESS_COLL_ORDER_CHANGED:
        return change_order(member, mutant->step);
    case HARNESS_COLL_DEPENDENCY_LOST:
        return lose_dependency(step, mutant->which);
    case HARNESS_COLL_BUFFER_CHANGED:
        return change_buffer(member, step);
    case HARNESS_COLL_ROUND_CHANGED:
        step->round++;
        return is_send(step) || is_receive(step);
    case HARNESS_COLL_MUTATION_COUNT:
        break;
    }
    return false;
}

/* --- all of them ------------------------------------------------------------------------------ */

static ddp_status prove(struct mutating *mutating, struct harness_findings *findings)
{
    struct harness_schedule_set *set = &mutating->schedules->sets[0];

    set->is_ordered = false;
    set->is_stuck = false;
    DDP_TRY(harness_schedules_order(mutating->schedules));
    DDP_TRY(harness_schedule_set_prove(set, findings));
    DDP_TRY(harness_schedule_set_prove_rounds(set, findings));
    return findings->is_failed ? DDP_E_NOMEM : DDP_OK;
}

/* Changes the member, proves, and puts everything back. */
static ddp_status try_mutant(struct mutating *mutating, const struct harness_coll_mutant *mutant,
                             bool *out_exists)
{
    struct harness_schedule_set *set = &mutating->schedules->sets[0];
    struct harness_schedule *member = set->member[mutant->rank];
    size_t step_count = member->step_count;
    size_t size_bytes = step_count * sizeof(member->steps[0]);
    struct harness_schedule_step *kept = ddp_mem_array(set->mem, step_count, sizeof(*kept));
    struct harness_findings findings;
    ddp_status status = DDP_OK;

    if (kept == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(kept, member->steps, size_bytes);
    harness_findings_init(&findings, set->mem);
    *out_exists = change(member, mutant);
    if (*out_exists) {
        status = prove(mutating, &findings);
    }
    if (*out_exists && status == DDP_OK) {
        status = mutating->visit(mutating->context, mutant, set,
                                 findings.count > 0 ? findings.items[0].text : "");
    }
    memcpy(member->steps, kept, size_bytes);
    member->step_count = step_count;
    harness_findings_fini(&findings);
    ddp_mem_free(set->mem, kept);
    return status;
}

static ddp_status mutate_step(struct mutating *mutating, uint32_t rank, uint32_t step)
{
    for (int m = 0; m < HARNESS_COLL_MUTATION_COUNT; m++) {
        struct harness_coll_mutant mutant = {(enum harness_coll_mutation)m, rank, step, 0};
        bool exists = true;

        DDP_TRY(try_mutant(mutating, &mutant, &exists));
        while (exists && mutant.mutation == HARNESS_COLL_DEPENDENCY_LOST) {
            mutant.which++;
            DDP_TRY(try_mutant(mutating, &mutant, &exists));
        }
    }
    return DDP_OK;
}

static ddp_status mutate_all(struct mutating *mutating, struct ddp_err *err)
{
    struct harness_schedule_set *set = &mutating->schedules->sets[0];
    struct harness_findings findings;
    ddp_status status;

    harness_findings_init(&findings, set->mem);
    status = prove(mutating, &findings);
    if (status == DDP_OK && findings.count > 0) {
        status =
            ddp_err_set(err, DDP_E_STATE, "wrong without a change: %s", findings.items[0].text);
    }
    harness_findings_fini(&findings);
    DDP_TRY(status);
    for (uint32_t r = 0; r < set->size; r++) {
        for (size_t s = 0; s < set->member[r]->step_count; s++) {
            DDP_TRY(mutate_step(mutating, r, (uint32_t)s));
        }
    }
    return DDP_OK;
}

ddp_status
harness_coll_mutants(struct harness_coll_source *source, const struct harness_coll_case *test,
                     ddp_status (*visit)(void *context, const struct harness_coll_mutant *mutant,
                                         const struct harness_schedule_set *set, const char *text),
                     void *context, struct ddp_err *err)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_schedules schedules;
    struct mutating mutating = {&schedules, visit, context};
    uint32_t rank = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "no memory");
    }
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    status = harness_coll_emit(source, test, &schedules, &rank, err);
    if (status == DDP_OK) {
        status = mutate_all(&mutating, err);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}
