/* Purpose: what went into and came out of each bucket's all-reduce, against scaled local gradients
 * and the sums that the dumped schedules make of them.
 * Idea: a wrong input names its rank; a wrong output with right inputs names the ranks that hold
 * it. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/oracle/subject.h"
#include "harness/plan/hook_round.h"

/* What is wrong with a tensor of each stage: while it is not at hand, and whose it is. */
static const struct {
    const char *what, *whose;
} words[HARNESS_STAGE_COUNT] = {
    [HARNESS_STAGE_INPUT] = {"the input is not the scaled local gradients:", "input"},
    [HARNESS_STAGE_OUTPUT] =
        {"the output is not the inputs' sum in the declared or measured order:", "output"},
    [HARNESS_STAGE_FINAL] = {"the gradient copied back is not the reduced one:",
                             "gradient copied back"},
};

/* What came out of the operation is what its one rank had put in, and a message says that it took
 * no part: all that the others had put in is lost, whatever factor the values differ by. */
static bool is_alone(const struct harness_emulation *e, const struct harness_difference *difference,
                     uint64_t seq)
{
    const uint32_t rank = difference->first.rank;
    const struct harness_trace_event *post =
        seq != 0 ? harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, seq) : NULL;
    const struct harness_trace_event *done =
        seq != 0 ? harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, seq) : NULL;

    return difference->stage == HARNESS_STAGE_OUTPUT &&
           harness_rank_set_count(&difference->ranks) == 1 && post != NULL && done != NULL &&
           post->entry.arg[4] != 0 && post->entry.arg[4] == done->entry.arg[4] &&
           harness_usage_is_absent_since(e, rank, seq);
}

static void report(const struct harness_emulation *e, const struct harness_difference *difference,
                   struct harness_findings *out)
{
    const struct harness_description *what = &difference->first.what;
    const char *text = what->text;
    struct harness_finding finding;
    char ranks[96];

    harness_finding_init(&finding, out->mem, harness_subject_verdict(difference),
                         HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
    finding.stage = (int32_t)difference->stage;
    finding.factor_low = what->residual.low;
    finding.factor_high = what->residual.high;
    harness_subject_set_difference(e, difference, &finding);
    (void)harness_subject_ranks_text(&difference->ranks, ranks, sizeof(ranks));
    if (harness_hook_is_lossy(&e->input->plan->job, difference->step) &&
        difference->first.seq != 0 && difference->stage != HARNESS_STAGE_FINAL) {
        harness_subject_set_op(e, difference->first.seq, &finding);
    }
    if (finding.verdict != HARNESS_VERDICT_VALUE_LOST &&
        is_alone(e, difference, finding.op.seq != 0 ? finding.op.seq : difference->first.seq)) {
        finding.verdict = HARNESS_VERDICT_VALUE_LOST;
        finding.factor_low = finding.factor_high = 0;
        text = "the sum holds its own contribution alone, and it took no part";
    }
    if (difference->first.bucket < 0) {
        harness_subject_set_op(e, difference->first.seq, &finding);
        finding.phase = DDP_PHASE_OPTIMIZER;
        (void)snprintf(finding.text, sizeof(finding.text),
                       "step %u, averages of parameters, %s of %s: %s%s", difference->step,
                       words[difference->stage].whose, ranks,
                       text != NULL ? text : harness_subject_param_name(e, difference->first.param),
                       text != NULL ? "" : " is another one than is due");
    } else if (text != NULL) {
        (void)snprintf(finding.text, sizeof(finding.text), "step %u, bucket %d, %s of %s: %s",
                       difference->step, difference->first.bucket, words[difference->stage].whose,
                       ranks, text);
    } else {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "%s of bucket %d in step %u (%s%s) on %s", words[difference->stage].what,
                       difference->first.bucket, difference->step,
                       harness_subject_param_name(e, (int32_t)harness_list_at(&finding.params, 0)),
                       finding.params.count > 1 ? ", ..." : "", ranks);
    }
    harness_findings_add(out, &finding);
}

/* The hash of a used map, as the observer of collectives makes it. */
static uint64_t map_hash(const struct harness_emulation *e, const int32_t *map)
{
    char salt[64];

    (void)snprintf(salt, sizeof(salt), "%s/0", ddp_coll_role_name(DDP_ROLE_USED_MAP));
    return ddp_hash_tensor(map, e->params.count * sizeof(*map), ddp_hash_text(salt), NULL);
}

/* The hash that a rank recorded of this map, going in or coming out; 0: none. */
static uint64_t recorded_map(const struct harness_emulation *e, const struct harness_op *op,
                             uint32_t rank, enum ddp_event event)
{
    const struct harness_trace_event *found =
        harness_index_with_seq(&e->index, rank, event, op->seq);

    return found != NULL && ddp_event_op_unpack(found->entry.arg[1]).role == DDP_ROLE_USED_MAP
               ? found->entry.arg[4]
               : 0;
}

/* The rank, which has data for it, posted this operation in another step, or for others once its
 * data had ended: it has left one out, and its map is not of this step. */
