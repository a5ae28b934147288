/* The operating system's files, and what can be built from any file table: whole and atomic writes.
 * Calls that a signal interrupted are repeated here; after a short write the caller goes on with
 * the rest. */
#include "ddpcore/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ddp_status ddp_files_status(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return DDP_E_NO_SPACE;
    case EMFILE:
    case ENFILE:
        return DDP_E_NO_FD;
    case ENOENT:
        return DDP_E_NOT_FOUND;
    default:
        return DDP_E_IO;
    }
}

static ddp_status fail_path(struct ddp_err *err, const char *what, const char *path)
{
    int code = errno;

    return ddp_err_set(err, ddp_files_status(code), "%s %s: %s", what, path, strerror(code));
}

static ddp_status fail_handle(struct ddp_err *err, const char *what)
{
    int code = errno;

    return ddp_err_set(err, ddp_files_status(code), "%s: %s", what, strerror(code));
}

static ddp_status open_to_write(const char *path, int how, int *out_handle, struct ddp_err *err)
{
    int fd;

    do {
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | how, 0666);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return fail_path(err, "cannot create", path);
    }
    *out_handle = fd;
    return DDP_OK;
}

static ddp_status system_create(struct ddp_files *files, const char *path, int *out_handle,
                                struct ddp_err *err)
{
    (void)files;
    return open_to_write(path, O_TRUNC, out_handle, err);
}

static ddp_status system_append(struct ddp_files *files, const char *path, int *out_handle,
                                struct ddp_err *err)
{
    (void)files;
    return open_to_write(path, O_APPEND, out_handle, err);
}

static ddp_status system_write(struct ddp_files *files, int handle, const void *data,
                               size_t size_bytes, size_t *out_written, struct ddp_err *err)
{
    ssize_t written;

    (void)files;
    *out_written = 0;
    if (size_bytes == 0) {
        return DDP_OK;
    }
    do {
        written = write(handle, data, size_bytes < SSIZE_MAX ? size_bytes : SSIZE_MAX);
    } while (written < 0 && errno == EINTR);
    if (written <= 0) {
        return fail_handle(err, "cannot write");
    }
    *out_written = (size_t)written;
    return DDP_OK;
}

static int fsync_whole(int fd)
{
    int result;

    do {
        result = fsync(fd);
    } while (result != 0 && errno == EINTR);
    return result;
}

static ddp_status system_sync(struct ddp_files *files, int handle, struct ddp_err *err)
{
    (void)files;
    return fsync_whole(handle) == 0 ? DDP_OK : fail_handle(err, "cannot sync");
}

static ddp_status system_close(struct ddp_files *files, int handle, struct ddp_err *err)
{
    (void)files;
    /* Linux releases the descriptor even when close is interrupted: never call it twice. */
    if (close(handle) != 0 && errno != EINTR) {
        return fail_handle(err, "cannot close");
    }
    return DDP_OK;
}

/* Length of the folder part of a path: 0 for the present folder, 1 for the root. */
static size_t folder_bytes(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL) {
        return 0;
    }
    return slash == path ? 1 : (size_t)(slash - path);
}

static ddp_status sync_folder_of(const char *path, struct ddp_err *err)
{
    char folder[PATH_MAX] = ".";
    size_t size_bytes = folder_bytes(path);
    ddp_status status = DDP_OK;
    int fd;

    if (size_bytes >= sizeof(folder)) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "path too long: %s", path);
    }
    if (size_bytes > 0) {
        memcpy(folder, path, size_bytes);
        folder[size_bytes] = '\0';
    }
    do {
        fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return fail_path(err, "cannot open folder", folder);
    }
    /* EINVAL: this file system cannot sync folders. */
    if (fsync_whole(fd) != 0 && errno != EINVAL) {
        status = fail_path(err, "cannot sync folder", folder);
    }
    (void)close(fd);
    return status;
}

static ddp_status unsynced_sync(struct ddp_files *files, int handle, struct ddp_err *err)
{
    (void)files;
    (void)handle;
    (void)err;
    return DDP_OK;
}

static ddp_status unsynced_rename(struct ddp_files *files, const char *from, const char *to,
                                  struct ddp_err *err)
{
    (void)files;
    return rename(from, to) == 0 ? DDP_OK : fail_path(err, "cannot rename", from);
}

