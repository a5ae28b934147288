/* The parts of a finding, and their wording. */
#include "harness/monitor/draft.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/monitor/graph.h"

int32_t harness_draft_step(const struct harness_cut *cut, uint32_t rank)
{
    bool is_begun = harness_graph_phase(cut, rank) > DDP_PHASE_INIT;

    DDP_ASSERT(rank < cut->world_size);
    return is_begun ? (int32_t)cut->pages[rank].step : -1;
}

void harness_draft_begin(const struct harness_view *view, enum harness_verdict verdict,
                         enum harness_mode mode, uint32_t rank, struct harness_finding *out)
{
    const struct harness_cut *cut = view->cut;
    enum ddp_phase phase = harness_graph_phase(cut, rank);

    DDP_ASSERT(rank < cut->world_size);
    harness_finding_init(out, view->mem, verdict, HARNESS_ORACLE_MONITOR, mode);
    harness_rank_set_add(&out->culprits, rank);
    harness_graph_waiting_set(cut, &out->victims);
    out->step = harness_draft_step(cut, rank);
    out->micro = out->step >= 0 ? (int32_t)cut->pages[rank].micro : -1;
    out->phase = (int32_t)phase;
}

static void set_bucket(const struct harness_view *view, uint32_t bucket,
                       struct harness_finding *finding)
{
    const struct harness_bucket *planned = harness_program_bucket(
        view->program, harness_program_step_at(view->program, finding->op.seq), bucket);

    finding->op.bucket = (int32_t)bucket;
    harness_list_clear(&finding->params);
    if (planned == NULL) {
        return;
    }
    for (uint32_t i = 0; i < planned->param_count; i++) {
        harness_list_add(&finding->params, planned->params[i]);
    }
}

static void set_group(const struct harness_group *group, struct harness_finding *finding)
{
    (void)snprintf(finding->guest.comm, sizeof(finding->guest.comm), "%s",
                   group != NULL ? group->name : "");
}

void harness_draft_set_planned(const struct harness_view *view, uint64_t seq,
                               struct harness_finding *finding)
{
    const struct harness_op *op = harness_program_at(view->program, seq);

    if (op == NULL) {
        return;
    }
    finding->op.is_set = true;
    finding->op.seq = seq;
    finding->op.kind = op->kind;
    finding->op.role = op->role;
    finding->op.elem_count = op->elem_count;
    finding->op.bucket = -1;
    finding->op.index = op->index;
    set_group(harness_program_group(view->program, op), finding);
    if (op->role == DDP_ROLE_BUCKET) {
        set_bucket(view, op->index, finding);
    }
}

void harness_draft_set_posted(const struct harness_view *view, uint32_t rank,
                              struct harness_finding *finding)
{
    const struct ddp_page *page = &view->cut->pages[rank];
    struct ddp_event_op op;

    if (page->seq_posted == 0) {
        return;
    }
    op = ddp_event_op_unpack(page->posted_op);
    finding->op.is_set = true;
    finding->op.seq = page->seq_posted;
    finding->op.kind = op.kind;
    finding->op.role = op.role;
    finding->op.elem_count = page->posted_count;
    finding->op.bucket = -1;
    finding->op.index = op.index;
    set_group(harness_program_group_of(view->program, page->posted_comm), finding);
    if (op.role == DDP_ROLE_BUCKET) {
        set_bucket(view, op.index, finding);
    }
}

void harness_draft_add(struct harness_finding *finding, const char *format, ...)
{
    size_t used = strlen(finding->text);
    va_list args;

    DDP_ASSERT(used < sizeof(finding->text));
    va_start(args, format);
    (void)vsnprintf(finding->text + used, sizeof(finding->text) - used, format, args);
    va_end(args);
}

void harness_draft_add_ranks(struct harness_finding *finding, const struct harness_rank_set *set)
{
    uint32_t count = harness_rank_set_count(set);

    DDP_ASSERT(count > 0);
    harness_draft_add(finding, count == 1 ? "rank " : "ranks ");
    for (uint32_t i = 0; i < count && i < HARNESS_NAMED_MAX; i++) {
        harness_draft_add(finding, "%s%u",
                          i == 0           ? ""
                          : i + 1 == count ? " and "
                                           : ", ",
                          harness_rank_set_at(set, i));
    }
    if (count > HARNESS_NAMED_MAX) {
        harness_draft_add(finding, " and %u more", count - HARNESS_NAMED_MAX);
    }
}

void harness_draft_add_place(struct harness_finding *finding)
{
    const char *phase = ddp_phase_name((enum ddp_phase)finding->phase);

    DDP_ASSERT(finding->phase >= 0 && finding->phase < (int32_t)DDP_PHASE_COUNT);
    if (finding->step >= 0) {
        harness_draft_add(finding, " in step %d, %s", finding->step, phase);
    } else {
        harness_draft_add(finding, " in %s", phase);
    }
}

void harness_draft_add_op(const struct harness_view *view, struct harness_finding *finding)
{
    const struct harness_program *program = view->program;

    harness_draft_add(finding, "%s seq %llu (", ddp_coll_kind_name(finding->op.kind),
                      (unsigned long long)finding->op.seq);
    if (finding->op.bucket < 0) {
        harness_draft_add(finding, "%s", ddp_coll_role_name(finding->op.role));
        if (finding->op.role == DDP_ROLE_USER && program->group_count > 0) {
            harness_draft_add(finding, " %u%s%s", finding->op.index,
                              finding->guest.comm[0] != '\0' ? " in group " : "",
                              finding->guest.comm);
        }
        harness_draft_add(finding, ")");
        return;
    }
    harness_draft_add(finding, "bucket %d", finding->op.bucket);
    for (uint32_t i = 0; i < finding->params.count && i < HARNESS_NAMED_MAX; i++) {
        uint32_t param = harness_list_at(&finding->params, i);
        const char *name = param < program->param_count ? program->params[param].name : "?";

        harness_draft_add(finding, "%s%s", i == 0 ? ": " : ", ", name);
    }
    if (finding->params.count > HARNESS_NAMED_MAX) {
        harness_draft_add(finding, " and %u more", finding->params.count - HARNESS_NAMED_MAX);
    }
    harness_draft_add(finding, ")");
}

void harness_draft_add_plugin(const struct harness_view *view, uint32_t rank,
                              struct harness_finding *finding)
{
    const char *path = view->plan->job.collective.plugin;

    if (view->cut->pages[rank].plugin_ns != 0 && path != NULL) {
        harness_draft_add(finding, ", in the code of %s", path);
    }
}

void harness_draft_add_victims(struct harness_finding *finding)
{
    uint32_t count = harness_rank_set_count(&finding->victims);

    if (count == 0) {
        return;
    }
    harness_draft_add(finding, "; ");
    harness_draft_add_ranks(finding, &finding->victims);
    harness_draft_add(finding, count == 1 ? " waits" : " wait");
}

void harness_draft_add_signature(struct harness_finding *finding, struct ddp_event_op op,
                                 uint64_t elem_count)
{
    harness_draft_add(finding, " of %llu %s", (unsigned long long)elem_count,
                      ddp_dtype_name(op.dtype));
    if (ddp_coll_kind_is_sum(op.kind)) {
        harness_draft_add(finding, ", %s", ddp_redop_name(op.redop));
    }
    if (ddp_coll_kind_has_root(op.kind)) {
        harness_draft_add(finding, ", root %u", op.root);
    }
}
