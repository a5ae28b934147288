/* Purpose: what each rank recorded of its life is whole and does not contradict itself.
 * Idea: every collective is recorded twice, so a missing or altered line contradicts another. */
#include <signal.h>
#include <string.h>

#include "harness/evidence/internal.h"

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

/* A rank that has a group was told who it is, once. */
static void check_told(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    size_t phase_count = 0;
    const struct harness_trace_event *const *phases =
        harness_index_list(&e->index, rank, DDP_EVENT_PHASE, &phase_count);
    bool is_past = false;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_TOLD, &count);
    for (size_t i = 0; i < phase_count; i++) {
        is_past = is_past || phases[i]->entry.arg[0] == DDP_PHASE_INIT;
    }
    if (count > 1 || (count == 0 && is_past)) {
        harness_gap_set(out, "rank %u was told %zu times who it is", rank, count);
    }
}

bool harness_evidence_has_buffer(const struct harness_emulation *e, uint32_t rank, uint64_t buffer)
{
    size_t loss_count = 0;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUFFER_SYNCED, &count);

    (void)harness_index_list(&e->index, rank, DDP_EVENT_LOSS, &loss_count);
    if (e->input->plan->job.semantics == HARNESS_SEMANTICS_STRICT && loss_count > 0) {
        return buffer < e->buffers.count; /* ranks have compared them before they train */
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] >= buffer) {
            return true;
        }
    }
    return false;
}

/* Of a rank that trains: each of its buffers once, in order. It may have fewer than planned where
 * ranks do not compare them before; harness/oracle/model_buffers.c says so. */
static void check_buffer_shapes(const struct harness_emulation *e, uint32_t rank,
                                struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUFFER_SHAPE, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] != i) {
            harness_gap_set(out, "rank %u recorded buffer %llu in the place of its buffer %zu",
                            rank, (unsigned long long)list[i]->entry.arg[0], i);
        }
    }
    if (count > e->buffers.count || harness_evidence_has_buffer(e, rank, count)) {
        harness_gap_set(out, "rank %u recorded the shapes of %zu of its %zu buffers", rank, count,
                        e->buffers.count);
    }
}

/* The rank went through a backward pass of a step before the one that rebuilds: without, it has
 * nothing to rebuild, and what it left out is a finding of the program oracle. */
static bool has_reduced(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count; i++) {
        if (ddp_event_op_unpack(list[i]->entry.arg[1]).role == DDP_ROLE_BUCKET &&
            (int64_t)list[i]->entry.step < (int64_t)e->input->program->rebuilt_step) {
            return true;
        }
    }
    return false;
}

/* How many buckets a rank's new list has: as many as whoever has the same list says, and the plan
 * where it is the plan's, and as it put its parameters into. */
static void check_rebuilt(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_program *program = e->input->program;
    const struct ddp_event_entry *rebuilt = harness_evidence_rebuilt(e, rank);
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_PARAM, &count);
    uint64_t adopted = 0;
    bool is_right;

    if (rebuilt == NULL) {
        return;
    }
    is_right =
        rebuilt->arg[1] != program->rebuilt_hash || rebuilt->arg[0] == program->rebuilt.count;
    for (uint32_t r = 0; r < e->world; r++) {
        const struct ddp_event_entry *other = harness_evidence_rebuilt(e, r);

        is_right = is_right && (other == NULL || other->arg[1] != rebuilt->arg[1] ||
                                other->arg[0] == rebuilt->arg[0]);
    }
    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.index > rebuilt->index && list[i]->entry.arg[0] >= adopted) {
            adopted = list[i]->entry.arg[0] + 1;
        }
    }
    if (!is_right || (adopted > 0 && adopted != rebuilt->arg[0])) {
        harness_gap_set(out, "rank %u recorded a list of %llu new buckets, which it has not", rank,
                        (unsigned long long)rebuilt->arg[0]);
    }
}

/* Where each parameter lies: of a rank that reduced a bucket, the table is complete. Another model,
 * or configuration, lies elsewhere (harness/oracle/model.c). */
