/* Checkpoints of a whole trainer: parameters and buffers under the model's names (with "module." if
 * saved through the wrapper), optimizer state as "optim.<slot>.<param>" and "optim.step.<param>",
 * and how far the run had come as metadata. Files go through env->files. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "harness/plan/names.h"
#include "harness/rank/session.h"

#define MODULE_PREFIX "module."
#define OPTIM_PREFIX  "optim."
#define STEP_SLOT     "step"
#define STATE_DTYPE   DDP_DTYPE_F32 /* of the reference's optimizer state */

static ddp_status add_tensor(struct ddp_state_dict *dict, const char *prefix, const char *slot,
                             const struct ddp_param *param, enum ddp_dtype dtype, const void *data)
{
    struct ddp_text name;
    uint64_t shape[DDP_NDIM_MAX];
    ddp_status status = DDP_E_NOMEM;

    for (uint32_t i = 0; i < param->ndim; i++) {
        shape[i] = param->shape[i];
    }
    ddp_text_init(&name, dict->mem);
    ddp_text_add(&name, "%s%s%s%s", prefix, slot, slot[0] == '\0' ? "" : ".", param->name);
    if (!name.is_failed) {
        status = ddp_state_dict_add(dict, ddp_text_str(&name), dtype, param->ndim, shape, data);
    }
    ddp_text_fini(&name);
    return status;
}

static ddp_status add_step_count(struct ddp_state_dict *dict, const struct ddp_param *param,
                                 const uint64_t *count)
{
    const uint64_t shape[1] = {1};
    struct ddp_text name;
    ddp_status status = DDP_E_NOMEM;

    ddp_text_init(&name, dict->mem);
    ddp_text_add(&name, OPTIM_PREFIX STEP_SLOT ".%s", param->name);
    if (!name.is_failed) {
        status = ddp_state_dict_add(dict, ddp_text_str(&name), DDP_DTYPE_I64, 1, shape, count);
    }
    ddp_text_fini(&name);
    return status;
}

static ddp_status set_meta_u64(struct ddp_state_dict *dict, const char *key, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return ddp_state_dict_set_meta(dict, key, text);
}

/* Copies of a device's tensors, one after the other, for as long as a file is being written. */
struct stage {
    struct harness_session *session;
    unsigned char *block; /* NULL: the device's memory is the host's */
    size_t size_bytes, used_bytes;
};

/* So that elements of every type are aligned. */
static size_t padded_bytes(size_t size_bytes)
{
    return (size_bytes + 7) / 8 * 8;
}

static size_t state_bytes(const struct ddp_param *param)
{
    return param->elem_count * ddp_dtype_size_bytes(STATE_DTYPE);
}

static ddp_status stage_init(struct stage *stage, struct harness_session *session)
{
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);

    *stage = (struct stage){.session = session};
    if (session->device->ops->is_host_memory) {
        return DDP_OK;
    }
    for (size_t i = 0; i < session->tensor_count; i++) {
        stage->size_bytes += padded_bytes(ddp_param_size_bytes(&session->tensors[i]));
    }
    for (size_t i = 0; i < session->param_count; i++) {
        stage->size_bytes += slot_count * padded_bytes(state_bytes(&session->params[i]));
    }
    stage->block = ddp_mem_array(session->env->mem, stage->size_bytes, 1);
    return stage->block != NULL ? DDP_OK : DDP_E_NOMEM;
}

/* *data: where the host can read it until the stage ends. */
static ddp_status stage_take(struct stage *stage, size_t size_bytes, const void **data)
{
    unsigned char *place;

    if (stage->block == NULL || size_bytes == 0) {
        return DDP_OK;
    }
    place = stage->block + stage->used_bytes;
    stage->used_bytes += padded_bytes(size_bytes);
    DDP_ASSERT(stage->used_bytes <= stage->size_bytes);
    DDP_TRY(ddp_transfer_to_host(&stage->session->transfer, place, *data, size_bytes));
    *data = place;
    return DDP_OK;
}

