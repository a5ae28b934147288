/* Purpose: show a set as text: who does what when, and in which tree each element is added.
 * Idea: a message takes one moment, everything else none; a column is a rank, a line a moment. */
#include <stdio.h>
#include <string.h>

#include "harness/coll/coll.h"
#include "harness/coll/timeline.h"
#include "harness/sums/schedule_sums.h"

enum { CELL_BYTES = 160, SPAN_BYTES = 64 };

/* What a rank does at a moment. */
struct cell {
    uint32_t rank;
    size_t moment;
    char text[CELL_BYTES];
};

struct cells {
    struct ddp_mem *mem;
    struct cell *items; /* in the order of time */
    size_t count, capacity;
    size_t moment_count;
    size_t width; /* of the longest text */
};

static void print_span(const struct harness_span *span, char *out, size_t size_bytes)
{
    char name[16];

    if (span->buffer >= 2) {
        (void)snprintf(name, sizeof name, "s%u", span->buffer - 2);
    } else {
        (void)snprintf(name, sizeof name, "%s", span->buffer == 0 ? "in" : "out");
    }
    if (span->elem_count == 1) {
        (void)snprintf(out, size_bytes, "%s[%zu]", name, span->first);
    } else {
        (void)snprintf(out, size_bytes, "%s[%zu..%zu]", name, span->first,
                       span->first + span->elem_count - 1);
    }
}

static void print_step(const struct harness_schedule_step *step, char *out)
{
    char src[SPAN_BYTES] = "";
    char dst[SPAN_BYTES] = "";

    print_span(&step->src, src, sizeof src);
    print_span(&step->dst, dst, sizeof dst);
    switch (step->kind) {
    case HARNESS_STEP_SEND:
        (void)snprintf(out, CELL_BYTES, "%s >%u", src, step->peer);
        break;
    case HARNESS_STEP_RECV:
        (void)snprintf(out, CELL_BYTES, "%s =<%u", dst, step->peer);
        break;
    case HARNESS_STEP_RECV_REDUCE:
        (void)snprintf(out, CELL_BYTES, "%s +<%u", dst, step->peer);
        break;
    case HARNESS_STEP_REDUCE:
        (void)snprintf(out, CELL_BYTES, "%s += %s", dst, src);
        break;
    default:
        (void)snprintf(out, CELL_BYTES, "%s = %s", dst, src);
        break;
    }
}

static ddp_status add_cell(struct cells *cells, const struct harness_schedule_set *set,
                           uint32_t rank, uint32_t step, size_t moment)
{
    struct cell *items =
        ddp_mem_grow(cells->mem, cells->items, cells->count, &cells->capacity, sizeof(*items));
    size_t width;

    if (items == NULL) {
        return DDP_E_NOMEM;
    }
    cells->items = items;
    items[cells->count] = (struct cell){.rank = rank, .moment = moment};
    print_step(&set->member[rank]->steps[step], items[cells->count].text);
    width = strlen(items[cells->count].text);
    cells->width = width > cells->width ? width : cells->width;
    cells->moment_count = moment + 1 > cells->moment_count ? moment + 1 : cells->moment_count;
    cells->count++;
    return DDP_OK;
}

/* The column's next text of the moment, from *at on; "": there is none. */
static const char *next_text(const struct cells *cells, uint32_t rank, size_t moment, size_t *at)
{
    while (*at < cells->count) {
        const struct cell *cell = &cells->items[(*at)++];

        if (cell->rank == rank && cell->moment == moment) {
            return cell->text;
        }
    }
    return "";
}

/* Trailing spaces would be all that some lines end with. */
static void add_padded(struct ddp_text *out, const char *text, size_t width, size_t *owed)
{
    if (text[0] != '\0') {
        ddp_text_add(out, "%*s%s", (int)*owed, "", text);
        *owed = 0;
    }
    *owed += width + 2 - strlen(text);
}

static ddp_status print_moment(const struct cells *cells, uint32_t size, size_t moment,
                               struct ddp_text *out)
{
    size_t *at = ddp_mem_array(cells->mem, size, sizeof(*at));
    bool is_more = at != NULL;
    bool is_first = true;

    while (is_more) {
        size_t owed = 0;
        struct ddp_text line;

        is_more = false;
        ddp_text_init(&line, cells->mem);
        for (uint32_t r = 0; r < size; r++) {
            const char *text = next_text(cells, r, moment, &at[r]);

            is_more = is_more || text[0] != '\0';
            add_padded(&line, text, cells->width, &owed);
        }
        if (is_more && is_first) {
            ddp_text_add(out, "%4zu  %s\n", moment + 1, ddp_text_str(&line));
        } else if (is_more) {
            ddp_text_add(out, "      %s\n", ddp_text_str(&line));
        }
        is_first = false;
        ddp_text_fini(&line);
    }
    ddp_mem_free(cells->mem, at);
    return at == NULL ? DDP_E_NOMEM : DDP_OK;
}

