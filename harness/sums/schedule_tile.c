/* Purpose: keep the tiles of a buffer: find one, cut one in two.
 * Idea: a sorted array; there are few tiles, and all cuts come before any search for contents. */
#include "harness/sums/schedule_tile.h"

#include <string.h>

ddp_status harness_tile_row_init(struct harness_tile_row *row, struct ddp_mem *mem,
                                 size_t elem_count)
{
    *row = (struct harness_tile_row){.count = 1, .capacity = 8, .elem_count = elem_count};
    row->tiles = ddp_mem_array(mem, row->capacity, sizeof(*row->tiles));
    return row->tiles == NULL ? DDP_E_NOMEM : DDP_OK;
}

void harness_tile_row_fini(struct harness_tile_row *row, struct ddp_mem *mem)
{
    ddp_mem_free(mem, row->tiles);
    row->tiles = NULL;
}

static bool holds(const struct harness_tile_row *row, size_t index, size_t at)
{
    return index < row->count && row->tiles[index].first <= at &&
           (index + 1 == row->count || at < row->tiles[index + 1].first);
}

size_t harness_tile_at(struct harness_tile_row *row, size_t at)
{
    size_t low = 0;
    size_t high = row->count;

    DDP_ASSERT(at <= row->elem_count && row->tiles[0].first == 0);
    for (size_t near = row->last > 0 ? row->last - 1 : 0; near <= row->last + 1; near++) {
        if (holds(row, near, at)) {
            row->last = near;
            return near;
        }
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (row->tiles[middle].first <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    row->last = low;
    return low;
}

size_t harness_tile_end(const struct harness_tile_row *row, size_t index)
{
    DDP_ASSERT(index < row->count);
    return index + 1 < row->count ? row->tiles[index + 1].first : row->elem_count;
}

ddp_status harness_tile_cut(struct harness_tile_row *row, struct ddp_mem *mem, size_t at,
                            bool *out_is_new)
{
    struct harness_tile *grown;
    size_t index;

    DDP_ASSERT(at <= row->elem_count);
    if (at == row->elem_count || row->tiles[index = harness_tile_at(row, at)].first == at) {
        return DDP_OK;
    }
    /* The second half of a defined tile would need an origin of its own. */
    DDP_ASSERT(!row->tiles[index].is_defined);
    grown = ddp_mem_grow(mem, row->tiles, row->count, &row->capacity, sizeof(*grown));
    if (grown == NULL) {
        return DDP_E_NOMEM;
    }
    row->tiles = grown;
    memmove(&row->tiles[index + 2], &row->tiles[index + 1],
            (row->count - index - 1) * sizeof(*row->tiles));
    row->tiles[index + 1] = row->tiles[index];
    row->tiles[index + 1].first = at;
    row->count++;
    DDP_ASSERT(row->tiles[index].first < at && at < harness_tile_end(row, index + 1));
    *out_is_new = true;
    return DDP_OK;
}

ddp_status harness_tile_copy_cuts(struct harness_tile_row *from, size_t from_first,
                                  struct harness_tile_row *to, size_t to_first, size_t elem_count,
                                  struct ddp_mem *mem, bool *out_is_new)
{
    DDP_ASSERT(elem_count <= from->elem_count - from_first);
    DDP_ASSERT(elem_count <= to->elem_count - to_first);
    for (size_t i = harness_tile_at(from, from_first);
         i < from->count && from->tiles[i].first < from_first + elem_count; i++) {
        if (from->tiles[i].first > from_first) {
            DDP_TRY(harness_tile_cut(to, mem, from->tiles[i].first - from_first + to_first,
                                     out_is_new));
        }
    }
    return DDP_OK;
}
