/* What the adapters of guests cannot do, for whoever arms faults: a fault that would fire and
 * change nothing, or that could never fire, is refused beforehand. */
#ifndef HARNESS_GUEST_ABILITY_H
#define HARNESS_GUEST_ABILITY_H

#include <stddef.h>
#include <string.h>

#include "harness/guest/arena.h"
#include "harness/guest/ddprove_guest.h"

#ifdef __cplusplus
extern "C" {
#endif

enum guest_adapter {
    GUEST_ADAPTER_NONE, /* the program shows itself */
    GUEST_ADAPTER_MPI,
    GUEST_ADAPTER_NCCL,
    GUEST_ADAPTER_TORCH,
    GUEST_ADAPTER_NCCL_PROFILER
};

static inline int guest_ability_is_of_data(enum guest_action action)
{
    return action >= GUEST_ACTION_ZERO && action <= GUEST_ACTION_STALE;
}

/* The library's numbers of names; USER and BYTES: it has none of that name. */
static inline uint64_t guest_ability_redop(const char *name)
{
    static const char *const names[DDPROVE_GUEST_REDOP_COUNT] = {
#define X(id, name) name,
        DDPROVE_GUEST_REDOP_TABLE(X)
#undef X
    };
    uint64_t i = 0;

    while (i < DDPROVE_GUEST_USER && strcmp(names[i], name) != 0) {
        i++;
    }
    return i;
}
static inline uint64_t guest_ability_dtype(const char *name)
{
    static const char *const names[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) name,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };
    uint64_t i = DDPROVE_GUEST_DTYPE_COUNT - 1;

    while (i > DDPROVE_GUEST_BYTES && strcmp(names[i], name) != 0) {
        i--;
    }
    return i;
}

/* The library's number of a place that a program comes by, named as a fault point; -1: it has none.
 */
static inline int guest_ability_place(const char *name)
{
    static const char *const names[DDPROVE_GUEST_POINT_COUNT] = {
#define X(id, name) name,
        DDPROVE_GUEST_POINT_TABLE(X)
#undef X
    };
    int i = 0;

    while (i < DDPROVE_GUEST_POINT_COUNT && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < DDPROVE_GUEST_POINT_COUNT ? i : -1;
}

/* Why a fault at such a place would never fire; NULL: it may. */
static inline const char *guest_ability_lack_of_place(enum guest_adapter adapter)
{
    return adapter == GUEST_ADAPTER_NONE || adapter == GUEST_ADAPTER_TORCH
               ? NULL
               : "the library's calls are all that it sees; the program itself, or PyTorch's "
                 "adapter, "
                 "comes by it";
}

/* The library has elements of that type. */
static inline int guest_ability_has_dtype(enum guest_adapter adapter, uint64_t dtype)
{
    switch (adapter) {
    case GUEST_ADAPTER_MPI:
        return dtype != DDPROVE_GUEST_F16 && dtype < DDPROVE_GUEST_F8E4M3 &&
               dtype != DDPROVE_GUEST_BF16;
    case GUEST_ADAPTER_NCCL:
        return dtype != DDPROVE_GUEST_I16 && dtype != DDPROVE_GUEST_U16;
    case GUEST_ADAPTER_TORCH: /* gloo */
        return dtype != DDPROVE_GUEST_I16 && dtype != DDPROVE_GUEST_U16 &&
               dtype != DDPROVE_GUEST_U32 && dtype != DDPROVE_GUEST_U64 &&
               dtype != DDPROVE_GUEST_BF16 && dtype < DDPROVE_GUEST_F8E4M3;
    default:
        return 1;
    }
}

/* The library has an operator of that name. */
static inline int guest_ability_has_redop(enum guest_adapter adapter, uint64_t redop)
{
    const int is_basic = redop == DDPROVE_GUEST_SUM || redop == DDPROVE_GUEST_PROD ||
                         redop == DDPROVE_GUEST_MIN || redop == DDPROVE_GUEST_MAX;

    switch (adapter) {
    case GUEST_ADAPTER_MPI:
        return is_basic || (redop >= DDPROVE_GUEST_LAND && redop <= DDPROVE_GUEST_BXOR);
    case GUEST_ADAPTER_NCCL:
        return is_basic || redop == DDPROVE_GUEST_AVG;
    case GUEST_ADAPTER_TORCH: /* gloo, of numbers of any type */
        return is_basic;
    default:
        return 1;
    }
}

/* Why a fault of a call can do nothing in a program with this adapter; NULL: it can. Steps are
 * announced by the program itself, if at all. value: the fault's. */
static inline const char *guest_ability_lack(enum guest_adapter adapter, enum guest_point point,
                                             enum guest_action action, uint64_t value)
{
    const int is_nccl = adapter == GUEST_ADAPTER_NCCL || adapter == GUEST_ADAPTER_NCCL_PROFILER;

    if (is_nccl && point == GUEST_POINT_DONE) {
        return "calls end on the device";
    }
    if (is_nccl && guest_ability_is_of_data(action)) {
        return "the device writes contributions after the post";
    }
    if (adapter == GUEST_ADAPTER_NCCL_PROFILER) {
        return "a profiler is only told";
    }
    if (action == GUEST_ACTION_REDOP && !guest_ability_has_redop(adapter, value)) {
        return "the library has no such operator";
    }
    if (action == GUEST_ACTION_DTYPE && !guest_ability_has_dtype(adapter, value)) {
        return "the library has no elements of that type";
    }
    if (action == GUEST_ACTION_LATER && adapter == GUEST_ADAPTER_NONE) {
        return "nobody but the program can make its calls later";
    }
    if (action == GUEST_ACTION_LATER &&
        (adapter == GUEST_ADAPTER_MPI || adapter == GUEST_ADAPTER_TORCH)) {
        return "a call has to return its result, or a request for it, before the next one comes";
    }
    return NULL;
}

#ifdef __cplusplus
}
#endif
#endif
