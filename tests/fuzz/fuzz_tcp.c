/* Fuzz target: any bytes, in any pieces, either are frames or end the reader for good; what is a
 * frame is encoded as it came. The first bytes say how the rest is cut, and where a hash is put
 * right, so that what lies behind it is reached. */
#include <stdint.h>
#include <string.h>

#include "ddpcore/transport/tcp_frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { NONCE = 1, PAYLOAD_MAX = 1 << 16 };

/* The head at this place as the frame that it says it is, with its hashes. */
static void put_right(uint8_t *head, size_t size_bytes, uint64_t number)
{
    struct ddp_tcp_frame frame = {DDP_TCP_ACK, 0, {0}, 0};
    size_t rest_bytes = size_bytes - DDP_TCP_HEAD_BYTES;

    frame.kind = DDP_TCP_HELLO + head[4] % (DDP_TCP_KIND_END - DDP_TCP_HELLO);
    if (frame.kind == DDP_TCP_DATA) {
        frame.payload_bytes = head[8] + 256u * head[9] + 1;
        if (frame.payload_bytes <= rest_bytes && (head[10] & 1) == 0) {
            frame.payload_hash =
                ddp_tcp_payload_hash(head + DDP_TCP_HEAD_BYTES, frame.payload_bytes);
        }
    }
    memcpy(frame.word, head + 16, sizeof frame.word);
    ddp_tcp_frame_encode(&frame, NONCE, number, head);
}

static void check_frame(const struct ddp_tcp_reader *reader)
{
    const struct ddp_tcp_frame *frame = &reader->frame;
    uint8_t head[DDP_TCP_HEAD_BYTES];
    struct ddp_tcp_frame again;

    DDP_ASSERT(frame->payload_bytes <= PAYLOAD_MAX);
    DDP_ASSERT((frame->kind == DDP_TCP_DATA) == (frame->payload_bytes > 0));
    DDP_ASSERT(frame->payload_bytes == 0 ||
               ddp_tcp_payload_hash(reader->payload, frame->payload_bytes) == frame->payload_hash);
    ddp_tcp_frame_encode(frame, NONCE, reader->number - 1, head);
    DDP_ASSERT(ddp_tcp_frame_decode(head, NONCE, reader->number - 1, &again) == DDP_OK);
    DDP_ASSERT(memcmp(again.word, frame->word, sizeof again.word) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static uint8_t stream[1 << 17];
    struct ddp_tcp_reader reader;
    size_t piece_bytes, at = 0, head_at = 0;
    ddp_status status;

    if (size_bytes < 2 || size_bytes - 2 > sizeof stream) {
        return 0;
    }
    piece_bytes = 1 + (size_t)data[0] * 37;
    memcpy(stream, data + 2, size_bytes - 2);
    size_bytes -= 2;
    ddp_tcp_reader_init(&reader, ddp_mem_system(), NONCE, 0, PAYLOAD_MAX);
    for (uint64_t n = 0; n < data[1] && size_bytes - head_at >= DDP_TCP_HEAD_BYTES; n++) {
        struct ddp_tcp_frame frame;

        put_right(stream + head_at, size_bytes - head_at, n);
        if (ddp_tcp_frame_decode(stream + head_at, NONCE, n, &frame) != DDP_OK ||
            frame.payload_bytes > size_bytes - head_at - DDP_TCP_HEAD_BYTES) {
            break;
        }
        head_at += DDP_TCP_HEAD_BYTES + (size_t)frame.payload_bytes;
    }
    while ((status = ddp_tcp_reader_next(&reader)) == DDP_OK ||
           (status == DDP_PENDING && at < size_bytes)) {
        size_t space_bytes;
        uint8_t *space;

        if (status == DDP_OK) {
            check_frame(&reader);
            ddp_tcp_reader_drop(&reader);
            continue;
        }
        space = ddp_tcp_reader_space(&reader, &space_bytes);
        DDP_ASSERT(space_bytes > 0);
        space_bytes = space_bytes < piece_bytes ? space_bytes : piece_bytes;
        space_bytes = space_bytes < size_bytes - at ? space_bytes : size_bytes - at;
        memcpy(space, stream + at, space_bytes);
        ddp_tcp_reader_filled(&reader, space_bytes);
        at += space_bytes;
    }
    DDP_ASSERT(status == DDP_PENDING || ddp_tcp_reader_next(&reader) == status);
    ddp_tcp_reader_fini(&reader);
    return 0;
}
