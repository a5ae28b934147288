/* Purpose: find where ranks first differ from the emulation, stage by stage.
 * Idea: within a step, stages follow from each other (batch, gradient, bucket input, output, copied
 * back, update), so only the earliest difference is an error; the rest are its consequences.
 * It writes no findings. */
#include "harness/emulation/compare.h"

#include <string.h>

enum match { MATCH_SAME, MATCH_DIFFERENT, MATCH_UNKNOWN };

/* What one event recorded, and what was expected. */
struct record {
    uint32_t rank, step;
    int32_t bucket, param, slot;
    uint64_t seq, elem_count;
    struct ddp_event_op op;
    uint64_t expected, got;
    bool is_loss;
};

static const struct ddp_event_entry *locate(const struct harness_emulation *e,
                                            const struct harness_trace_event *event,
                                            enum harness_predicted needed, size_t *out_k)
{
    uint32_t step = event->entry.step;

    if (step < e->start_step || step >= e->end_step) {
        return NULL;
    }
    *out_k = step - e->start_step;
    return e->expected.predicted[*out_k] >= needed ? &event->entry : NULL;
}

static enum match match_of(const struct record *record)
{
    return record->expected == record->got ? MATCH_SAME : MATCH_DIFFERENT;
}

static enum match match_loss(const struct harness_emulation *e,
                             const struct harness_trace_event *event, struct record *record)
{
    size_t k = 0;
    const struct ddp_event_entry *entry = locate(e, event, HARNESS_PREDICTED_GRADIENT, &k);

    /* With micro-batches the reference's loss is their mean, and events are of one each. */
    if (entry == NULL || e->input->job->micro_batches > 1 ||
        !e->expected.is_active[k * e->world + event->rank]) {
        return MATCH_UNKNOWN;
    }
    record->is_loss = true;
    record->expected = e->expected.loss_bits[k * e->world + event->rank];
    record->got = entry->arg[0];
    return match_of(record);
}

static enum match match_gradient(const struct harness_emulation *e,
                                 const struct harness_trace_event *event, struct record *record)
{
    size_t k = 0;
    const struct ddp_event_entry *entry = locate(e, event, HARNESS_PREDICTED_GRADIENT, &k);
    size_t cell;

    /* The last micro-batch's gradient holds all that was accumulated. */
    if (entry == NULL || entry->arg[0] >= e->params.count || entry->arg[1] == 0 ||
        entry->micro + 1u < e->input->job->micro_batches) {
        return MATCH_UNKNOWN;
    }
    cell = (k * e->world + event->rank) * e->params.count + entry->arg[0];
    record->param = (int32_t)entry->arg[0];
    record->bucket = (int32_t)e->bucket_of[entry->arg[0]];
    record->expected = e->expected.has_grad[cell] ? e->expected.grad_hash[cell] : 0;
    record->got = entry->arg[1];
    return match_of(record);
}

/* The step that a collective belongs to: that in which the rank posted it, even if it looked for
 * its end later. Under join a rank whose data ended takes part in the others' collectives but still
 * records its own last step; for it the program has the step. */
static uint32_t step_of(const struct harness_emulation *e, const struct harness_trace_event *event)
{
    const struct harness_op *planned = harness_program_at(e->input->program, event->entry.arg[0]);
    const struct harness_trace_event *post =
        harness_index_with_seq(&e->index, event->rank, DDP_EVENT_COLL_POST, event->entry.arg[0]);
    const uint32_t posted_step = post != NULL ? post->entry.step : event->entry.step;
    uint32_t step;

    if (planned == NULL || planned->step < 0) {
        return posted_step;
    }
    step = (uint32_t)planned->step;
    if (step < e->start_step || step >= e->end_step ||
        e->expected.is_active[(step - e->start_step) * (size_t)e->world + event->rank]) {
        return posted_step;
    }
    return step;
}

