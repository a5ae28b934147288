/* Purpose: prove from the recorded edges that no device work touches memory too early or too late.
 * Idea: go through a rank's events in the host's order with vector clocks, and check each use of
 * memory against the last uses of the same bytes. Two more rules, which overlapping bytes cannot
 * show: a bucket is reduced after the last gradient was copied into it, and an optimizer uses a
 * gradient after its bucket was reduced. Checking ends at the first violation, since what follows
 * may be its consequence. Only recorded accesses are checked, and no values are compared. */
#include "harness/order/order.h"

#include "harness/order/number.h"
#include "harness/order/walk.h"
#include "harness/trace/index.h"

static uint32_t stream_of(const struct harness_order_walk *walk, uint64_t id)
{
    return (uint32_t)harness_number_of(walk->stream_ids, walk->stream_count, id);
}

static size_t event_of(const struct harness_order_walk *walk, uint64_t id)
{
    return harness_number_of(walk->event_ids, walk->event_id_count, id);
}

/* --- preparation -------------------------------------------------------------------------------*/

static bool is_access(const struct ddp_event_entry *entry)
{
    return entry->event == DDP_EVENT_DEVICE_ACCESS && entry->arg[3] > 0 &&
           entry->arg[2] < UINT64_MAX && entry->arg[4] < DDP_ACCESS_COUNT;
}

static uint64_t end_of(const struct ddp_event_entry *entry)
{
    return entry->arg[3] > UINT64_MAX - entry->arg[2] ? UINT64_MAX : entry->arg[2] + entry->arg[3];
}

/* seqs: of the collectives that were put on a stream. */
static void collect(struct harness_order_walk *walk, struct harness_order_boundary *boundaries,
                    size_t *out_boundary_count, uint64_t *seqs, size_t *out_seq_count)
{
    size_t boundary_count = 0;
    size_t seq_count = 0;

    walk->stream_ids[walk->stream_count++] = 0;
    for (size_t i = 0; i < walk->event_count; i++) {
        const struct ddp_event_entry *entry = &walk->events[i]->entry;
        const uint64_t *arg = entry->arg;

        if (is_access(entry)) {
            walk->stream_ids[walk->stream_count++] = arg[0];
            boundaries[boundary_count++] = (struct harness_order_boundary){arg[1], arg[2]};
            boundaries[boundary_count++] = (struct harness_order_boundary){arg[1], end_of(entry)};
        } else if (entry->event == DDP_EVENT_DEVICE_FREE) {
            boundaries[boundary_count++] = (struct harness_order_boundary){arg[0], 0};
            boundaries[boundary_count++] = (struct harness_order_boundary){arg[0], UINT64_MAX};
        } else if (entry->event == DDP_EVENT_EVENT_RECORD || entry->event == DDP_EVENT_EVENT_WAIT) {
            walk->event_ids[walk->event_id_count++] = arg[0];
            walk->stream_ids[walk->stream_count++] = arg[1];
        } else if (entry->event == DDP_EVENT_EVENT_DONE) {
            walk->event_ids[walk->event_id_count++] = arg[0];
        } else if (entry->event == DDP_EVENT_COLL_QUEUED) {
            seqs[seq_count++] = arg[0];
        } else if (entry->event == DDP_EVENT_RANK_END) {
            walk->is_free_judged = harness_index_status(arg[0]) == DDP_OK;
        }
    }
    DDP_ASSERT(boundary_count <= 2 * walk->event_count && seq_count <= walk->event_count);
    DDP_ASSERT(walk->stream_count <= walk->event_count + 1);
    walk->stream_count = harness_number_sort(walk->stream_ids, walk->stream_count);
    walk->event_id_count = harness_number_sort(walk->event_ids, walk->event_id_count);
    DDP_ASSERT(walk->stream_ids[0] == 0); /* the default stream is always one */
    *out_boundary_count = boundary_count;
    *out_seq_count = seq_count;
}

