/* Lists of numbers and sets of ranks, of any length.
 *
 * Both are values: they are copied by assignment, and adding to a copy never changes the original.
 * The numbers lie in blocks of a `struct ddp_mem`. Copies share a block; adding writes only behind
 * what any copy holds, else into a new block. Blocks are never freed one by one: take the memory
 * from a pool, such as a plan's or a cell's. Only an exact copy, to which nothing is added, may lie
 * anywhere and be freed.
 * Why not a bitmap of fixed size: a finding names as many ranks and parameters as there are, and
 * most name one or two. */
#ifndef HARNESS_VERDICT_SET_H
#define HARNESS_VERDICT_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_list_block;
/* Numbers in the order in which they were added. Zeroed: empty, and nothing can be added. */
struct harness_list {
    struct ddp_mem *mem;
    struct harness_list_block *block; /* NULL: nothing was added yet */
    uint32_t count;
    bool is_failed; /* out of memory: something is missing */
};
struct harness_list harness_list_in(struct ddp_mem *mem);
void harness_list_add(struct harness_list *list, uint32_t number);
void harness_list_clear(struct harness_list *list);
bool harness_list_has(const struct harness_list *list, uint32_t number);
/* index < count */
uint32_t harness_list_at(const struct harness_list *list, uint32_t index);
/* A copy that shares nothing. */
struct harness_list harness_list_copy(const struct harness_list *list, struct ddp_mem *mem);
/* Of a list that shares nothing, in memory that is no pool. */
void harness_list_free(struct harness_list *list);

/* Readers of files refuse larger worlds, so that a damaged number asks for no huge table. */
#define HARNESS_WORLD_MAX (1u << 20)

/* A set of ranks. Zeroed: empty, and nothing can be added. */
struct harness_rank_set {
    struct harness_list ranks; /* rising */
};
/* An empty set in mem. */
struct harness_rank_set harness_rank_set_in(struct ddp_mem *mem);
void harness_rank_set_add(struct harness_rank_set *set, uint32_t rank);
void harness_rank_set_clear(struct harness_rank_set *set);
void harness_rank_set_add_all(struct harness_rank_set *set, const struct harness_rank_set *other);
bool harness_rank_set_has(const struct harness_rank_set *set, uint32_t rank);
bool harness_rank_set_is_empty(const struct harness_rank_set *set);
bool harness_rank_set_is_equal(const struct harness_rank_set *a, const struct harness_rank_set *b);
bool harness_rank_set_is_subset(const struct harness_rank_set *a,
                                const struct harness_rank_set *of);
/* Some rank is in both. */
bool harness_rank_set_is_common(const struct harness_rank_set *a, const struct harness_rank_set *b);
uint32_t harness_rank_set_count(const struct harness_rank_set *set);
/* The ranks in rising order; index < count. */
uint32_t harness_rank_set_at(const struct harness_rank_set *set, uint32_t index);

/* A text names so many ranks or parameters of a set, and counts the others. */
#define HARNESS_NAMED_MAX 8
/* "0,2,5", "0,1,2,3,4,5,6,7 and 36 more", "none". At most HARNESS_RANKS_TEXT_BYTES. */
#define HARNESS_RANKS_TEXT_BYTES 112
const char *harness_rank_set_text(const struct harness_rank_set *set,
                                  char out[HARNESS_RANKS_TEXT_BYTES]);

#ifdef __cplusplus
}
#endif
#endif
