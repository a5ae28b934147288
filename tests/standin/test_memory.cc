/* The CUDA stand-in's memory. Nothing that runs on it is a GPU result. */
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ddp_standin.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/standin/kernel_testing.h"
#include "tests/standin/standin_testing.h"

CT_TEST(standin_memory, ends)
{
    enum { SIZE_BYTES = 400 * 1024 };
    void *first, *second, *third = &first;
    struct ddp_standin_report report;

    setenv("DDP_STANDIN_MEMORY_BYTES", "1048576", 1);
    CUDA_REQUIRE(cudaMalloc(&first, SIZE_BYTES));
    CUDA_REQUIRE(cudaMalloc(&second, SIZE_BYTES));
    CT_CHECK_EQ_I64(cudaMalloc(&third, SIZE_BYTES), cudaErrorMemoryAllocation);
    CT_CHECK(third == NULL);
    CT_CHECK_EQ_I64(cudaGetLastError(), cudaErrorMemoryAllocation);
    CUDA_CHECK(cudaGetLastError()); /* it sticks to nothing */
    ddp_standin_report_get(&report);
    CT_CHECK_EQ_U64(report.device_count, 2);
    CT_CHECK_EQ_U64(report.device_bytes, 2 * SIZE_BYTES);
    CUDA_CHECK(cudaFree(first));
    CUDA_CHECK(cudaMalloc(&third, SIZE_BYTES));
    CT_CHECK(third == first);
    CT_CHECK_EQ_I64(cudaFree(static_cast<char *>(third) + 512), cudaErrorInvalidValue);
    CUDA_CHECK(cudaFree(third));
    CUDA_CHECK(cudaFree(second));
    check_nothing_left();
}

CT_TEST(standin_memory, allocations_may_be_made_to_fail)
{
    void *first, *second, *third;

    setenv("DDP_STANDIN_FAIL_ALLOCATION", "2", 1);
    CUDA_CHECK(cudaMalloc(&first, 64));
    CT_CHECK_EQ_I64(cudaHostAlloc(&second, 64, 0), cudaErrorMemoryAllocation);
    CT_CHECK_EQ_I64(cudaMalloc(&third, 64), cudaErrorMemoryAllocation);
    CUDA_CHECK(cudaFree(first));
    check_nothing_left();
}

CT_TEST(standin_memory, fresh_memory_is_not_zero)
{
    float *data, *pinned, result[5];

    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&data), sizeof(result)));
    CUDA_REQUIRE(cudaHostAlloc(reinterpret_cast<void **>(&pinned), sizeof(result), 0));
    CUDA_CHECK(cudaMemcpyAsync(result, data, sizeof(result), cudaMemcpyDeviceToHost, NULL));
    for (int i = 0; i < 5; i++) {
        CT_CHECK(std::isnan(result[i]) && std::isnan(pinned[i]));
    }
    CUDA_CHECK(cudaFree(data));
    CUDA_CHECK(cudaFreeHost(pinned));
    check_nothing_left();
}

/* Reads *data in a child, which inherits the protection. True if it died of it. */
static bool is_deadly_to_read(const unsigned char *data)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        volatile unsigned char value = *static_cast<const volatile unsigned char *>(data);
        _exit(value == 0 ? 0 : 1);
    }
    return child > 0 && waitpid(child, &state, 0) == child && WIFSIGNALED(state) &&
           WTERMSIG(state) == SIGSEGV;
}

CT_TEST(standin_memory, the_host_cannot_read_the_device)
{
    unsigned char *data;
    unsigned char host = 0;

#ifdef __SANITIZE_THREAD__
    CT_SKIP("ThreadSanitizer sees the race instead");
#endif
    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&data), 64));
    CT_CHECK(is_deadly_to_read(data));
    CUDA_CHECK(cudaMemsetAsync(data, 0, 64, NULL));
    CUDA_CHECK(cudaMemcpyAsync(&host, data, 1, cudaMemcpyDefault, NULL));
    CT_CHECK(is_deadly_to_read(data));
    CUDA_CHECK(cudaFree(data));
}

CT_TEST(standin_memory, the_guard_can_be_taken_down)
{
    unsigned char *data;

    setenv("DDP_STANDIN_GUARD", "0", 1);
    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&data), 64));
    CUDA_CHECK(cudaMemsetAsync(data, 5, 64, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
    CT_CHECK_EQ_U64(data[63], 5);
    CUDA_CHECK(cudaFree(data));
}

CT_TEST(standin_memory, only_pageable_copies_wait)
{
    static standin_gate gate;
    unsigned char *device, *pinned;
    unsigned char pageable[64];
    struct ddp_standin_report report;

    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&device), 64));
    CUDA_REQUIRE(cudaHostAlloc(reinterpret_cast<void **>(&pinned), 64, cudaHostAllocPortable));
    memset(pinned, 1, 64);
    CUDA_CHECK(gate_enqueue(&gate, NULL));
    CUDA_CHECK(cudaMemcpyAsync(device, pinned, 64, cudaMemcpyHostToDevice, NULL));
    memset(pinned, 2, 64); /* before the copy runs: as wrong as on a GPU, and seen */
    ddp_standin_report_get(&report);
    CT_CHECK_EQ_U64(report.pageable_copy_count, 0);
    gate_open(&gate);
    CUDA_CHECK(cudaMemcpyAsync(pageable, device, 64, cudaMemcpyDeviceToHost, NULL));
    CT_CHECK_EQ_U64(pageable[63], 2);
    ddp_standin_report_get(&report);
    CT_CHECK_EQ_U64(report.pageable_copy_count, 1);
    CUDA_CHECK(cudaFree(device));
    CUDA_CHECK(cudaFreeHost(pinned));
    check_nothing_left();
}

