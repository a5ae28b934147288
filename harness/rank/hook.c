/* The job's communication hook, from the core's; and what its trainer does about it: state in
 * checkpoints, and averages of parameters. */
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

/* Hooks that keep something work in the host's memory (ddpcore/hook/hooks.h). */
ddp_status harness_session_save_hook(struct harness_session *session, struct ddp_state_dict *dict)
{
    size_t count = 0;
    const struct ddp_param *state = ddp_hook_state(session->ddp, &count);
    ddp_status status = DDP_OK;

    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        const uint64_t shape[1] = {state[i].elem_count};
        struct ddp_text name;

        status = name_of(session, &state[i], &name);
        if (status == DDP_OK) {
            status = ddp_state_dict_add(dict, ddp_text_str(&name), state[i].dtype, 1, shape,
                                        state[i].data);
        }
        ddp_text_fini(&name);
    }
    return status;
}

static ddp_status load_tensor(const struct harness_session *session,
                              const struct ddp_state_dict *file, const struct ddp_param *tensor)
{
    const uint64_t shape[1] = {tensor->elem_count};
    const struct ddp_tensor_entry *entry;
    struct ddp_text name;
    ddp_status status = name_of(session, tensor, &name);

    if (status == DDP_OK) {
        entry = ddp_state_dict_find(file, ddp_text_str(&name));
        status = entry == NULL
                     ? ddp_err_set(session->err, DDP_E_KEYS,
                                   "the checkpoint has no %s, which the job's hook goes on from",
                                   ddp_text_str(&name))
                     : ddp_tensor_entry_check(entry, tensor->dtype, 1, shape, session->env->mem,
                                              session->err);
        if (status == DDP_OK && entry != NULL) {
            memcpy(tensor->data, entry->data, entry->size_bytes);
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
        status = load_tensor(session, &file, &state[i]);
    }
    ddp_text_fini(&path);
    ddp_state_dict_fini(&file);
    return status;
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
