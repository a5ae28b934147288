/* Tiles: the ranges of a buffer whose elements every step treats alike. Part of the proof; not for
 * oracles, which use schedule_set.h. */
#ifndef HARNESS_SUMS_SCHEDULE_TILE_H
#define HARNESS_SUMS_SCHEDULE_TILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_tile {
    size_t first;    /* its first element; it ends where the next one begins */
    bool is_defined; /* somebody wrote it; what follows says what it holds then: */
    uint64_t weight; /* sum over contributions of their rank's weight */
    size_t origin;   /* input element that its first element came from */
};

/* All tiles of one buffer of one rank, in order and without gaps: at least one. */
struct harness_tile_row {
    struct harness_tile *tiles;
    size_t count, capacity;
    size_t elem_count; /* of the buffer */
    size_t last;       /* the tile that was found last: the next one sought is often beside it */
};

/* One undefined tile over the whole buffer. Errors: E_NOMEM; _fini is right after both. */
DDP_MUST_USE ddp_status harness_tile_row_init(struct harness_tile_row *row, struct ddp_mem *mem,
                                              size_t elem_count);
void harness_tile_row_fini(struct harness_tile_row *row, struct ddp_mem *mem);
/* Index of the tile that holds element `at`; at == elem_count: the last one. */
size_t harness_tile_at(struct harness_tile_row *row, size_t at);
/* The element behind the tile's last one. */
size_t harness_tile_end(const struct harness_tile_row *row, size_t index);
/* A tile begins at element `at` from now on (nothing to do behind the last element). Only while all
 * are undefined. *out_is_new: set if none began there. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_tile_cut(struct harness_tile_row *row, struct ddp_mem *mem,
                                         size_t at, bool *out_is_new);
/* Cuts the elem_count elements of `to` wherever those of `from` are cut. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_tile_copy_cuts(struct harness_tile_row *from, size_t from_first,
                                               struct harness_tile_row *to, size_t to_first,
                                               size_t elem_count, struct ddp_mem *mem,
                                               bool *out_is_new);

#ifdef __cplusplus
}
#endif
#endif
