/* Purpose: take an emulation's starting state from a checkpoint.
 * Idea: a restored run of another world size cannot be emulated from step 0, because the schedules
 * of the first run are not here. The checkpoint itself was judged with the first run. Any leading
 * "module." of a key is ignored, because the restore may have changed the prefix. */
#include "harness/emulation/checkpoint_state.h"

#include <stdio.h>
#include <string.h>

static bool load_tensor(const struct harness_checkpoint *file, const char *key,
                        const struct harness_tensor *target)
{
    const struct harness_checkpoint_tensor *tensor = harness_checkpoint_find_bare(file, key);

    if (tensor == NULL || tensor->dtype != target->dtype ||
        tensor->elem_count != target->elem_count) {
        return false;
    }
    for (size_t i = 0; i < tensor->elem_count; i++) {
        harness_checkpoint_read(tensor, i,
                                (char *)target->data + i * ddp_dtype_size_bytes(tensor->dtype));
    }
    return true;
}

static bool load_param(struct harness_emulation *e, const struct harness_checkpoint *file, size_t p)
{
    const struct harness_state *state = &e->camps[0]->state;
    const char *name = e->params.items[p].name;
    struct harness_tensor target = harness_layout_at(&e->params, state->param, 0, p);
    const struct harness_checkpoint_tensor *steps;
    char key[512];

    if (!load_tensor(file, name, &target)) {
        return false;
    }
    for (uint32_t s = 0; s < e->slot_count; s++) {
        target = harness_layout_at(&e->params, state->slot[s], 0, p);
        (void)snprintf(key, sizeof(key), "optim.%s.%s", e->slot_name[s], name);
        if (!load_tensor(file, key, &target)) {
            return false;
        }
    }
    (void)snprintf(key, sizeof(key), "optim.step.%s", name);
    steps = harness_checkpoint_find_bare(file, key);
    if (steps == NULL || steps->dtype != DDP_DTYPE_I64 || steps->elem_count != 1) {
        return false;
    }
    harness_checkpoint_read(steps, 0, &state->taken[p]);
    return true;
}

bool harness_checkpoint_last_save(const struct harness_emulation *e, uint32_t *out_steps_done,
                                  struct harness_rank_set *out_writers)
{
    bool is_saved = false;

    *out_writers = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_CHECKPOINT_SAVED, &count);

        if (count > 0) {
            harness_rank_set_add(out_writers, r);
            *out_steps_done = (uint32_t)list[count - 1]->entry.arg[0];
            is_saved = true;
        }
    }
    return is_saved;
}

bool harness_checkpoint_given_path(const struct harness_emulation *e, char *path, size_t size_bytes)
{
    return e->input->run_dir != NULL && (size_t)snprintf(path, size_bytes, "%s/given.safetensors",
                                                         e->input->run_dir) < size_bytes;
}

ddp_status harness_checkpoint_load_state(struct harness_emulation *e, bool *out_is_loaded,
                                         struct ddp_err *err)
{
    struct harness_checkpoint file;
    char path[4096];

    *out_is_loaded = false;
    if (!harness_checkpoint_given_path(e, path, sizeof(path))) {
        return DDP_OK;
    }
    DDP_TRY(harness_checkpoint_open(e->mem, harness_emulation_files(e->input), path, &file, err));
    *out_is_loaded = file.is_found && file.damage == HARNESS_VERDICT_NONE;
    for (size_t p = 0; *out_is_loaded && p < e->params.count; p++) {
        *out_is_loaded = load_param(e, &file, p);
    }
    for (size_t b = 0; *out_is_loaded && b < e->buffers.count; b++) {
        const struct harness_tensor target = harness_layout_at(&e->buffers, e->buffer, 0, b);

        *out_is_loaded = load_tensor(&file, e->buffers.items[b].name, &target);
    }
    e->steps_done = e->input->restored_step;
    harness_checkpoint_close(&file);
    return DDP_OK;
}
