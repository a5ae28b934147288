/* Probes' results are kept as runs of equal elements, so that memory follows the number of
 * different ranges, not of elements. */
#include "harness/rank/probe_map.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* With more runs or ranges than this the result is "unknown": it would not describe the sum in any
 * useful way. */
#define RUNS_MAX   (UINT32_C(1) << 22)
#define RANGES_MAX (UINT32_C(1) << 15)

/* What an element of a probe came to; else the number of units. */
enum { CODE_NONFINITE = -1, CODE_PLUS = -2, CODE_MINUS = -3, CODE_OTHER = -4 };

struct harness_probe_run {
    size_t first;
    int16_t code;
};

/* M and the unit: sums of units are exact, and M absorbs them in the type and in wider ones that a
 * device may add in (fp32 for 16-bit types, fp64). */
struct scale {
    enum ddp_dtype dtype;
    uint32_t member_limit;
    float big, unit;
    int precision, wide_precision; /* significand bits of the type, and of the next wider one */
};
static const struct scale scales[] = {
    {DDP_DTYPE_F32, 64, 0x1p100f, 1.0f, 24, 53},
    {DDP_DTYPE_BF16, 64, 0x1p100f, 1.0f, 8, 24},
    {DDP_DTYPE_F16, 16, 0x1p15f, 0x1p-14f, 11, 24},
};

/* 2^12 leaves room below for what fp32 loses, without subnormal halves. */
#define WIDTH_BIG   0x1p12f
#define WIDTH_KINDS 4u
/* The last kind: what is lost twice, at a node and at its parent, comes back if the sum is
 * compensated (Kahan), which no tree says. */
#define WIDTH_LOST_TWICE 3u
#define WIDTH_KEPT       ((1u << WIDTH_LOST_TWICE) - 1)

static const struct scale *find_scale(enum ddp_dtype dtype)
{
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        if (scales[i].dtype == dtype) {
            return &scales[i];
        }
    }
    return NULL;
}

/* A map is of a type that has one. */
static const struct scale *scale_of(enum ddp_dtype dtype)
{
    const struct scale *scale = find_scale(dtype);

    DDP_ASSERT(scale != NULL);
    return scale;
}

uint32_t harness_probe_member_limit(enum ddp_dtype dtype)
{
    const struct scale *scale = find_scale(dtype);

    return scale == NULL ? 0 : scale->member_limit;
}

static void store(enum ddp_dtype dtype, void *data, size_t i, float value)
{
    const uint16_t half =
        dtype == DDP_DTYPE_F16 ? ddp_f16_from_f32(value) : ddp_bf16_from_f32(value);
    const size_t size_bytes = ddp_dtype_size_bytes(dtype);
    unsigned char *element = (unsigned char *)data + i * size_bytes;

    memcpy(element, dtype == DDP_DTYPE_F32 ? (const void *)&value : &half, size_bytes);
}

static float load(enum ddp_dtype dtype, const void *data, size_t i)
{
    const unsigned char *element = (const unsigned char *)data + i * ddp_dtype_size_bytes(dtype);
    uint16_t half;
    float value;

    if (dtype == DDP_DTYPE_F32) {
        memcpy(&value, element, sizeof value);
        return value;
    }
    memcpy(&half, element, sizeof half);
    return dtype == DDP_DTYPE_F16 ? ddp_f16_to_f32(half) : ddp_bf16_to_f32(half);
}

ddp_status harness_probe_map_init(struct harness_probe_map *map, struct ddp_mem *mem,
                                  uint32_t member_count, enum ddp_dtype dtype, size_t elem_count)
{
    *map = (struct harness_probe_map){.mem = mem,
                                      .member_count = member_count,
                                      .elem_count = elem_count,
                                      .dtype = dtype,
                                      .pair_count = member_count * (member_count - 1) / 2};
    DDP_ASSERT(member_count >= 2 && member_count <= harness_probe_member_limit(dtype));
    map->rows = ddp_mem_array(mem, map->pair_count, sizeof map->rows[0]);
    return map->rows == NULL ? DDP_E_NOMEM : DDP_OK;
}

void harness_probe_map_fini(struct harness_probe_map *map)
{
    for (uint32_t pair = 0; map->rows != NULL && pair < map->pair_count; pair++) {
        ddp_mem_free(map->mem, map->rows[pair].runs);
    }
    if (map->mem != NULL) {
        ddp_mem_free(map->mem, map->rows);
        ddp_mem_free(map->mem, map->ranges);
    }
    *map = (struct harness_probe_map){0};
}

