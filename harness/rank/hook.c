/* The job's communication hook, from the core's. */
#include "ddpcore/hook/hooks.h"
#include "harness/rank/session.h"

ddp_status harness_session_open_hook(struct harness_session *session, int64_t number,
                                     struct ddp_hook **out)
{
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
    default:
        return ddp_err_set(session->err, DDP_E_INVALID,
                           "a fault made the hook number %lld; there are %d", (long long)number,
                           HARNESS_HOOK_COUNT);
    }
}
