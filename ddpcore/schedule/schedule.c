/* The schedule builder and its text form. Knows nothing of algorithms, transports or devices. Steps
 * of no elements are left out here, so that emitters need no special cases for small counts. */
#include "ddpcore/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

void ddp_schedule_init(struct ddp_schedule *schedule, struct ddp_mem *mem, const char *algorithm,
                       const struct ddp_schedule_params *params)
{
    DDP_ASSERT(params->rank < params->size && params->root < params->size);
    DDP_ASSERT(strlen(algorithm) < sizeof(schedule->algorithm));
    memset(schedule, 0, sizeof(*schedule));
    (void)snprintf(schedule->algorithm, sizeof(schedule->algorithm), "%s", algorithm);
    schedule->params = *params;
    schedule->mem = mem;
    schedule->status = DDP_OK;
}

void ddp_schedule_fini(struct ddp_schedule *schedule)
{
    ddp_mem_free(schedule->mem, schedule->steps);
    schedule->steps = NULL;
    schedule->step_count = 0;
    schedule->step_capacity = 0;
    schedule->scratch_count = 0;
}

static bool has_src(enum ddp_step_kind kind)
{
    return kind != DDP_STEP_RECV && kind != DDP_STEP_RECV_REDUCE;
}

static bool has_dst(enum ddp_step_kind kind)
{
    return kind != DDP_STEP_SEND;
}

static bool has_peer(enum ddp_step_kind kind)
{
    return kind == DDP_STEP_SEND || kind == DDP_STEP_RECV || kind == DDP_STEP_RECV_REDUCE;
}

/* Elements of the buffer that a range lies in. */
static size_t buffer_elem_count(const struct ddp_schedule *schedule, const struct ddp_range *range)
{
    const struct ddp_schedule_params *params = &schedule->params;
    uint32_t blocks =
        range->buffer == DDP_BUFFER_INPUT
            ? ddp_coll_input_blocks(params->kind, params->size)
            : ddp_coll_output_blocks(params->kind, params->size, params->rank == params->root);

    if (range->buffer == DDP_BUFFER_SCRATCH) {
        DDP_ASSERT(range->scratch < schedule->scratch_count);
        return schedule->scratch[range->scratch].elem_count;
    }
    return blocks * params->elem_count;
}

static bool is_inside(const struct ddp_schedule *schedule, const struct ddp_range *range)
{
    size_t elem_count = buffer_elem_count(schedule, range);

    return range->first <= elem_count && range->elem_count <= elem_count - range->first;
}

static ddp_status grow_steps(struct ddp_schedule *schedule)
{
    struct ddp_step *steps;

    if (schedule->step_count >= UINT32_MAX / 2) {
        return DDP_E_OVERFLOW;
    }
    steps = ddp_mem_grow(schedule->mem, schedule->steps, schedule->step_count,
                         &schedule->step_capacity, sizeof(*steps));
    if (steps == NULL) {
        return DDP_E_NOMEM;
    }
    schedule->steps = steps;
    return DDP_OK;
}

uint32_t ddp_schedule_add(struct ddp_schedule *schedule, const struct ddp_step *step)
{
    size_t elem_count = has_dst(step->kind) ? step->dst.elem_count : step->src.elem_count;
    struct ddp_step *added;
    uint32_t index;

    if (elem_count == 0 || schedule->status != DDP_OK) {
        return UINT32_MAX;
    }
    DDP_ASSERT(!has_dst(step->kind) || !has_src(step->kind) ||
               step->src.elem_count == step->dst.elem_count);
    DDP_ASSERT(!has_src(step->kind) || is_inside(schedule, &step->src));
    DDP_ASSERT(!has_dst(step->kind) || is_inside(schedule, &step->dst));
    if (has_peer(step->kind)) {
        DDP_ASSERT(step->peer < schedule->params.size && step->peer != schedule->params.rank);
        DDP_ASSERT(schedule->params.segment_elem_count == 0 ||
                   elem_count <= schedule->params.segment_elem_count);
    }
    DDP_ASSERT(step->dep_count <= DDP_STEP_DEPS_MAX);
    schedule->status = grow_steps(schedule);
    if (schedule->status != DDP_OK) {
        return UINT32_MAX;
    }
    index = (uint32_t)schedule->step_count++;
    added = &schedule->steps[index];
    *added = *step;
    added->dep_count = 0;
    for (uint32_t i = 0; i < step->dep_count; i++) {
        bool is_known = step->dep[i] == UINT32_MAX;

        for (uint32_t j = 0; j < added->dep_count && !is_known; j++) {
            is_known = added->dep[j] == step->dep[i];
        }
        if (!is_known) {
            DDP_ASSERT(step->dep[i] < index); /* so there is no cycle of dependencies */
            added->dep[added->dep_count++] = step->dep[i];
        }
    }
    return index;
}