static ddp_status prepare(struct harness_order_walk *walk, struct ddp_mem *mem, struct ddp_err *err)
{
    struct harness_order_boundary *boundaries =
        ddp_mem_array(mem, 2 * walk->event_count, sizeof(*boundaries));
    uint64_t *seqs = ddp_mem_array(mem, walk->event_count, sizeof(*seqs));
    size_t boundary_count = 0;
    size_t seq_count = 0;
    ddp_status status;

    walk->stream_ids = ddp_mem_array(mem, walk->event_count + 1, sizeof(uint64_t));
    walk->event_ids = ddp_mem_array(mem, walk->event_count, sizeof(uint64_t));
    walk->accesses = ddp_mem_array(mem, walk->event_count, sizeof(*walk->accesses));
    walk->buckets =
        ddp_mem_array(mem, walk->names.range_count[DDP_RANGE_BUCKET], sizeof(*walk->buckets));
    if (boundaries == NULL || seqs == NULL || walk->stream_ids == NULL || walk->event_ids == NULL ||
        walk->accesses == NULL || walk->buckets == NULL) {
        ddp_mem_free(mem, seqs);
        ddp_mem_free(mem, boundaries);
        return DDP_E_NOMEM;
    }
    collect(walk, boundaries, &boundary_count, seqs, &seq_count);
    if (walk->stream_count > HARNESS_STREAMS_MAX) {
        ddp_mem_free(mem, seqs);
        ddp_mem_free(mem, boundaries);
        return ddp_err_set(err, DDP_E_OVERFLOW,
                           "rank %u works on %zu streams; at most %d are judged",
                           walk->events[0]->rank, walk->stream_count, HARNESS_STREAMS_MAX);
    }
    status = harness_ranges_init(&walk->ranges, mem, boundaries, boundary_count,
                                 (uint32_t)walk->stream_count + 1); /* the host has a number, too */
    if (status == DDP_OK) {
        status = harness_clocks_init(&walk->clocks, mem, (uint32_t)walk->stream_count,
                                     walk->event_id_count);
    }
    if (status != DDP_OK) {
        ddp_mem_free(mem, seqs);
        return status;
    }
    return harness_order_waits_init(&walk->waits, &walk->clocks, seqs, seq_count);
}

/* --- the walk ----------------------------------------------------------------------------------*/

static uint32_t host_of(const struct harness_order_walk *walk)
{
    return walk->clocks.stream_count - 1;
}

/* To free memory, or to read it for diagnosis, its earlier uses only have to be seen done. */
static bool is_ordered(const struct harness_order_walk *walk, uint32_t earlier, uint32_t later)
{
    const struct harness_order_access *a = &walk->accesses[earlier];
    const struct harness_order_access *b = &walk->accesses[later];

    DDP_ASSERT(earlier < later && later < walk->access_count);
    return harness_clocks_is_before(&walk->clocks, a->stream, a->time, b->stream) ||
           ((b->is_free || b->is_diagnostic) &&
            harness_clocks_is_seen(&walk->clocks, a->stream, a->time));
}

static bool is_conflict(void *context, uint32_t earlier)
{
    const struct harness_order_walk *walk = context;

    return !is_ordered(walk, earlier, walk->access_count - 1);
}

static void report(struct harness_order_walk *walk, enum harness_order_fault fault, uint32_t access,
                   uint32_t earlier, size_t bucket, uint64_t param)
{
    const struct harness_order_case what = {fault, access, earlier, bucket, param};

    DDP_ASSERT(access < walk->access_count && earlier <= access);
    DDP_ASSERT((fault == HARNESS_ORDER_CONFLICT) == (bucket == HARNESS_NOT_NAMED));
    if (!walk->out->disorder.is_set) {
        harness_order_describe(walk, &what);
    }
}

