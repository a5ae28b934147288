/* From a cut to findings. Rules run in order of certainty: ended processes, posted operations that
 * differ from the program, stopped processes, devices without progress, circles of waits, and last
 * host code that is silent for longer than its budget. Once a rank has revoked the group or ended
 * with an error, the other ranks are about to end too: then waits prove nothing, unless the whole
 * job is silent. */
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/monitor.h"
#include "harness/monitor/position.h"
#include "harness/monitor/rules.h"

/* No other rank can come to wait for this one: each has ended, waits, is stopped, or is silent for
 * longer than its budget. */
static bool is_nobody_coming(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (r != rank && !harness_graph_is_over(cut, r) && !harness_graph_is_waiting(cut, r) &&
            cut->processes[r].state != HARNESS_PROCESS_STOPPED &&
            harness_graph_silent_ns(cut, r) <=
                harness_monitor_budget_ns(view->plan, harness_graph_phase(cut, r))) {
            return false;
        }
    }
    return true;
}

/* Stopped for long enough, and another rank waits for it, or none can come any more. */
static bool is_stopped_culprit(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;

    return cut->processes[rank].state == HARNESS_PROCESS_STOPPED &&
           !cut->processes[rank].is_brief &&
           harness_graph_age_ns(cut, cut->processes[rank].since_ns) >=
               HARNESS_MONITOR_STOP_HOLD_NS &&
           (harness_graph_has_waiter(cut, rank) || is_nobody_coming(view, rank));
}

/* The operation that this rank has not posted and others wait for, or the one that it is inside of,
 * or the one that it has posted and not completed. */
static void set_hang_op(const struct harness_view *view, uint32_t rank,
                        struct harness_finding *finding)
{
    const struct harness_cut *cut = view->cut;
    uint64_t owed = harness_graph_seq_owed(cut, rank);
    uint64_t inside = cut->pages[rank].call_seq;

    if (owed != 0) {
        harness_mismatch_set_due(view, owed, finding);
    } else if (inside != 0 && inside != cut->pages[rank].seq_posted) {
        harness_mismatch_set_due(view, inside, finding);
    } else if (cut->pages[rank].seq_done < cut->pages[rank].seq_posted) {
        harness_draft_set_posted(view, rank, finding);
    }
}

/* Of culprits at other places than the one that is described: "; rank 2 is in step 2, backward". */
static void add_other_places(const struct harness_cut *cut, uint32_t rank,
                             struct harness_finding *finding)
{
    for (uint32_t i = 0; i < harness_rank_set_count(&finding->culprits); i++) {
        const uint32_t other = harness_rank_set_at(&finding->culprits, i);

        if (harness_graph_phase(cut, other) != harness_graph_phase(cut, rank) ||
            cut->pages[other].step != cut->pages[rank].step) {
            harness_draft_add(finding, "; rank %u is in step %llu, %s", other,
                              (unsigned long long)cut->pages[other].step,
                              ddp_phase_name(harness_graph_phase(cut, other)));
        }
    }
}

static void add_hang(const struct harness_view *view, struct harness_finding *finding,
                     uint32_t rank, const char *what, struct harness_findings *out)
{
    bool is_owed = harness_graph_seq_owed(view->cut, rank) != 0;

    set_hang_op(view, rank, finding);
    harness_draft_add_ranks(finding, &finding->culprits);
    harness_draft_add(finding, " %s", what);
    harness_draft_add_place(finding);
    if (finding->op.is_set) {
        harness_draft_add(finding, is_owed ? ", before posting " : ", inside ");
        harness_draft_add_op(view, finding);
    }
    harness_draft_add_plugin(view, rank, finding);
    add_other_places(view->cut, rank, finding);
    harness_draft_add_victims(finding);
    harness_findings_add(out, finding);
}

static void find_stopped(const struct harness_view *view, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set culprits = harness_rank_set_in(view->mem);
    struct harness_finding finding;
    uint32_t first = cut->world_size;

    for (uint32_t r = 0; r < cut->world_size && cut->is_stable; r++) {
        if (!is_stopped_culprit(view, r)) {
            continue;
        }
        harness_rank_set_add(&culprits, r);
        /* The one that is behind is described: which of them stopped first is chance. */
        if (first == cut->world_size || cut->pages[r].seq_posted < cut->pages[first].seq_posted) {
            first = r;
        }
    }
    if (first == cut->world_size) {
        return;
    }
    harness_draft_begin(view, HARNESS_VERDICT_HANG_STOPPED, HARNESS_MODE_PROVABLE, first, &finding);
    finding.culprits = culprits;
    finding.detect_ns = (int64_t)harness_graph_age_ns(cut, cut->processes[first].since_ns);
    add_hang(view, &finding, first, "stopped (SIGSTOP)", out);
}

