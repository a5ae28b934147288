/* Without luck: every edge that orders device work in recorded runs is left out, one at a time, and
 * the happens-before checker must miss it exactly if some two uses of memory lose their order. That
 * is decided anew here, by walking sets of accesses along streams and events and comparing each
 * access with every earlier one.
 *
 * Which edges a run needs depends on what was recorded, so a use that nobody records would make an
 * edge look redundant. Against that, each collective with a result is robbed of its end, and of all
 * later ones, which could stand in for it on the same stream: some use must miss it.
 *
 * Usage: order_edges FOLDER: judges every trace.txt below it. */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/seam/access.h"
#include "harness/order/order.h"

enum { STREAMS_MAX = 16, PATHS_MAX = 64, PATH_BYTES = 512, MISMATCHES_SHOWN = 8 };

/* A set of accesses, a bit each. */
struct set {
    uint64_t *words;
};

struct use {
    uint64_t allocation, first, end;
    bool is_write;
    size_t previous; /* of the same allocation, + 1; or 0 */
};

/* One rank's acts. */
struct history {
    const struct harness_trace_event **acts;
    size_t count, words;
    bool is_ended_ok;
    uint64_t event_count, seq_count, allocation_count; /* one more than the largest of each */
};

/* What is known while the acts are walked. */
struct walk {
    const struct history *history;
    struct set stream[STREAMS_MAX]; /* before the stream's next work */
    struct set relied, seen;        /* by the host */
    struct set before, *event, *ended;
    uint64_t *behind; /* [event] the collective that its last record stands behind */
    uint64_t last_event;
    struct use *uses;
    size_t use_count;
    size_t *last_use; /* [allocation] as previous */
};

struct totals {
    size_t traces, edges, needed, redundant, wrong;
    size_t needed_of[DDP_EVENT_COUNT];
    size_t ends, unused_ends;
};

static char paths[PATHS_MAX][PATH_BYTES];
static size_t path_count;

static void require(bool condition, const char *what)
{
    if (!condition) {
        (void)fprintf(stderr, "order_edges: %s\n", what);
        exit(2);
    }
}

static void *allocate(size_t count, size_t size_bytes)
{
    void *data = calloc(count + 1, size_bytes);

    require(data != NULL, "no memory");
    return data;
}

/* --- sets ------------------------------------------------------------------------------------- */

static struct set set_create(size_t words)
{
    return (struct set){allocate(words, sizeof(uint64_t))};
}

static void set_add_all(struct set *into, const struct set *from, size_t words)
{
    for (size_t w = 0; w < words; w++) {
        into->words[w] |= from->words[w];
    }
}

static void set_add(struct set *set, size_t item)
{
    set->words[item / 64] |= UINT64_C(1) << (item % 64);
}

static bool set_has(const struct set *set, size_t item)
{
    return (set->words[item / 64] >> (item % 64) & 1u) != 0;
}

/* --- the decision ----------------------------------------------------------------------------- */

static void walk_open(struct walk *walk, const struct history *history)
{
    *walk = (struct walk){.history = history};
    for (size_t s = 0; s < STREAMS_MAX; s++) {
        walk->stream[s] = set_create(history->words);
    }
    walk->relied = set_create(history->words);
    walk->seen = set_create(history->words);
    walk->before = set_create(history->words);
    walk->event = allocate(history->event_count, sizeof(struct set));
    walk->ended = allocate(history->seq_count, sizeof(struct set));
    walk->behind = allocate(history->event_count, sizeof(uint64_t));
    walk->uses = allocate(history->count, sizeof(struct use));
    walk->last_use = allocate(history->allocation_count, sizeof(size_t));
    for (uint64_t e = 0; e < history->event_count; e++) {
        walk->event[e] = set_create(history->words);
    }
    for (uint64_t s = 0; s < history->seq_count; s++) {
        walk->ended[s] = set_create(history->words);
    }
}

