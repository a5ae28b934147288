/* The arena of a guest, from the side that made it. */
#ifndef HARNESS_WATCH_ARENA_H
#define HARNESS_WATCH_ARENA_H

#include <stdint.h>

#include "ddpcore/base/status.h"
#include "harness/guest/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_WATCH_WHERE_BYTES 64

struct harness_watch_arena {
    struct guest_arena *head;
    int fd;                                /* close-on-exec: ranks open it through /proc */
    char where[HARNESS_WATCH_WHERE_BYTES]; /* the value of GUEST_ARENA_VARIABLE for ranks */
};

/* Memory for a world of ranks, each with a ring of so many entries (a power of two). It lives as
 * long as anybody maps it, and has no name in any file system. Errors: E_SYSTEM. */
DDP_MUST_USE ddp_status harness_watch_arena_create(uint32_t world_size, uint64_t ring_entry_count,
                                                   struct harness_watch_arena *out,
                                                   struct ddp_err *err);
/* Zeroed with fd -1 is fine too. */
void harness_watch_arena_destroy(struct harness_watch_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
