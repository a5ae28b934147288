/* Purpose: storage that lives as long as the emulation, copies of states in it, and whose tensors
 * have the shapes that are stored. */
#include <string.h>

#include "harness/emulation/internal.h"

void *harness_emulation_alloc(struct harness_emulation *e, size_t elem_count, size_t elem_bytes)
{
    void **blocks =
        ddp_mem_grow(e->mem, e->blocks, e->block_count, &e->block_capacity, sizeof(*blocks));
    void *block = blocks == NULL ? NULL : ddp_mem_array(e->mem, elem_count, elem_bytes);

    if (blocks != NULL) {
        e->blocks = blocks;
    }
    if (block == NULL) {
        e->is_out_of_memory = true;
        return NULL;
    }
    e->blocks[e->block_count++] = block;
    return block;
}

void harness_state_create(struct harness_emulation *e, struct harness_state *out)
{
    *out = (struct harness_state){0};
    out->param = harness_emulation_alloc(e, 1, e->params.size_bytes);
    out->taken = harness_emulation_alloc(e, e->params.count, sizeof(*out->taken));
    for (uint32_t s = 0; s < e->slot_count; s++) {
        out->slot[s] = harness_emulation_alloc(e, 1, e->params.size_bytes);
    }
}

void harness_emulation_take_over(struct harness_emulation *e, const struct harness_handover *start)
{
    const struct harness_state *state = &e->camps[0]->state;

    DDP_ASSERT(start->is_taken && start->steps_done == e->input->restored_step);
    memcpy(state->param, start->param, e->params.size_bytes);
    memcpy(state->taken, start->taken, e->params.count * sizeof(*state->taken));
    for (uint32_t s = 0; s < e->slot_count; s++) {
        memcpy(state->slot[s], start->slot[s], e->params.size_bytes);
    }
    memcpy(e->buffer, start->buffer, e->buffers.size_bytes);
    e->steps_done = start->steps_done;
}

void harness_emulation_share_buffers(struct harness_emulation *e)
{
    for (uint32_t r = 1; r < e->world; r++) {
        memcpy((char *)e->buffer + r * e->buffers.size_bytes, e->buffer, e->buffers.size_bytes);
    }
}

void harness_state_copy(const struct harness_emulation *e, struct harness_state *target,
                        const struct harness_state *source)
{
    memcpy(target->param, source->param, e->params.size_bytes);
    memcpy(target->taken, source->taken, e->params.count * sizeof(*target->taken));
    for (uint32_t s = 0; s < e->slot_count; s++) {
        memcpy(target->slot[s], source->slot[s], e->params.size_bytes);
    }
}

bool harness_emulation_has_shape(const struct harness_emulation *e, uint64_t param,
                                 const uint64_t *dims)
{
    const struct ddp_param *planned = param < e->params.count ? &e->input->params[param] : NULL;

    for (uint32_t k = 0; planned != NULL && k < DDP_NDIM_MAX; k++) {
        if (dims[k] != (k < planned->ndim ? planned->shape[k] : 0)) {
            return false;
        }
    }
    return planned != NULL;
}

bool harness_emulation_has_model(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PARAM_SHAPE, &count);

    DDP_ASSERT(rank < e->world);
    for (size_t i = 0; i < count; i++) {
        if (!harness_emulation_has_shape(e, list[i]->entry.arg[0], &list[i]->entry.arg[1])) {
            return false;
        }
    }
    return true;
}
