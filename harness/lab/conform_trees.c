/* Purpose: in which tree each element was added, found out by probes as a running job does
 * (harness/rank/probe_map.h), and what is wrong where there is none. */
#include <stdio.h>
#include <string.h>

#include "harness/lab/conforming.h"
#include "harness/rank/probe_map.h"

enum { TREE_WORLD_MAX = 16, TREE_COUNTS = 3 };

static enum harness_conform_property property_of(enum harness_probe_result result)
{
    return result == HARNESS_PROBE_MEMBERS ? HARNESS_CONFORM_SAME_BITS : HARNESS_CONFORM_TREES;
}

/* One all-reduce of what lies ready. False: it ended badly, which is judged. */
static bool reduce(struct harness_conforming *run, struct harness_probe_map *map)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end = harness_conform_try(run, false, &wrong);

    if (end == HARNESS_TRIAL_BADLY) {
        harness_conform_judge(run, HARNESS_CONFORM_TREES, &wrong);
    }
    if (end == HARNESS_TRIAL_WELL && map->result == HARNESS_PROBE_MEASURED &&
        !harness_lab_judge_same(shared, &wrong)) {
        map->result = HARNESS_PROBE_MEMBERS;
        map->members = UINT64_C(1) << wrong.rank;
        (void)snprintf(map->text, sizeof map->text, "%.150s", wrong.text);
    }
    return end == HARNESS_TRIAL_WELL;
}

static bool measure_pairs(struct harness_conforming *run, struct harness_probe_map *map)
{
    struct harness_lab_shared *shared = run->team.shared;
    uint32_t pair = 0;

    for (uint32_t i = 0; i < map->member_count; i++) {
        for (uint32_t j = i + 1; j < map->member_count; j++) {
            for (uint32_t r = 0; r < map->member_count; r++) {
                harness_probe_map_fill(map, i, j, r,
                                       harness_lab_area(shared, r, HARNESS_LAB_INPUT));
            }
            if (!reduce(run, map) ||
                harness_probe_map_take(
                    map, pair++, harness_lab_area(shared, 0, HARNESS_LAB_EXPECTED)) != DDP_OK) {
                return false;
            }
        }
    }
    return true;
}

static bool measure_widths(struct harness_conforming *run, struct harness_probe_map *map)
{
    struct harness_lab_shared *shared = run->team.shared;

    for (uint32_t w = 0; w < harness_probe_width_count(map); w++) {
        for (uint32_t r = 0; r < map->member_count; r++) {
            harness_probe_map_fill_width(map, w, r, harness_lab_area(shared, r, HARNESS_LAB_INPUT));
        }
        if (!reduce(run, map)) {
            return false;
        }
        harness_probe_map_take_width(map, w, harness_lab_area(shared, 0, HARNESS_LAB_EXPECTED));
    }
    harness_probe_map_solve_width(map);
    return true;
}

/* Of a map without trees: why. */
static void judge_unmeasured(struct harness_conforming *run, const struct harness_probe_map *map)
{
    struct harness_lab_wrong wrong = {.rank = UINT32_MAX, .elem = SIZE_MAX};

    for (uint32_t r = 0; r < map->member_count && wrong.rank == UINT32_MAX; r++) {
        wrong.rank = (map->members >> r & 1u) != 0 ? r : UINT32_MAX;
    }
    (void)snprintf(wrong.text, sizeof wrong.text, "%s: %s", harness_probe_result_name(map->result),
                   map->text);
    if (map->result != HARNESS_PROBE_UNKNOWN) {
        harness_conform_judge(run, property_of(map->result), &wrong);
    }
}

/* Is there one tree, for all elements and as for the count before? */
static void judge_order(struct harness_conforming *run, const struct harness_probe_map *map,
                        struct harness_probe_tree *first, size_t *first_count)
{
    struct harness_lab_wrong wrong = {.rank = UINT32_MAX, .elem = SIZE_MAX};
    bool is_other = *first_count > 0 && !harness_probe_tree_is_equal(first, &map->ranges[0].tree);

    if (map->range_count > 1) {
        wrong.elem = map->ranges[1].first;
        (void)snprintf(wrong.text, sizeof wrong.text,
                       "elements from %zu on are added in another order than those before",
                       map->ranges[1].first);
    } else if (is_other) {
        (void)snprintf(wrong.text, sizeof wrong.text,
                       "%zu elements are added in another order than %zu", map->elem_count,
                       *first_count);
    }
    harness_conform_judge(run, HARNESS_CONFORM_SAME_ORDER, wrong.text[0] != '\0' ? &wrong : NULL);
    if (*first_count == 0) {
        *first = map->ranges[0].tree;
        *first_count = map->elem_count;
    }
}

/* "elements 0 to 3: ((0 1) 2)", a line a tree. */
static void keep_trees(struct harness_conforming *run, const struct harness_probe_map *map)
{
    struct ddp_text text;

    ddp_text_init_fixed(&text, run->report->tree, sizeof run->report->tree);
    run->report->tree[0] = '\0';
    run->report->tree_world = map->member_count;
    for (size_t i = 0; i < map->range_count && !text.is_failed; i++) {
        struct ddp_text one;

        ddp_text_init(&one, ddp_mem_system());
        harness_probe_tree_print(&map->ranges[i].tree, &one);
        ddp_text_add(&text, "  elements %zu to %zu: %s\n", map->ranges[i].first,
                     map->ranges[i].first + map->ranges[i].elem_count - 1, ddp_text_str(&one));
        ddp_text_fini(&one);
    }
}

void harness_conform_trees(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    uint32_t world = shared->request.ranks;
    const size_t counts[TREE_COUNTS] = {1, world + 1, 4 * (size_t)world + 3};
    struct harness_probe_tree first;
    size_t first_count = 0;

    for (size_t i = 0; i < (size_t)TREE_COUNTS && world <= (uint32_t)TREE_WORLD_MAX; i++) {
        size_t count = harness_conform_count(run, counts[i]);
        struct harness_probe_map map;

        harness_conform_set_trial(run, count);
        run->status = harness_probe_map_init(&map, ddp_mem_system(), world, DDP_DTYPE_F32, count);
        if (run->status == DDP_OK && measure_pairs(run, &map)) {
            run->status =
                map.result == HARNESS_PROBE_MEASURED ? harness_probe_map_solve(&map) : DDP_OK;
            if (map.result == HARNESS_PROBE_MEASURED && measure_widths(run, &map) &&
                map.result == HARNESS_PROBE_MEASURED) {
                harness_conform_judge(run, HARNESS_CONFORM_TREES, NULL);
                judge_order(run, &map, &first, &first_count);
                keep_trees(run, &map);
            }
        }
        if (map.result != HARNESS_PROBE_MEASURED) {
            judge_unmeasured(run, &map);
        }
        harness_probe_map_fini(&map);
        if (run->report->result[HARNESS_CONFORM_TREES].text[0] != '\0') {
            return;
        }
    }
}