/* A use of a named bucket: by its own all-reduce, or by other work that must not interfere. */
static void use_bucket(struct harness_order_walk *walk, size_t range, uint32_t number)
{
    struct harness_order_bucket *bucket = &walk->buckets[range];
    struct harness_order_access *access = &walk->accesses[number];
    const struct ddp_event_entry *entry = &access->event->entry;
    const struct harness_order_access *last;
    bool is_same_stream =
        bucket->is_seen && walk->accesses[bucket->last_access].stream == access->stream;

    DDP_ASSERT(range < walk->names.range_count[DDP_RANGE_BUCKET]);
    DDP_ASSERT(!bucket->is_seen || bucket->last_access < number);
    if (bucket->is_posted && (access->is_coll || is_same_stream)) {
        access->is_coll = true;
        access->seq = bucket->seq;
        access->op = bucket->op;
        access->post = bucket->post;
        bucket->is_seen = true;
        bucket->last_access = number;
        bucket->has_result = bucket->has_result || access->is_write;
        bucket->result = access->is_write ? number : bucket->result;
        if (bucket->is_updated && bucket->updated_step == entry->step &&
            bucket->updated_pass == walk->pass) {
            report(walk, HARNESS_ORDER_LATE_REDUCE, number, number, range, bucket->updated_param);
        }
        return;
    }
    if (!bucket->is_posted || !bucket->is_seen) {
        return;
    }
    if (!access->is_write) {
        bucket->is_used = bucket->is_used || is_ordered(walk, bucket->last_access, number);
        return;
    }
    last = &walk->accesses[bucket->last_access];
    if (!bucket->is_used &&
        !harness_clocks_is_before(&walk->clocks, last->stream, last->time, host_of(walk))) {
        report(walk, HARNESS_ORDER_LATE_WRITE, number, bucket->last_access, range, UINT64_MAX);
    }
}

/* The optimizer uses a parameter's gradient. */
static void use_gradient(struct harness_order_walk *walk, uint64_t param, uint32_t number)
{
    uint64_t index = 0;
    size_t cursor = 0;
    size_t range;

    if (!harness_order_names_bucket(&walk->names, param, &index)) {
        return;
    }
    while ((range = harness_order_names_of_bucket(&walk->names, index, &cursor)) !=
           HARNESS_NOT_NAMED) {
        struct harness_order_bucket *bucket = &walk->buckets[range];

        if (bucket->has_result && !is_ordered(walk, bucket->result, number)) {
            report(walk, HARNESS_ORDER_UNREDUCED, number, bucket->result, range, param);
        }
        bucket->is_updated = true;
        bucket->updated_step = walk->accesses[number].event->entry.step;
        bucket->updated_pass = walk->pass;
        bucket->updated_param = param;
    }
}

static void use_names(struct harness_order_walk *walk, uint32_t number)
{
    const struct harness_order_access *access = &walk->accesses[number];
    size_t cursor = 0;
    size_t range;

    DDP_ASSERT(!access->is_free && !access->is_host && !access->is_diagnostic);
    while ((range = harness_order_names_next(&walk->names, DDP_RANGE_BUCKET, access->allocation,
                                             access->first, access->end, &cursor)) !=
           HARNESS_NOT_NAMED) {
        walk->is_bucket_used = walk->is_bucket_used || access->is_coll;
        use_bucket(walk, range, number);
    }
    if (access->event->entry.phase != DDP_PHASE_OPTIMIZER || access->is_write || access->is_coll) {
        return;
    }
    cursor = 0;
    while ((range = harness_order_names_next(&walk->names, DDP_RANGE_GRAD, access->allocation,
                                             access->first, access->end, &cursor)) !=
           HARNESS_NOT_NAMED) {
        use_gradient(walk, walk->names.ranges[DDP_RANGE_GRAD][range].index, number);
    }
}