/* The first step of each rank that is not among the events. */
static ddp_status print_stuck(const struct harness_schedule_set *set, struct ddp_mem *mem,
                              struct ddp_text *out)
{
    ddp_text_add(out, "for ever\n");
    for (uint32_t r = 0; r < set->size; r++) {
        size_t step_count = set->member[r]->step_count;
        bool *is_done = ddp_mem_array(mem, step_count, sizeof(*is_done));
        char text[CELL_BYTES];

        if (is_done == NULL) {
            return DDP_E_NOMEM;
        }
        for (size_t e = 0; e < set->event_count; e++) {
            if (set->events[e].rank == r) {
                is_done[set->events[e].step] = true;
            }
            if (set->events[e].from_rank == r) {
                is_done[set->events[e].from_step] = true;
            }
        }
        for (size_t s = 0; s < step_count; s++) {
            if (!is_done[s]) {
                print_step(&set->member[r]->steps[s], text);
                ddp_text_add(out, "      rank %u waits in step %zu: %s\n", r, s, text);
                break;
            }
        }
        ddp_mem_free(mem, is_done);
    }
    return DDP_OK;
}

static ddp_status collect(const struct harness_schedule_set *set,
                          const struct harness_coll_timeline *timeline, struct cells *cells)
{
    for (size_t i = 0; i < set->event_count; i++) {
        size_t e = timeline->order[i];
        const struct harness_schedule_event *event = &set->events[e];
        size_t moment = (size_t)timeline->start[e];

        if (event->from_rank != HARNESS_NO_RANK) {
            DDP_TRY(add_cell(cells, set, event->from_rank, event->from_step, moment));
        }
        DDP_TRY(add_cell(cells, set, event->rank, event->step, moment));
    }
    return DDP_OK;
}

static ddp_status print_cells(const struct harness_schedule_set *set, const struct cells *cells,
                              struct ddp_text *out)
{
    size_t owed = 6;

    for (uint32_t r = 0; r < set->size; r++) {
        char name[24];

        (void)snprintf(name, sizeof name, "rank %u", r);
        add_padded(out, name, cells->width, &owed);
    }
    ddp_text_add(out, "\n");
    for (size_t moment = 0; moment < cells->moment_count; moment++) {
        DDP_TRY(print_moment(cells, set->size, moment, out));
    }
    return DDP_OK;
}

ddp_status harness_coll_draw(const struct harness_schedule_set *set, struct ddp_mem *mem,
                             struct ddp_text *out)
{
    static const struct harness_coll_model model = {1, 0, 0};
    struct cells cells = {.mem = mem, .width = sizeof "rank 0000"};
    struct harness_coll_timeline timeline;
    ddp_status status = harness_coll_timeline_make(set, &model, mem, &timeline);

    if (status == DDP_OK) {
        status = collect(set, &timeline, &cells);
    }
    if (status == DDP_OK) {
        status = print_cells(set, &cells, out);
    }
    if (status == DDP_OK && set->is_stuck) {
        status = print_stuck(set, mem, out);
    }
    ddp_mem_free(mem, cells.items);
    harness_coll_timeline_fini(&timeline);
    return status;
}

/* --- sums ------------------------------------------------------------------------------------- */

/* A line for each run of elements that are added in the same tree. */
static ddp_status print_sums(const struct harness_schedule_sums *sums, uint32_t rank,
                             size_t elem_count, bool is_named, struct ddp_text *out)
{
    for (size_t first = 0; first < elem_count;) {
        uint32_t node = harness_schedule_sums_at(sums, rank, first);
        size_t end = first + 1;

        while (end < elem_count && harness_schedule_sums_at(sums, rank, end) == node) {
            end++;
        }
        if (is_named) {
            ddp_text_add(out, "rank %u ", rank);
        }
        ddp_text_add(out, end - first == 1 ? "out[%zu] = " : "out[%zu..%zu] = ", first, end - 1);
        DDP_TRY(harness_schedule_sums_print(sums, node, out));
        ddp_text_add(out, "\n");
        first = end;
    }
    return DDP_OK;
}

ddp_status harness_coll_draw_sums(const struct harness_schedule_set *set, struct ddp_mem *mem,
                                  struct ddp_text *out)
{
    struct harness_schedule_sums sums;
    bool is_for_all = set->any->kind == DDP_COLL_ALL_REDUCE; /* all ranks have the same sums */
    ddp_status status = harness_schedule_sums_make(set, mem, &sums);

    for (uint32_t r = 0; status == DDP_OK && r < (is_for_all ? 1 : set->size); r++) {
        status = print_sums(&sums, r, harness_schedule_output(set->member[r]).elem_count,
                            !is_for_all, out);
    }
    harness_schedule_sums_fini(&sums, set);
    return status;
}
