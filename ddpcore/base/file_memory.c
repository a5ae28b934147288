/* Files in memory, with the operating system's meaning of names and handles: a handle stays on its
 * file when the name moves or goes, creating an existing name truncates that file, renaming over a
 * name drops the old file once its last handle is closed. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/hash.h"

struct memory_file {
    struct memory_file *next; /* in the chain of its name */
    char *path;               /* NULL once it has no name: then only handles lead to it */
    unsigned char *data;
    size_t size_bytes;
    size_t capacity_bytes;
    size_t synced_bytes; /* of the first ones, which a crash leaves */
    bool is_renamed;     /* it did not have its name when it was made */
    unsigned open_count;
};

#define CHAIN_COUNT 1024u
struct ddp_files_memory {
    struct ddp_files files;
    struct memory_file *chains[CHAIN_COUNT]; /* by hash of the name */
    int lowest_free;                         /* no handle below it is free */
    struct memory_file **handles;            /* NULL where free */
    int handle_count;
};

static struct memory_file **chain_of(struct ddp_files_memory *memory, const char *path)
{
    return &memory->chains[ddp_hash_text(path) % CHAIN_COUNT];
}

static struct memory_file *find(struct ddp_files_memory *memory, const char *path)
{
    struct memory_file *file = *chain_of(memory, path);

    while (file != NULL && strcmp(file->path, path) != 0) {
        file = file->next;
    }
    return file;
}

static struct memory_file *file_of(struct ddp_files_memory *memory, int handle)
{
    DDP_ASSERT(handle >= 0 && handle < memory->handle_count && memory->handles[handle] != NULL);
    return memory->handles[handle];
}

static void release(struct memory_file *file)
{
    free(file->path);
    free(file->data);
    free(file);
}

static void drop_if_unreachable(struct memory_file *file)
{
    if (file->path == NULL && file->open_count == 0) {
        release(file);
    }
}

