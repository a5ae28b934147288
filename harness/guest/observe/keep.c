#include "harness/guest/observe/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "harness/guest/self.h"

static int write_all(int fd, const void *data, uint64_t size_bytes)
{
    for (uint64_t done = 0; done < size_bytes;) {
        const ssize_t size = write(fd, (const char *)data + done, (size_t)(size_bytes - done));

        if (size < 0 && errno != EINTR) {
            return 0;
        }
        done += size > 0 ? (uint64_t)size : 0;
    }
    return 1;
}

/* What cannot be written is missing, and who reads the folder says so. */
static void write_file(int folder, const char *name, const struct guest_kept_head *head,
                       const void *data)
{
    char partial[GUEST_KEPT_NAME_BYTES + 8];
    int fd;
    int is_whole;

    (void)snprintf(partial, sizeof partial, "%s.part", name);
    fd = openat(folder, partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return;
    }
    is_whole = write_all(fd, head, sizeof *head) && write_all(fd, data, head->size_bytes);
    if (close(fd) != 0 || !is_whole || renameat(folder, partial, folder, name) != 0) {
        (void)unlinkat(folder, partial, 0);
    }
}

void guest_keep(const struct guest_page *page, const struct guest_comm *comm, uint64_t seq,
                const char *suffix, const void *data, uint64_t size_bytes,
                const struct guest_value *value)
{
    const struct guest_arena *arena = guest_self_arena();
    const uint64_t step = guest_load(&page->step);
    const unsigned rank =
        (unsigned)(((const char *)page - (const char *)guest_arena_page(arena, 0)) /
                   (ptrdiff_t)arena->slot_stride_bytes);
    const struct guest_kept_head head = {
        .magic = GUEST_KEPT_MAGIC, .size_bytes = size_bytes, .value = *value};
    char name[GUEST_KEPT_NAME_BYTES];
    int folder;

    if (step < arena->keep_first || step >= arena->keep_end) {
        return;
    }
    folder = open(arena->keep_folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        (void)snprintf(name, sizeof name, GUEST_KEPT_NAME, rank,
                       (unsigned long long)guest_load(&comm->key),
                       (unsigned)guest_load(&comm->handle), (unsigned long long)seq, suffix);
        write_file(folder, name, &head, data);
        (void)close(folder);
    }
}
