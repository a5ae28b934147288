/* The simulated network behind loop endpoints and loop stores. Internal. Everything here comes from
 * the net's own memory; nothing points into a rank's memory except the ranges that senders lend.
 *
 * A receiver is handed a copy of the message and not the range itself, so that misuse which shared
 * memory forgives when it is lucky always shows as wrong values: the copy is poisoned when it is
 * acknowledged, and also if the sender has written to the range meanwhile. */
#ifndef DDPCORE_TRANSPORT_LOOP_NET_H
#define DDPCORE_TRANSPORT_LOOP_NET_H

#include "ddpcore/base/prng.h"
#include "ddpcore/transport/loop.h"

#define DDP_LOOP_SLOT_COUNT 8u
/* Every byte of what must not be read any more: NaN as a float, -1 as an integer. */
#define DDP_LOOP_POISON 0xFF
/* Copies that stay poisoned for a while before their memory is used again. */
#define DDP_LOOP_POISONED_COUNT 16u

struct ddp_loop_message {
    struct ddp_message message; /* data: the copy */
    void *copy;                 /* NULL once it is acknowledged */
    const void *lent;           /* the sender's range; NULL once it is acknowledged or recalled */
    uint64_t deliver_ns;        /* visible to the receiver from then on */
    uint64_t ack_ns;            /* acknowledgement visible to the sender from then on */
};

/* The stream from one member to another. reclaimed <= taken <= sent <= reclaimed + SLOT_COUNT. */
struct ddp_loop_stream {
    uint32_t from, to;
    uint64_t sent;      /* messages posted */
    uint64_t taken;     /* messages acknowledged by the receiver */
    uint64_t reclaimed; /* acknowledgements that the sender has seen */
    uint64_t last_deliver_ns;
    uint64_t link_free_ns;
    struct ddp_prng jitter;
    struct ddp_loop_message slot[DDP_LOOP_SLOT_COUNT];
};

struct ddp_loop_member {
    struct ddp_loop_stream **streams; /* open-addressing table of outgoing streams, by receiver */
    uint32_t stream_capacity;         /* a power of two, or 0 */
    uint32_t stream_count;
    bool is_joined;   /* an endpoint exists, or did */
    bool is_departed; /* its endpoint was destroyed */
    uint64_t departed_ns;
    bool is_revoking;
    uint64_t revoked_ns;
    struct ddp_revocation revocation;
};

struct ddp_loop_group {
    struct ddp_loop_group *next;
    char *name;
    uint32_t member_count;
    uint32_t *member_rank;
    struct ddp_loop_member *members;
    uint32_t revoking_count;
};

struct ddp_loop_rank {
    bool is_dead;
    bool is_excused; /* the store does not speak of its death */
    uint64_t dead_ns;
};

struct ddp_loop_key {
    struct ddp_loop_key *next;
    char *name;
    uint8_t *value; /* NULL: not set yet */
    size_t size_bytes;
    uint64_t visible_ns; /* to ranks other than the one that set it */
    uint32_t setter;
    uint64_t *waiting; /* bit per rank that asked while it was not set */
};

#define DDP_LOOP_KEY_CHAINS 256u
struct ddp_loop_net {
    struct ddp_loop_config config;
    struct ddp_loop_rank *ranks;
    uint32_t dead_count;
    struct ddp_loop_group *groups;
    struct ddp_loop_key *keys[DDP_LOOP_KEY_CHAINS];
    void *poisoned[DDP_LOOP_POISONED_COUNT]; /* acknowledged copies; the oldest is freed first */
    uint32_t poisoned_next;
};

/* Tell the scheduler that the rank may go on at at_ns, unless it is dead. */
void ddp_loop_net_wake(struct ddp_loop_net *net, uint32_t rank, uint64_t at_ns);
uint64_t ddp_loop_net_now_ns(const struct ddp_loop_net *net);
/* Whether the rank died, and long enough ago (one latency) for the others to know. */
bool ddp_loop_net_is_dead(const struct ddp_loop_net *net, uint32_t rank);
/* Find or make. NULL: out of memory. */
struct ddp_loop_group *ddp_loop_net_group(struct ddp_loop_net *net, const char *name,
                                          uint32_t member_count, const uint32_t *member_rank);
/* The stream between two members, or NULL if none was used yet (or, with is_made, out of memory).
 */
struct ddp_loop_stream *ddp_loop_group_stream(struct ddp_loop_net *net,
                                              struct ddp_loop_group *group, uint32_t from,
                                              uint32_t to, bool is_made);
/* Take over a copy that was acknowledged, and poison it. */
void ddp_loop_net_poison(struct ddp_loop_net *net, void *copy, size_t size_bytes);
/* The member's ranges are lent no longer: it may be gone, and its memory with it. */
void ddp_loop_group_detach(struct ddp_loop_group *group, uint32_t member);
/* The key of that name: found, or made without a value. The net's, until it is destroyed. NULL: out
 * of memory. */
struct ddp_loop_key *ddp_loop_net_key(struct ddp_loop_net *net, const char *name);

#endif
