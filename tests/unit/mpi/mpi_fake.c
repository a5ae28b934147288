/* See the header. */
#include "tests/unit/mpi/mpi_fake.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"

#define CALLS_MAX 512u

struct started {
    struct ddp_mpi_call call;
    bool is_done;
};

struct mpi_fake mpi_fake;
static struct started *calls[MPI_FAKE_MEMBERS_MAX]; /* [CALLS_MAX] */
static uint32_t call_count[MPI_FAKE_MEMBERS_MAX];
static uint32_t begun_count, joined_count;
static atomic_bool is_released;
static atomic_int hung_count;

void mpi_fake_open(uint32_t size)
{
    memset(&mpi_fake, 0, sizeof(mpi_fake));
    mpi_fake.size = (int)size;
    for (uint32_t i = 0; i < MPI_FAKE_MEMBERS_MAX; i++) {
        free(calls[i]);
        calls[i] = NULL;
        call_count[i] = 0;
    }
    begun_count = 0;
    joined_count = 0;
    atomic_store(&is_released, false);
}

void mpi_fake_await_hung(void)
{
    while (atomic_load(&hung_count) == 0) {
        (void)sched_yield();
    }
}

void mpi_fake_release(void)
{
    atomic_store(&is_released, true);
    while (atomic_load(&hung_count) > 0) {
        (void)sched_yield();
    }
}

/* Nobody listens any more when it returns. */
static int hang(void)
{
    (void)atomic_fetch_add(&hung_count, 1);
    while (!atomic_load(&is_released)) {
        (void)sched_yield();
    }
    (void)atomic_fetch_sub(&hung_count, 1);
    return MPI_FAKE_ERROR;
}

static void fake_describe(char *out, size_t size_bytes)
{
    (void)snprintf(out, size_bytes, "Fake MPI v1");
}

static void fake_error_text(int result, char *out, size_t size_bytes)
{
    (void)snprintf(out, size_bytes, "%s", result == MPI_FAKE_ERROR ? "scripted" : "unknown");
}

static int fake_begin(int *out_rank, int *out_size)
{
    if (mpi_fake.is_begin_hung) {
        return hang();
    }
    *out_rank = (int)begun_count++;
    *out_size = mpi_fake.size;
    return mpi_fake.begin_result;
}

static int fake_end(void)
{
    mpi_fake.end_count++;
    return mpi_fake.is_end_hung ? hang() : mpi_fake.end_result;
}

static int fake_comm_start(struct ddp_mpi_handle *comm, struct ddp_mpi_handle *request)
{
    comm->bits = ++joined_count;
    request->bits = 0;
    return mpi_fake.join_result;
}

static size_t type_bytes(enum ddp_mpi_type type)
{
    static const size_t bytes[] = {[DDP_MPI_F32] = 4, [DDP_MPI_F64] = 8, [DDP_MPI_I32] = 4,
                                   [DDP_MPI_I64] = 8, [DDP_MPI_U8] = 1,  [DDP_MPI_BITS16] = 2};

    return bytes[type];
}

static double read_value(const void *data, size_t index, enum ddp_mpi_type type)
{
    switch (type) {
    case DDP_MPI_F32:
        return (double)((const float *)data)[index];
    case DDP_MPI_F64:
        return ((const double *)data)[index];
    case DDP_MPI_I32:
        return (double)((const int32_t *)data)[index];
    case DDP_MPI_I64:
        return (double)((const int64_t *)data)[index];
    default:
        return (double)((const uint8_t *)data)[index];
    }
}

static void write_value(void *data, size_t index, enum ddp_mpi_type type, double value)
{
    switch (type) {
    case DDP_MPI_F32:
        ((float *)data)[index] = (float)value;
        break;
    case DDP_MPI_F64:
        ((double *)data)[index] = value;
        break;
    case DDP_MPI_I32:
        ((int32_t *)data)[index] = (int32_t)value;
        break;
    case DDP_MPI_I64:
        ((int64_t *)data)[index] = (int64_t)value;
        break;
    default:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    }
}

static double combine(double a, double b, enum ddp_mpi_op op)
{
    switch (op) {
    case DDP_MPI_SUM:
        return a + b;
    case DDP_MPI_PROD:
        return a * b;
    case DDP_MPI_MAX:
        return a > b ? a : b;
    default:
        return a < b ? a : b;
    }
}

