/* The table of built-in algorithms, from algorithm.def. */
#include "ddpcore/schedule/algorithm.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/schedule/emit.h"

static const struct ddp_algorithm table[] = {
#define X(id, kind, name, emit, segment_bytes, meaning) \
    {DDP_ALGORITHM_##id, DDP_COLL_##kind, name, meaning, segment_bytes, emit},
#include "ddpcore/schedule/algorithm.def"
#undef X
};

enum { ROW_COUNT = sizeof(table) / sizeof(table[0]) };
_Static_assert(ROW_COUNT == DDP_ALGORITHM_COUNT - 1, "a row for each identifier but NONE");

const struct ddp_algorithm *ddp_algorithm_table(size_t *out_count)
{
    *out_count = ROW_COUNT;
    return table;
}

const struct ddp_algorithm *ddp_algorithm_find(enum ddp_coll_kind kind, enum ddp_algorithm_id id)
{
    DDP_ASSERT(id < DDP_ALGORITHM_COUNT);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (table[i].kind == kind && (id == DDP_ALGORITHM_NONE || table[i].id == id)) {
            return &table[i];
        }
    }
    return NULL;
}

ddp_status ddp_algorithm_require(enum ddp_coll_kind kind, enum ddp_algorithm_id id,
                                 const struct ddp_algorithm **out, struct ddp_err *err)
{
    char known[256] = "";
    size_t used = 0;

    *out = ddp_algorithm_find(kind, id);
    if (*out != NULL) {
        return DDP_OK;
    }
    for (size_t i = 0; i < ROW_COUNT && used < sizeof(known); i++) {
        if (table[i].kind == kind) {
            int size = snprintf(known + used, sizeof(known) - used, "%s%s", used > 0 ? ", " : "",
                                table[i].name);
            used += size > 0 ? (size_t)size : 0;
        }
    }
    return ddp_err_set(err, DDP_E_NOT_FOUND, "%s is no %s algorithm (known: %s)",
                       ddp_algorithm_name(id), ddp_coll_kind_name(kind), known);
}

const char *ddp_algorithm_name(enum ddp_algorithm_id id)
{
    DDP_ASSERT(id < DDP_ALGORITHM_COUNT);
    DDP_ASSERT(id == DDP_ALGORITHM_NONE || table[id - 1].id == id);
    return id == DDP_ALGORITHM_NONE ? "none" : table[id - 1].name;
}

ddp_status ddp_algorithm_parse(const char *name, enum ddp_coll_kind kind,
                               enum ddp_algorithm_id *out)
{
    *out = DDP_ALGORITHM_NONE;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (table[i].kind == kind && strcmp(table[i].name, name) == 0) {
            *out = table[i].id;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

size_t ddp_algorithm_segment_elem_count(const struct ddp_algorithm *algorithm, size_t segment_bytes,
                                        enum ddp_dtype dtype)
{
    size_t longest_bytes = segment_bytes == 0 ? algorithm->segment_bytes : segment_bytes;
    size_t elem_bytes = ddp_dtype_size_bytes(dtype);

    DDP_ASSERT(algorithm->segment_bytes > 0);
    return longest_bytes < elem_bytes ? 1 : longest_bytes / elem_bytes;
}
