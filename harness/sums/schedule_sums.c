/* Purpose: tell for each element of each rank's output in which tree it was added.
 * Idea: the set runs on numbers of nodes. An addition looks up whether that sum of two nodes is
 * there already (hash consing), so that two trees are equal if their numbers are. */
#include "harness/sums/schedule_sums.h"

#include "harness/sums/schedule_prove.h"

enum { FIRST_SLOTS = 256, PRINTED_MAX = 400 };

/* Mixes so that (a b) c and a (b c) differ, and a + b is b + a. */
static uint64_t hash_of(uint64_t a, uint64_t b)
{
    uint64_t both = (a + b) * UINT64_C(0x9e3779b97f4a7c15) ^ (a ^ b);

    both ^= both >> 29;
    both *= UINT64_C(0xbf58476d1ce4e5b9);
    return both ^ (both >> 32);
}

/* 0 for fp32, which most are added in. */
static uint64_t hash_of_type(enum ddp_dtype dtype)
{
    return ((uint64_t)dtype - (uint64_t)DDP_DTYPE_F32) * UINT64_C(0xd6e8feb86659fd93);
}

static uint32_t *slot_of(const struct harness_schedule_sums *sums,
                         const struct harness_sum_node *sought)
{
    size_t at = sought->hash & (sums->slot_count - 1);

    while (sums->slots[at] != HARNESS_SUM_NONE) {
        const struct harness_sum_node *node = &sums->nodes[sums->slots[at]];

        if (node->left == sought->left && node->right == sought->right &&
            node->dtype == sought->dtype) {
            break;
        }
        at = (at + 1) & (sums->slot_count - 1);
    }
    return &sums->slots[at];
}

/* Half of the slots stay free. */
static ddp_status grow_slots(struct harness_schedule_sums *sums)
{
    size_t count = sums->slot_count == 0 ? FIRST_SLOTS : 2 * sums->slot_count;
    uint32_t *slots;

    if (2 * (sums->node_count + 1) < sums->slot_count) {
        return DDP_OK;
    }
    slots = ddp_mem_array(sums->mem, count, sizeof(*slots));
    if (slots == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        slots[i] = HARNESS_SUM_NONE;
    }
    ddp_mem_free(sums->mem, sums->slots);
    sums->slots = slots;
    sums->slot_count = count;
    for (size_t i = sums->size; i < sums->node_count; i++) {
        *slot_of(sums, &sums->nodes[i]) = (uint32_t)i;
    }
    return DDP_OK;
}

static ddp_status add_node(struct harness_schedule_sums *sums, struct harness_sum_node node)
{
    struct harness_sum_node *nodes = ddp_mem_grow(sums->mem, sums->nodes, sums->node_count,
                                                  &sums->node_capacity, sizeof(*nodes));

    if (nodes == NULL || sums->node_count >= HARNESS_SUM_NONE) {
        return DDP_E_NOMEM;
    }
    sums->nodes = nodes;
    sums->nodes[sums->node_count++] = node;
    return DDP_OK;
}

/* *out: the node with these operands, type and hash. */
static ddp_status find_or_add(struct harness_schedule_sums *sums, struct harness_sum_node node,
                              uint32_t *out)
{
    uint32_t *slot;

    DDP_TRY(grow_slots(sums));
    slot = slot_of(sums, &node);
    if (*slot == HARNESS_SUM_NONE) {
        DDP_TRY(add_node(sums, node));
        *slot = (uint32_t)(sums->node_count - 1);
    }
    *out = *slot;
    return DDP_OK;
}

/* *out: the node of a + b, rounded to dtype. */
static ddp_status add(struct harness_schedule_sums *sums, uint32_t a, uint32_t b,
                      enum ddp_dtype dtype, uint32_t *out)
{
    struct harness_sum_node node = {.left = a < b ? a : b, .right = a < b ? b : a, .dtype = dtype};
    uint32_t left_depth, right_depth;

    if (a == HARNESS_SUM_NONE || b == HARNESS_SUM_NONE) {
        *out = HARNESS_SUM_NONE;
        return DDP_OK;
    }
    DDP_ASSERT(a < sums->node_count && b < sums->node_count);
    left_depth = sums->nodes[a].depth;
    right_depth = sums->nodes[b].depth;
    node.depth = 1 + (left_depth > right_depth ? left_depth : right_depth);
    node.hash = hash_of(sums->nodes[a].hash, sums->nodes[b].hash) + hash_of_type(dtype);
    return find_or_add(sums, node, out);
}

/* Whether every value of one type is one of the other. */
static bool is_exact(enum ddp_dtype from, enum ddp_dtype to)
{
    bool is_half = from == DDP_DTYPE_F16 || from == DDP_DTYPE_BF16;

    return from == to || (is_half && (to == DDP_DTYPE_F32 || to == DDP_DTYPE_F64)) ||
           (from == DDP_DTYPE_F32 && to == DDP_DTYPE_F64);
}

