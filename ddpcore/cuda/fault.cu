/* Faults injected into the device: a kernel that does not end, a kernel with an illegal access. */
#include "ddpcore/cuda/intrinsic.cuh"
#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

/* The first page is mapped in no address space, the host's included. */
static const uint64_t unmapped_address = 16;

struct spin_args {
    const uint32_t *stop;
    uint64_t duration_ns; /* 0: until stop */
};

static __global__ void spin_kernel(spin_args args)
{
    const uint64_t started_ns = ddp_cuda_now_ns();

    while (ddp_cuda_watch(args.stop) == 0) {
        if (args.duration_ns != 0 && ddp_cuda_now_ns() - started_ns >= args.duration_ns) {
            return;
        }
    }
}

struct trap_args {
    uint64_t address;
};

static __global__ void trap_kernel(trap_args args)
{
    ddp_cuda_trap(args.address);
}

ddp_status ddp_cuda_inject(struct ddp_device *device, struct ddp_stream *stream,
                           enum ddp_device_fault fault, uint64_t ms)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    const uint64_t ns_per_ms = 1000000;
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    switch (fault) {
    case DDP_DEVICE_FAULT_SPIN:
        if (ms > UINT64_MAX / ns_per_ms) {
            return DDP_E_INVALID;
        }
        return ddp_cuda_launch(cuda, spin_kernel, spin_args{cuda->stop, ms * ns_per_ms}, 1, 1,
                               handle);
    case DDP_DEVICE_FAULT_TRAP:
        return ddp_cuda_launch(cuda, trap_kernel, trap_args{unmapped_address}, 1, 1, handle);
    default:
        return DDP_E_INVALID;
    }
}

ddp_status ddp_cuda_fault_init(ddp_cuda_device *cuda)
{
    void *stop = NULL;

    DDP_TRY(ddp_cuda_alloc(&cuda->base, sizeof(*cuda->stop), DDP_SPACE_HOST, &stop));
    cuda->stop = static_cast<uint32_t *>(stop);
    DDP_TRY(ddp_cuda_preload(cuda, spin_kernel));
    return ddp_cuda_preload(cuda, trap_kernel);
}

void ddp_cuda_fault_stop(ddp_cuda_device *cuda)
{
    if (cuda->stop != NULL) {
        __atomic_store_n(cuda->stop, 1u, __ATOMIC_RELEASE);
    }
}