static ddp_status build_dict(struct harness_session *session, struct stage *stage,
                             const struct harness_hook_gathered *gathered,
                             struct ddp_state_dict *dict)
{
    const struct harness_job *job = &session->plan->job;
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);

    for (size_t i = 0; i < session->tensor_count; i++) {
        const struct ddp_param *tensor = &session->tensors[i];
        const void *data = tensor->data;

        DDP_TRY(stage_take(stage, ddp_param_size_bytes(tensor), &data));
        DDP_TRY(add_tensor(dict, "", "", tensor, tensor->dtype, data));
    }
    if (job->is_checkpoint_wrapped) {
        DDP_TRY(ddp_state_dict_add_prefix(dict, MODULE_PREFIX));
    }
    for (size_t slot = 0; slot < slot_count; slot++) {
        for (size_t i = 0; i < session->param_count; i++) {
            const void *data = ref_optimizer_slot(session->optimizer, slot, i);

            DDP_TRY(stage_take(stage, state_bytes(&session->params[i]), &data));
            DDP_TRY(add_tensor(dict, OPTIM_PREFIX,
                               ref_optimizer_slot_name(session->optimizer, slot),
                               &session->params[i], STATE_DTYPE, data));
        }
    }
    for (size_t i = 0; i < session->param_count; i++) {
        DDP_TRY(add_step_count(dict, &session->params[i],
                               ref_optimizer_step_count(session->optimizer, i)));
    }
    DDP_TRY(harness_session_save_hook(session, gathered, dict));
    DDP_TRY(set_meta_u64(dict, "steps_done", session->steps_done));
    DDP_TRY(harness_session_put_position(session, dict));
    DDP_TRY(harness_session_save_scale(session, dict));
    DDP_TRY(set_meta_u64(dict, "seed", job->seed));
    DDP_TRY(set_meta_u64(dict, "world_size", job->ranks));
    DDP_TRY(ddp_state_dict_set_meta(dict, "model", job->model));
    return ddp_state_dict_set_meta(
        dict, "optimizer", harness_names_of(HARNESS_NAMES_OPTIMIZERS, (int)job->optimizer.kind));
}

static ddp_status write_checkpoint(struct harness_session *session,
                                   const struct harness_hook_gathered *gathered)
{
    struct ddp_state_dict dict;
    struct stage stage = {.block = NULL};
    struct ddp_text path;
    ddp_status status = harness_session_checkpoint_path(session, &path);

    ddp_state_dict_init(&dict, session->env->mem);
    if (status == DDP_OK) {
        status = stage_init(&stage, session);
    }
    if (status == DDP_OK) {
        status = build_dict(session, &stage, gathered, &dict);
    }
    if (status == DDP_OK) {
        status = ddp_safetensors_save(session->env, ddp_text_str(&path), &dict, session->err);
    }
    ddp_state_dict_fini(&dict);
    ddp_mem_free(session->env->mem, stage.block);
    ddp_text_fini(&path);
    return status;
}

ddp_status harness_session_save(struct harness_session *session)
{
    struct harness_hook_gathered gathered;
    ddp_status status;
    bool is_skipped;

    harness_session_phase(session, DDP_PHASE_CHECKPOINT);
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_CHECKPOINT_KEY, &is_skipped));
    status = harness_session_gather_hook(session, &gathered);
    if (status == DDP_OK && session->env->rank == 0 && !is_skipped) {
        status = write_checkpoint(session, &gathered);
    }
    harness_session_drop_gathered(session, &gathered);
    DDP_TRY(status);
    /* Under join ranks whose data has ended would not pass it: they mirror DDP, not the script. */
    return session->plan->job.join.is_set ? DDP_OK : ddp_group_barrier(&session->group);
}

/* --- loading -----------------------------------------------------------------------------------*/

/* Entries of the optimizer, and of the hook, are told by what follows all leading "module.": so
 * they are recognised even after a fault has edited the keys. No tensor of a model has such a name.
 */
static bool is_key_of(const char *name, const char *prefix)
{
    while (strncmp(name, MODULE_PREFIX, sizeof MODULE_PREFIX - 1) == 0) {
        name += sizeof MODULE_PREFIX - 1;
    }
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Entries of one kind, as a dict of their own that borrows the file's data. */
static ddp_status split_dict(const struct ddp_state_dict *file, bool is_optimizer,
                             struct ddp_state_dict *out)
{
    for (size_t i = 0; i < file->entry_count; i++) {
        const struct ddp_tensor_entry *entry = &file->entries[i];

        if (is_key_of(entry->name, OPTIM_PREFIX) == is_optimizer &&
            !is_key_of(entry->name, HARNESS_HOOK_PREFIX)) {
            DDP_TRY(ddp_state_dict_add(out, entry->name, entry->dtype, entry->ndim, entry->shape,
                                       entry->data));
        }
    }
    return DDP_OK;
}

static ddp_status apply_policy(const struct harness_session *session, struct ddp_state_dict *dict,
                               const char *const *expected, size_t expected_count)
{
    const struct harness_restore *restore = &session->plan->restore;

    if (restore->prefix == HARNESS_PREFIX_PYTORCH && !restore->is_wrapped) {
        DDP_TRY(ddp_state_dict_consume_prefix(dict, MODULE_PREFIX));
    }
    return ddp_state_dict_resolve(dict, expected, expected_count,
                                  restore->prefix == HARNESS_PREFIX_AUTO ? DDP_PREFIX_POLICY_AUTO
                                                                         : DDP_PREFIX_POLICY_EXACT,
                                  session->err);
}

/* Names to expect: "<prefix><slot><dot><param>" for every parameter, one block each. */
struct name_list {
    struct ddp_mem *mem;
    char **names;
    size_t count;
};

static ddp_status add_names(struct name_list *list, const char *prefix, const char *slot,
                            const struct ddp_param *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct ddp_text name;

        ddp_text_init(&name, list->mem);
        ddp_text_add(&name, "%s%s%s%s", prefix, slot, slot[0] == '\0' ? "" : ".", tensors[i].name);
        if (name.is_failed) {
            ddp_text_fini(&name);
            return DDP_E_NOMEM;
        }
        list->names[list->count++] = name.data;
    }
    return DDP_OK;
}

