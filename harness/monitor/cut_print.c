/* Prints a cut: each rank, its device, the wait-for graph. For people who look for a hang's cause,
 * not for the judge. Of a large job only a part is printed: culprits and ranks that others wait for
 * come first. */
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/monitor/draft.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/position.h"
#include "harness/monitor/rules.h"
#include "harness/plan/op_text.h"

enum { CYCLE_RANKS_MAX = 16 };

struct mark {
    bool is_culprit;
    bool is_waiter; /* has an edge to some rank */
    bool is_wanted; /* some rank has an edge to it */
    bool is_shown;
    uint32_t walk; /* the walk along waits that came here first, from 1; 0 = none yet */
};

struct printer {
    struct harness_view view;
    struct mark *marks; /* [world_size] */
    struct ddp_text *out;
};

static bool is_started(const struct harness_position *position)
{
    return position->comm == HARNESS_COMM_INSIDE || position->comm == HARNESS_COMM_OPEN;
}

/* A rank's device is inside a collective that the other rank's device has not started, or that the
 * other rank has not posted. */
static bool has_device_edge(const struct harness_cut *cut, uint32_t rank,
                            const struct harness_position *at, uint32_t other)
{
    struct harness_position theirs;

    if (!at->is_known || !is_started(at) || at->seq <= at->seq_ended || rank == other ||
        cut->pages[rank].comm != cut->pages[other].comm) {
        return false;
    }
    if (cut->pages[other].seq_posted < at->seq) {
        return true;
    }
    theirs = harness_position_of(cut, other);
    return theirs.is_known && theirs.seq_ended < at->seq &&
           !(is_started(&theirs) && theirs.seq >= at->seq);
}

enum edge { EDGE_NONE, EDGE_HOST, EDGE_DEVICE };

static enum edge edge_of(const struct harness_cut *cut, uint32_t rank,
                         const struct harness_position *at, uint32_t other)
{
    if (harness_graph_has_edge(cut, rank, other)) {
        return EDGE_HOST;
    }
    return has_device_edge(cut, rank, at, other) ? EDGE_DEVICE : EDGE_NONE;
}

static void find_edges(struct printer *printer)
{
    const struct harness_cut *cut = printer->view.cut;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position at = harness_position_of(cut, r);

        for (uint32_t q = 0; q < cut->world_size; q++) {
            if (edge_of(cut, r, &at, q) != EDGE_NONE) {
                printer->marks[r].is_waiter = true;
                printer->marks[q].is_wanted = true;
            }
        }
    }
}

/* Others wait for it, and it waits for no rank. */
static bool is_sink(const struct printer *printer, uint32_t rank)
{
    return printer->marks[rank].is_wanted && !printer->marks[rank].is_waiter;
}

static bool is_marked(const struct printer *printer, uint32_t rank)
{
    return printer->marks[rank].is_culprit || is_sink(printer, rank);
}

static double age_ms(const struct harness_cut *cut, uint64_t then_ns)
{
    return (double)harness_graph_age_ns(cut, then_ns) / (double)DDP_NS_PER_MS;
}

/* "running", "at its end for 3.0 ms", "stopped for 92.0 ms", "ended by signal 9 (SIGKILL), 1.0 ms
 * ago" */
static void add_state(const struct printer *printer, uint32_t rank)
{
    const struct harness_process *process = &printer->view.cut->processes[rank];
    double ms = age_ms(printer->view.cut, process->since_ns);
    const char *name;

    if (harness_graph_is_ending(printer->view.cut, rank)) {
        ddp_text_add(printer->out, "at its end for %.1f ms",
                     age_ms(printer->view.cut, process->ending_ns));
        return;
    }
    switch (process->state) {
    case HARNESS_PROCESS_NOT_STARTED:
        ddp_text_add(printer->out, "not started");
        return;
    case HARNESS_PROCESS_RUNNING:
        ddp_text_add(printer->out, "running");
        return;
    case HARNESS_PROCESS_STOPPED:
        ddp_text_add(printer->out, "stopped for %.1f ms", ms);
        return;
    case HARNESS_PROCESS_EXITED:
        ddp_text_add(printer->out, "exited with code %d, %.1f ms ago", process->code, ms);
        return;
    case HARNESS_PROCESS_SIGNALED:
        name = sigabbrev_np(process->code);
        ddp_text_add(printer->out, "ended by signal %d (SIG%s), %.1f ms ago", process->code,
                     name != NULL ? name : "?", ms);
        return;
    }
}