static ddp_status system_rename(struct ddp_files *files, const char *from, const char *to,
                                struct ddp_err *err)
{
    DDP_TRY(unsynced_rename(files, from, to, err));
    return sync_folder_of(to, err);
}

/* Read until the end or size_bytes; returns how many, or -1. */
static ssize_t read_fully(int fd, char *data, size_t size_bytes)
{
    size_t done = 0;

    while (done < size_bytes) {
        ssize_t got = read(fd, data + done, size_bytes - done);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return -1;
        }
        if (got == 0) {
            break;
        }
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static ddp_status system_read_all(struct ddp_files *files, const char *path, struct ddp_mem *mem,
                                  void **out_data, size_t *out_size_bytes, struct ddp_err *err)
{
    struct stat info;
    ddp_status status = DDP_OK;
    char *data = NULL;
    ssize_t got;
    int fd;

    (void)files;
    do {
        /* A FIFO would be waited for until somebody writes into it. */
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        return fail_path(err, "cannot open", path);
    }
    if (fstat(fd, &info) != 0) {
        status = fail_path(err, "cannot stat", path);
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        status = ddp_err_set(err, DDP_E_IO, "%s is not a regular file", path);
        goto out;
    }
    data = (char *)mem->alloc(mem, (size_t)info.st_size + 1);
    if (data == NULL) {
        status = ddp_err_set(err, DDP_E_NOMEM, "no memory for %s", path);
        goto out;
    }
    got = read_fully(fd, data, (size_t)info.st_size);
    if (got < 0) {
        status = fail_path(err, "cannot read", path);
        ddp_mem_free(mem, data);
        goto out;
    }
    *out_data = data;
    *out_size_bytes = (size_t)got;

out:
    (void)close(fd);
    return status;
}

static ddp_status system_remove(struct ddp_files *files, const char *path, struct ddp_err *err)
{
    (void)files;
    return unlink(path) == 0 ? DDP_OK : fail_path(err, "cannot remove", path);
}

static ddp_status system_each(struct ddp_files *files, const char *folder,
                              ddp_status (*take)(void *context, const char *path,
                                                 struct ddp_err *err),
                              void *context, struct ddp_err *err)
{
    struct dirent **entries = NULL;
    int entry_count = scandir(folder, &entries, NULL, alphasort);
    char path[PATH_MAX];
    ddp_status status = DDP_OK;

    (void)files;
    if (entry_count < 0) {
        return errno == ENOENT ? DDP_OK : fail_path(err, "cannot list", folder);
    }
    for (int i = 0; i < entry_count; i++) {
        const char *name = entries[i]->d_name;

        if (status == DDP_OK && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            int length = snprintf(path, sizeof(path), "%s/%s", folder, name);

            status = length < 0 || (size_t)length >= sizeof(path)
                         ? ddp_err_set(err, DDP_E_OVERFLOW, "path too long: %s", folder)
                         : take(context, path, err);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

struct ddp_files *ddp_files_system(void)
{
    static const struct ddp_files_ops ops = {
        "system",     system_create, system_append,   system_write,  system_sync,
        system_close, system_rename, system_read_all, system_remove, system_each};
    static struct ddp_files system_files = {&ops};

    return &system_files;
}

struct ddp_files *ddp_files_unsynced(void)
{
    static const struct ddp_files_ops ops = {
        "unsynced",   system_create,   system_append,   system_write,  unsynced_sync,
        system_close, unsynced_rename, system_read_all, system_remove, system_each};
    static struct ddp_files unsynced_files = {&ops};

    return &unsynced_files;
}

/* Create, write all, sync if asked, close; the handle is released whatever happens. */
static ddp_status write_file(struct ddp_files *files, const char *path, struct ddp_err *err,
                             const void *data, size_t size_bytes, int must_sync)
{
    const unsigned char *bytes = (const unsigned char *)data;
    ddp_status status;
    ddp_status close_status;
    size_t done = 0;
    int handle;

    DDP_TRY(files->ops->create(files, path, &handle, err));
    status = DDP_OK;
    while (status == DDP_OK && done < size_bytes) {
        size_t written = 0;

        status = files->ops->write(files, handle, bytes + done, size_bytes - done, &written, err);
        if (status == DDP_OK && written == 0) {
            status = ddp_err_set(err, DDP_E_IO, "no progress");
        }
        DDP_ASSERT(written <= size_bytes - done);
        done += written;
    }
    if (status == DDP_OK && must_sync) {
        status = files->ops->sync(files, handle, err);
    }
    close_status = files->ops->close(files, handle, status == DDP_OK ? err : NULL);
    if (status == DDP_OK) {
        status = close_status;
    }
    return status == DDP_OK ? DDP_OK : ddp_err_wrap(err, status, "%s", path);
}

ddp_status ddp_files_write_whole(struct ddp_files *files, const char *path, const void *data,
                                 size_t size_bytes, struct ddp_err *err)
{
    return write_file(files, path, err, data, size_bytes, 0);
}

ddp_status ddp_files_write_atomic(struct ddp_files *files, const char *path, const void *data,
                                  size_t size_bytes, struct ddp_err *err)
{
    char temporary[PATH_MAX];
    ddp_status status;
    int length = snprintf(temporary, sizeof(temporary), "%s.tmp", path);

    if (length < 0 || (size_t)length >= sizeof(temporary)) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "path too long: %s", path);
    }
    status = write_file(files, temporary, err, data, size_bytes, 1);
    if (status == DDP_OK) {
        status = files->ops->rename(files, temporary, path, err);
    }
    if (status != DDP_OK) {
        (void)files->ops->remove(files, temporary, NULL);
    }
    return status;
}

/* What of a folder is wanted, and who gets it. */
struct text_walk {
    struct ddp_files *files;
    const char *suffix;
    struct ddp_mem *mem;
    ddp_status (*take)(void *context, const char *text, struct ddp_err *err);
    void *context;
};

static bool is_ending(const char *name, const char *suffix)
{
    size_t name_length = strlen(name);
    size_t length = strlen(suffix);

    return name_length >= length && strcmp(name + name_length - length, suffix) == 0;
}

static ddp_status take_path(void *context, const char *path, struct ddp_err *err)
{
    const struct text_walk *walk = context;
    void *text = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    if (!is_ending(path, walk->suffix)) {
        return DDP_OK;
    }
    DDP_TRY(walk->files->ops->read_all(walk->files, path, walk->mem, &text, &size_bytes, err));
    DDP_ASSERT(text != NULL && ((const char *)text)[size_bytes] == '\0');
    status = strlen(text) == size_bytes ? walk->take(walk->context, text, err)
                                        : ddp_err_set(err, DDP_E_PARSE, "a zero byte in a text");
    ddp_mem_free(walk->mem, text);
    return status == DDP_OK ? DDP_OK : ddp_err_wrap(err, status, "%s", path);
}

ddp_status ddp_files_each_text(struct ddp_files *files, const char *folder, const char *suffix,
                               struct ddp_mem *mem,
                               ddp_status (*take)(void *context, const char *text,
                                                  struct ddp_err *err),
                               void *context, struct ddp_err *err)
{
    struct text_walk walk = {files, suffix, mem, take, context};

    return files->ops->each(files, folder, take_path, &walk, err);
}

/* One folder of a path; being there already is fine. */
static ddp_status make_dir(const char *path, struct ddp_err *err)
{
    struct stat info;

    if (mkdir(path, 0777) == 0) {
        return DDP_OK;
    }
    if (errno != EEXIST) {
        return fail_path(err, "cannot make folder", path);
    }
    if (stat(path, &info) != 0) {
        return fail_path(err, "cannot stat", path);
    }
    if (!S_ISDIR(info.st_mode)) {
        return ddp_err_set(err, DDP_E_IO, "%s is there, but not as a folder", path);
    }
    return DDP_OK;
}

ddp_status ddp_files_make_dirs(const char *path, struct ddp_err *err)
{
    char prefix[PATH_MAX];
    size_t size_bytes = strlen(path);

    if (size_bytes == 0) {
        return DDP_OK;
    }
    if (size_bytes >= sizeof(prefix)) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "path too long: %s", path);
    }
    memcpy(prefix, path, size_bytes + 1);
    /* Every prefix that ends before a slash, the root excepted. */
    for (size_t i = 1; i < size_bytes; i++) {
        if (prefix[i] == '/') {
            prefix[i] = '\0';
            DDP_TRY(make_dir(prefix, err));
            prefix[i] = '/';
        }
    }
    return make_dir(prefix, err);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

ddp_status ddp_files_remove_tree(const char *path, struct ddp_err *err)
{
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        return ddp_err_set(err, DDP_E_IO, "cannot remove %s: %s", path, strerror(errno));
    }
    return DDP_OK;
}