static enum match match_bucket(const struct harness_emulation *e,
                               const struct harness_trace_event *event, bool is_output,
                               struct record *record)
{
    const struct ddp_event_entry *entry = &event->entry;
    struct ddp_event_op op;
    size_t cell;
    size_t k;

    record->step = step_of(e, event);
    if (record->step < e->start_step || record->step >= e->end_step) {
        return MATCH_UNKNOWN;
    }
    k = record->step - e->start_step;
    if (e->expected.predicted[k] <
        (is_output ? HARNESS_PREDICTED_UPDATE : HARNESS_PREDICTED_INPUT)) {
        return MATCH_UNKNOWN;
    }
    op = ddp_event_op_unpack(entry->arg[1]);
    /* Another shape than the planned one is a finding of the program oracle. */
    if (op.role != DDP_ROLE_BUCKET || op.index >= e->buckets.count ||
        op.dtype != e->buckets.items[op.index].dtype ||
        entry->arg[2] != e->buckets.items[op.index].elem_count || entry->arg[4] == 0 ||
        (is_output && harness_index_status(entry->arg[3]) != DDP_OK)) {
        return MATCH_UNKNOWN;
    }
    cell = (k * e->world + event->rank) * e->buckets.count + op.index;
    record->bucket = (int32_t)op.index;
    record->seq = entry->arg[0];
    record->elem_count = entry->arg[2];
    record->op = op;
    record->expected = is_output ? e->expected.out_hash[cell] : e->expected.in_hash[cell];
    record->got = entry->arg[4];
    return match_of(record);
}

static enum match match_input(const struct harness_emulation *e,
                              const struct harness_trace_event *event, struct record *record)
{
    return match_bucket(e, event, false, record);
}

static enum match match_output(const struct harness_emulation *e,
                               const struct harness_trace_event *event, struct record *record)
{
    return match_bucket(e, event, true, record);
}

static enum match match_final(const struct harness_emulation *e,
                              const struct harness_trace_event *event, struct record *record)
{
    size_t k = 0;
    const struct ddp_event_entry *entry = locate(e, event, HARNESS_PREDICTED_UPDATE, &k);
    bool is_defined;
    size_t cell;

    if (entry == NULL || entry->arg[0] >= e->params.count) {
        return MATCH_UNKNOWN;
    }
    cell = k * e->params.count + entry->arg[0];
    is_defined = e->expected.is_updated[cell] != 0;
    record->param = (int32_t)entry->arg[0];
    record->bucket = (int32_t)e->bucket_of[entry->arg[0]];
    record->expected = is_defined ? e->expected.average_hash[cell] : 0;
    record->got = entry->arg[2] != 0 ? entry->arg[1] : 0;
    if (is_defined && entry->arg[2] != 0 && entry->arg[1] == 0) {
        return MATCH_UNKNOWN; /* not hashed */
    }
    return match_of(record);
}

static enum match match_param(const struct harness_emulation *e,
                              const struct harness_trace_event *event, struct record *record)
{
    size_t k = 0;
    const struct ddp_event_entry *entry = locate(e, event, HARNESS_PREDICTED_UPDATE, &k);

    if (entry == NULL || entry->arg[0] >= e->params.count || entry->arg[1] == 0 ||
        !e->expected.is_active[k * e->world + event->rank]) {
        return MATCH_UNKNOWN;
    }
    record->param = (int32_t)entry->arg[0];
    record->expected = e->expected.param_hash[k * e->params.count + entry->arg[0]];
    record->got = entry->arg[1];
    return match_of(record);
}

static enum match match_state(const struct harness_emulation *e,
                              const struct harness_trace_event *event, struct record *record)
{
    size_t k = 0;
    const struct ddp_event_entry *entry = locate(e, event, HARNESS_PREDICTED_UPDATE, &k);

    if (entry == NULL || entry->arg[0] >= e->params.count || entry->arg[1] == 0 ||
        entry->arg[2] >= e->slot_count || !e->expected.is_active[k * e->world + event->rank]) {
        return MATCH_UNKNOWN;
    }
    record->param = (int32_t)entry->arg[0];
    record->slot = (int32_t)entry->arg[2];
    record->expected =
        e->expected
            .slot_hash[(k * e->slot_count + entry->arg[2]) * e->params.count + entry->arg[0]];
    record->got = entry->arg[1];
    return match_of(record);
}

