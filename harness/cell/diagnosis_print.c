/* What a recorded run looked like at the time of its first diagnosis, for people: a table of its
 * ranks; on request faults that fired, what the monitor saw (graph.txt), the last events before it.
 */
#include <inttypes.h>
#include <string.h>

#include "harness/cell/rank_table.h"
#include "harness/cell/stage.h"

enum { TIMELINE_LINES_MAX = 64 };

static void add_fired(const struct harness_trace *trace, struct ddp_text *out)
{
    const struct harness_trace_event *event;
    size_t cursor = 0;
    unsigned count = 0;

    while ((event = harness_trace_next(trace, &cursor, -1, DDP_EVENT_FAULT_FIRED)) != NULL) {
        ddp_text_add(out, "%s        ", count++ == 0 ? "    faults that fired:\n" : "");
        harness_trace_print_event(event, out);
    }
    if (count == 0) {
        ddp_text_add(out, "    no fault fired\n");
    }
}

static double after_start_ms(const struct harness_trace *trace, uint64_t time_ns)
{
    return ((double)time_ns - (double)trace->start_ns) / 1e6;
}

static void add_graph(const char *graph, struct ddp_text *out)
{
    ddp_text_add(out, "    what the monitor saw:\n");
    for (const char *line = graph; *line != '\0';) {
        size_t size = strcspn(line, "\n");

        ddp_text_add(out, "        ");
        ddp_text_add_bytes(out, line, size);
        ddp_text_add(out, "\n");
        line += size + (line[size] == '\n' ? 1 : 0);
    }
}

static bool is_among_last(const struct harness_rank_view *view,
                          const struct harness_trace_event *event)
{
    for (size_t i = 0; i < HARNESS_VIEW_EVENTS; i++) {
        if (view->last[i] == event) {
            return true;
        }
    }
    return false;
}

/* The last events of all ranks, in order of time. */
static void add_timeline(const struct harness_trace *trace, const struct harness_rank_view *views,
                         uint64_t moment_ns, struct ddp_text *out)
{
    size_t count = 0;
    size_t at = 0;

    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        count += views[rank].event_count < HARNESS_VIEW_EVENTS ? views[rank].event_count
                                                               : HARNESS_VIEW_EVENTS;
    }
    ddp_text_add(out, "    the last events of each rank before %.3f ms:\n",
                 after_start_ms(trace, moment_ns));
    if (count > TIMELINE_LINES_MAX) {
        ddp_text_add(out, "        ... %zu earlier ones left out\n", count - TIMELINE_LINES_MAX);
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];

        if (is_among_last(&views[event->rank], event) && at++ + TIMELINE_LINES_MAX >= count) {
            ddp_text_add(out, "        %10.3f ms ", after_start_ms(trace, event->entry.time_ns));
            harness_trace_print_event(event, out);
        }
    }
}

/* graph: NULL if there is none. */
static ddp_status print_trace(struct harness_cell *cell, const char *graph,
                              const struct harness_diagnosis_options *options, struct ddp_text *out)
{
    const struct harness_trace *trace = &cell->trace;
    struct harness_rank_view *views = ddp_mem_array(cell->mem, trace->world_size, sizeof *views);
    bool is_diagnosed = trace->diagnoses.count > 0;
    uint64_t moment_ns = is_diagnosed ? trace->diagnosis_time_ns[0] : UINT64_MAX;

    if (views == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        harness_rank_view_init(&views[rank], trace, rank, moment_ns);
    }
    if (is_diagnosed) {
        ddp_text_add(out, "\n    the ranks at the first diagnosis, %.3f ms after the start:\n",
                     after_start_ms(trace, moment_ns));
    } else {
        ddp_text_add(out, "\n    the ranks at their end (the monitor reported nothing; what was "
                          "found comes from the trace):\n");
    }
    DDP_TRY(harness_rank_table_print(trace, views, options->verdict, cell->mem, out));
    if (!options->has_events) {
        return DDP_OK;
    }
    add_fired(trace, out);
    if (is_diagnosed && graph != NULL) {
        add_graph(graph, out);
    }
    add_timeline(trace, views, is_diagnosed ? moment_ns : trace->end_ns, out);
    return DDP_OK;
}

ddp_status harness_cell_print_diagnosis(const char *run_dir,
                                        const struct harness_diagnosis_options *options,
                                        struct ddp_text *out, struct ddp_err *err)
{
    struct harness_cell cell;
    void *graph = NULL;
    void *text = NULL;
    size_t size_bytes;
    ddp_status status;

    memset(&cell, 0, sizeof cell);
    DDP_TRY(ddp_mem_pool_create(&cell.pool));
    cell.mem = ddp_mem_pool_mem(cell.pool);
    status = harness_stage_read(&cell, run_dir, "trace.txt", &text, &size_bytes, err);
    if (status == DDP_OK && harness_stage_is_guest_record(text)) {
        status = harness_stage_print_guest(&cell, run_dir, text, size_bytes, options, out, err);
        goto out;
    }
    if (status == DDP_OK) {
        status = harness_trace_parse(cell.mem, text, &cell.trace, err);
        status = status == DDP_OK ? status : ddp_err_wrap(err, status, "%s/trace.txt", run_dir);
    }
    if (status == DDP_OK) {
        status = harness_stage_read(&cell, run_dir, "graph.txt", &graph, &size_bytes, err);
        status = status == DDP_E_NOT_FOUND ? DDP_OK : status;
    }
    status = status == DDP_OK ? print_trace(&cell, graph, options, out) : status;
out:
    ddp_mem_pool_destroy(cell.pool);
    return status;
}
