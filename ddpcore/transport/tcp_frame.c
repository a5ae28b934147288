/* See the header. */
#include "ddpcore/transport/tcp_frame.h"

#include <string.h>

#include "ddpcore/base/hash.h"

#define MAGIC        UINT32_C(0x31465444) /* "DTF1" */
#define HASHED_BYTES (DDP_TCP_HEAD_BYTES - 8u)
#define GRAIN_BYTES  ((size_t)4096)

static void put_u32(uint8_t *out, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static void put_u64(uint8_t *out, uint64_t value)
{
    put_u32(out, (uint32_t)value);
    put_u32(out + 4, (uint32_t)(value >> 32));
}

static uint32_t get_u32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static uint64_t get_u64(const uint8_t *in)
{
    return get_u32(in) | (uint64_t)get_u32(in + 4) << 32;
}

static uint64_t head_hash(const uint8_t *head, uint64_t nonce, uint64_t number)
{
    return ddp_hash_bytes(head, HASHED_BYTES, ddp_hash_combine(nonce, number));
}

uint64_t ddp_tcp_payload_hash(const void *payload, size_t size_bytes)
{
    return ddp_hash_bytes(payload, size_bytes, MAGIC);
}

void ddp_tcp_frame_encode(const struct ddp_tcp_frame *frame, uint64_t nonce, uint64_t number,
                          uint8_t *head)
{
    DDP_ASSERT(frame->kind >= DDP_TCP_HELLO && frame->kind < DDP_TCP_KIND_END);
    DDP_ASSERT((frame->kind == DDP_TCP_DATA) == (frame->payload_bytes > 0));
    put_u32(head, MAGIC);
    put_u32(head + 4, (uint32_t)frame->kind);
    put_u64(head + 8, frame->payload_bytes);
    for (size_t i = 0; i < 3; i++) {
        put_u64(head + 16 + 8 * i, frame->word[i]);
    }
    put_u64(head + 40, frame->payload_hash);
    put_u64(head + HASHED_BYTES, head_hash(head, nonce, number));
}

ddp_status ddp_tcp_frame_decode(const uint8_t *head, uint64_t nonce, uint64_t number,
                                struct ddp_tcp_frame *out)
{
    uint32_t kind = get_u32(head + 4);

    if (get_u32(head) != MAGIC || get_u64(head + HASHED_BYTES) != head_hash(head, nonce, number) ||
        kind < DDP_TCP_HELLO || kind >= DDP_TCP_KIND_END) {
        return DDP_E_CORRUPT;
    }
    out->kind = (enum ddp_tcp_kind)kind;
    out->payload_bytes = get_u64(head + 8);
    for (size_t i = 0; i < 3; i++) {
        out->word[i] = get_u64(head + 16 + 8 * i);
    }
    out->payload_hash = get_u64(head + 40);
    return (out->kind == DDP_TCP_DATA) == (out->payload_bytes > 0) ? DDP_OK : DDP_E_CORRUPT;
}

void ddp_tcp_reader_init(struct ddp_tcp_reader *reader, struct ddp_mem *mem, uint64_t nonce,
                         uint64_t number, uint64_t payload_bytes_max)
{
    reader->mem = mem;
    reader->nonce = nonce;
    reader->number = number;
    reader->payload_bytes_max = payload_bytes_max;
    reader->failed = DDP_OK;
    reader->has_head = false;
    reader->is_complete = false;
    reader->payload = NULL;
    reader->capacity_bytes = 0;
    reader->got_bytes = 0;
    reader->first = 0;
    reader->filled = 0;
}

void ddp_tcp_reader_fini(struct ddp_tcp_reader *reader)
{
    if (reader->payload != NULL) {
        ddp_mem_free(reader->mem, reader->payload);
    }
    reader->payload = NULL;
}

static size_t missing_bytes(const struct ddp_tcp_reader *reader)
{
    DDP_ASSERT(reader->has_head && reader->got_bytes <= reader->frame.payload_bytes);
    return (size_t)reader->frame.payload_bytes - reader->got_bytes;
}

/* A long rest of a payload goes where it belongs; all else through the stage, so that what is short
 * comes in one piece. */
uint8_t *ddp_tcp_reader_space(struct ddp_tcp_reader *reader, size_t *out_size_bytes)
{
    DDP_ASSERT(reader->failed == DDP_OK);
    if (reader->has_head && reader->first == reader->filled &&
        missing_bytes(reader) >= DDP_TCP_STAGE_BYTES) {
        *out_size_bytes = missing_bytes(reader);
        return reader->payload + reader->got_bytes;
    }
    if (reader->first > 0) {
        memmove(reader->stage, reader->stage + reader->first, reader->filled - reader->first);
        reader->filled -= reader->first;
        reader->first = 0;
    }
    DDP_ASSERT(reader->filled < DDP_TCP_STAGE_BYTES); /* else next would have found something */
    *out_size_bytes = DDP_TCP_STAGE_BYTES - reader->filled;
    return reader->stage + reader->filled;
}

void ddp_tcp_reader_filled(struct ddp_tcp_reader *reader, size_t size_bytes)
{
    if (reader->has_head && reader->first == reader->filled &&
        missing_bytes(reader) >= DDP_TCP_STAGE_BYTES) {
        DDP_ASSERT(size_bytes <= missing_bytes(reader));
        reader->got_bytes += size_bytes;
        return;
    }
    DDP_ASSERT(size_bytes <= DDP_TCP_STAGE_BYTES - reader->filled);
    reader->filled += size_bytes;
}

/* Room for the payload that the head announces; the memory is kept for later ones. */
static ddp_status make_room(struct ddp_tcp_reader *reader)
{
    size_t wanted_bytes = (size_t)reader->frame.payload_bytes;

    if (reader->frame.payload_bytes > reader->payload_bytes_max ||
        reader->frame.payload_bytes > SIZE_MAX - GRAIN_BYTES) {
        return DDP_E_CORRUPT;
    }
    if (wanted_bytes <= reader->capacity_bytes) {
        return DDP_OK;
    }
    ddp_tcp_reader_fini(reader);
    reader->capacity_bytes = 0;
    wanted_bytes = (wanted_bytes + GRAIN_BYTES - 1) & ~(GRAIN_BYTES - 1);
    reader->payload = reader->mem->alloc(reader->mem, wanted_bytes);
    if (reader->payload == NULL) {
        return DDP_E_NOMEM;
    }
    reader->capacity_bytes = wanted_bytes;
    return DDP_OK;
}

static ddp_status take_head(struct ddp_tcp_reader *reader)
{
    if (reader->filled - reader->first < DDP_TCP_HEAD_BYTES) {
        return DDP_PENDING;
    }
    DDP_TRY(ddp_tcp_frame_decode(reader->stage + reader->first, reader->nonce, reader->number,
                                 &reader->frame));
    DDP_TRY(make_room(reader));
    reader->number++;
    reader->first += DDP_TCP_HEAD_BYTES;
    reader->has_head = true;
    reader->is_complete = false;
    reader->got_bytes = 0;
    return DDP_OK;
}

static ddp_status take_payload(struct ddp_tcp_reader *reader)
{
    size_t staged_bytes = reader->filled - reader->first;
    size_t taken_bytes =
        missing_bytes(reader) < staged_bytes ? missing_bytes(reader) : staged_bytes;

    if (taken_bytes > 0) {
        memcpy(reader->payload + reader->got_bytes, reader->stage + reader->first, taken_bytes);
        reader->got_bytes += taken_bytes;
        reader->first += taken_bytes;
    }
    if (missing_bytes(reader) > 0) {
        return DDP_PENDING;
    }
    if (!reader->is_complete && reader->got_bytes > 0 &&
        ddp_tcp_payload_hash(reader->payload, reader->got_bytes) != reader->frame.payload_hash) {
        return DDP_E_CORRUPT;
    }
    reader->is_complete = true;
    return DDP_OK;
}

ddp_status ddp_tcp_reader_next(struct ddp_tcp_reader *reader)
{
    ddp_status status = reader->failed;

    if (status == DDP_OK && !reader->has_head) {
        status = take_head(reader);
    }
    if (status == DDP_OK) {
        status = take_payload(reader);
    }
    if (status < DDP_OK) {
        reader->failed = status;
    }
    return status;
}

void ddp_tcp_reader_drop(struct ddp_tcp_reader *reader)
{
    DDP_ASSERT(reader->has_head && reader->is_complete);
    reader->has_head = false;
}
