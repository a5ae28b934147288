/* Purpose: say in a sentence which use of memory has no order, with names, bytes, streams and
 * steps. */
#include <stdio.h>

#include "harness/order/walk.h"

/* A stretch of memory as a reader knows it. */
struct subject {
    char name[144];
    uint64_t from;  /* its first byte in its allocation */
    int64_t bucket; /* -1: none */
    int64_t param;
};

/* The bytes that two accesses share; of one access its own. */
static void shared_bytes(const struct harness_order_access *a, const struct harness_order_access *b,
                         uint64_t *out_first, uint64_t *out_end)
{
    *out_first = a->first > b->first ? a->first : b->first;
    *out_end = a->end < b->end ? a->end : b->end;
    DDP_ASSERT(a->allocation == b->allocation && *out_first < *out_end);
}

static void find_subject(const struct harness_order_walk *walk, uint64_t allocation, uint64_t first,
                         uint64_t end, struct subject *out)
{
    const struct harness_order_names *names = &walk->names;
    uint64_t bucket = 0;

    *out = (struct subject){.bucket = -1, .param = -1};
    for (unsigned kind = 0; kind < DDP_RANGE_COUNT; kind++) {
        size_t cursor = 0;
        size_t number = harness_order_names_next(names, (enum ddp_range_kind)kind, allocation,
                                                 first, end, &cursor);
        const struct harness_named_range *range;

        if (number == HARNESS_NOT_NAMED) {
            continue;
        }
        range = &names->ranges[kind][number];
        harness_order_names_describe(names, (enum ddp_range_kind)kind, range->index, out->name,
                                     sizeof(out->name));
        out->from = range->first;
        if (kind == DDP_RANGE_BUCKET) {
            out->bucket = (int64_t)range->index;
        } else if (kind != DDP_RANGE_BUFFER) {
            out->param = (int64_t)range->index;
            out->bucket =
                harness_order_names_bucket(names, range->index, &bucket) ? (int64_t)bucket : -1;
        }
        return;
    }
    (void)snprintf(out->name, sizeof(out->name), "allocation %llu", (unsigned long long)allocation);
}

/* "all_reduce seq 7 on stream 1", "broadcast seq 2 (param_sync) on stream 1", "work of stream 0".
 */
static void name_worker(const struct harness_order_walk *walk,
                        const struct harness_order_access *access, char *text, size_t size_bytes)
{
    unsigned long long stream =
        access->is_host ? 0 : (unsigned long long)walk->stream_ids[access->stream];
    struct ddp_event_op op = ddp_event_op_unpack(access->op);

    DDP_ASSERT(access->is_host || access->stream < walk->stream_count);
    if (access->is_host) {
        (void)snprintf(text, size_bytes, "the host");
    } else if (!access->is_coll) {
        (void)snprintf(text, size_bytes, "work of stream %llu", stream);
    } else if (access->seq == 0) {
        (void)snprintf(text, size_bytes, "a collective on stream %llu", stream);
    } else if (op.role == DDP_ROLE_BUCKET) {
        (void)snprintf(text, size_bytes, "%.10s seq %llu on stream %llu",
                       ddp_coll_kind_name(op.kind), (unsigned long long)access->seq, stream);
    } else {
        (void)snprintf(text, size_bytes, "%.10s seq %llu (%.14s) on stream %llu",
                       ddp_coll_kind_name(op.kind), (unsigned long long)access->seq,
                       ddp_coll_role_name(op.role), stream);
    }
}

/* A rank that does not wait may have gone on to another step before the streams get a collective:
 * it is of the step in which it was posted. */
static const struct ddp_event_entry *place_of(const struct harness_order_access *access)
{
    return access->post != NULL ? access->post : &access->event->entry;
}

