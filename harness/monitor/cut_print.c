/* A cut in words: each rank, its device, the wait-for graph. For people who look for a hang's
 * cause, not for the judge. Of a large job only a part is told, and first whom it is about. */
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/monitor/draft.h"
#include "harness/monitor/graph.h"
#include "harness/monitor/op_text.h"
#include "harness/monitor/position.h"

enum { CYCLE_RANKS_MAX = 16 };

struct picture {
    struct harness_view view;
    struct harness_rank_set culprits;
    struct harness_rank_set waiters; /* have an edge to some rank */
    struct harness_rank_set sinks;   /* others wait for them, and they for nobody */
    struct ddp_text *out;
};

static bool is_started(const struct harness_position *position)
{
    return position->comm == HARNESS_COMM_INSIDE || position->comm == HARNESS_COMM_OPEN;
}

/* A rank's device is inside a collective that the other's has not started, as far as that shows. */
static bool has_device_edge(const struct harness_cut *cut, uint32_t rank,
                            const struct harness_position *at, uint32_t other)
{
    struct harness_position theirs;

    if (!at->is_known || !is_started(at) || at->seq <= at->seq_ended || rank == other ||
        !cut->is_page_valid[other] || cut->pages[rank].comm != cut->pages[other].comm) {
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

static void find_sinks(struct picture *picture)
{
    const struct harness_cut *cut = picture->view.cut;
    struct harness_rank_set waited_for = {{0}};

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position at = harness_position_of(cut, r);

        for (uint32_t q = 0; q < cut->world_size; q++) {
            if (edge_of(cut, r, &at, q) != EDGE_NONE) {
                harness_rank_set_add(&picture->waiters, r);
                harness_rank_set_add(&waited_for, q);
            }
        }
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_rank_set_has(&waited_for, r) && !harness_rank_set_has(&picture->waiters, r)) {
            harness_rank_set_add(&picture->sinks, r);
        }
    }
}

static bool is_marked(const struct picture *picture, uint32_t rank)
{
    return harness_rank_set_has(&picture->culprits, rank) ||
           harness_rank_set_has(&picture->sinks, rank);
}

static double age_ms(const struct harness_cut *cut, uint64_t then_ns)
{
    return (double)harness_graph_age_ns(cut, then_ns) / (double)DDP_NS_PER_MS;
}

/* "running", "stopped for 92.0 ms", "ended by signal 9 (SIGKILL), 1.0 ms ago" */
static void add_state(const struct picture *picture, uint32_t rank)
{
    const struct harness_process *process = &picture->view.cut->processes[rank];
    double ms = age_ms(picture->view.cut, process->since_ns);
    const char *name;

    switch (process->state) {
    case HARNESS_PROCESS_NOT_STARTED:
        ddp_text_add(picture->out, "not started");
        return;
    case HARNESS_PROCESS_RUNNING:
        ddp_text_add(picture->out, "running");
        return;
    case HARNESS_PROCESS_STOPPED:
        ddp_text_add(picture->out, "stopped for %.1f ms", ms);
        return;
    case HARNESS_PROCESS_EXITED:
        ddp_text_add(picture->out, "exited with code %d, %.1f ms ago", process->code, ms);
        return;
    case HARNESS_PROCESS_SIGNALED:
        name = sigabbrev_np(process->code);
        ddp_text_add(picture->out, "ended by signal %d (SIG%s), %.1f ms ago", process->code,
                     name != NULL ? name : "?", ms);
        return;
    }
}

/* ", in step 5, backward" */
static void add_place(const struct picture *picture, uint32_t rank)
{
    const struct harness_cut *cut = picture->view.cut;
    const struct ddp_page *page = &cut->pages[rank];
    enum ddp_phase phase = harness_graph_phase(cut, rank);

    ddp_text_add(picture->out, ", %sin ", harness_graph_is_gone(cut, rank) ? "last seen " : "");
    if (phase > DDP_PHASE_INIT) {
        ddp_text_add(picture->out, "step %llu, ", (unsigned long long)page->step);
        if (picture->view.plan->job.micro_batches > 1) {
            ddp_text_add(picture->out, "micro-batch %llu, ", (unsigned long long)page->micro);
        }
    }
    ddp_text_add(picture->out, "%s", ddp_phase_name(phase));
}

