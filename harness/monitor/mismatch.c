/* Posted operations that are not the program's. The sampler keeps a rank's first one in the page.
 */
#include <string.h>

#include "harness/monitor/rules.h"

/* The step of the program in which a rank posted its last operation. */
static int32_t posted_step(const struct harness_view *view, const struct ddp_page *page)
{
    return harness_program_step_of(view->program, page->posted_phase, page->posted_step);
}

/* What a page holds is not trusted. */
static int32_t posted_phase(const struct ddp_page *page)
{
    return (int32_t)(page->posted_phase < DDP_PHASE_COUNT ? page->posted_phase : DDP_PHASE_END);
}

enum harness_verdict harness_mismatch_of(const struct harness_view *view, uint32_t rank)
{
    const struct ddp_page *page = &view->cut->pages[rank];
    const struct harness_post post = {.seq = page->seq_posted,
                                      .step = posted_step(view, page),
                                      .op = ddp_event_op_unpack(page->posted_op),
                                      .elem_count = page->posted_count,
                                      .comm = page->posted_comm,
                                      .is_waited = page->posted_waited != 0};

    return post.seq == 0 ? HARNESS_VERDICT_NONE
                         : harness_program_compare_post(view->program, &post);
}

bool harness_mismatch_is_open(const struct harness_view *view, uint32_t rank)
{
    const struct ddp_page *page = &view->cut->pages[rank];
    const struct ddp_event_op op = ddp_event_op_unpack(page->posted_op);

    return page->seq_posted != 0 &&
           harness_program_is_open(view->program, page->seq_posted, posted_step(view, page), &op,
                                   page->posted_count);
}

static bool is_same_post(const struct ddp_page *a, const struct ddp_page *b)
{
    return a->seq_posted == b->seq_posted && a->posted_op == b->posted_op &&
           a->posted_count == b->posted_count && a->posted_comm == b->posted_comm;
}

/* Under join the program depends on how many batches ranks take. If no rank that came so far posted
 * anything else there, it may be right: the record shows it. */
static bool is_agreed(const struct harness_view *view, uint32_t rank)
{
    const struct ddp_page *page = &view->cut->pages[rank];

    for (uint32_t r = 0; view->plan->job.join.is_set && r < view->cut->world_size; r++) {
        const struct ddp_page *other = &view->cut->pages[r];

        if (view->cut->is_page_valid[r] && other->seq_posted >= page->seq_posted &&
            !(is_same_post(page, other) && posted_step(view, page) == posted_step(view, other))) {
            return false;
        }
    }
    return view->plan->job.join.is_set;
}

void harness_mismatch_set_due(const struct harness_view *view, uint64_t seq,
                              struct harness_finding *finding)
{
    for (uint32_t r = 0; r < view->cut->world_size; r++) {
        if (harness_mismatch_of(view, r) != HARNESS_VERDICT_NONE && is_agreed(view, r)) {
            return;
        }
    }
    harness_draft_set_planned(view, seq, finding);
}

/* "rank 1 posted all_reduce seq 9 (bucket 1: ...) of 100 f32, sum in step 2, backward, where the
 * program has ..." */
static void say(const struct harness_view *view, uint32_t rank, const struct harness_op *planned,
                struct harness_finding *finding)
{
    const struct ddp_page *page = &view->cut->pages[rank];
    struct ddp_event_op op = ddp_event_op_unpack(page->posted_op);
    int32_t step = posted_step(view, page);
    struct harness_finding part = *finding;

    harness_draft_set_posted(view, rank, &part);
    harness_draft_add_ranks(&part, &finding->culprits);
    harness_draft_add(&part, " posted ");
    harness_draft_add_op(view, &part);
    harness_draft_add_signature(&part, op, page->posted_count);
    if (harness_mismatch_of(view, rank) == HARNESS_VERDICT_MISMATCH_COMM) {
        const struct harness_group *group =
            harness_program_group_of(view->program, page->posted_comm);

        harness_draft_add(&part, ", in %s%s", group != NULL ? "group " : "the group of all ranks",
                          group != NULL ? group->name : "");
    }
    part.step = step;
    part.phase = posted_phase(page);
    harness_draft_add_place(&part);
    memcpy(finding->text, part.text, sizeof(finding->text));
    if (planned == NULL) {
        harness_draft_add(finding, ", past the program's end");
        return;
    }
    harness_draft_set_planned(view, planned->seq, &part);
    part.text[0] = '\0';
    harness_draft_add_op(view, &part);
    harness_draft_add(finding, ", where the program has %s", part.text);
    harness_draft_add_signature(finding,
                                (struct ddp_event_op){planned->kind, planned->redop, planned->dtype,
                                                      planned->role, planned->index, planned->root},
                                planned->elem_count);
    if (planned->step != step) {
        part.step = planned->step;
        part.phase = (int32_t)planned->phase;
        part.text[0] = '\0';
        harness_draft_add_place(&part);
        harness_draft_add(finding, "%s", part.text);
    }
}

static void add(const struct harness_view *view, enum harness_verdict verdict, uint32_t rank,
                struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    const struct ddp_page *page = &cut->pages[rank];
    const struct harness_op *planned = harness_program_at(view->program, page->seq_posted);
    struct harness_finding finding;

    harness_draft_begin(view, verdict, HARNESS_MODE_PROVABLE, rank, &finding);
    for (uint32_t r = rank + 1; r < cut->world_size; r++) {
        if (harness_mismatch_of(view, r) == verdict && is_same_post(page, &cut->pages[r])) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    /* The finding is about the planned operation that is missing or differs, or about the extra
     * one. The rank may have gone on since: its own place says nothing. */
    finding.micro = -1;
    if (planned == NULL || verdict == HARNESS_VERDICT_MISMATCH_EXTRA) {
        harness_draft_set_posted(view, rank, &finding);
        finding.step = posted_step(view, page);
        finding.phase = posted_phase(page);
    } else {
        harness_draft_set_planned(view, planned->seq, &finding);
        finding.step = planned->step;
        finding.phase = (int32_t)planned->phase;
    }
    if (finding.step == harness_program_end(view->program)) {
        finding.step = (int32_t)page->posted_step; /* everybody counts what follows to the last */
    }
    say(view, rank, planned, &finding);
    harness_findings_add(out, &finding);
}

void harness_mismatch_find_all(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        enum harness_verdict verdict = harness_mismatch_of(view, r);
        bool is_listed = false;

        for (uint32_t q = 0; verdict != HARNESS_VERDICT_NONE && q < r && !is_listed; q++) {
            is_listed = harness_mismatch_of(view, q) == verdict &&
                        is_same_post(&cut->pages[q], &cut->pages[r]);
        }
        if (verdict != HARNESS_VERDICT_NONE && !is_listed && !is_agreed(view, r) &&
            !harness_mismatch_is_open(view, r)) {
            add(view, verdict, r, out);
        }
    }
}
