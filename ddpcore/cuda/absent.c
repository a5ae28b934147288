/* Stands in for the CUDA device in builds without kernels. */
#include "ddpcore/cuda/cuda.h"

static const char *const no_kernels = "this build has no CUDA kernels: configure it where the CUDA "
                                      "toolkit is, without sanitizers, coverage or fuzzing";

ddp_status ddp_device_cuda_create(struct ddp_mem *mem, const struct ddp_device_cuda_config *config,
                                  struct ddp_device **out, struct ddp_err *err)
{
    (void)mem;
    (void)config;
    *out = NULL;
    return ddp_err_set(err, DDP_E_UNSUPPORTED, "%s", no_kernels);
}

ddp_status ddp_device_cuda_query(int32_t ordinal, struct ddp_device_cuda_info *out,
                                 struct ddp_err *err)
{
    (void)ordinal;
    *out = (struct ddp_device_cuda_info){0};
    return ddp_err_set(err, DDP_E_UNSUPPORTED, "%s", no_kernels);
}
