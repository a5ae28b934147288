/* A stand-in for CUDA, for tests on machines without a GPU. Nothing that runs on it is a GPU
 * result. The runtime's calls and, for C++, what the .cu files need of the kernel language. */
#ifndef TESTS_STANDIN_CUDA_RUNTIME_H
#define TESTS_STANDIN_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
#include <standin_kernel.h>
#endif

#endif
