/* One rank's device work while it is being judged. Internal to the happens-before checker. */
#ifndef HARNESS_ORDER_WALK_H
#define HARNESS_ORDER_WALK_H

#include "harness/order/clock.h"
#include "harness/order/name.h"
#include "harness/order/order.h"
#include "harness/order/range.h"
#include "harness/order/wait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device.access; or a device.free, which counts as a write to all of the allocation. */
struct harness_order_access {
    const struct harness_trace_event *event;
    uint64_t allocation, first, end;
    uint32_t stream; /* its dense number; an access of the host has the host's */
    uint64_t time;
    uint64_t seq; /* of the collective that it belongs to; 0: none, or not known */
    uint64_t op;  /* that collective, as recorded */
    const struct ddp_event_entry
        *post; /* of a bucket's collective: where it was posted; else NULL */
    bool is_write;
    bool is_coll; /* a collective's, or a kernel's in the middle of a collective on its stream */
    bool is_free;
    bool is_diagnostic; /* a diagnostic read */
    bool is_host;       /* not on any stream */
};

/* The all-reduce of a named bucket, one a range. */
struct harness_order_bucket {
    bool is_posted; /* and not completed */
    uint64_t seq, op;
    const struct ddp_event_entry *post;
    bool is_seen;         /* accesses of it were recorded since it was posted */
    bool is_elsewhere;    /* what was queued as its all-reduce uses another bucket's memory */
    bool is_used;         /* and other work that is ordered after them has read the bucket */
    uint32_t skip_count;  /* the walk's, when it was posted */
    uint32_t last_access; /* its last one */
    bool has_result;
    uint32_t result; /* its last write, or that of an earlier one */
    bool is_updated; /* the optimizer read a gradient of this bucket, in this step and pass */
    uint32_t updated_step, updated_pass;
    uint64_t updated_param;
};

struct harness_order_walk {
    const struct harness_trace_event *const *events;
    size_t event_count;
    struct harness_order_names names;
    uint64_t *stream_ids; /* sorted; the dense number is the place */
    uint64_t *event_ids;
    size_t stream_count, event_id_count;
    struct harness_clocks clocks;
    struct harness_order_waits waits;
    struct harness_ranges ranges;
    struct harness_order_access *accesses;
    uint32_t access_count;
    struct harness_order_bucket *buckets; /* [names.range_count[DDP_RANGE_BUCKET]] */
    uint32_t pass;                        /* goes up with every event of join */
    uint64_t other_seq, other_op;         /* the last collective posted that reduces no bucket */
    bool is_bucket_used;                  /* by a collective, since the last one that was queued */
    uint32_t skip_count;                  /* operations that faults left out so far */
    bool is_free_judged;                  /* the rank ended in good order */
    struct harness_order_facts *out;
};

/* What is wrong with a use of memory. */
enum harness_order_fault {
    HARNESS_ORDER_CONFLICT,   /* an earlier use of the same bytes is not ordered before it */
    HARNESS_ORDER_LATE_WRITE, /* a bucket is written while its all-reduce is under way: no work has
                               * used its result, nor has the host waited for it */
    HARNESS_ORDER_UNREDUCED, /* a gradient is used that its bucket's all-reduce may not have made */
    HARNESS_ORDER_LATE_REDUCE /* a bucket is reduced after its gradients were used */
};
struct harness_order_case {
    enum harness_order_fault fault;
    uint32_t access, earlier; /* the use, and the one it has to do with */
    size_t bucket;            /* number of the named range; HARNESS_NOT_NAMED */
    uint64_t param;           /* of the gradient; UINT64_MAX: none */
};
/* Fill out->disorder. */
void harness_order_describe(const struct harness_order_walk *walk,
                            const struct harness_order_case *what);

#ifdef __cplusplus
}
#endif
#endif