static void use_memory(struct harness_order_walk *walk, const struct harness_order_access *access)
{
    uint32_t number = walk->access_count++;
    struct harness_order_access *entered = &walk->accesses[number];
    const struct harness_touch touch = {.allocation = access->allocation,
                                        .first = access->first,
                                        .end = access->end,
                                        .access = number,
                                        .stream = access->stream,
                                        .is_write = access->is_write,
                                        .is_diagnostic = access->is_diagnostic};
    uint32_t conflict;

    DDP_ASSERT(number < walk->event_count); /* a use of memory each, at most */
    DDP_ASSERT(access->first < access->end);
    *entered = *access;
    entered->time = harness_clocks_enqueue(&walk->clocks, access->stream);
    conflict = harness_ranges_touch(&walk->ranges, &touch, is_conflict, walk);
    if (!access->is_free && !access->is_host && !access->is_diagnostic) {
        use_names(walk, number);
    }
    if (conflict != 0) {
        /* This replaces what a rule reported: it names the bytes. */
        walk->out->disorder.is_set = false;
        report(walk, HARNESS_ORDER_CONFLICT, number, conflict - 1, HARNESS_NOT_NAMED, UINT64_MAX);
    }
}

static void post_bucket(const struct harness_order_walk *walk, const struct ddp_event_entry *entry,
                        struct harness_order_bucket *bucket)
{
    bucket->is_posted = true;
    bucket->is_seen = false;
    bucket->is_elsewhere = false;
    bucket->is_used = false;
    bucket->skip_count = walk->skip_count;
    bucket->seq = entry->arg[0];
    bucket->op = entry->arg[1];
    bucket->post = entry;
}

/* The all-reduce of a bucket was posted or is complete. The core runs other collectives one at a
 * time, so an access of one belongs to the one posted last. A bucket may have several ranges, its
 * own and its hook's: the all-reduce is of one of them. */
static void pass_collective(struct harness_order_walk *walk, const struct ddp_event_entry *entry)
{
    const struct ddp_event_op op = ddp_event_op_unpack(entry->arg[1]);
    bool is_completed = false;
    bool is_seen = false;
    size_t cursor = 0;
    size_t range;

    if (op.role != DDP_ROLE_BUCKET || op.kind != DDP_COLL_ALL_REDUCE) {
        if (entry->event == DDP_EVENT_COLL_POST) {
            walk->other_seq = entry->arg[0];
            walk->other_op = entry->arg[1];
        }
        return;
    }
    while ((range = harness_order_names_of_bucket(&walk->names, op.index, &cursor)) !=
           HARNESS_NOT_NAMED) {
        struct harness_order_bucket *bucket = &walk->buckets[range];

        if (entry->event == DDP_EVENT_COLL_POST) {
            post_bucket(walk, entry, bucket);
        } else if (bucket->is_posted && bucket->seq == entry->arg[0]) {
            is_completed = is_completed || bucket->skip_count == walk->skip_count;
            is_seen = is_seen || bucket->is_seen || bucket->is_elsewhere;
            bucket->is_posted = false;
        }
    }
    if (is_completed && !is_seen && harness_index_status(entry->arg[3]) == DDP_OK &&
        !walk->out->is_reduction_unseen) {
        walk->out->is_reduction_unseen = true;
        walk->out->unseen_bucket = op.index;
        walk->out->unseen_seq = entry->arg[0];
    }
}

/* All of a collective is on its stream. A rank may give a bucket's operation the index of another
 * bucket: then its accesses are recorded, of memory that its name does not say. */
static void pass_queued(struct harness_order_walk *walk, uint64_t seq)
{
    for (size_t i = 0; i < walk->names.range_count[DDP_RANGE_BUCKET]; i++) {
        if (walk->buckets[i].is_posted && walk->buckets[i].seq == seq) {
            walk->buckets[i].is_elsewhere = walk->is_bucket_used;
        }
    }
    walk->is_bucket_used = false;
    harness_order_waits_queued(&walk->waits, seq);
}

