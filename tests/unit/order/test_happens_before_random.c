/* The happens-before checker against brute force: random histories, whose order is worked out anew
 * by the transitive closure of a graph with a node for every act of the host and of the device. The
 * checker's clocks and ranges must find the same first conflict, or none. */
#include <string.h>

#include "ddpcore/base/prng.h"
#include "harness/order/range.h"
#include "tests/ct.h"
#include "tests/unit/order/order_history.h"

enum { OPS = 28, NODES = 2 * OPS, STREAMS = 4, EVENTS = 3, ALLOCATIONS = 2, BYTES = 6, SEQS = 2 };

enum op_kind { OP_USE, OP_RECORD, OP_WAIT, OP_DONE, OP_QUEUED, OP_WAITED };

struct op {
    enum op_kind kind;
    uint32_t stream, event, allocation, first, end;
    uint32_t seq; /* of a collective */
    bool is_write;
    bool is_host; /* a use by the host itself */
};

/* Node 2i: the host's part of act i; node 2i + 1: the device's. */
struct graph {
    struct op op[OPS];
    bool is_before[NODES][NODES];
};

static void draw(struct graph *graph, struct ddp_prng *prng)
{
    /* Few streams and mostly small ranges leave about half of the histories in order. */
    uint32_t stream_count = 1 + (uint32_t)ddp_prng_below(prng, STREAMS);
    uint64_t writes_of_8 = 1 + ddp_prng_below(prng, 7);
    uint64_t edges_of_8 = 2 + ddp_prng_below(prng, 6);
    /* Without collectives, what is seen done is relied on. */
    int edge_kinds = ddp_prng_below(prng, 2) == 0 ? 3 : 5;

    for (size_t i = 0; i < OPS; i++) {
        struct op *op = &graph->op[i];

        op->kind = ddp_prng_below(prng, 8) < edges_of_8
                       ? (enum op_kind)(OP_RECORD + (int)ddp_prng_below(prng, (uint64_t)edge_kinds))
                       : OP_USE;
        op->stream = (uint32_t)ddp_prng_below(prng, stream_count);
        op->event = (uint32_t)ddp_prng_below(prng, EVENTS);
        op->allocation = (uint32_t)ddp_prng_below(prng, ALLOCATIONS);
        op->first = (uint32_t)ddp_prng_below(prng, BYTES);
        op->end = op->first + 1 + (uint32_t)ddp_prng_below(prng, BYTES - op->first);
        op->is_write = ddp_prng_below(prng, 8) < writes_of_8;
        op->seq = (uint32_t)ddp_prng_below(prng, SEQS);
        op->is_host = op->kind == OP_USE && ddp_prng_below(prng, 8) == 0;
    }
}

/* The last act before i that records i's event, or OPS. */
static size_t last_record(const struct graph *graph, size_t i)
{
    for (size_t k = i; k-- > 0;) {
        if (graph->op[k].kind == OP_RECORD && graph->op[k].event == graph->op[i].event) {
            return k;
        }
    }
    return OPS;
}

/* The collective behind which a record stood when act i came, or SEQS. */
static uint32_t seq_behind(const struct graph *graph, size_t record, size_t i)
{
    uint32_t seq = SEQS;

    for (size_t k = record + 1; k < i && graph->op[k].kind != OP_RECORD; k++) {
        seq = graph->op[k].kind == OP_QUEUED ? graph->op[k].seq : seq;
    }
    return seq;
}

/* A wait for a collective: everything behind which it stood and that was seen done. */
static void link_waited(struct graph *graph, size_t i)
{
    for (size_t done = 0; done < i; done++) {
        size_t record = last_record(graph, done);

        if (graph->op[done].kind == OP_DONE && record < OPS &&
            seq_behind(graph, record, done) == graph->op[i].seq) {
            graph->is_before[2 * record + 1][2 * i] = true;
        }
    }
}

static bool is_on_stream(const struct op *op)
{
    return op->kind == OP_RECORD || op->kind == OP_WAIT || (op->kind == OP_USE && !op->is_host);
}