/* Some rank revoked the group, failed or crashed: the others are about to end too. */
static bool is_dying(const struct harness_view *view)
{
    const struct harness_cut *cut = view->cut;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_crash_of(view, r) != HARNESS_VERDICT_NONE || cut->pages[r].revoke_rank != 0 ||
            cut->pages[r].end_status > 1) {
            return true;
        }
    }
    return false;
}

/* Every live rank waits. *out_quiet_ns: how long no rank has done anything, less the longest time
 * for which one of them had no CPU. *out_budget_ns: the longest budget of their phases. False if a
 * rank is in host code or stopped, or if none is alive. */
static bool is_all_waiting(const struct harness_view *view, uint64_t *out_quiet_ns,
                           uint64_t *out_budget_ns)
{
    const struct harness_cut *cut = view->cut;
    uint64_t last_ns = cut->change_ns;
    uint64_t starved_ns = 0;
    uint32_t waiting = 0;

    *out_budget_ns = 0;
    for (uint32_t r = 0; r < cut->world_size; r++) {
        uint64_t alive_ns = harness_monitor_alive_ns(cut, r);
        uint64_t budget_ns = harness_monitor_budget_ns(view->plan, harness_graph_phase(cut, r));

        last_ns = alive_ns > last_ns ? alive_ns : last_ns;
        if (harness_graph_is_over(cut, r)) {
            continue;
        }
        if (!harness_graph_is_waiting(cut, r)) {
            return false;
        }
        waiting++;
        starved_ns = harness_graph_starved_ns(cut, r) > starved_ns
                         ? harness_graph_starved_ns(cut, r)
                         : starved_ns;
        *out_budget_ns = budget_ns > *out_budget_ns ? budget_ns : *out_budget_ns;
    }
    *out_quiet_ns = harness_graph_age_ns(cut, last_ns);
    *out_quiet_ns = *out_quiet_ns > starved_ns ? *out_quiet_ns - starved_ns : 0;
    return waiting > 0;
}

/* Some rank's device has work whose end may end a wait. */
static bool is_device_working(const struct harness_cut *cut)
{
    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position position = harness_position_of(cut, r);

        if (harness_position_is_working(&position)) {
            return true;
        }
    }
    return false;
}

/* "; rank 1 in all_reduce seq 9 (user 1 in group b), with seq 8 (user 0 in group a) due before it,
 * needs rank 0". What a rank waits in it has posted last. */
static void add_held(const struct harness_view *view, uint32_t rank,
                     struct harness_finding *finding)
{
    const struct ddp_page *page = &view->cut->pages[rank];
    struct harness_finding part = *finding;

    harness_draft_add(finding, "; rank %u", rank);
    if (view->program->group_count == 0 || page->wait_kind != DDP_WAIT_COLLECTIVE) {
        harness_draft_add(finding, " at seq %llu", (unsigned long long)page->wait_seq);
    } else {
        const bool is_open = harness_mismatch_is_open(view, rank);

        harness_draft_set_posted(view, rank, &part);
        part.text[0] = '\0';
        harness_draft_add_op(view, &part);
        harness_draft_add(finding, " in %s", part.text);
        if (is_open) {
            harness_draft_set_planned(view, page->seq_posted, &part);
            part.text[0] = '\0';
            harness_draft_add_op(view, &part);
            harness_draft_add(finding, ", where %s is due,", part.text);
        }
    }
    harness_draft_add(finding, " needs rank %llu", (unsigned long long)(page->wait_peer - 1));
}

/* Of those in a circle, the ones that posted in one group before they did in another, if not all
 * did; what was due there. */
static void blame_open(const struct harness_view *view, const struct harness_rank_set *members,
                       struct harness_finding *finding)
{
    struct harness_rank_set open = harness_rank_set_in(view->mem);

    for (uint32_t i = 0; i < harness_rank_set_count(members); i++) {
        if (harness_mismatch_is_open(view, harness_rank_set_at(members, i))) {
            harness_rank_set_add(&open, harness_rank_set_at(members, i));
        }
    }
    if (!harness_rank_set_is_empty(&open)) {
        finding->culprits = open;
        harness_draft_set_planned(view, view->cut->pages[harness_rank_set_at(&open, 0)].seq_posted,
                                  finding);
    }
}

