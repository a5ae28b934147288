/* Frames of the tcp transport: what is sent comes back from any cutting of the stream; what is
 * damaged, repeated, lost, somebody else's or too long is refused. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/transport/tcp_frame.h"
#include "tests/ct.h"

enum { NONCE = 7, FRAME_COUNT = 4, PAYLOAD_MAX = 20000 };

static const size_t payload_bytes[FRAME_COUNT] = {5, 0, PAYLOAD_MAX, 4100};

static uint8_t payload_at(uint32_t frame, size_t i)
{
    return (uint8_t)(i * 7 + frame);
}

/* All frames behind each other; the second one is an acknowledgement. */
static size_t put_stream(uint8_t *stream)
{
    size_t at = 0;

    for (uint32_t f = 0; f < FRAME_COUNT; f++) {
        struct ddp_tcp_frame frame = {
            payload_bytes[f] > 0 ? DDP_TCP_DATA : DDP_TCP_ACK, payload_bytes[f], {f, 2, 3}, 0};
        uint8_t *payload = stream + at + DDP_TCP_HEAD_BYTES;

        for (size_t i = 0; i < payload_bytes[f]; i++) {
            payload[i] = payload_at(f, i);
        }
        frame.payload_hash = ddp_tcp_payload_hash(payload, payload_bytes[f]);
        ddp_tcp_frame_encode(&frame, NONCE, f, stream + at);
        at += DDP_TCP_HEAD_BYTES + payload_bytes[f];
    }
    return at;
}

static bool is_frame(const struct ddp_tcp_reader *reader, uint32_t f)
{
    bool is_same = reader->frame.payload_bytes == payload_bytes[f] && reader->frame.word[0] == f &&
                   reader->frame.word[1] == 2 && reader->frame.word[2] == 3;

    for (size_t i = 0; is_same && i < payload_bytes[f]; i++) {
        is_same = reader->payload[i] == payload_at(f, i);
    }
    return is_same;
}

/* Feed in pieces of piece_bytes. Returns how many frames came as they were sent, until the stream
 * or the reader ended. */
static uint32_t feed(const uint8_t *stream, size_t size_bytes, size_t piece_bytes,
                     ddp_status *out_status)
{
    struct ddp_tcp_reader reader;
    uint32_t count = 0;
    size_t at = 0;

    ddp_tcp_reader_init(&reader, ddp_mem_system(), NONCE, 0, PAYLOAD_MAX);
    for (;;) {
        ddp_status status = ddp_tcp_reader_next(&reader);
        size_t space_bytes;
        uint8_t *space;

        if (status == DDP_OK) {
            if (count < FRAME_COUNT && is_frame(&reader, count)) {
                count++;
            }
            ddp_tcp_reader_drop(&reader);
            continue;
        }
        *out_status = status;
        if (status != DDP_PENDING || at == size_bytes) {
            break;
        }
        space = ddp_tcp_reader_space(&reader, &space_bytes);
        space_bytes = space_bytes < piece_bytes ? space_bytes : piece_bytes;
        space_bytes = space_bytes < size_bytes - at ? space_bytes : size_bytes - at;
        memcpy(space, stream + at, space_bytes);
        ddp_tcp_reader_filled(&reader, space_bytes);
        at += space_bytes;
    }
    ddp_tcp_reader_fini(&reader);
    return count;
}

static uint8_t stream[FRAME_COUNT * DDP_TCP_HEAD_BYTES + 5 + PAYLOAD_MAX + 4100];

CT_TEST(tcp_frame, comes_back_from_any_pieces)
{
    static const size_t pieces[] = {1, 3, DDP_TCP_HEAD_BYTES, 57, 4095, 4096, 4097, sizeof stream};
    size_t size_bytes = put_stream(stream);
    ddp_status status;

    CT_CHECK_EQ_U64(size_bytes, sizeof stream);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        CT_CHECK_EQ_U64(feed(stream, size_bytes, pieces[i], &status), FRAME_COUNT);
        CT_CHECK(status == DDP_PENDING);
    }
    /* Cut anywhere: nothing wrong is taken for a frame. */
    for (size_t cut = 0; cut < 300; cut++) {
        CT_CHECK(feed(stream, cut, 4096, &status) <= 2);
        CT_CHECK(status == DDP_PENDING);
    }
}

/* Every bit of the first frames, and some of the others. */
CT_TEST(tcp_frame, damage_is_noticed)
{
    size_t size_bytes = put_stream(stream);
    ddp_status status;

    for (size_t i = 0; i < size_bytes; i += i < 200 ? 1 : 97) {
        for (unsigned bit = 0; bit < 8; bit++) {
            stream[i] ^= (uint8_t)(1u << bit);
            CT_CHECK(feed(stream, size_bytes, 5000, &status) < FRAME_COUNT);
            CT_CHECK(status == DDP_E_CORRUPT);
            stream[i] ^= (uint8_t)(1u << bit);
        }
    }
}

CT_TEST(tcp_frame, order_and_owner_are_checked)
{
    static uint8_t other[sizeof stream];
    size_t size_bytes = put_stream(stream);
    const size_t first_bytes = DDP_TCP_HEAD_BYTES + payload_bytes[0];
    struct ddp_tcp_frame frame;
    ddp_status status;

    /* The first frame twice; the first frame lost. */
    memcpy(other, stream, first_bytes);
    memcpy(other + first_bytes, stream, first_bytes);
    CT_CHECK_EQ_U64(feed(other, 2 * first_bytes, 4096, &status), 1);
    CT_CHECK(status == DDP_E_CORRUPT);
    CT_CHECK_EQ_U64(feed(stream + first_bytes, size_bytes - first_bytes, 4096, &status), 0);
    CT_CHECK(status == DDP_E_CORRUPT);
    /* Somebody else's. */
    CT_CHECK(ddp_tcp_frame_decode(stream, NONCE, 0, &frame) == DDP_OK);
    CT_CHECK(ddp_tcp_frame_decode(stream, NONCE + 1, 0, &frame) == DDP_E_CORRUPT);
}

CT_TEST(tcp_frame, length_is_limited)
{
    struct ddp_tcp_frame frame = {DDP_TCP_DATA, PAYLOAD_MAX + 1, {0, 2, 3}, 0};
    ddp_status status;

    ddp_tcp_frame_encode(&frame, NONCE, 0, stream);
    CT_CHECK_EQ_U64(feed(stream, DDP_TCP_HEAD_BYTES, 4096, &status), 0);
    CT_CHECK(status == DDP_E_CORRUPT);
    frame.payload_bytes = UINT64_MAX;
    ddp_tcp_frame_encode(&frame, NONCE, 0, stream);
    CT_CHECK_EQ_U64(feed(stream, DDP_TCP_HEAD_BYTES, 4096, &status), 0);
    CT_CHECK(status == DDP_E_CORRUPT);
}
