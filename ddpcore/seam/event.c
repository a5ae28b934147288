/* Names of events and of their arguments, from event.def, and of what collectives are for. */
#include <string.h>

#include "ddpcore/seam/recorder.h"

struct event_row {
    const char *name;
    const char *arg[DDP_EVENT_ARG_COUNT];
};

static const struct event_row event_rows[DDP_EVENT_COUNT] = {
#define X(id, name, a0, a1, a2, a3, a4) [DDP_EVENT_##id] = {name, {a0, a1, a2, a3, a4}},
#include "ddpcore/seam/event.def"
#undef X
};

static const char *const kind_names[DDP_COLL_KIND_COUNT] = {
    [DDP_COLL_ALL_REDUCE] = "all_reduce",         [DDP_COLL_BROADCAST] = "broadcast",
    [DDP_COLL_ALL_GATHER] = "all_gather",         [DDP_COLL_BARRIER] = "barrier",
    [DDP_COLL_REDUCE_SCATTER] = "reduce_scatter", [DDP_COLL_REDUCE] = "reduce",
    [DDP_COLL_ALL_TO_ALL] = "all_to_all",
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
    if ((unsigned)event >= DDP_EVENT_COUNT || arg_index >= DDP_EVENT_ARG_COUNT) {
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

bool ddp_coll_kind_is_sum(enum ddp_coll_kind kind)
{
    return kind == DDP_COLL_ALL_REDUCE || kind == DDP_COLL_REDUCE_SCATTER ||
           kind == DDP_COLL_REDUCE;
}

bool ddp_coll_kind_has_root(enum ddp_coll_kind kind)
{
    return kind == DDP_COLL_BROADCAST || kind == DDP_COLL_REDUCE;
}

uint32_t ddp_coll_input_blocks(enum ddp_coll_kind kind, uint32_t member_count)
{
    bool is_cut = kind == DDP_COLL_REDUCE_SCATTER || kind == DDP_COLL_ALL_TO_ALL;

    return is_cut ? member_count : 1;
}

uint32_t ddp_coll_output_blocks(enum ddp_coll_kind kind, uint32_t member_count, bool is_root)
{
    bool is_collected = kind == DDP_COLL_ALL_GATHER || kind == DDP_COLL_ALL_TO_ALL;

    if (kind == DDP_COLL_REDUCE && !is_root) {
        return 0;
    }
    return is_collected ? member_count : 1;
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

/* Bits, from the lowest. */
enum {
    KIND_BITS = 4,
    REDOP_BITS = 4,
    DTYPE_BITS = 4,
    ROLE_BITS = 6,
    ROOT_BITS = 22,
    INDEX_BITS = 24,
    REDOP_SHIFT = KIND_BITS,
    DTYPE_SHIFT = REDOP_SHIFT + REDOP_BITS,
    ROLE_SHIFT = DTYPE_SHIFT + DTYPE_BITS,
    ROOT_SHIFT = ROLE_SHIFT + ROLE_BITS,
    INDEX_SHIFT = ROOT_SHIFT + ROOT_BITS
};
_Static_assert(INDEX_SHIFT + INDEX_BITS == 64, "an operation is one event argument");
_Static_assert(DDP_COLL_KIND_COUNT < 1 << KIND_BITS && DDP_REDOP_COUNT < 1 << REDOP_BITS &&
                   DDP_DTYPE_COUNT < 1 << DTYPE_BITS && DDP_ROLE_COUNT < 1 << ROLE_BITS,
               "every value has its bits");

/* A value that does not fit is recorded as the greatest that does: all bits set is no valid kind,
 * reduction, dtype or role. */
static uint64_t put_bits(uint64_t value, unsigned shift, unsigned bit_count)
{
    const uint64_t greatest = (UINT64_C(1) << bit_count) - 1;

    return (value < greatest ? value : greatest) << shift;
}

static uint64_t get_bits(uint64_t packed, unsigned shift, unsigned bit_count)
{
    return packed >> shift & ((UINT64_C(1) << bit_count) - 1);
}

uint64_t ddp_event_op_pack(const struct ddp_event_op *op)
{
    return put_bits((unsigned)op->kind, 0, KIND_BITS) |
           put_bits((unsigned)op->redop, REDOP_SHIFT, REDOP_BITS) |
           put_bits((unsigned)op->dtype, DTYPE_SHIFT, DTYPE_BITS) |
           put_bits((unsigned)op->role, ROLE_SHIFT, ROLE_BITS) |
           put_bits(op->root, ROOT_SHIFT, ROOT_BITS) | put_bits(op->index, INDEX_SHIFT, INDEX_BITS);
}

struct ddp_event_op ddp_event_op_unpack(uint64_t packed)
{
    return (struct ddp_event_op){
        .kind = (enum ddp_coll_kind)get_bits(packed, 0, KIND_BITS),
        .redop = (enum ddp_redop)get_bits(packed, REDOP_SHIFT, REDOP_BITS),
        .dtype = (enum ddp_dtype)get_bits(packed, DTYPE_SHIFT, DTYPE_BITS),
        .role = (enum ddp_coll_role)get_bits(packed, ROLE_SHIFT, ROLE_BITS),
        .root = (uint32_t)get_bits(packed, ROOT_SHIFT, ROOT_BITS),
        .index = (uint32_t)get_bits(packed, INDEX_SHIFT, INDEX_BITS),
    };
}
