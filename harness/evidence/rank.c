/* Purpose: what each rank recorded of its life is whole and does not contradict itself.
 * Idea: every event says the phase that the rank is in, and every collective is recorded twice; so
 * a missing or altered line contradicts its neighbours. */
#include <string.h>

#include "harness/evidence/internal.h"

/* One walk over all ranks' events: the phase that each event names is the one that was entered
 * last. */
static ddp_status check_phases(const struct harness_emulation *e, struct harness_gap *out)
{
    const struct harness_trace *trace = e->input->trace;
    uint8_t *phase = ddp_mem_array(e->mem, e->world, sizeof(*phase)); /* all SPAWN */

    if (phase == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < trace->event_count && !out->is_set; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        const struct ddp_event_entry *entry = &event->entry;
        bool is_change = entry->event == DDP_EVENT_PHASE;

        if (is_change && entry->arg[0] == phase[event->rank]) {
            harness_gap_set(out, "rank %u entered phase %s twice, in step %u", event->rank,
                            ddp_phase_name((enum ddp_phase)entry->phase), entry->step);
        }
        if (is_change) {
            phase[event->rank] = (uint8_t)entry->arg[0];
        }
        if (entry->phase != phase[event->rank]) {
            harness_gap_set(out, "rank %u recorded %s in phase %s, step %u, and never entered it",
                            event->rank, ddp_event_name((enum ddp_event)entry->event),
                            ddp_phase_name((enum ddp_phase)entry->phase), entry->step);
        }
    }
    ddp_mem_free(e->mem, phase);
    return DDP_OK;
}

/* A rank that recorded anything began, once and first of all, with the plan's program. */
static void check_begin(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    size_t phase_count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_BEGIN, &count);

    (void)harness_index_list(&e->index, rank, DDP_EVENT_PHASE, &phase_count);
    if (count > 1 || (count == 0 && phase_count > 0)) {
        harness_gap_set(out, "rank %u recorded %zu beginnings", rank, count);
    } else if (count == 1 && (list[0]->entry.index != 1 || list[0]->entry.arg[1] != e->world ||
                              list[0]->entry.arg[2] != e->input->program->hash)) {
        harness_gap_set(out, "rank %u began another program, or in another world", rank);
    }
}

/* Where each parameter lies: of a rank that reduced a bucket, the table is complete. */
static void check_layout(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_program *program = e->input->program;
    size_t count = 0;
    size_t step_count = 0;
    size_t shape_count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_PARAM, &count);

    (void)harness_index_list(&e->index, rank, DDP_EVENT_LOSS, &step_count);
    if (step_count == 0) {
        return;
    }
    (void)harness_index_list(&e->index, rank, DDP_EVENT_PARAM_SHAPE, &shape_count);
    if (shape_count != e->params.count) {
        harness_gap_set(out, "rank %u recorded the shapes of %zu of its %zu parameters", rank,
                        shape_count, e->params.count);
    }
    if (count != e->params.count) {
        harness_gap_set(out, "rank %u put %zu of its %zu parameters into buckets", rank, count,
                        e->params.count);
    }
    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        const struct harness_bucket *bucket =
            arg[0] < program->bucket_count ? &program->buckets[arg[0]] : NULL;
        bool is_found = false;

        for (uint32_t p = 0; bucket != NULL && p < bucket->param_count; p++) {
            is_found = is_found || (bucket->params[p] == arg[1] && bucket->offsets[p] == arg[2] &&
                                    program->params[arg[1]].elem_count == arg[3]);
        }
        if (!is_found) {
            harness_gap_set(out, "rank %u put parameter %llu where the program does not have it",
                            rank, (unsigned long long)arg[1]);
        }
    }
}

/* Whatever completed was posted as the same operation, and completed once. */
static void check_completions(const struct harness_emulation *e, uint32_t rank,
                              struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &count);

    for (size_t i = 0; i < count && !out->is_set; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, arg[0]);

        if (post == NULL || post->entry.arg[1] != arg[1] || post->entry.arg[2] != arg[2]) {
            harness_gap_set(out, "rank %u completed collective %llu, and did not post it so", rank,
                            (unsigned long long)arg[0]);
        } else if (harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, arg[0]) !=
                   list[i]) {
            harness_gap_set(out, "rank %u completed collective %llu twice", rank,
                            (unsigned long long)arg[0]);
        }
    }
}

/* How a rank says that it ended, its error, and how its process ended agree. */
static void check_end(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_rank_end *left = &e->input->trace->ends[rank];
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    size_t error_count = 0;
    size_t end_count = 0;
    ddp_status status;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &error_count);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_END, &end_count);
    if (left->how == HARNESS_END_NONE && left->event_count > 0) {
        harness_gap_set(out, "rank %u never started, and recorded %llu events", rank,
                        (unsigned long long)left->event_count);
    }
    if (end == NULL) {
        return;
    }
    status = harness_index_status(end->entry.arg[0]);
    if (end_count != 1 || end->entry.index != left->event_count) {
        harness_gap_set(out, "rank %u recorded its end before something else", rank);
    } else if (status != DDP_OK && error_count == 0) {
        harness_gap_set(out, "rank %u ended with %s and recorded no error", rank,
                        ddp_status_name(status));
    } else if (status != DDP_OK && left->how == HARNESS_END_EXITED && left->code == 0) {
        harness_gap_set(out, "rank %u ended with %s and exited with code 0", rank,
                        ddp_status_name(status));
    }
}

/* A run that goes on from a checkpoint says what it loaded. */
static void check_loaded(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t step_count = 0;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_CHECKPOINT_LOADED, &count);

    (void)harness_index_list(&e->index, rank, DDP_EVENT_LOSS, &step_count);
    if (harness_emulation_is_restore(e) && step_count > 0 &&
        (count != 1 || harness_index_status(list[0]->entry.arg[3]) != DDP_OK ||
         list[0]->entry.arg[0] != e->input->restored_step)) {
        harness_gap_set(out, "rank %u did not record that it loaded the checkpoint of step %u",
                        rank, e->input->restored_step);
    }
}

/* Each fault that leaves something out says so when it has fired. */
static void check_skips(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_plan *plan = e->input->plan;
    size_t fired_count = 0;
    size_t skip_count = 0;
    size_t due = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_FAULT_FIRED, &fired_count);

    (void)harness_index_list(&e->index, rank, DDP_EVENT_OP_SKIPPED, &skip_count);
    for (size_t i = 0; i < fired_count; i++) {
        uint64_t fault = list[i]->entry.arg[0];

        due += fault < plan->fault_count && plan->faults[fault].action.kind == HARNESS_ACTION_SKIP;
    }
    if (skip_count != due) {
        harness_gap_set(out, "rank %u was made to leave out %zu things, and recorded %zu", rank,
                        due, skip_count);
    }
}

ddp_status harness_evidence_ranks(const struct harness_emulation *e, bool is_clean,
                                  struct harness_gap *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        check_begin(e, r, out);
        check_completions(e, r, out);
        check_end(e, r, out);
        check_loaded(e, r, out);
        check_skips(e, r, out);
        if (is_clean) {
            check_layout(e, r, out);
        }
    }
    return out->is_set ? DDP_OK : check_phases(e, out);
}