static const struct {
    enum harness_stage stage;
    enum ddp_event event;
    enum match (*match)(const struct harness_emulation *e, const struct harness_trace_event *event,
                        struct record *record);
} matchers[] = {
    {HARNESS_STAGE_GRADIENT, DDP_EVENT_GRAD_READY, match_gradient},
    {HARNESS_STAGE_GRADIENT, DDP_EVENT_LOSS, match_loss},
    {HARNESS_STAGE_INPUT, DDP_EVENT_COLL_POST, match_input},
    {HARNESS_STAGE_OUTPUT, DDP_EVENT_COLL_DONE, match_output},
    {HARNESS_STAGE_FINAL, DDP_EVENT_GRAD_FINAL, match_final},
    {HARNESS_STAGE_UPDATE, DDP_EVENT_PARAM_UPDATED, match_param},
    {HARNESS_STAGE_UPDATE, DDP_EVENT_OPTIMIZER_STATE, match_state},
};

static void restart(const struct harness_emulation *e, struct harness_difference *out,
                    const struct record *record)
{
    *out = (struct harness_difference){.is_set = true,
                                       .ranks = harness_rank_set_in(ddp_mem_pool_mem(e->sets)),
                                       .step = record->step,
                                       .bucket = record->bucket,
                                       .param = record->param,
                                       .slot = record->slot,
                                       .seq = record->seq,
                                       .elem_count = record->elem_count,
                                       .op = record->op,
                                       .rank = record->rank,
                                       .expected = record->expected,
                                       .got = record->got,
                                       .is_loss = record->is_loss};
}

/* Keep the earliest step; within it, the first record, and the ranks of all records. Gradients and
 * buckets of other parameters in the same step belong to the same error. */
static void note(const struct harness_emulation *e, struct harness_difference *out,
                 const struct record *record)
{
    if (!out->is_set || record->step < out->step) {
        restart(e, out, record);
    }
    if (record->step == out->step) {
        harness_rank_set_add(&out->ranks, record->rank);
    }
}

/* The rank went on past `step`. */
static bool is_past(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_GRAD_READY, &count);
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    if (count > 0 && list[count - 1]->entry.step > step) {
        return true;
    }
    return harness_index_is_ended_ok(&e->index, rank) && end->entry.arg[1] > step;
}

/* An update that was left out recorded nothing: look for steps without an event. */
static void note_missing_updates(const struct harness_emulation *e, uint32_t rank,
                                 struct harness_difference *out)
{
    size_t count = 0;
    size_t next = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PARAM_UPDATED, &count);

    for (uint32_t step = e->start_step; step < e->end_step && is_past(e, rank, step); step++) {
        size_t k = step - e->start_step;
        bool is_any = false;

        while (next < count && list[next]->entry.step < step) {
            next++;
        }
        is_any = next < count && list[next]->entry.step == step;
        if (e->expected.predicted[k] < HARNESS_PREDICTED_UPDATE) {
            return;
        }
        for (size_t p = 0; !is_any && p < e->params.count; p++) {
            struct record record = {.rank = rank,
                                    .step = step,
                                    .bucket = -1,
                                    .param = (int32_t)p,
                                    .slot = -1,
                                    .expected = e->expected.param_hash[k * e->params.count + p]};

            if (e->expected.is_updated[k * e->params.count + p] &&
                e->expected.is_active[k * e->world + rank]) {
                note(e, out, &record);
                out->is_missing = out->rank == rank && out->step == step;
                return;
            }
        }
    }
}

