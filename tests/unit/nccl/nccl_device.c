/* See the header. */
#include "tests/unit/nccl/nccl_device.h"

#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"

#define OPS_MAX 256u

struct ddp_device_event {
    uint64_t recorded, reached; /* numbers of records */
};

struct arguments {
    void *target;
    const void *source;
    size_t count;
    enum ddp_dtype dtype, source_dtype;
    enum ddp_redop redop;
    double factor;
    uint64_t value;
};

/* Returns whether it is done; false: called again later. */
typedef bool op_call(void *context, const struct arguments *arguments);

struct op {
    op_call *call;
    bool (*poll)(void *work); /* instead, for somebody else's work */
    void *context;
    struct arguments arguments;
};

struct ddp_stream {
    struct op ops[OPS_MAX];
    size_t first, count;
};

static struct nccl_device *of(struct ddp_device *device)
{
    return (struct nccl_device *)device;
}

static struct ddp_stream *stream_of(struct ddp_device *device, struct ddp_stream *stream)
{
    return stream != NULL ? stream : of(device)->streams[0];
}

static void push(struct ddp_stream *stream, const struct op *op)
{
    DDP_ASSERT(stream->count < OPS_MAX);
    stream->ops[(stream->first + stream->count++) % OPS_MAX] = *op;
}

void nccl_device_enqueue(void *native_stream, bool (*poll)(void *work), void *work)
{
    const struct op op = {.poll = poll, .context = work};

    push(native_stream, &op);
}

static void enqueue(struct ddp_device *device, struct ddp_stream *stream, op_call *call,
                    void *context, const struct arguments *arguments)
{
    const struct op op = {.call = call, .context = context, .arguments = *arguments};

    push(stream_of(device, stream), &op);
}

bool nccl_device_run(struct nccl_device *device)
{
    bool has_moved = false;

    for (size_t i = 0; i < 8; i++) {
        struct ddp_stream *stream = device->streams[i];

        while (stream != NULL && !device->is_held[i] && stream->count > 0) {
            struct op *op = &stream->ops[stream->first];

            if (op->poll != NULL ? !op->poll(op->context)
                                 : !op->call(op->context, &op->arguments)) {
                break;
            }
            stream->first = (stream->first + 1) % OPS_MAX;
            stream->count--;
            has_moved = true;
        }
    }
    return has_moved;
}

/* A block remembers its size in front, so that what was freed can be spoilt for those who still use
 * it. */
#define HEAD_BYTES 64u

static ddp_status device_alloc(struct ddp_device *device, size_t size_bytes, enum ddp_space space,
                               void **out)
{
    struct ddp_device *cpu = of(device)->cpu;
    void *block = NULL;

    DDP_TRY(cpu->ops->alloc(cpu, HEAD_BYTES + size_bytes, space, &block));
    memcpy(block, &size_bytes, sizeof(size_bytes));
    *out = (char *)block + HEAD_BYTES;
    of(device)->live_blocks++;
    return DDP_OK;
}

static bool is_inside(const void *address, const char *data, size_t size_bytes)
{
    return (uintptr_t)address >= (uintptr_t)data &&
           (uintptr_t)address < (uintptr_t)data + size_bytes;
}

/* Whether the arguments of waiting work hold an address inside the block. */
static bool is_used(const struct nccl_device *device, const char *data, size_t size_bytes)
{
    for (size_t i = 0; i < 8; i++) {
        const struct ddp_stream *stream = device->streams[i];

        for (size_t j = 0; stream != NULL && j < stream->count; j++) {
            const struct op *op = &stream->ops[(stream->first + j) % OPS_MAX];

            if (is_inside(op->arguments.target, data, size_bytes) ||
                is_inside(op->arguments.source, data, size_bytes)) {
                return true;
            }
        }
    }
    return false;
}

