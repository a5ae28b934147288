/* The store's frames on the wire, little endian. Internal to the store's server and clients.
 *
 *   request:  u32 size | u32 id | u8 op     | u16 key bytes | key | payload
 *   response: u32 size | u32 id | u8 status | payload
 *
 * size counts what follows it. status: OK, or an error without its sign. Payload: SET a value, ADD
 * an i64; a response to GET a value, to ADD an i64, with E_PEER_DIED the u32 rank. A client has one
 * request under way; a newer one replaces it, and the id tells its response from a late one. */
#ifndef DDPCORE_STORE_WIRE_H
#define DDPCORE_STORE_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "ddpcore/base/status.h"
#include "ddpcore/store/store.h"

enum ddp_store_op { DDP_STORE_OP_SET = 1, DDP_STORE_OP_GET = 2, DDP_STORE_OP_ADD = 3 };

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

struct ddp_store_request {
    enum ddp_store_op op;
    const void *key;
    size_t key_bytes; /* 1 to DDP_STORE_KEY_BYTES_MAX */
    const void *payload;
    size_t payload_bytes; /* at most DDP_STORE_VALUE_BYTES_MAX; of ADD: 8 */
};
/* Errors: E_INVALID, a key or a value that is too long, or no key. */
static inline ddp_status ddp_store_request_init(struct ddp_store_request *out, enum ddp_store_op op,
                                                const char *key, const void *payload,
                                                size_t payload_bytes)
{
    out->op = op;
    out->key = key;
    out->key_bytes = strlen(key);
    out->payload = payload;
    out->payload_bytes = payload_bytes;
    return out->key_bytes == 0 || out->key_bytes > DDP_STORE_KEY_BYTES_MAX ||
                   payload_bytes > DDP_STORE_VALUE_BYTES_MAX
               ? DDP_E_INVALID
               : DDP_OK;
}

/* What the server answers, and the payload of it. PENDING: a GET of a key that nobody has set.
 * payload: uint8_t[DDP_STORE_VALUE_BYTES_MAX] of a GET, [8] of an ADD. */
DDP_MUST_USE ddp_status ddp_store_server_answer(struct ddp_store_server *server,
                                                const struct ddp_store_request *request,
                                                uint8_t *payload, size_t *out_payload_bytes);

/* Whether another process could not be served for want of memory here. Its connection was closed:
 * whoever has the server must not go on either. */
bool ddp_store_server_is_exhausted(const struct ddp_store_server *server);

/* Whoever has the server is a rank: a connection that breaks is in its record (event link.lost),
 * since the rank at its other end takes this one for dead. recorder: of the rank; it outlives the
 * server. */
void ddp_store_server_set_recorder(struct ddp_store_server *server, struct ddp_recorder *recorder);

/* Write as much as the socket takes. PENDING: more is left. E_IO: the call failed, and errno says
 * why. */
DDP_MUST_USE ddp_status ddp_store_flush(int fd, const uint8_t *data, size_t size_bytes,
                                        size_t *sent_bytes);
/* Read what is there, up to capacity. PENDING: nothing now. E_IO: the other side is gone,
 * and errno says why, or is 0 if it closed the connection. */
DDP_MUST_USE ddp_status ddp_store_fill(int fd, uint8_t *data, size_t capacity_bytes,
                                       size_t *filled_bytes);

#endif
