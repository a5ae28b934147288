/* Names of events and of their arguments, from event.def, and of what collectives are for. */
#include <string.h>

#include "ddpcore/seam/recorder.h"

enum { EVENT_ARG_COUNT = 5 };

struct event_row {
    const char *name;
    const char *arg[EVENT_ARG_COUNT];
};

static const struct event_row event_rows[DDP_EVENT_COUNT] = {
#define X(id, name, a0, a1, a2, a3, a4) [DDP_EVENT_##id] = {name, {a0, a1, a2, a3, a4}},
#include "ddpcore/seam/event.def"
#undef X
};

static const char *const kind_names[DDP_COLL_KIND_COUNT] = {
    [DDP_COLL_ALL_REDUCE] = "all_reduce",
    [DDP_COLL_BROADCAST] = "broadcast",
    [DDP_COLL_ALL_GATHER] = "all_gather",
    [DDP_COLL_BARRIER] = "barrier",
};

static const char *const role_names[DDP_ROLE_COUNT] = {
#define X(id, name) [id] = name,
    DDP_ROLE_TABLE(X)
#undef X
};

const char *ddp_event_name(enum ddp_event event)
{
    return (unsigned)event < DDP_EVENT_COUNT ? event_rows[event].name : "unknown";
}

const char *ddp_event_arg(enum ddp_event event, unsigned arg_index)
{
    if ((unsigned)event >= DDP_EVENT_COUNT || arg_index >= EVENT_ARG_COUNT) {
        return "";
    }
    return event_rows[event].arg[arg_index];
}

ddp_status ddp_event_parse(const char *name, enum ddp_event *out)
{
    for (unsigned i = 0; i < DDP_EVENT_COUNT; i++) {
        if (strcmp(event_rows[i].name, name) == 0) {
            *out = (enum ddp_event)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *ddp_coll_kind_name(enum ddp_coll_kind kind)
{
    return (unsigned)kind < DDP_COLL_KIND_COUNT ? kind_names[kind] : "unknown";
}

ddp_status ddp_coll_kind_parse(const char *name, enum ddp_coll_kind *out)
{
    for (unsigned i = 0; i < DDP_COLL_KIND_COUNT; i++) {
        if (strcmp(kind_names[i], name) == 0) {
            *out = (enum ddp_coll_kind)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *ddp_coll_role_name(enum ddp_coll_role role)
{
    return (unsigned)role < DDP_ROLE_COUNT ? role_names[role] : "unknown";
}

ddp_status ddp_coll_role_parse(const char *name, enum ddp_coll_role *out)
{
    for (unsigned i = 0; i < DDP_ROLE_COUNT; i++) {
        if (strcmp(role_names[i], name) == 0) {
            *out = (enum ddp_coll_role)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

/* Bits, from the lowest: kind 4, redop 4, dtype 8, role 8, root 8, index 24. */
uint64_t ddp_event_op_pack(const struct ddp_event_op *op)
{
    return ((uint64_t)op->kind & 0xfu) | ((uint64_t)op->redop & 0xfu) << 4 |
           ((uint64_t)op->dtype & 0xffu) << 8 | ((uint64_t)op->role & 0xffu) << 16 |
           ((uint64_t)op->root & 0xffu) << 24 | ((uint64_t)op->index & 0xffffffu) << 32;
}

struct ddp_event_op ddp_event_op_unpack(uint64_t packed)
{
    struct ddp_event_op op;

    op.kind = (enum ddp_coll_kind)(packed & 0xfu);
    op.redop = (enum ddp_redop)((packed >> 4) & 0xfu);
    op.dtype = (enum ddp_dtype)((packed >> 8) & 0xffu);
    op.role = (enum ddp_coll_role)((packed >> 16) & 0xffu);
    op.root = (uint32_t)((packed >> 24) & 0xffu);
    op.index = (uint32_t)((packed >> 32) & 0xffffffu);
    return op;
}