static void device_free(struct ddp_device *device, enum ddp_space space, void *data)
{
    size_t size_bytes;
    char *block;

    if (data == NULL) {
        return;
    }
    block = (char *)data - HEAD_BYTES;
    memcpy(&size_bytes, block, sizeof(size_bytes));
    CT_CHECK(!of(device)->is_strict || !is_used(of(device), data, size_bytes));
    memset(data, 0xff, size_bytes);
    of(device)->live_blocks--;
    of(device)->cpu->ops->free(of(device)->cpu, space, block);
}

static bool do_copy(void *context, const struct arguments *a)
{
    struct nccl_device *device = context;

    return device->cpu->ops->copy(device->cpu, NULL, a->target, a->source, a->count) == DDP_OK;
}

static ddp_status device_copy(struct ddp_device *device, struct ddp_stream *stream, void *target,
                              const void *source, size_t size_bytes)
{
    const struct arguments a = {.target = target, .source = source, .count = size_bytes};

    enqueue(device, stream, do_copy, device, &a);
    return DDP_OK;
}

static bool do_zero(void *context, const struct arguments *a)
{
    struct nccl_device *device = context;

    return device->cpu->ops->zero(device->cpu, NULL, a->target, a->count) == DDP_OK;
}

static ddp_status device_zero(struct ddp_device *device, struct ddp_stream *stream, void *target,
                              size_t size_bytes)
{
    const struct arguments a = {.target = target, .count = size_bytes};

    enqueue(device, stream, do_zero, device, &a);
    return DDP_OK;
}

static bool do_reduce(void *context, const struct arguments *a)
{
    struct nccl_device *device = context;

    return device->cpu->ops->reduce(device->cpu, NULL, a->target, a->source, a->count, a->dtype,
                                    a->redop) == DDP_OK;
}

static ddp_status device_reduce(struct ddp_device *device, struct ddp_stream *stream, void *target,
                                const void *source, size_t elem_count, enum ddp_dtype dtype,
                                enum ddp_redop redop)
{
    const struct arguments a = {
        .target = target, .source = source, .count = elem_count, .dtype = dtype, .redop = redop};

    enqueue(device, stream, do_reduce, device, &a);
    return DDP_OK;
}

static bool do_scale(void *context, const struct arguments *a)
{
    struct nccl_device *device = context;

    return device->cpu->ops->scale(device->cpu, NULL, a->target, a->dtype, a->source,
                                   a->source_dtype, a->count, a->factor) == DDP_OK;
}

static ddp_status device_scale(struct ddp_device *device, struct ddp_stream *stream, void *target,
                               enum ddp_dtype target_dtype, const void *source,
                               enum ddp_dtype source_dtype, size_t elem_count, double factor)
{
    const struct arguments a = {.target = target,
                                .source = source,
                                .count = elem_count,
                                .dtype = target_dtype,
                                .source_dtype = source_dtype,
                                .factor = factor};

    enqueue(device, stream, do_scale, device, &a);
    return DDP_OK;
}

static ddp_status device_stream_create(struct ddp_device *device, struct ddp_stream **out)
{
    for (size_t i = 0; i < 8; i++) {
        if (of(device)->streams[i] == NULL) {
            of(device)->streams[i] = calloc(1, sizeof(struct ddp_stream));
            DDP_ASSERT(of(device)->streams[i] != NULL);
            of(device)->live_streams++;
            *out = of(device)->streams[i];
            return DDP_OK;
        }
    }
    return DDP_E_NOMEM;
}

static void device_stream_destroy(struct ddp_device *device, struct ddp_stream *stream)
{
    for (size_t i = 0; i < 8; i++) {
        if (of(device)->streams[i] == stream && stream != NULL) {
            of(device)->streams[i] = NULL;
            of(device)->is_held[i] = false;
            of(device)->live_streams--;
            free(stream);
            return; /* each stream lies in one place */
        }
    }
}

static ddp_status device_event_create(struct ddp_device *device, struct ddp_device_event **out)
{
    *out = ddp_mem_array(device->mem, 1, sizeof(**out));
    DDP_ASSERT(*out != NULL);
    of(device)->live_events++;
    return DDP_OK;
}