static void link_acts(struct graph *graph)
{
    memset(graph->is_before, 0, sizeof graph->is_before);
    for (size_t i = 0; i < OPS; i++) {
        const struct op *op = &graph->op[i];
        size_t record = last_record(graph, i);

        if (i + 1 < OPS) {
            graph->is_before[2 * i][2 * (i + 1)] = true; /* the host's own order */
        }
        if (op->kind == OP_DONE && record < OPS && seq_behind(graph, record, i) == SEQS) {
            graph->is_before[2 * record + 1][2 * i] = true;
        } else if (op->kind == OP_WAITED) {
            link_waited(graph, i);
        }
        if (!is_on_stream(op)) {
            continue;
        }
        graph->is_before[2 * i][2 * i + 1] = true; /* enqueued before it runs */
        for (size_t k = 0; k < i; k++) {
            if (is_on_stream(&graph->op[k]) && graph->op[k].stream == op->stream) {
                graph->is_before[2 * k + 1][2 * i + 1] = true;
            }
        }
        if (op->kind == OP_WAIT && record < OPS) {
            graph->is_before[2 * record + 1][2 * i + 1] = true;
        }
    }
}

static void close_over(struct graph *graph)
{
    for (size_t via = 0; via < NODES; via++) {
        for (size_t a = 0; a < NODES; a++) {
            for (size_t b = 0; graph->is_before[a][via] && b < NODES; b++) {
                graph->is_before[a][b] = graph->is_before[a][b] || graph->is_before[via][b];
            }
        }
    }
}

/* Where a use takes place. */
static size_t node_of(const struct graph *graph, size_t act)
{
    return 2 * act + (graph->op[act].is_host ? 0 : 1);
}

static bool is_conflict(const struct graph *graph, size_t early, size_t late)
{
    const struct op *a = &graph->op[early];
    const struct op *b = &graph->op[late];

    return a->kind == OP_USE && b->kind == OP_USE && a->allocation == b->allocation &&
           a->first < b->end && b->first < a->end && (a->is_write || b->is_write) &&
           !graph->is_before[node_of(graph, early)][node_of(graph, late)];
}

/* The first act that conflicts with an earlier one, or OPS. */
static size_t first_conflict(const struct graph *graph)
{
    for (size_t late = 0; late < OPS; late++) {
        for (size_t early = 0; early < late; early++) {
            if (is_conflict(graph, early, late)) {
                return late;
            }
        }
    }
    return OPS;
}

static enum ddp_access access_of(const struct op *op)
{
    if (op->is_host) {
        return op->is_write ? DDP_ACCESS_HOST_WRITE : DDP_ACCESS_HOST_READ;
    }
    return op->is_write ? DDP_ACCESS_WRITE : DDP_ACCESS_READ;
}

/* Streams and events under odd numbers, to be made dense. The step is the act's number. */
static void write_history(const struct graph *graph, struct order_history *out)
{
    static const uint64_t stream_ids[STREAMS] = {0, 7, UINT64_MAX, 3};
    static const uint64_t event_ids[EVENTS] = {UINT64_MAX - 1, 0, 40};

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < OPS; i++) {
        const struct op *op = &graph->op[i];
        uint64_t stream = stream_ids[op->stream];
        uint64_t event = event_ids[op->event];

        out->step = (uint32_t)i;
        switch (op->kind) {
        case OP_USE:
            order_history_use(out, stream, 5 * op->allocation, 8 * op->first, 8 * op->end,
                              access_of(op));
            break;
        case OP_QUEUED:
            order_history_queued(out, op->seq);
            break;
        case OP_WAITED:
            order_history_waited(out, op->seq);
            break;
        case OP_RECORD:
            order_history_record(out, event, stream);
            break;
        case OP_WAIT:
            order_history_wait(out, event, stream);
            break;
        case OP_DONE:
            order_history_done(out, event);
            break;
        }
    }
}

