/* Purpose: parameters and optimizer state after each step, against the judge's own optimizer; and
 * replicas against each other.
 * Idea: the emulation tells which replica is wrong. Where it predicts nothing, the minority is to
 * blame, and in a tie all ranks are. */
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"

static bool is_everyone(const struct harness_emulation *e, const struct harness_rank_set *ranks)
{
    return harness_rank_set_count(ranks) == e->world;
}

static enum harness_verdict verdict_of(const struct harness_emulation *e,
                                       const struct harness_difference *difference)
{
    if (difference->first.what.verdict == HARNESS_VERDICT_VALUE_NONFINITE) {
        return HARNESS_VERDICT_VALUE_NONFINITE;
    }
    if (!is_everyone(e, &difference->ranks)) {
        return HARNESS_VERDICT_VALUE_DIVERGED;
    }
    return harness_subject_verdict(difference) == HARNESS_VERDICT_VALUE_PRECISION
               ? HARNESS_VERDICT_VALUE_PRECISION
               : HARNESS_VERDICT_VALUE_CORRUPTED;
}

static void report_update(const struct harness_emulation *e,
                          const struct harness_difference *difference, struct harness_findings *out)
{
    const struct harness_deviation *first = &difference->first;
    struct harness_finding finding;
    char ranks[96];
    char what[160] = "";

    harness_finding_init(&finding, out->mem, verdict_of(e, difference), HARNESS_ORACLE_UPDATE,
                         HARNESS_MODE_BITWISE);
    finding.stage = (int32_t)difference->stage;
    harness_subject_set_difference(e, difference, &finding);
    if (first->slot >= 0) {
        (void)snprintf(what, sizeof(what), "optimizer state %d of ", first->slot);
    }
    (void)snprintf(what + strlen(what), sizeof(what) - strlen(what), "%.96s%s",
                   harness_subject_param_name(e, first->param),
                   difference->params.count > 1 ? ", ..." : "");
    (void)snprintf(finding.text, sizeof(finding.text), "%s after step %u %s on %s%s%s", what,
                   difference->step,
                   first->is_missing ? "was not updated" : "is not the optimizer's result",
                   harness_subject_ranks_text(&difference->ranks, ranks, sizeof(ranks)),
                   first->what.text == NULL || first->is_missing ? "" : ": ",
                   first->what.text == NULL || first->is_missing ? "" : first->what.text);
    harness_findings_add(out, &finding);
}

ddp_status harness_check_update(const struct harness_emulation *e, struct harness_findings *out,
                                struct ddp_err *err)
{
    (void)err;
    for (size_t i = 0; i < e->compare.count && !harness_emulation_is_restore(e); i++) {
        if (e->compare.items[i].stage == HARNESS_STAGE_UPDATE) {
            report_update(e, &e->compare.items[i], out);
        }
    }
    return DDP_OK;
}

/* --- replicas --------------------------------------------------------------------------------- */

/* The first (step, subject) whose hashes differ between ranks. */
struct split {
    bool is_set;
    uint32_t step, subject;
    struct harness_rank_set ranks; /* to blame */
};

/* The hash that is right: the emulation's if some rank has it, else the most frequent one; 0 for a
 * tie. hashes: uint64[world], 0 = the rank has none. */
static uint64_t right_hash(const uint64_t *hashes, uint32_t world, uint64_t expected)
{
    uint64_t best = 0;
    uint32_t best_count = 0;
    bool is_tie = false;

    for (uint32_t r = 0; r < world; r++) {
        uint32_t count = 0;

        if (hashes[r] == 0) {
            continue;
        }
        if (hashes[r] == expected) {
            return expected;
        }
        for (uint32_t q = 0; q < world; q++) {
            count += hashes[q] == hashes[r];
        }
        if (count > best_count) {
            best = hashes[r];
            best_count = count;
            is_tie = false;
        } else if (count == best_count && hashes[r] != best) {
            is_tie = true;
        }
    }
    return is_tie ? 0 : best;
}