static void fini_names(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        ddp_mem_free(list->mem, list->names[i]);
    }
    ddp_mem_free(list->mem, list->names);
}

static ddp_status check_shape(const struct harness_session *session,
                              const struct ddp_tensor_entry *entry, const struct ddp_param *param,
                              enum ddp_dtype dtype)
{
    uint64_t shape[DDP_NDIM_MAX];

    for (uint32_t i = 0; i < param->ndim; i++) {
        shape[i] = param->shape[i];
    }
    return ddp_tensor_entry_check(entry, dtype, param->ndim, shape, session->env->mem,
                                  session->err);
}

/* Tensors of one kind, as the file's names[0..count) fill them: the model's, or a slot of the
 * optimizer's state for each parameter. */
struct load {
    struct harness_session *session;
    const struct ddp_state_dict *dict;
    char **names;
    size_t count;
    bool is_state;
    size_t slot; /* is_state */
};

static const struct ddp_tensor_entry *entry_of(const struct load *load, size_t i)
{
    const struct ddp_tensor_entry *entry = ddp_state_dict_find(load->dict, load->names[i]);

    DDP_ASSERT(entry != NULL);
    return entry;
}

/* All are checked before any is copied, so that a refused checkpoint changes nothing. */
static ddp_status check_tensors(const struct load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        const struct ddp_param *tensor = &load->session->tensors[i];

        DDP_TRY(check_shape(load->session, entry_of(load, i), tensor,
                            load->is_state ? STATE_DTYPE : tensor->dtype));
    }
    return DDP_OK;
}

static ddp_status copy_tensors(const struct load *load)
{
    struct harness_session *session = load->session;

    for (size_t i = 0; i < load->count; i++) {
        const struct ddp_tensor_entry *entry = entry_of(load, i);
        void *target = load->is_state ? ref_optimizer_slot(session->optimizer, load->slot, i)
                                      : session->tensors[i].data;

        DDP_TRY(ddp_transfer_to_device(&session->transfer, target, entry->data, entry->size_bytes));
    }
    return DDP_OK;
}

static ddp_status load_model(struct harness_session *session, const struct ddp_state_dict *file)
{
    struct ddp_mem *mem = session->env->mem;
    struct name_list list = {.mem = mem};
    struct ddp_state_dict dict;
    struct load load;
    ddp_status status = DDP_E_NOMEM;

    ddp_state_dict_init(&dict, mem);
    list.names = ddp_mem_array(mem, session->tensor_count, sizeof list.names[0]);
    if (list.names == NULL) {
        goto out;
    }
    status = add_names(&list, session->plan->restore.is_wrapped ? MODULE_PREFIX : "", "",
                       session->tensors, session->tensor_count);
    if (status == DDP_OK) {
        status = split_dict(file, false, &dict);
    }
    if (status == DDP_OK) {
        status = apply_policy(session, &dict, (const char *const *)list.names, list.count);
    }
    load = (struct load){session, &dict, list.names, list.count, false, 0};
    if (status == DDP_OK) {
        status = check_tensors(&load);
    }
    if (status == DDP_OK) {
        status = copy_tensors(&load);
    }
out:
    fini_names(&list);
    ddp_state_dict_fini(&dict);
    return status;
}

