/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result. */
#include "tests/standin/nccl/cases.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/dtype.h"
#include "tests/standin/nccl/hooks.h"

#define DEADLINE_NS 30000000000ull

int case_await(struct standin_comm *comm)
{
    uint64_t end_ns = ddp_clock_now_ns(ddp_clock_monotonic()) + DEADLINE_NS;
    int state = STANDIN_IN_PROGRESS;
    while (ncclCommGetAsyncError(comm, &state) == STANDIN_SUCCESS && state == STANDIN_IN_PROGRESS &&
           ddp_clock_now_ns(ddp_clock_monotonic()) < end_ns) {
        (void)poll(NULL, 0, 1);
    }
    return state;
}

bool case_await_idle(struct standin_comm *comm)
{
    uint64_t end_ns = ddp_clock_now_ns(ddp_clock_monotonic()) + DEADLINE_NS;
    while (ddp_nccl_standin_pending(comm) > 0 && ddp_clock_now_ns(ddp_clock_monotonic()) < end_ns) {
        (void)poll(NULL, 0, 1);
    }
    return ddp_nccl_standin_pending(comm) == 0;
}

int case_init(const struct standin_id *id, int rank, int rank_count, bool is_blocking,
              struct standin_comm **out)
{
    struct standin_config config = {.size = offsetof(struct standin_config, cga_cluster_size),
                                    .magic = STANDIN_CONFIG_MAGIC,
                                    .version = 21400,
                                    .blocking = is_blocking};
    int result = ncclCommInitRankConfig(out, rank_count, *id, rank, &config);
    return result == STANDIN_IN_PROGRESS ? case_await(*out) : result;
}

int case_finish(struct standin_comm *comm, int result)
{
    if (result == STANDIN_IN_PROGRESS) {
        result = case_await(comm);
    }
    if (result == STANDIN_SUCCESS && !case_await_idle(comm)) {
        return STANDIN_IN_PROGRESS;
    }
    int state = STANDIN_SUCCESS;
    return result == STANDIN_SUCCESS && ncclCommGetAsyncError(comm, &state) == STANDIN_SUCCESS
               ? state
               : result;
}

static uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 29)) * 0xbf58476d1ce4e5b9ull;
    return value ^ (value >> 32);
}

