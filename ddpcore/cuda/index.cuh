/* Kernels in which each index is worked on by itself. Body has `__device__ void run(size_t i)
 * const`.
 */
#ifndef DDPCORE_CUDA_INDEX_CUH
#define DDPCORE_CUDA_INDEX_CUH

#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

template <typename Body> struct ddp_cuda_index_args {
    Body body;
    size_t count;
};

template <typename Body>
__global__ void __launch_bounds__(DDP_CUDA_BLOCK_NARROW)
    ddp_cuda_index_kernel(ddp_cuda_index_args<Body> args)
{
    for (size_t i = ddp_cuda_thread(); i < args.count; i += ddp_cuda_thread_count()) {
        args.body.run(i);
    }
}

template <typename Body>
ddp_status ddp_cuda_index(struct ddp_device *device, struct ddp_stream *stream, const Body &body,
                          size_t count)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (count == 0) {
        return DDP_OK;
    }
    return ddp_cuda_launch(cuda, ddp_cuda_index_kernel<Body>,
                           ddp_cuda_index_args<Body>{body, count}, count, DDP_CUDA_BLOCK_NARROW,
                           handle);
}

#endif
