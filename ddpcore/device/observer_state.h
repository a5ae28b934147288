/* Inside of the observing device, for observer.c and observer_math.c only. */
#ifndef DDPCORE_DEVICE_OBSERVER_STATE_H
#define DDPCORE_DEVICE_OBSERVER_STATE_H

#include "ddpcore/device/math.h"
#include "ddpcore/device/observer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Memory that is observed. */
struct ddp_observed_range {
    uintptr_t first, end;
    uint64_t allocation; /* its number */
};

/* What struct ddp_stream * and struct ddp_device_event * of this device point to. */
struct ddp_observed_stream {
    uint64_t number; /* from 1; the default stream is NULL, number 0 */
    struct ddp_stream *inner;
};
struct ddp_observed_event {
    uint64_t number; /* from 0 */
    struct ddp_device_event *inner;
    bool is_unseen; /* recorded, and the host has not seen it done since */
    bool is_hidden; /* it orders nothing in the record */
};

struct ddp_observer {
    struct ddp_device base;
    struct ddp_device_ops ops; /* the observer's table, with inner's name and kind of memory */
    struct ddp_device *inner;
    struct ddp_env *env;
    bool is_recording, is_watching;
    struct ddp_progress *progress;                        /* or NULL */
    uint64_t stream_count, event_count, allocation_count; /* created so far: the next numbers */
    struct ddp_observed_range *ranges;                    /* by address, disjoint */
    size_t range_count, range_capacity;
};

extern const struct ddp_math_ops ddp_device_observer_math;

/* One operand of a piece of work. data NULL or size_bytes 0: not touched. */
struct ddp_operand {
    const void *data;
    size_t size_bytes;
    enum ddp_access access;
};
#define DDP_READS(data, elem_count, elem_bytes)              \
    {                                                        \
        (data), (elem_count) * (elem_bytes), DDP_ACCESS_READ \
    }
#define DDP_WRITES(data, elem_count, elem_bytes)              \
    {                                                         \
        (data), (elem_count) * (elem_bytes), DDP_ACCESS_WRITE \
    }
/* Record work that was enqueued on a stream (the observer's handle). */
void ddp_observer_work(struct ddp_observer *self, const struct ddp_stream *stream,
                       const struct ddp_operand *operands, size_t count);
/* Return the status of enqueueing, and record the operands (initialisers of struct ddp_operand) if
 * it is OK. They are worked out only then. */
#define DDP_OBSERVE(self, stream, enqueued, ...)                                                   \
    do {                                                                                           \
        const ddp_status enqueued_status = (enqueued);                                             \
        if ((self)->is_recording && enqueued_status == DDP_OK) {                                   \
            const struct ddp_operand operands[] = {__VA_ARGS__};                                   \
            ddp_observer_work((self), (stream), operands, sizeof(operands) / sizeof(operands[0])); \
        }                                                                                          \
        return enqueued_status;                                                                    \
    } while (0)

static inline struct ddp_observer *ddp_observer_of(struct ddp_device *device)
{
    return (struct ddp_observer *)device;
}

static inline struct ddp_stream *ddp_observer_stream(struct ddp_stream *stream)
{
    return stream == NULL ? NULL : ((struct ddp_observed_stream *)(void *)stream)->inner;
}

#ifdef __cplusplus
}
#endif
#endif