static void describe_conflict(const struct harness_order_walk *walk,
                              const struct harness_order_access *late,
                              const struct harness_order_access *early,
                              const struct subject *subject, char *text, size_t size_bytes)
{
    const struct ddp_event_entry *before = place_of(early);
    uint64_t first;
    uint64_t end;
    char late_worker[88];
    char early_worker[88];
    char what[216];

    shared_bytes(late, early, &first, &end);
    name_worker(walk, late, late_worker, sizeof(late_worker));
    name_worker(walk, early, early_worker, sizeof(early_worker));
    first = first > subject->from ? first - subject->from : 0;
    end -= subject->from;
    (void)snprintf(what, sizeof(what), "%s, which %s its bytes [%llu, %llu) in step %u, %s,",
                   early_worker, early->is_write ? "wrote" : "read", (unsigned long long)first,
                   (unsigned long long)end, before->step,
                   ddp_phase_name((enum ddp_phase)before->phase));
    if (late->is_free) {
        (void)snprintf(text, size_bytes, "%s is freed while %s was not seen to end", subject->name,
                       what);
        return;
    }
    (void)snprintf(text, size_bytes, "%s is %s by %s while %s is not ordered before it",
                   subject->name, late->is_write ? "written" : "read", late_worker, what);
}

static void describe_rule(const struct harness_order_walk *walk,
                          const struct harness_order_case *what, const struct subject *bucket,
                          char *text, size_t size_bytes)
{
    const struct harness_order_access *access = &walk->accesses[what->access];
    char worker[88];
    char earlier[88];
    char gradient[112];

    name_worker(walk, access, worker, sizeof(worker));
    name_worker(walk, &walk->accesses[what->earlier], earlier, sizeof(earlier));
    harness_order_names_describe(&walk->names, DDP_RANGE_GRAD, what->param, gradient,
                                 sizeof(gradient));
    switch (what->fault) {
    case HARNESS_ORDER_LATE_WRITE:
        (void)snprintf(text, size_bytes, "%s is written by %s while %s is under way, which read it",
                       bucket->name, worker, earlier);
        return;
    case HARNESS_ORDER_UNREDUCED:
        (void)snprintf(text, size_bytes,
                       "%s is used by %s in the optimizer while %s of %s is not ordered before it",
                       gradient, worker, earlier, bucket->name);
        return;
    case HARNESS_ORDER_LATE_REDUCE:
        (void)snprintf(text, size_bytes, "%s is used by %s after the optimizer used %s in step %u",
                       bucket->name, worker, gradient, access->event->entry.step);
        return;
    case HARNESS_ORDER_CONFLICT:
        break;
    }
}

void harness_order_describe(const struct harness_order_walk *walk,
                            const struct harness_order_case *what)
{
    const struct harness_order_access *late = &walk->accesses[what->access];
    const struct harness_order_access *early = &walk->accesses[what->earlier];
    const struct ddp_event_entry *entry = place_of(late);
    struct harness_disorder *out = &walk->out->disorder;
    struct subject subject;
    uint64_t first;
    uint64_t end;

    DDP_ASSERT(what->access < walk->access_count && what->earlier <= what->access);
    *out = (struct harness_disorder){.is_set = true,
                                     .step = entry->step,
                                     .micro = entry->micro,
                                     .phase = entry->phase,
                                     .seq = late->seq != 0 ? late->seq : early->seq};
    if (what->bucket != HARNESS_NOT_NAMED) {
        const struct harness_named_range *range =
            &walk->names.ranges[DDP_RANGE_BUCKET][what->bucket];

        find_subject(walk, range->allocation, range->first, range->end, &subject);
        describe_rule(walk, what, &subject, out->text, sizeof(out->text));
    } else {
        shared_bytes(late, early, &first, &end);
        find_subject(walk, late->allocation, first, end, &subject);
        describe_conflict(walk, late, early, &subject, out->text, sizeof(out->text));
    }
    out->bucket = (int32_t)subject.bucket;
    out->param = what->param != UINT64_MAX ? (int32_t)what->param : (int32_t)subject.param;
}
