/* Compiling schedules. Each step has a counter of the steps it still waits for, so that the
 * executor's inner loop only visits steps that may run. */
#include "ddpcore/collective/compiled.h"

#include <string.h>

static bool is_send(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_SEND;
}

static bool is_recv(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_RECV || step->kind == DDP_STEP_RECV_REDUCE;
}

static struct ddp_compiled_operand operand_of(const struct ddp_schedule *schedule,
                                              const struct ddp_range *range)
{
    struct ddp_compiled_operand operand;
    size_t elem_bytes;

    operand.dtype = schedule->params.dtype;
    operand.buffer = range->buffer == DDP_BUFFER_OUTPUT ? 1 : 0;
    if (range->buffer == DDP_BUFFER_SCRATCH) {
        DDP_ASSERT(range->scratch < schedule->scratch_count);
        operand.buffer = 2 + range->scratch;
        operand.dtype = schedule->scratch[range->scratch].dtype;
    }
    elem_bytes = ddp_dtype_size_bytes(operand.dtype);
    operand.offset_bytes = range->first * elem_bytes;
    operand.size_bytes = range->elem_count * elem_bytes;
    return operand;
}

/* Steps of a stream, the sends to a peer or the receives from it, run in order. last: the last step
 * of each stream so far. */
static void link_stream(struct ddp_compiled *compiled, const struct ddp_step *step, uint32_t index,
                        uint32_t *last)
{
    uint32_t *stream = &last[2 * (size_t)step->peer + (is_send(step) ? 0 : 1)];

    if (*stream != DDP_COMPILED_NONE) {
        compiled->steps[*stream].next = index;
        compiled->first_state[index].missing++;
    }
    *stream = index;
}

/* last: uint32_t[2 * size], scratch for link_stream. */
static void compile_steps(struct ddp_compiled *compiled, const struct ddp_schedule *schedule,
                          uint32_t *last)
{
    memset(last, 0xff, 2 * (size_t)schedule->params.size * sizeof(*last));
    for (uint32_t i = 0; i < compiled->step_count; i++) {
        const struct ddp_step *step = &schedule->steps[i];
        struct ddp_compiled_step *out = &compiled->steps[i];

        out->kind = step->kind;
        out->peer = step->peer;
        out->elem_count = is_send(step) ? step->src.elem_count : step->dst.elem_count;
        out->src = operand_of(schedule, &step->src);
        out->dst = operand_of(schedule, &step->dst);
        out->next = DDP_COMPILED_NONE;
        compiled->first_state[i].missing = step->dep_count;
        DDP_ASSERT(step->dep_count <= DDP_STEP_DEPS_MAX);
        for (uint32_t j = 0; j < step->dep_count; j++) {
            DDP_ASSERT(step->dep[j] < i); /* so there is no cycle */
            compiled->steps[step->dep[j]].successor_count++;
        }
        if (is_send(step) || is_recv(step)) {
            DDP_ASSERT(step->peer < schedule->params.size && step->peer != schedule->params.rank);
            link_stream(compiled, step, i, last);
        }
        if (compiled->first_state[i].missing == 0) {
            compiled->first_active[compiled->first_active_count++] = i;
        }
    }
    DDP_ASSERT(compiled->first_active_count > 0 || compiled->step_count == 0);
}

/* The lists of successors lie one after the other; compile_steps counted their lengths. */
static void link_successors(struct ddp_compiled *compiled, const struct ddp_schedule *schedule)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < compiled->step_count; i++) {
        compiled->steps[i].successors = total;
        total += compiled->steps[i].successor_count;
        compiled->steps[i].successor_count = 0;
    }
    for (uint32_t after = 0; after < compiled->step_count; after++) {
        for (uint32_t j = 0; j < schedule->steps[after].dep_count; j++) {
            struct ddp_compiled_step *before = &compiled->steps[schedule->steps[after].dep[j]];

            compiled->successor[before->successors + before->successor_count++] = after;
        }
    }
}