static void device_event_destroy(struct ddp_device *device, struct ddp_device_event *event)
{
    of(device)->live_events -= event != NULL ? 1 : 0;
    ddp_mem_free(device->mem, event);
}

static bool do_record(void *context, const struct arguments *a)
{
    struct ddp_device_event *event = context;

    event->reached = a->value;
    return true;
}

static ddp_status device_event_record(struct ddp_device *device, struct ddp_device_event *event,
                                      struct ddp_stream *stream)
{
    const struct arguments a = {.value = ++event->recorded};

    enqueue(device, stream, do_record, event, &a);
    return DDP_OK;
}

static ddp_status device_event_query(struct ddp_device *device, struct ddp_device_event *event)
{
    if (of(device)->is_broken) {
        return DDP_E_DEVICE;
    }
    return event->reached >= event->recorded ? DDP_OK : DDP_PENDING;
}

static bool do_wait(void *context, const struct arguments *a)
{
    const struct ddp_device_event *event = context;

    return event->reached >= a->value;
}

static ddp_status device_stream_wait_event(struct ddp_device *device, struct ddp_stream *stream,
                                           struct ddp_device_event *event)
{
    const struct arguments a = {.value = event->recorded};

    enqueue(device, stream, do_wait, event, &a);
    return DDP_OK;
}

static void *device_native_stream(struct ddp_device *device, struct ddp_stream *stream)
{
    return stream_of(device, stream);
}

static bool do_store(void *context, const struct arguments *a)
{
    uint64_t *word = context;

    *word = a->value;
    return true;
}

static ddp_status device_store_word(struct ddp_device *device, struct ddp_stream *stream,
                                    uint64_t *word, uint64_t value)
{
    const struct arguments a = {.value = value};

    enqueue(device, stream, do_store, word, &a);
    return DDP_OK;
}

static void device_access(struct ddp_device *device, struct ddp_stream *stream, const void *data,
                          size_t size_bytes, bool is_write)
{
    (void)stream;
    (void)data;
    of(device)->access_count++;
    *(is_write ? &of(device)->written_bytes : &of(device)->read_bytes) += size_bytes;
}

static const char *device_last_error(struct ddp_device *device)
{
    return of(device)->is_broken ? "illegal access" : "";
}

static const struct ddp_device_ops device_ops = {
    .name = "queued",
    .is_host_memory = true,
    .alloc = device_alloc,
    .free = device_free,
    .copy = device_copy,
    .zero = device_zero,
    .reduce = device_reduce,
    .scale = device_scale,
    .stream_create = device_stream_create,
    .stream_destroy = device_stream_destroy,
    .event_create = device_event_create,
    .event_destroy = device_event_destroy,
    .event_record = device_event_record,
    .event_query = device_event_query,
    .stream_wait_event = device_stream_wait_event,
    .native_stream = device_native_stream,
    .store_word = device_store_word,
    .last_error = device_last_error,
};

bool nccl_device_open(struct nccl_device *device)
{
    struct ddp_stream *first;

    memset(device, 0, sizeof(*device));
    device->hints = ddp_device_no_hints;
    device->hints.collective_access = device_access;
    device->base.ops = &device_ops;
    device->base.hints = &device->hints;
    if (ddp_mem_pool_create(&device->pool) != DDP_OK) {
        return false;
    }
    device->base.mem = ddp_mem_pool_mem(device->pool);
    if (ddp_device_cpu_create(device->base.mem, &device->cpu) != DDP_OK) {
        return false;
    }
    return device_stream_create(&device->base, &first) == DDP_OK;
}

void nccl_device_close(struct nccl_device *device)
{
    device_stream_destroy(&device->base, device->streams[0]);
    if (!device->is_killed) {
        CT_CHECK_EQ_U64(device->live_streams, 0);
        CT_CHECK_EQ_U64(device->live_events, 0);
        CT_CHECK_EQ_U64(device->live_blocks, 0);
    }
    for (size_t i = 0; i < 8; i++) {
        free(device->streams[i]);
    }
    ddp_mem_pool_destroy(device->pool);
}