static const size_t bytes_of[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

void case_input(int dtype, int rank, uint64_t index, void *out)
{
    uint64_t bits = mix(mix(index + 1) + (uint64_t)rank + 1);
    double value = ((double)(bits & 0xffff) / 65536 - 0.5) * exp2((double)(bits >> 60) - 8);
    float single = (float)value;
    uint16_t half = dtype == STANDIN_FLOAT16 ? ddp_f16_from_f32(single) : ddp_bf16_from_f32(single);
    switch (dtype) {
    case STANDIN_FLOAT64:
        memcpy(out, &value, sizeof value);
        break;
    case STANDIN_FLOAT32:
        memcpy(out, &single, sizeof single);
        break;
    case STANDIN_FLOAT16:
    case STANDIN_BFLOAT16:
        memcpy(out, &half, sizeof half);
        break;
    default:
        memcpy(out, &bits, bytes_of[dtype]);
        break;
    }
}

static double combine(int redop, double a, double b)
{
    double low = a < b || isnan(b) ? a : b;
    double high = a > b || isnan(b) ? a : b;
    return redop == STANDIN_SUM    ? a + b
           : redop == STANDIN_PROD ? a * b
           : redop == STANDIN_MIN  ? low
                                   : high;
}

/* Integers by 64 bits: sums and products agree in the low ones. */
static uint64_t combine_bits(int redop, bool is_signed, unsigned width, uint64_t a, uint64_t b)
{
    unsigned shift = 64 - width;
    bool is_less =
        is_signed ? (int64_t)(a << shift) < (int64_t)(b << shift) : (a << shift) < (b << shift);
    return redop == STANDIN_SUM                ? a + b
           : redop == STANDIN_PROD             ? a * b
           : (redop == STANDIN_MIN) == is_less ? a
                                               : b;
}

static double load_float(int dtype, const void *data)
{
    double wide = 0;
    float single = 0;
    uint16_t half = 0;
    switch (dtype) {
    case STANDIN_FLOAT64:
        memcpy(&wide, data, sizeof wide);
        return wide;
    case STANDIN_FLOAT32:
        memcpy(&single, data, sizeof single);
        return (double)single;
    default:
        memcpy(&half, data, sizeof half);
        return (double)(dtype == STANDIN_FLOAT16 ? ddp_f16_to_f32(half) : ddp_bf16_to_f32(half));
    }
}

/* The operation in double is exact for the 16-bit types, and for float rounds as float does. */
static void store_float(int dtype, double value, void *data)
{
    float single = (float)value;
    uint16_t half = dtype == STANDIN_FLOAT16 ? ddp_f16_from_f32(single) : ddp_bf16_from_f32(single);
    if (dtype == STANDIN_FLOAT64) {
        memcpy(data, &value, sizeof value);
    } else if (dtype == STANDIN_FLOAT32) {
        memcpy(data, &single, sizeof single);
    } else {
        memcpy(data, &half, sizeof half);
    }
}

static void fold(int dtype, int redop, const void *own, void *partial)
{
    if (dtype >= STANDIN_FLOAT16) {
        store_float(dtype, combine(redop, load_float(dtype, own), load_float(dtype, partial)),
                    partial);
        return;
    }
    uint64_t a = 0, b = 0;
    memcpy(&a, own, bytes_of[dtype]);
    memcpy(&b, partial, bytes_of[dtype]);
    bool is_signed = dtype == STANDIN_INT8 || dtype == STANDIN_INT32 || dtype == STANDIN_INT64;
    a = combine_bits(redop, is_signed, (unsigned)(8 * bytes_of[dtype]), a, b);
    memcpy(partial, &a, bytes_of[dtype]);
}

/* Rank at which the fold of an element ends. */
static int owner(int dtype, int rank_count, int channel_count, uint64_t count, uint64_t index)
{
    uint64_t elem_bytes = bytes_of[dtype], ranks = (uint64_t)rank_count;
    uint64_t channels = (uint64_t)channel_count;
    uint64_t part = ((count + channels - 1) / channels + 7) / 8 * 8;
    uint64_t in_channel = index % part;
    uint64_t channel_start = index - in_channel;
    uint64_t rest = count - channel_start < part ? count - channel_start : part;
    uint64_t full = 32768 / elem_bytes;
    while (in_channel >= ranks * full) {
        in_channel -= ranks * full;
        rest -= ranks * full;
    }
    uint64_t step = 16 / elem_bytes;
    uint64_t chunk = ((rest + ranks - 1) / ranks + step - 1) / step * step;
    return (int)(in_channel / (chunk < full ? chunk : full));
}

void case_all_reduce_expected(int dtype, int redop, int rank_count, int channel_count,
                              uint64_t count, uint64_t index, void *out)
{
    int last = owner(dtype, rank_count, channel_count, count, index);
    unsigned char own[8];
    case_input(dtype, (last + 1) % rank_count, index, out);
    for (int k = 2; k <= rank_count; k++) {
        case_input(dtype, (last + k) % rank_count, index, own);
        fold(dtype, redop, own, out);
    }
}

struct shape {
    int rank, rank_count;
};

static struct shape shape_of(struct standin_comm *comm)
{
    struct shape shape = {-1, 0};
    (void)ncclCommUserRank(comm, &shape.rank);
    (void)ncclCommCount(comm, &shape.rank_count);
    return shape;
}

static void fill(unsigned char *data, int dtype, int rank, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        case_input(dtype, rank, first + i, data + i * bytes_of[dtype]);
    }
}

static const char *describe(const char *what, int dtype, uint64_t count, uint64_t index)
{
    static _Thread_local char text[128];
    (void)snprintf(text, sizeof text, "%s: type %d, %llu elements, element %llu is wrong", what,
                   dtype, (unsigned long long)count, (unsigned long long)index);
    return text;
}