/* ", in step 5, backward" */
static void add_place(const struct printer *printer, uint32_t rank)
{
    const struct harness_cut *cut = printer->view.cut;
    const struct ddp_page *page = &cut->pages[rank];
    enum ddp_phase phase = harness_graph_phase(cut, rank);

    ddp_text_add(printer->out, ", %sin ", harness_graph_is_gone(cut, rank) ? "last seen " : "");
    if (phase > DDP_PHASE_INIT) {
        ddp_text_add(printer->out, "step %llu, ", (unsigned long long)page->step);
        if (printer->view.plan->job.micro_batches > 1) {
            ddp_text_add(printer->out, "micro-batch %llu, ", (unsigned long long)page->micro);
        }
    }
    ddp_text_add(printer->out, "%s", ddp_phase_name(phase));
}

/* "; posted all_reduce seq 10 (bucket 1: a, b), done seq 9; has not posted ..." */
static void add_ops(const struct printer *printer, uint32_t rank)
{
    const struct harness_program *program = printer->view.program;
    const struct ddp_page *page = &printer->view.cut->pages[rank];
    struct ddp_event_op op = ddp_event_op_unpack(page->posted_op);
    uint64_t owed = harness_graph_seq_owed(printer->view.cut, rank);
    enum harness_verdict verdict;

    if (page->seq_posted == 0) {
        ddp_text_add(printer->out, "; nothing posted");
    } else {
        ddp_text_add(printer->out, "; %s ",
                     page->seq_done < page->seq_posted ? "posted" : "posted and done");
        harness_op_text_add(program, op, page->seq_posted, printer->out);
        verdict = harness_mismatch_of(&printer->view, rank);
        if (verdict != HARNESS_VERDICT_NONE) {
            ddp_text_add(printer->out, ", not the program's (%s)", harness_verdict_name(verdict));
        }
        if (page->seq_done < page->seq_posted) {
            ddp_text_add(printer->out, ", done seq %llu", (unsigned long long)page->seq_done);
        }
    }
    /* If the rank waits, others are the reason. */
    if (owed != 0 && !harness_graph_is_waiting(printer->view.cut, rank)) {
        ddp_text_add(printer->out, "; has not posted ");
        harness_op_text_add_planned(program, owed, printer->out);
    }
}

/* "; waiting for 12.0 ms", "; silent in host code for 7.0 ms (budget 2000 ms)", "; ended with OK"
 */
static void add_doing(const struct printer *printer, uint32_t rank)
{
    const struct harness_cut *cut = printer->view.cut;
    const struct ddp_page *page = &cut->pages[rank];
    enum ddp_phase phase = harness_graph_phase(cut, rank);

    if (page->end_status != 0) {
        ddp_status status = (ddp_status)(int32_t)(uint32_t)(page->end_status - 1);

        ddp_text_add(printer->out, "; ended with %s", ddp_status_name(status));
    } else if (harness_graph_is_waiting(cut, rank)) {
        ddp_text_add(printer->out, "; waiting for %.1f ms", age_ms(cut, page->wait_enter_ns));
    } else if (cut->processes[rank].state == HARNESS_PROCESS_RUNNING &&
               !harness_graph_is_ending(cut, rank)) {
        ddp_text_add(printer->out, "; silent in host code for %.1f ms (budget %llu ms)",
                     (double)harness_graph_silent_ns(cut, rank) / (double)DDP_NS_PER_MS,
                     (unsigned long long)(harness_monitor_budget_ns(printer->view.plan, phase) /
                                          DDP_NS_PER_MS));
        if (harness_graph_starved_ns(cut, rank) >= DDP_NS_PER_MS) {
            ddp_text_add(printer->out, "; kept from a CPU for %.1f ms",
                         (double)harness_graph_starved_ns(cut, rank) / (double)DDP_NS_PER_MS);
        }
    }
    if (page->revoke_rank != 0) {
        ddp_text_add(printer->out, "; saw r%llu revoke the group",
                     (unsigned long long)(page->revoke_rank - 1));
    }
}

