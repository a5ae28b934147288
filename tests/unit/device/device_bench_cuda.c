/* The first CUDA card. DDP_TEST_CUBLAS_PATH: the library to use for matrix products; a build that
 * names one has its card for certain, so nothing is skipped. */
#include "ddpcore/cuda/cuda.h"
#include "tests/unit/device/device_bench.h"

ddp_status bench_create_device(struct ddp_mem *mem, struct ddp_device **out, struct ddp_err *err)
{
    struct ddp_device_cuda_config config = {0};

#ifdef DDP_TEST_CUBLAS_PATH
    config.cublas_path = DDP_TEST_CUBLAS_PATH;
    ddp_status status = ddp_device_cuda_create(mem, &config, out, err);
    return status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED ? DDP_E_STATE : status;
#else
    return ddp_device_cuda_create(mem, &config, out, err);
#endif
}
