/* Hosts that a device holds up in a job that is ending. A rank that has ended takes no part in a
 * collective any more, and a kernel that waits for it runs on. A host that calls something that
 * waits for its device (a library that loads its kernels when they are first used, a free, a copy)
 * comes back when that kernel ends, and cannot see before that the job is over. Its silence follows
 * from that rank's end, and is not its own. */
#include "ddpcore/base/clock.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/position.h"
#include "harness/monitor/rules.h"

/* It ended without completing this collective of the page's group. */
static bool is_absent(const struct harness_cut *cut, const struct ddp_page *page, uint32_t rank,
                      uint64_t seq)
{
    return cut->is_page_valid[rank] && harness_graph_is_over(cut, rank) &&
           cut->pages[rank].comm == page->comm && cut->pages[rank].seq_done < seq;
}

bool harness_blocked_is(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;
    const struct harness_position position = harness_position_of(cut, rank);

    if (!position.is_known || position.comm < HARNESS_COMM_INSIDE ||
        position.seq <= position.seq_ended || harness_graph_is_waiting(cut, rank) ||
        harness_graph_silent_ns(cut, rank) <=
            harness_monitor_budget_ns(view->plan, harness_graph_phase(cut, rank))) {
        return false;
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (is_absent(cut, &cut->pages[rank], r, position.seq)) {
            return true;
        }
    }
    return false;
}

void harness_blocked_find(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set blocked = harness_rank_set_in(view->mem);
    struct harness_rank_set absent = harness_rank_set_in(view->mem);
    struct harness_finding finding;
    uint32_t first = cut->world_size;
    uint64_t seq = 0;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_blocked_is(view, r)) {
            harness_rank_set_add(&blocked, r);
            if (first == cut->world_size || harness_position_of(cut, r).seq < seq) {
                first = r;
                seq = harness_position_of(cut, r).seq;
            }
        }
    }
    if (first == cut->world_size) {
        return;
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (is_absent(cut, &cut->pages[first], r, seq)) {
            harness_rank_set_add(&absent, r);
        }
    }
    harness_draft_begin(view, HARNESS_VERDICT_HANG_DEVICE_COMM, HARNESS_MODE_BUDGET, first,
                        &finding);
    finding.culprits = blocked;
    harness_draft_set_planned(view, seq, &finding);
    harness_draft_add(&finding, "a collective started and does not end on ");
    harness_draft_add_ranks(&finding, &blocked);
    harness_draft_add_place(&finding);
    harness_draft_add(&finding, ", %s silent behind it for %llu ms; ",
                      harness_rank_set_count(&blocked) == 1 ? "its host" : "their hosts",
                      (unsigned long long)(harness_graph_silent_ns(cut, first) / DDP_NS_PER_MS));
    harness_draft_add_ranks(&finding, &absent);
    harness_draft_add(&finding, " ended without it: ");
    harness_draft_add_op(view, &finding);
    harness_findings_add(out, &finding);
}