static void walk_close(struct walk *walk)
{
    for (size_t s = 0; s < STREAMS_MAX; s++) {
        free(walk->stream[s].words);
    }
    for (uint64_t e = 0; e < walk->history->event_count; e++) {
        free(walk->event[e].words);
    }
    for (uint64_t s = 0; s < walk->history->seq_count; s++) {
        free(walk->ended[s].words);
    }
    free(walk->relied.words);
    free(walk->seen.words);
    free(walk->before.words);
    free(walk->event);
    free(walk->ended);
    free(walk->behind);
    free(walk->uses);
    free(walk->last_use);
}

/* Whether an earlier use of the same bytes is not among those before this one. */
static bool is_disorder(const struct walk *walk, const struct use *use)
{
    for (size_t i = walk->last_use[use->allocation]; i > 0; i = walk->uses[i - 1].previous) {
        const struct use *early = &walk->uses[i - 1];

        if (early->first < use->end && use->first < early->end &&
            (early->is_write || use->is_write) && !set_has(&walk->before, i - 1)) {
            return true;
        }
    }
    return false;
}

/* access: DDP_ACCESS_COUNT if the memory is freed. */
static bool use_memory(struct walk *walk, const struct use *use, uint64_t stream, unsigned access)
{
    const size_t words = walk->history->words;
    const bool is_host = access == DDP_ACCESS_HOST_READ || access == DDP_ACCESS_HOST_WRITE;
    const bool is_diagnostic = access == DDP_ACCESS_DIAGNOSTIC_READ;
    struct set *own = is_host ? &walk->relied : &walk->stream[stream];

    set_add_all(own, &walk->relied, words);
    memset(walk->before.words, 0, words * sizeof(uint64_t));
    set_add_all(&walk->before, own, words);
    if (is_diagnostic || access == DDP_ACCESS_COUNT) {
        set_add_all(&walk->before, &walk->seen, words);
    }
    if (is_disorder(walk, use)) {
        return false;
    }
    if (!is_diagnostic) {
        set_add(own, walk->use_count);
        walk->uses[walk->use_count] = *use;
        walk->uses[walk->use_count++].previous = walk->last_use[use->allocation];
        walk->last_use[use->allocation] = walk->use_count;
    }
    return true;
}

static void see(struct walk *walk, uint64_t event)
{
    const size_t words = walk->history->words;
    const uint64_t seq = walk->behind[event];

    set_add_all(&walk->seen, &walk->event[event], words);
    set_add_all(seq != 0 ? &walk->ended[seq] : &walk->relied, &walk->event[event], words);
}

/* False: a use of memory that nothing orders. */
static bool act_on(struct walk *walk, const struct ddp_event_entry *entry)
{
    const size_t words = walk->history->words;
    const uint64_t *arg = entry->arg;

    switch (entry->event) {
    case DDP_EVENT_DEVICE_ACCESS: {
        const struct use use = {arg[1], arg[2], arg[2] + arg[3], (arg[4] & 1u) != 0, 0};

        return arg[3] == 0 || use_memory(walk, &use, arg[0], (unsigned)arg[4]);
    }
    case DDP_EVENT_DEVICE_FREE: {
        const struct use use = {arg[0], 0, UINT64_MAX, true, 0};

        return !walk->history->is_ended_ok || use_memory(walk, &use, 0, DDP_ACCESS_COUNT);
    }
    case DDP_EVENT_EVENT_RECORD:
        set_add_all(&walk->stream[arg[1]], &walk->relied, words);
        memcpy(walk->event[arg[0]].words, walk->stream[arg[1]].words, words * sizeof(uint64_t));
        walk->behind[arg[0]] = 0;
        walk->last_event = arg[0] + 1;
        return true;
    case DDP_EVENT_COLL_QUEUED:
        if (walk->last_event > 0) {
            walk->behind[walk->last_event - 1] = arg[0];
        }
        return true;
    case DDP_EVENT_EVENT_WAIT:
        set_add_all(&walk->stream[arg[1]], &walk->event[arg[0]], words);
        return true;
    case DDP_EVENT_EVENT_DONE:
        see(walk, arg[0]);
        return true;
    case DDP_EVENT_COLL_WAITED:
        set_add_all(&walk->relied, &walk->ended[arg[0]], words);
        return true;
    default:
        return true;
    }
}

