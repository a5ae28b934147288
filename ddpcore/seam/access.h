/* What device work does to memory, as events device.access and device.name say it. */
#ifndef DDPCORE_SEAM_ACCESS_H
#define DDPCORE_SEAM_ACCESS_H

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By whom: a kernel or a copy of ours; a collective; the host itself, on no stream; a diagnostic
 * read, which is a copy that the host waits for at once to hash or show the data, so that no later
 * work has to be ordered after it. Bit 0: it writes. X(identifier, name) */
#define DDP_ACCESS_TABLE(X)                \
    X(DDP_ACCESS_READ, "read")             \
    X(DDP_ACCESS_WRITE, "write")           \
    X(DDP_ACCESS_COLL_READ, "coll_read")   \
    X(DDP_ACCESS_COLL_WRITE, "coll_write") \
    X(DDP_ACCESS_HOST_READ, "host_read")   \
    X(DDP_ACCESS_HOST_WRITE, "host_write") \
    X(DDP_ACCESS_DIAGNOSTIC_READ, "diagnostic_read")
enum ddp_access {
#define X(id, name) id,
    DDP_ACCESS_TABLE(X)
#undef X
        DDP_ACCESS_COUNT
};
#define DDP_ACCESS_IS_WRITE(access)      (((unsigned)(access)&1u) != 0)
#define DDP_ACCESS_IS_COLL(access)       ((unsigned)(access) >> 1 == 1)
#define DDP_ACCESS_IS_HOST(access)       ((unsigned)(access) >> 1 == 2)
#define DDP_ACCESS_IS_DIAGNOSTIC(access) ((unsigned)(access) >> 1 == 3)
const char *ddp_access_name(enum ddp_access access);
/* Errors: E_NOT_FOUND. */
DDP_MUST_USE ddp_status ddp_access_parse(const char *name, enum ddp_access *out);

/* What a range of device memory holds. X(identifier, name) */
#define DDP_RANGE_TABLE(X)        \
    X(DDP_RANGE_BUCKET, "bucket") \
    X(DDP_RANGE_GRAD, "grad")     \
    X(DDP_RANGE_PARAM, "param")   \
    X(DDP_RANGE_BUFFER, "buffer")
enum ddp_range_kind {
#define X(id, name) id,
    DDP_RANGE_TABLE(X)
#undef X
        DDP_RANGE_COUNT
};
const char *ddp_range_kind_name(enum ddp_range_kind kind);
/* Errors: E_NOT_FOUND. */
DDP_MUST_USE ddp_status ddp_range_kind_parse(const char *name, enum ddp_range_kind *out);

#ifdef __cplusplus
}
#endif
#endif