uint32_t ddp_schedule_add_scratch(struct ddp_schedule *schedule, enum ddp_dtype dtype,
                                  size_t elem_count)
{
    struct ddp_scratch *scratch = &schedule->scratch[schedule->scratch_count];

    if (schedule->status == DDP_OK && schedule->scratch_count == DDP_SCHEDULE_SCRATCH_MAX) {
        schedule->status = DDP_E_OVERFLOW;
    }
    if (schedule->status != DDP_OK) {
        return 0;
    }
    *scratch = (struct ddp_scratch){dtype, elem_count};
    return schedule->scratch_count++;
}

static const char *step_name(enum ddp_step_kind kind)
{
    static const char *const names[] = {
#define X(id, name) name,
        DDP_STEP_TABLE(X)
#undef X
    };

    DDP_ASSERT(kind < DDP_STEP_KIND_COUNT);
    return names[kind];
}

/* A line: 13 numbers of up to 20 digits, and the words between them. */
enum { STEP_CHARS_MAX = 13 * 20 + 128 };

static char *put_text(char *at, const char *text)
{
    while (*text != '\0') {
        *at++ = *text++;
    }
    return at;
}

static char *put_number(char *at, const char *label, uint64_t value)
{
    char digits[20];
    size_t count = 0;

    at = put_text(at, label);
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0) {
        *at++ = digits[--count];
    }
    return at;
}

static char *put_range(char *at, const char *label, const struct ddp_range *range)
{
    at = put_text(at, label);
    if (range->buffer == DDP_BUFFER_SCRATCH) {
        at = put_number(at, "s", range->scratch);
    } else {
        at = put_text(at, range->buffer == DDP_BUFFER_INPUT ? "in" : "out");
    }
    return put_number(put_number(at, ":", range->first), "+", range->elem_count);
}

/* Without printf, and a line at a time: a ring of 1,024 ranks has two million steps. */
static void print_step(struct ddp_text *out, size_t index, const struct ddp_step *step)
{
    char line[STEP_CHARS_MAX];
    char *at = put_number(line, "", index);

    at = put_text(put_number(at, " round=", step->round), " ");
    at = put_text(at, step_name(step->kind));
    if (has_peer(step->kind)) {
        at = put_number(at, " peer=", step->peer);
    }
    if (has_dst(step->kind)) {
        at = put_range(at, " dst=", &step->dst);
    }
    if (has_src(step->kind)) {
        at = put_range(at, " src=", &step->src);
    }
    at = put_text(at, " deps=");
    for (uint32_t i = 0; i < step->dep_count; i++) {
        at = put_number(at, i == 0 ? "" : ",", step->dep[i]);
    }
    *at++ = '\n';
    DDP_ASSERT((size_t)(at - line) <= sizeof line);
    ddp_text_add_bytes(out, line, (size_t)(at - line));
}

void ddp_schedule_print(const struct ddp_schedule *schedule, struct ddp_text *out)
{
    const struct ddp_schedule_params *params = &schedule->params;

    ddp_text_add(out,
                 "schedule 1 kind=%s algorithm=%s rank=%u size=%u count=%zu dtype=%s root=%u "
                 "in_place=%d\n",
                 ddp_coll_kind_name(params->kind), schedule->algorithm, params->rank, params->size,
                 params->elem_count, ddp_dtype_name(params->dtype), params->root,
                 params->is_in_place != 0);
    for (uint32_t i = 0; i < schedule->scratch_count; i++) {
        ddp_text_add(out, "scratch %u dtype=%s count=%zu\n", i,
                     ddp_dtype_name(schedule->scratch[i].dtype), schedule->scratch[i].elem_count);
    }
    for (size_t i = 0; i < schedule->step_count; i++) {
        print_step(out, i, &schedule->steps[i]);
    }
}
