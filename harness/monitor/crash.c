/* Ranks that ended before their work was done: the most certain findings of a cut. All ranks that
 * ended in the same way in the same step make one finding; its place is that of the first of them.
 */
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/monitor/draft.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/rules.h"

/* The rank recorded rank.end with DDP_OK. */
static bool is_end_ok(const struct harness_cut *cut, uint32_t rank)
{
    return cut->pages[rank].end_status == 1;
}

/* The rank recorded rank.end, with whatever status. */
static bool has_end(const struct harness_cut *cut, uint32_t rank)
{
    return cut->pages[rank].end_status != 0;
}

/* `rank` waits for a collective after `posted`, or at the store for its group to form. */
static bool is_waiting_beyond(const struct harness_cut *cut, uint32_t rank, uint64_t posted)
{
    const struct ddp_page *page = &cut->pages[rank];

    return harness_graph_is_waiting(cut, rank) &&
           (page->wait_kind != DDP_WAIT_COLLECTIVE || page->wait_seq > posted);
}

/* The rank ended with DDP_OK before the program's end, while others had more to do: they posted
 * more, wait for more, or failed. (If all ranks end early, the oracles find it.) If it posted an
 * operation that is not the program's, how many it should have posted is not known. */
static bool is_work_left(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;
    uint64_t posted = cut->pages[rank].seq_posted;

    if (!is_end_ok(cut, rank) || posted >= view->program->op_count ||
        harness_mismatch_of(view, rank) != HARNESS_VERDICT_NONE) {
        return false;
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (r != rank && (is_waiting_beyond(cut, r, posted) || cut->pages[r].seq_posted > posted ||
                          cut->pages[r].end_status > 1)) {
            return true;
        }
    }
    return false;
}

enum harness_verdict harness_crash_of(const struct harness_view *view, uint32_t rank)
{
    const struct harness_process *process = &view->cut->processes[rank];

    if (is_work_left(view, rank)) {
        return HARNESS_VERDICT_CRASH_FINISHED_EARLY;
    }
    if (process->state == HARNESS_PROCESS_SIGNALED && !has_end(view->cut, rank)) {
        return HARNESS_VERDICT_CRASH_SIGNALED;
    }
    if (process->state == HARNESS_PROCESS_EXITED && process->code == 0 &&
        !has_end(view->cut, rank)) {
        return HARNESS_VERDICT_CRASH_FINISHED_EARLY;
    }
    if (process->state == HARNESS_PROCESS_EXITED && process->code != 0 &&
        (!has_end(view->cut, rank) || is_end_ok(view->cut, rank))) {
        return HARNESS_VERDICT_CRASH_EXITED;
    }
    return HARNESS_VERDICT_NONE;
}

static uint64_t end_ns(const struct harness_cut *cut, uint32_t rank)
{
    return harness_graph_is_gone(cut, rank) ? cut->processes[rank].since_ns
                                            : cut->pages[rank].heartbeat_ns;
}

/* When it ran no code of its own any more, as far as that was seen: the kernel may end a process
 * later than one that only follows it. */
static uint64_t last_code_ns(const struct harness_cut *cut, uint32_t rank)
{
    const uint64_t ending_ns = cut->processes[rank].ending_ns;
    const uint64_t ended_ns = end_ns(cut, rank);

    return ending_ns != 0 && ending_ns < ended_ns ? ending_ns : ended_ns;
}

/* ", 3912 ms after it was seen to be at its end" */
static void say_late(const struct harness_cut *cut, uint32_t rank, struct harness_finding *finding)
{
    const struct harness_process *process = &cut->processes[rank];
    const uint64_t until_ns = process->is_unended ? cut->now_ns : process->since_ns;
    const uint64_t late_ns = until_ns - last_code_ns(cut, rank);

    if (harness_graph_is_gone(cut, rank) && late_ns >= HARNESS_MONITOR_ENDING_SAID_NS) {
        harness_draft_add(finding,
                          process->is_unended ? ", but has not ended for %llu ms"
                                              : ", %llu ms after it was seen to be at its end",
                          (unsigned long long)(late_ns / DDP_NS_PER_MS));
    }
}

static void say_crash(const struct harness_view *view, uint32_t rank,
                      struct harness_finding *finding)
{
    const struct harness_process *process = &view->cut->processes[rank];
    const char *name;