/* The first reason stays. */
static void fail(struct harness_probe_map *map, enum harness_probe_result result, uint64_t members,
                 const char *format, ...) DDP_PRINTF(4, 5);
static void fail(struct harness_probe_map *map, enum harness_probe_result result, uint64_t members,
                 const char *format, ...)
{
    va_list args;

    if (map->result != HARNESS_PROBE_MEASURED) {
        return;
    }
    map->result = result;
    map->members = members;
    va_start(args, format);
    (void)vsnprintf(map->text, sizeof map->text, format, args);
    va_end(args);
}

/* --- pairs ------------------------------------------------------------------------------------ */

void harness_probe_map_fill(const struct harness_probe_map *map, uint32_t i, uint32_t j,
                            uint32_t member, void *data)
{
    const struct scale *scale = scale_of(map->dtype);
    float value = scale->unit;

    if (member == i || member == j) {
        value = member == i ? scale->big : -scale->big;
    }
    for (size_t k = 0; k < map->elem_count; k++) {
        store(map->dtype, data, k, value);
    }
}

static int16_t code_of(const struct harness_probe_map *map, const struct scale *scale, float value)
{
    float units = value / scale->unit;

    if (!isfinite(value)) {
        return CODE_NONFINITE;
    }
    if (fabsf(value) >= scale->big) {
        return value > 0.0f ? CODE_PLUS : CODE_MINUS;
    }
    if (units < 0.0f || units > (float)(map->member_count - 2) || truncf(units) < units) {
        return CODE_OTHER;
    }
    return (int16_t)units;
}

static ddp_status add_run(struct harness_probe_map *map, struct harness_probe_row *row,
                          size_t first, int16_t code)
{
    struct harness_probe_run *runs;

    if (++map->run_count > RUNS_MAX) {
        fail(map, HARNESS_PROBE_UNKNOWN, 0, "more than %u ranges", RUNS_MAX);
        return DDP_OK;
    }
    runs = ddp_mem_grow(map->mem, row->runs, row->count, &row->capacity, sizeof *runs);
    if (runs == NULL) {
        return DDP_E_NOMEM;
    }
    row->runs = runs;
    row->runs[row->count++] = (struct harness_probe_run){first, code};
    return DDP_OK;
}

ddp_status harness_probe_map_take(struct harness_probe_map *map, uint32_t pair, const void *data)
{
    const struct scale *scale = scale_of(map->dtype);
    int16_t last = 0;

    for (size_t k = 0; k < map->elem_count; k++) {
        int16_t code = code_of(map, scale, load(map->dtype, data, k));

        if (k == 0 || code != last) {
            DDP_TRY(add_run(map, &map->rows[pair], k, code));
        }
        last = code;
    }
    return DDP_OK;
}

/* --- ranges ----------------------------------------------------------------------------------- */

static uint32_t pair_number(uint32_t member_count, uint32_t i, uint32_t j)
{
    uint32_t low = i < j ? i : j;
    uint32_t high = i < j ? j : i;

    return low * (2 * member_count - low - 1) / 2 + (high - low - 1);
}

/* Every probe of a pair with this member ended in M of the same sign, relative to the member's own
 * M. If its contribution is missing, the other's M is left; if it came twice, its own is. */
static bool is_always(const struct harness_probe_map *map, const int16_t *codes, uint32_t member,
                      bool is_own)
{
    for (uint32_t other = 0; other < map->member_count; other++) {
        bool is_positive = (member < other) == is_own;

        if (other != member && codes[pair_number(map->member_count, member, other)] !=
                                   (is_positive ? CODE_PLUS : CODE_MINUS)) {
            return false;
        }
    }
    return true;
}

/* Probes of pairs without this member left one unit, its own. A member that comes twice leaves more
 * in some pair, as the pair that meets first loses its own two alone; three members have only one
 * such pair, which may lose a unit of it, and a range not reduced is what it is called then. */
static bool is_alone(const struct harness_probe_map *map, const int16_t *codes, uint32_t member)
{
    uint32_t n = map->member_count;
    bool is_one = n > 2;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; i != member && j < n; j++) {
            is_one = is_one && (j == member || codes[pair_number(n, i, j)] == 1);
        }
    }
    return is_one && is_always(map, codes, member, true);
}

