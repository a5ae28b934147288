/* The job's communication hook, from the core's; and what its trainer does about it: state in
 * checkpoints, and averages of parameters. */
#include <inttypes.h>
#include <string.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/checkpoint/state_dict.h"
#include "ddpcore/ddp/average.h"
#include "ddpcore/hook/hooks.h"
#include "harness/rank/session.h"

ddp_status harness_session_open_hook(struct harness_session *session, int64_t number,
                                     const int64_t options[HARNESS_HOOK_OPTION_COUNT],
                                     struct ddp_hook **out)
{
    const struct harness_job *job = &session->plan->job;
    struct ddp_powersgd_config powersgd;
    struct ddp_mem *mem = session->env->mem;

    *out = NULL;
    switch (number) {
    case HARNESS_HOOK_NONE:
        return DDP_OK;
    case HARNESS_HOOK_ALLREDUCE:
        return ddp_hook_allreduce_create(mem, out);
    case HARNESS_HOOK_FP16:
        return ddp_hook_compress_create(mem, DDP_DTYPE_F16, NULL, out);
    case HARNESS_HOOK_BF16:
        return ddp_hook_compress_create(mem, DDP_DTYPE_BF16, NULL, out);
    case HARNESS_HOOK_QUANTIZE:
        return ddp_hook_quantize_create(mem, out);
    case HARNESS_HOOK_LOCAL_SGD:
        return ddp_hook_local_sgd_create(mem, (uint64_t)options[0], out);
    case HARNESS_HOOK_POWERSGD:
        ddp_powersgd_defaults(&powersgd);
        powersgd.rank = job->powersgd_rank;
        powersgd.start_iteration = job->powersgd_start;
        powersgd.is_warm_start = job->powersgd_warm_start;
        powersgd.is_error_kept = options[1] != 0;
        powersgd.seed = (uint64_t)options[2];
        return ddp_hook_powersgd_create(mem, &powersgd, out);
    default:
        return ddp_err_set(session->err, DDP_E_INVALID,
                           "a fault made the hook number %lld; there are %d", (long long)number,
                           HARNESS_HOOK_COUNT);
    }
}

/* --- state ------------------------------------------------------------------------------------ */

static ddp_status name_of(const struct harness_session *session, const struct ddp_param *tensor,
                          struct ddp_text *out)
{
    ddp_text_init(out, session->env->mem);
    ddp_text_add(out, HARNESS_HOOK_PREFIX "%s", tensor->name);
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}

static size_t ranks_of(const struct harness_session *session)
{
    return session->plan->job.ranks;
}

/* Where each tensor is gathered: a copy of the rank's own, then all ranks'. */
static size_t lay_out_gathered(struct harness_session *session, const struct ddp_param *state,
                               size_t count, struct harness_hook_gathered *out)
{
    size_t size_bytes = 0;

    for (size_t i = 0; i < count; i++) {
        const size_t own_bytes = ddp_param_size_bytes(&state[i]);
        const bool is_own = ddp_hook_state_is_own(session->ddp, i);

        out->offset_bytes[i] = is_own ? size_bytes + own_bytes : SIZE_MAX;
        size_bytes += is_own ? (ranks_of(session) + 1) * own_bytes : 0;
    }
    return size_bytes;
}

ddp_status harness_session_gather_hook(struct harness_session *session,
                                       struct harness_hook_gathered *out)
{
    struct ddp_device *device = session->device;
    size_t count = 0;
    const struct ddp_param *state = ddp_hook_state(session->ddp, &count);
    size_t size_bytes;
    void *block;

    *out = (struct harness_hook_gathered){NULL, NULL};
    if (count == 0) {
        return DDP_OK;
    }
    out->offset_bytes = ddp_mem_array(session->env->mem, count, sizeof(*out->offset_bytes));
    if (out->offset_bytes == NULL) {
        return DDP_E_NOMEM;
    }
    size_bytes = lay_out_gathered(session, state, count, out);
    if (size_bytes == 0) {
        return DDP_OK;
    }
    DDP_TRY(device->ops->alloc(device, size_bytes, DDP_SPACE_DEVICE, &block));
    out->block = block;
    for (size_t i = 0; i < count; i++) {
        if (out->offset_bytes[i] != SIZE_MAX) {
            DDP_TRY(ddp_hook_state_gather(session->ddp, i,
                                          out->block + out->offset_bytes[i] -
                                              ddp_param_size_bytes(&state[i])));
        }
    }
    return DDP_OK;
}

void harness_session_drop_gathered(struct harness_session *session,
                                   struct harness_hook_gathered *gathered)
{
    if (gathered->block != NULL) {
        session->device->ops->free(session->device, DDP_SPACE_DEVICE, gathered->block);
    }
    ddp_mem_free(session->env->mem, gathered->offset_bytes);
}

/* Hooks that keep something work in the host's memory (ddpcore/hook/hooks.h). A tensor that differs
 * from rank to rank has a row for each rank. */
