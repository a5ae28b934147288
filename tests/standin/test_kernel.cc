/* The CUDA stand-in's kernels: indices, shuffles, barriers. Nothing that runs on it is a GPU
 * result. */
#include <cstdlib>
#include <cstring>

#include "tests/ct.h"
#include "tests/standin/kernel_testing.h"
#include "tests/standin/standin_testing.h"

enum { LANES = 32, ALL = -1 };

/* Kernels here write host memory that the test knows to be idle: the tests are about lanes. */
struct word_args {
    uint32_t *words;
};

static __global__ void index_kernel(word_args args)
{
    uint32_t block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    args.words[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1 + block * 1000 + thread;
}

static void run_indices(bool is_warp)
{
    enum { BLOCKS = 2 * 3 * 4, THREADS = 5 * 6 * 7 };
    static uint32_t words[BLOCKS * THREADS];

    memset(words, 0, sizeof(words));
    CUDA_CHECK(launch(index_kernel, word_args{words}, dim3(2, 3, 4), dim3(5, 6, 7), is_warp, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < BLOCKS * THREADS; i++) {
        CT_REQUIRE(words[i] == 1 + i / THREADS * 1000 + i % THREADS);
    }
}

CT_TEST(standin_kernel, every_thread_runs_once)
{
    run_indices(false);
}

CT_TEST(standin_kernel, every_coroutine_runs_once)
{
    run_indices(true);
}

struct shuffle_args {
    uint32_t *xor_sum, *down, *up, *picked, *quarter;
    float *float_sum;
    uint64_t *wide;
};

static __global__ void shuffle_kernel(shuffle_args args)
{
    const unsigned mask = 0xffffffffu;
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned lane = threadIdx.x % LANES;
    uint32_t sum = i;
    float float_sum = static_cast<float>(lane);

    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
        sum += __shfl_xor_sync(mask, sum, lanes);
        float_sum += __shfl_xor_sync(mask, float_sum, lanes);
    }
    args.xor_sum[i] = sum;
    args.float_sum[i] = float_sum;
    args.down[i] = __shfl_down_sync(mask, i, 3);
    args.up[i] = __shfl_up_sync(mask, i, 5);
    args.picked[i] = __shfl_sync(mask, i, 7);
    args.quarter[i] = __shfl_down_sync(mask, i, 1, 8);
    args.wide[i] = __shfl_sync(mask, static_cast<uint64_t>(i) << 40, static_cast<int>(lane + 1));
}

static void run_shuffles(const char *seed)
{
    enum { COUNT = 2 * 3 * LANES };
    static uint32_t words[5][COUNT];
    static float float_sum[COUNT];
    static uint64_t wide[COUNT];

    setenv("DDP_STANDIN_SEED", seed, 1);
    CUDA_CHECK(
        launch(shuffle_kernel,
               shuffle_args{words[0], words[1], words[2], words[3], words[4], float_sum, wide}, 2,
               3 * LANES, true, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t lane = i % LANES, first = i - lane;
        CT_CHECK_EQ_U64(words[0][i], first * LANES + LANES * (LANES - 1) / 2);
        CT_CHECK(float_sum[i] == LANES * (LANES - 1) / 2);
        CT_CHECK_EQ_U64(words[1][i], lane + 3 < LANES ? i + 3 : i);
        CT_CHECK_EQ_U64(words[2][i], lane >= 5 ? i - 5 : i);
        CT_CHECK_EQ_U64(words[3][i], first + 7);
        CT_CHECK_EQ_U64(words[4][i], i % 8 < 7 ? i + 1 : i);
        CT_CHECK_EQ_U64(wide[i], static_cast<uint64_t>(first + (lane + 1) % LANES) << 40);
    }
}

CT_TEST(standin_kernel, lanes_exchange)
{
    run_shuffles("0");
}

CT_TEST(standin_kernel, lanes_exchange_in_any_order)
{
    run_shuffles("1");
}

static __global__ void vote_kernel(word_args args)
{
    unsigned lane = threadIdx.x;

    if (lane >= 24) {
        return; /* who has left does not count */
    }
    args.words[lane] = __ballot_sync(0xffffffffu, lane % 2 == 0);
    if (lane < 8) {
        args.words[lane] ^= __ballot_sync(0xffu, 1); /* a meeting of some */
    }
    __syncwarp();
    args.words[24 + lane % 8] = static_cast<uint32_t>(__any_sync(0xffffffffu, lane == 3)) +
                                2u * static_cast<uint32_t>(__all_sync(0xffffffffu, lane == 3));
}

CT_TEST(standin_kernel, only_what_is_loaded_is_launched)
{
    static uint32_t words[LANES];
    const word_args args = {words};

    CT_CHECK_EQ_I64(standin_launch(call_kernel<word_args>,
                                   reinterpret_cast<void (*)()>(vote_kernel), &args, sizeof(args),
                                   1, LANES, 1, NULL),
                    cudaErrorInvalidDeviceFunction);
    CUDA_CHECK(launch(vote_kernel, args, 1, LANES, true, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
}

CT_TEST(standin_kernel, lanes_vote)
{
    static uint32_t words[LANES];

    CUDA_CHECK(launch(vote_kernel, word_args{words}, 1, LANES, true, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (uint32_t lane = 0; lane < 24; lane++) {
        CT_CHECK_EQ_U64(words[lane], 0x555555u ^ (lane < 8 ? 0xffu : 0));
    }
    CT_CHECK_EQ_U64(words[24], 1);
}

static __global__ void reverse_kernel(word_args args)
{
    __shared__ uint32_t tile[96];

    for (uint32_t round = 0; round < 3; round++) {
        tile[threadIdx.x] = threadIdx.x + 100 * blockIdx.x;
        __syncthreads();
        args.words[blockIdx.x * 96 + threadIdx.x] += tile[95 - threadIdx.x];
        __syncthreads();
    }
}

CT_TEST(standin_kernel, a_block_meets)
{
    static uint32_t words[2 * 96];

    CUDA_CHECK(launch(reverse_kernel, word_args{words}, 2, 96, true, NULL));
    CUDA_CHECK(cudaDeviceSynchronize());
    for (uint32_t i = 0; i < 2 * 96; i++) {
        CT_CHECK_EQ_U64(words[i], 3 * (95 - i % 96 + 100 * (i / 96)));
    }
}

static __global__ void departed_kernel(word_args args)
{
    if (threadIdx.x != 9) {
        args.words[threadIdx.x] = __shfl_sync(0xffffffffu, 1u, 9);
    }
}

static __global__ void missing_kernel(word_args args)
{
    if (threadIdx.x == 9) {
        __syncthreads(); /* the others wait for it in the warp */
    }
    args.words[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
}

static __global__ void stranger_kernel(word_args args)
{
    args.words[threadIdx.x] = __ballot_sync(0xfffffffeu, 1); /* lane 0 does not name itself */
}

static void run_wrong(void (*kernel)(word_args), bool is_warp)
{
    static uint32_t words[LANES];

    CUDA_CHECK(launch(kernel, word_args{words}, 1, LANES, is_warp, NULL));
    CT_CHECK_EQ_I64(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    for (uint32_t word : words) {
        CT_CHECK_EQ_U64(word, 0);
    }
}

CT_TEST(standin_kernel, reading_a_lane_that_left_fails)
{
    run_wrong(departed_kernel, true);
}

CT_TEST(standin_kernel, waiting_for_a_lane_that_never_comes_fails)
{
    run_wrong(missing_kernel, true);
}

CT_TEST(standin_kernel, a_lane_must_name_itself)
{
    run_wrong(stranger_kernel, true);
}

CT_TEST(standin_kernel, threads_without_lanes_cannot_exchange)
{
    run_wrong(stranger_kernel, false);
}

struct count_args {
    unsigned *sum, *most;
    float *float_sum;
};

static __global__ void count_kernel(count_args args)
{
    atomicAdd(args.sum, 1u);
    atomicMax(args.most, blockIdx.x * blockDim.x + threadIdx.x);
    atomicAdd(args.float_sum, 0.5F);
}

CT_TEST(standin_kernel, atomics_count_across_streams)
{
    static unsigned sum, most;
    static float float_sum;
    cudaStream_t streams[2];

    for (cudaStream_t &stream : streams) {
        CUDA_REQUIRE(stream_create(&stream));
        CUDA_CHECK(
            launch(count_kernel, count_args{&sum, &most, &float_sum}, 100, 64, false, stream));
    }
    CUDA_CHECK(cudaDeviceSynchronize());
    CT_CHECK_EQ_U64(sum, 2 * 6400);
    CT_CHECK_EQ_U64(most, 6399);
    CT_CHECK(float_sum == 6400.0F);
    for (cudaStream_t stream : streams) {
        CUDA_CHECK(cudaStreamDestroy(stream));
    }
    check_nothing_left();
}

CT_TEST(standin_kernel, suffixed_arithmetic_rounds_each_step)
{
    volatile float a = 1.0F + 0x1p-12F, b = -(1.0F + 0x1p-11F);

    CT_CHECK(__fadd_rn(__fmul_rn(a, a), b) == 0.0F);
    CT_CHECK(__fmaf_rn(a, a, b) == 0x1p-24F);
}