/* Find out why a value in elements [first, first + elem_count) is no sum of all contributions. */
static void diagnose(struct harness_probe_map *map, const int16_t *codes, size_t first,
                     size_t elem_count)
{
    uint64_t all = map->member_count >= 64 ? UINT64_MAX : (UINT64_C(1) << map->member_count) - 1;

    for (uint32_t pair = 0; pair < map->pair_count; pair++) {
        if (codes[pair] == CODE_NONFINITE) {
            fail(map, HARNESS_PROBE_NONFINITE, 0, "the sum in element %zu is not finite", first);
        }
    }
    for (uint32_t r = 0; r < map->member_count; r++) {
        if (is_always(map, codes, r, false)) {
            fail(map, HARNESS_PROBE_LOST, UINT64_C(1) << r,
                 "element %zu lacks the contribution of member %" PRIu32, first, r);
        }
    }
    for (uint32_t r = 0; r < map->member_count; r++) {
        if (is_alone(map, codes, r)) {
            fail(map, HARNESS_PROBE_LOST, all & ~(UINT64_C(1) << r),
                 "elements %zu to %zu were not reduced: they hold the contribution of member "
                 "%" PRIu32 " alone",
                 first, first + elem_count - 1, r);
        }
    }
    /* Checked last: of two members, "one twice" and "the other lost" give the same values. */
    for (uint32_t r = 0; r < map->member_count; r++) {
        if (is_always(map, codes, r, true)) {
            fail(map, HARNESS_PROBE_DUPLICATED, UINT64_C(1) << r,
                 "element %zu holds the contribution of member %" PRIu32 " twice", first, r);
        }
    }
    fail(map, HARNESS_PROBE_VALUE, 0, "element %zu is no sum of all contributions", first);
}

static ddp_status add_range(struct harness_probe_map *map, size_t first, size_t elem_count,
                            const struct harness_probe_tree *tree)
{
    struct harness_probe_range *ranges;

    if (map->range_count > 0 &&
        harness_probe_tree_is_equal(&map->ranges[map->range_count - 1].tree, tree)) {
        map->ranges[map->range_count - 1].elem_count += elem_count;
        return DDP_OK;
    }
    if (map->range_count == RANGES_MAX) {
        fail(map, HARNESS_PROBE_UNKNOWN, 0, "more than %u ranges", RANGES_MAX);
        return DDP_OK;
    }
    ranges =
        ddp_mem_grow(map->mem, map->ranges, map->range_count, &map->range_capacity, sizeof *ranges);
    if (ranges == NULL) {
        return DDP_E_NOMEM;
    }
    map->ranges = ranges;
    map->ranges[map->range_count++] =
        (struct harness_probe_range){.first = first, .elem_count = elem_count, .tree = *tree};
    return DDP_OK;
}

static ddp_status solve_range(struct harness_probe_map *map, const int16_t *codes, size_t first,
                              size_t elem_count)
{
    uint32_t n = map->member_count;
    uint8_t loss[HARNESS_PROBE_MEMBERS_MAX * HARNESS_PROBE_MEMBERS_MAX] = {0};
    struct harness_probe_tree tree;
    uint32_t ways;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n; j++) {
            int16_t code = codes[pair_number(n, i, j)];

            if (code < 0) {
                diagnose(map, codes, first, elem_count);
                return DDP_OK;
            }
            loss[i * n + j] = (uint8_t)((int32_t)n - code);
            loss[j * n + i] = loss[i * n + j];
        }
    }
    ways = harness_probe_tree_build(loss, n, &tree);
    if (ways != 1) {
        fail(map, ways == 0 ? HARNESS_PROBE_ORDER : HARNESS_PROBE_UNKNOWN, 0,
             ways == 0 ? "element %zu was not summed in one order"
                       : "what probes left of element %zu fits several orders",
             first);
        return DDP_OK;
    }
    return add_range(map, first, elem_count, &tree);
}

/* The codes of all pairs at `first`; returns the first element behind it that differs in any. */
static size_t read_codes(const struct harness_probe_map *map, size_t *cursors, size_t first,
                         int16_t *codes)
{
    size_t end = map->elem_count;

    for (uint32_t pair = 0; pair < map->pair_count; pair++) {
        const struct harness_probe_row *row = &map->rows[pair];

        while (cursors[pair] + 1 < row->count && row->runs[cursors[pair] + 1].first <= first) {
            cursors[pair]++;
        }
        codes[pair] = row->runs[cursors[pair]].code;
        if (cursors[pair] + 1 < row->count && row->runs[cursors[pair] + 1].first < end) {
            end = row->runs[cursors[pair] + 1].first;
        }
    }
    return end;
}