/* *out: the node of a in another type. */
static ddp_status convert(struct harness_schedule_sums *sums, uint32_t a, enum ddp_dtype dtype,
                          uint32_t *out)
{
    struct harness_sum_node node = {.left = a, .right = HARNESS_SUM_NONE, .dtype = dtype};

    if (a == HARNESS_SUM_NONE || is_exact(sums->nodes[a].dtype, dtype)) {
        *out = a;
        return DDP_OK;
    }
    node.depth = sums->nodes[a].depth;
    node.hash = hash_of(sums->nodes[a].hash, ~hash_of_type(dtype));
    return find_or_add(sums, node, out);
}

/* Of a buffer of a rank, what is its input holds the rank's own data, and the rest nothing. */
static void fill(uint32_t *value, size_t count, size_t buffer, const struct harness_span *input,
                 uint32_t rank)
{
    size_t begin = buffer == input->buffer ? input->first : count;
    size_t end = buffer == input->buffer ? input->first + input->elem_count : count;

    DDP_ASSERT(begin <= end && end <= count);
    for (size_t i = 0; i < begin; i++) {
        value[i] = HARNESS_SUM_NONE;
    }
    for (size_t i = begin; i < end; i++) {
        value[i] = rank;
    }
    for (size_t i = end; i < count; i++) {
        value[i] = HARNESS_SUM_NONE;
    }
}