CT_TEST(standin_memory, pageable_copies_may_come_late)
{
    static standin_gate gate;
    unsigned char *device;
    unsigned char pageable = 1, result = 0;

    setenv("DDP_STANDIN_PAGEABLE_WAITS", "0", 1);
    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&device), 1));
    CUDA_CHECK(gate_enqueue(&gate, NULL));
    CUDA_CHECK(cudaMemcpyAsync(device, &pageable, 1, cudaMemcpyHostToDevice, NULL));
    CUDA_CHECK(cudaMemcpyAsync(&result, device, 1, cudaMemcpyDeviceToHost, NULL));
    __atomic_store_n(&pageable, 2, __ATOMIC_RELEASE);
    gate_open(&gate);
    CUDA_CHECK(cudaDeviceSynchronize());
    CT_CHECK_EQ_U64(result, 2);
    CUDA_CHECK(cudaFree(device));
}

CT_TEST(standin_memory, copies_are_checked)
{
    unsigned char *device;
    unsigned char host[128] = {0};

    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&device), 64));
    CT_CHECK_EQ_I64(cudaMemcpyAsync(device, host, 65, cudaMemcpyDefault, NULL),
                    cudaErrorInvalidValue);
    CT_CHECK_EQ_I64(cudaMemcpyAsync(device + 60, host, 5, cudaMemcpyDefault, NULL),
                    cudaErrorInvalidValue);
    CT_CHECK_EQ_I64(cudaMemcpyAsync(device, host, 1, cudaMemcpyDeviceToHost, NULL),
                    cudaErrorInvalidValue);
    CT_CHECK_EQ_I64(cudaMemsetAsync(host, 0, 1, NULL), cudaErrorInvalidValue);
    CUDA_CHECK(cudaMemcpyAsync(device, host, 0, cudaMemcpyDefault, NULL));
    CUDA_CHECK(cudaMemcpyAsync(device + 60, host, 4, cudaMemcpyDefault, NULL));
    CUDA_CHECK(cudaFree(device));
    CT_CHECK_EQ_I64(cudaMemcpyAsync(device, host, 1, cudaMemcpyDefault, NULL),
                    cudaErrorInvalidValue);
}

CT_TEST(standin_memory, registered_memory_is_the_devices_too)
{
    static unsigned char memory[8192] __attribute__((aligned(4096)));
    void *view;

    CT_CHECK_EQ_I64(cudaHostGetDevicePointer(&view, memory, 0), cudaErrorInvalidValue);
    CUDA_CHECK(cudaHostRegister(memory, sizeof(memory), cudaHostRegisterMapped));
    CT_CHECK_EQ_I64(cudaHostRegister(memory + 4096, 4096, cudaHostRegisterMapped),
                    cudaErrorHostMemoryAlreadyRegistered);
    CUDA_CHECK(cudaHostGetDevicePointer(&view, memory + 100, 0));
    CUDA_CHECK(cudaMemsetAsync(view, 9, 1, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
    CT_CHECK_EQ_U64(memory[100], 9);
    CT_CHECK_EQ_I64(cudaHostUnregister(memory + 4096), cudaErrorHostMemoryNotRegistered);
    CUDA_CHECK(cudaHostUnregister(memory));
    check_nothing_left();
}

#ifdef __SANITIZE_ADDRESS__
struct poke_args {
    unsigned char *at;
};

static __global__ void poke_kernel(poke_args args)
{
    *args.at = 1;
}

/* AddressSanitizer takes part as the device's memory checker. */
CT_TEST(standin_memory, an_overrun_by_a_kernel_is_seen)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        unsigned char *data;
        if (freopen("/dev/null", "w", stderr) == NULL ||
            cudaMalloc(reinterpret_cast<void **>(&data), 60) != cudaSuccess ||
            launch(poke_kernel, poke_args{data + 60}, 1, 1, false, NULL) != cudaSuccess) {
            _exit(0);
        }
        (void)cudaDeviceSynchronize();
        _exit(0);
    }
    CT_REQUIRE(child > 0 && waitpid(child, &state, 0) == child);
    CT_CHECK(!WIFEXITED(state) || WEXITSTATUS(state) != 0);
}
#endif
