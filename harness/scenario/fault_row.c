/* The fault catalog as a table. */
#include <string.h>

#include "harness/scenario/scenario.h"

static const struct harness_fault_row rows[] = {
#define X(id, fault, injectors) {#id, fault, injectors},
#include "harness/scenario/fault_row.def"
#undef X
};

const struct harness_fault_row *harness_fault_rows(size_t *out_count)
{
    *out_count = sizeof(rows) / sizeof(rows[0]);
    return rows;
}

bool harness_fault_row_find(const char *id, size_t *out_index)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i].id, id) == 0) {
            *out_index = i;
            return true;
        }
    }
    return false;
}
