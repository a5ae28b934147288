/* Purpose: put a schedule together, by the rules that one that is read keeps to. */
#include <string.h>

#include "harness/sums/schedule_text.h"

const char *harness_step_name(enum harness_step_kind kind)
{
    static const char *const names[] = {
#define X(id, name, reads, writes, talks) name,
        HARNESS_STEP_TABLE(X)
#undef X
    };

    return kind < HARNESS_STEP_KIND_COUNT ? names[kind] : "?";
}

/* --- rules ------------------------------------------------------------------------------------ */

const char *harness_schedule_check_head(struct harness_schedule *schedule)
{
    if (schedule->size == 0 || schedule->rank >= schedule->size ||
        schedule->root >= schedule->size) {
        return "rank or root outside of the group";
    }
    if (schedule->size > HARNESS_SCHEDULE_MEMBERS_MAX) {
        return "too many members";
    }
    if (harness_schedule_is_of_all(schedule->kind) &&
        schedule->elem_count > SIZE_MAX / 16 / schedule->size) {
        return "the data of all members would be too large";
    }
    if (schedule->is_in_place && !harness_schedule_has_output(schedule)) {
        return "in place, where the rank has no output";
    }
    schedule->buffer_count = 2;
    schedule->buffer_elem_count[0] = harness_schedule_input_elems(schedule);
    schedule->buffer_elem_count[1] = harness_schedule_output_elems(schedule);
    if (schedule->is_in_place && schedule->buffer_elem_count[0] > schedule->buffer_elem_count[1]) {
        schedule->buffer_elem_count[1] = schedule->buffer_elem_count[0]; /* the output is a block */
    }
    schedule->buffer_dtype[0] = schedule->dtype;
    schedule->buffer_dtype[1] = schedule->dtype;
    return NULL;
}

bool harness_schedule_place_span(const struct harness_schedule *schedule, bool is_input,
                                 struct harness_span *span)
{
    size_t end;

    if (__builtin_add_overflow(span->first, span->elem_count, &end)) {
        return false;
    }
    if (schedule->is_in_place && span->buffer <= 1) {
        size_t elem_count = is_input ? harness_schedule_input_elems(schedule)
                                     : harness_schedule_output_elems(schedule);

        if (end > elem_count) {
            return false;
        }
        span->buffer = 1;
        span->first += is_input ? harness_schedule_input(schedule).first
                                : harness_schedule_output(schedule).first;
        end = span->first + span->elem_count;
    }
    return span->buffer < schedule->buffer_count &&
           end <= schedule->buffer_elem_count[span->buffer];
}

const char *harness_schedule_check_step(const struct harness_schedule_step *step)
{
    static const struct {
        bool reads, writes, talks;
    } needs[] = {
#define X(id, name, reads, writes, talks) {reads, writes, talks},
        HARNESS_STEP_TABLE(X)
#undef X
    };
    bool is_read = step->src.elem_count > 0;
    bool is_written = step->dst.elem_count > 0;

    DDP_ASSERT(step->kind < HARNESS_STEP_KIND_COUNT);
    if (is_read != needs[step->kind].reads || is_written != needs[step->kind].writes ||
        (step->peer != UINT32_MAX) != needs[step->kind].talks) {
        return "a range or a peer is missing or too many";
    }
    if (is_read && is_written && step->src.elem_count != step->dst.elem_count) {
        return "source and target differ in length";
    }
    return NULL;
}

void harness_schedule_fini(struct harness_schedule *schedule)
{
    ddp_mem_free(schedule->mem, schedule->steps);
    ddp_mem_free(schedule->mem, schedule->buffer_elem_count);
    ddp_mem_free(schedule->mem, schedule->buffer_dtype);
    schedule->steps = NULL;
    schedule->buffer_elem_count = NULL;
    schedule->buffer_dtype = NULL;
}

/* --- by steps --------------------------------------------------------------------------------- */

