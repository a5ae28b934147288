/* Names of fault points, from fault_point.def. The points themselves are inline in the header. */
#include "ddpcore/seam/fault_point.h"

#include <string.h>

struct point_row {
    const char *name;
    const char *description;
    enum ddp_fault_payload payload;
    bool is_skippable;
};

#define IS_SKIP true
#define IS_KEEP false

static const struct point_row point_rows[DDP_FAULT_POINT_COUNT] = {
#define X(id, name, payload, skip, description) \
    [DDP_FAULT_POINT_##id] = {name, description, DDP_FAULT_PAYLOAD_##payload, IS_##skip},
#include "ddpcore/seam/fault_point.def"
#undef X
};

_Static_assert(DDP_FAULT_POINT_COUNT <= 64, "the armed set is one 64-bit word");

const char *ddp_fault_point_name(enum ddp_fault_point point)
{
    return (unsigned)point < DDP_FAULT_POINT_COUNT ? point_rows[point].name : "unknown";
}

const char *ddp_fault_point_description(enum ddp_fault_point point)
{
    return (unsigned)point < DDP_FAULT_POINT_COUNT ? point_rows[point].description : "unknown";
}

enum ddp_fault_payload ddp_fault_point_payload(enum ddp_fault_point point)
{
    return (unsigned)point < DDP_FAULT_POINT_COUNT ? point_rows[point].payload
                                                   : DDP_FAULT_PAYLOAD_NONE;
}

bool ddp_fault_point_is_skippable(enum ddp_fault_point point)
{
    return (unsigned)point < DDP_FAULT_POINT_COUNT && point_rows[point].is_skippable;
}

ddp_status ddp_fault_point_parse(const char *name, enum ddp_fault_point *out)
{
    for (unsigned i = 0; i < DDP_FAULT_POINT_COUNT; i++) {
        if (strcmp(point_rows[i].name, name) == 0) {
            *out = (enum ddp_fault_point)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}