static bool is_hashed(const struct harness_emulation *e)
{
    size_t count = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        (void)harness_index_list(&e->index, r, DDP_EVENT_PARAM_UPDATED, &count);
        if (count > 0) {
            return true;
        }
    }
    return false;
}

static void compare_events(const struct harness_emulation *e, size_t matcher, uint32_t rank,
                           struct harness_difference *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, matchers[matcher].event, &count);

    for (size_t i = 0; i < count; i++) {
        struct record record = {
            .rank = rank, .step = list[i]->entry.step, .bucket = -1, .param = -1, .slot = -1};

        if (out->is_set && record.step > out->step) {
            return; /* the rank's events are in the order of its steps */
        }
        if (matchers[matcher].match(e, list[i], &record) == MATCH_DIFFERENT) {
            note(e, out, &record);
        }
    }
}

static void compare_stage(const struct harness_emulation *e, enum harness_stage stage,
                          const struct harness_rank_set *except, struct harness_difference *out)
{
    *out = (struct harness_difference){.bucket = -1, .param = -1, .slot = -1};
    if (stage == HARNESS_STAGE_DATA) {
        out->is_set = e->batch.is_set;
        out->step = e->batch.step;
        out->rank = e->batch.rank;
        if (out->is_set) {
            out->ranks = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
            harness_rank_set_add(&out->ranks, out->rank);
        }
        return;
    }
    for (uint32_t r = 0; r < e->world; r++) {
        if (harness_rank_set_has(except, r)) {
            continue;
        }
        for (size_t m = 0; m < sizeof(matchers) / sizeof(matchers[0]); m++) {
            if (matchers[m].stage == stage) {
                compare_events(e, m, r, out);
            }
        }
        if (stage == HARNESS_STAGE_UPDATE && is_hashed(e)) {
            note_missing_updates(e, r, out);
        }
    }
}

void harness_compare_stage(const struct harness_emulation *e, enum harness_stage stage,
                           struct harness_difference *out)
{
    const struct harness_rank_set nobody = {.ranks = {.count = 0}};

    compare_stage(e, stage, &nobody, out);
}

/* Ranks that differ in an earlier stage of the same step; *out_is_explained: the whole difference
 * follows from an earlier one. */
static void find_causes(const struct harness_emulation *e, enum harness_stage stage, uint32_t step,
                        struct harness_rank_set *blamed, bool *out_is_explained)
{
    *out_is_explained = false;
    for (int s = 0; s < HARNESS_STAGE_COUNT; s++) {
        struct harness_difference other;

        harness_compare_stage(e, (enum harness_stage)s, &other);
        if (s == (int)stage || !other.is_set || other.step > step ||
            (other.step == step && s > (int)stage)) {
            continue;
        }
        /* What comes out of a reduction mixes all ranks: any earlier difference explains it. */
        if (other.step < step || stage >= HARNESS_STAGE_OUTPUT) {
            *out_is_explained = true;
            return;
        }
        harness_rank_set_add_all(blamed, &other.ranks);
    }
}

void harness_compare_first(const struct harness_emulation *e, enum harness_stage stage,
                           struct harness_difference *out)
{
    struct harness_rank_set blamed = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
    bool is_explained = false;
    uint32_t step;

    harness_compare_stage(e, stage, out);
    if (!out->is_set || stage == HARNESS_STAGE_DATA) {
        return;
    }
    step = out->step;
    find_causes(e, stage, step, &blamed, &is_explained);
    if (!is_explained) {
        compare_stage(e, stage, &blamed, out);
    }
    if (is_explained || out->step != step) {
        out->is_set = false;
    }
}

bool harness_compare_is_clean_until(const struct harness_emulation *e, uint32_t step)
{
    for (int s = 0; s < HARNESS_STAGE_COUNT; s++) {
        struct harness_difference difference;

        harness_compare_stage(e, (enum harness_stage)s, &difference);
        if (difference.is_set && difference.step <= step) {
            return false;
        }
    }
    return true;
}