static const char *all_reduce_one(struct standin_comm *comm, int dtype, int redop, uint64_t count,
                                  bool is_in_place)
{
    struct shape shape = shape_of(comm);
    const char *channels = getenv("NCCL_MAX_NCHANNELS");
    int channel_count = channels == NULL ? 2 : (int)strtol(channels, NULL, 10);
    size_t bytes = count * bytes_of[dtype];
    unsigned char *in = malloc(bytes + 8), *out = malloc(bytes + 8);
    const char *failure = in == NULL || out == NULL ? "no memory" : NULL;
    if (failure == NULL) {
        fill(in, dtype, shape.rank, 0, count);
        memset(in + bytes, 0x5a, 8);
        memset(out, 0x5a, bytes + 8);
        unsigned char *target = is_in_place ? in : out;
        int result = case_finish(comm, ncclAllReduce(in, target, count, dtype, redop, comm, NULL));
        if (result != STANDIN_SUCCESS) {
            failure = ncclGetErrorString(result);
        }
        for (uint64_t i = 0; i < count && failure == NULL; i++) {
            unsigned char expected[8];
            case_all_reduce_expected(dtype, redop, shape.rank_count, channel_count, count, i,
                                     expected);
            if (memcmp(target + i * bytes_of[dtype], expected, bytes_of[dtype]) != 0) {
                failure = describe("all_reduce", dtype, count, i);
            }
        }
        if (failure == NULL && memcmp(target + bytes, "ZZZZZZZZ", 8) != 0) {
            failure = "all_reduce wrote past the end";
        }
    }
    free(in);
    free(out);
    return failure;
}

const char *case_all_reduce(struct standin_comm *comm, int redop)
{
    static const uint64_t counts[] = {1, 7, 1023, 4097};
    const char *failure = NULL;
    for (int dtype = 0; dtype < (int)(sizeof bytes_of / sizeof bytes_of[0]); dtype++) {
        for (size_t i = 0; i < sizeof counts / sizeof counts[0] && failure == NULL; i++) {
            failure = all_reduce_one(comm, dtype, redop, counts[i], i % 2 == 1);
        }
    }
    /* More than one loop in each channel. */
    return failure != NULL ? failure : all_reduce_one(comm, STANDIN_FLOAT64, redop, 35003, false);
}

const char *case_broadcast(struct standin_comm *comm)
{
    enum { COUNT = 20011 };
    struct shape shape = shape_of(comm);
    static _Thread_local unsigned char in[COUNT], out[COUNT], expected[COUNT];
    for (int root = 0; root < shape.rank_count; root++) {
        fill(expected, STANDIN_UINT8, 100 + root, 0, COUNT);
        memset(out, 0, sizeof out);
        memcpy(in, expected, sizeof in);
        const void *send = shape.rank == root ? in : NULL;
        int result =
            case_finish(comm, ncclBroadcast(send, out, COUNT, STANDIN_UINT8, root, comm, NULL));
        if (result != STANDIN_SUCCESS) {
            return ncclGetErrorString(result);
        }
        if (memcmp(out, expected, sizeof out) != 0) {
            return "broadcast: wrong data";
        }
    }
    return NULL;
}

/* The chain that ends at last. */
static void chain_expected(int rank_count, int last, uint64_t index, float *out)
{
    float own = 0;
    case_input(STANDIN_FLOAT32, (last + 1) % rank_count, index, out);
    for (int k = 2; k <= rank_count; k++) {
        case_input(STANDIN_FLOAT32, (last + k) % rank_count, index, &own);
        *out = own + *out;
    }
}

const char *case_reduce(struct standin_comm *comm)
{
    enum { COUNT = 9001 };
    struct shape shape = shape_of(comm);
    static _Thread_local float in[COUNT], out[COUNT];
    for (int root = 0; root < shape.rank_count; root++) {
        fill((unsigned char *)in, STANDIN_FLOAT32, shape.rank, 0, COUNT);
        int result = case_finish(comm, ncclReduce(in, shape.rank == root ? out : NULL, COUNT,
                                                  STANDIN_FLOAT32, STANDIN_SUM, root, comm, NULL));
        if (result != STANDIN_SUCCESS) {
            return ncclGetErrorString(result);
        }
        for (uint64_t i = 0; i < COUNT && shape.rank == root; i++) {
            float expected = 0;
            chain_expected(shape.rank_count, root, i, &expected);
            if (memcmp(&expected, &out[i], sizeof expected) != 0) {
                return describe("reduce", STANDIN_FLOAT32, COUNT, i);
            }
        }
    }
    return NULL;
}