    harness_draft_add_ranks(finding, &finding->culprits);
    switch (finding->verdict) {
    case HARNESS_VERDICT_CRASH_SIGNALED:
        name = sigabbrev_np(process->code);
        harness_draft_add(finding, " %s by signal %d (SIG%s)",
                          process->is_unended ? "was killed" : "ended", process->code,
                          name != NULL ? name : "?");
        break;
    case HARNESS_VERDICT_CRASH_EXITED:
        harness_draft_add(finding, " %s with code %d", process->is_unended ? "exits" : "exited",
                          process->code);
        break;
    default:
        harness_draft_add(finding,
                          " ended in good order before the work was done, with %llu of "
                          "%zu collectives posted",
                          (unsigned long long)view->cut->pages[rank].seq_posted,
                          view->program->op_count);
        break;
    }
    say_late(view->cut, rank, finding);
    harness_draft_add_place(finding);
    if (finding->op.is_set) {
        bool is_open = view->cut->pages[rank].seq_done < view->cut->pages[rank].seq_posted;

        harness_draft_add(finding, is_open ? ", inside " : ", after ");
        harness_draft_add_op(view, finding);
    }
    harness_draft_add_plugin(view, rank, finding);
    harness_draft_add_victims(finding);
}

/* It has lost its group, and has not come to a new one. */
static bool is_recovering(const struct harness_cut *cut, uint32_t rank)
{
    return harness_graph_phase(cut, rank) == DDP_PHASE_RECOVERY;
}

/* The step in which the job lost `rank`. A rank that ended while it recovered from an earlier loss
 * ended in the step of that one: it may itself not have come so far. */
static int32_t step_of_loss(const struct harness_view *view, uint32_t rank)
{
    const struct harness_cut *cut = view->cut;
    uint32_t first = rank;

    for (uint32_t r = 0; is_recovering(cut, rank) && r < cut->world_size; r++) {
        if (!is_recovering(cut, r) && harness_crash_of(view, r) != HARNESS_VERDICT_NONE &&
            (first == rank || last_code_ns(cut, r) < last_code_ns(cut, first))) {
            first = r;
        }
    }
    return harness_draft_step(cut, first);
}

/* One finding for all ranks that the job lost in this way in one step, which is that of `rank`; its
 * place is that of the first of them. is_crashed: [world] */
static void add_crash(const struct harness_view *view, enum harness_verdict verdict, uint32_t rank,
                      const bool *is_crashed, struct harness_findings *out)
{
    const struct harness_cut *cut = view->cut;
    struct harness_rank_set culprits = harness_rank_set_in(view->mem);
    const int32_t step = step_of_loss(view, rank);
    struct harness_finding finding;
    uint32_t first = rank;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (!is_crashed[r] || step_of_loss(view, r) != step) {
            continue;
        }
        if (r < rank) {
            return; /* said with that one */
        }
        harness_rank_set_add(&culprits, r);
        first = last_code_ns(cut, r) < last_code_ns(cut, first) ? r : first;
    }
    harness_draft_begin(view, verdict, HARNESS_MODE_PROVABLE, first, &finding);
    finding.culprits = culprits;
    finding.step = step;
    finding.detect_ns = (int64_t)harness_graph_age_ns(cut, end_ns(cut, first));
    harness_draft_set_posted(view, first, &finding);
    say_crash(view, first, &finding);
    harness_findings_add(out, &finding);
}

static void find_crashes(const struct harness_view *view, enum harness_verdict verdict,
                         struct harness_findings *out)
{
    const uint32_t world = view->cut->world_size;
    bool *is_crashed = ddp_mem_array(view->mem, world, sizeof(*is_crashed));

    for (uint32_t r = 0; is_crashed != NULL && r < world; r++) {
        is_crashed[r] = harness_crash_of(view, r) == verdict;
    }
    for (uint32_t r = 0; is_crashed != NULL && r < world; r++) {
        if (is_crashed[r]) {
            add_crash(view, verdict, r, is_crashed, out);
        }
    }
    out->is_failed = out->is_failed || is_crashed == NULL;
    ddp_mem_free(view->mem, is_crashed);
}

void harness_crash_find_all(const struct harness_view *view, struct harness_findings *out)
{
    static const enum harness_verdict crashes[] = {HARNESS_VERDICT_CRASH_SIGNALED,
                                                   HARNESS_VERDICT_CRASH_EXITED,
                                                   HARNESS_VERDICT_CRASH_FINISHED_EARLY};

    for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
        find_crashes(view, crashes[i], out);
    }
}
