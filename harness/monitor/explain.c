/* The wait-for graph in words, one line a rank or an edge; for people, not for the judge. */
#include "harness/monitor/graph.h"
#include "harness/monitor/position.h"

static void add_process(const struct harness_cut *cut, uint32_t rank, struct ddp_text *out)
{
    static const char *const names[] = {"not started", "running", "stopped", "exited with code",
                                        "ended by signal"};
    const struct harness_process *process = &cut->processes[rank];

    ddp_text_add(out, "r%u %s", rank, names[process->state]);
    if (harness_graph_is_gone(cut, rank)) {
        ddp_text_add(out, " %d", process->code);
    }
    if (!cut->is_page_valid[rank]) {
        ddp_text_add(out, ", has shown nothing yet\n");
        return;
    }
    ddp_text_add(out, ", step %llu, %s, posted seq %llu, done seq %llu",
                 (unsigned long long)cut->pages[rank].step,
                 ddp_phase_name(harness_graph_phase(cut, rank)),
                 (unsigned long long)cut->pages[rank].seq_posted,
                 (unsigned long long)cut->pages[rank].seq_done);
    if (cut->pages[rank].end_status != 0) {
        ddp_status status = (ddp_status)(int32_t)(uint32_t)(cut->pages[rank].end_status - 1);

        ddp_text_add(out, ", ended with %s", ddp_status_name(status));
    }
    if (cut->pages[rank].revoke_rank != 0) {
        ddp_text_add(out, ", saw rank %llu revoke the group",
                     (unsigned long long)(cut->pages[rank].revoke_rank - 1));
    }
    ddp_text_add(out, "\n");
}

static void add_device(const struct harness_program *program, const struct harness_cut *cut,
                       uint32_t rank, struct ddp_text *out)
{
    const struct harness_position position = harness_position_of(cut, rank);

    if (position.is_known) {
        ddp_text_add(out, "r%u device: ", rank);
        harness_position_say(program, &position, out);
        ddp_text_add(out, "\n");
    }
}

static void add_wanted(const struct harness_program *program, const struct ddp_page *page,
                       struct ddp_text *out)
{
    const struct harness_op *op = harness_program_at(program, page->wait_seq);
    const struct harness_bucket *bucket;

    if (page->wait_kind == DDP_WAIT_STORE) {
        ddp_text_add(out, "a key of the store");
        return;
    }
    if (op == NULL) {
        ddp_text_add(out, "seq %llu, which is not planned", (unsigned long long)page->wait_seq);
        return;
    }
    ddp_text_add(out, "%s seq %llu %s", ddp_coll_kind_name(op->kind), (unsigned long long)op->seq,
                 ddp_coll_role_name(op->role));
    if (op->role != DDP_ROLE_BUCKET) {
        return;
    }
    ddp_text_add(out, " %u", op->index);
    bucket = op->index < program->bucket_count ? &program->buckets[op->index] : NULL;
    for (uint32_t i = 0; bucket != NULL && i < bucket->param_count; i++) {
        ddp_text_add(out, "%s%s", i == 0 ? ": " : ", ", program->params[bucket->params[i]].name);
    }
}

void harness_monitor_explain(const struct harness_plan *plan, const struct harness_program *program,
                             const struct harness_cut *cut, struct ddp_text *out)
{
    for (uint32_t r = 0; r < cut->world_size; r++) {
        add_process(cut, r, out);
        add_device(program, cut, r, out);
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        bool has_edge = false;

        for (uint32_t q = 0; q < cut->world_size; q++) {
            if (!harness_graph_has_edge(cut, r, q)) {
                continue;
            }
            has_edge = true;
            ddp_text_add(out, "r%u waits for r%u: ", r, q);
            add_wanted(program, &cut->pages[r], out);
            ddp_text_add(out, "\n");
        }
        if (!has_edge && harness_graph_is_waiting(cut, r)) {
            ddp_text_add(out, "r%u waits: ", r);
            add_wanted(program, &cut->pages[r], out);
            ddp_text_add(out, "\n");
        }
        if (harness_graph_is_live(cut, r) && !harness_graph_is_waiting(cut, r)) {
            ddp_text_add(
                out, "r%u is in host code for %llu ms (budget %llu ms)\n", r,
                (unsigned long long)(harness_graph_age_ns(cut, harness_monitor_alive_ns(cut, r)) /
                                     1000000u),
                (unsigned long long)(harness_graph_budget_ns(plan, harness_graph_phase(cut, r)) /
                                     1000000u));
        }
    }
}
