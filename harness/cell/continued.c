/* Judging a job whose ranks went on after a loss (job.on_loss: continue): as two runs. What the
 * lost group did is judged as any run that ends with a loss; what the new one did by itself, as a
 * run of so many ranks that starts with the state which the judge's own emulation of the first one
 * has after as many steps. Findings of both are the cell's. */
#include "harness/plan/continued.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/judge/judge.h"

void harness_stage_move_start(const struct harness_cell *cell, uint32_t steps_done,
                              struct harness_plan *plan)
{
    const struct ref_shard_config *shard = &cell->job.shard;
    const uint64_t done = (uint64_t)steps_done * cell->job.micro_batches;
    const uint64_t rows = cell->plan.job.batch_per_rank[0];
    const uint64_t cut = shard->drop_last ? 0 : shard->world_size - 1u;
    const uint64_t each = (shard->sample_count + cut) / shard->world_size;
    const uint64_t batches = (each + rows - 1) / rows;

    for (uint32_t r = 0; r < shard->world_size; r++) {
        if (shard->shard_size != NULL || shard->batch_rows[r] != rows) {
            return;
        }
    }
    if (done > 0 && batches > 0) {
        plan->job.start_index = done;
        plan->job.start_epoch = done / batches;
        plan->job.start_used = done % batches * rows * shard->world_size;
    }
}

/* A fault's hits are counted through the whole run: behind the loss its first one is a later one.
 */
static void move_hits(const struct harness_trace *before, struct harness_plan *plan)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        uint32_t count = 0;

        (void)harness_trace_fired_ns(before, i, &count);
        plan->faults[i].at.hit += count;
    }
}

static ddp_status open_after(const struct harness_cell *cell, const struct harness_parting *parting,
                             const struct harness_trace *before, struct harness_cell *after,
                             struct ddp_err *err)
{
    const struct harness_continuation who = {parting->ranks, parting->count, parting->first_step,
                                             parting->source};

    *after = *cell;
    after->run_dir = harness_stage_path(cell->mem, cell->run_dir, "survivors");
    after->unwritten[0] = '\0';
    after->wanted = (struct harness_hashes){.mem = cell->mem};
    after->restored_step = parting->first_step;
    memset(&after->trace, 0, sizeof after->trace);
    DDP_TRY(harness_plan_continue(cell->mem, &cell->plan, &who, &after->plan));
    harness_stage_move_start(cell, parting->first_step, &after->plan);
    move_hits(before, &after->plan);
    DDP_TRY(harness_stage_prepare(after, err));
    return harness_trace_after(&cell->trace, parting, after->program.hash, &after->trace);
}

static struct harness_rank_set ranks_of(const struct harness_parting *parting,
                                        const struct harness_rank_set *members, struct ddp_mem *mem)
{
    struct harness_rank_set ranks = harness_rank_set_in(mem);

    for (uint32_t i = 0; i < harness_rank_set_count(members); i++) {
        const uint32_t member = harness_rank_set_at(members, i);

        if (member < parting->count) {
            harness_rank_set_add(&ranks, parting->ranks[member]);
        }
    }
    return ranks;
}

/* "after the loss (rank 2 is now 1, rank 3 is now 2): ...", of a text that says the new numbers. */
static void say_after(const struct harness_parting *parting, struct harness_finding *finding)
{
    char text[sizeof finding->text];
    struct ddp_text out;
    uint32_t said = 0;

    ddp_text_init_fixed(&out, text, sizeof text);
    ddp_text_add(&out, "after the loss");
    for (uint32_t m = 0; m < parting->count && said < 4; m++) {
        if (parting->ranks[m] != m) {
            ddp_text_add(&out, "%srank %" PRIu32 " is now %" PRIu32, said == 0 ? " (" : ", ",
                         parting->ranks[m], m);
            said++;
        }
    }
    ddp_text_add(&out, "%s: ", said > 0 ? ")" : "");
    ddp_text_add(&out, "%.*s", (int)(sizeof text - 1 - out.size_bytes), finding->text);
    memcpy(finding->text, ddp_text_str(&out), out.size_bytes + 1);
}

/* Ranks that do not agree on who goes on. */
struct disagreement {
    int64_t finding; /* that says so; -1: they agree */
    struct harness_rank_set ranks;
    bool is_apart; /* none of them posted anything in a new group */
};

static struct disagreement find_disagreement(const struct harness_cell *cell,
                                             const struct harness_cell *after)
{
    struct disagreement out = {.finding = -1, .ranks = harness_rank_set_in(cell->mem)};
    size_t cursor = 0;

    out.is_apart = harness_trace_next(&after->trace, &cursor, -1, DDP_EVENT_COLL_POST) == NULL;
    for (size_t i = 0; i < cell->findings.count; i++) {
        const struct harness_finding *finding = &cell->findings.items[i];

        if (finding->oracle == HARNESS_ORACLE_SURVIVORS &&
            finding->verdict == HARNESS_VERDICT_MISMATCH_COMM) {
            out.finding = out.finding < 0 ? (int64_t)i : out.finding;
            harness_rank_set_add_all(&out.ranks, &finding->culprits);
        }
    }
    return out;
}