static bool is_edge(const struct ddp_event_entry *entry)
{
    return entry->event == DDP_EVENT_EVENT_RECORD || entry->event == DDP_EVENT_EVENT_WAIT ||
           entry->event == DDP_EVENT_EVENT_DONE || entry->event == DDP_EVENT_COLL_WAITED;
}

/* An act that is left out: number `left_out`, and if is_all, every later one of its kind. */
static bool is_left_out(const struct history *history, size_t act, size_t left_out, bool is_all)
{
    return act == left_out ||
           (is_all && act > left_out &&
            history->acts[act]->entry.event == history->acts[left_out]->entry.event);
}

static bool is_ordered(const struct history *history, size_t left_out, bool is_all)
{
    struct walk walk;
    bool is_right = true;

    walk_open(&walk, history);
    for (size_t i = 0; is_right && i < history->count; i++) {
        if (left_out == SIZE_MAX || !is_left_out(history, i, left_out, is_all)) {
            is_right = act_on(&walk, &history->acts[i]->entry);
        }
    }
    walk_close(&walk);
    return is_right;
}

/* --- the checker ------------------------------------------------------------------------------ */

static bool is_found_ordered(const struct history *history, size_t left_out, bool is_all)
{
    const struct harness_trace_event **list = allocate(history->count, sizeof(*list));
    struct harness_order_facts facts;
    struct ddp_err err = {{0}};
    size_t count = 0;

    for (size_t i = 0; i < history->count; i++) {
        if (left_out == SIZE_MAX || !is_left_out(history, i, left_out, is_all)) {
            list[count++] = history->acts[i];
        }
    }
    require(harness_order_check(list, count, NULL, 0, ddp_mem_system(), &facts, &err) == DDP_OK,
            "the checker failed");
    free(list);
    return !facts.disorder.is_set;
}

static void compare(const struct history *history, size_t left_out, bool is_all,
                    struct totals *totals)
{
    const bool is_right = is_ordered(history, left_out, is_all);
    struct ddp_text text;

    totals->needed += !is_all && !is_right;
    totals->redundant += !is_all && is_right;
    totals->needed_of[history->acts[left_out]->entry.event] += !is_all && !is_right;
    if (is_found_ordered(history, left_out, is_all) == is_right) {
        return;
    }
    if (totals->wrong++ < MISMATCHES_SHOWN) {
        ddp_text_init(&text, ddp_mem_system());
        harness_trace_print_event(history->acts[left_out], &text);
        (void)printf("without it uses of memory are %s, and the checker says otherwise: %s",
                     is_right ? "in order" : "in disorder", ddp_text_str(&text));
        ddp_text_fini(&text);
    }
}

/* Whether a collective brings the rank anything: a barrier does not, nor a broadcast its root. */
static bool has_result(const struct history *history, uint64_t seq)
{
    for (size_t i = 0; i < history->count; i++) {
        const struct ddp_event_entry *entry = &history->acts[i]->entry;

        if (entry->event == DDP_EVENT_COLL_POST && entry->arg[0] == seq) {
            const struct ddp_event_op op = ddp_event_op_unpack(entry->arg[1]);

            return entry->arg[2] > 0 && op.kind != DDP_COLL_BARRIER &&
                   (op.kind != DDP_COLL_BROADCAST || op.root != history->acts[i]->rank);
        }
    }
    return false;
}

static void judge(const struct history *history, struct totals *totals)
{
    require(is_ordered(history, SIZE_MAX, false), "a run that passed is in disorder");
    require(is_found_ordered(history, SIZE_MAX, false), "the checker refuses a run that passed");
    for (size_t i = 0; i < history->count; i++) {
        const struct ddp_event_entry *entry = &history->acts[i]->entry;

        if (!is_edge(entry)) {
            continue;
        }
        totals->edges++;
        compare(history, i, false, totals);
        if (entry->event == DDP_EVENT_COLL_WAITED && has_result(history, entry->arg[0])) {
            totals->ends++;
            totals->unused_ends += is_ordered(history, i, true);
            compare(history, i, true, totals);
        }
    }
}

/* --- runs ------------------------------------------------------------------------------------- */

static void raise_to(uint64_t *count, uint64_t number)
{
    *count = number >= *count ? number + 1 : *count;
}