static void add_deadlock(const struct harness_view *view, enum harness_verdict verdict,
                         enum harness_mode mode, const struct harness_rank_set *members,
                         struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_finding finding;
    uint32_t first = harness_rank_set_at(members, 0);

    DDP_ASSERT(cut->is_stable && !harness_rank_set_is_empty(members));
    harness_draft_begin(view, verdict, mode, first, &finding);
    finding.culprits = *members;
    harness_mismatch_set_due(view, cut->pages[first].wait_seq, &finding);
    if (verdict == HARNESS_VERDICT_HANG_CYCLE) {
        blame_open(view, members, &finding);
    }
    harness_draft_add_ranks(&finding, members);
    if (verdict == HARNESS_VERDICT_HANG_CYCLE) {
        harness_draft_add(&finding, " wait for each other in a circle");
    } else {
        harness_draft_add(&finding, harness_rank_set_count(members) == 1
                                        ? " is blocked; no live rank can unblock it"
                                        : " are blocked; no live rank can unblock them");
    }
    harness_draft_add_place(&finding);
    for (uint32_t i = 0; i < harness_rank_set_count(members); i++) {
        uint32_t r = harness_rank_set_at(members, i);

        if (cut->pages[r].wait_peer != 0) {
            add_held(view, r, &finding);
        }
    }
    harness_findings_add(out, &finding);
}

/* All live ranks wait. A circle of waits for different things is a deadlock once it has lasted for
 * HARNESS_MONITOR_CYCLE_HOLD_NS. Ranks that wait inside the same collective may wait for messages
 * that are under way, so only silence beyond the budget is evidence there. So it is where a message
 * is known to have been sent: if it is not under way any more, it was lost. */
static void find_deadlock(const struct harness_view *view, bool dying, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set members = harness_rank_set_in(view->mem);
    enum harness_verdict verdict = HARNESS_VERDICT_HANG_CYCLE;
    uint64_t quiet_ns;
    uint64_t budget_ns;
    bool is_mixed = false;
    bool is_cycle;
    bool is_lost;

    if (!cut->is_stable || !is_all_waiting(view, &quiet_ns, &budget_ns)) {
        return;
    }
    is_cycle = harness_graph_find_cycle(cut, &members, &is_mixed);
    is_lost = !dying && harness_message_is_any_lost(cut);
    if (!dying && !is_lost && is_cycle && is_mixed && quiet_ns >= HARNESS_MONITOR_CYCLE_HOLD_NS &&
        !is_device_working(cut)) {
        if (!harness_message_find_unsent(view, out)) {
            add_deadlock(view, HARNESS_VERDICT_HANG_CYCLE, HARNESS_MODE_PROVABLE, &members, out);
        }
        return;
    }
    if (quiet_ns <= budget_ns) {
        return;
    }
    if (is_lost) {
        harness_message_find_lost(view, out);
        return;
    }
    if (dying || !is_cycle) {
        uint32_t first;

        members = harness_rank_set_in(view->mem);
        harness_graph_waiting_set(cut, &members);
        first = harness_rank_set_at(&members, 0);
        verdict = harness_graph_phase(cut, first) <= DDP_PHASE_INIT ? HARNESS_VERDICT_HANG_INIT
                                                                    : HARNESS_VERDICT_HANG_TEARDOWN;
        verdict = dying ? HARNESS_VERDICT_HANG_RECOVERY : verdict;
    }
    add_deadlock(view, verdict, HARNESS_MODE_BUDGET, &members, out);
}

/* No rank waits, and another one is busy within its budget: it may come to wait for this one, which
 * is then the better evidence. */
static bool is_anybody_coming(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;
    bool is_busy = false;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_graph_is_waiting(cut, r)) {
            return false;
        }
        is_busy =
            is_busy || (r != rank && harness_graph_is_live(cut, r) &&
                        cut->processes[r].state == HARNESS_PROCESS_RUNNING &&
                        harness_graph_silent_ns(cut, r) <=
                            harness_monitor_budget_ns(view->plan, harness_graph_phase(cut, r)));
    }
    return is_busy;
}

/* What it means that this rank is silent for longer than its phase's budget; NONE if it is not. */
static enum harness_verdict silence_of(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;
    enum ddp_phase phase = harness_graph_phase(cut, rank);

    if (cut->processes[rank].state != HARNESS_PROCESS_RUNNING ||
        harness_graph_is_waiting(cut, rank) ||
        harness_graph_silent_ns(cut, rank) <= harness_monitor_budget_ns(view->plan, phase)) {
        return HARNESS_VERDICT_NONE;
    }
    if (phase <= DDP_PHASE_INIT) {
        return HARNESS_VERDICT_HANG_INIT;
    }
    if (phase >= DDP_PHASE_TEARDOWN) {
        return HARNESS_VERDICT_HANG_TEARDOWN;
    }
    if (phase == DDP_PHASE_DATA) {
        return HARNESS_VERDICT_HANG_DATA;
    }
    if (harness_graph_seq_owed(cut, rank) != 0) {
        return HARNESS_VERDICT_HANG_NOT_JOINED;
    }
    return is_anybody_coming(view, rank) ? HARNESS_VERDICT_NONE : HARNESS_VERDICT_HANG_HOST;
}

