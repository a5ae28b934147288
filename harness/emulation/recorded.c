/* Purpose: what ranks recorded in one step, as tables beside the emulation's.
 * Idea: each event kind has its place for each rank and tensor; 0 says that nothing was recorded.
 */
#include <string.h>

#include "harness/emulation/internal.h"

#define AHEAD_BYTES_MAX ((size_t)256 << 20)

ddp_status harness_recorded_create(struct harness_emulation *e)
{
    struct harness_recorded *recorded = &e->recorded;
    size_t per_param = (size_t)e->world * e->params.count;
    size_t per_bucket = (size_t)e->world * harness_program_bucket_max(e->input->program);

    recorded->grad = harness_emulation_alloc(e, per_param, sizeof(uint64_t));
    recorded->final = harness_emulation_alloc(e, per_param, sizeof(uint64_t));
    recorded->final_state = harness_emulation_alloc(e, per_param, 1);
    recorded->param = harness_emulation_alloc(e, per_param, sizeof(uint64_t));
    recorded->slot = harness_emulation_alloc(e, per_param * e->slot_count, sizeof(uint64_t));
    recorded->in = harness_emulation_alloc(e, per_bucket, sizeof(uint64_t));
    recorded->out = harness_emulation_alloc(e, per_bucket, sizeof(uint64_t));
    recorded->left = harness_emulation_alloc(e, per_bucket, sizeof(uint64_t));
    recorded->seq = harness_emulation_alloc(e, per_bucket, sizeof(uint64_t));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

static void clear(struct harness_emulation *e)
{
    struct harness_recorded *recorded = &e->recorded;
    size_t per_param = (size_t)e->world * e->params.count;
    size_t per_bucket = (size_t)e->world * e->buckets.count * sizeof(uint64_t);

    memset(recorded->grad, 0, per_param * sizeof(uint64_t));
    memset(recorded->final, 0, per_param * sizeof(uint64_t));
    memset(recorded->final_state, 0, per_param);
    memset(recorded->param, 0, per_param * sizeof(uint64_t));
    memset(recorded->slot, 0, per_param * e->slot_count * sizeof(uint64_t));
    memset(recorded->in, 0, per_bucket);
    memset(recorded->out, 0, per_bucket);
    memset(recorded->left, 0, per_bucket);
    memset(recorded->seq, 0, per_bucket);
}

/* Place of an event's parameter in a table of [world][params.count]; SIZE_MAX: there is none. */
static size_t cell_of(const struct harness_emulation *e, uint32_t rank,
                      const struct ddp_event_entry *entry)
{
    return entry->arg[0] < e->params.count ? rank * e->params.count + entry->arg[0] : SIZE_MAX;
}

static void read_gradients(struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_GRAD_READY, step, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_entry *entry = &list[i]->entry;
        size_t cell = cell_of(e, rank, entry);

        /* The last micro-batch's gradient holds all that was accumulated. */
        if (cell != SIZE_MAX && entry->micro + 1u >= e->input->job->micro_batches) {
            e->recorded.grad[cell] = entry->arg[1];
        }
    }
    list = harness_index_in_step(&e->index, rank, DDP_EVENT_GRAD_FINAL, step, &count);
    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_entry *entry = &list[i]->entry;
        size_t cell = cell_of(e, rank, entry);

        if (cell != SIZE_MAX) {
            e->recorded.final[cell] = entry->arg[1];
            e->recorded.final_state[cell] =
                entry->arg[2] != 0 ? HARNESS_FINAL_DEFINED : HARNESS_FINAL_NONE;
        }
    }
}

static void read_state(struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_PARAM_UPDATED, step, &count);

    for (size_t i = 0; i < count; i++) {
        size_t cell = cell_of(e, rank, &list[i]->entry);

        if (cell != SIZE_MAX) {
            e->recorded.param[cell] = list[i]->entry.arg[1];
        }
    }
    list = harness_index_in_step(&e->index, rank, DDP_EVENT_OPTIMIZER_STATE, step, &count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        if (arg[0] < e->params.count && arg[2] < e->slot_count) {
            size_t slot = (size_t)rank * e->slot_count + arg[2];

            e->recorded.slot[slot * e->params.count + arg[0]] = arg[1];
        }
    }
}

/* The step that a collective belongs to. Under join a rank whose data ended takes part in the
 * others' collectives but still records its own last step; for it the program has the step. */
static uint32_t step_of(const struct harness_emulation *e, const struct harness_trace_event *event)
{
    const struct harness_op *planned = harness_program_at(e->input->program, event->entry.arg[0]);

    return event->entry.phase != DDP_PHASE_JOIN || planned == NULL || planned->step < 0 ||
                   harness_emulation_is_active(e, event->rank, (uint32_t)planned->step)
               ? event->entry.step
               : (uint32_t)planned->step;
}