const char *case_all_gather(struct standin_comm *comm)
{
    enum { COUNT = 5003, RANKS = 4 };
    struct shape shape = shape_of(comm);
    static _Thread_local uint32_t in[COUNT], out[RANKS * COUNT], expected[RANKS * COUNT];
    if (shape.rank_count > RANKS) {
        return "too many ranks for this case";
    }
    fill((unsigned char *)in, STANDIN_UINT32, shape.rank, 0, COUNT);
    for (int rank = 0; rank < shape.rank_count; rank++) {
        fill((unsigned char *)(expected + rank * COUNT), STANDIN_UINT32, rank, 0, COUNT);
    }
    int result = case_finish(comm, ncclAllGather(in, out, COUNT, STANDIN_UINT32, comm, NULL));
    if (result != STANDIN_SUCCESS) {
        return ncclGetErrorString(result);
    }
    size_t bytes = (size_t)shape.rank_count * COUNT * sizeof out[0];
    return memcmp(out, expected, bytes) == 0 ? NULL : "all_gather: wrong data";
}

const char *case_reduce_scatter(struct standin_comm *comm)
{
    enum { COUNT = 9001, RANKS = 4 };
    struct shape shape = shape_of(comm);
    static _Thread_local float in[RANKS * COUNT], out[COUNT];
    uint64_t total = (uint64_t)shape.rank_count * COUNT;
    fill((unsigned char *)in, STANDIN_FLOAT32, shape.rank, 0, total);
    int result = case_finish(
        comm, ncclReduceScatter(in, out, COUNT, STANDIN_FLOAT32, STANDIN_SUM, comm, NULL));
    if (result != STANDIN_SUCCESS) {
        return ncclGetErrorString(result);
    }
    for (uint64_t i = 0; i < COUNT; i++) {
        float expected = 0;
        chain_expected(shape.rank_count, shape.rank, (uint64_t)shape.rank * COUNT + i, &expected);
        if (memcmp(&expected, &out[i], sizeof expected) != 0) {
            return describe("reduce_scatter", STANDIN_FLOAT32, COUNT, i);
        }
    }
    return NULL;
}

static const char *exchange(struct standin_comm *comm, const struct shape *shape, uint64_t count)
{
    uint64_t ranks = (uint64_t)shape->rank_count, self = (uint64_t)shape->rank;
    uint64_t *in = calloc(ranks * count + 1, sizeof *in);
    uint64_t *out = calloc(ranks * count + 1, sizeof *out);
    const char *failure = in == NULL || out == NULL ? "no memory" : NULL;
    if (failure == NULL) {
        for (uint64_t i = 0; i < ranks * count; i++) {
            in[i] = mix(self * 1000003 + i);
        }
        (void)ncclGroupStart();
        for (uint64_t peer = 0; peer < ranks; peer++) {
            (void)ncclSend(in + peer * count, count, STANDIN_UINT64, (int)peer, comm, NULL);
            (void)ncclRecv(out + peer * count, count, STANDIN_UINT64, (int)peer, comm, NULL);
        }
        int result = case_finish(comm, ncclGroupEnd());
        failure = result == STANDIN_SUCCESS ? NULL : ncclGetErrorString(result);
        for (uint64_t i = 0; i < ranks * count && failure == NULL; i++) {
            uint64_t peer = i / count;
            if (out[i] != mix(peer * 1000003 + self * count + i % count)) {
                failure = describe("send and receive", STANDIN_UINT64, count, i);
            }
        }
    }
    free(in);
    free(out);
    return failure;
}

const char *case_send_recv(struct standin_comm *comm)
{
    struct shape shape = shape_of(comm);
    const char *failure = exchange(comm, &shape, 3);
    return failure != NULL ? failure : exchange(comm, &shape, 200003);
}
