/* NCCL's collectives, for programs that nothing can be preloaded into (NCCL linked statically):
 *
 *     NCCL_PROFILER_PLUGIN=<...>/lib/libnccl-profiler-ddprove.so ddprove exec -- COMMAND
 *
 * Written after NCCL's source, and run on one card with 2.28.3 (README's table says what); tests
 * run it by a program that calls it as NCCL does.
 *
 * Purpose: show collectives as NCCL tells of them: posted and launched when they go to the device,
 * done when all channels of their kernel have ended. Idea: how far a stream is before the kernel
 * runs is not told, so a launch is the rank's coming; what a rank waits for are launched calls that
 * have not ended, in the words of a lane that this library writes itself.
 *
 * Not seen: what is reduced with which operator, messages, collectives that copy engines make,
 * waits on the host. No fault can act: NCCL only tells. NCCL may be told by one profiler at a
 * time. */
#include "harness/guest/nccl/profiler.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/call.h"
#include "harness/guest/lane.h"

/* Calls of a communicator that may be under way at once; an older one counts as ended. */
enum { EVENTS_MAX = 256 };

/* What NCCL holds of an event. */
struct part {
    struct event *event;
    int is_channel; /* of the kernel; else the call */
};
struct event {
    struct part call, channel;
    struct context *context;
    uint64_t seq;
    unsigned channels_left;
};
struct context {
    struct context *next;
    uint64_t key;
    uint32_t comm; /* handle; 0: it is not watched */
    uint32_t lane; /* place + 1; 0: there was none left */
    uint64_t event_count;
    struct event events[EVENTS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct context *contexts;

static void drop(struct context *context, enum guest_free why)
{
    guest_lane_give(context->lane);
    guest_comm_free(context->comm, why);
    context->lane = 0;
    context->comm = 0;
}

/* A process that drives several ranks of a communicator has one place to show them: none is. */
static int has_other_part(uint64_t key)
{
    int is_any = 0;

    for (struct context *other = contexts; other != NULL; other = other->next) {
        if (other->key == key) {
            is_any = 1;
            if (other->comm != 0) {
                drop(other, GUEST_FREE_UNSHOWN);
                guest_comm_lost();
            }
        }
    }
    return is_any;
}

static int init(void **out, uint64_t key, int *mask, const char *name, int size, int rank)
{
    struct context *context;

    *out = NULL;
    (void)ddprove_guest_attach(-1, -1);
    context = ddprove_guest_is_watched() ? calloc(1, sizeof *context) : NULL;
    if (context == NULL) {
        *mask = 0;
        return 0;
    }
    (void)pthread_mutex_lock(&lock);
    context->key = key;
    if (has_other_part(key)) {
        guest_comm_lost();
    } else {
        context->comm = guest_comm_create(key, (uint32_t)rank, (uint32_t)size,
                                          name != NULL ? name : "NCCL", GUEST_COMM_DEVICE);
        context->lane = context->comm != 0
                            ? guest_lane_take(context->comm, (uint64_t)(uintptr_t)context, 0)
                            : 0;
    }
    context->next = contexts;
    contexts = context;
    (void)pthread_mutex_unlock(&lock);
    *mask = GUEST_PROFILE_COLL | GUEST_PROFILE_KERNEL_CH;
    *out = context;
    return 0;
}

static int init_v4(void **out, int *mask, const char *name, uint64_t key, int node_count, int size,
                   int rank, void *log)
{
    (void)node_count;
    (void)log;
    return init(out, key, mask, name, size, rank);
}

static int init_v5(void **out, uint64_t key, int *mask, const char *name, int node_count, int size,
                   int rank, void *log)
{
    (void)node_count;
    (void)log;
    return init(out, key, mask, name, size, rank);
}

static uint32_t find(const char *const *names, uint32_t count, const char *name, uint32_t otherwise)
{
    for (uint32_t i = 0; name != NULL && i < count; i++) {
        if (names[i] != NULL && strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return otherwise;
}

static uint32_t kind_of(const char *func)
{
    static const char *const names[DDPROVE_GUEST_KIND_COUNT] = {
        [DDPROVE_GUEST_ALL_REDUCE] = "AllReduce", [DDPROVE_GUEST_BROADCAST] = "Broadcast",
        [DDPROVE_GUEST_ALL_GATHER] = "AllGather", [DDPROVE_GUEST_REDUCE] = "Reduce",
        [DDPROVE_GUEST_GATHER] = "Gather",        [DDPROVE_GUEST_REDUCE_SCATTER] = "ReduceScatter",
        [DDPROVE_GUEST_SCATTER] = "Scatter",      [DDPROVE_GUEST_ALL_TO_ALL] = "AlltoAll",
    };

    return find(names, DDPROVE_GUEST_KIND_COUNT, func, DDPROVE_GUEST_OTHER);
}

static uint32_t dtype_of(const char *type)
{
    static const char *const names[DDPROVE_GUEST_DTYPE_COUNT] = {
        [DDPROVE_GUEST_I8] = "ncclInt8",           [DDPROVE_GUEST_U8] = "ncclUint8",
        [DDPROVE_GUEST_I32] = "ncclInt32",         [DDPROVE_GUEST_U32] = "ncclUint32",
        [DDPROVE_GUEST_I64] = "ncclInt64",         [DDPROVE_GUEST_U64] = "ncclUint64",
        [DDPROVE_GUEST_F16] = "ncclFloat16",       [DDPROVE_GUEST_F32] = "ncclFloat32",
        [DDPROVE_GUEST_F64] = "ncclFloat64",       [DDPROVE_GUEST_BF16] = "ncclBfloat16",
        [DDPROVE_GUEST_F8E4M3] = "ncclFloat8e4m3", [DDPROVE_GUEST_F8E5M2] = "ncclFloat8e5m2",
    };

    return find(names, DDPROVE_GUEST_DTYPE_COUNT, type, DDPROVE_GUEST_BYTES);
}

/* Calls of a communicator end in their order, so the word only rises. */
static void set_ended(const struct context *context, uint64_t seq)
{
    uint64_t *word = context->lane != 0 ? &guest_lanes()[context->lane - 1].ended : NULL;

    if (word != NULL && seq > __atomic_load_n(word, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(word, seq, __ATOMIC_RELEASE);
    }
}

static void *start_call(struct context *context, const struct guest_profile_event *event)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = context->comm,
                                      .kind = kind_of(event->coll.func),
                                      .dtype = dtype_of(event->coll.type),
                                      .root = (uint32_t)event->coll.root,
                                      .elem_count = event->coll.count};
    struct event *kept = &context->events[context->event_count++ % EVENTS_MAX];

    guest_call_show(&call);
    if (call.seq == 0) {
        return NULL;
    }
    if (kept->channels_left > 0) {
        set_ended(context, kept->seq);
    }
    guest_lane_launch(call.comm, call.seq, call.seq, 0);
    if (context->lane != 0) {
        __atomic_store_n(&guest_lanes()[context->lane - 1].begun, call.seq, __ATOMIC_RELEASE);
    }
    *kept = (struct event){.call = {kept, 0},
                           .channel = {kept, 1},
                           .context = context,
                           .seq = call.seq,
                           .channels_left = event->coll.channel_count};
    return &kept->call;
}

static int start(void *context, void **handle, const struct guest_profile_event *event)
{
    *handle = NULL;
    if (context == NULL || !ddprove_guest_is_watched()) {
        return 0;
    }
    (void)pthread_mutex_lock(&lock);
    if (event->type == GUEST_PROFILE_COLL) {
        *handle = start_call(context, event);
    } else if (event->type == GUEST_PROFILE_KERNEL_CH && event->parent != NULL) {
        *handle = &((struct part *)event->parent)->event->channel;
    }
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

/* Of a call this only says that it was enqueued. */
static int stop(void *handle)
{
    const struct part *part = handle;

    if (part != NULL && part->is_channel && ddprove_guest_is_watched()) {
        (void)pthread_mutex_lock(&lock);
        if (part->event->channels_left > 0 && --part->event->channels_left == 0) {
            set_ended(part->event->context, part->event->seq);
        }
        (void)pthread_mutex_unlock(&lock);
    }
    return 0;
}

static int record(void *handle, int state, const void *arguments)
{
    (void)handle;
    (void)state;
    (void)arguments;
    return 0;
}

static int finalize(void *given)
{
    struct context *context = given;

    if (context == NULL) {
        return 0;
    }
    (void)pthread_mutex_lock(&lock);
    for (struct context **link = &contexts; *link != NULL; link = &(*link)->next) {
        if (*link == context) {
            *link = context->next;
            break;
        }
    }
    drop(context, GUEST_FREE_ENDED);
    (void)pthread_mutex_unlock(&lock);
    free(context);
    return 0;
}

/* NCCL takes the newest one that it knows. */
DDPROVE_GUEST_API const struct guest_profiler_v4 ncclProfiler_v4 = {"ddprove", init_v4, start,
                                                                    stop,      record,  finalize};
DDPROVE_GUEST_API const struct guest_profiler_v5 ncclProfiler_v5 = {"ddprove", init_v5, start,
                                                                    stop,      record,  finalize};
DDPROVE_GUEST_API const struct guest_profiler_v5 ncclProfiler_v6 = {"ddprove", init_v5, start,
                                                                    stop,      record,  finalize};
