/* Compiling schedules, and the cache of compiled ones. Makes the executor's inner loop a walk over
 * ready steps: every "may this run now" question is answered here by counting. */
#include "ddpcore/collective/program.h"

#include <string.h>

#define NONE                  UINT32_MAX
#define DEFAULT_SEGMENT_BYTES ((size_t)1 << 20)

static bool is_send(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_SEND;
}

static bool is_recv(const struct ddp_step *step)
{
    return step->kind == DDP_STEP_RECV || step->kind == DDP_STEP_RECV_REDUCE;
}

static struct ddp_program_operand operand_of(const struct ddp_schedule *schedule,
                                             const struct ddp_range *range)
{
    struct ddp_program_operand operand;
    size_t elem_bytes;

    operand.dtype = schedule->params.dtype;
    operand.buffer = range->buffer == DDP_BUFFER_OUTPUT ? 1 : 0;
    if (range->buffer == DDP_BUFFER_SCRATCH) {
        operand.buffer = 2 + range->scratch;
        operand.dtype = schedule->scratch[range->scratch].dtype;
    }
    elem_bytes = ddp_dtype_size_bytes(operand.dtype);
    operand.offset_bytes = range->first * elem_bytes;
    operand.size_bytes = range->elem_count * elem_bytes;
    return operand;
}

static void compile_steps(struct ddp_program *program, const struct ddp_schedule *schedule)
{
    for (uint32_t i = 0; i < program->step_count; i++) {
        const struct ddp_step *step = &schedule->steps[i];
        struct ddp_program_step *out = &program->steps[i];

        out->kind = step->kind;
        out->peer = step->peer;
        out->factor = step->factor;
        out->elem_count = is_send(step) ? step->src.elem_count : step->dst.elem_count;
        out->src = operand_of(schedule, &step->src);
        out->dst = operand_of(schedule, &step->dst);
        out->missing = step->dep_count;
        out->next = NONE;
        for (uint32_t j = 0; j < step->dep_count; j++) {
            program->steps[step->dep[j]].successor_count++;
        }
    }
}

/* Successor lists: counted above, laid end to end here. */
static void link_successors(struct ddp_program *program, const struct ddp_schedule *schedule)
{
    uint32_t total = 0;

    for (uint32_t i = 0; i < program->step_count; i++) {
        program->steps[i].successors = total;
        total += program->steps[i].successor_count;
        program->steps[i].successor_count = 0;
    }
    for (uint32_t i = 0; i < program->step_count; i++) {
        for (uint32_t j = 0; j < schedule->steps[i].dep_count; j++) {
            struct ddp_program_step *before = &program->steps[schedule->steps[i].dep[j]];

            program->successor[before->successors + before->successor_count++] = i;
        }
    }
}

/* last: uint32_t[2 * size], scratch for the last step of each stream. */
static void link_streams(struct ddp_program *program, const struct ddp_schedule *schedule,
                         uint32_t *last)
{
    memset(last, 0xff, 2 * (size_t)schedule->params.size * sizeof(*last));
    for (uint32_t i = 0; i < program->step_count; i++) {
        const struct ddp_step *step = &schedule->steps[i];
        uint32_t *stream;

        if (!is_send(step) && !is_recv(step)) {
            continue;
        }
        stream = &last[2 * (size_t)step->peer + (is_send(step) ? 0 : 1)];
        if (*stream != NONE) {
            program->steps[*stream].next = i;
            program->steps[i].missing++;
        }
        *stream = i;
    }
}

