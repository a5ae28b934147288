/* The wait-for graph of a cut. Nothing is stored: an edge is computed from two pages, so that a cut
 * of a thousand ranks needs no memory. */
#include "harness/monitor/graph.h"

#include "ddpcore/base/clock.h"

bool harness_graph_is_gone(const struct harness_cut *cut, uint32_t rank)
{
    enum harness_process_state state = cut->processes[rank].state;

    DDP_ASSERT(rank < cut->world_size);
    return state == HARNESS_PROCESS_EXITED || state == HARNESS_PROCESS_SIGNALED;
}

bool harness_graph_is_ending(const struct harness_cut *cut, uint32_t rank)
{
    return cut->processes[rank].ending_ns != 0 && !harness_graph_is_gone(cut, rank);
}

bool harness_graph_is_over(const struct harness_cut *cut, uint32_t rank)
{
    return harness_graph_is_gone(cut, rank) || cut->pages[rank].end_status != 0;
}

bool harness_graph_is_live(const struct harness_cut *cut, uint32_t rank)
{
    return cut->processes[rank].state != HARNESS_PROCESS_NOT_STARTED &&
           !harness_graph_is_over(cut, rank);
}

/* Its wait has called something that does not return, a plug-in, or code of the core: it is host
 * code like other. A real process that waits looks every few milliseconds whether it may go on, if
 * it has a CPU; the simulator's ranks look when there is something to see, and show no such times.
 */
static bool is_kept_inside_wait(const struct harness_cut *cut, uint32_t rank)
{
    const struct ddp_page *page = &cut->pages[rank];
    const uint64_t hold_ns = HARNESS_MONITOR_PLUGIN_HOLD_NS;

    if (page->plugin_ns != 0 && harness_graph_age_ns(cut, page->plugin_ns) > hold_ns) {
        return true;
    }
    return page->wait_kind == DDP_WAIT_COLLECTIVE && page->polls.polled_ns >= page->wait_enter_ns &&
           page->polls.polled_ns != 0 &&
           harness_graph_age_ns(cut, page->polls.polled_ns) >
               hold_ns + harness_graph_starved_ns(cut, rank);
}

bool harness_graph_is_waiting(const struct harness_cut *cut, uint32_t rank)
{
    return harness_graph_is_live(cut, rank) &&
           cut->processes[rank].state == HARNESS_PROCESS_RUNNING &&
           !harness_graph_is_ending(cut, rank) && cut->pages[rank].wait_kind != DDP_WAIT_NONE &&
           !is_kept_inside_wait(cut, rank);
}

enum ddp_phase harness_graph_phase(const struct harness_cut *cut, uint32_t rank)
{
    uint64_t phase = cut->pages[rank].phase;

    return phase < DDP_PHASE_COUNT ? (enum ddp_phase)phase : DDP_PHASE_SPAWN;
}

/* The rank is in the group in which the page's rank posted last, and so waits. */
static bool is_in_group(const struct harness_cut *cut, const struct ddp_page *page, uint32_t rank)
{
    const struct harness_group *group =
        cut->program != NULL ? harness_program_group_of(cut->program, page->comm) : NULL;

    return group == NULL || harness_group_member(group, rank) < group->rank_count;
}

bool harness_graph_has_edge(const struct harness_cut *cut, uint32_t rank, uint32_t other)
{
    const struct ddp_page *page = &cut->pages[rank];

    DDP_ASSERT(other < cut->world_size);
    if (rank == other || !harness_graph_is_waiting(cut, rank)) {
        return false;
    }
    if (page->wait_peer != 0 && page->wait_peer - 1 == other) {
        return true;
    }
    if (page->wait_kind == DDP_WAIT_COLLECTIVE) {
        /* Whoever has not done its part is needed, whichever neighbour's message is missing here:
         * it has not posted; or posted, not completed, and does not wait inside it. */
        return is_in_group(cut, page, other) && (cut->pages[other].seq_posted < page->wait_seq ||
                                                 (cut->pages[other].seq_done < page->wait_seq &&
                                                  !harness_graph_is_waiting(cut, other)));
    }
    if (page->wait_peer != 0) {
        return false;
    }
    /* Ranks wait at the store for those that have not come there yet: neither for ranks in a later
     * phase, nor for one that waits at the store too; nor, while a group forms, for one that has
     * it. */
    return !harness_graph_is_over(cut, other) &&
           harness_graph_phase(cut, other) <= harness_graph_phase(cut, rank) &&
           !(harness_graph_is_waiting(cut, other) &&
             cut->pages[other].wait_kind == DDP_WAIT_STORE) &&
           !(harness_graph_phase(cut, rank) <= DDP_PHASE_INIT &&
             cut->pages[other].seq_posted > page->seq_posted);
}

bool harness_graph_has_waiter(const struct harness_cut *cut, uint32_t rank)
{
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_graph_has_edge(cut, r, rank)) {
            return true;
        }
    }
    return false;
}

