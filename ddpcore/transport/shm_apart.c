/* See the header. */
#include "ddpcore/transport/shm_apart.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What lies in the slot. */
struct place {
    uint64_t pid;
    int32_t fd;
    uint32_t pad;
};

static ddp_status status_of(int error, ddp_status other)
{
    return error == EMFILE || error == ENFILE ? DDP_E_NO_FD : error == ENOMEM ? DDP_E_NOMEM : other;
}

static bool write_all(int fd, const uint8_t *data, size_t size_bytes)
{
    while (size_bytes > 0) {
        const ssize_t written = write(fd, data, size_bytes);

        if (written > 0) {
            data += written;
            size_bytes -= (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

ddp_status ddp_shm_apart_put(const struct ddp_message *message, struct ddp_shm_slot *slot,
                             int *out_fd)
{
    struct place place = {.pid = (uint64_t)getpid()};
    const int fd = memfd_create("ddp-message", MFD_CLOEXEC);

    if (fd < 0) {
        return status_of(errno, DDP_E_NOMEM);
    }
    if (!write_all(fd, message->data, message->size_bytes)) {
        (void)close(fd);
        return DDP_E_NOMEM;
    }
    place.fd = fd;
    memcpy(slot->data, &place, sizeof(place));
    slot->offset = DDP_SHM_APART;
    *out_fd = fd;
    return DDP_OK;
}

static ddp_status map(int fd, size_t size_bytes, void **out)
{
    struct stat info;

    if (fstat(fd, &info) != 0 || (uint64_t)info.st_size != size_bytes) {
        return DDP_E_CORRUPT;
    }
    *out = mmap(NULL, size_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
    return *out == MAP_FAILED ? status_of(errno, DDP_E_SYSTEM) : DDP_OK;
}

ddp_status ddp_shm_apart_map(const struct ddp_shm_slot *slot, void **out)
{
    struct place place;
    char path[64];
    ddp_status status;
    int fd;

    memcpy(&place, slot->data, sizeof(place));
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%d", place.pid, place.fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ESRCH ? DDP_E_PEER_DIED : status_of(errno, DDP_E_SYSTEM);
    }
    status = map(fd, slot->size_bytes, out);
    (void)close(fd);
    return status;
}
