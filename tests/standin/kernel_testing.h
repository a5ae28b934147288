/* Launching in the tests of the CUDA stand-in. Nothing that runs on it is a GPU result. */
#ifndef TESTS_STANDIN_KERNEL_TESTING_H
#define TESTS_STANDIN_KERNEL_TESTING_H

#include <cuda_runtime.h>

template <class Args> void call_kernel(void (*kernel)(), const void *args)
{
    reinterpret_cast<void (*)(Args)>(kernel)(*static_cast<const Args *>(args));
}

template <class Args>
cudaError_t launch(void (*kernel)(Args), Args args, dim3 grid, dim3 block, bool is_warp,
                   cudaStream_t stream)
{
    cudaFuncAttributes attributes;
    cudaError_t error =
        cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(kernel)); /* loads it */

    if (error != cudaSuccess) {
        return error;
    }
    return standin_launch(call_kernel<Args>, reinterpret_cast<void (*)()>(kernel), &args,
                          sizeof(args), grid, block, is_warp ? 1 : 0, stream);
}

#endif
