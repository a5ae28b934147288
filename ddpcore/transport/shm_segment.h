/* The shared segment: what lies where, and the slot ring between an ordered pair of members.
 * Internal to the shm transport; plain memory, so that two threads can test it as well.
 *
 *   header | member[count] | stream[count * count] | slots of each stream | heap[count]
 *
 * Every word has one writer. A slot's `turn` is written last by the sender and says that message
 * number turn - 1 is complete; the stream's `taken` is written by the receiver. */
#ifndef DDPCORE_TRANSPORT_SHM_SEGMENT_H
#define DDPCORE_TRANSPORT_SHM_SEGMENT_H

#include "ddpcore/base/mem.h"
#include "ddpcore/transport/shm.h"

#define DDP_SHM_MAGIC        UINT64_C(0x31304d4853504444) /* "DDPSHM01" */
#define DDP_SHM_INLINE_BYTES 2048u /* messages of at most so many bytes lie in the slot itself */
#define DDP_SHM_SLOTS_MAX    1024u

struct ddp_shm_header {
    uint64_t magic;
    uint64_t nonce;
    uint8_t pad[48];
    uint32_t revoked_count; /* members that revoked; a line of its own, nearly always shared */
    uint8_t revoked_pad[60];
};

struct ddp_shm_member {
    uint32_t doorbell; /* written by everybody (atomic add) */
    uint8_t doorbell_pad[60];
    uint32_t sleep; /* written by the member */
    uint8_t sleep_pad[60];
    uint64_t pid; /* written before the members' barrier */
    uint64_t revocation_detail;
    int32_t revocation_status;
    uint32_t revocation_rank;
    uint32_t revocation_step;
    uint32_t is_revoking; /* the revocation above is complete */
    uint32_t is_departed;
    uint8_t pad[28];
};

struct ddp_shm_stream {
    uint64_t taken; /* messages acknowledged */
    uint8_t pad[56];
};

struct ddp_shm_slot {
    uint64_t turn;   /* number of the message + 1 */
    uint64_t offset; /* in the segment, of a message that does not lie here */
    uint64_t size_bytes;
    uint64_t seq;
    uint64_t signature;
    uint64_t number;
    uint8_t pad[16];
    uint8_t data[DDP_SHM_INLINE_BYTES];
};

/* A process's view of a segment. */
struct ddp_shm_segment {
    uint8_t *base;
    size_t size_bytes;
    struct ddp_shm_header *header;
    struct ddp_shm_member *members;
    struct ddp_shm_stream *streams;
    struct ddp_shm_slot *slots;
    uint32_t member_count, slot_count;
    size_t heap_first; /* offset of member 0's heap */
    size_t heap_bytes;
};

/* Bytes of a segment; 0 if the parameters are out of range. heap_bytes is a multiple of 4096. */
size_t ddp_shm_segment_size_bytes(uint32_t member_count, uint32_t slot_count, size_t heap_bytes);
/* Pointers into a mapping of that size, which is page-aligned and stays the caller's. */
void ddp_shm_segment_view(struct ddp_shm_segment *segment, void *base, uint32_t member_count,
                          uint32_t slot_count, size_t heap_bytes);
/* Write the header of a fresh (zero) mapping; its magic last, so that who sees it sees the rest. */
void ddp_shm_segment_format(struct ddp_shm_segment *segment, uint64_t nonce);

static inline size_t ddp_shm_stream_index(const struct ddp_shm_segment *segment, uint32_t from,
                                          uint32_t to)
{
    return (size_t)from * segment->member_count + to;
}

/* The sender's end. */
struct ddp_shm_sender {
    struct ddp_shm_slot *slots;
    struct ddp_shm_stream *stream;
    uint64_t sent;  /* messages put into slots */
    uint64_t taken; /* last known stream->taken */
    uint32_t slot_mask;
};
/* The receiver's end. */
struct ddp_shm_receiver {
    struct ddp_shm_slot *slots;
    struct ddp_shm_stream *stream;
    uint64_t taken;
    uint32_t slot_mask;
};
void ddp_shm_sender_open(struct ddp_shm_sender *sender, const struct ddp_shm_segment *segment,
                         uint32_t from, uint32_t to);