/* Take the file out of the chain of its name. */
static void unlink_name(struct ddp_files_memory *memory, struct memory_file *file)
{
    struct memory_file **link = chain_of(memory, file->path);

    while (*link != file) {
        DDP_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = file->next;
    free(file->path);
    file->path = NULL;
    file->next = NULL;
}

/* path: taken over. */
static void link_name(struct ddp_files_memory *memory, struct memory_file *file, char *path)
{
    struct memory_file **chain = chain_of(memory, path);

    DDP_ASSERT(file->path == NULL && find(memory, path) == NULL);
    file->path = path;
    file->next = *chain;
    *chain = file;
}

static void forget_name(struct ddp_files_memory *memory, struct memory_file *file)
{
    unlink_name(memory, file);
    drop_if_unreachable(file);
}

/* A free slot of the handle table, or -1 when it cannot grow. */
static int free_handle(struct ddp_files_memory *memory)
{
    int count = memory->handle_count;
    int grown_count = count == 0 ? 8 : count * 2;
    struct memory_file **grown;

    while (memory->lowest_free < count && memory->handles[memory->lowest_free] != NULL) {
        memory->lowest_free++;
    }
    if (memory->lowest_free < count) {
        return memory->lowest_free;
    }
    if (count > INT_MAX / 2) {
        return -1;
    }
    grown = (struct memory_file **)realloc(memory->handles, (size_t)grown_count * sizeof(*grown));
    if (grown == NULL) {
        return -1;
    }
    memset(grown + count, 0, (size_t)(grown_count - count) * sizeof(*grown));
    memory->handles = grown;
    memory->handle_count = grown_count;
    return count;
}

static struct memory_file *add_file(struct ddp_files_memory *memory, const char *path)
{
    struct memory_file *file = (struct memory_file *)calloc(1, sizeof(*file));
    char *name = file == NULL ? NULL : strdup(path);

    if (name == NULL) {
        free(file);
        return NULL;
    }
    link_name(memory, file, name);
    return file;
}

static ddp_status memory_append(struct ddp_files *files, const char *path, int *out_handle,
                                struct ddp_err *err)
{
    struct ddp_files_memory *memory = (struct ddp_files_memory *)files;
    struct memory_file *file = find(memory, path);
    int handle = free_handle(memory);

    if (file == NULL && handle >= 0) {
        file = add_file(memory, path);
    }
    if (file == NULL || handle < 0) {
        return ddp_err_set(err, DDP_E_NOMEM, "cannot create %s: no memory", path);
    }
    file->open_count++;
    memory->handles[handle] = file;
    *out_handle = handle;
    return DDP_OK;
}

static ddp_status memory_create(struct ddp_files *files, const char *path, int *out_handle,
                                struct ddp_err *err)
{
    struct memory_file *file;

    DDP_TRY(memory_append(files, path, out_handle, err));
    file = file_of((struct ddp_files_memory *)files, *out_handle);
    file->size_bytes = 0;
    file->synced_bytes = 0;
    file->is_renamed = false;
    return DDP_OK;
}

static ddp_status memory_write(struct ddp_files *files, int handle, const void *data,
                               size_t size_bytes, size_t *out_written, struct ddp_err *err)
{
    struct memory_file *file = file_of((struct ddp_files_memory *)files, handle);

    *out_written = 0;
    if (size_bytes == 0) {
        return DDP_OK;
    }
    if (size_bytes > SIZE_MAX / 4 - file->size_bytes) {
        return ddp_err_set(err, DDP_E_NOMEM, "cannot write: file too large");
    }
    if (file->size_bytes + size_bytes > file->capacity_bytes) {
        size_t capacity = (file->size_bytes + size_bytes) * 2;
        unsigned char *grown = (unsigned char *)realloc(file->data, capacity);

        if (grown == NULL) {
            return ddp_err_set(err, DDP_E_NOMEM, "cannot write: no memory");
        }
        file->data = grown;
        file->capacity_bytes = capacity;
    }
    DDP_ASSERT(file->size_bytes + size_bytes <= file->capacity_bytes);
    memcpy(file->data + file->size_bytes, data, size_bytes);
    file->size_bytes += size_bytes;
    *out_written = size_bytes;
    return DDP_OK;
}

static ddp_status memory_sync(struct ddp_files *files, int handle, struct ddp_err *err)
{
    struct memory_file *file = file_of((struct ddp_files_memory *)files, handle);

    (void)err;
    file->synced_bytes = file->size_bytes;
    return DDP_OK;
}

static ddp_status memory_close(struct ddp_files *files, int handle, struct ddp_err *err)
{
    struct ddp_files_memory *memory = (struct ddp_files_memory *)files;
    struct memory_file *file = file_of(memory, handle);

    (void)err;
    DDP_ASSERT(file->open_count > 0);
    memory->handles[handle] = NULL;
    if (handle < memory->lowest_free) {
        memory->lowest_free = handle;
    }
    file->open_count--;
    drop_if_unreachable(file);
    return DDP_OK;
}

static ddp_status memory_rename(struct ddp_files *files, const char *from, const char *to,
                                struct ddp_err *err)
{
    struct ddp_files_memory *memory = (struct ddp_files_memory *)files;
    struct memory_file *file = find(memory, from);
    struct memory_file *replaced = find(memory, to);
    char *name;

    if (file == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "cannot rename %s: no such file", from);
    }
    if (replaced == file) {
        return DDP_OK;
    }
    name = strdup(to);
    if (name == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "cannot rename %s: no memory", from);
    }
    if (replaced != NULL) {
        forget_name(memory, replaced);
    }
    unlink_name(memory, file);
    link_name(memory, file, name);
    file->is_renamed = true;
    return DDP_OK;
}

static ddp_status memory_read_all(struct ddp_files *files, const char *path, struct ddp_mem *mem,
                                  void **out_data, size_t *out_size_bytes, struct ddp_err *err)
{
    struct memory_file *file = find((struct ddp_files_memory *)files, path);
    unsigned char *copy;

    if (file == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "cannot open %s: no such file", path);
    }
    copy = (unsigned char *)mem->alloc(mem, file->size_bytes + 1);
    if (copy == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for %s", path);
    }
    if (file->size_bytes > 0) {
        memcpy(copy, file->data, file->size_bytes);
    }
    *out_data = copy;
    *out_size_bytes = file->size_bytes;
    return DDP_OK;
}

static ddp_status memory_remove(struct ddp_files *files, const char *path, struct ddp_err *err)
{
    struct ddp_files_memory *memory = (struct ddp_files_memory *)files;
    struct memory_file *file = find(memory, path);

    if (file == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "cannot remove %s: no such file", path);
    }
    forget_name(memory, file);
    return DDP_OK;
}

