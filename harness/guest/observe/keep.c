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

int guest_is_kept(const struct guest_page *page)
{
    const struct guest_arena *arena = guest_self_arena();
    const uint64_t step = guest_load(&page->step);

    return step >= arena->keep_first && step < arena->keep_end;
}

static unsigned rank_of(const struct guest_page *page)
{
    const struct guest_arena *arena = guest_self_arena();

    return (unsigned)(((const char *)page - (const char *)guest_arena_page(arena, 0)) /
                      (ptrdiff_t)arena->slot_stride_bytes);
}

static void keep(const char *name, const void *data, uint64_t size_bytes,
                 const struct guest_value *value)
{
    const struct guest_kept_head head = {
        .magic = GUEST_KEPT_MAGIC, .size_bytes = size_bytes, .value = *value};
    const int folder = open(guest_self_arena()->keep_folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (folder >= 0) {
        write_file(folder, name, &head, data);
        (void)close(folder);
    }
}

void guest_keep(const struct guest_page *page, const struct guest_comm *comm, uint64_t seq,
                const char *suffix, const void *data, uint64_t size_bytes,
                const struct guest_value *value)
{
    char name[GUEST_KEPT_NAME_BYTES];

    if (guest_is_kept(page)) {
        (void)snprintf(name, sizeof name, GUEST_KEPT_NAME, rank_of(page),
                       (unsigned long long)guest_load(&comm->key),
                       (unsigned)guest_load(&comm->handle), (unsigned long long)seq, suffix);
        keep(name, data, size_bytes, value);
    }
}

void guest_keep_tensor(const struct guest_page *page, uint64_t update, uint32_t index,
                       unsigned part, const void *data, uint64_t size_bytes, uint64_t hash)
{
    static const char *const parts[] = GUEST_KEPT_PARTS;
    const struct guest_value value = {.hash = hash};
    char name[GUEST_KEPT_NAME_BYTES];

    if (guest_is_kept(page)) {
        (void)snprintf(name, sizeof name, GUEST_KEPT_TENSOR_NAME, rank_of(page),
                       (unsigned long long)update, index, parts[part]);
        keep(name, data, size_bytes, &value);
    }
}
