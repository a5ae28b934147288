/* The CUDA stand-in's streams, events and errors. Nothing that runs on it is a GPU result. */
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/standin/kernel_testing.h"
#include "tests/standin/standin_testing.h"

struct step_args {
    uint64_t *value;
    uint64_t step;
};

/* Not commutative, so that any other order gives another value. */
static __global__ void step_kernel(step_args args)
{
    *args.value = *args.value * 3 + args.step;
}

static cudaError_t step(uint64_t *value, uint64_t by, cudaStream_t stream)
{
    return launch(step_kernel, step_args{value, by}, 1, 1, false, stream);
}

static void run_in_order(const char *seed)
{
    enum { STEPS = 200 };
    uint64_t *value, *result, expected = 0;
    cudaStream_t stream;

    setenv("DDP_STANDIN_SEED", seed, 1);
    CUDA_REQUIRE(stream_create(&stream));
    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&value), sizeof(*value)));
    CUDA_REQUIRE(cudaHostAlloc(reinterpret_cast<void **>(&result), sizeof(*result), 0));
    CUDA_CHECK(cudaMemsetAsync(value, 0, sizeof(*value), stream));
    for (uint64_t i = 0; i < STEPS; i++) {
        CUDA_CHECK(step(value, i, stream));
        expected = expected * 3 + i;
    }
    CUDA_CHECK(cudaMemcpyAsync(result, value, sizeof(*value), cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    CT_CHECK_EQ_U64(*result, expected);
    CUDA_CHECK(cudaFree(value));
    CUDA_CHECK(cudaFreeHost(result));
    CUDA_CHECK(cudaStreamDestroy(stream));
    check_nothing_left();
}

CT_TEST(standin, a_stream_keeps_its_order)
{
    run_in_order("0");
}

CT_TEST(standin, a_stream_keeps_its_order_when_it_holds_back)
{
    run_in_order("12345");
}

/* Each stream waits for the other in turn: one after the other they would never end. */
CT_TEST(standin, streams_run_beside_each_other)
{
    enum { ROUNDS = 50 };
    static standin_gate there[ROUNDS], back[ROUNDS];
    cudaStream_t a, b;

    CUDA_REQUIRE(stream_create(&a));
    CUDA_REQUIRE(stream_create(&b));
    for (int i = 0; i < ROUNDS; i++) {
        CUDA_CHECK(gate_open_enqueue(&there[i], a));
        CUDA_CHECK(gate_enqueue(&back[i], a));
        CUDA_CHECK(gate_enqueue(&there[i], b));
        CUDA_CHECK(gate_open_enqueue(&back[i], b));
    }
    CUDA_CHECK(cudaStreamSynchronize(a));
    CUDA_CHECK(cudaStreamSynchronize(b));
    CT_CHECK(gate_is_entered(&there[ROUNDS - 1]) && gate_is_entered(&back[ROUNDS - 1]));
    CUDA_CHECK(cudaStreamDestroy(a));
    CUDA_CHECK(cudaStreamDestroy(b));
    check_nothing_left();
}

CT_TEST(standin, the_default_stream_runs_beside_others)
{
    static standin_gate gate;
    cudaStream_t other;

    CUDA_REQUIRE(stream_create(&other));
    CUDA_CHECK(gate_enqueue(&gate, NULL));
    CUDA_CHECK(cudaStreamSynchronize(other));
    gate_open(&gate);
    CUDA_CHECK(cudaStreamSynchronize(NULL));
    CUDA_CHECK(cudaStreamDestroy(other));
}

CT_TEST(standin, an_event_is_ready_when_the_stream_has_passed_it)
{
    static standin_gate gate, later;
    cudaStream_t stream;
    cudaEvent_t event;

    CUDA_REQUIRE(stream_create(&stream));
    CUDA_REQUIRE(event_create(&event));
    CUDA_CHECK(cudaEventQuery(event)); /* never recorded */
    CUDA_CHECK(gate_enqueue(&gate, stream));
    CUDA_CHECK(cudaEventRecord(event, stream));
    CUDA_CHECK(gate_enqueue(&later, stream));
    CT_CHECK_EQ_I64(cudaEventQuery(event), cudaErrorNotReady);
    CUDA_CHECK(cudaPeekAtLastError()); /* not ready is no error */
    gate_open(&gate);
    CUDA_CHECK(event_poll(event)); /* though what was enqueued later still waits */
    gate_open(&later);
    CUDA_CHECK(cudaEventDestroy(event));
    CUDA_CHECK(cudaStreamDestroy(stream));
    CUDA_CHECK(cudaDeviceSynchronize());
    check_nothing_left();
}

CT_TEST(standin, an_event_means_its_last_record)
{
    static standin_gate gate;
    cudaStream_t quick, slow, waiting;
    cudaEvent_t event, waited;

    CUDA_REQUIRE(stream_create(&quick));
    CUDA_REQUIRE(stream_create(&slow));
    CUDA_REQUIRE(stream_create(&waiting));
    CUDA_REQUIRE(event_create(&event));
    CUDA_REQUIRE(event_create(&waited));
    CUDA_CHECK(cudaEventRecord(event, quick));
    CUDA_CHECK(cudaStreamWaitEvent(waiting, event, 0));
    CUDA_CHECK(gate_enqueue(&gate, slow));
    CUDA_CHECK(cudaEventRecord(event, slow));
    CT_CHECK_EQ_I64(cudaEventQuery(event), cudaErrorNotReady);
    /* The wait above is for the first record. */
    CUDA_CHECK(cudaEventRecord(waited, waiting));
    CUDA_CHECK(event_poll(waited));
    CUDA_CHECK(cudaEventDestroy(waited));
    CUDA_CHECK(cudaEventDestroy(event)); /* while its record is on the way */
    gate_open(&gate);
    CUDA_CHECK(cudaStreamSynchronize(slow));
    CUDA_CHECK(cudaStreamDestroy(quick));
    CUDA_CHECK(cudaStreamDestroy(slow));
    CUDA_CHECK(cudaStreamDestroy(waiting));
    check_nothing_left();
}

struct move_args {
    uint64_t *target;
    const uint64_t *source;
};

static __global__ void move_kernel(move_args args)
{
    *args.target = *args.source;
}

CT_TEST(standin, a_wait_holds_one_stream)
{
    static standin_gate gate;
    uint64_t *words;
    uint64_t result[2];
    cudaStream_t first, second, third;
    cudaEvent_t made, passed;

    CUDA_REQUIRE(stream_create(&first));
    CUDA_REQUIRE(stream_create(&second));
    CUDA_REQUIRE(stream_create(&third));
    CUDA_REQUIRE(event_create(&made));
    CUDA_REQUIRE(event_create(&passed));
    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&words), sizeof(result)));
    CUDA_CHECK(cudaMemsetAsync(words, 0, sizeof(result), first));
    CUDA_CHECK(gate_enqueue(&gate, first));
    CUDA_CHECK(step(words, 41, first));
    CUDA_CHECK(cudaEventRecord(made, first));
    CUDA_CHECK(cudaStreamWaitEvent(second, made, 0));
    CUDA_CHECK(launch(move_kernel, move_args{words + 1, words}, 1, 1, false, second));
    CUDA_CHECK(cudaEventRecord(passed, second));
    CUDA_CHECK(cudaStreamSynchronize(third));
    CT_CHECK_EQ_I64(cudaEventQuery(passed), cudaErrorNotReady);
    gate_open(&gate);
    CUDA_CHECK(event_poll(passed));
    CUDA_CHECK(cudaMemcpyAsync(result, words, sizeof(result), cudaMemcpyDefault, second));
    CT_CHECK_EQ_U64(result[1], 41);
    CUDA_CHECK(cudaFree(words));
    CUDA_CHECK(cudaEventDestroy(made));
    CUDA_CHECK(cudaEventDestroy(passed));
    CUDA_CHECK(cudaStreamDestroy(first));
    CUDA_CHECK(cudaStreamDestroy(second));
    CUDA_CHECK(cudaStreamDestroy(third));
    check_nothing_left();
}

