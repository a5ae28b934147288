/* Named fault points: places where a fault may be injected.
 *
 * A disarmed point costs one load and a bit test. An armed one calls the hook, which decides (from
 * a plan, through libfiu) and acts: it may not return at all (kill), may wait (delay), may alter
 * the payload that the context offers, or may tell the caller to skip or to fail. */
#ifndef DDPCORE_SEAM_FAULT_POINT_H
#define DDPCORE_SEAM_FAULT_POINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ddp_fault_point {
#define X(id, name, payload, skip, description) DDP_FAULT_POINT_##id,
#include "ddpcore/seam/fault_point.def"
#undef X
    DDP_FAULT_POINT_COUNT
};

enum ddp_fault_payload { DDP_FAULT_PAYLOAD_NONE, DDP_FAULT_PAYLOAD_DATA, DDP_FAULT_PAYLOAD_ARGS };

const char *ddp_fault_point_name(enum ddp_fault_point point);
const char *ddp_fault_point_description(enum ddp_fault_point point);
enum ddp_fault_payload ddp_fault_point_payload(enum ddp_fault_point point);
/* Whether what comes next can be left out. */
bool ddp_fault_point_is_skippable(enum ddp_fault_point point);
DDP_MUST_USE ddp_status ddp_fault_point_parse(const char *name, enum ddp_fault_point *out);

struct ddp_coll_args;
struct ddp_device;
struct ddp_stream;

/* What is known at the point; -1 or 0 or NULL where it does not apply. */
struct ddp_fault_context {
    int32_t bucket;
    int32_t param;
    int32_t layer;
    uint64_t seq; /* collective sequence number, from 1; 0 = none */
    void *data;   /* elements that the hook may alter, in the device's memory */
    size_t elem_count;
    enum ddp_dtype dtype;
    struct ddp_coll_args *args; /* arguments that the hook may alter */
    struct ddp_device *device;  /* whose memory `data` is; NULL: the host's */
    struct ddp_stream *stream;  /* where a kernel would be enqueued here; NULL: the default one */
    bool is_skip_idle;          /* to leave out what comes next would leave everything as it is */
};
#define DDP_FAULT_CONTEXT_NONE                                         \
    {                                                                  \
        -1, -1, -1, 0, NULL, 0, DDP_DTYPE_F32, NULL, NULL, NULL, false \
    }

enum ddp_fault_action {
    DDP_FAULT_GO,   /* carry on (nothing happened, or it happened already) */
    DDP_FAULT_SKIP, /* leave out what comes next, and report success */
    DDP_FAULT_DUP,  /* do what comes next twice (collective/pre, data/next, message/recv only) */
    DDP_FAULT_OVERTAKEN, /* do it after the next of its kind (message/recv only) */
    DDP_FAULT_FAIL       /* do not do it; return DDP_E_INJECTED */
};

struct ddp_fault_hook {
    uint64_t armed; /* bit i: point i may fire in this rank */
    enum ddp_fault_action (*fire)(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context);
};

/* For callers that would rather not build a context in vain. */
static inline bool ddp_fault_point_is_armed(const struct ddp_fault_hook *hook,
                                            enum ddp_fault_point point)
{
    return __builtin_expect(hook != NULL && ((hook->armed >> point) & 1u) != 0, 0);
}

static inline enum ddp_fault_action ddp_fault_point(struct ddp_fault_hook *hook,
                                                    enum ddp_fault_point point,
                                                    struct ddp_fault_context *context)
{
    return ddp_fault_point_is_armed(hook, point) ? hook->fire(hook, point, context) : DDP_FAULT_GO;
}

/* A point without payload or index. */
static inline enum ddp_fault_action ddp_fault_point_plain(struct ddp_fault_hook *hook,
                                                          enum ddp_fault_point point)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;

    return ddp_fault_point(hook, point, &context);
}

#ifdef __cplusplus
}
#endif
#endif