ddp_status harness_session_save_hook(struct harness_session *session,
                                     const struct harness_hook_gathered *gathered,
                                     struct ddp_state_dict *dict)
{
    size_t count = 0;
    const struct ddp_param *state = ddp_hook_state(session->ddp, &count);
    ddp_status status = DDP_OK;

    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        const bool is_own = gathered->offset_bytes[i] != SIZE_MAX;
        const uint64_t rows[2] = {ranks_of(session), state[i].elem_count};
        struct ddp_text name;

        status = name_of(session, &state[i], &name);
        if (status == DDP_OK) {
            status = ddp_state_dict_add(
                dict, ddp_text_str(&name), state[i].dtype, is_own ? 2 : 1, is_own ? rows : rows + 1,
                is_own ? gathered->block + gathered->offset_bytes[i] : state[i].data);
        }
        ddp_text_fini(&name);
    }
    return status;
}

static ddp_status check_tensor(const struct harness_session *session,
                               const struct ddp_tensor_entry *entry, const struct ddp_param *tensor,
                               bool is_own, const char *name)
{
    const uint64_t rows[2] = {ranks_of(session), tensor->elem_count};

    if (entry == NULL) {
        return ddp_err_set(session->err, DDP_E_KEYS,
                           "the checkpoint has no %s, which the job's hook goes on from", name);
    }
    if (is_own && entry->ndim == 2 && entry->shape[0] != rows[0]) {
        return ddp_err_set(session->err, DDP_E_SHAPE,
                           "the checkpoint has %s of %" PRIu64 " ranks, this job has %" PRIu64
                           ": each rank goes on from its own",
                           name, entry->shape[0], rows[0]);
    }
    return ddp_tensor_entry_check(entry, tensor->dtype, is_own ? 2 : 1, is_own ? rows : rows + 1,
                                  session->env->mem, session->err);
}

static ddp_status load_tensor(const struct harness_session *session,
                              const struct ddp_state_dict *file, size_t index,
                              const struct ddp_param *tensor)
{
    const bool is_own = ddp_hook_state_is_own(session->ddp, index);
    const size_t row = is_own ? session->env->rank : 0;
    const struct ddp_tensor_entry *entry;
    struct ddp_text name;
    ddp_status status = name_of(session, tensor, &name);

    if (status == DDP_OK) {
        entry = ddp_state_dict_find(file, ddp_text_str(&name));
        status = check_tensor(session, entry, tensor, is_own, ddp_text_str(&name));
        if (status == DDP_OK && entry != NULL) {
            memcpy(tensor->data, (const char *)entry->data + row * ddp_param_size_bytes(tensor),
                   ddp_param_size_bytes(tensor));
        }
    }
    ddp_text_fini(&name);
    return status;
}

ddp_status harness_session_load_hook(struct harness_session *session)
{
    size_t count = 0;
    const struct ddp_param *state = ddp_hook_state(session->ddp, &count);
    struct ddp_state_dict file;
    struct ddp_text path;
    ddp_status status;

    if (count == 0 || session->plan->restore.skip_hook_state || session->first_step == 0) {
        return DDP_OK;
    }
    ddp_state_dict_init(&file, session->env->mem);
    status = harness_session_checkpoint_path(session, &path);
    if (status == DDP_OK) {
        status =
            ddp_safetensors_load(session->env->files, ddp_text_str(&path), &file, session->err);
    }
    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        status = load_tensor(session, &file, i, &state[i]);
    }
    ddp_text_fini(&path);
    ddp_state_dict_fini(&file);
    return status;
}

void harness_session_set_hook_steps(struct harness_session *session)
{
    size_t count = 0;
    const struct ddp_param *state = ddp_hook_state(session->ddp, &count);

    for (size_t i = 0; i < count; i++) {
        if (state[i].dtype == DDP_DTYPE_I64 && state[i].elem_count == 1) {
            *(int64_t *)state[i].data = (int64_t)session->first_step;
        }
    }
}

/* --- post-local SGD --------------------------------------------------------------------------- */

ddp_status harness_session_average(struct harness_session *session, uint32_t step)
{
    const struct harness_job *job = &session->plan->job;

    return job->hook == HARNESS_HOOK_LOCAL_SGD &&
                   ddp_average_due(step, job->local_sgd_start, job->local_sgd_period)
               ? ddp_average_params(session->ddp)
               : DDP_OK;
}

ddp_status harness_session_list_delayed(struct harness_session *session)
{
    const struct harness_texts *names = &session->plan->job.delayed;

    if (names->count == 0 || session->is_delayed != NULL) {
        return DDP_OK;
    }
    session->is_delayed =
        ddp_mem_array(session->env->mem, session->param_count, sizeof(*session->is_delayed));
    for (size_t p = 0; session->is_delayed != NULL && p < session->param_count; p++) {
        for (size_t i = 0; i < names->count; i++) {
            session->is_delayed[p] |= strcmp(names->items[i], session->params[p].name) == 0;
        }
    }
    return session->is_delayed != NULL ? DDP_OK : DDP_E_NOMEM;
}
