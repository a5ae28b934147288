/* See the header. Trees share the rounds, so that each pair of ranks meets in the same order on
 * both sides: by round, then by tree, then by segment. */
#include "ddpcore/schedule/tree.h"

struct tree {
    struct ddp_schedule *schedule;
    struct ddp_part part;
    size_t segment_count;
    uint32_t *parent;  /* [rank] */
    uint32_t *height;  /* [rank] of its subtree; a leaf's is 0 */
    uint32_t *written; /* [segment] last step that wrote the output */
    uint32_t *lent;    /* [segment] the send that lent the output to the parent */
    bool is_filled;    /* the output holds the rank's own data */
};

static struct ddp_range segment_at(const struct tree *tree, enum ddp_buffer_kind buffer,
                                   size_t segment)
{
    return ddp_emit_range(
        buffer, ddp_emit_segment(tree->part, tree->schedule->params.segment_elem_count, segment));
}

/* Sums are made in the output; a rank that adds nothing gives its input as it is. */
static void fill(struct tree *tree)
{
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    for (size_t s = 0; !tree->is_filled && s < tree->segment_count; s++) {
        tree->written[s] = ddp_emit_copy(tree->schedule, 0, segment_at(tree, DDP_BUFFER_OUTPUT, s),
                                         segment_at(tree, DDP_BUFFER_INPUT, s), none);
    }
    tree->is_filled = true;
}

static void add_child(struct tree *tree, uint32_t round, uint32_t child)
{
    fill(tree);
    for (size_t s = 0; s < tree->segment_count; s++) {
        const uint32_t dep[2] = {tree->written[s], DDP_STEP_NONE};

        tree->written[s] = ddp_emit_recv(tree->schedule, DDP_STEP_RECV_REDUCE, round, child,
                                         segment_at(tree, DDP_BUFFER_OUTPUT, s), dep);
    }
}

static void give(struct tree *tree, uint32_t round, uint32_t parent)
{
    enum ddp_buffer_kind source = tree->is_filled ? DDP_BUFFER_OUTPUT : DDP_BUFFER_INPUT;

    for (size_t s = 0; s < tree->segment_count; s++) {
        const uint32_t dep[2] = {tree->written[s], DDP_STEP_NONE};
        uint32_t sent =
            ddp_emit_send(tree->schedule, round, parent, segment_at(tree, source, s), dep);

        tree->lent[s] = tree->is_filled ? sent : DDP_STEP_NONE;
    }
}

static void take(struct tree *tree, uint32_t round, uint32_t parent)
{
    for (size_t s = 0; s < tree->segment_count; s++) {
        const uint32_t dep[2] = {tree->written[s], tree->lent[s]};

        tree->written[s] = ddp_emit_recv(tree->schedule, DDP_STEP_RECV, round, parent,
                                         segment_at(tree, DDP_BUFFER_OUTPUT, s), dep);
    }
}

static void hand(struct tree *tree, uint32_t round, uint32_t child)
{
    for (size_t s = 0; s < tree->segment_count; s++) {
        const uint32_t dep[2] = {tree->written[s], DDP_STEP_NONE};

        (void)ddp_emit_send(tree->schedule, round, child, segment_at(tree, DDP_BUFFER_OUTPUT, s),
                            dep);
    }
}

static bool is_child(const struct tree *tree, uint32_t rank, uint32_t height)
{
    uint32_t own = tree->schedule->params.rank;

    return rank != own && tree->parent[rank] == own && tree->height[rank] == height;
}

static bool has_turn(const struct tree *tree, uint32_t height)
{
    uint32_t own = tree->schedule->params.rank;

    return tree->parent[own] != own && tree->height[own] == height;
}

/* What is given to, or by, ranks whose subtree has this height. */
static void emit_up(struct tree *tree, uint32_t height)
{
    const struct ddp_schedule_params *params = &tree->schedule->params;

    for (uint32_t rank = 0; rank < params->size; rank++) {
        if (is_child(tree, rank, height)) {
            add_child(tree, height, rank);
        }
    }
    if (has_turn(tree, height)) {
        give(tree, height, tree->parent[params->rank]);
    }
}

