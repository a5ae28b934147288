/* Purpose: dense numbers for streams, events and collectives. */
#include "harness/order/number.h"

#include <stdlib.h>

#include "ddpcore/base/status.h"

static int compare_ids(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

size_t harness_number_sort(uint64_t *ids, size_t count)
{
    size_t kept = 0;

    if (count > 0) {
        qsort(ids, count, sizeof(*ids), compare_ids);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || ids[kept - 1] != ids[i]) {
            ids[kept++] = ids[i];
        }
    }
    DDP_ASSERT(kept <= count);
    return kept;
}

size_t harness_number_find(const uint64_t *ids, size_t count, uint64_t id)
{
    const uint64_t *found = count == 0 ? NULL : bsearch(&id, ids, count, sizeof(id), compare_ids);

    return found == NULL ? count : (size_t)(found - ids);
}

size_t harness_number_of(const uint64_t *ids, size_t count, uint64_t id)
{
    size_t number = harness_number_find(ids, count, id);

    DDP_ASSERT(number < count);
    return number;
}