static bool is_of_other_step(const struct harness_emulation *e, const struct harness_op *op,
                             uint32_t rank)
{
    const struct harness_trace_event *post =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, op->seq);

    return post != NULL &&
           (post->entry.step != (uint32_t)op->step || post->entry.phase == DDP_PHASE_JOIN);
}

/* Ranks whose used map in a step is not the reference's (*out_is_sent); if there are none, those
 * that got another one out than the sum. map: int32[2][params.count] */
static void compare_maps(const struct harness_emulation *e, const struct harness_op *op,
                         int32_t *map, struct harness_rank_set *wrong, bool *out_is_sent)
{
    const size_t k = (size_t)op->step - e->start_step;
    int32_t *total = map + e->params.count;
    bool is_total_known = true;

    memset(total, 0, e->params.count * sizeof(*total));
    for (uint32_t r = 0; r < e->world; r++) {
        const bool is_active = e->expected.is_active[k * e->world + r] != 0;
        const uint64_t got = recorded_map(e, op, r, DDP_EVENT_COLL_POST);

        for (size_t p = 0; p < e->params.count; p++) {
            map[p] = is_active && e->expected.has_grad[(k * e->world + r) * e->params.count + p];
            total[p] += map[p];
        }
        /* PyTorch's joined ranks send the map as the last reduction left it. */
        if ((!is_active && e->input->plan->job.semantics != HARNESS_SEMANTICS_STRICT) ||
            (is_active && is_of_other_step(e, op, r))) {
            is_total_known = false;
        } else if (got != 0 && got != map_hash(e, map)) {
            harness_rank_set_add(wrong, r);
            is_total_known = false;
        }
    }
    *out_is_sent = !harness_rank_set_is_empty(wrong);
    for (uint32_t r = 0; is_total_known && r < e->world; r++) {
        const uint64_t got = recorded_map(e, op, r, DDP_EVENT_COLL_DONE);

        if (got != 0 && got != map_hash(e, total)) {
            harness_rank_set_add(wrong, r);
        }
    }
}

/* The parameters that count as used or not by what the wrong ranks say alone: no other rank has a
 * gradient of them. */
static void add_decided(const struct harness_emulation *e, const struct harness_op *op,
                        struct harness_finding *finding)
{
    const size_t k = (size_t)op->step - e->start_step;

    for (size_t p = 0; p < e->params.count; p++) {
        bool is_used = false;

        for (uint32_t r = 0; r < e->world && !is_used; r++) {
            is_used = !harness_rank_set_has(&finding->culprits, r) &&
                      e->expected.has_grad[(k * e->world + r) * e->params.count + p] != 0;
        }
        if (!is_used) {
            harness_finding_add_param(finding, (uint32_t)p);
        }
    }
}

/* A map of the step of op, in which the emulation knows who has gradients. */
static void check_used_map(const struct harness_emulation *e, const struct harness_op *op,
                           int32_t *map, struct harness_findings *out)
{
    struct harness_rank_set wrong = harness_rank_set_in(ddp_mem_pool_mem(e->sets));
    struct harness_finding finding;
    char ranks[96];
    bool is_sent;

    compare_maps(e, op, map, &wrong, &is_sent);
    if (harness_rank_set_is_empty(&wrong)) {
        return;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
    finding.culprits = wrong;
    finding.step = op->step;
    finding.stage = is_sent ? HARNESS_STAGE_INPUT : HARNESS_STAGE_OUTPUT;
    finding.op = (struct harness_finding_op){true, op->seq,        op->kind, op->role,
                                             -1,   op->elem_count, op->index};
    add_decided(e, op, &finding);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the used map of step %d is not that of the reference's gradients on %s",
                   op->step, harness_subject_ranks_text(&wrong, ranks, sizeof(ranks)));
    harness_findings_add(out, &finding);
}

/* What each rank says of the parameters that it used. A wrong map may change no value: the
 * parameter of another rank's gradient is used anyway. */
static ddp_status check_used_maps(const struct harness_emulation *e, struct harness_findings *out)
{
    int32_t *map = ddp_mem_array(e->mem, 2 * e->params.count, sizeof(*map));

    for (size_t i = 0; map != NULL && i < e->input->program->op_count; i++) {
        const struct harness_op *op = &e->input->program->ops[i];

        if (op->role == DDP_ROLE_USED_MAP && op->step >= (int32_t)e->start_step &&
            op->step < (int32_t)e->end_step &&
            e->expected.predicted[(size_t)op->step - e->start_step] >= HARNESS_PREDICTED_GRADIENT) {
            check_used_map(e, op, map, out);
        }
    }
    ddp_mem_free(e->mem, map);
    return map != NULL ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_check_reduction(const struct harness_emulation *e, struct harness_findings *out,
                                   struct ddp_err *err)
{
    for (size_t i = 0; i < e->compare.count && !harness_emulation_is_restore(e); i++) {
        if (words[e->compare.items[i].stage].what != NULL) {
            report(e, &e->compare.items[i], out);
        }
    }
    harness_reduction_check_found(e, out);
    DDP_TRY(harness_reduction_check_posted(e, out, err));
    return harness_emulation_is_restore(e) ? DDP_OK : check_used_maps(e, out);
}
