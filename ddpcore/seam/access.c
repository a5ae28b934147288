/* Names of what device work does to memory, from the tables in access.h. */
#include "ddpcore/seam/access.h"

#include <string.h>

static const char *const access_names[DDP_ACCESS_COUNT] = {
#define X(id, name) [id] = name,
    DDP_ACCESS_TABLE(X)
#undef X
};

static const char *const range_names[DDP_RANGE_COUNT] = {
#define X(id, name) [id] = name,
    DDP_RANGE_TABLE(X)
#undef X
};

const char *ddp_access_name(enum ddp_access access)
{
    return (unsigned)access < DDP_ACCESS_COUNT ? access_names[access] : "unknown";
}

ddp_status ddp_access_parse(const char *name, enum ddp_access *out)
{
    for (unsigned i = 0; i < DDP_ACCESS_COUNT; i++) {
        if (strcmp(access_names[i], name) == 0) {
            *out = (enum ddp_access)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *ddp_range_kind_name(enum ddp_range_kind kind)
{
    return (unsigned)kind < DDP_RANGE_COUNT ? range_names[kind] : "unknown";
}

ddp_status ddp_range_kind_parse(const char *name, enum ddp_range_kind *out)
{
    for (unsigned i = 0; i < DDP_RANGE_COUNT; i++) {
        if (strcmp(range_names[i], name) == 0) {
            *out = (enum ddp_range_kind)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}