CT_TEST(standin, a_destroyed_stream_finishes_its_work)
{
    static standin_gate gate, end;
    cudaStream_t stream, other;

    CUDA_REQUIRE(stream_create(&stream));
    CUDA_REQUIRE(stream_create(&other));
    CUDA_CHECK(gate_enqueue(&gate, stream));
    CUDA_CHECK(gate_open_enqueue(&end, stream));
    CUDA_CHECK(cudaStreamDestroy(stream));
    CUDA_CHECK(gate_enqueue(&end, other));
    gate_open(&gate);
    CUDA_CHECK(cudaStreamSynchronize(other));
    CUDA_CHECK(cudaStreamDestroy(other));
    check_nothing_left();
}

struct trap_args {
    uint64_t *touched;
};

static __global__ void trap_kernel(trap_args args)
{
    if (blockIdx.x > 0) {
        *args.touched = 1;
    } else if (threadIdx.x == 3) {
        standin_trap();
    }
}

static void run_trap(bool is_warp)
{
    static standin_gate before, after, elsewhere;
    cudaStream_t stream, other;
    cudaEvent_t event;
    uint64_t touched = 0;
    void *data = &touched;

    CUDA_REQUIRE(stream_create(&stream));
    CUDA_REQUIRE(stream_create(&other));
    CUDA_REQUIRE(event_create(&event));
    CUDA_CHECK(gate_enqueue(&elsewhere, other));
    CUDA_CHECK(gate_enqueue(&before, stream));
    CUDA_CHECK(launch(trap_kernel, trap_args{&touched}, 2, 32, is_warp, stream));
    CUDA_CHECK(launch(trap_kernel, trap_args{&touched}, 2, 32, is_warp, stream));
    CUDA_CHECK(cudaEventRecord(event, stream));
    CUDA_CHECK(gate_enqueue(&after, stream));
    CUDA_CHECK(cudaGetLastError()); /* nothing has run yet */
    gate_open(&before);
    CT_CHECK_EQ_I64(event_poll(event), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaGetLastError(), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaGetLastError(), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaMalloc(&data, 8), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(launch(trap_kernel, trap_args{&touched}, 1, 1, false, stream),
                    cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(gate_enqueue(&after, stream), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaEventDestroy(event), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaStreamDestroy(stream), cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaStreamDestroy(other), cudaErrorIllegalAddress);
    while (!gate_is_cancelled(&after) || !gate_is_cancelled(&elsewhere)) {
        sched_yield();
    }
    CT_CHECK_EQ_U64(touched, 0);
    check_nothing_left();
}

CT_TEST(standin, a_kernel_that_fails_fails_the_device)
{
    run_trap(false);
}

CT_TEST(standin, a_lane_that_fails_fails_the_device)
{
    run_trap(true);
}

CT_TEST(standin, the_first_failure_stays)
{
    ddp_standin_device_fail(cudaErrorECCUncorrectable);
    ddp_standin_device_fail(cudaErrorIllegalAddress);
    CT_CHECK_EQ_I64(cudaDeviceSynchronize(), cudaErrorECCUncorrectable);
    CT_CHECK_STR(cudaGetErrorName(cudaErrorECCUncorrectable), "cudaErrorECCUncorrectable");
    CT_CHECK_STR(cudaGetErrorString(cudaErrorECCUncorrectable),
                 "uncorrectable ECC error encountered");
}

CT_TEST(standin, a_bad_launch_sticks_to_nothing)
{
    CT_CHECK_EQ_I64(launch(trap_kernel, trap_args{NULL}, 0, 1, false, NULL),
                    cudaErrorInvalidConfiguration);
    CT_CHECK_EQ_I64(launch(trap_kernel, trap_args{NULL}, 1, 1025, false, NULL),
                    cudaErrorInvalidConfiguration);
    CT_CHECK_EQ_I64(cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    CT_CHECK_EQ_I64(cudaGetLastError(), cudaErrorInvalidConfiguration);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaDeviceSynchronize());
}

CT_TEST(standin, cards_are_counted)
{
    cudaDeviceProp properties;
    int value = -1;

    setenv("DDP_STANDIN_CARDS", "2", 1);
    CUDA_CHECK(cudaGetDeviceCount(&value));
    CT_CHECK_EQ_I64(value, 2);
    CUDA_CHECK(cudaSetDevice(1));
    CUDA_CHECK(cudaGetDevice(&value));
    CT_CHECK_EQ_I64(value, 1);
    CT_CHECK_EQ_I64(cudaSetDevice(2), cudaErrorInvalidDevice);
    CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
    CT_CHECK_STR(properties.name, "stand-in, not a GPU");
    CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0));
    CT_CHECK_EQ_I64(value, properties.multiProcessorCount);
}