void ddp_shm_receiver_open(struct ddp_shm_receiver *receiver, const struct ddp_shm_segment *segment,
                           uint32_t from, uint32_t to);

/* Whether message number `ticket` was acknowledged. */
static inline bool ddp_shm_sender_is_taken(struct ddp_shm_sender *sender, uint64_t ticket)
{
    if (ticket >= sender->taken) {
        sender->taken = __atomic_load_n(&sender->stream->taken, __ATOMIC_ACQUIRE);
    }
    return ticket < sender->taken;
}

/* The slot for the next message, or NULL when all are in use. */
static inline struct ddp_shm_slot *ddp_shm_sender_slot(struct ddp_shm_sender *sender)
{
    /* Slot s is free once message sent - slot_count, which used it last, was taken. */
    if (sender->sent > sender->slot_mask &&
        !ddp_shm_sender_is_taken(sender, sender->sent - sender->slot_mask - 1)) {
        return NULL;
    }
    return &sender->slots[sender->sent & sender->slot_mask];
}

/* The filled slot becomes message number *out_ticket. */
static inline void ddp_shm_sender_publish(struct ddp_shm_sender *sender, struct ddp_shm_slot *slot,
                                          uint64_t *out_ticket)
{
    *out_ticket = sender->sent++;
    __atomic_store_n(&slot->turn, sender->sent, __ATOMIC_RELEASE);
}

/* The slot of the oldest message, or NULL. */
static inline struct ddp_shm_slot *ddp_shm_receiver_slot(const struct ddp_shm_receiver *receiver)
{
    struct ddp_shm_slot *slot = &receiver->slots[receiver->taken & receiver->slot_mask];

    return __atomic_load_n(&slot->turn, __ATOMIC_ACQUIRE) == receiver->taken + 1 ? slot : NULL;
}

/* Acknowledge it. Returns whether the sender may be waiting for that: its message was lent, or all
 * its slots were in use. (Both sides first write their word, then look at the other's, in one
 * total order: a sender that found its stream full is always seen here.) */
static inline bool ddp_shm_receiver_take(struct ddp_shm_receiver *receiver)
{
    const struct ddp_shm_slot *slot = &receiver->slots[receiver->taken & receiver->slot_mask];
    bool is_lent = slot->size_bytes > DDP_SHM_INLINE_BYTES;
    uint64_t last_turn = receiver->taken + receiver->slot_mask + 1;
    const struct ddp_shm_slot *last =
        &receiver->slots[(receiver->taken + receiver->slot_mask) & receiver->slot_mask];

    receiver->taken++;
    if (is_lent) {
        __atomic_store_n(&receiver->stream->taken, receiver->taken, __ATOMIC_RELEASE);
        return true;
    }
    (void)__atomic_exchange_n(&receiver->stream->taken, receiver->taken, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&last->turn, __ATOMIC_SEQ_CST) == last_turn;
}

/* Member-local heap inside the segment: first fit, split, merge. Only the owner allocates; blocks
 * are 64-byte aligned and zero-filled. */
struct ddp_shm_heap {
    uint8_t *first;
    size_t size_bytes;
    size_t pristine; /* bytes from here on were never handed out: still zero */
};
void ddp_shm_heap_init(struct ddp_shm_heap *heap, uint8_t *first, size_t size_bytes);
void *ddp_shm_heap_alloc(struct ddp_shm_heap *heap, size_t size_bytes);
void ddp_shm_heap_free(struct ddp_shm_heap *heap, void *data);
bool ddp_shm_heap_owns(const struct ddp_shm_heap *heap, const void *data);

#endif
