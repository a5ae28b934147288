/* The table of ranks that `explain` prints. */
#include "harness/cell/rank_table.h"

#include <inttypes.h>
#include <string.h>

enum { ALONE_MAX = 8 }; /* up to so many ranks each has a line of its own */

void harness_rank_view_init(struct harness_rank_view *view, const struct harness_trace *trace,
                            uint32_t rank, uint64_t moment_ns)
{
    const struct harness_rank_end *end = &trace->ends[rank];

    memset(view, 0, sizeof *view);
    view->is_gone = end->how != HARNESS_END_REAPED && end->time_ns <= moment_ns;
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        uint64_t seq = event->entry.arg[0];

        if (event->rank != rank || event->entry.time_ns > moment_ns ||
            event->entry.event == DDP_EVENT_DATA_SAMPLE) {
            continue;
        }
        view->last[view->event_count++ % HARNESS_VIEW_EVENTS] = event;
        if (event->entry.event == DDP_EVENT_COLL_POST && seq > view->posted_seq) {
            view->posted_seq = seq;
        } else if (event->entry.event == DDP_EVENT_COLL_DONE && seq > view->done_seq) {
            view->done_seq = seq;
        }
    }
}

static bool is_listed(const json_t *verdict, const char *key, uint32_t rank)
{
    const json_t *item;
    size_t i;

    json_array_foreach(json_object_get(verdict, key), i, item)
    {
        if (json_integer_value(item) == (json_int_t)rank) {
            return true;
        }
    }
    return false;
}

static void add_state(const struct harness_rank_end *end, bool is_gone, struct ddp_text *out)
{
    if (!is_gone) {
        ddp_text_add(out, "%s", end->is_stopped ? "stopped" : "alive");
        return;
    }
    switch (end->how) {
    case HARNESS_END_EXITED:
        ddp_text_add(out, "exited, %d", end->code);
        break;
    case HARNESS_END_SIGNALED:
        ddp_text_add(out, "signal %d", end->code);
        break;
    default:
        ddp_text_add(out, "not started");
        break;
    }
}

/* "all_reduce bucket 1, seq 7" */
static void add_post(const struct harness_trace *trace, uint32_t rank, uint64_t seq,
                     struct ddp_text *out)
{
    const struct harness_trace_event *event;
    size_t cursor = 0;

    while ((event = harness_trace_next(trace, &cursor, rank, DDP_EVENT_COLL_POST)) != NULL) {
        struct ddp_event_op op = ddp_event_op_unpack(event->entry.arg[1]);

        if (event->entry.arg[0] == seq) {
            ddp_text_add(out, "%s %s %" PRIu32 ", seq %" PRIu64, ddp_coll_kind_name(op.kind),
                         ddp_coll_role_name(op.role), op.index, seq);
            return;
        }
    }
    ddp_text_add(out, "-");
}

/* Who has not posted all that the rank has open, or died before completing it. */
static void add_needed(const struct harness_trace *trace, const struct harness_rank_view *views,
                       uint32_t rank, struct ddp_text *out)
{
    const struct harness_rank_view *view = &views[rank];
    bool is_open = !view->is_gone && view->posted_seq > view->done_seq;
    uint32_t count = 0;

    for (uint32_t other = 0; is_open && other < trace->world_size; other++) {
        const struct harness_rank_view *peer = &views[other];
        bool is_missing = peer->posted_seq < view->posted_seq ||
                          (peer->is_gone && peer->done_seq < view->posted_seq);

        if (other == rank || !is_missing) {
            continue;
        }
        if (count < HARNESS_NAMED_MAX) {
            ddp_text_add(out, "%s%" PRIu32, count > 0 ? "," : "", other);
        }
        count++;
    }
    if (count > HARNESS_NAMED_MAX) {
        ddp_text_add(out, " and %" PRIu32 " more", count - HARNESS_NAMED_MAX);
    }
    if (count == 0) {
        ddp_text_add(out, "-");
    }
}

/* A column's text, filled up with blanks. */
static void pad(struct ddp_text *out, size_t start, size_t width)
{
    while (out->size_bytes - start < width) {
        ddp_text_add(out, " ");
    }
    ddp_text_add(out, "  ");
}