static void check_layout(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct ddp_event_entry *entry;
    size_t count = 0;
    size_t step_count = 0;
    size_t shape_count = 0;
    size_t rebuilt_count = 0;
    size_t config_count = 0;
    size_t logged_count = 0;
    const struct harness_trace_event *const *losses =
        harness_index_list(&e->index, rank, DDP_EVENT_LOSS, &step_count);
    bool is_rebuilt; /* it trained with the new buckets */

    (void)harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_PARAM, &count);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_BUCKET_REBUILT, &rebuilt_count);
    if (step_count == 0 && !harness_index_is_ended_ok(&e->index, rank)) {
        return;
    }
    is_rebuilt =
        step_count > 0 &&
        (int64_t)losses[step_count - 1]->entry.step >= (int64_t)e->input->program->rebuilt_step &&
        has_reduced(e, rank);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_PARAM_SHAPE, &shape_count);
    if (shape_count != e->params.count) {
        harness_gap_set(out, "rank %u recorded the shapes of %zu of its %zu parameters", rank,
                        shape_count, e->params.count);
    }
    check_buffer_shapes(e, rank, out);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_DDP_CONFIG, &config_count);
    if (config_count != 1) {
        harness_gap_set(out, "rank %u recorded %zu times what it is configured with", rank,
                        config_count);
    }
    (void)harness_index_list(&e->index, rank, DDP_EVENT_DDP_LOGGED, &logged_count);
    if (logged_count != (e->input->plan->job.logging ? 2 : 0) &&
        harness_index_is_ended_ok(&e->index, rank)) {
        harness_gap_set(out, "rank %u recorded %zu times what DDP says of its job", rank,
                        logged_count);
    }
    if (count != e->params.count && (rebuilt_count != 1 || count != 2 * e->params.count)) {
        harness_gap_set(out, "rank %u put %zu of its %zu parameters into buckets", rank, count,
                        e->params.count);
    }
    if (rebuilt_count > 1 || (is_rebuilt && count == e->params.count)) {
        harness_gap_set(out, "rank %u recorded %zu lists of new buckets and adopted %s", rank,
                        rebuilt_count, count == e->params.count ? "none" : "one");
    }
    if (harness_emulation_has_model(e, rank) &&
        harness_evidence_placement(e, rank, &entry) == HARNESS_PLACEMENT_BROKEN) {
        harness_gap_set(out, "rank %u put parameter %llu where the program does not have it", rank,
                        (unsigned long long)entry->arg[1]);
    }
}

/* What was posted was so in one of the plan's groups. */
static void check_groups(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        if (arg[3] != 0 && harness_program_group_of(e->input->program, arg[3]) == NULL) {
            harness_gap_set(out, "rank %u posted collective %llu in group %llu, which no plan has",
                            rank, (unsigned long long)arg[0], (unsigned long long)arg[3]);
        }
    }
}

/* A barrier has no values, and who ended well has completed all that it says. */
static bool is_sound_completion(const struct harness_emulation *e, uint32_t rank,
                                const struct ddp_event_entry *post,
                                const struct ddp_event_entry *done)
{
    const bool is_barrier = ddp_event_op_unpack(done->arg[1]).kind == DDP_COLL_BARRIER;

    return (!is_barrier || (post->arg[4] == 0 && done->arg[4] == 0)) &&
           (harness_index_status(done->arg[3]) == DDP_OK ||
            !harness_index_is_ended_ok(&e->index, rank));
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
        } else if (!is_sound_completion(e, rank, &post->entry, &list[i]->entry)) {
            harness_gap_set(out, "rank %u completed collective %llu as it cannot be", rank,
                            (unsigned long long)arg[0]);
        }
    }
}

/* The host waited for what it posted, once for each, until it was over. */
static void check_waits(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_WAITED, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t seq = list[i]->entry.arg[0];
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, seq);

        if (post == NULL || post->entry.index > list[i]->entry.index ||
            harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_WAITED, seq) != list[i]) {
            harness_gap_set(out, "rank %u waited for collective %llu twice, or never posted it",
                            rank, (unsigned long long)seq);
        } else if (harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, seq) == NULL) {
            harness_gap_set(out, "rank %u waited for collective %llu, which never completed", rank,
                            (unsigned long long)seq);
        }
    }
}

static bool is_made_to_exit(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_plan *plan = e->input->plan;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_FAULT_FIRED, &count);

    for (size_t i = 0; i < count; i++) {
        uint64_t fault = list[i]->entry.arg[0];

        if (fault < plan->fault_count && plan->faults[fault].action.kind == HARNESS_ACTION_EXIT) {
            return true;
        }
    }
    return false;
}