/* "; posted all_reduce seq 10 (bucket 1: a, b), done seq 9; owes ..." */
static void add_ops(const struct picture *picture, uint32_t rank)
{
    const struct harness_program *program = picture->view.program;
    const struct ddp_page *page = &picture->view.cut->pages[rank];
    struct ddp_event_op op = ddp_event_op_unpack(page->posted_op);
    uint64_t owed = harness_graph_seq_owed(picture->view.cut, rank);
    enum harness_verdict verdict;

    if (page->seq_posted == 0) {
        ddp_text_add(picture->out, "; nothing posted");
    } else {
        ddp_text_add(picture->out, "; %s ",
                     page->seq_done < page->seq_posted ? "posted" : "posted and done");
        harness_op_text_add(program, op, page->seq_posted, picture->out);
        verdict = harness_program_compare_step(program, page->seq_posted,
                                               (int32_t)page->posted_step, &op, page->posted_count);
        if (verdict != HARNESS_VERDICT_NONE) {
            ddp_text_add(picture->out, ", not the program's (%s)", harness_verdict_name(verdict));
        }
        if (page->seq_done < page->seq_posted) {
            ddp_text_add(picture->out, ", done seq %llu", (unsigned long long)page->seq_done);
        }
    }
    /* A rank that waits is behind because of others. */
    if (owed != 0 && !harness_graph_is_waiting(picture->view.cut, rank)) {
        ddp_text_add(picture->out, "; owes ");
        harness_op_text_add_planned(program, owed, picture->out);
    }
}

/* "; waiting for 12.0 ms", "; silent in host code for 7.0 ms (budget 2000 ms)", "; ended with OK"
 */
static void add_doing(const struct picture *picture, uint32_t rank)
{
    const struct harness_cut *cut = picture->view.cut;
    const struct ddp_page *page = &cut->pages[rank];
    enum ddp_phase phase = harness_graph_phase(cut, rank);

    if (page->end_status != 0) {
        ddp_status status = (ddp_status)(int32_t)(uint32_t)(page->end_status - 1);

        ddp_text_add(picture->out, "; ended with %s", ddp_status_name(status));
    } else if (harness_graph_is_waiting(cut, rank)) {
        ddp_text_add(picture->out, "; waiting for %.1f ms", age_ms(cut, page->wait_enter_ns));
    } else if (cut->processes[rank].state == HARNESS_PROCESS_RUNNING) {
        ddp_text_add(picture->out, "; silent in host code for %.1f ms (budget %llu ms)",
                     (double)harness_graph_silent_ns(cut, rank) / (double)DDP_NS_PER_MS,
                     (unsigned long long)(harness_graph_budget_ns(picture->view.plan, phase) /
                                          DDP_NS_PER_MS));
        if (harness_graph_starved_ns(cut, rank) >= DDP_NS_PER_MS) {
            ddp_text_add(picture->out, "; kept from a CPU for %.1f ms",
                         (double)harness_graph_starved_ns(cut, rank) / (double)DDP_NS_PER_MS);
        }
    }
    if (page->revoke_rank != 0) {
        ddp_text_add(picture->out, "; saw r%llu revoke the group",
                     (unsigned long long)(page->revoke_rank - 1));
    }
}

static void add_rank(const struct picture *picture, uint32_t rank)
{
    const struct harness_cut *cut = picture->view.cut;
    const struct harness_position position = harness_position_of(cut, rank);

    ddp_text_add(picture->out, "r%u ", rank);
    if (harness_rank_set_has(&picture->culprits, rank)) {
        ddp_text_add(picture->out, "(culprit) ");
    } else if (harness_rank_set_has(&picture->sinks, rank)) {
        ddp_text_add(picture->out, "(others wait for it) ");
    }
    add_state(picture, rank);
    if (!cut->is_page_valid[rank]) {
        ddp_text_add(picture->out, ", has shown nothing yet\n");
        return;
    }
    add_place(picture, rank);
    add_ops(picture, rank);
    add_doing(picture, rank);
    ddp_text_add(picture->out, "\n");
    if (position.is_known) {
        ddp_text_add(picture->out, "r%u device: ", rank);
        harness_position_say(picture->view.program, &position, picture->out);
        ddp_text_add(picture->out, "; no mark for %.1f ms\n", age_ms(cut, cut->progress_ns[rank]));
    }
}

/* Marked ranks first, then the others as long as there is room; printed in order. */
static void add_ranks(const struct picture *picture)
{
    const struct harness_cut *cut = picture->view.cut;
    struct harness_rank_set shown = {{0}};
    uint32_t count = 0;
    uint32_t waiting = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t r = 0; r < cut->world_size && count < HARNESS_CUT_PRINT_RANKS_MAX; r++) {
            if (is_marked(picture, r) == (pass == 0)) {
                harness_rank_set_add(&shown, r);
                count++;
            }
        }
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (harness_rank_set_has(&shown, r)) {
            add_rank(picture, r);
        } else {
            waiting += harness_graph_is_waiting(cut, r) ? 1 : 0;
        }
    }
    if (count < cut->world_size) {
        ddp_text_add(picture->out, "... %u more ranks left out, %u of them waiting\n",
                     cut->world_size - count, waiting);
    }
}

/* What a waiting rank waits for; its own operation as it posted it, not as it should have. */
static void add_wanted(const struct picture *picture, uint32_t rank)
{
    const struct ddp_page *page = &picture->view.cut->pages[rank];

    if (page->wait_kind == DDP_WAIT_STORE) {
        ddp_text_add(picture->out, "a key of the store");
    } else if (page->wait_seq == page->seq_posted) {
        harness_op_text_add(picture->view.program, ddp_event_op_unpack(page->posted_op),
                            page->wait_seq, picture->out);
    } else {
        harness_op_text_add_planned(picture->view.program, page->wait_seq, picture->out);
    }
}