static void reduce(uint32_t index)
{
    const struct ddp_mpi_call *first = &calls[0][index].call;

    CT_CHECK(first->type != DDP_MPI_BITS16);
    for (int i = 0; i < first->elem_count; i++) {
        double sum = 0.0;

        for (int m = 0; m < mpi_fake.size; m++) {
            const struct ddp_mpi_call *call = &calls[m][index].call;
            double value =
                read_value(call->input != NULL ? call->input : call->output, (size_t)i, call->type);

            sum = m == 0 ? value : combine(sum, value, call->op);
        }
        for (int m = 0; m < mpi_fake.size; m++) {
            write_value(calls[m][index].call.output, (size_t)i, first->type, sum);
        }
    }
}

static void gather(uint32_t index)
{
    size_t block = (size_t)calls[0][index].call.elem_count * type_bytes(calls[0][index].call.type);

    for (int from = 0; from < mpi_fake.size; from++) {
        const struct ddp_mpi_call *source = &calls[from][index].call;
        const char *input =
            source->input != NULL ? source->input : (char *)source->output + (size_t)from * block;

        for (int to = 0; to < mpi_fake.size; to++) {
            char *place = (char *)calls[to][index].call.output + (size_t)from * block;

            if (place != input) {
                memcpy(place, input, block);
            }
        }
    }
}

static void broadcast(uint32_t index)
{
    int root = calls[0][index].call.root;
    const struct ddp_mpi_call *source = &calls[root][index].call;

    for (int m = 0; m < mpi_fake.size; m++) {
        if (m != root) {
            memcpy(calls[m][index].call.output, source->output,
                   (size_t)source->elem_count * type_bytes(source->type));
        }
    }
}

/* All members have come. */
static void complete(uint32_t index)
{
    switch (calls[0][index].call.kind) {
    case DDP_MPI_ALL_REDUCE:
        reduce(index);
        break;
    case DDP_MPI_ALL_GATHER:
        gather(index);
        break;
    case DDP_MPI_BROADCAST:
        broadcast(index);
        break;
    default:
        break;
    }
    for (int m = 0; m < mpi_fake.size; m++) {
        calls[m][index].is_done = true;
    }
}

static int fake_start(const struct ddp_mpi_handle *comm, const struct ddp_mpi_call *call,
                      struct ddp_mpi_handle *request)
{
    uint32_t member = (uint32_t)comm->bits - 1;
    uint32_t index = call_count[member];
    bool is_last = true;

    mpi_fake.start_count++;
    if (mpi_fake.start_result != 0) {
        return mpi_fake.start_result;
    }
    if (calls[member] == NULL) {
        calls[member] = calloc(CALLS_MAX, sizeof(*calls[member]));
    }
    DDP_ASSERT(calls[member] != NULL && index < CALLS_MAX);
    calls[member][index].call = *call;
    call_count[member]++;
    request->bits = (uint64_t)member << 32 | (index + 1);
    for (int m = 0; m < mpi_fake.size; m++) {
        is_last = is_last && call_count[m] > index;
    }
    if (is_last) {
        complete(index);
    }
    return 0;
}

static int fake_test(struct ddp_mpi_handle *request, bool *out_is_done)
{
    uint32_t index = (uint32_t)request->bits;

    *out_is_done =
        index == 0 || (!mpi_fake.is_stuck && calls[request->bits >> 32][index - 1].is_done);
    return index == 0 ? 0 : mpi_fake.test_result;
}

static int fake_progress(const struct ddp_mpi_handle *comm)
{
    (void)comm;
    mpi_fake.progress_count++;
    return 0;
}

const struct ddp_mpi_module *mpi_fake_module(void)
{
    static const struct ddp_mpi_module module = {.abi = DDP_MPI_ABI,
                                                 .describe = fake_describe,
                                                 .error_text = fake_error_text,
                                                 .begin = fake_begin,
                                                 .end = fake_end,
                                                 .comm_start = fake_comm_start,
                                                 .start = fake_start,
                                                 .test = fake_test,
                                                 .progress = fake_progress};

    return &module;
}
