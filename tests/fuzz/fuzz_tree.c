/* Fuzz target: any bytes either parse or are refused with a line and a reason; what parses prints
 * as what it was, equals itself, and adds up without a fault. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sums/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { TEXT_BYTES = 1024, ELEMS_MAX = 64 };

static void check_print(const struct harness_tree_map *map)
{
    for (size_t r = 0; r < map->range_count && r < 64; r++) {
        const struct harness_tree_range *range = &map->ranges[r];
        struct harness_tree_map again;
        struct ddp_err err = {""};
        char tree[TEXT_BYTES];
        char text[2 * TEXT_BYTES];

        harness_tree_print(map, range->first + range->elem_count - 1, tree, sizeof(tree));
        (void)snprintf(text, sizeof(text),
                       "ddprove tree 1\nkind all_reduce\nredop sum\ndtype f32\nelem_count "
                       "1\nmembers %u\nround first\nresult measured\n0 1 %s\n",
                       map->member_count, tree);
        DDP_ASSERT(harness_tree_parse(ddp_mem_system(), text, &again, &err) == DDP_OK);
        DDP_ASSERT(again.op_count == range->op_count);
        DDP_ASSERT(memcmp(again.ops, &map->ops[range->op_first],
                          again.op_count * sizeof(again.ops[0])) == 0);
        harness_tree_fini(&again);
    }
}

static void check_run(const struct harness_tree_map *map)
{
    void *input[HARNESS_TREE_MEMBERS_MAX];
    void *output[HARNESS_TREE_MEMBERS_MAX];
    bool is_known = harness_tree_is_known(map, NULL, 0);

    if (!map->is_measured || map->elem_count > ELEMS_MAX) {
        return;
    }
    for (uint32_t i = 0; i < map->member_count; i++) {
        input[i] = calloc(ELEMS_MAX, sizeof(float));
        output[i] = calloc(ELEMS_MAX, sizeof(float));
        DDP_ASSERT(input[i] != NULL && output[i] != NULL);
        memset(input[i], (int)i, ELEMS_MAX * sizeof(float));
    }
    DDP_ASSERT(harness_tree_run(map, input, output) == (is_known ? DDP_OK : DDP_E_STATE));
    for (uint32_t i = 0; i < map->member_count; i++) {
        free(input[i]);
        free(output[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct harness_tree_map map;
    struct ddp_err err = {""};
    char *text = calloc(size_bytes + 1, 1);

    DDP_ASSERT(text != NULL);
    if (size_bytes > 0) {
        memcpy(text, data, size_bytes);
    }
    if (harness_tree_parse(ddp_mem_system(), text, &map, &err) == DDP_OK) {
        DDP_ASSERT(!map.is_measured || harness_tree_compare(&map, &map) == map.elem_count);
        check_print(&map);
        check_run(&map);
        harness_tree_fini(&map);
    } else {
        DDP_ASSERT(strncmp(err.text, "line ", 5) == 0 && map.ranges == NULL && map.ops == NULL);
    }
    free(text);
    return 0;
}
