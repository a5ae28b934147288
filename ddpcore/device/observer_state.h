/* Inside of the observing device. observer_record.c writes the record; observer_math.c and
 * observer_hint.c fill a table each over it; observer.c fills the third and puts them together. */
#ifndef DDPCORE_DEVICE_OBSERVER_STATE_H
#define DDPCORE_DEVICE_OBSERVER_STATE_H

#include "ddpcore/device/math.h"
#include "ddpcore/device/observer.h"
#include "ddpcore/seam/progress.h"
#include "ddpcore/seam/recorder.h"

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
    bool is_recording;
    bool is_diagnostic;                                   /* copies are diagnostic reads */
    struct ddp_progress *progress;                        /* or NULL */
    uint64_t stream_count, event_count, allocation_count; /* created so far: the next numbers */
    struct ddp_observed_range *ranges; /* by address, disjoint; none if not recording */
    size_t range_count, range_capacity;
};

extern const struct ddp_math_ops ddp_device_observer_math;
extern const struct ddp_layer_ops ddp_device_observer_layers;
extern const struct ddp_device_hint_ops ddp_device_observer_hints;

/* Does nothing if not recording. */
void ddp_observer_record(const struct ddp_observer *self, enum ddp_event event, uint64_t a0,
                         uint64_t a1, uint64_t a2);
/* The observed memory that holds this address; NULL if there is none. */
const struct ddp_observed_range *ddp_observer_range_at(const struct ddp_observer *self,
                                                       const void *data);
/* Room for one more range. */
DDP_MUST_USE ddp_status ddp_observer_reserve_range(struct ddp_observer *self);
/* Observe memory, and record that. reserve_range comes first. */
const struct ddp_observed_range *ddp_observer_add_range(struct ddp_observer *self, const void *data,
                                                        size_t size_bytes, enum ddp_space space);
/* No longer observe it, and record that its memory is given back. */
void ddp_observer_remove_range(struct ddp_observer *self, const struct ddp_observed_range *range);

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
/* Record work that was enqueued on a stream (the observer's handle). Memory that is not observed is
 * left out. */
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

static inline struct ddp_observed_event *ddp_observer_event(struct ddp_device_event *event)
{
    return (struct ddp_observed_event *)(void *)event;
}

static inline uint64_t ddp_observer_stream_number(const struct ddp_stream *stream)
{
    return stream == NULL ? 0 : ((const struct ddp_observed_stream *)(const void *)stream)->number;
}

/* The inner device's handle. */
static inline struct ddp_stream *ddp_observer_stream(struct ddp_stream *stream)
{
    return stream == NULL ? NULL : ((struct ddp_observed_stream *)(void *)stream)->inner;
}

#ifdef __cplusplus
}
#endif
#endif