/* By a plug-in that has no schedules. */
static bool is_moved(const struct harness_emulation *e, const struct ddp_event_op *op)
{
    return e->input->plan->job.collective.engine == HARNESS_ENGINE_OPAQUE &&
           op->kind == DDP_COLL_ALL_REDUCE && op->role == DDP_ROLE_BUCKET;
}

/* Every collective that went by a schedule of the job's world left it. */
static void check_schedules(const struct harness_emulation *e, uint32_t rank,
                            struct harness_gap *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &count);

    if ((e->input->plan->job.collective.engine != HARNESS_ENGINE_SCHEDULE &&
         e->input->plan->job.collective.engine != HARNESS_ENGINE_OPAQUE) ||
        e->input->run_dir == NULL || harness_index_is_apart(&e->index, rank, e->world)) {
        return;
    }
    for (size_t i = 0; i < count && !out->is_set; i++) {
        const uint64_t *arg = list[i]->entry.arg;
        const struct ddp_event_op op = ddp_event_op_unpack(arg[1]);
        const struct harness_members members = harness_emulation_members(e, rank, arg[0]);
        const struct harness_schedule_set *set = harness_emulation_schedules(e, rank, arg);

        if (harness_index_status(arg[3]) == DDP_OK && !is_moved(e, &op) &&
            !harness_evidence_is_disturbed(e, rank, list[i]->entry.step) &&
            (set == NULL || members.member >= set->size || set->member[members.member] == NULL)) {
            harness_gap_set(out,
                            "rank %u completed collective %llu (%s of %llu %s), and left no "
                            "schedule of it",
                            rank, (unsigned long long)arg[0], ddp_coll_kind_name(op.kind),
                            (unsigned long long)arg[2], ddp_dtype_name(op.dtype));
        }
    }
}

/* How a rank says that it ended, its error, and how its process ended agree. */
static void check_end(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_rank_end *left = &e->input->trace->ends[rank];
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    size_t error_count = 0;
    size_t hold_count = 0;
    size_t end_count = 0;
    ddp_status status;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &error_count);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_END, &end_count);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_HOLDS, &hold_count);
    if (left->how == HARNESS_END_NONE && left->event_count > 0) {
        harness_gap_set(out, "rank %u never started, and recorded %llu events", rank,
                        (unsigned long long)left->event_count);
    }
    if (left->how == HARNESS_END_REAPED && left->code != SIGKILL && left->code != SIGTERM) {
        harness_gap_set(out, "rank %u was ended by the harness with signal %d", rank, left->code);
    }
    if (end == NULL) {
        if (left->how == HARNESS_END_EXITED && left->event_count > 0 && !is_made_to_exit(e, rank)) {
            harness_gap_set(out, "rank %u exited with code %d and recorded no end", rank,
                            left->code);
        }
        return;
    }
    status = harness_index_status(end->entry.arg[0]);
    if (end_count != 1 || end->entry.index != left->event_count) {
        harness_gap_set(out, "rank %u recorded its end before something else", rank);
    } else if (status == DDP_OK && hold_count != 2) {
        harness_gap_set(out, "rank %u recorded %zu times what it holds, not at begin and end", rank,
                        hold_count);
    } else if (status != DDP_OK && error_count == 0) {
        harness_gap_set(out, "rank %u ended with %s and recorded no error", rank,
                        ddp_status_name(status));
    } else if (status != DDP_OK && left->how == HARNESS_END_EXITED && left->code != 1) {
        harness_gap_set(out, "rank %u ended with %s and exited with code %d, not 1", rank,
                        ddp_status_name(status), left->code);
    }
}

/* Ranks that loaded the checkpoint found as much in it, and in it is no more than a model has. */
static bool is_loaded_alike(const struct harness_emulation *e, const struct ddp_event_entry *loaded)
{
    const size_t total = e->params.count * (e->slot_count + 2) + e->buffers.count;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_CHECKPOINT_LOADED, &count);

        if (count > 0 && harness_index_status(list[0]->entry.arg[3]) == DDP_OK &&
            list[0]->entry.arg[1] != loaded->arg[1]) {
            return false;
        }
    }
    return loaded->arg[1] <= total && loaded->arg[2] == total;
}

