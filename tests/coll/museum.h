/* Shorter words for what the exhibits of museum.c are written with. */
#ifndef TESTS_COLL_MUSEUM_H
#define TESTS_COLL_MUSEUM_H

#include <ddprove_coll.h>

#define IS(bug) (BUG == (bug))
#define NONE    DDPROVE_COLL_NONE

static uint32_t now; /* the round of what is emitted */

static struct ddprove_coll_range in(uint64_t first, uint64_t count)
{
    return ddprove_coll_range(DDPROVE_COLL_INPUT, first, count);
}

static struct ddprove_coll_range out(uint64_t first, uint64_t count)
{
    return ddprove_coll_range(DDPROVE_COLL_OUTPUT, first, count);
}

static struct ddprove_coll_range scratch(uint32_t number, uint64_t first, uint64_t count)
{
    return ddprove_coll_range(DDPROVE_COLL_SCRATCH + number, first, count);
}

static uint32_t send(const struct ddprove_coll_sink *to, uint32_t peer,
                     struct ddprove_coll_range src, uint32_t after)
{
    return ddprove_coll_send(to, now, peer, src, after, NONE);
}

static uint32_t take(const struct ddprove_coll_sink *to, uint32_t peer,
                     struct ddprove_coll_range dst, uint32_t after, uint32_t and_after)
{
    return ddprove_coll_recv(to, DDPROVE_COLL_RECV, now, peer, dst, after, and_after);
}

static uint32_t add(const struct ddprove_coll_sink *to, uint32_t peer,
                    struct ddprove_coll_range dst, uint32_t after, uint32_t and_after)
{
    return ddprove_coll_recv(to, DDPROVE_COLL_RECV_REDUCE, now, peer, dst, after, and_after);
}

static uint32_t copy(const struct ddprove_coll_sink *to, struct ddprove_coll_range dst,
                     struct ddprove_coll_range src, uint32_t after)
{
    return ddprove_coll_local(to, DDPROVE_COLL_COPY, now, dst, src, after, NONE);
}

#endif