static ddp_status pass_event(struct harness_order_walk *walk,
                             const struct harness_trace_event *event)
{
    const uint64_t *arg = event->entry.arg;
    struct harness_order_access access = {.event = event};

    switch (event->entry.event) {
    case DDP_EVENT_DEVICE_ACCESS:
        if (is_access(&event->entry)) {
            access.allocation = arg[1];
            access.first = arg[2];
            access.end = end_of(&event->entry);
            access.is_host = DDP_ACCESS_IS_HOST(arg[4]);
            access.is_diagnostic = DDP_ACCESS_IS_DIAGNOSTIC(arg[4]);
            access.stream = access.is_host ? host_of(walk) : stream_of(walk, arg[0]);
            access.is_write = DDP_ACCESS_IS_WRITE(arg[4]);
            access.is_coll = DDP_ACCESS_IS_COLL(arg[4]);
            access.seq = access.is_coll ? walk->other_seq : 0;
            access.op = walk->other_op;
            walk->out->is_coll_recorded = walk->out->is_coll_recorded || access.is_coll;
            use_memory(walk, &access);
        }
        return DDP_OK;
    case DDP_EVENT_DEVICE_FREE:
        /* Work of the default stream may still use memory that is freed: whoever gets it next works
         * after that. Not judged for a rank that failed: it cannot wait for what it aborted. */
        if (walk->is_free_judged) {
            access.allocation = arg[0];
            access.end = UINT64_MAX;
            access.stream = stream_of(walk, 0);
            access.is_write = true;
            access.is_free = true;
            use_memory(walk, &access);
        }
        return DDP_OK;
    case DDP_EVENT_EVENT_RECORD:
        harness_order_waits_record(&walk->waits, event_of(walk, arg[0]));
        return harness_clocks_record(&walk->clocks, event_of(walk, arg[0]),
                                     stream_of(walk, arg[1]));
    case DDP_EVENT_COLL_QUEUED:
        pass_queued(walk, arg[0]);
        return DDP_OK;
    case DDP_EVENT_EVENT_WAIT:
        harness_clocks_wait(&walk->clocks, event_of(walk, arg[0]), stream_of(walk, arg[1]));
        return DDP_OK;
    case DDP_EVENT_EVENT_DONE:
        return harness_order_waits_done(&walk->waits, event_of(walk, arg[0]));
    case DDP_EVENT_COLL_WAITED:
        harness_order_waits_waited(&walk->waits, arg[0]);
        return DDP_OK;
    case DDP_EVENT_COLL_POST:
    case DDP_EVENT_COLL_DONE:
        pass_collective(walk, &event->entry);
        return DDP_OK;
    case DDP_EVENT_JOIN:
        walk->pass++;
        return DDP_OK;
    case DDP_EVENT_OP_SKIPPED:
        walk->skip_count++;
        return DDP_OK;
    default:
        return DDP_OK;
    }
}

ddp_status harness_order_check(const struct harness_trace_event *const *events, size_t event_count,
                               const struct ddp_param *params, size_t param_count,
                               struct ddp_mem *mem, struct harness_order_facts *out,
                               struct ddp_err *err)
{
    struct harness_order_walk walk = {.events = events, .event_count = event_count, .out = out};
    ddp_status status;

    *out = (struct harness_order_facts){0};
    status = harness_order_names_init(&walk.names, mem, events, event_count, params, param_count);
    if (status == DDP_OK) {
        status = prepare(&walk, mem, err);
    }
    for (size_t i = 0; status == DDP_OK && i < event_count && !out->disorder.is_set; i++) {
        status = pass_event(&walk, events[i]);
    }
    harness_order_waits_fini(&walk.waits);
    harness_clocks_fini(&walk.clocks);
    harness_ranges_fini(&walk.ranges);
    harness_order_names_fini(&walk.names);
    ddp_mem_free(mem, walk.buckets);
    ddp_mem_free(mem, walk.accesses);
    ddp_mem_free(mem, walk.event_ids);
    ddp_mem_free(mem, walk.stream_ids);
    return status;
}
