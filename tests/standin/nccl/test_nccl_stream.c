/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Collectives on streams of the CUDA stand-in: in their order, on device memory, and ended when the
 * device fails. */
#include <cuda_runtime_api.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/cuda/include/ddp_standin.h"
#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/world.h"

#define CUDA_OK(call) CT_CHECK_EQ_I64((call), cudaSuccess)

struct streamed {
    struct world world;
    cudaStream_t stream[2];
    float *memory[2];
};

static void streamed_init(struct streamed *self)
{
    memset(self, 0, sizeof *self);
    world_start(&self->world, 2, "bus_id=unique");
    for (int i = 0; i < 2; i++) {
        CT_CHECK_EQ_I64(case_await(self->world.comm[i]), STANDIN_SUCCESS);
        CUDA_OK(cudaStreamCreateWithFlags(&self->stream[i], cudaStreamNonBlocking));
        CUDA_OK(cudaMalloc((void **)&self->memory[i], sizeof self->world.data[i]));
    }
}

static int streamed_all_reduce(struct streamed *self, int rank)
{
    return ncclAllReduce(self->memory[rank], self->memory[rank], WORLD_ELEMS, STANDIN_FLOAT32,
                         STANDIN_SUM, self->world.comm[rank], self->stream[rank]);
}

CT_TEST(nccl_standin_stream, work_is_part_of_the_stream)
{
    static struct streamed self;
    static float host[2][WORLD_ELEMS];
    cudaEvent_t after = NULL;
    streamed_init(&self);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < WORLD_ELEMS; k++) {
            host[i][k] = (float)(k + 1000 * i);
        }
        CUDA_OK(cudaMemcpyAsync(self.memory[i], host[i], sizeof host[i], cudaMemcpyHostToDevice,
                                self.stream[i]));
        CT_CHECK(streamed_all_reduce(&self, i) != STANDIN_INVALID_ARGUMENT);
    }
    for (int i = 0; i < 2; i++) {
        CT_CHECK_EQ_I64(case_await(self.world.comm[i]), STANDIN_SUCCESS);
        memset(host[i], 0, sizeof host[i]);
        CUDA_OK(cudaMemcpyAsync(host[i], self.memory[i], sizeof host[i], cudaMemcpyDeviceToHost,
                                self.stream[i]));
        CUDA_OK(cudaStreamSynchronize(self.stream[i]));
        for (int k = 0; k < WORLD_ELEMS; k++) {
            CT_CHECK(host[i][k] == (float)(2 * k + 1000));
        }
    }
    /* Work that waits for a peer keeps the stream busy until the communicator is aborted. */
    CT_CHECK(streamed_all_reduce(&self, 0) != STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(case_await(self.world.comm[0]), STANDIN_SUCCESS);
    CUDA_OK(cudaEventCreateWithFlags(&after, cudaEventDisableTiming));
    CUDA_OK(cudaEventRecord(after, self.stream[0]));
    CT_CHECK_EQ_I64(cudaEventQuery(after), cudaErrorNotReady);
    CT_CHECK_EQ_I64(ncclCommAbort(self.world.comm[0]), STANDIN_SUCCESS);
    self.world.comm[0] = NULL;
    CUDA_OK(cudaStreamSynchronize(self.stream[0]));
    CUDA_OK(cudaEventQuery(after));
    CUDA_OK(cudaEventDestroy(after));
    world_abort(&self.world);
    for (int i = 0; i < 2; i++) {
        CUDA_OK(cudaFree(self.memory[i]));
        CUDA_OK(cudaStreamDestroy(self.stream[i]));
    }
}

/* Two communicators of one rank share a stream: the second one's work waits behind the first's. */
CT_TEST(nccl_standin_stream, stuck_work_holds_up_the_stream)
{
    static struct streamed self;
    struct world other;
    streamed_init(&self);
    CT_CHECK_EQ_I64(ddp_nccl_standin_script("bus_id=unique;connect=eager"), STANDIN_SUCCESS);
    world_start(&other, 1, "connect=eager");
    CT_CHECK_EQ_I64(case_await(other.comm[0]), STANDIN_SUCCESS);
    CT_CHECK(streamed_all_reduce(&self, 0) != STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(case_await(self.world.comm[0]), STANDIN_SUCCESS);
    CT_CHECK(ncclAllReduce(other.data[0], other.data[0], 1, STANDIN_FLOAT32, STANDIN_SUM,
                           other.comm[0], self.stream[0]) != STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(case_await(other.comm[0]), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(other.comm[0]), 1);
    CT_CHECK_EQ_I64(ncclCommAbort(self.world.comm[0]), STANDIN_SUCCESS);
    self.world.comm[0] = NULL;
    CT_CHECK(case_await_idle(other.comm[0]));
    CT_CHECK_EQ_I64(ncclCommDestroy(other.comm[0]), STANDIN_SUCCESS);
    world_abort(&self.world);
    for (int i = 0; i < 2; i++) {
        CUDA_OK(cudaFree(self.memory[i]));
        CUDA_OK(cudaStreamDestroy(self.stream[i]));
    }
}

/* Last, because the device stays broken. */
CT_TEST(nccl_standin_stream, z_failed_device_ends_the_work)
{
    static struct streamed self;
    streamed_init(&self);
    CT_CHECK_EQ_I64(ddp_nccl_standin_script("bus_id=unique;connect=eager"), STANDIN_SUCCESS);
    CT_CHECK(streamed_all_reduce(&self, 0) != STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(case_await(self.world.comm[0]), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(self.world.comm[0]), 1);
    ddp_standin_device_fail(cudaErrorIllegalAddress);
    CT_CHECK(case_await_idle(self.world.comm[0]));
    (void)streamed_all_reduce(&self, 1);
    CT_CHECK_EQ_I64(case_await(self.world.comm[1]), STANDIN_CUDA_ERROR);
    CT_CHECK(world_error_has("Cuda failure 700"));
    world_abort(&self.world);
}