static void add_rank(const struct printer *printer, uint32_t rank)
{
    const struct harness_cut *cut = printer->view.cut;
    const struct harness_position position = harness_position_of(cut, rank);

    ddp_text_add(printer->out, "r%u ", rank);
    if (printer->marks[rank].is_culprit) {
        ddp_text_add(printer->out, "(culprit) ");
    } else if (is_sink(printer, rank)) {
        ddp_text_add(printer->out, "(others wait for it) ");
    }
    add_state(printer, rank);
    if (!cut->is_page_valid[rank]) {
        ddp_text_add(printer->out, ", has recorded nothing yet\n");
        return;
    }
    add_place(printer, rank);
    add_ops(printer, rank);
    add_doing(printer, rank);
    ddp_text_add(printer->out, "\n");
    if (position.is_known) {
        ddp_text_add(printer->out, "r%u device: ", rank);
        harness_position_say(printer->view.program, &position, printer->out);
        ddp_text_add(printer->out, "; no mark for %.1f ms\n", age_ms(cut, cut->progress_ns[rank]));
    }
}

/* Marked ranks first, then the others as long as there is room; printed in order. */
static void add_ranks(const struct printer *printer)
{
    const struct harness_cut *cut = printer->view.cut;
    uint32_t count = 0;
    uint32_t waiting = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t r = 0; r < cut->world_size && count < HARNESS_CUT_PRINT_RANKS_MAX; r++) {
            if (is_marked(printer, r) == (pass == 0)) {
                printer->marks[r].is_shown = true;
                count++;
            }
        }
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (printer->marks[r].is_shown) {
            add_rank(printer, r);
        } else {
            waiting += harness_graph_is_waiting(cut, r) ? 1 : 0;
        }
    }
    if (count < cut->world_size) {
        ddp_text_add(printer->out, "... %u more ranks left out, %u of them waiting\n",
                     cut->world_size - count, waiting);
    }
}

/* What a waiting rank waits for. Its last operation is shown as it was posted, which may differ
 * from the program. */
static void add_wanted(const struct printer *printer, uint32_t rank)
{
    const struct ddp_page *page = &printer->view.cut->pages[rank];

    if (page->wait_kind == DDP_WAIT_STORE) {
        ddp_text_add(printer->out, "a key of the store");
    } else if (page->wait_seq == page->seq_posted) {
        harness_op_text_add(printer->view.program, ddp_event_op_unpack(page->posted_op),
                            page->wait_seq, printer->out);
    } else {
        harness_op_text_add_planned(printer->view.program, page->wait_seq, printer->out);
    }
}

static void add_edge(const struct printer *printer, enum edge edge, uint32_t rank, uint32_t other)
{
    if (edge == EDGE_HOST) {
        ddp_text_add(printer->out, "r%u waits for r%u: ", rank, other);
        add_wanted(printer, rank);
    } else {
        ddp_text_add(printer->out, "r%u device waits for r%u device: ", rank, other);
        harness_op_text_add_planned(printer->view.program,
                                    harness_position_of(printer->view.cut, rank).seq, printer->out);
    }
    ddp_text_add(printer->out, "\n");
}

