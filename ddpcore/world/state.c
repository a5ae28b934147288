/* Checkpoints of a table of tensors. */
#include "ddpcore/world/state.h"

#include <inttypes.h>
#include <stdio.h>

#include "ddpcore/base/text.h"
#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/world/state_hook.h"

#define STEPS_KEY "steps_done"
#define EPOCH_KEY "sampler_epoch"
#define USED_KEY  "sampler_used"

static void shape_of(const struct ddp_param *tensor, uint64_t *shape)
{
    for (uint32_t d = 0; d < tensor->ndim; d++) {
        shape[d] = tensor->shape[d];
    }
}

static size_t bytes_of(const struct ddp_world_state *state)
{
    size_t size_bytes = 0;

    for (size_t i = 0; i < state->tensor_count; i++) {
        size_bytes += ddp_param_size_bytes(&state->tensors[i]);
    }
    return size_bytes;
}

static ddp_status set_number(struct ddp_state_dict *dict, const char *key, uint64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRIu64, value);
    return ddp_state_dict_set_meta(dict, key, text);
}

/* block: memory for all tensors. */
static ddp_status fill(struct ddp_transfer *transfer, const struct ddp_world_state *state,
                       char *block, struct ddp_state_dict *dict)
{
    uint64_t shape[DDP_NDIM_MAX];

    DDP_TRY(set_number(dict, STEPS_KEY, state->steps_done));
    DDP_TRY(set_number(dict, EPOCH_KEY, state->samples.epoch));
    DDP_TRY(set_number(dict, USED_KEY, state->samples.used));
    for (size_t i = 0; i < state->tensor_count; i++) {
        const struct ddp_param *tensor = &state->tensors[i];

        shape_of(tensor, shape);
        DDP_TRY(ddp_transfer_to_host(transfer, block, tensor->data, ddp_param_size_bytes(tensor)));
        DDP_TRY(ddp_state_dict_add(dict, tensor->name, tensor->dtype, tensor->ndim, shape, block));
        block += ddp_param_size_bytes(tensor);
    }
    return DDP_OK;
}

/* The first member of the model's group, as rank 0 may not be in it. */
static bool is_writer(const struct ddp_world *world, const struct ddp_world_state *state)
{
    return (state->ddp != NULL ? ddp_member(state->ddp) : world->where.rank) == 0;
}

ddp_status ddp_world_save(struct ddp_world *world, const char *path,
                          const struct ddp_world_state *state, struct ddp_err *err)
{
    struct ddp_mem *mem = world->env.mem;
    struct ddp_state_dict dict;
    const size_t size_bytes = bytes_of(state);
    const size_t hook_bytes = ddp_world_hook_bytes(state->ddp);
    char *block = NULL;
    ddp_status status;

    if (!is_writer(world, state)) {
        return ddp_world_hook_fill(world, state->ddp, NULL, NULL);
    }
    ddp_state_dict_init(&dict, mem);
    block = ddp_mem_array(mem, size_bytes + hook_bytes, 1);
    if (block == NULL) {
        /* The others wait for what is gathered. */
        status = ddp_world_hook_fill(world, state->ddp, NULL, NULL);
        status = status != DDP_OK ? status : DDP_E_NOMEM;
        (void)ddp_err_set(err, status, "%s: no memory for %zu bytes", path,
                          size_bytes + hook_bytes);
        goto out;
    }
    status = ddp_world_hook_fill(world, state->ddp, block + size_bytes, &dict);
    if (status == DDP_OK) {
        status = fill(&world->transfer, state, block, &dict);
    }
    if (status == DDP_OK) {
        status = ddp_safetensors_save(&world->env, path, &dict, err);
    }
out:
    ddp_state_dict_fini(&dict);
    ddp_mem_free(mem, block);
    return status;
}

/* Everything is compared before anything is written. */
static ddp_status check_entries(const struct ddp_state_dict *dict,
                                const struct ddp_world_state *state, struct ddp_mem *mem,
                                struct ddp_err *err)
{
    uint64_t shape[DDP_NDIM_MAX];

    for (size_t i = 0; i < state->tensor_count; i++) {
        const struct ddp_param *tensor = &state->tensors[i];

        shape_of(tensor, shape);
        DDP_TRY(ddp_tensor_entry_check(ddp_state_dict_find(dict, tensor->name), tensor->dtype,
                                       tensor->ndim, shape, mem, err));
    }
    return DDP_OK;
}