static void measure(struct history *history)
{
    size_t uses = 0;

    for (size_t i = 0; i < history->count; i++) {
        const struct ddp_event_entry *entry = &history->acts[i]->entry;
        const uint64_t *arg = entry->arg;

        uses += entry->event == DDP_EVENT_DEVICE_ACCESS || entry->event == DDP_EVENT_DEVICE_FREE;
        if (entry->event == DDP_EVENT_DEVICE_ACCESS) {
            require(arg[0] < STREAMS_MAX, "too many streams");
            raise_to(&history->allocation_count, arg[1]);
        } else if (entry->event == DDP_EVENT_DEVICE_FREE) {
            raise_to(&history->allocation_count, arg[0]);
        } else if (entry->event == DDP_EVENT_COLL_QUEUED || entry->event == DDP_EVENT_COLL_WAITED) {
            raise_to(&history->seq_count, arg[0]);
        } else if (is_edge(entry)) {
            require(arg[1] < STREAMS_MAX, "too many streams");
            raise_to(&history->event_count, arg[0]);
        } else if (entry->event == DDP_EVENT_RANK_END) {
            history->is_ended_ok = (int64_t)arg[0] == DDP_OK;
        }
    }
    history->words = uses / 64 + 1;
}

static void judge_trace(const char *path, struct totals *totals)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct harness_trace trace;
    struct ddp_err err = {{0}};
    void *text = NULL;
    size_t size_bytes = 0;

    require(ddp_files_system()->ops->read_all(ddp_files_system(), path, mem, &text, &size_bytes,
                                              &err) == DDP_OK,
            "a trace cannot be read");
    require(harness_trace_parse(mem, text, &trace, &err) == DDP_OK, "a trace is none");
    require(trace.lost_count == 0, "a trace has holes");
    for (uint32_t rank = 0; rank < trace.world_size; rank++) {
        struct history history = {.acts = allocate(trace.event_count, sizeof(*history.acts))};

        for (size_t i = 0; i < trace.event_count; i++) {
            if (trace.events[i].rank == rank) {
                history.acts[history.count++] = &trace.events[i];
            }
        }
        measure(&history);
        judge(&history, totals);
        free(history.acts);
        totals->traces++;
    }
    harness_trace_fini(&trace);
    ddp_mem_free(mem, text);
}

static int visit(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    if (type == FTW_F && strcmp(path + place->base, "trace.txt") == 0) {
        require(path_count < PATHS_MAX && strlen(path) < PATH_BYTES, "too many traces");
        memcpy(paths[path_count++], path, strlen(path) + 1);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct totals totals = {0};
    bool is_each_kind_needed;

    require(argc == 2 && nftw(argv[1], visit, 16, FTW_PHYS) == 0 && path_count > 0,
            "usage: order_edges FOLDER, with traces below it");
    for (size_t i = 0; i < path_count; i++) {
        judge_trace(paths[i], &totals);
    }
    is_each_kind_needed = totals.needed_of[DDP_EVENT_EVENT_RECORD] > 0 &&
                          totals.needed_of[DDP_EVENT_EVENT_WAIT] > 0 &&
                          totals.needed_of[DDP_EVENT_EVENT_DONE] > 0 &&
                          totals.needed_of[DDP_EVENT_COLL_WAITED] > 0;
    (void)printf("%zu ranks, %zu edges: %zu needed (%zu records, %zu waits, %zu seen done, %zu "
                 "waited for), %zu redundant; %zu judged wrongly\n",
                 totals.traces, totals.edges, totals.needed,
                 totals.needed_of[DDP_EVENT_EVENT_RECORD], totals.needed_of[DDP_EVENT_EVENT_WAIT],
                 totals.needed_of[DDP_EVENT_EVENT_DONE], totals.needed_of[DDP_EVENT_COLL_WAITED],
                 totals.redundant, totals.wrong);
    (void)printf("%zu collectives with a result: the end of %zu is of no recorded use\n",
                 totals.ends, totals.unused_ends);
    return totals.wrong > 0 || totals.unused_ends > 0 || !is_each_kind_needed;
}