/* What ranks report of not coming together, and that they wait; and what those do that have another
 * group in mind. That a rank crashes by itself does not follow. */
static bool is_from_disagreement(const struct disagreement *disagreement,
                                 const struct harness_finding *finding)
{
    if (disagreement->finding < 0 || finding->cause >= 0 ||
        (finding->oracle == HARNESS_ORACLE_MONITOR &&
         harness_verdict_family(finding->verdict) == HARNESS_FAMILY_CRASH)) {
        return false;
    }
    return disagreement->is_apart ||
           harness_rank_set_is_subset(&finding->culprits, &disagreement->ranks);
}

/* The monitor says ranks by their first numbers. */
static void adopt_findings(struct harness_cell *cell, const struct harness_parting *parting,
                           const struct harness_cell *after)
{
    const int64_t first = (int64_t)cell->findings.count;
    const struct disagreement disagreement = find_disagreement(cell, after);

    for (size_t i = 0; i < after->findings.count; i++) {
        struct harness_finding finding = after->findings.items[i];

        finding.culprits = ranks_of(parting, &finding.culprits, cell->mem);
        finding.victims = ranks_of(parting, &finding.victims, cell->mem);
        finding.cause += finding.cause >= 0 ? first : 0;
        finding.is_after_loss = true;
        if (is_from_disagreement(&disagreement, &finding)) {
            finding.cause = disagreement.finding;
            finding.cause_words = "the ranks do not agree on who goes on";
        }
        if (finding.oracle != HARNESS_ORACLE_MONITOR) {
            say_after(parting, &finding);
        }
        harness_findings_add(&cell->findings, &finding);
    }
    cell->findings.is_failed = cell->findings.is_failed || after->findings.is_failed;
    /* Of ranks that go on apart less is recorded than of a group. */
    if (after->findings.is_evidence_lost && !cell->findings.is_evidence_lost &&
        disagreement.finding < 0) {
        cell->findings.is_evidence_lost = true;
        (void)snprintf(cell->findings.lost_text, sizeof cell->findings.lost_text,
                       "after the loss: %.230s", after->findings.lost_text);
    }
}

static ddp_status check_after(struct harness_cell *cell, const struct harness_parting *parting,
                              const struct harness_handover *handover, struct ddp_err *err)
{
    struct harness_cell after;
    ddp_status status;

    DDP_TRY(open_after(cell, parting, &cell->before, &after, err));
    status = harness_stage_check_part(&after, handover, NULL, err);
    if (status == DDP_OK) {
        status = harness_judge_order(&after.plan, &after.bound, &after.trace, &after.findings);
    }
    if (status == DDP_OK) {
        adopt_findings(cell, parting, &after);
        for (size_t i = 0; i < after.wanted.count; i++) {
            harness_hashes_add(&cell->wanted, after.wanted.items[i]);
        }
    }
    cell->judge_device = after.judge_device;
    return status;
}

static ddp_status check_parts(struct harness_cell *cell, const struct harness_parting *parting,
                              struct ddp_err *err)
{
    struct harness_handover handover = {.steps_done = parting->first_step};
    struct harness_cell before = *cell;
    ddp_status status;

    DDP_TRY(harness_trace_before(&cell->trace, parting, &cell->before));
    cell->is_parted = true;
    before.trace = cell->before;
    if (parting->is_set) {
        handover.rank = parting->ranks[parting->source];
    }
    status = harness_stage_check_part(&before, NULL, parting->is_set ? &handover : NULL, err);
    cell->findings = before.findings;
    cell->wanted = before.wanted;
    cell->bound = before.bound;
    cell->judge_device = before.judge_device;
    DDP_TRY(status);
    harness_survivors_check_roll(&cell->trace, parting, cell->plan.job.settle_ms * DDP_NS_PER_MS,
                                 &cell->findings);
    return parting->is_set ? check_after(cell, parting, &handover, err) : DDP_OK;
}

ddp_status harness_stage_check(struct harness_cell *cell, const struct harness_cell *first,
                               struct ddp_err *err)
{
    struct harness_parting parting;
    ddp_status status;

    harness_trace_refute(&cell->trace);
    cell->is_parted = false;
    cell->first_step_alone = -1;
    if (cell->plan.job.on_loss != HARNESS_ON_LOSS_CONTINUE || first != NULL) {
        return harness_stage_check_whole(cell, first, err);
    }
    DDP_TRY(harness_parting_find(cell->mem, &cell->trace, &parting));
    if (!parting.is_lost) {
        return harness_stage_check_whole(cell, first, err);
    }
    cell->first_step_alone = parting.is_set ? (int64_t)parting.first_step : -1;
    status = check_parts(cell, &parting, err);
    harness_parting_fini(&parting);
    return status;
}