static ddp_status compile(struct ddp_mem *mem, struct ddp_program *program,
                          const struct ddp_schedule *schedule)
{
    size_t step_count = schedule->step_count;
    uint32_t *last = ddp_mem_array(mem, 2 * (size_t)schedule->params.size, sizeof(*last));

    program->step_count = (uint32_t)step_count;
    program->steps = ddp_mem_array(mem, step_count, sizeof(*program->steps));
    program->successor =
        ddp_mem_array(mem, step_count * DDP_STEP_DEPS_MAX, sizeof(*program->successor));
    program->missing = ddp_mem_array(mem, step_count, sizeof(*program->missing));
    program->active = ddp_mem_array(mem, step_count, sizeof(*program->active));
    program->ticket = ddp_mem_array(mem, step_count, sizeof(*program->ticket));
    program->is_posted = ddp_mem_array(mem, step_count, sizeof(*program->is_posted));
    program->buffer = ddp_mem_array(mem, 2 + schedule->scratch_count, sizeof(*program->buffer));
    program->scratch_bytes =
        ddp_mem_array(mem, schedule->scratch_count, sizeof(*program->scratch_bytes));
    if (last == NULL || program->steps == NULL || program->successor == NULL ||
        program->missing == NULL || program->active == NULL || program->ticket == NULL ||
        program->is_posted == NULL || program->buffer == NULL || program->scratch_bytes == NULL) {
        ddp_mem_free(mem, last);
        return DDP_E_NOMEM;
    }
    if (schedule->scratch_count > DDP_PROGRAM_SCRATCH_MAX) {
        ddp_mem_free(mem, last);
        return DDP_E_OVERFLOW;
    }
    program->scratch_count = (uint32_t)schedule->scratch_count;
    compile_steps(program, schedule);
    link_successors(program, schedule);
    link_streams(program, schedule, last);
    ddp_mem_free(mem, last);
    for (uint32_t i = 0; i < program->scratch_count; i++) {
        program->scratch_bytes[i] =
            schedule->scratch[i].elem_count * ddp_dtype_size_bytes(schedule->scratch[i].dtype);
    }
    return DDP_OK;
}

static size_t segment_elem_count(const struct ddp_program_source *source,
                                 const struct ddp_program_key *key)
{
    size_t segment_bytes =
        source->segment_bytes == 0 ? DEFAULT_SEGMENT_BYTES : source->segment_bytes;
    size_t elem_bytes = ddp_dtype_size_bytes(key->dtype);

    return segment_bytes < elem_bytes ? 1 : segment_bytes / elem_bytes;
}

ddp_status ddp_program_create(const struct ddp_program_source *source,
                              const struct ddp_program_key *key, struct ddp_program **out)
{
    const struct ddp_algorithm *algorithm = source->algorithm[key->kind];
    struct ddp_schedule_params params = {
        .kind = key->kind,
        .dtype = key->dtype,
        .rank = source->transport->member,
        .size = source->transport->member_count,
        .elem_count = key->elem_count,
        .root = key->root,
        .segment_elem_count = segment_elem_count(source, key),
        .channels = 1,
        .is_in_place = key->is_in_place,
    };
    struct ddp_schedule schedule;
    struct ddp_program *program = ddp_mem_array(source->mem, 1, sizeof(*program));
    ddp_status status;

    if (program == NULL) {
        return DDP_E_NOMEM;
    }
    program->key = *key;
    ddp_schedule_init(&schedule, source->mem, algorithm->name, &params);
    algorithm->emit(&schedule);
    status = schedule.status;
    if (status == DDP_OK) {
        status = compile(source->mem, program, &schedule);
    }
    if (status == DDP_OK && source->observer != NULL) {
        source->observer->used(source->observer, &schedule);
    }
    ddp_schedule_fini(&schedule);
    if (status != DDP_OK) {
        ddp_program_destroy(source->mem, program);
        return status;
    }
    *out = program;
    return DDP_OK;
}

void ddp_program_destroy(struct ddp_mem *mem, struct ddp_program *program)
{
    ddp_mem_free(mem, program->steps);
    ddp_mem_free(mem, program->successor);
    ddp_mem_free(mem, program->missing);
    ddp_mem_free(mem, program->active);
    ddp_mem_free(mem, program->ticket);
    ddp_mem_free(mem, program->is_posted);
    ddp_mem_free(mem, program->buffer);
    ddp_mem_free(mem, program->scratch_bytes);
    ddp_mem_free(mem, program);
}

static void release(struct ddp_program *program, uint32_t step)
{
    if (--program->missing[step] == 0) {
        program->active[program->active_count++] = step;
    }
}

void ddp_program_release_stream(struct ddp_program *program, uint32_t step)
{
    if (program->steps[step].next != NONE) {
        release(program, program->steps[step].next);
    }
}

void ddp_program_release_successors(struct ddp_program *program, uint32_t step)
{
    const struct ddp_program_step *done = &program->steps[step];

    for (uint32_t i = 0; i < done->successor_count; i++) {
        release(program, program->successor[done->successors + i]);
    }
}
