#include "harness/watch/arena.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

static uint64_t round_up(uint64_t size_bytes)
{
    return (size_bytes + 4095) / 4096 * 4096;
}

ddp_status harness_watch_arena_create(uint32_t world_size, uint64_t ring_entry_count,
                                      struct harness_watch_arena *out, struct ddp_err *err)
{
    const uint64_t ring_offset_bytes = round_up(sizeof(struct guest_page));
    const uint64_t stride_bytes =
        round_up(ring_offset_bytes + ring_entry_count * sizeof(struct guest_entry));
    const uint64_t size_bytes = round_up(sizeof(struct guest_arena)) + world_size * stride_bytes;
    uint64_t nonce = 0;

    DDP_ASSERT(world_size > 0 && ring_entry_count > 0 &&
               (ring_entry_count & (ring_entry_count - 1)) == 0);
    memset(out, 0, sizeof *out);
    out->fd = memfd_create("ddprove-arena", MFD_CLOEXEC);
    if (out->fd < 0 || ftruncate(out->fd, (off_t)size_bytes) != 0 ||
        getrandom(&nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) {
        ddp_status status =
            ddp_err_set(err, DDP_E_SYSTEM, "memory shared with the ranks: %s", strerror(errno));

        harness_watch_arena_destroy(out);
        return status;
    }
    out->head = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (out->head == MAP_FAILED) {
        out->head = NULL;
        harness_watch_arena_destroy(out);
        return ddp_err_set(err, DDP_E_SYSTEM, "memory shared with the ranks: %s", strerror(errno));
    }
    *out->head = (struct guest_arena){.magic = GUEST_ARENA_MAGIC,
                                      .version = GUEST_ARENA_VERSION,
                                      .size_bytes = size_bytes,
                                      .nonce = nonce,
                                      .world_size = world_size,
                                      .ring_entry_count = ring_entry_count,
                                      .slot_offset_bytes = round_up(sizeof(struct guest_arena)),
                                      .slot_stride_bytes = stride_bytes,
                                      .ring_offset_bytes = ring_offset_bytes};
    (void)snprintf(out->where, sizeof out->where, "/proc/%ld/fd/%d:%" PRIx64, (long)getpid(),
                   out->fd, nonce);
    return DDP_OK;
}

void harness_watch_arena_destroy(struct harness_watch_arena *arena)
{
    if (arena->head != NULL) {
        (void)munmap(arena->head, arena->head->size_bytes);
    }
    if (arena->fd >= 0) {
        (void)close(arena->fd);
    }
    *arena = (struct harness_watch_arena){.fd = -1};
}
