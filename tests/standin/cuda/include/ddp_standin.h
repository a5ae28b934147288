/* The stand-in's own calls, for tests and for the stand-ins of cuBLAS and NCCL. Nothing that runs
 * on it is a GPU result. */
#ifndef TESTS_STANDIN_DDP_STANDIN_H
#define TESTS_STANDIN_DDP_STANDIN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueue host work on a stream (NULL: the default stream). run may block and may touch device
 * memory. It is called exactly once, on the stream's thread, and frees context. *is_cancelled, to
 * be read with __atomic_load_n, turns 1 when the device fails, and then run should return soon. Its
 * result is 0 or a cudaError, which sticks to the device. Returns a cudaError; only 0 means that
 * run will be called. */
int ddp_standin_stream_enqueue(void *stream,
                               int (*run)(void *context, const volatile int *is_cancelled),
                               void *context);

/* From now on every call returns this error, as after a kernel that failed; queued kernels and
 * copies are dropped. A second failure does not replace the first. */
void ddp_standin_device_fail(int cuda_error);

/* The stream captures, or captures no more. */
void ddp_standin_stream_capture(cudaStream_t stream, bool is_on);

/* Counts of live objects and of calls so far. Thread-safe. */
struct ddp_standin_report {
    uint64_t device_count, device_bytes; /* live cudaMalloc */
    uint64_t pinned_count;               /* live cudaHostAlloc */
    uint64_t registered_count;           /* live cudaHostRegister */
    uint64_t stream_count;               /* created, not destroyed */
    uint64_t event_count;
    uint64_t
        pageable_copy_count; /* copies that had to wait, because the host's side was pageable */
    uint64_t kernel_count, copy_count; /* begun */
    uint64_t card_mask;                /* cards on which the process has made a context */
    uint64_t captured_count;           /* words that were to be written by a stream that captures */
};
void ddp_standin_report_get(struct ddp_standin_report *out);

/* A launch. call(kernel, args) is one thread of the grid; blocks and threads are counted x first.
 */
struct ddp_standin_kernel {
    void (*call)(void (*kernel)(void), const void *args);
    void (*kernel)(void);
    uint32_t grid[3], block[3];
    bool is_warp; /* the threads of a block are alive together and meet in shuffles and barriers */
    /* Makes the calling thread's indices those of one thread of one block. */
    void (*select)(const struct ddp_standin_kernel *self, uint64_t block_index,
                   uint32_t thread_index);
};
/* Enqueue a kernel; args (at most 512 bytes, aligned to 16) are copied at once. */
cudaError_t ddp_standin_launch(const struct ddp_standin_kernel *kernel, const void *args,
                               size_t args_bytes, cudaStream_t stream);

/* For kernels: meet the lanes of mask, then return the word that lane `source` brought. */
uint64_t ddp_standin_lane_exchange(uint32_t mask, uint64_t word, uint32_t source);
/* Meet the lanes of mask; bit i of the result says that lane i brought true. */
uint32_t ddp_standin_lane_ballot(uint32_t mask, bool is_true);
/* Meet all threads of the block. */
void ddp_standin_block_meet(void);
/* End the kernel; the error sticks to the device. */
void ddp_standin_kernel_trap(int cuda_error) __attribute__((noreturn));
/* CLOCK_MONOTONIC, as %globaltimer. */
uint64_t ddp_standin_globaltimer_ns(void);

#ifdef __cplusplus
}
#endif
#endif
