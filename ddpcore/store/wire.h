/* The store's frames on the wire, little endian. Internal to the TCP client and server.
 *
 *   request:  u32 size | u32 id | u8 op     | u16 key bytes | key | payload
 *   response: u32 size | u32 id | u8 result | payload
 *
 * size counts what follows it. Payload: SET a value, ADD an i64; a response to GET a value, to ADD
 * an i64, DEAD the u32 rank. A client has one request under way; a newer one replaces it, and the
 * id tells its response from a late one. */
#ifndef DDPCORE_STORE_WIRE_H
#define DDPCORE_STORE_WIRE_H

#include <stdint.h>

#include "ddpcore/base/status.h"
#include "ddpcore/store/store.h"

enum ddp_store_op { DDP_STORE_OP_SET = 1, DDP_STORE_OP_GET = 2, DDP_STORE_OP_ADD = 3 };
enum ddp_store_result {
    DDP_STORE_RESULT_OK = 0,
    DDP_STORE_RESULT_DEAD = 1,
    DDP_STORE_RESULT_STATE = 2,
    DDP_STORE_RESULT_OVERFLOW = 3,
    DDP_STORE_RESULT_NOMEM = 4
};

#define DDP_STORE_REQUEST_HEAD  11u
#define DDP_STORE_RESPONSE_HEAD 9u
#define DDP_STORE_REQUEST_MAX \
    (DDP_STORE_REQUEST_HEAD + DDP_STORE_KEY_BYTES_MAX + DDP_STORE_VALUE_BYTES_MAX)
#define DDP_STORE_RESPONSE_MAX (DDP_STORE_RESPONSE_HEAD + DDP_STORE_VALUE_BYTES_MAX)

static inline void ddp_store_put_u32(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
    out[2] = (uint8_t)(value >> 16);
    out[3] = (uint8_t)(value >> 24);
}

static inline uint32_t ddp_store_get_u32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static inline void ddp_store_put_i64(uint8_t *out, int64_t value)
{
    ddp_store_put_u32(out, (uint32_t)(uint64_t)value);
    ddp_store_put_u32(out + 4, (uint32_t)((uint64_t)value >> 32));
}

static inline int64_t ddp_store_get_i64(const uint8_t *in)
{
    return (int64_t)((uint64_t)ddp_store_get_u32(in) | (uint64_t)ddp_store_get_u32(in + 4) << 32);
}

/* Write as much as the socket takes. PENDING: more is left. E_IO: the other side is gone. */
DDP_MUST_USE ddp_status ddp_store_flush(int fd, const uint8_t *data, size_t size_bytes,
                                        size_t *sent_bytes);
/* Read what is there, up to capacity. PENDING: nothing now. E_IO: the other side is gone. */
DDP_MUST_USE ddp_status ddp_store_fill(int fd, uint8_t *data, size_t capacity_bytes,
                                       size_t *filled_bytes);

#endif