static void add_edge(const struct picture *picture, enum edge edge, uint32_t rank, uint32_t other)
{
    if (edge == EDGE_HOST) {
        ddp_text_add(picture->out, "r%u waits for r%u: ", rank, other);
        add_wanted(picture, rank);
    } else {
        ddp_text_add(picture->out, "r%u device waits for r%u device: ", rank, other);
        harness_op_text_add_planned(picture->view.program,
                                    harness_position_of(picture->view.cut, rank).seq, picture->out);
    }
    ddp_text_add(picture->out, "\n");
}

/* Edges to marked ranks first. */
static void add_edges(const struct picture *picture)
{
    const struct harness_cut *cut = picture->view.cut;
    uint64_t count = 0;

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t r = 0; r < cut->world_size; r++) {
            const struct harness_position at = harness_position_of(cut, r);

            for (uint32_t q = 0; q < cut->world_size && harness_rank_set_has(&picture->waiters, r);
                 q++) {
                enum edge edge = edge_of(cut, r, &at, q);

                if (edge != EDGE_NONE && is_marked(picture, q) == (pass == 0) &&
                    ++count <= HARNESS_CUT_PRINT_EDGES_MAX) {
                    add_edge(picture, edge, r, q);
                }
            }
        }
    }
    if (count > HARNESS_CUT_PRINT_EDGES_MAX) {
        ddp_text_add(picture->out, "... %llu more waits left out\n",
                     (unsigned long long)(count - HARNESS_CUT_PRINT_EDGES_MAX));
    }
}

/* Ranks that wait, for their device or for nobody that is known. */
static void add_edgeless(const struct picture *picture)
{
    const struct harness_cut *cut = picture->view.cut;
    uint32_t count = 0;

    for (uint32_t r = 0; r < cut->world_size; r++) {
        const struct harness_position at = harness_position_of(cut, r);

        if (!harness_graph_is_waiting(cut, r) || harness_rank_set_has(&picture->waiters, r) ||
            ++count > HARNESS_CUT_PRINT_EDGES_MAX) {
            continue;
        }
        ddp_text_add(picture->out,
                     harness_position_is_working(&at) ? "r%u waits for its device: "
                                                      : "r%u waits, for whom is not known: ",
                     r);
        add_wanted(picture, r);
        ddp_text_add(picture->out, "\n");
    }
    if (count > HARNESS_CUT_PRINT_EDGES_MAX) {
        ddp_text_add(picture->out, "... %u more waits for nobody known left out\n",
                     count - HARNESS_CUT_PRINT_EDGES_MAX);
    }
}

/* "circle of waits: r0 → r1 → r0" */
static void add_cycle(const struct picture *picture, uint32_t first)
{
    const struct harness_cut *cut = picture->view.cut;
    bool is_inside = true;
    uint32_t count = 0;
    uint32_t at = first;

    do {
        uint32_t next = harness_graph_next(cut, at);

        is_inside = is_inside && harness_graph_is_inside(cut, at, next);
        at = next;
    } while (at != first);
    ddp_text_add(picture->out, "circle of waits%s: r%u",
                 is_inside ? " for messages of one collective" : "", first);
    do {
        at = harness_graph_next(cut, at);
        if (++count < CYCLE_RANKS_MAX || at == first) {
            ddp_text_add(picture->out, " → r%u", at);
        } else if (count == CYCLE_RANKS_MAX) {
            ddp_text_add(picture->out, " → ...");
        }
    } while (at != first);
    ddp_text_add(picture->out, count > CYCLE_RANKS_MAX ? " (%u ranks)\n" : "\n", count);
}

/* Every waiting rank has one next rank, so that walks end, or meet an earlier one, or close. */
static void add_cycles(const struct picture *picture)
{
    const struct harness_cut *cut = picture->view.cut;
    struct harness_rank_set seen = {{0}};

    for (uint32_t start = 0; start < cut->world_size; start++) {
        struct harness_rank_set walk = {{0}};
        uint32_t at = start;

        while (at < cut->world_size && !harness_rank_set_has(&seen, at)) {
            harness_rank_set_add(&seen, at);
            harness_rank_set_add(&walk, at);
            at = harness_graph_next(cut, at);
        }
        if (at < cut->world_size && harness_rank_set_has(&walk, at)) {
            add_cycle(picture, at);
        }
    }
}

void harness_cut_print(const struct harness_plan *plan, const struct harness_program *program,
                       const struct harness_cut *cut, const struct harness_rank_set *culprits,
                       struct ddp_text *out)
{
    struct picture picture = {.view = {plan, program, cut}, .out = out};

    picture.culprits = *culprits;
    find_sinks(&picture);
    add_ranks(&picture);
    add_edges(&picture);
    add_edgeless(&picture);
    add_cycles(&picture);
}
