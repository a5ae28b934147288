/* Purpose: find, compare, name and print measured trees.
 * Idea: the reasons why a tree cannot be used are worded here only; verdicts show them. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/sums/tree.h"

/* How sums of three wide values or more round is not known. */
static bool is_range_known(const struct harness_tree_map *map,
                           const struct harness_tree_range *range)
{
    for (uint32_t i = 0; i < range->op_count; i++) {
        const struct harness_tree_op *op = &map->ops[range->op_first + i];

        if (op->kind == HARNESS_TREE_OPAQUE || (op->kind == HARNESS_TREE_WIDE && op->count > 2)) {
            return false;
        }
    }
    return true;
}

bool harness_tree_is_known(const struct harness_tree_map *map, char *why, size_t why_bytes)
{
    char scrap[8];
    char *out = why == NULL ? scrap : why;
    size_t out_bytes = why == NULL ? sizeof(scrap) : why_bytes;

    if (!map->is_measured) {
        (void)snprintf(out, out_bytes, "%s", map->text);
        return false;
    }
    for (size_t r = 0; r < map->range_count; r++) {
        if (!is_range_known(map, &map->ranges[r])) {
            char tree[96];

            harness_tree_print(map, map->ranges[r].first, tree, sizeof(tree));
            (void)snprintf(out, out_bytes, "how %s rounds is not known (elements from %zu)", tree,
                           map->ranges[r].first);
            return false;
        }
    }
    return true;
}

const struct harness_tree_range *harness_tree_range_at(const struct harness_tree_map *map,
                                                       size_t elem)
{
    size_t low = 0;
    size_t high = map->range_count;

    DDP_ASSERT(map->is_measured && elem < map->elem_count && map->range_count > 0);
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (map->ranges[middle].first <= elem) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &map->ranges[low];
}

static size_t end_of(const struct harness_tree_range *range)
{
    return range->first + range->elem_count;
}

static bool is_same_tree(const struct harness_tree_map *a, const struct harness_tree_range *range_a,
                         const struct harness_tree_map *b, const struct harness_tree_range *range_b)
{
    return range_a->op_count == range_b->op_count &&
           memcmp(&a->ops[range_a->op_first], &b->ops[range_b->op_first],
                  range_a->op_count * sizeof(a->ops[0])) == 0;
}

size_t harness_tree_compare(const struct harness_tree_map *a, const struct harness_tree_map *b)
{
    size_t elem = 0;

    DDP_ASSERT(a->elem_count == b->elem_count && a->dtype == b->dtype);
    while (elem < a->elem_count) {
        const struct harness_tree_range *range_a = harness_tree_range_at(a, elem);
        const struct harness_tree_range *range_b = harness_tree_range_at(b, elem);

        if (!is_same_tree(a, range_a, b, range_b)) {
            return elem;
        }
        elem = end_of(range_a) < end_of(range_b) ? end_of(range_a) : end_of(range_b);
    }
    return elem;
}

/* A stack of texts would be large; brackets are found by walking back over the operands instead. */
static void mark_brackets(const struct harness_tree_op *ops, uint32_t op_count, uint32_t *opens)
{
    uint32_t start[HARNESS_TREE_MEMBERS_MAX]; /* first op of each operand on the stack */
    uint32_t depth = 0;

    for (uint32_t i = 0; i < op_count; i++) {
        if (ops[i].kind == HARNESS_TREE_LEAF) {
            DDP_ASSERT(depth < HARNESS_TREE_MEMBERS_MAX);
            start[depth++] = i;
        } else {
            DDP_ASSERT(depth >= ops[i].count && ops[i].count >= 2);
            depth -= ops[i].count - 1u;
        }
        opens[i] = start[depth - 1];
    }
}