/* Edges to marked ranks first. */
static void add_edges(const struct printer *printer)
{
    const struct harness_cut *cut = printer->view.cut;
    uint64_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t r = 0; r < cut->world_size; r++) {
            const struct harness_position at = harness_position_of(cut, r);

            for (uint32_t q = 0; q < cut->world_size && printer->marks[r].is_waiter; q++) {
                enum edge edge = edge_of(cut, r, &at, q);

                if (edge != EDGE_NONE && is_marked(printer, q) == (pass == 0) &&
                    ++count <= HARNESS_CUT_PRINT_EDGES_MAX) {
                    add_edge(printer, edge, r, q);
                }
            }
        }
    }
    if (count > HARNESS_CUT_PRINT_EDGES_MAX) {
        ddp_text_add(printer->out, "... %llu more waits left out\n",
                     (unsigned long long)(count - HARNESS_CUT_PRINT_EDGES_MAX));
    }
}

/* Ranks that wait for their device, or for ranks that are not known. */
static void add_edgeless(const struct printer *printer)
{
    const struct harness_cut *cut = printer->view.cut;
    uint32_t count = 0;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position at = harness_position_of(cut, r);

        if (!harness_graph_is_waiting(cut, r) || printer->marks[r].is_waiter ||
            ++count > HARNESS_CUT_PRINT_EDGES_MAX) {
            continue;
        }
        ddp_text_add(printer->out,
                     harness_position_is_working(&at) ? "r%u waits for its device: "
                                                      : "r%u waits for an unknown rank: ",
                     r);
        add_wanted(printer, r);
        ddp_text_add(printer->out, "\n");
    }
    if (count > HARNESS_CUT_PRINT_EDGES_MAX) {
        ddp_text_add(printer->out, "... %u more waits for unknown ranks left out\n",
                     count - HARNESS_CUT_PRINT_EDGES_MAX);
    }
}

/* "circle of waits: r0 → r1 → r0" */
static void add_cycle(const struct printer *printer, uint32_t first)
{
    const struct harness_cut *cut = printer->view.cut;
    bool is_inside = true;
    uint32_t count = 0;
    uint32_t at = first;

    do {
        uint32_t next = harness_graph_next(cut, at);

        is_inside = is_inside && harness_graph_is_inside(cut, at, next);
        at = next;
    } while (at != first);
    ddp_text_add(printer->out, "circle of waits%s: r%u",
                 is_inside ? " for messages of one collective" : "", first);
    do {
        at = harness_graph_next(cut, at);
        if (++count < CYCLE_RANKS_MAX || at == first) {
            ddp_text_add(printer->out, " → r%u", at);
        } else if (count == CYCLE_RANKS_MAX) {
            ddp_text_add(printer->out, " → ...");
        }
    } while (at != first);
    ddp_text_add(printer->out, count > CYCLE_RANKS_MAX ? " (%u ranks)\n" : "\n", count);
}

/* Every rank has at most one next rank: a walk ends, meets an earlier one, or closes a circle. */
static void add_cycles(const struct printer *printer)
{
    const struct harness_cut *cut = printer->view.cut;

    for (uint32_t start = 0; start < cut->world_size; start++) {
        uint32_t at = start;

        while (at < cut->world_size && printer->marks[at].walk == 0) {
            printer->marks[at].walk = start + 1;
            at = harness_graph_next(cut, at);
        }
        if (at < cut->world_size && printer->marks[at].walk == start + 1) {
            add_cycle(printer, at);
        }
    }
}

void harness_cut_print(const struct harness_plan *plan, const struct harness_program *program,
                       const struct harness_cut *cut, const struct harness_rank_set *culprits,
                       struct ddp_text *out)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct printer printer = {.view = {.plan = plan, .program = program, .cut = cut},
                              .marks = ddp_mem_array(mem, cut->world_size, sizeof(struct mark)),
                              .out = out};

    if (printer.marks == NULL) {
        out->is_failed = true;
        return;
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        printer.marks[r].is_culprit = harness_rank_set_has(culprits, r);
    }
    find_edges(&printer);
    add_ranks(&printer);
    add_edges(&printer);
    add_edgeless(&printer);
    add_cycles(&printer);
    ddp_mem_free(mem, printer.marks);
}