/* The rank's posts that may belong to the step. */
static const struct harness_trace_event *const *
posts_of(const struct harness_emulation *e, uint32_t rank, uint32_t step, size_t *out_count)
{
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, out_count);

    if (*out_count == 0 || harness_emulation_is_active(e, rank, step)) {
        return harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_POST, step, out_count);
    }
    return harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_POST,
                                 list[*out_count - 1]->entry.step, out_count);
}

/* What a bucket's collective put in, or (is_done) got out, as its hash; 0: nothing. */
static uint64_t hash_of(const struct harness_emulation *e, const struct harness_trace_event *event,
                        bool is_done)
{
    const uint64_t *arg = event->entry.arg;
    struct ddp_event_op op = ddp_event_op_unpack(arg[1]);

    /* Another shape than the planned one is a finding of the program oracle. */
    return op.role != DDP_ROLE_BUCKET || op.index >= e->buckets.count ||
                   op.dtype != e->buckets.items[op.index].dtype ||
                   arg[2] != e->buckets.items[op.index].elem_count ||
                   (is_done && harness_index_status(arg[3]) != DDP_OK)
               ? 0
               : arg[4];
}

/* A rank that left a step out may be in its last step while others have one more: what it mirrors
 * for them is recorded in its own last one. */
static bool is_for_others(const struct harness_emulation *e,
                          const struct harness_trace_event *event, uint32_t step)
{
    return event->entry.phase == DDP_PHASE_JOIN &&
           harness_emulation_is_active(e, event->rank, step);
}

/* A collective belongs to the step in which it was posted: one that nobody waited for completes
 * later. */
static void read_buckets(struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    struct harness_recorded *recorded = &e->recorded;
    size_t count = 0;
    const struct harness_trace_event *const *posts = posts_of(e, rank, step, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t seq = posts[i]->entry.arg[0];
        const struct harness_trace_event *done =
            harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, seq);
        const uint64_t in = hash_of(e, posts[i], false);
        const uint64_t out = done != NULL && done->entry.arg[1] == posts[i]->entry.arg[1]
                                 ? hash_of(e, done, true)
                                 : 0;
        size_t cell;

        if ((in == 0 && out == 0) || step_of(e, posts[i]) != step ||
            is_for_others(e, posts[i], step)) {
            continue;
        }
        cell = rank * e->buckets.count + ddp_event_op_unpack(posts[i]->entry.arg[1]).index;
        if (in != 0 && recorded->in[cell] == 0) {
            recorded->in[cell] = in;
            recorded->seq[cell] = seq;
        }
        if (out != 0) {
            recorded->out[cell] = recorded->out[cell] == 0 ? out : recorded->out[cell];
            recorded->left[cell] = out;
        }
    }
}

void harness_recorded_read(struct harness_emulation *e, uint32_t step)
{
    clear(e);
    for (uint32_t r = 0; r < e->world; r++) {
        if (!harness_emulation_has_model(e, r)) {
            continue;
        }
        read_gradients(e, r, step);
        read_state(e, r, step);
        read_buckets(e, r, step);
    }
}

/* The recorded model of a rank after a step; bytes of what `like` has not recorded alike. */
static size_t want_model(struct harness_emulation *e, uint32_t rank, uint32_t like, uint32_t step)
{
    static const enum ddp_event kinds[] = {DDP_EVENT_PARAM_UPDATED, DDP_EVENT_OPTIMIZER_STATE};
    size_t size_bytes = 0;

    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        size_t count = 0;
        size_t like_count = 0;
        const struct harness_trace_event *const *list =
            harness_index_in_step(&e->index, rank, kinds[k], step, &count);
        const struct harness_trace_event *const *others =
            harness_index_in_step(&e->index, like, kinds[k], step, &like_count);

        for (size_t i = 0; i < count; i++) {
            const uint64_t *arg = list[i]->entry.arg;

            if (arg[1] == 0 || arg[0] >= e->params.count ||
                (rank != like && i < like_count && others[i]->entry.arg[1] == arg[1])) {
                continue;
            }
            harness_hashes_add(&e->wanted, arg[1]);
            size_bytes += e->params.items[arg[0]].size_bytes;
        }
    }
    return size_bytes;
}

/* The recorded models of later steps, so that a replay gives all that may be needed; not more than
 * a replay should keep at once. */
void harness_recorded_want(struct harness_emulation *e, uint32_t step)
{
    size_t left_bytes = AHEAD_BYTES_MAX;

    for (uint32_t next = step + 1; next < e->end_step; next++) {
        size_t size_bytes = 0;

        for (uint32_t r = 0; r < e->world; r++) {
            size_bytes += want_model(e, r, 0, next);
        }
        if (size_bytes > left_bytes) {
            return;
        }
        left_bytes -= size_bytes;
    }
}