/* The rank got, in all broadcasts of buffers of a step, what their root put in. */
static bool has_got_buffers(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_DONE, step, &count);
    bool is_any = false;

    for (size_t i = 0; i < count; i++) {
        const uint64_t *done = list[i]->entry.arg;
        const struct ddp_event_op op = ddp_event_op_unpack(done[1]);
        const struct harness_trace_event *sent =
            op.root < e->world
                ? harness_index_with_seq(&e->index, op.root, DDP_EVENT_COLL_POST, done[0])
                : NULL;

        if (op.role != DDP_ROLE_BUFFER_SYNC) {
            continue;
        }
        if (sent == NULL || sent->entry.arg[1] != done[1] || sent->entry.arg[4] == 0 ||
            sent->entry.arg[4] != done[4]) {
            return false;
        }
        is_any = true;
    }
    return is_any;
}

/* All others got what the owner put in, and hold what the emulation has: if the owner holds another
 * value, it came to that alone. */
static bool is_owner_alone(const struct harness_emulation *e, size_t k, uint64_t emulated,
                           const uint64_t *hashes)
{
    const uint32_t owner = e->expected.buffer_owner[k];
    bool is_any = false;

    for (uint32_t r = 0; r < e->world; r++) {
        if (r == owner || hashes[r] == 0) {
            continue;
        }
        if (hashes[r] != emulated || !has_got_buffers(e, r, e->start_step + (uint32_t)k)) {
            return false;
        }
        is_any = true;
    }
    return is_any;
}

/* What replicas should hold in step start_step + k; 0: not known. Buffers: what their owner hands
 * out, which another oracle judges. */
static uint64_t expected_hash(const struct harness_emulation *e, enum ddp_event kind, size_t k,
                              uint32_t subject, const uint64_t *hashes)
{
    if (kind == DDP_EVENT_BUFFER_SYNCED) {
        const uint64_t handed_out = hashes[e->expected.buffer_owner[k]];
        const uint64_t emulated = subject < e->buffers.count
                                      ? e->expected.buffer_hash[k * e->buffers.count + subject]
                                      : 0;

        return emulated != 0 && handed_out != 0 && !is_owner_alone(e, k, emulated, hashes)
                   ? handed_out
                   : emulated;
    }
    return e->expected.predicted[k] >= HARNESS_PREDICTED_UPDATE
               ? e->expected.param_hash[k * e->params.count + subject]
               : 0;
}

/* Of a step that is not emulated, since it was broken off: what a rank has that got them as they
 * were sent; 0: no rank did. */
static uint64_t handed_out_hash(const struct harness_emulation *e, uint32_t step,
                                const uint64_t *hashes)
{
    for (uint32_t r = 0; r < e->world; r++) {
        if (hashes[r] != 0 && has_got_buffers(e, r, step)) {
            return hashes[r];
        }
    }
    return 0;
}

/* Compare one subject in one step over all ranks. */
static bool is_split(const struct harness_emulation *e, enum ddp_event kind, uint32_t step,
                     uint32_t subject, struct split *out, uint64_t *hashes)
{
    uint64_t first = 0;
    uint64_t expected = 0;
    uint64_t right;
    bool is_different = false;

    for (uint32_t r = 0; r < e->world; r++) {
        hashes[r] = harness_subject_hash(e, r, kind, step, subject);
        if (hashes[r] != 0) {
            is_different = is_different || (first != 0 && hashes[r] != first);
            first = hashes[r];
        }
    }
    if (!is_different) {
        return false;
    }
    if (step >= e->start_step && step < e->end_step) {
        expected = expected_hash(e, kind, step - e->start_step, subject, hashes);
    }
    if (expected == 0 && kind == DDP_EVENT_BUFFER_SYNCED) {
        expected = handed_out_hash(e, step, hashes);
    }
    right = right_hash(hashes, e->world, expected);
    *out = (struct split){.is_set = true,
                          .step = step,
                          .subject = subject,
                          .ranks = harness_rank_set_in(ddp_mem_pool_mem(e->sets))};
    for (uint32_t r = 0; r < e->world; r++) {
        if (hashes[r] != 0 && hashes[r] != right) {
            harness_rank_set_add(&out->ranks, r);
        }
    }
    return true;
}