static ddp_status allocate(struct harness_schedule_sums *sums,
                           const struct harness_schedule_set *set)
{
    for (uint32_t r = 0; r < set->size; r++) {
        struct harness_sum_node own = {.left = HARNESS_SUM_NONE,
                                       .right = HARNESS_SUM_NONE,
                                       .dtype = set->any->dtype,
                                       .hash = harness_schedule_weight(r)};

        DDP_TRY(add_node(sums, own));
    }
    sums->value = ddp_mem_array(sums->mem, set->size, sizeof(*sums->value));
    for (uint32_t r = 0; sums->value != NULL && r < set->size; r++) {
        const struct harness_schedule *member = set->member[r];
        struct harness_span input = harness_schedule_input(member);

        sums->value[r] = ddp_mem_array(sums->mem, member->buffer_count, sizeof(*sums->value[r]));
        for (size_t k = 0; sums->value[r] != NULL && k < member->buffer_count; k++) {
            size_t count = member->buffer_elem_count[k];

            sums->value[r][k] = ddp_mem_array(sums->mem, count, sizeof(uint32_t));
            if (sums->value[r][k] == NULL) {
                return DDP_E_NOMEM;
            }
            fill(sums->value[r][k], count, k, &input, r);
        }
        if (sums->value[r] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return sums->value == NULL ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status run_event(struct harness_schedule_sums *sums,
                            const struct harness_schedule_set *set,
                            const struct harness_schedule_event *event)
{
    bool is_local = event->from_rank == HARNESS_NO_RANK;
    uint32_t from = is_local ? event->rank : event->from_rank;
    const struct harness_schedule_step *step = &set->member[event->rank]->steps[event->step];
    const struct harness_span *source =
        &set->member[from]->steps[is_local ? event->step : event->from_step].src;
    const uint32_t *read = &sums->value[from][source->buffer][source->first];
    uint32_t *written = &sums->value[event->rank][step->dst.buffer][step->dst.first];

    enum ddp_dtype dtype = set->member[event->rank]->buffer_dtype[step->dst.buffer];
    uint32_t last_operand = HARNESS_SUM_NONE; /* of the element before */

    if (source->elem_count != step->dst.elem_count) {
        return DDP_E_INVALID;
    }
    for (size_t i = 0; i < source->elem_count; i++) {
        if (step->kind == HARNESS_STEP_RECV_REDUCE || step->kind == HARNESS_STEP_REDUCE) {
            uint32_t operand = written[i];

            /* Elements in a row mostly have the same operands. */
            if (i > 0 && operand == last_operand && read[i] == read[i - 1]) {
                written[i] = written[i - 1];
            } else {
                DDP_TRY(add(sums, operand, read[i], dtype, &written[i]));
            }
            last_operand = operand;
        } else if (step->kind == HARNESS_STEP_CONVERT) {
            DDP_TRY(convert(sums, read[i], dtype, &written[i]));
        } else {
            written[i] = read[i];
        }
    }
    return DDP_OK;
}

ddp_status harness_schedule_sums_make(const struct harness_schedule_set *set, struct ddp_mem *mem,
                                      struct harness_schedule_sums *out)
{
    *out = (struct harness_schedule_sums){.mem = mem, .set = set, .size = set->size};
    if (!set->is_ordered) {
        return DDP_E_STATE;
    }
    DDP_TRY(allocate(out, set));
    for (size_t e = 0; e < set->event_count; e++) {
        DDP_TRY(run_event(out, set, &set->events[e]));
    }
    return DDP_OK;
}

void harness_schedule_sums_fini(struct harness_schedule_sums *sums,
                                const struct harness_schedule_set *set)
{
    for (uint32_t r = 0; sums->value != NULL && r < sums->size; r++) {
        for (size_t k = 0; sums->value[r] != NULL && k < set->member[r]->buffer_count; k++) {
            ddp_mem_free(sums->mem, sums->value[r][k]);
        }
        ddp_mem_free(sums->mem, sums->value[r]);
    }
    ddp_mem_free(sums->mem, sums->value);
    ddp_mem_free(sums->mem, sums->slots);
    ddp_mem_free(sums->mem, sums->nodes);
    *sums = (struct harness_schedule_sums){.mem = sums->mem};
}

uint32_t harness_schedule_sums_at(const struct harness_schedule_sums *sums, uint32_t rank,
                                  size_t elem)
{
    struct harness_span output = harness_schedule_output(sums->set->member[rank]);

    DDP_ASSERT(rank < sums->size && elem < output.elem_count);
    return sums->value[rank][1][output.first + elem];
}

const uint32_t *harness_schedule_sums_row(const struct harness_schedule_sums *sums, uint32_t rank)
{
    DDP_ASSERT(rank < sums->size);
    return &sums->value[rank][1][harness_schedule_output(sums->set->member[rank]).first];
}

/* --- text ------------------------------------------------------------------------------------- */

static uint32_t lowest_rank(const struct harness_schedule_sums *sums, const uint32_t *lowest,
                            uint32_t node)
{
    return node < sums->size ? node : lowest[node];
}

/* lowest[node] of every sum; operands have lower numbers than their sum. */
static uint32_t *find_lowest(const struct harness_schedule_sums *sums)
{
    uint32_t *lowest = ddp_mem_array(sums->mem, sums->node_count, sizeof(*lowest));

    for (size_t i = sums->size; lowest != NULL && i < sums->node_count; i++) {
        const struct harness_sum_node *node = &sums->nodes[i];
        uint32_t left = lowest_rank(sums, lowest, node->left);
        uint32_t right =
            node->right != HARNESS_SUM_NONE ? lowest_rank(sums, lowest, node->right) : left;

        lowest[i] = left < right ? left : right;
    }
    return lowest;
}

/* What is still to be printed, the next last: a node, a space or a closing bracket. */
struct printing {
    uint32_t *stack;
    size_t depth;
};
#define SPACE (UINT32_MAX - 1)
#define CLOSE (UINT32_MAX - 2)

static void print_node(const struct harness_schedule_sums *sums, const uint32_t *lowest,
                       struct printing *printing, struct ddp_text *out)
{
    uint32_t item = printing->stack[--printing->depth];
    const struct harness_sum_node *node;
    bool is_left_first;

    if (item == SPACE || item == CLOSE) {
        ddp_text_add_str(out, item == SPACE ? " " : ")", 0);
        return;
    }
    if (item < sums->size) {
        ddp_text_add_u64(out, item, 0);
        return;
    }
    node = &sums->nodes[item];
    if (node->right == HARNESS_SUM_NONE) {
        ddp_text_add(out, "%s(", ddp_dtype_name(node->dtype));
        printing->stack[printing->depth++] = CLOSE;
        printing->stack[printing->depth++] = node->left;
        return;
    }
    is_left_first = lowest_rank(sums, lowest, node->left) <= lowest_rank(sums, lowest, node->right);
    ddp_text_add_str(out, "(", 0);
    printing->stack[printing->depth++] = CLOSE;
    printing->stack[printing->depth++] = is_left_first ? node->right : node->left;
    printing->stack[printing->depth++] = SPACE;
    printing->stack[printing->depth++] = is_left_first ? node->left : node->right;
}

ddp_status harness_schedule_sums_print(const struct harness_schedule_sums *sums, uint32_t node,
                                       struct ddp_text *out)
{
    struct printing printing = {NULL, 0};
    size_t start = out->size_bytes;
    uint32_t *lowest;

    if (node == HARNESS_SUM_NONE) {
        ddp_text_add_str(out, "nothing", 0);
        return DDP_OK;
    }
    lowest = find_lowest(sums);
    /* Each level of the tree leaves three items, a rounding of it one more. */
    printing.stack =
        ddp_mem_array(sums->mem, 6 + 6 * (size_t)sums->nodes[node].depth, sizeof(uint32_t));
    if (lowest != NULL && printing.stack != NULL) {
        printing.stack[printing.depth++] = node;
        while (printing.depth > 0 && out->size_bytes - start < PRINTED_MAX) {
            print_node(sums, lowest, &printing, out);
        }
        if (printing.depth > 0) {
            ddp_text_add_str(out, "...", 0);
        }
    }
    ddp_mem_free(sums->mem, printing.stack);
    ddp_mem_free(sums->mem, lowest);
    return lowest != NULL && printing.stack != NULL ? DDP_OK : DDP_E_NOMEM;
}