CT_TEST(happens_before, agrees_with_brute_force)
{
    enum { HISTORIES = 6000 };
    struct ddp_prng prng = ddp_prng_make(20250, "test/happens_before");
    static struct graph graph;
    static struct order_history history;
    size_t ordered = 0;
    size_t late = 0; /* conflicts in the second half: the state that led there was long */

    for (size_t n = 0; n < HISTORIES; n++) {
        size_t expected;

        draw(&graph, &prng);
        link_acts(&graph);
        close_over(&graph);
        expected = first_conflict(&graph);
        write_history(&graph, &history);
        if (order_history_is_ordered(&history) != (expected == OPS)) {
            CT_FAIL("history %zu: the first conflict is act %zu of %d, and the checker says \"%s\"",
                    n, expected, (int)OPS, history.facts.disorder.text);
            return;
        }
        if (expected < OPS && history.facts.disorder.step != expected) {
            CT_FAIL("history %zu: the first conflict is act %zu, not act %u", n, expected,
                    history.facts.disorder.step);
            return;
        }
        ordered += expected == OPS ? 1 : 0;
        late += expected < OPS && expected >= OPS / 2 ? 1 : 0;
    }
    CT_CHECK(ordered > HISTORIES / 10 && ordered < HISTORIES * 9 / 10);
    CT_CHECK(late > HISTORIES / 20);
}

/* --- the range index alone, at a size at which its tree of cuts has three levels
 * -----------------*/

enum { RANGE_BYTES = 40000, TOUCHES = 4000, RANGE_STREAMS = 3 };

struct bytes {
    uint32_t last_write[RANGE_BYTES]; /* access + 1 */
    uint32_t last_read[RANGE_BYTES][RANGE_STREAMS];
    bool is_expected[TOUCHES], is_asked[TOUCHES]; /* earlier accesses of the present touch */
};

static bool ask(void *context, uint32_t earlier)
{
    struct bytes *bytes = context;

    bytes->is_asked[earlier] = true;
    return false;
}

static void touch_bytes(struct bytes *bytes, const struct harness_touch *touch)
{
    for (uint64_t b = touch->first; b < touch->end; b++) {
        if (bytes->last_write[b] != 0) {
            bytes->is_expected[bytes->last_write[b] - 1] = true;
        }
        for (uint32_t s = 0; s < RANGE_STREAMS && touch->is_write; s++) {
            if (bytes->last_read[b][s] != 0) {
                bytes->is_expected[bytes->last_read[b][s] - 1] = true;
            }
            bytes->last_read[b][s] = 0;
        }
        if (touch->is_write) {
            bytes->last_write[b] = touch->access + 1;
        } else {
            bytes->last_read[b][touch->stream] = touch->access + 1;
        }
    }
}

CT_TEST(happens_before, ranges_agree_with_bytes)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct ddp_prng prng = ddp_prng_make(7, "test/ranges");
    static struct harness_touch touch[TOUCHES];
    static struct bytes bytes;
    struct harness_order_boundary *places = ddp_mem_array(mem, 2 * TOUCHES, sizeof *places);
    struct harness_ranges ranges;

    memset(&bytes, 0, sizeof bytes);
    for (uint32_t i = 0; i < TOUCHES; i++) {
        uint64_t longest = i % 50 == 0 ? RANGE_BYTES : 40;
        uint64_t first = ddp_prng_below(&prng, RANGE_BYTES);
        uint64_t room = RANGE_BYTES - first < longest ? RANGE_BYTES - first : longest;

        touch[i] = (struct harness_touch){3,
                                          first,
                                          first + 1 + ddp_prng_below(&prng, room),
                                          i,
                                          (uint32_t)ddp_prng_below(&prng, RANGE_STREAMS),
                                          ddp_prng_below(&prng, 3) == 0,
                                          false};
        places[2 * i] = (struct harness_order_boundary){3, touch[i].first};
        places[2 * i + 1] = (struct harness_order_boundary){3, touch[i].end};
    }
    CT_REQUIRE_OK(harness_ranges_init(&ranges, mem, places, (size_t)2 * TOUCHES, RANGE_STREAMS));
    CT_CHECK_EQ_U64(ranges.level_count, 3);
    for (uint32_t i = 0; i < TOUCHES; i++) {
        memset(bytes.is_expected, 0, sizeof bytes.is_expected);
        memset(bytes.is_asked, 0, sizeof bytes.is_asked);
        touch_bytes(&bytes, &touch[i]);
        CT_CHECK_EQ_U64(harness_ranges_touch(&ranges, &touch[i], ask, &bytes), 0);
        if (memcmp(bytes.is_asked, bytes.is_expected, sizeof bytes.is_asked) != 0) {
            CT_FAIL("touch %u asks about other accesses than its bytes know", i);
            break;
        }
    }
    harness_ranges_fini(&ranges);
}