ddp_status harness_schedule_make(struct ddp_mem *mem, const struct harness_schedule *head,
                                 size_t step_max, struct harness_schedule *out, struct ddp_err *err)
{
    size_t buffer_count = head->buffer_count;
    const char *why;

    DDP_ASSERT(buffer_count >= 2);
    *out = *head;
    out->mem = mem;
    out->step_count = 0;
    out->step_capacity = step_max;
    out->steps = ddp_mem_array(mem, step_max, sizeof(*out->steps));
    out->buffer_elem_count = ddp_mem_array(mem, buffer_count, sizeof(size_t));
    out->buffer_dtype = ddp_mem_array(mem, buffer_count, sizeof(*out->buffer_dtype));
    if (out->steps == NULL || out->buffer_elem_count == NULL || out->buffer_dtype == NULL) {
        harness_schedule_fini(out);
        return DDP_E_NOMEM;
    }
    why = harness_schedule_check_head(out);
    if (why != NULL) {
        harness_schedule_fini(out);
        return ddp_err_set(err, DDP_E_INVALID, "%s", why);
    }
    for (size_t b = 2; b < buffer_count; b++) {
        out->buffer_elem_count[b] = head->buffer_elem_count[b];
        out->buffer_dtype[b] = head->buffer_dtype[b];
    }
    out->buffer_count = buffer_count;
    return DDP_OK;
}

static ddp_status refuse(const struct harness_schedule *schedule,
                         const struct harness_schedule_step *step, const char *why,
                         struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_INVALID, "step %zu: %s: '%s'", schedule->step_count, why,
                       harness_step_name(step->kind));
}

ddp_status harness_schedule_add_step(struct harness_schedule *schedule,
                                     const struct harness_schedule_step *step, struct ddp_err *err)
{
    struct harness_schedule_step *added = &schedule->steps[schedule->step_count];
    const char *why = step->kind < HARNESS_STEP_KIND_COUNT ? NULL : "unknown step";

    DDP_ASSERT(schedule->step_count < schedule->step_capacity);
    why = why == NULL ? harness_schedule_check_step(step) : why;
    if (why == NULL && step->peer != UINT32_MAX &&
        (step->peer >= schedule->size || step->peer == schedule->rank)) {
        why = "peer is no other member";
    }
    if (why == NULL && step->dep_count > HARNESS_STEP_DEPS_MAX) {
        why = "too many dependencies";
    }
    for (uint32_t d = 0; why == NULL && d < step->dep_count; d++) {
        why = step->dep[d] < schedule->step_count ? NULL : "dependency on a later step";
    }
    if (why != NULL) {
        return refuse(schedule, step, why, err);
    }
    *added = *step;
    if ((step->src.elem_count > 0 &&
         !harness_schedule_place_span(schedule, step->src.buffer == 0, &added->src)) ||
        (step->dst.elem_count > 0 &&
         !harness_schedule_place_span(schedule, step->dst.buffer == 0, &added->dst))) {
        return refuse(schedule, step, "range outside of its buffer", err);
    }
    schedule->step_count++;
    return DDP_OK;
}

static bool is_same_span(const struct harness_span *a, const struct harness_span *b)
{
    return a->elem_count == b->elem_count &&
           (a->elem_count == 0 || (a->buffer == b->buffer && a->first == b->first));
}

static bool is_same_step(const struct harness_schedule_step *a,
                         const struct harness_schedule_step *b)
{
    return a->kind == b->kind && a->round == b->round && a->peer == b->peer &&
           is_same_span(&a->src, &b->src) && is_same_span(&a->dst, &b->dst) &&
           a->dep_count == b->dep_count &&
           memcmp(a->dep, b->dep, a->dep_count * sizeof(a->dep[0])) == 0;
}

bool harness_schedule_is_equal(const struct harness_schedule *a, const struct harness_schedule *b)
{
    bool is_same = strcmp(a->algorithm, b->algorithm) == 0 && a->kind == b->kind &&
                   a->rank == b->rank && a->size == b->size && a->root == b->root &&
                   a->elem_count == b->elem_count && a->dtype == b->dtype &&
                   a->is_in_place == b->is_in_place && a->buffer_count == b->buffer_count &&
                   a->step_count == b->step_count;

    for (size_t i = 0; is_same && i < a->buffer_count; i++) {
        is_same = a->buffer_elem_count[i] == b->buffer_elem_count[i] &&
                  a->buffer_dtype[i] == b->buffer_dtype[i];
    }
    for (size_t i = 0; is_same && i < a->step_count; i++) {
        is_same = is_same_step(&a->steps[i], &b->steps[i]);
    }
    return is_same;
}
