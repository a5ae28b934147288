/* The tcp transport's frames, and the reader that takes them from a stream in whatever pieces they
 * come. Internal; pure memory, so that it can be tested and fuzzed without a socket.
 *
 *   header, little endian: u32 magic | u32 kind | u64 payload bytes | u64 word[3] |
 *     u64 payload hash | u64 hash of what stands before, seeded with nonce and number
 *   payload
 *
 * number counts the frames of one direction of one connection, the greeting included. */
#ifndef DDPCORE_TRANSPORT_TCP_FRAME_H
#define DDPCORE_TRANSPORT_TCP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_TCP_HEAD_BYTES  56u
#define DDP_TCP_STAGE_BYTES 4096u

/* word[3] of each: HELLO and WELCOME {from, to, hash of the group's name}; DATA {seq, signature,
 * number}; ACK {messages taken so far, 0, 0}; REVOKE {rank, status, step}, detail is the payload
 * hash's word; BYE {0, 0, 0}. Only DATA has a payload. */
enum ddp_tcp_kind {
    DDP_TCP_HELLO = 1,
    DDP_TCP_WELCOME,
    DDP_TCP_DATA,
    DDP_TCP_ACK,
    DDP_TCP_REVOKE,
    DDP_TCP_BYE,
    DDP_TCP_KIND_END
};

struct ddp_tcp_frame {
    enum ddp_tcp_kind kind;
    uint64_t payload_bytes;
    uint64_t word[3];
    uint64_t payload_hash;
};

/* head: uint8_t[DDP_TCP_HEAD_BYTES]; nonce: the receiver's. */
void ddp_tcp_frame_encode(const struct ddp_tcp_frame *frame, uint64_t nonce, uint64_t number,
                          uint8_t *head);
/* Errors: E_CORRUPT. */
DDP_MUST_USE ddp_status ddp_tcp_frame_decode(const uint8_t *head, uint64_t nonce, uint64_t number,
                                             struct ddp_tcp_frame *out);
uint64_t ddp_tcp_payload_hash(const void *payload, size_t size_bytes);

struct ddp_tcp_reader {
    struct ddp_mem *mem;
    uint64_t nonce, number;
    uint64_t payload_bytes_max;
    ddp_status failed; /* OK, or why nothing more can be read */
    bool has_head, is_complete;
    struct ddp_tcp_frame frame; /* if has_head */
    uint8_t *payload;           /* aligned; the frame's, once it is complete */
    size_t capacity_bytes, got_bytes;
    size_t first, filled; /* of the stage: bytes that were received and not yet looked at */
    uint8_t stage[DDP_TCP_STAGE_BYTES];
};

void ddp_tcp_reader_init(struct ddp_tcp_reader *reader, struct ddp_mem *mem, uint64_t nonce,
                         uint64_t number, uint64_t payload_bytes_max);
void ddp_tcp_reader_fini(struct ddp_tcp_reader *reader);
/* Where the stream's next bytes go, and how many at most (> 0). Only after next said PENDING. */
uint8_t *ddp_tcp_reader_space(struct ddp_tcp_reader *reader, size_t *out_size_bytes);
/* So many bytes were put there. */
void ddp_tcp_reader_filled(struct ddp_tcp_reader *reader, size_t size_bytes);
/* OK: reader->frame is complete, with its payload, until it is dropped. PENDING: more bytes are
 * needed. Errors, all final: E_CORRUPT, E_NOMEM. */
DDP_MUST_USE ddp_status ddp_tcp_reader_next(struct ddp_tcp_reader *reader);
void ddp_tcp_reader_drop(struct ddp_tcp_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