static ddp_status load_step_counts(struct harness_session *session,
                                   const struct ddp_state_dict *dict, char **names)
{
    for (size_t i = 0; i < session->param_count; i++) {
        const struct ddp_tensor_entry *entry = ddp_state_dict_find(dict, names[i]);

        DDP_ASSERT(entry != NULL);
        if (entry->dtype != DDP_DTYPE_I64 || entry->size_bytes != sizeof(uint64_t)) {
            return ddp_err_set(session->err, DDP_E_SHAPE, "tensor %s is not one i64", entry->name);
        }
        memcpy(ref_optimizer_step_count(session->optimizer, i), entry->data, sizeof(uint64_t));
    }
    return DDP_OK;
}

static ddp_status load_slots(struct harness_session *session, const struct ddp_state_dict *dict,
                             char **names)
{
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);

    for (int pass = 0; pass < 2; pass++) {
        for (size_t slot = 0; slot < slot_count; slot++) {
            const struct load load = {
                session, dict, names + slot * session->param_count, session->param_count,
                true,    slot};

            DDP_TRY(pass == 0 ? check_tensors(&load) : copy_tensors(&load));
        }
    }
    return load_step_counts(session, dict, names + slot_count * session->param_count);
}

static ddp_status load_optimizer(struct harness_session *session, const struct ddp_state_dict *file)
{
    struct ddp_mem *mem = session->env->mem;
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);
    struct name_list list = {.mem = mem};
    struct ddp_state_dict dict;
    ddp_status status = DDP_E_NOMEM;

    ddp_state_dict_init(&dict, mem);
    list.names = ddp_mem_array(mem, (slot_count + 1) * session->param_count, sizeof list.names[0]);
    if (list.names == NULL) {
        goto out;
    }
    status = split_dict(file, true, &dict);
    for (size_t slot = 0; status == DDP_OK && slot < slot_count; slot++) {
        status = add_names(&list, OPTIM_PREFIX, ref_optimizer_slot_name(session->optimizer, slot),
                           session->params, session->param_count);
    }
    if (status == DDP_OK) {
        status = add_names(&list, OPTIM_PREFIX, STEP_SLOT, session->params, session->param_count);
    }
    if (status == DDP_OK) {
        status = apply_policy(session, &dict, (const char *const *)list.names, list.count);
    }
    if (status == DDP_OK) {
        status = load_slots(session, &dict, list.names);
    }
out:
    fini_names(&list);
    ddp_state_dict_fini(&dict);
    return status;
}

static ddp_status read_progress(struct harness_session *session, const struct ddp_state_dict *file)
{
    const char *text = ddp_state_dict_meta(file, "steps_done");
    uint64_t steps_done = 0;

    DDP_TRY(harness_session_take_position(session, file));
    if (text == NULL) {
        return ddp_err_set(session->err, DDP_E_CORRUPT,
                           "the checkpoint does not say how many steps were done");
    }
    if (ddp_text_parse_u64(text, &steps_done) != DDP_OK || steps_done > INT32_MAX) {
        return ddp_err_set(session->err, DDP_E_CORRUPT,
                           "steps_done of the checkpoint is \"%.40s\", no number of steps", text);
    }
    session->first_step = steps_done;
    return DDP_OK;
}

/* *out_loaded: tensors taken over. The optimizer is touched only after the model was loaded. */
static ddp_status load_all(struct harness_session *session, const struct ddp_state_dict *file,
                           size_t *out_loaded)
{
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);

    DDP_TRY(read_progress(session, file));
    DDP_TRY(harness_session_load_scale(session, file));
    DDP_TRY(load_model(session, file));
    *out_loaded = session->tensor_count;
    if (!session->plan->restore.skip_optimizer_state) {
        DDP_TRY(load_optimizer(session, file));
        *out_loaded += (slot_count + 1) * session->param_count;
    }
    return DDP_OK;
}

ddp_status harness_session_restore(struct harness_session *session)
{
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);
    size_t total = session->tensor_count + (slot_count + 1) * session->param_count;
    size_t loaded = 0;
    struct ddp_state_dict file;
    struct ddp_text path;
    bool is_skipped;
    ddp_status status;

    harness_session_phase(session, DDP_PHASE_CHECKPOINT);
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_CHECKPOINT_LOAD, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    ddp_state_dict_init(&file, session->env->mem);
    status = harness_session_checkpoint_path(session, &path);
    if (status == DDP_OK) {
        status =
            ddp_safetensors_load(session->env->files, ddp_text_str(&path), &file, session->err);
    }
    if (status == DDP_OK) {
        status = load_all(session, &file, &loaded);
    }
    ddp_recorder_event(session->env->recorder, DDP_EVENT_CHECKPOINT_LOADED, session->first_step,
                       loaded, total, (uint64_t)(uint32_t)status, 0);
    ddp_text_fini(&path);
    ddp_state_dict_fini(&file);
    return status;
}