/* The host is silent while its device has unfinished work: the host may be blocked in a call that
 * waits for the device. */
static bool is_behind_device(const struct harness_cut *cut, uint32_t rank)
{
    const struct harness_position position = harness_position_of(cut, rank);

    return position.is_known &&
           (position.compute == HARNESS_COMPUTE_BUSY || position.comm != HARNESS_COMM_IDLE);
}

/* A finding about the devices of this cut names the rank: its host is blocked by that. */
static bool is_device_named(const struct harness_findings *findings, uint32_t rank)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (harness_verdict_is_of_device(findings->items[i].verdict) &&
            harness_rank_set_has(&findings->items[i].culprits, rank)) {
            return true;
        }
    }
    return false;
}

/* behind_device: only ranks whose host may be blocked by their device, or only the others. */
static void find_silent(const struct harness_view *view, enum harness_verdict verdict,
                        bool behind_device, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set culprits = harness_rank_set_in(view->mem);
    struct harness_finding finding;
    uint32_t first = cut->world_size;
    char what[64] = "silent for 0 ms";

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (silence_of(view, r) != verdict || is_behind_device(cut, r) != behind_device ||
            (behind_device && (is_device_named(out, r) || harness_blocked_is(view, r) ||
                               harness_rounds_is_held(cut, r)))) {
            continue;
        }
        harness_rank_set_add(&culprits, r);
        if (first == cut->world_size ||
            harness_graph_silent_ns(cut, r) > harness_graph_silent_ns(cut, first)) {
            first = r;
        }
    }
    if (first == cut->world_size) {
        return;
    }
    harness_draft_begin(view, verdict, HARNESS_MODE_BUDGET, first, &finding);
    finding.culprits = culprits;
    finding.detect_ns = (int64_t)harness_graph_age_ns(cut, harness_monitor_alive_ns(cut, first));
    harness_draft_add(&finding, "silent in host code for %llu ms (budget %llu ms)",
                      (unsigned long long)(harness_graph_silent_ns(cut, first) / DDP_NS_PER_MS),
                      (unsigned long long)(harness_monitor_budget_ns(
                                               view->plan, harness_graph_phase(cut, first)) /
                                           DDP_NS_PER_MS));
    memcpy(what, finding.text, sizeof(what) - 1);
    what[sizeof(what) - 1] = '\0';
    finding.text[0] = '\0';
    add_hang(view, &finding, first, what, out);
}

/* Some rank that has not recorded its end is at it: how it will have ended, is known only then. */
static bool is_any_ending(const struct harness_cut *cut)
{
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_graph_is_live(cut, r) && harness_graph_is_ending(cut, r)) {
            return true;
        }
    }
    return false;
}

void harness_monitor_analyse_ends(const struct harness_plan *plan,
                                  const struct harness_program *program,
                                  const struct harness_cut *cut, struct harness_findings *out)
{
    const struct harness_view view = {plan, program, cut, out->mem};

    harness_crash_find_all(&view, out);
}

void harness_monitor_analyse(const struct harness_plan *plan, const struct harness_program *program,
                             const struct harness_cut *cut, struct harness_findings *out)
{
    static const enum harness_verdict silences[] = {
        HARNESS_VERDICT_HANG_DATA, HARNESS_VERDICT_HANG_NOT_JOINED, HARNESS_VERDICT_HANG_INIT,
        HARNESS_VERDICT_HANG_HOST, HARNESS_VERDICT_HANG_TEARDOWN};
    const struct harness_view view = {plan, program, cut, out->mem};
    size_t start = out->count;
    size_t explained;
    bool dying = is_dying(&view);

    harness_crash_find_all(&view, out);
    harness_mismatch_find_all(&view, out);
    if (is_any_ending(cut)) {
        return;
    }
    find_stopped(&view, out);
    explained = out->count;
    harness_device_find(&view, dying || explained > start, out);
    if (out->count == explained) {
        find_deadlock(&view, dying, out);
    }
    for (size_t i = 0; i < sizeof(silences) / sizeof(silences[0]); i++) {
        find_silent(&view, silences[i], false, out);
    }
    /* A finding above may be why these devices do not finish; but in a job that is ending, they
     * have to, unless they wait for a rank that has ended. */
    if (dying || out->count == start) {
        harness_blocked_find(&view, out);
        for (size_t i = 0; i < sizeof(silences) / sizeof(silences[0]); i++) {
            find_silent(&view, silences[i], true, out);
        }
    }
}