/* The rank ended with an error: it may have given up waiting. */
static bool is_failed(const struct harness_cut *cut, uint32_t rank)
{
    return cut->pages[rank].end_status > 1;
}

uint64_t harness_graph_seq_owed(const struct harness_cut *cut, uint32_t rank)
{
    const uint64_t posted = cut->pages[rank].seq_posted;
    const uint64_t next =
        cut->program != NULL ? harness_program_next(cut->program, posted, rank) : posted + 1;

    if (!harness_graph_is_waiting(cut, rank) && cut->pages[rank].call_seq != 0) {
        return 0;
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (r != rank && (harness_graph_is_waiting(cut, r) || is_failed(cut, r)) &&
            (cut->pages[r].seq_posted >= next ||
             (cut->pages[r].wait_kind == DDP_WAIT_COLLECTIVE && cut->pages[r].wait_seq >= next))) {
            return next;
        }
    }
    return 0;
}

void harness_graph_waiting_set(const struct harness_cut *cut, struct harness_rank_set *out)
{
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_graph_is_waiting(cut, r)) {
            harness_rank_set_add(out, r);
        }
    }
}

uint32_t harness_graph_next(const struct harness_cut *cut, uint32_t rank)
{
    const uint64_t peer = cut->pages[rank].wait_peer;

    /* A circle is made of what each rank waits for now. */
    if (harness_graph_is_waiting(cut, rank) && peer != 0 && peer <= cut->world_size) {
        return harness_graph_is_waiting(cut, (uint32_t)peer - 1) &&
                       harness_graph_has_edge(cut, rank, (uint32_t)peer - 1)
                   ? (uint32_t)peer - 1
                   : cut->world_size;
    }
    for (uint32_t q = 0; q < cut->world_size; q++) {
        if (harness_graph_is_waiting(cut, q) && harness_graph_has_edge(cut, rank, q)) {
            return q;
        }
    }
    return cut->world_size;
}

bool harness_graph_is_inside(const struct harness_cut *cut, uint32_t rank, uint32_t other)
{
    const struct ddp_page *page = &cut->pages[rank];

    return page->wait_kind == DDP_WAIT_COLLECTIVE &&
           cut->pages[other].wait_kind == DDP_WAIT_COLLECTIVE &&
           page->comm == cut->pages[other].comm && page->wait_seq <= cut->pages[other].seq_posted;
}

bool harness_graph_find_cycle(const struct harness_cut *cut, struct harness_rank_set *out,
                              bool *out_is_mixed)
{
    for (uint32_t start = 0; start < cut->world_size; start++) {
        uint32_t at = start;
        uint32_t first;

        /* A walk that goes on after world_size steps is on a circle. */
        for (uint32_t i = 0; i < cut->world_size && at < cut->world_size; i++) {
            at = harness_graph_next(cut, at);
        }
        if (at >= cut->world_size) {
            continue;
        }
        *out_is_mixed = false;
        first = at;
        do {
            uint32_t next = harness_graph_next(cut, at);

            DDP_ASSERT(next < cut->world_size); /* all members of a circle wait */
            harness_rank_set_add(out, at);
            *out_is_mixed = *out_is_mixed || !harness_graph_is_inside(cut, at, next);
            at = next;
        } while (at != first);
        return true;
    }
    return false;
}

uint64_t harness_monitor_alive_ns(const struct harness_cut *cut, uint32_t rank)
{
    const struct ddp_page *page = &cut->pages[rank];
    uint64_t alive_ns = cut->processes[rank].since_ns;

    /* Each phase begins with one. */
    alive_ns = page->heartbeat_ns > alive_ns ? page->heartbeat_ns : alive_ns;
    if (cut->progress != NULL) {
        alive_ns = cut->progress_ns[rank] > alive_ns ? cut->progress_ns[rank] : alive_ns;
    }
    return alive_ns;
}

uint64_t harness_graph_starved_ns(const struct harness_cut *cut, uint32_t rank)
{
    return cut->starved_ns != NULL ? cut->starved_ns[rank] : 0;
}

uint64_t harness_graph_silent_ns(const struct harness_cut *cut, uint32_t rank)
{
    uint64_t age_ns = harness_graph_age_ns(cut, harness_monitor_alive_ns(cut, rank));
    uint64_t starved_ns = harness_graph_starved_ns(cut, rank);

    return age_ns > starved_ns ? age_ns - starved_ns : 0;
}

uint64_t harness_monitor_budget_ns(const struct harness_plan *plan, enum ddp_phase phase)
{
    uint64_t budget_ms = plan->job.phase_budget_ms[phase];

    DDP_ASSERT(phase < DDP_PHASE_COUNT);
    return (budget_ms != 0 ? budget_ms : ddp_phase_budget_ms(phase)) * DDP_NS_PER_MS;
}

uint64_t harness_graph_age_ns(const struct harness_cut *cut, uint64_t then_ns)
{
    return cut->now_ns > then_ns ? cut->now_ns - then_ns : 0;
}