static void emit_down(struct tree *tree, uint32_t height, uint32_t round)
{
    const struct ddp_schedule_params *params = &tree->schedule->params;

    if (has_turn(tree, height)) {
        take(tree, round, tree->parent[params->rank]);
    }
    for (uint32_t rank = 0; rank < params->size; rank++) {
        if (is_child(tree, rank, height)) {
            hand(tree, round, rank);
        }
    }
}

/* height[r] = 1 + the greatest height of a child: each rank lifts those above it. */
static uint32_t measure(struct tree *tree, ddp_tree_parent_fn *parent_of)
{
    const struct ddp_schedule_params *params = &tree->schedule->params;
    uint32_t highest = 0;

    for (uint32_t rank = 0; rank < params->size; rank++) {
        tree->parent[rank] = parent_of(params, rank);
        tree->height[rank] = 0;
        DDP_ASSERT(tree->parent[rank] < params->size);
    }
    for (uint32_t rank = 0; rank < params->size; rank++) {
        uint32_t at = rank;

        for (uint32_t up = 1; tree->parent[at] != at; up++) {
            DDP_ASSERT(up < params->size); /* no way up is longer: it would go in a circle */
            at = tree->parent[at];
            tree->height[at] = tree->height[at] > up ? tree->height[at] : up;
        }
        highest = highest > tree->height[at] ? highest : tree->height[at];
    }
    return highest;
}

static bool open_tree(struct tree *tree, struct ddp_schedule *schedule, struct ddp_part part)
{
    *tree = (struct tree){.schedule = schedule, .part = part};
    tree->is_filled = schedule->params.is_in_place != 0;
    tree->segment_count =
        ddp_emit_segment_count(part.elem_count, schedule->params.segment_elem_count);
    tree->parent = ddp_emit_step_array(schedule, schedule->params.size);
    tree->height = ddp_emit_step_array(schedule, schedule->params.size);
    tree->written = ddp_emit_step_array(schedule, tree->segment_count);
    tree->lent = ddp_emit_step_array(schedule, tree->segment_count);
    return schedule->status == DDP_OK;
}

static void close_tree(struct tree *tree)
{
    struct ddp_mem *mem = tree->schedule->mem;

    ddp_mem_free(mem, tree->parent);
    ddp_mem_free(mem, tree->height);
    ddp_mem_free(mem, tree->written);
    ddp_mem_free(mem, tree->lent);
}

void ddp_tree_emit(struct ddp_schedule *schedule, ddp_tree_parent_fn *const *parents,
                   uint32_t tree_count)
{
    struct tree trees[DDP_TREES_MAX];
    uint32_t highest = 0;
    uint32_t opened = 0;

    DDP_ASSERT(tree_count >= 1 && tree_count <= DDP_TREES_MAX);
    for (; opened < tree_count && schedule->status == DDP_OK; opened++) {
        struct tree *tree = &trees[opened];

        if (open_tree(tree, schedule,
                      ddp_emit_split(schedule->params.elem_count, tree_count, opened))) {
            uint32_t height = measure(tree, parents[opened]);

            highest = highest > height ? highest : height;
        }
    }
    for (uint32_t height = 0; schedule->status == DDP_OK && height < highest; height++) {
        for (uint32_t t = 0; t < tree_count; t++) {
            emit_up(&trees[t], height);
        }
    }
    for (uint32_t height = highest; schedule->status == DDP_OK && height-- > 0;) {
        for (uint32_t t = 0; t < tree_count; t++) {
            emit_down(&trees[t], height, 2 * highest - 1 - height);
        }
    }
    for (uint32_t t = 0; schedule->params.size == 1 && t < opened && schedule->status == DDP_OK;
         t++) {
        fill(&trees[t]);
    }
    for (uint32_t t = 0; t < opened; t++) {
        close_tree(&trees[t]);
    }
}
