/* What a recorded run looked like at the time of its first diagnosis, for people: faults that
 * fired, what the monitor saw (graph.txt), the last events before it. If there is no graph.txt,
 * what follows from the trace: where each rank was, and which ranks its oldest open operation still
 * needed. */
#include <inttypes.h>
#include <string.h>

#include "harness/cell/stage.h"

enum { LAST_EVENTS = 4, TIMELINE_LINES_MAX = 64 };

/* One rank up to the moment. */
struct view {
    const struct harness_trace_event *last[LAST_EVENTS]; /* a ring of the latest */
    size_t event_count;
    uint64_t posted_seq, done_seq; /* highest */
    bool is_gone;
};

static bool is_sample(const struct harness_trace_event *event)
{
    return event->entry.event == DDP_EVENT_DATA_SAMPLE;
}

static void view_rank(const struct harness_trace *trace, uint32_t rank, uint64_t moment_ns,
                      struct view *out)
{
    const struct harness_rank_end *end = &trace->ends[rank];

    memset(out, 0, sizeof *out);
    out->is_gone = end->how != HARNESS_END_REAPED && end->time_ns <= moment_ns;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        uint64_t seq = event->entry.arg[0];

        if (event->rank != rank || event->entry.time_ns > moment_ns || is_sample(event)) {
            continue;
        }
        out->last[out->event_count++ % LAST_EVENTS] = event;
        if (event->entry.event == DDP_EVENT_COLL_POST && seq > out->posted_seq) {
            out->posted_seq = seq;
        } else if (event->entry.event == DDP_EVENT_COLL_DONE && seq > out->done_seq) {
            out->done_seq = seq;
        }
    }
}

static const struct harness_trace_event *find_post(const struct harness_trace *trace, uint32_t rank,
                                                   uint64_t seq)
{
    const struct harness_trace_event *event;
    size_t cursor = 0;

    while ((event = harness_trace_next(trace, &cursor, rank, DDP_EVENT_COLL_POST)) != NULL) {
        if (event->entry.arg[0] == seq) {
            return event;
        }
    }
    return NULL;
}

/* ", has all_reduce bucket 1 (seq 7) open, which needs r2, r3" */
static void add_open(const struct harness_trace *trace, const struct view *views, uint32_t rank,
                     struct ddp_text *out)
{
    uint64_t seq = views[rank].done_seq + 1;
    const struct harness_trace_event *post = find_post(trace, rank, seq);
    const char *separator = ", which needs ";
    struct ddp_event_op op;

    if (views[rank].posted_seq < seq || post == NULL) {
        ddp_text_add(out, ", has no operation open");
        return;
    }
    op = ddp_event_op_unpack(post->entry.arg[1]);
    ddp_text_add(out, ", has %s %s %" PRIu32 " (seq %" PRIu64 ") open", ddp_coll_kind_name(op.kind),
                 ddp_coll_role_name(op.role), op.index, seq);
    for (uint32_t other = 0; other < trace->world_size; other++) {
        bool is_missing =
            views[other].posted_seq < seq || (views[other].is_gone && views[other].done_seq < seq);

        if (other != rank && is_missing) {
            ddp_text_add(out, "%sr%" PRIu32, separator, other);
            separator = ", ";
        }
    }
}

