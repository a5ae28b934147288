/* Lists of numbers and sets of ranks. */
#include "harness/verdict/set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct harness_list_block {
    uint32_t used; /* of all lists that share the block, the longest count */
    uint32_t capacity;
    uint32_t number[];
};

#define CAPACITY_FIRST 6u /* a first block is 32 bytes */

struct harness_list harness_list_in(struct ddp_mem *mem)
{
    DDP_ASSERT(mem != NULL);
    return (struct harness_list){.mem = mem};
}

static struct harness_list_block *new_block(struct ddp_mem *mem, uint32_t capacity)
{
    struct harness_list_block *block;

    DDP_ASSERT(mem != NULL); /* made by harness_list_in */
    block = mem->alloc(mem, sizeof *block + (size_t)capacity * sizeof block->number[0]);
    if (block != NULL) {
        block->capacity = capacity;
    }
    return block;
}

/* Put a number in front of those from `index` on. What other lists see stays as it is. */
static void insert(struct harness_list *list, uint32_t index, uint32_t number)
{
    struct harness_list_block *old = list->block;
    struct harness_list_block *block = old;

    DDP_ASSERT(index <= list->count);
    DDP_ASSERT(list->count < UINT32_MAX / 2);
    if (old == NULL || index < list->count || old->used != list->count ||
        old->used == old->capacity) {
        block = new_block(list->mem, list->count == 0 ? CAPACITY_FIRST : 2 * list->count);
        if (block == NULL) {
            list->is_failed = true;
            return;
        }
        if (old != NULL) {
            memcpy(block->number, old->number, index * sizeof(uint32_t));
            memcpy(block->number + index + 1, old->number + index,
                   (list->count - index) * sizeof(uint32_t));
        }
    }
    block->number[index] = number;
    list->block = block;
    block->used = ++list->count;
    DDP_ASSERT(block->used <= block->capacity);
}

void harness_list_add(struct harness_list *list, uint32_t number)
{
    insert(list, list->count, number);
}

void harness_list_clear(struct harness_list *list)
{
    list->block = NULL;
    list->count = 0;
}

uint32_t harness_list_at(const struct harness_list *list, uint32_t index)
{
    DDP_ASSERT(index < list->count);
    return list->block->number[index];
}

bool harness_list_has(const struct harness_list *list, uint32_t number)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->block->number[i] == number) {
            return true;
        }
    }
    return false;
}

struct harness_list harness_list_copy(const struct harness_list *list, struct ddp_mem *mem)
{
    struct harness_list copy = harness_list_in(mem);

    copy.is_failed = list->is_failed;
    if (list->count == 0) {
        return copy;
    }
    copy.block = new_block(mem, list->count);
    if (copy.block == NULL) {
        copy.is_failed = true;
        return copy;
    }
    memcpy(copy.block->number, list->block->number, list->count * sizeof(uint32_t));
    copy.count = list->count;
    copy.block->used = list->count;
    return copy;
}

void harness_list_free(struct harness_list *list)
{
    if (list->mem != NULL) {
        ddp_mem_free(list->mem, list->block);
    }
    *list = (struct harness_list){.mem = list->mem};
}

struct harness_rank_set harness_rank_set_in(struct ddp_mem *mem)
{
    return (struct harness_rank_set){harness_list_in(mem)};
}

/* Index of the first rank that is not below `rank`. */
static uint32_t place_of(const struct harness_rank_set *set, uint32_t rank)
{
    uint32_t low = 0;
    uint32_t high = set->ranks.count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (set->ranks.block->number[middle] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void harness_rank_set_add(struct harness_rank_set *set, uint32_t rank)
{
    uint32_t place = place_of(set, rank);

    if (place == set->ranks.count || harness_list_at(&set->ranks, place) != rank) {
        insert(&set->ranks, place, rank);
    }
}

void harness_rank_set_clear(struct harness_rank_set *set)
{
    harness_list_clear(&set->ranks);
}

void harness_rank_set_add_all(struct harness_rank_set *set, const struct harness_rank_set *other)
{
    for (uint32_t i = 0; i < other->ranks.count; i++) {
        harness_rank_set_add(set, harness_rank_set_at(other, i));
    }
}

bool harness_rank_set_has(const struct harness_rank_set *set, uint32_t rank)
{
    uint32_t place = place_of(set, rank);

    return place < set->ranks.count && harness_list_at(&set->ranks, place) == rank;
}

bool harness_rank_set_is_empty(const struct harness_rank_set *set)
{
    return set->ranks.count == 0;
}

bool harness_rank_set_is_equal(const struct harness_rank_set *a, const struct harness_rank_set *b)
{
    return a->ranks.count == b->ranks.count && harness_rank_set_is_subset(a, b);
}

bool harness_rank_set_is_subset(const struct harness_rank_set *a, const struct harness_rank_set *of)
{
    for (uint32_t i = 0; i < a->ranks.count; i++) {
        if (!harness_rank_set_has(of, harness_rank_set_at(a, i))) {
            return false;
        }
    }
    return true;
}

bool harness_rank_set_is_common(const struct harness_rank_set *a, const struct harness_rank_set *b)
{
    for (uint32_t i = 0; i < a->ranks.count; i++) {
        if (harness_rank_set_has(b, harness_rank_set_at(a, i))) {
            return true;
        }
    }
    return false;
}

uint32_t harness_rank_set_count(const struct harness_rank_set *set)
{
    return set->ranks.count;
}

uint32_t harness_rank_set_at(const struct harness_rank_set *set, uint32_t index)
{
    DDP_ASSERT(index == 0 ||
               set->ranks.block->number[index - 1] < harness_list_at(&set->ranks, index));
    return harness_list_at(&set->ranks, index);
}

const char *harness_rank_set_text(const struct harness_rank_set *set,
                                  char out[HARNESS_RANKS_TEXT_BYTES])
{
    uint32_t count = harness_rank_set_count(set);
    int used = snprintf(out, HARNESS_RANKS_TEXT_BYTES, "%s", count == 0 ? "none" : "");

    for (uint32_t i = 0; i < count && i < HARNESS_NAMED_MAX; i++) {
        used += snprintf(out + used, HARNESS_RANKS_TEXT_BYTES - (size_t)used, "%s%" PRIu32,
                         i > 0 ? "," : "", harness_rank_set_at(set, i));
    }
    if (count > HARNESS_NAMED_MAX) {
        used += snprintf(out + used, HARNESS_RANKS_TEXT_BYTES - (size_t)used,
                         " and %" PRIu32 " more", count - HARNESS_NAMED_MAX);
    }
    DDP_ASSERT(used < HARNESS_RANKS_TEXT_BYTES);
    return out;
}
