/* What a call's data come to, so that whoever knows it of all ranks can tell whether the result is
 * that of the contributions, without the data.
 *
 * A buffer consists of parts of elem_count elements; the parts of all members together are the
 * whole. The signs of an element depend on the communicator's key, the call's number, its part and
 * its place in the part, so the projections of parts add up to that of the whole, whoever holds
 * them. Of each buffer an event says the projection (the bits of a double, or of integers the sum
 * modulo 2^64), the sum of absolute values (of contributions) and a hash; and the same of a few
 * elements in signs that all calls share (sample.h). */
#ifndef HARNESS_GUEST_SUMS_H
#define HARNESS_GUEST_SUMS_H

#include "harness/guest/arena.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/guest/fault.h"
#include "harness/guest/observe/sample.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which parts a buffer holds: count of them, the i-th is number first + i * stride. */
struct guest_parts {
    uint64_t count; /* 0: there is no such buffer on this rank, or nothing is known of it */
    uint64_t first, stride;
};

/* What goes in on this rank and what comes out, for a member of so many. Of what a call of this
 * kind moves; an adapter that shows buffers lets them hold all of it. */
static inline struct guest_parts guest_parts_in(uint32_t kind, uint64_t rank, uint64_t root,
                                                uint64_t size)
{
    struct guest_parts parts = {0, 0, 1};

    switch ((enum ddprove_guest_kind)kind) {
    case DDPROVE_GUEST_ALL_REDUCE:
    case DDPROVE_GUEST_REDUCE:
        parts.count = 1;
        break;
    case DDPROVE_GUEST_BROADCAST:
        parts.count = rank == root;
        break;
    case DDPROVE_GUEST_ALL_GATHER:
    case DDPROVE_GUEST_GATHER:
        parts.count = 1;
        parts.first = rank;
        break;
    case DDPROVE_GUEST_REDUCE_SCATTER:
        parts.count = size;
        break;
    case DDPROVE_GUEST_SCATTER:
        parts.count = rank == root ? size : 0;
        break;
    case DDPROVE_GUEST_ALL_TO_ALL: /* from i to j: part i * size + j */
        parts.count = size;
        parts.first = rank * size;
        break;
    default:
        break;
    }
    return parts;
}
static inline struct guest_parts guest_parts_out(uint32_t kind, uint64_t rank, uint64_t root,
                                                 uint64_t size)
{
    struct guest_parts parts = {0, 0, 1};

    switch ((enum ddprove_guest_kind)kind) {
    case DDPROVE_GUEST_ALL_REDUCE:
    case DDPROVE_GUEST_BROADCAST:
        parts.count = 1;
        break;
    case DDPROVE_GUEST_REDUCE:
        parts.count = rank == root;
        break;
    case DDPROVE_GUEST_ALL_GATHER:
        parts.count = size;
        break;
    case DDPROVE_GUEST_GATHER:
        parts.count = rank == root ? size : 0;
        break;
    case DDPROVE_GUEST_REDUCE_SCATTER:
    case DDPROVE_GUEST_SCATTER:
        parts.count = 1;
        parts.first = rank;
        break;
    case DDPROVE_GUEST_ALL_TO_ALL:
        parts.count = size;
        parts.first = rank;
        parts.stride = size;
        break;
    default:
        break;
    }
    return parts;
}

/* Where the data of one call in so many are looked at: whether this one is drawn. Of each block of
 * `every` calls of a communicator one is, the same on all ranks and in every run, and which one
 * follows no pattern: a program that calls for its buckets in turns has all of them looked at. */
static inline int guest_is_drawn(uint64_t every, uint64_t key, uint64_t seq)
{
    const uint64_t block = every < 2 ? 0 : (seq - 1) / every;

    return every < 2 || (seq - 1) % every == guest_mix(guest_mix(key) + block) % every;
}

/* Programs hand over memory of devices as if it were the host's. A buffer is of one kind. */
int guest_is_readable(const void *data, uint64_t size_bytes);

/* What the data of a buffer come to. */
struct guest_value {
    uint64_t sum, magnitude, hash;
};

/* What a rank puts in, before a fault changes it. */
struct guest_input {
    uint64_t seq; /* of the call, if no other thread posts in its communicator meanwhile; 0: nothing
                     is known */
    int is_passed_over; /* other calls' data are looked at */
    const void *data;
    int is_apart; /* the call writes to none of it */
    uint64_t elem_count;
    uint32_t root, redop;
    struct guest_value value;
    struct guest_sample sample;
};

/* Around a post. `begin` looks at what the program puts in; `end`, once the call has its number,
 * reports that, unless something else was posted. */
void guest_sums_post_begin(const struct guest_page *page, const struct guest_comm *comm,
                           const struct ddprove_guest_call *call, struct guest_input *out);
void guest_sums_post_end(struct guest_page *page, struct ddprove_guest_call *call,
                         const struct guest_input *input);
/* Its result is there: reports it, and whether what went in was changed meanwhile. */
void guest_sums_done(struct guest_page *page, const struct guest_comm *comm,
                     const struct ddprove_guest_call *call);

#ifdef __cplusplus
}
#endif
#endif
