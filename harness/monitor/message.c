/* Why a message that a rank waits for does not come: by what the other end says that it sent. */
#include "ddpcore/seam/links.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/rules.h"

/* The rank whose message this one waits for has sent it: nothing that this rank has taken. */
static uint32_t lost_from(const struct harness_cut *cut, uint32_t rank)
{
    const struct ddp_page *page = &cut->pages[rank];
    const uint32_t from = ddp_links_rank_plus_1(page->links.due_from);

    if (!harness_graph_is_waiting(cut, rank) || from == 0 || from != page->wait_peer ||
        from > cut->world_size || !harness_graph_is_waiting(cut, from - 1) ||
        ddp_links_sent_to(&cut->pages[from - 1].links,
                          ddp_links_key_with(page->links.due_from, rank + 1)) <= page->links.due) {
        return cut->world_size;
    }
    return from - 1;
}

bool harness_message_is_any_lost(const struct harness_cut *cut)
{
    bool is_lost = false;

    for (uint32_t r = 0; r < cut->world_size && !is_lost; r++) {
        is_lost = lost_from(cut, r) < cut->world_size;
    }
    return is_lost;
}

/* All that wait and are no culprits. */
static void set_victims(const struct harness_cut *cut, struct harness_finding *finding)
{
    harness_rank_set_clear(&finding->victims);
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_graph_is_waiting(cut, r) && !harness_rank_set_has(&finding->culprits, r)) {
            harness_rank_set_add(&finding->victims, r);
        }
    }
}

void harness_message_find_lost(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const uint32_t from = lost_from(cut, r);
        struct harness_finding finding;

        if (from >= cut->world_size) {
            continue;
        }
        harness_draft_begin(view, HARNESS_VERDICT_MISMATCH_MESSAGE, HARNESS_MODE_BUDGET, r,
                            &finding);
        harness_rank_set_add(&finding.culprits, from);
        set_victims(cut, &finding);
        harness_mismatch_set_due(view, cut->pages[r].wait_seq, &finding);
        harness_draft_add(&finding, "rank %u waits for message %llu of rank %u, which has sent it,",
                          r, (unsigned long long)cut->pages[r].links.due, from);
        harness_draft_add_place(&finding);
        harness_draft_add_victims(&finding);
        harness_findings_add(out, &finding);
    }
}

/* Another rank waits in the same collective, and all that wait in it posted it alike: its root,
 * too, which under join no plan knows. */
static bool is_agreed(const struct harness_cut *cut, uint32_t rank)
{
    const struct ddp_page *page = &cut->pages[rank];
    bool is_any = false;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct ddp_page *other = &cut->pages[r];

        if (r == rank || !harness_graph_is_waiting(cut, r) ||
            other->wait_kind != DDP_WAIT_COLLECTIVE || other->wait_seq != page->wait_seq) {
            continue;
        }
        if (other->seq_posted != page->seq_posted || other->posted_op != page->posted_op) {
            return false;
        }
        is_any = true;
    }
    return is_any;
}

/* The rank posted what it waits in as planned; if a root is in it, the plan must know which, or the
 * others that wait there agree. */
static bool is_as_planned(const struct harness_view *view, uint32_t rank)
{
    const struct ddp_page *page = &view->cut->pages[rank];
    const struct harness_op *planned = harness_program_at(view->program, page->wait_seq);

    return planned != NULL && page->wait_seq == page->seq_posted &&
           (planned->is_root_known || !ddp_coll_kind_has_root(planned->kind) ||
            is_agreed(view->cut, rank)) &&
           harness_mismatch_of(view, rank) == HARNESS_VERDICT_NONE &&
           !harness_mismatch_is_open(view, rank);
}

/* The rank whose message this one waits for is done with that collective, and has not sent it. */
static uint32_t unsent_by(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;
    const struct ddp_page *page = &cut->pages[rank];
    const struct ddp_links *links = &page->links;
    const uint32_t from = ddp_links_rank_plus_1(links->due_from);
    const struct ddp_page *other;
    uint64_t sent = 0;

    if (from == 0 || from > cut->world_size || from != page->wait_peer ||
        !harness_graph_is_waiting(cut, rank) || page->wait_kind != DDP_WAIT_COLLECTIVE ||
        !is_as_planned(view, rank)) {
        return cut->world_size;
    }
    other = &cut->pages[from - 1];
    if (!harness_graph_is_waiting(cut, from - 1) || other->wait_kind != DDP_WAIT_COLLECTIVE ||
        other->wait_seq <= page->wait_seq || other->seq_done < page->wait_seq ||
        harness_mismatch_is_open(view, from - 1) ||
        !ddp_links_knows(&other->links, ddp_links_key_with(links->due_from, rank + 1), &sent)) {
        return cut->world_size;
    }
    return sent > links->due ? cut->world_size : from - 1;
}

/* Its own step and phase: the culprit has gone on since. */
static void set_operation(const struct harness_view *view, uint64_t seq,
                          struct harness_finding *finding)
{
    const struct harness_op *planned = harness_program_at(view->program, seq);

    DDP_ASSERT(planned != NULL); /* is_as_planned */
    harness_draft_set_planned(view, seq, finding);
    finding->step = planned->step;
    finding->phase = (int32_t)planned->phase;
    finding->micro = -1;
}

bool harness_message_find_unsent(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    bool is_found = false;

    for (uint32_t r = 0; r < cut->world_size && !is_found; r++) {
        const uint32_t from = unsent_by(view, r);
        struct harness_finding finding;

        if (from >= cut->world_size) {
            continue;
        }
        harness_draft_begin(view, HARNESS_VERDICT_MISMATCH_MISSING, HARNESS_MODE_PROVABLE, from,
                            &finding);
        set_victims(cut, &finding);
        set_operation(view, cut->pages[r].wait_seq, &finding);
        harness_draft_add(&finding, "rank %u is done with ", from);
        harness_draft_add_op(view, &finding);
        harness_draft_add(&finding,
                          ", and took no part in it: rank %u waits for message %llu of it, which "
                          "was not sent",
                          r, (unsigned long long)cut->pages[r].links.due);
        harness_draft_add_victims(&finding);
        harness_findings_add(out, &finding);
        is_found = true;
    }
    return is_found;
}
