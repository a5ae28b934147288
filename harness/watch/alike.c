/* Whether two calls are the same, and how they differ. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

/* Bytes of the elements, if their type is known. */
static uint64_t size_bytes_of(const struct harness_watch_call *call)
{
    static const uint8_t sizes[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = size_bytes,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };
    const uint32_t dtype = guest_op_dtype(call->op);

    return dtype < DDPROVE_GUEST_DTYPE_COUNT ? call->elem_count * sizes[dtype] : 0;
}

/* What is moved. MPI lets ranks describe the same data by types of their own making, whose elements
 * are bytes here. */
static bool is_same_data(const struct harness_watch_call *a, const struct harness_watch_call *b)
{
    const uint32_t type_a = guest_op_dtype(a->op);
    const uint32_t type_b = guest_op_dtype(b->op);

    if (type_a == type_b) {
        return a->elem_count == b->elem_count;
    }
    return (type_a == DDPROVE_GUEST_BYTES || type_b == DDPROVE_GUEST_BYTES) &&
           size_bytes_of(a) == size_bytes_of(b);
}

bool harness_watch_is_alike(const struct harness_watch_call *a, const struct harness_watch_call *b)
{
    return guest_op_kind(a->op) == guest_op_kind(b->op) &&
           guest_op_redop(a->op) == guest_op_redop(b->op) &&
           guest_op_root(a->op) == guest_op_root(b->op) && a->bucket == b->bucket &&
           is_same_data(a, b);
}

bool harness_watch_holds_same(const struct harness_watch_call *a,
                              const struct harness_watch_call *b)
{
    return a->list == NULL || b->list == NULL || a->list == b->list;
}

enum harness_verdict harness_watch_difference_of(const struct harness_watch_call *wrong,
                                                 const struct harness_watch_call *right)
{
    if (guest_op_kind(wrong->op) != guest_op_kind(right->op)) {
        return HARNESS_VERDICT_MISMATCH_OP;
    }
    if (guest_op_dtype(wrong->op) != guest_op_dtype(right->op) && !is_same_data(wrong, right) &&
        guest_op_dtype(wrong->op) != DDPROVE_GUEST_BYTES &&
        guest_op_dtype(right->op) != DDPROVE_GUEST_BYTES) {
        return HARNESS_VERDICT_MISMATCH_DTYPE;
    }
    if (guest_op_redop(wrong->op) != guest_op_redop(right->op)) {
        return HARNESS_VERDICT_MISMATCH_REDUCTION;
    }
    if (guest_op_root(wrong->op) != guest_op_root(right->op)) {
        return HARNESS_VERDICT_MISMATCH_ROOT;
    }
    /* What is no bucket is not another one. */
    if (wrong->bucket != right->bucket &&
        ((wrong->bucket != 0 && right->bucket != 0) || is_same_data(wrong, right))) {
        return HARNESS_VERDICT_MISMATCH_BUCKET;
    }
    if (!is_same_data(wrong, right)) {
        return HARNESS_VERDICT_MISMATCH_COUNT;
    }
    return wrong->step > right->step ? HARNESS_VERDICT_MISMATCH_MISSING
                                     : HARNESS_VERDICT_MISMATCH_EXTRA;
}
