/* Purpose: the worlds, counts and ways to be asked that stand for all.
 * Idea: what algorithms get wrong is at the edges: no element, one, fewer than ranks, one more or
 * less than a multiple of the ranks, worlds beside powers of two. Small worlds are tried with every
 * count up to twice the world, since a smallest counterexample is found there. A few long ones show
 * what changes with the length: indices of 8 and of 16 bits, another way for large buffers. */
#include "harness/coll/cases.h"

enum {
    SMALL_WORLD = 9,
    MIDDLE_WORLD = 16,
    SEGMENTED_WORLD_FULL = 16,
    NODE_FORMS = 4,
    LONG_WORLD = 6, /* longer counts are for worlds up to this */
    LONG_COUNT = HARNESS_COLL_LONG_COUNT,
    LONGER_COUNT = 70003
};

struct walk {
    enum ddp_coll_kind kind;
    const struct harness_coll_options *options;
    bool (*visit)(void *context, const struct harness_coll_case *test);
    void *context;
    uint32_t nodes[HARNESS_COLL_WORLD_MAX];
};

/* --- worlds ----------------------------------------------------------------------------------- */

/* The world after this one; 0: there is none. */
static uint32_t next_world(const struct walk *walk, uint32_t world)
{
    static const uint32_t large[] = {17, 24, 32, 33, 64};
    const struct harness_coll_range *chosen = &walk->options->worlds;

    if (chosen->is_chosen) {
        return world == 0 ? (uint32_t)chosen->first : (world < chosen->last ? world + 1 : 0);
    }
    if (walk->options->is_full) {
        return world < 64 ? world + 1 : 0;
    }
    if (world < MIDDLE_WORLD) {
        return world + 1;
    }
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        if (large[i] > world) {
            return large[i];
        }
    }
    return 0;
}

/* --- counts ----------------------------------------------------------------------------------- */

/* The smallest of the counts that stand for all and is larger; `count` itself: there is none. */
static size_t next_edge(uint32_t world, size_t count)
{
    const size_t edges[] = {
        1, 2, world - 1, world, world + 1, 2 * (size_t)world + 1, 4 * (size_t)world + 3};
    size_t next = SIZE_MAX;

    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        next = edges[i] > count && edges[i] < next ? edges[i] : next;
    }
    if (next == SIZE_MAX && world <= (uint32_t)LONG_WORLD && count < (size_t)LONGER_COUNT) {
        return count < (size_t)LONG_COUNT ? LONG_COUNT : LONGER_COUNT;
    }
    return next == SIZE_MAX ? count : next;
}

/* The count after this one; the same: there is none. */
static size_t next_count(const struct walk *walk, uint32_t world, size_t count)
{
    size_t last = 4 * (size_t)world + 3;
    size_t dense = world <= SMALL_WORLD    ? 2 * (size_t)world + 3
                   : world <= MIDDLE_WORLD ? (size_t)world + 3
                                           : 0;

    if (walk->options->counts.is_chosen) {
        return count < walk->options->counts.last ? count + 1 : count;
    }
    if (walk->kind == DDP_COLL_BARRIER) {
        return count;
    }
    if (walk->options->is_full) {
        return count < last ? count + 1 : next_edge(world, count);
    }
    return count < dense ? count + 1 : next_edge(world, count);
}

/* --- ways to be asked ------------------------------------------------------------------------- */

/* Small worlds are asked in other types too: what is added, or sent, in another one than the data
 * is another schedule. */
static bool visit_types(const struct walk *walk, struct harness_coll_case *test)
{
    bool is_edge = test->elem_count == 1 || test->elem_count == (size_t)test->world + 1;
    bool has_types = walk->kind != DDP_COLL_BARRIER && is_edge && test->world <= SMALL_WORLD &&
                     test->node_of_rank == NULL;

    for (size_t i = 0; i < (has_types ? (size_t)HARNESS_COLL_TYPES : 1u); i++) {
        test->dtype = harness_coll_type(i);
        if (!walk->visit(walk->context, test)) {
            return false;
        }
    }
    return true;
}

static bool visit_segments(const struct walk *walk, struct harness_coll_case *test)
{
    /* A long count in short messages would be of many steps, and no other case. */
    bool is_long = test->elem_count >= (size_t)LONG_COUNT && !walk->options->counts.is_chosen;
    const size_t segments[] = {0, is_long ? test->elem_count / 3 + 1 : 1, 5};
    uint32_t world_max = walk->options->is_full ? SEGMENTED_WORLD_FULL : SMALL_WORLD;
    size_t count = test->world > world_max ? 1 : is_long ? 2 : 3;

    for (size_t i = 0; i < count; i++) {
        test->segment_elem_count = segments[i];
        if (!visit_types(walk, test)) {
            return false;
        }
    }
    return true;
}

static bool visit_roots(const struct walk *walk, struct harness_coll_case *test)
{
    uint32_t last = ddp_coll_kind_has_root(walk->kind) ? test->world - 1 : 0;
    uint32_t step = test->world <= SMALL_WORLD ? 1 : test->world / 2;

    for (test->root = 0; test->root < last; test->root += step) {
        if (!visit_segments(walk, test)) {
            return false;
        }
    }
    test->root = last;
    return visit_segments(walk, test);
}

static uint32_t node_of(uint32_t form, uint32_t world, uint32_t rank)
{
    return form == 1 ? rank / 2 : form == 2 ? rank % 3 : rank == world - 1;
}

/* On one node; in pairs; scattered over three; all but the last together. */
static bool visit_nodes(struct walk *walk, struct harness_coll_case *test)
{
    size_t world = test->world;
    bool is_edge =
        test->elem_count == 1 || test->elem_count == world + 1 || test->elem_count == 2 * world + 1;
    bool has_forms = world > 1 && world <= SMALL_WORLD && is_edge;

    for (uint32_t form = 0; form < (has_forms ? (uint32_t)NODE_FORMS : 1u); form++) {
        for (uint32_t rank = 0; rank < test->world; rank++) {
            walk->nodes[rank] = node_of(form, test->world, rank);
        }
        test->node_of_rank = form == 0 ? NULL : walk->nodes;
        if (!visit_roots(walk, test)) {
            return false;
        }
    }
    return true;
}

static bool visit_count(struct walk *walk, uint32_t world, size_t elem_count)
{
    for (int i = 0; i < 2; i++) {
        struct harness_coll_case test = {
            .world = world, .elem_count = elem_count, .is_in_place = i == 1};

        if (!visit_nodes(walk, &test)) {
            return false;
        }
    }
    return true;
}

bool harness_coll_cases(enum ddp_coll_kind kind, const struct harness_coll_options *options,
                        bool (*visit)(void *context, const struct harness_coll_case *test),
                        void *context)
{
    struct walk walk = {.kind = kind, .options = options, .visit = visit, .context = context};

    for (uint32_t world = next_world(&walk, 0); world > 0; world = next_world(&walk, world)) {
        size_t count = options->counts.is_chosen ? (size_t)options->counts.first : 0;
        size_t before;

        DDP_ASSERT(world <= HARNESS_COLL_WORLD_MAX);
        do {
            if (!visit_count(&walk, world, count)) {
                return false;
            }
            before = count;
            count = next_count(&walk, world, count);
        } while (count != before);
    }
    return true;
}