static uint32_t last_step(const struct harness_emulation *e, enum ddp_event kind)
{
    uint32_t last = 0;
    size_t count = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, kind, &count);

        if (count > 0 && list[count - 1]->entry.step > last) {
            last = list[count - 1]->entry.step;
        }
    }
    return last;
}

/* The next subject that differs between replicas. out: the one found before, behind which the
 * search goes on, or not set to begin with; then the one that was found, or not set. */
static void next_split(const struct harness_emulation *e, enum ddp_event kind,
                       uint32_t subject_count, uint64_t *hashes, struct split *out)
{
    const uint32_t last = last_step(e, kind);
    uint32_t first = out->is_set ? out->subject + 1 : 0;
    uint32_t step = out->step;

    out->is_set = false;
    for (; step <= last; step++) {
        if (kind == DDP_EVENT_PARAM_UPDATED && !harness_emulation_are_replicas_equal(e, step)) {
            continue;
        }
        for (uint32_t s = first; s < subject_count; s++) {
            if (is_split(e, kind, step, s, out, hashes)) {
                return;
            }
        }
        first = 0;
    }
}

static void report_split(const struct harness_emulation *e, const struct split *split,
                         const char *what, bool is_param, struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[96];
    char name[96];

    if (!split->is_set) {
        return;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_DIVERGED,
                         HARNESS_ORACLE_REPLICAS, HARNESS_MODE_BITWISE);
    finding.culprits = split->ranks;
    finding.step = (int32_t)split->step;
    (void)snprintf(name, sizeof(name), "buffer %u", split->subject);
    if (is_param) {
        harness_finding_add_param(&finding, split->subject);
        (void)snprintf(name, sizeof(name), "%.90s",
                       harness_subject_param_name(e, (int32_t)split->subject));
    }
    (void)snprintf(finding.text, sizeof(finding.text), "%s %s differs between replicas %s %u: %s",
                   what, name, is_param ? "after step" : "in step", split->step,
                   harness_subject_ranks_text(&split->ranks, ranks, sizeof(ranks)));
    harness_findings_add(out, &finding);
}

static uint32_t buffer_count(const struct harness_emulation *e)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_BUFFER_SYNCED, &count);

        for (size_t i = 0; i < count; i++) {
            most = list[i]->entry.arg[0] + 1 > most ? list[i]->entry.arg[0] + 1 : most;
        }
    }
    return most > 4096 ? 4096 : (uint32_t)most;
}

ddp_status harness_check_replicas(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    uint64_t *hashes = ddp_mem_array(e->mem, e->world, sizeof(*hashes));
    struct harness_rank_set blamed = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
    struct split params = {.is_set = false};
    struct split buffers = {.is_set = false};

    (void)err;
    if (hashes == NULL) {
        return DDP_E_NOMEM;
    }
    next_split(e, DDP_EVENT_PARAM_UPDATED, (uint32_t)e->params.count, hashes, &params);
    report_split(e, &params, "parameter", true, out);
    /* Parameters that differ go on so, and updates are judged by themselves. Buffers are handed out
     * anew: that another rank's differ later is another error. */
    do {
        if (e->input->plan->job.broadcast_buffers) {
            next_split(e, DDP_EVENT_BUFFER_SYNCED, buffer_count(e), hashes, &buffers);
        }
        if (buffers.is_set && !harness_rank_set_is_subset(&buffers.ranks, &blamed)) {
            report_split(e, &buffers, "the model's", false, out);
            harness_rank_set_add_all(&blamed, &buffers.ranks);
        }
    } while (buffers.is_set);
    ddp_mem_free(e->mem, hashes);
    return DDP_OK;
}
