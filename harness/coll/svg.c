/* Purpose: the same picture as an SVG file: a line down for each rank, an arrow for each message,
 * and for each rank that waits for ever a mark where. */
#include <string.h>

#include "harness/coll/coll.h"
#include "harness/coll/timeline.h"

enum { LEFT = 60, TOP = 40, COLUMN = 180, ROW = 56 };

static double column(uint32_t rank)
{
    return LEFT + (double)rank * COLUMN;
}

static double row(double moment)
{
    return TOP + moment * ROW;
}

static void add_head(const struct harness_schedule_set *set, double total, struct ddp_text *out)
{
    double width = column(set->size - 1) + LEFT;
    double height = row(total) + TOP;

    ddp_text_add(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
                 "font-family=\"monospace\" font-size=\"12\">\n"
                 "<title>%s, %u ranks, %zu elements</title>\n"
                 "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" "
                 "markerWidth=\"8\" markerHeight=\"8\" orient=\"auto\">"
                 "<path d=\"M0 0L8 4L0 8z\"/></marker></defs>\n",
                 width, height, set->any->algorithm, set->size, set->any->elem_count);
    for (uint32_t r = 0; r < set->size; r++) {
        ddp_text_add(out,
                     "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">rank %u</text>\n"
                     "<line x1=\"%.0f\" y1=\"%d\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"#999\"/>\n",
                     column(r), TOP / 2, r, column(r), TOP, column(r), row(total));
    }
}

/* The label stands near the receiver, where lines of one sender have parted. */
static void add_arrow(const struct harness_schedule_set *set,
                      const struct harness_schedule_event *event, double start, double end,
                      struct ddp_text *out)
{
    const struct harness_schedule_step *step = &set->member[event->rank]->steps[event->step];
    bool is_sum = step->kind == HARNESS_STEP_RECV_REDUCE;
    double from = column(event->from_rank);
    double to = column(event->rank);

    ddp_text_add(out,
                 "<line x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\" stroke=\"%s\" "
                 "marker-end=\"url(#head)\"/>\n",
                 from, row(start), to, row(end), is_sum ? "#b30" : "#036");
    ddp_text_add(
        out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\" fill=\"%s\">%s%zu+%zu</text>\n",
        to + (to > from ? -8 : 8), row(end) - 6 - (to > from ? 12 : 0), to > from ? "end" : "start",
        is_sum ? "#b30" : "#036", is_sum ? "add " : "", step->dst.first, step->dst.elem_count);
}

static void add_stuck(const struct harness_schedule_set *set, double total, struct ddp_text *out)
{
    if (set->is_stuck) {
        ddp_text_add(out,
                     "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\" fill=\"#b30\">step %u "
                     "waits for ever</text>\n",
                     column(set->stuck_rank), row(total) + TOP / 2.0, set->stuck_step);
    }
}

ddp_status harness_coll_draw_svg(const struct harness_schedule_set *set, struct ddp_mem *mem,
                                 struct ddp_text *out)
{
    static const struct harness_coll_model model = {1, 0, 0};
    struct harness_coll_timeline timeline;
    ddp_status status = harness_coll_timeline_make(set, &model, mem, &timeline);

    if (status == DDP_OK) {
        add_head(set, timeline.total, out);
        for (size_t i = 0; i < set->event_count; i++) {
            size_t e = timeline.order[i];

            if (set->events[e].from_rank != HARNESS_NO_RANK) {
                add_arrow(set, &set->events[e], timeline.start[e], timeline.end[e], out);
            }
        }
        add_stuck(set, timeline.total, out);
        ddp_text_add(out, "</svg>\n");
    }
    harness_coll_timeline_fini(&timeline);
    return status == DDP_OK && out->is_failed ? DDP_E_NOMEM : status;
}