/* Whether the file lies directly in the folder. */
static bool is_in_folder(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && path[length] == '/' &&
           strchr(path + length + 1, '/') == NULL;
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Copies, since `take` may change what there is. *out_count of them even without memory. */
static ddp_status list_folder(const struct ddp_files_memory *memory, const char *folder,
                              char ***out_paths, size_t *out_count)
{
    size_t capacity = 0;

    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        for (const struct memory_file *file = memory->chains[i]; file != NULL; file = file->next) {
            if (!is_in_folder(file->path, folder)) {
                continue;
            }
            if (*out_count == capacity) {
                size_t wanted = capacity == 0 ? 32 : 2 * capacity;
                char **grown = (char **)realloc((void *)*out_paths, wanted * sizeof(*grown));

                if (grown == NULL) {
                    return DDP_E_NOMEM;
                }
                *out_paths = grown;
                capacity = wanted;
            }
            (*out_paths)[*out_count] = strdup(file->path);
            if ((*out_paths)[*out_count] == NULL) {
                return DDP_E_NOMEM;
            }
            (*out_count)++;
        }
    }
    return DDP_OK;
}

static ddp_status memory_each(struct ddp_files *files, const char *folder,
                              ddp_status (*take)(void *context, const char *path,
                                                 struct ddp_err *err),
                              void *context, struct ddp_err *err)
{
    char **paths = NULL;
    size_t count = 0;
    ddp_status status = list_folder((struct ddp_files_memory *)files, folder, &paths, &count);

    if (status != DDP_OK) {
        status = ddp_err_set(err, status, "no memory to list %s", folder);
    }
    if (count > 1) {
        qsort((void *)paths, count, sizeof(*paths), compare_paths);
    }
    for (size_t i = 0; i < count; i++) {
        if (status == DDP_OK) {
            status = take(context, paths[i], err);
        }
        free(paths[i]);
    }
    free((void *)paths);
    return status;
}

ddp_status ddp_files_memory_create(struct ddp_files_memory **out)
{
    static const struct ddp_files_ops ops = {
        "memory",     memory_create, memory_append,   memory_write,  memory_sync,
        memory_close, memory_rename, memory_read_all, memory_remove, memory_each};
    struct ddp_files_memory *memory = (struct ddp_files_memory *)calloc(1, sizeof(*memory));

    if (memory == NULL) {
        return DDP_E_NOMEM;
    }
    memory->files.ops = &ops;
    *out = memory;
    return DDP_OK;
}

void ddp_files_memory_destroy(struct ddp_files_memory *memory)
{
    if (memory == NULL) {
        return;
    }
    /* A file without a name goes with the last of its handles. */
    for (int i = 0; i < memory->handle_count; i++) {
        if (memory->handles[i] != NULL) {
            memory->handles[i]->open_count--;
            drop_if_unreachable(memory->handles[i]);
        }
    }
    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        while (memory->chains[i] != NULL) {
            struct memory_file *next = memory->chains[i]->next;

            release(memory->chains[i]);
            memory->chains[i] = next;
        }
    }
    free(memory->handles);
    free(memory);
}

struct ddp_files *ddp_files_memory_files(struct ddp_files_memory *memory)
{
    return &memory->files;
}

void ddp_files_memory_crash(struct ddp_files_memory *memory)
{
    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        for (struct memory_file *file = memory->chains[i]; file != NULL; file = file->next) {
            DDP_ASSERT(file->synced_bytes <= file->size_bytes);
            if (file->is_renamed) {
                file->size_bytes = file->synced_bytes;
            }
        }
    }
}

/* Make the folders above a path, unless they are `made`, those of the path before. */
static ddp_status make_parents(const char *path, char made[PATH_MAX], struct ddp_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t size_bytes = slash == NULL ? 0 : (size_t)(slash - path);

    if (size_bytes >= PATH_MAX) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "path too long: %s", path);
    }
    if (strlen(made) == size_bytes && memcmp(made, path, size_bytes) == 0) {
        return DDP_OK;
    }
    memcpy(made, path, size_bytes);
    made[size_bytes] = '\0';
    return ddp_files_make_dirs(made, err);
}

static ddp_status export_file(const struct memory_file *file, char made[PATH_MAX],
                              struct ddp_err *err)
{
    DDP_TRY(make_parents(file->path, made, err));
    return ddp_files_write_whole(ddp_files_system(), file->path, file->data, file->size_bytes, err);
}

ddp_status ddp_files_memory_export(struct ddp_files_memory *memory, struct ddp_err *err)
{
    char made[PATH_MAX] = "";

    for (size_t i = 0; i < CHAIN_COUNT; i++) {
        for (const struct memory_file *file = memory->chains[i]; file != NULL; file = file->next) {
            DDP_TRY(export_file(file, made, err));
        }
    }
    return DDP_OK;
}