/* Everything of a rank's line but its number. */
static void add_row(const struct harness_trace *trace, const struct harness_rank_view *views,
                    uint32_t rank, const json_t *verdict, struct ddp_text *out)
{
    const struct harness_rank_view *view = &views[rank];
    const struct harness_trace_event *latest =
        view->event_count > 0 ? view->last[(view->event_count - 1) % HARNESS_VIEW_EVENTS] : NULL;
    size_t start = 0;

    ddp_text_add(out, "%s",
                 is_listed(verdict, "culprit", rank)   ? "culprit"
                 : is_listed(verdict, "victims", rank) ? "victim"
                                                       : "-");
    pad(out, start, 7);
    start = out->size_bytes;
    add_state(&trace->ends[rank], view->is_gone, out);
    pad(out, start, 11);
    start = out->size_bytes;
    if (latest != NULL) {
        ddp_text_add(out, "%" PRIu32 " %s", latest->entry.step,
                     ddp_phase_name((enum ddp_phase)latest->entry.phase));
    } else {
        ddp_text_add(out, "-");
    }
    pad(out, start, 14);
    start = out->size_bytes;
    add_post(trace, rank, view->posted_seq, out);
    pad(out, start, 28);
    ddp_text_add(out, "%5" PRIu64 "  ", view->done_seq);
    add_needed(trace, views, rank, out);
}

/* "0-2,5" of the ranks whose line is that of `first`. */
static void add_group(const struct ddp_text *rows, uint32_t world_size, uint32_t first,
                      struct ddp_text *out)
{
    const char *line = ddp_text_str(&rows[first]);
    bool is_begun = false;

    for (uint32_t rank = first; rank < world_size; rank++) {
        uint32_t last = rank;

        if (strcmp(ddp_text_str(&rows[rank]), line) != 0) {
            continue;
        }
        while (last + 1 < world_size && strcmp(ddp_text_str(&rows[last + 1]), line) == 0) {
            last++;
        }
        ddp_text_add(out, last > rank ? "%s%" PRIu32 "-%" PRIu32 : "%s%" PRIu32,
                     is_begun ? "," : "", rank, last);
        is_begun = true;
        rank = last;
    }
}

static bool is_first_of_group(const struct ddp_text *rows, uint32_t rank)
{
    for (uint32_t other = 0; other < rank; other++) {
        if (strcmp(ddp_text_str(&rows[other]), ddp_text_str(&rows[rank])) == 0) {
            return false;
        }
    }
    return true;
}

static void print_rows(const struct ddp_text *rows, uint32_t world_size, struct ddp_text *out)
{
    ddp_text_add(out,
                 "    rank      part     state        step, phase     last posted              "
                 "      done  waits for\n");
    for (uint32_t rank = 0; rank < world_size; rank++) {
        struct ddp_text numbers;

        if (world_size > ALONE_MAX && !is_first_of_group(rows, rank)) {
            continue;
        }
        ddp_text_init(&numbers, out->mem);
        if (world_size > ALONE_MAX) {
            add_group(rows, world_size, rank, &numbers);
        } else {
            ddp_text_add(&numbers, "%" PRIu32, rank);
        }
        ddp_text_add(out, "    %-8s  %s\n", ddp_text_str(&numbers), ddp_text_str(&rows[rank]));
        ddp_text_fini(&numbers);
    }
}

ddp_status harness_rank_table_print(const struct harness_trace *trace,
                                    const struct harness_rank_view *views, const json_t *verdict,
                                    struct ddp_mem *mem, struct ddp_text *out)
{
    struct ddp_text *rows = ddp_mem_array(mem, trace->world_size, sizeof *rows);

    if (rows == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        ddp_text_init(&rows[rank], mem);
        add_row(trace, views, rank, verdict, &rows[rank]);
    }
    print_rows(rows, trace->world_size, out);
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        ddp_text_fini(&rows[rank]);
    }
    ddp_mem_free(mem, rows);
    return DDP_OK;
}