CT_TEST(standin, no_card_is_an_error)
{
    int count = -1;

    setenv("DDP_STANDIN_CARDS", "0", 1);
    CT_CHECK_EQ_I64(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    CT_CHECK_EQ_I64(count, 0);
    CT_CHECK_EQ_I64(cudaSetDevice(0), cudaErrorNoDevice);
}

CT_TEST(standin, a_forked_child_has_no_device)
{
    int state = -1;
    pid_t child;

    CUDA_REQUIRE(cudaSetDevice(0));
    child = fork();
    if (child == 0) {
        int count;
        _exit(cudaGetDeviceCount(&count) == cudaErrorInitializationError ? 0 : 1);
    }
    CT_REQUIRE(child > 0 && waitpid(child, &state, 0) == child);
    CT_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CUDA_CHECK(cudaSetDevice(0));
}

typedef CUresult write_value_function(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                      unsigned flags);

static write_value_function *find_write_value(void)
{
    cudaDriverEntryPointQueryResult found;
    void *function = NULL;

    if (cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &function, 11070,
                                         cudaEnableDefault, &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess) {
        return NULL;
    }
    return reinterpret_cast<write_value_function *>(function);
}

/* What the stream wrote before the word is there when another process sees the word. */
CT_TEST(standin, another_process_sees_a_stored_word)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    write_value_function *write_value;
    cudaStream_t stream;
    const pid_t parent = getpid();
    int state = -1;
    pid_t child;
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t *words = static_cast<uint64_t *>(memory);

    CT_REQUIRE(memory != MAP_FAILED);
    child = fork(); /* before the device starts */
    if (child == 0) {
        while (__atomic_load_n(&words[0], __ATOMIC_ACQUIRE) != 7 && getppid() == parent) {
            sched_yield();
        }
        _exit(words[1] == 23 ? 0 : 1);
    }
    CT_REQUIRE(child > 0);
    write_value = find_write_value();
    CT_REQUIRE(write_value != NULL);
    CUDA_REQUIRE(stream_create(&stream));
    CT_CHECK_EQ_I64(write_value(stream, reinterpret_cast<CUdeviceptr>(words), 7, 0),
                    CUDA_ERROR_INVALID_VALUE); /* not registered */
    CUDA_CHECK(cudaHostRegister(memory, page, cudaHostRegisterMapped));
    CUDA_CHECK(step(&words[1], 23, stream));
    CT_CHECK_EQ_I64(write_value(stream, reinterpret_cast<CUdeviceptr>(words), 7, 0), CUDA_SUCCESS);
    CT_CHECK(waitpid(child, &state, 0) == child);
    CT_CHECK(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    CUDA_CHECK(cudaHostUnregister(memory));
    CUDA_CHECK(cudaStreamDestroy(stream));
    munmap(memory, page);
    check_nothing_left();
}

CT_TEST(standin, storing_words_can_be_unsupported)
{
    uint64_t *word;
    write_value_function *write_value;

    setenv("DDP_STANDIN_WRITE_VALUE", "0", 1);
    write_value = find_write_value();
    CT_REQUIRE(write_value != NULL);
    CUDA_REQUIRE(cudaMalloc(reinterpret_cast<void **>(&word), sizeof(*word)));
    CT_CHECK_EQ_I64(write_value(NULL, reinterpret_cast<CUdeviceptr>(word), 7, 0),
                    CUDA_ERROR_NOT_SUPPORTED);
    CUDA_CHECK(cudaFree(word));
}

#ifdef __SANITIZE_THREAD__
/* Only events order streams here, so ThreadSanitizer takes part as the device's race checker. True
 * if it found the race of two streams that write the same word. */
static bool is_race_seen(bool has_wait)
{
    int state = 0;
    pid_t child = fork();

    if (child == 0) {
        uint64_t *value;
        cudaStream_t first, second;
        cudaEvent_t event;
        if (freopen("/dev/null", "w", stderr) == NULL || stream_create(&first) != cudaSuccess ||
            stream_create(&second) != cudaSuccess || event_create(&event) != cudaSuccess ||
            cudaMalloc(reinterpret_cast<void **>(&value), sizeof(*value)) != cudaSuccess) {
            _exit(1);
        }
        (void)step(value, 1, first);
        (void)cudaEventRecord(event, first);
        if (has_wait) {
            (void)cudaStreamWaitEvent(second, event, 0);
        }
        (void)step(value, 2, second);
        (void)cudaDeviceSynchronize();
        exit(0);
    }
    return child > 0 && waitpid(child, &state, 0) == child && WIFEXITED(state) &&
           WEXITSTATUS(state) == 66; /* its exit code for reports */
}

CT_TEST(standin, a_missing_wait_is_a_race)
{
    bool is_seen = false;

    /* A lock that both threads happen to pass hides it: how often depends on their timing. */
    for (int i = 0; i < 20 && !is_seen; i++) {
        is_seen = is_race_seen(false);
    }
    CT_CHECK(is_seen);
    CT_CHECK(!is_race_seen(true));
}
#endif
