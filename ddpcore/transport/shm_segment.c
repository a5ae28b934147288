/* Layout of the shared segment, and the opening of stream ends. No system calls. */
#include "ddpcore/transport/shm_segment.h"

_Static_assert(sizeof(struct ddp_shm_header) == 128, "two lines");
_Static_assert(sizeof(struct ddp_shm_member) == 192, "three lines");
_Static_assert(sizeof(struct ddp_shm_slot) == 64 + DDP_SHM_INLINE_BYTES, "a line, then data");

static size_t slots_first(uint32_t member_count)
{
    return sizeof(struct ddp_shm_header) + member_count * sizeof(struct ddp_shm_member) +
           (size_t)member_count * member_count * sizeof(struct ddp_shm_stream);
}

static size_t heap_first(uint32_t member_count, uint32_t slot_count)
{
    size_t end = slots_first(member_count) +
                 (size_t)member_count * member_count * slot_count * sizeof(struct ddp_shm_slot);

    return (end + 4095) & ~(size_t)4095;
}

size_t ddp_shm_segment_size_bytes(uint32_t member_count, uint32_t slot_count, size_t heap_bytes)
{
    if (member_count == 0 || member_count > DDP_SHM_MEMBERS_MAX || slot_count == 0 ||
        slot_count > DDP_SHM_SLOTS_MAX || (slot_count & (slot_count - 1)) != 0 ||
        heap_bytes % 4096 != 0 || heap_bytes > ((size_t)1 << 46) / member_count) {
        return 0;
    }
    return heap_first(member_count, slot_count) + member_count * heap_bytes;
}

void ddp_shm_segment_view(struct ddp_shm_segment *segment, void *base, uint32_t member_count,
                          uint32_t slot_count, size_t heap_bytes)
{
    DDP_ASSERT(((uintptr_t)base & 4095) == 0);
    segment->base = base;
    segment->size_bytes = ddp_shm_segment_size_bytes(member_count, slot_count, heap_bytes);
    segment->header = base;
    segment->members = (void *)&segment->header[1];
    segment->streams = (void *)&segment->members[member_count];
    segment->slots = (void *)&segment->streams[(size_t)member_count * member_count];
    segment->member_count = member_count;
    segment->slot_count = slot_count;
    segment->heap_first = heap_first(member_count, slot_count);
    segment->heap_bytes = heap_bytes;
    DDP_ASSERT((uint8_t *)segment->slots == segment->base + slots_first(member_count));
    DDP_ASSERT(segment->heap_first + member_count * heap_bytes == segment->size_bytes);
}

void ddp_shm_segment_format(struct ddp_shm_segment *segment, uint64_t nonce)
{
    struct ddp_shm_header *header = segment->header;

    header->nonce = nonce;
    __atomic_store_n(&header->magic, DDP_SHM_MAGIC, __ATOMIC_RELEASE);
}

void ddp_shm_sender_open(struct ddp_shm_sender *sender, const struct ddp_shm_segment *segment,
                         uint32_t from, uint32_t to)
{
    size_t stream = ddp_shm_stream_index(segment, from, to);

    DDP_ASSERT(from < segment->member_count && to < segment->member_count);
    sender->slots = &segment->slots[stream * segment->slot_count];
    sender->stream = &segment->streams[stream];
    sender->sent = 0;
    sender->taken = 0;
    sender->slot_mask = segment->slot_count - 1;
}

void ddp_shm_receiver_open(struct ddp_shm_receiver *receiver, const struct ddp_shm_segment *segment,
                           uint32_t from, uint32_t to)
{
    size_t stream = ddp_shm_stream_index(segment, from, to);

    DDP_ASSERT(from < segment->member_count && to < segment->member_count);
    receiver->slots = &segment->slots[stream * segment->slot_count];
    receiver->stream = &segment->streams[stream];
    receiver->taken = 0;
    receiver->slot_mask = segment->slot_count - 1;
}