void harness_tree_print(const struct harness_tree_map *map, size_t elem, char *out,
                        size_t size_bytes)
{
    static const char brackets[] = "()[]{}";
    const struct harness_tree_range *range = harness_tree_range_at(map, elem);
    const struct harness_tree_op *ops = &map->ops[range->op_first];
    uint32_t opens[2 * HARNESS_TREE_MEMBERS_MAX];
    size_t used = 0;

    DDP_ASSERT(range->op_count < 2 * HARNESS_TREE_MEMBERS_MAX);
    mark_brackets(ops, range->op_count, opens);
    out[0] = '\0';
    for (uint32_t i = 0; i < range->op_count && used + 8 < size_bytes; i++) {
        if (ops[i].kind != HARNESS_TREE_LEAF) {
            out[used++] = brackets[2 * (size_t)ops[i].kind + 1];
            out[used] = '\0';
            continue;
        }
        if (i > 0) {
            out[used++] = ' ';
        }
        for (uint32_t k = range->op_count; k-- > i + 1 && used + 8 < size_bytes;) {
            if (ops[k].kind != HARNESS_TREE_LEAF && opens[k] == i) {
                out[used++] = brackets[2 * (size_t)ops[k].kind];
            }
        }
        used += (size_t)snprintf(out + used, size_bytes - used, "%u", ops[i].count);
    }
}

/* --- all of a run ----------------------------------------------------------------------------- */

void harness_trees_init(struct harness_trees *trees, struct ddp_mem *mem)
{
    *trees = (struct harness_trees){.mem = mem};
}

void harness_trees_fini(struct harness_trees *trees)
{
    for (size_t i = 0; i < trees->map_count; i++) {
        harness_tree_fini(&trees->maps[i]);
    }
    ddp_mem_free(trees->mem, trees->maps);
    harness_trees_init(trees, trees->mem);
}

const struct harness_tree_map *harness_trees_find(const struct harness_trees *trees,
                                                  size_t elem_count, enum ddp_dtype dtype,
                                                  bool is_last)
{
    for (size_t i = 0; i < trees->map_count; i++) {
        const struct harness_tree_map *map = &trees->maps[i];

        if (map->elem_count == elem_count && map->dtype == dtype && map->is_last == is_last) {
            return map;
        }
    }
    return NULL;
}

ddp_status harness_trees_add(struct harness_trees *trees, const struct harness_tree_map *map,
                             uint32_t member_count, struct ddp_err *err)
{
    struct harness_tree_map *maps;

    if (map->member_count != member_count) {
        return ddp_err_set(err, DDP_E_INVALID, "the trees are of %u members, the run has %u",
                           map->member_count, member_count);
    }
    if (harness_trees_find(trees, map->elem_count, map->dtype, map->is_last) != NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "trees of %zu elements of %s are there already",
                           map->elem_count, ddp_dtype_name(map->dtype));
    }
    maps = ddp_mem_grow(trees->mem, trees->maps, trees->map_count, &trees->map_capacity,
                        sizeof(*maps));
    if (maps == NULL) {
        return DDP_E_NOMEM;
    }
    trees->maps = maps;
    trees->maps[trees->map_count++] = *map;
    return DDP_OK;
}

struct tree_folder {
    struct harness_trees *trees;
    uint32_t member_count;
};

static ddp_status take_text(void *context, const char *text, struct ddp_err *err)
{
    const struct tree_folder *folder = context;
    struct harness_tree_map map = {0};
    ddp_status status;

    DDP_TRY(harness_tree_parse(folder->trees->mem, text, &map, err));
    status = harness_trees_add(folder->trees, &map, folder->member_count, err);
    if (status != DDP_OK) {
        harness_tree_fini(&map);
    }
    return status;
}

ddp_status harness_trees_load(struct harness_trees *trees, struct ddp_files *files,
                              const char *folder, uint32_t member_count, struct ddp_err *err)
{
    struct tree_folder context = {trees, member_count};

    return ddp_files_each_text(files, folder, ".txt", trees->mem, take_text, &context, err);
}