static ddp_status read_number(const struct ddp_state_dict *dict, const char *key, const char *what,
                              uint64_t *out, struct ddp_err *err)
{
    const char *text = ddp_state_dict_meta(dict, key);

    if (text == NULL) {
        return ddp_err_set(err, DDP_E_CORRUPT, "it does not say how many %s", what);
    }
    if (text[0] < '0' || text[0] > '9') {
        return ddp_err_set(err, DDP_E_CORRUPT, "it does not say how many %s, but \"%.40s\"", what,
                           text);
    }
    return ddp_text_parse_u64(text, out) == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, DDP_E_CORRUPT, "\"%.40s\" is no number of %s", text, what);
}

/* A file of another program may say nothing of samples. */
static ddp_status read_numbers(const struct ddp_state_dict *dict, struct ddp_world_state *out,
                               struct ddp_err *err)
{
    uint64_t used = 0;

    DDP_TRY(read_number(dict, STEPS_KEY, "steps are done", &out->steps_done, err));
    if (ddp_state_dict_meta(dict, EPOCH_KEY) == NULL &&
        ddp_state_dict_meta(dict, USED_KEY) == NULL) {
        return DDP_OK;
    }
    DDP_TRY(read_number(dict, EPOCH_KEY, "epochs are done", &out->samples.epoch, err));
    DDP_TRY(read_number(dict, USED_KEY, "samples were used", &used, err));
    out->samples.used = (size_t)used;
    return DDP_OK;
}

/* The names of the model's tensors, and behind them those of its hook's. hook_names: [the latter].
 */
static ddp_status resolve_all(struct ddp_state_dict *dict, const struct ddp_world_state *state,
                              struct ddp_text *hook_names, struct ddp_mem *mem, struct ddp_err *err)
{
    const size_t hook_count = ddp_world_hook_count(state->ddp);
    const size_t count = state->tensor_count + hook_count;
    const char **names = ddp_mem_array(mem, count, sizeof(*names));
    ddp_status status = names == NULL ? DDP_E_NOMEM : DDP_OK;

    for (size_t i = 0; status == DDP_OK && i < state->tensor_count; i++) {
        names[i] = state->tensors[i].name;
    }
    for (size_t i = 0; status == DDP_OK && i < hook_count; i++) {
        status = ddp_world_hook_name(state->ddp, i, mem, &hook_names[i]);
        names[state->tensor_count + i] = ddp_text_str(&hook_names[i]);
    }
    if (status == DDP_OK) {
        status = ddp_state_dict_resolve(dict, names, count, DDP_PREFIX_POLICY_AUTO, err);
    }
    ddp_mem_free(mem, names);
    return status;
}

static ddp_status resolve(struct ddp_state_dict *dict, const struct ddp_world_state *state,
                          struct ddp_mem *mem, struct ddp_err *err)
{
    const size_t hook_count = ddp_world_hook_count(state->ddp);
    struct ddp_text *hook_names = ddp_mem_array(mem, hook_count + 1, sizeof(*hook_names));
    ddp_status status = DDP_E_NOMEM;

    if (hook_names != NULL) {
        status = resolve_all(dict, state, hook_names, mem, err);
    }
    for (size_t i = 0; hook_names != NULL && i < hook_count; i++) {
        ddp_text_fini(&hook_names[i]);
    }
    ddp_mem_free(mem, hook_names);
    return status;
}

ddp_status ddp_world_load(struct ddp_world *world, const char *path, struct ddp_world_state *state,
                          struct ddp_err *err)
{
    struct ddp_mem *mem = world->env.mem;
    struct ddp_state_dict dict;
    struct ddp_world_state numbers = {0};
    ddp_status status;

    ddp_state_dict_init(&dict, mem);
    status = ddp_safetensors_load(world->env.files, path, &dict, err);
    if (status != DDP_OK) {
        goto out;
    }
    status = resolve(&dict, state, mem, err);
    if (status == DDP_OK) {
        status = check_entries(&dict, state, mem, err);
    }
    if (status == DDP_OK) {
        status = ddp_world_hook_check(state->ddp, &dict, err);
    }
    if (status == DDP_OK) {
        status = read_numbers(&dict, &numbers, err);
    }
    if (status != DDP_OK) {
        (void)ddp_err_wrap(err, status, "%s", path);
        goto out;
    }
    for (size_t i = 0; i < state->tensor_count && status == DDP_OK; i++) {
        const struct ddp_tensor_entry *entry = ddp_state_dict_find(&dict, state->tensors[i].name);

        status = ddp_transfer_to_device(&world->transfer, state->tensors[i].data, entry->data,
                                        entry->size_bytes);
    }
    if (status == DDP_OK) {
        status = ddp_world_hook_take(world, state->ddp, &dict);
    }
    if (status == DDP_OK) {
        state->steps_done = numbers.steps_done;
        state->samples = numbers.samples;
    }
out:
    ddp_state_dict_fini(&dict);
    return status;
}
