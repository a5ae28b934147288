/* Purpose: the drift alarm that a trainer has asked for says what is so.
 * Idea: what ranks hold behind a step is recorded parameter by parameter, beside the alarm. Where
 * they differ the first such parameter decides: who holds it otherwise than most is the rank that
 * the alarm has to name, on every rank. A rank that has left a step out compares itself with others
 * that are a step ahead: what counts is what each holds where it posted that comparison.
 * Where a hash is recorded that no tensor has, even of a replay, what that rank held is not known.
 */
#include <inttypes.h>
#include <stdio.h>

#include "harness/oracle/subject.h"

/* What the alarm has to say. */
struct alarm {
    int64_t rank; /* -1: nobody, or of two largest camps nobody knows which */
    uint64_t rank_count, param, param_count;
};

/* The hash of a parameter on a rank behind a step; false: it was not recorded, once. */
static bool find_hash(const struct harness_emulation *e, uint32_t rank, uint32_t step, size_t param,
                      uint64_t *out)
{
    size_t count = 0;
    size_t found = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_PARAM_UPDATED, step, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] == param) {
            *out = list[i]->entry.arg[1];
            found++;
        }
    }
    return found == 1 && *out != 0;
}

/* How many ranks hold what the rank holds. */
static uint32_t camp_size(const uint64_t *hash, uint32_t world, uint32_t rank)
{
    uint32_t size = 0;

    for (uint32_t r = 0; r < world; r++) {
        size += hash[r] == hash[rank];
    }
    return size;
}

static void blame(const uint64_t *hash, uint32_t world, struct alarm *out)
{
    uint32_t largest = 0;
    bool is_one = true;

    for (uint32_t r = 0; r < world; r++) {
        if (camp_size(hash, world, r) > camp_size(hash, world, largest)) {
            largest = r;
        }
    }
    for (uint32_t r = 0; r < world; r++) {
        is_one = is_one && (hash[r] == hash[largest] ||
                            camp_size(hash, world, r) < camp_size(hash, world, largest));
    }
    for (uint32_t r = world; is_one && r-- > 0;) {
        if (hash[r] != hash[largest]) {
            out->rank = r;
            out->rank_count++;
        }
    }
}

/* Where the other ranks were in the comparison that the rank posted behind a step. False: it, or
 * one of them, posted none under that number. at_step: [world]. */
static bool find_steps(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                       uint32_t *at_step)
{
    const struct harness_trace_event *own = NULL;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_POST, step, &count);

    for (size_t i = 0; own == NULL && i < count; i++) {
        if (ddp_event_op_unpack(list[i]->entry.arg[1]).role == DDP_ROLE_DRIFT) {
            own = list[i];
        }
    }
    for (uint32_t r = 0; own != NULL && r < e->world; r++) {
        const struct harness_trace_event *post =
            harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_POST, own->entry.arg[0]);

        if (post == NULL || ddp_event_op_unpack(post->entry.arg[1]).role != DDP_ROLE_DRIFT) {
            return false;
        }
        at_step[r] = post->entry.step;
    }
    return own != NULL;
}

/* False: not everything that ranks hold was recorded. at_step, hash: [world]. */
static bool work_out(const struct harness_emulation *e, const uint32_t *at_step, uint64_t *hash,
                     struct alarm *out)
{
    *out = (struct alarm){.rank = -1};
    for (size_t p = 0; p < e->params.count; p++) {
        for (uint32_t r = 0; r < e->world; r++) {
            if (!find_hash(e, r, at_step[r], p, &hash[r])) {
                return false;
            }
        }
        if (camp_size(hash, e->world, 0) < e->world && out->param_count++ == 0) {
            out->param = p;
            blame(hash, e->world, out);
        }
    }
    return true;
}

static void say(const struct harness_emulation *e, const struct alarm *alarm, char *text,
                size_t size_bytes)
{
    if (alarm->param_count == 0) {
        (void)snprintf(text, size_bytes, "that nothing differs");
    } else if (alarm->rank < 0) {
        (void)snprintf(text, size_bytes, "that %.60s and %" PRIu64 " more differ",
                       harness_subject_param_name(e, (int32_t)alarm->param),
                       alarm->param_count - 1);
    } else {
        (void)snprintf(
            text, size_bytes,
            "that rank %" PRId64 " (of %" PRIu64 ") holds %.60s and %" PRIu64 " more otherwise",
            alarm->rank, alarm->rank_count, harness_subject_param_name(e, (int32_t)alarm->param),
            alarm->param_count - 1);
    }
}

static void check_rank(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                       const struct alarm *due, struct harness_findings *out)
{
    struct harness_finding finding;
    struct alarm got;
    size_t count = 0;
    char said[160];
    char right[160];
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_DRIFT, step, &count);

    if (count != 1) {
        return; /* it did not come so far; else the evidence is missed */
    }
    got = (struct alarm){(int64_t)list[0]->entry.arg[0], list[0]->entry.arg[1],
                         list[0]->entry.arg[2], list[0]->entry.arg[3]};
    if (got.rank == due->rank && got.rank_count == due->rank_count && got.param == due->param &&
        got.param_count == due->param_count) {
        return;
    }
    if (got.param >= e->params.count) {
        got.param = 0;
    }
    say(e, &got, said, sizeof(said));
    say(e, due, right, sizeof(right));
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED, HARNESS_ORACLE_DRIFT,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, rank);
    finding.step = (int32_t)step;
    finding.phase = DDP_PHASE_OPTIMIZER;
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the drift alarm of rank %u says behind step %u %s; by what ranks hold it is %s",
                   rank, step, said, right);
    harness_findings_add(out, &finding);
}

/* The comparison behind a step, on all ranks. Mostly all are in that step, and one answer is due.
 */
static void check_step(const struct harness_emulation *e, uint32_t step, uint32_t *at_step,
                       uint64_t *hash, struct harness_findings *out)
{
    struct alarm due = {.rank = -1};
    bool is_known = false;
    bool is_common = false;

    for (uint32_t r = 0; r < e->world; r++) {
        if (!is_common || at_step[r] != step) {
            is_known = find_steps(e, r, step, at_step) && work_out(e, at_step, hash, &due);
            is_common = is_known;
            for (uint32_t q = 0; q < e->world; q++) {
                is_common = is_common && at_step[q] == step;
            }
        }
        if (is_known) {
            check_rank(e, r, step, &due, out);
        }
    }
}

ddp_status harness_check_drift(const struct harness_emulation *e, struct harness_findings *out,
                               struct ddp_err *err)
{
    const uint32_t every = e->input->plan->job.drift_every;
    uint64_t *hash = every == 0 ? NULL : ddp_mem_array(e->mem, e->world, sizeof(*hash));
    uint32_t *at_step = every == 0 ? NULL : ddp_mem_array(e->mem, e->world, sizeof(*at_step));
    const bool is_room = hash != NULL && at_step != NULL;

    for (uint32_t step = e->start_step; is_room && step < e->end_step; step++) {
        if ((step + 1) % every == 0 && harness_compare_is_known_until(e, step)) {
            check_step(e, step, at_step, hash, out);
        }
    }
    ddp_mem_free(e->mem, at_step);
    ddp_mem_free(e->mem, hash);
    return every == 0 || is_room
               ? DDP_OK
               : ddp_err_set(err, DDP_E_NOMEM, "no memory to check the drift alarm");
}