/* A run that goes on from a checkpoint says what it loaded; one that begins anew is found by it. */
static void check_loaded(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t step_count = 0;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_CHECKPOINT_LOADED, &count);
    const struct harness_trace_event *const *losses =
        harness_index_list(&e->index, rank, DDP_EVENT_LOSS, &step_count);
    const bool is_begun = step_count > 0 ? losses[0]->entry.step >= e->input->restored_step
                                         : harness_index_is_ended_ok(&e->index, rank);

    if (harness_emulation_is_restore(e) && is_begun &&
        (count != 1 || !is_loaded_alike(e, &list[0]->entry) ||
         harness_index_status(list[0]->entry.arg[3]) != DDP_OK ||
         list[0]->entry.arg[0] != e->input->restored_step)) {
        harness_gap_set(out, "rank %u did not record that it loaded the checkpoint of step %u",
                        rank, e->input->restored_step);
    }
}

static size_t count_of(const struct harness_trace_event *const *list, size_t count, uint64_t fault)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        found += list[i]->entry.arg[0] == fault;
    }
    return found;
}

/* Faults fire where the plan has them, hit by hit; one that leaves something out says so. */
static void check_faults(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_plan *plan = e->input->plan;
    size_t fired_count = 0;
    size_t skip_count = 0;
    const struct harness_trace_event *const *fired =
        harness_index_list(&e->index, rank, DDP_EVENT_FAULT_FIRED, &fired_count);
    const struct harness_trace_event *const *skips =
        harness_index_list(&e->index, rank, DDP_EVENT_OP_SKIPPED, &skip_count);
    size_t known = 0;

    for (uint32_t i = 0; i < plan->fault_count; i++) {
        size_t count = count_of(fired, fired_count, i);
        bool is_skip = plan->faults[i].action.kind == HARNESS_ACTION_SKIP;
        uint64_t first = plan->faults[i].at.hit;

        known += count;
        if (count_of(skips, skip_count, i) != (is_skip ? count : 0)) {
            harness_gap_set(out, "rank %u fired fault %u %zu times, and left out %zu things", rank,
                            i, count, count_of(skips, skip_count, i));
        }
        for (size_t k = 0; k < fired_count; k++) {
            const uint64_t *arg = fired[k]->entry.arg;

            if (arg[0] == i &&
                (arg[1] != plan->faults[i].point || arg[2] != first + count_of(fired, k, i) ||
                 plan->faults[i].at.rank != rank)) {
                harness_gap_set(out, "rank %u fired fault %u, but not where the plan has it", rank,
                                i);
            }
        }
    }
    if (known != fired_count) {
        harness_gap_set(out, "rank %u fired a fault that the plan does not have", rank);
    }
}

/* The steps that a rank says it completed are those whose parameters it recorded. */
static void check_count(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    uint64_t steps = 0;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PARAM_UPDATED, &count);

    if (count == 0 && e->input->plan->job.is_continued && end != NULL &&
        end->entry.arg[1] <= e->input->restored_step) {
        return; /* a survivor that was behind, and did not come so far as to take the others' state
                 */
    }
    steps = count > 0 ? list[count - 1]->entry.step + 1u : e->input->restored_step;
    if (end != NULL && end->entry.arg[1] != steps && (count > 0 || end->entry.arg[1] != 0)) {
        harness_gap_set(out, "rank %u says that it completed %llu steps, and recorded %llu", rank,
                        (unsigned long long)end->entry.arg[1], (unsigned long long)steps);
    }
}

ddp_status harness_evidence_ranks(const struct harness_emulation *e, struct harness_gap *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        check_begin(e, r, out);
        check_told(e, r, out);
        check_groups(e, r, out);
        check_completions(e, r, out);
        check_waits(e, r, out);
        check_schedules(e, r, out);
        check_end(e, r, out);
        check_loaded(e, r, out);
        check_faults(e, r, out);
        check_count(e, r, out);
        check_layout(e, r, out);
        check_rebuilt(e, r, out);
        harness_evidence_subjects(e, r, out);
        harness_evidence_joined(e, r, out);
    }
    return harness_evidence_order(e, out);
}