static void add_rank(const struct harness_trace *trace, const struct view *views, uint32_t rank,
                     uint64_t moment_ns, struct ddp_text *out)
{
    static const char *const ends[] = {"never started", "exited with code", "ended by signal", ""};
    const struct view *view = &views[rank];
    size_t first = view->event_count > LAST_EVENTS ? view->event_count - LAST_EVENTS : 0;
    const struct harness_trace_event *latest =
        view->event_count > 0 ? view->last[(view->event_count - 1) % LAST_EVENTS] : NULL;

    ddp_text_add(out, "    r%" PRIu32, rank);
    if (view->is_gone) {
        ddp_text_add(out, " %s", ends[trace->ends[rank].how]);
        if (trace->ends[rank].how != HARNESS_END_NONE) {
            ddp_text_add(out, " %d", trace->ends[rank].code);
        }
    } else if (trace->ends[rank].is_stopped) {
        ddp_text_add(out, " stopped");
    } else {
        ddp_text_add(out, " alive");
    }
    if (latest == NULL) {
        ddp_text_add(out, ", has recorded nothing\n");
        return;
    }
    ddp_text_add(out, ", step %" PRIu32 " %s, last seen %.3f ms before, posted seq %" PRIu64,
                 latest->entry.step, ddp_phase_name((enum ddp_phase)latest->entry.phase),
                 (double)(moment_ns - latest->entry.time_ns) / 1e6, view->posted_seq);
    if (!view->is_gone) {
        add_open(trace, views, rank, out);
    }
    ddp_text_add(out, "\n");
    for (size_t i = first; i < view->event_count; i++) {
        ddp_text_add(out, "        ");
        harness_trace_print_event(view->last[i % LAST_EVENTS], out);
    }
}

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

/* The ranks at the first diagnosis, from the trace. */
static void add_ranks(const struct harness_trace *trace, const struct view *views,
                      uint64_t moment_ns, struct ddp_text *out)
{
    ddp_text_add(out, "    at the first diagnosis, %.3f ms after the start:\n",
                 after_start_ms(trace, moment_ns));
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        add_rank(trace, views, rank, moment_ns, out);
    }
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

static bool is_among_last(const struct view *view, const struct harness_trace_event *event)
{
    for (size_t i = 0; i < LAST_EVENTS; i++) {
        if (view->last[i] == event) {
            return true;
        }
    }
    return false;
}

/* The last events of all ranks, in order of time. */
static void add_timeline(const struct harness_trace *trace, const struct view *views,
                         uint64_t moment_ns, struct ddp_text *out)
{
    size_t count = 0;
    size_t at = 0;

    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        count += views[rank].event_count < LAST_EVENTS ? views[rank].event_count : LAST_EVENTS;
    }
    ddp_text_add(out, "    the last events of each rank before %.3f ms, the first diagnosis:\n",
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
static ddp_status print_trace(struct harness_cell *cell, const char *graph, struct ddp_text *out)
{
    const struct harness_trace *trace = &cell->trace;
    struct view *views = ddp_mem_array(cell->mem, trace->world_size, sizeof *views);
    uint64_t moment_ns;

    if (views == NULL) {
        return DDP_E_NOMEM;
    }
    add_fired(trace, out);
    if (trace->diagnoses.count == 0) {
        ddp_text_add(out, "    the monitor reported nothing; the findings come from the trace\n");
        return DDP_OK;
    }
    moment_ns = trace->diagnosis_time_ns[0];
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        view_rank(trace, rank, moment_ns, &views[rank]);
    }
    if (graph == NULL) {
        add_ranks(trace, views, moment_ns, out);
        return DDP_OK;
    }
    add_graph(graph, out);
    add_timeline(trace, views, moment_ns, out);
    return DDP_OK;
}

ddp_status harness_cell_print_diagnosis(const char *run_dir, struct ddp_text *out,
                                        struct ddp_err *err)
{
    struct harness_cell cell;
    void *graph = NULL;
    void *text = NULL;
    size_t size_bytes;
    ddp_status status;

    memset(&cell, 0, sizeof cell);
    DDP_TRY(ddp_mem_pool_create(&cell.pool));
    cell.mem = ddp_mem_pool_mem(cell.pool);
    status = harness_stage_read(cell.mem, run_dir, "trace.txt", &text, &size_bytes, err);
    if (status == DDP_OK) {
        status = harness_trace_parse(cell.mem, text, &cell.trace, err);
        status = status == DDP_OK ? status : ddp_err_wrap(err, status, "%s/trace.txt", run_dir);
    }
    if (status == DDP_OK) {
        status = harness_stage_read(cell.mem, run_dir, "graph.txt", &graph, &size_bytes, err);
        status = status == DDP_E_NOT_FOUND ? DDP_OK : status;
    }
    status = status == DDP_OK ? print_trace(&cell, graph, out) : status;
    ddp_mem_pool_destroy(cell.pool);
    return status;
}
