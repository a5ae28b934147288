/* Numbers that are given out densely: an id's number is its place among all ids, sorted, each once.
 * Internal to the happens-before checker. */
#ifndef HARNESS_ORDER_NUMBER_H
#define HARNESS_ORDER_NUMBER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sorts them and drops repetitions; returns how many are left. */
size_t harness_number_sort(uint64_t *ids, size_t count);
/* Of an id among those, which has to be there. */
size_t harness_number_of(const uint64_t *ids, size_t count, uint64_t id);
/* Of an id among those; count if it is not there. */
size_t harness_number_find(const uint64_t *ids, size_t count, uint64_t id);

#ifdef __cplusplus
}
#endif
#endif