ddp_status harness_probe_map_solve(struct harness_probe_map *map)
{
    size_t *cursors = ddp_mem_array(map->mem, map->pair_count, sizeof cursors[0]);
    int16_t *codes = ddp_mem_array(map->mem, map->pair_count, sizeof codes[0]);
    ddp_status status = cursors == NULL || codes == NULL ? DDP_E_NOMEM : DDP_OK;
    size_t first = 0;

    while (status == DDP_OK && map->result == HARNESS_PROBE_MEASURED && first < map->elem_count) {
        size_t end = read_codes(map, cursors, first, codes);

        status = solve_range(map, codes, first, end - first);
        first = end;
    }
    ddp_mem_free(map->mem, codes);
    ddp_mem_free(map->mem, cursors);
    return status;
}

/* --- width ------------------------------------------------------------------------------------ */

uint32_t harness_probe_width_count(const struct harness_probe_map *map)
{
    return WIDTH_KINDS * (map->member_count - 2);
}

/* What the node adds to 2^12: less than the type keeps; what the wider type just keeps; what it
 * just loses; half of what the type just keeps. */
static float little(const struct harness_probe_map *map, uint32_t kind)
{
    const struct scale *scale = scale_of(map->dtype);
    const int exponents[WIDTH_KINDS] = {-(scale->precision + 1), -(scale->wide_precision - 1),
                                        -(scale->wide_precision + 1), -scale->precision};

    return ldexpf(WIDTH_BIG, exponents[kind]);
}

/* The inner node that a probe is about; the root is rounded by definition. False: there is none. */
static bool node_of(const struct harness_probe_map *map, const struct harness_probe_range *range,
                    uint32_t index, uint32_t *out_node)
{
    *out_node = map->member_count + index / WIDTH_KINDS;
    return *out_node + 1 < range->tree.node_count;
}

void harness_probe_map_fill_width(const struct harness_probe_map *map, uint32_t index,
                                  uint32_t member, void *data)
{
    for (size_t r = 0; r < map->range_count; r++) {
        const struct harness_probe_range *range = &map->ranges[r];
        uint32_t node;
        uint32_t a = UINT32_MAX;
        uint32_t b = UINT32_MAX;
        uint32_t c = UINT32_MAX;
        float value = 0.0f;

        if (node_of(map, range, index, &node)) {
            harness_probe_tree_triple(&range->tree, node, &a, &b, &c);
        }
        if (member == a || member == c) {
            value = member == a ? WIDTH_BIG : -WIDTH_BIG;
        }
        if (member == b || (member == c && index % WIDTH_KINDS == WIDTH_LOST_TWICE)) {
            value = little(map, index % WIDTH_KINDS);
        }
        for (size_t k = 0; k < range->elem_count; k++) {
            store(map->dtype, data, range->first + k, value);
        }
    }
}

void harness_probe_map_take_width(struct harness_probe_map *map, uint32_t index, const void *data)
{
    bool is_twice = index % WIDTH_KINDS == WIDTH_LOST_TWICE;
    float kept = little(map, index % WIDTH_KINDS);

    for (size_t r = 0; r < map->range_count; r++) {
        struct harness_probe_range *range = &map->ranges[r];
        uint32_t node;
        uint32_t bit = 1u << (index % WIDTH_KINDS);

        if (!node_of(map, range, index, &node)) {
            continue;
        }
        for (size_t k = range->first; k < range->first + range->elem_count; k++) {
            float value = load(map->dtype, data, k);
            float lost = is_twice ? WIDTH_BIG : 0.0f; /* what is left then */
            bool is_kept = is_twice ? value > lost : !(value < kept) && !(value > kept);

            if (!is_kept && !(fabsf(value - lost) <= 0.0f)) {
                fail(map, HARNESS_PROBE_VALUE, 0, "element %zu is no sum of all contributions", k);
            } else if (k > range->first && is_kept != ((range->kept[node] & bit) != 0)) {
                fail(map, HARNESS_PROBE_ORDER, 0, "elements %zu and %zu are rounded differently",
                     range->first, k);
            }
            range->kept[node] |= is_kept ? (uint8_t)bit : 0;
        }
    }
}

void harness_probe_map_solve_width(struct harness_probe_map *map)
{
    for (size_t r = 0; r < map->range_count; r++) {
        struct harness_probe_tree *tree = &map->ranges[r].tree;

        for (uint32_t node = map->member_count; node + 1 < tree->node_count; node++) {
            uint8_t kept = map->ranges[r].kept[node];

            if ((kept & WIDTH_KEPT) == 3u && tree->kind[node] == HARNESS_PROBE_ROUNDED) {
                tree->kind[node] = HARNESS_PROBE_WIDE;
            } else if (kept != 0) {
                tree->kind[node] = HARNESS_PROBE_OPAQUE;
            }
        }
    }
}