static ddp_status compile(struct ddp_mem *mem, struct ddp_compiled *compiled,
                          const struct ddp_schedule *schedule)
{
    size_t step_count = schedule->step_count;
    uint32_t *last = ddp_mem_array(mem, 2 * (size_t)schedule->params.size, sizeof(*last));

    compiled->step_count = (uint32_t)step_count;
    compiled->steps = ddp_mem_array(mem, step_count, sizeof(*compiled->steps));
    compiled->successor =
        ddp_mem_array(mem, step_count * DDP_STEP_DEPS_MAX, sizeof(*compiled->successor));
    compiled->first_state = ddp_mem_array(mem, step_count, sizeof(*compiled->first_state));
    compiled->first_active = ddp_mem_array(mem, step_count, sizeof(*compiled->first_active));
    compiled->state = ddp_mem_array(mem, step_count, sizeof(*compiled->state));
    compiled->active = ddp_mem_array(mem, step_count, sizeof(*compiled->active));
    compiled->buffer = ddp_mem_array(mem, 2 + schedule->scratch_count, sizeof(*compiled->buffer));
    compiled->scratch_bytes =
        ddp_mem_array(mem, schedule->scratch_count, sizeof(*compiled->scratch_bytes));
    if (last == NULL || compiled->steps == NULL || compiled->successor == NULL ||
        compiled->first_state == NULL || compiled->first_active == NULL ||
        compiled->state == NULL || compiled->active == NULL || compiled->buffer == NULL ||
        compiled->scratch_bytes == NULL) {
        ddp_mem_free(mem, last);
        return DDP_E_NOMEM;
    }
    compiled->scratch_count = schedule->scratch_count;
    compile_steps(compiled, schedule, last);
    link_successors(compiled, schedule);
    ddp_mem_free(mem, last);
    for (uint32_t i = 0; i < compiled->scratch_count; i++) {
        compiled->scratch_bytes[i] =
            schedule->scratch[i].elem_count * ddp_dtype_size_bytes(schedule->scratch[i].dtype);
    }
    return DDP_OK;
}

ddp_status ddp_compiled_create(struct ddp_mem *mem, const struct ddp_schedule *schedule,
                               struct ddp_compiled **out)
{
    struct ddp_compiled *compiled = ddp_mem_array(mem, 1, sizeof(*compiled));
    ddp_status status;

    if (compiled == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_ASSERT(schedule->status == DDP_OK);
    status = compile(mem, compiled, schedule);
    if (status != DDP_OK) {
        ddp_compiled_destroy(mem, compiled);
        return status;
    }
    *out = compiled;
    return DDP_OK;
}

void ddp_compiled_destroy(struct ddp_mem *mem, struct ddp_compiled *compiled)
{
    ddp_mem_free(mem, compiled->steps);
    ddp_mem_free(mem, compiled->successor);
    ddp_mem_free(mem, compiled->first_state);
    ddp_mem_free(mem, compiled->first_active);
    ddp_mem_free(mem, compiled->state);
    ddp_mem_free(mem, compiled->active);
    ddp_mem_free(mem, compiled->buffer);
    ddp_mem_free(mem, compiled->scratch_bytes);
    ddp_mem_free(mem, compiled);
}

static void free_scratch(struct ddp_compiled_scratch *scratch, uint32_t index)
{
    if (scratch->buffer[index].is_lendable) {
        scratch->transport->ops->free(scratch->transport, scratch->buffer[index].data);
    } else {
        ddp_mem_free(scratch->mem, scratch->buffer[index].data);
    }
    scratch->buffer[index].data = NULL;
    scratch->buffer[index].size_bytes = 0;
    scratch->buffer[index].is_lendable = false;
}

void ddp_compiled_scratch_fini(struct ddp_compiled_scratch *scratch)
{
    for (uint32_t i = 0; i < DDP_SCHEDULE_SCRATCH_MAX; i++) {
        free_scratch(scratch, i);
    }
}

static ddp_status grow_scratch(struct ddp_compiled_scratch *scratch, uint32_t index,
                               size_t size_bytes)
{
    struct ddp_transport *transport = scratch->transport;
    void *data;

    DDP_ASSERT(index < DDP_SCHEDULE_SCRATCH_MAX);
    if (size_bytes <= scratch->buffer[index].size_bytes) {
        return DDP_OK;
    }
    free_scratch(scratch, index);
    data = transport->ops->alloc(transport, size_bytes);
    scratch->buffer[index].is_lendable = data != NULL;
    if (data == NULL) {
        data = scratch->mem->alloc(scratch->mem, size_bytes);
    }
    if (data == NULL) {
        return DDP_E_NOMEM;
    }
    scratch->buffer[index].data = data;
    scratch->buffer[index].size_bytes = size_bytes;
    return DDP_OK;
}

ddp_status ddp_compiled_start(struct ddp_compiled *compiled, struct ddp_compiled_scratch *scratch,
                              const void *input, void *output)
{
    DDP_ASSERT(compiled->cached.users > 0);
    /* No step writes to the input; one table holds all buffers, so it cannot be const here. */
    compiled->buffer[0] = (void *)(uintptr_t)input;
    compiled->buffer[1] = output;
    for (uint32_t i = 0; i < compiled->scratch_count; i++) {
        DDP_TRY(grow_scratch(scratch, i, compiled->scratch_bytes[i]));
        compiled->buffer[2 + i] = scratch->buffer[i].data;
    }
    memcpy(compiled->state, compiled->first_state, compiled->step_count * sizeof(*compiled->state));
    memcpy(compiled->active, compiled->first_active,
           compiled->first_active_count * sizeof(*compiled->active));
    compiled->active_count = compiled->first_active_count;
    return DDP_OK;
}
