/* A block or a handle is counted when it is given out, and no more when it comes back. */
#include "ddpcore/seam/counted.h"

static void *count_alloc(struct ddp_mem *mem, size_t size_bytes)
{
    struct ddp_counted_mem *counted = (struct ddp_counted_mem *)mem;
    void *data = counted->inner->alloc(counted->inner, size_bytes);

    if (data != NULL) {
        (void)__atomic_add_fetch(&counted->block_count, 1, __ATOMIC_RELAXED);
    }
    return data;
}

static void count_free(struct ddp_mem *mem, void *data)
{
    struct ddp_counted_mem *counted = (struct ddp_counted_mem *)mem;

    if (data != NULL) {
        (void)__atomic_sub_fetch(&counted->block_count, 1, __ATOMIC_RELAXED);
    }
    counted->inner->free(counted->inner, data);
}

static struct ddp_counted_files *counted_of(struct ddp_files *files)
{
    return (struct ddp_counted_files *)files;
}

static ddp_status files_create(struct ddp_files *files, const char *path, int *out_handle,
                               struct ddp_err *err)
{
    struct ddp_counted_files *counted = counted_of(files);

    DDP_TRY(counted->inner->ops->create(counted->inner, path, out_handle, err));
    counted->open_count++;
    return DDP_OK;
}

static ddp_status files_append(struct ddp_files *files, const char *path, int *out_handle,
                               struct ddp_err *err)
{
    struct ddp_counted_files *counted = counted_of(files);

    DDP_TRY(counted->inner->ops->append(counted->inner, path, out_handle, err));
    counted->open_count++;
    return DDP_OK;
}

static ddp_status files_write(struct ddp_files *files, int handle, const void *data,
                              size_t size_bytes, size_t *out_written, struct ddp_err *err)
{
    struct ddp_files *inner = counted_of(files)->inner;

    return inner->ops->write(inner, handle, data, size_bytes, out_written, err);
}

static ddp_status files_sync(struct ddp_files *files, int handle, struct ddp_err *err)
{
    struct ddp_files *inner = counted_of(files)->inner;

    return inner->ops->sync(inner, handle, err);
}

static ddp_status files_close(struct ddp_files *files, int handle, struct ddp_err *err)
{
    struct ddp_counted_files *counted = counted_of(files);

    counted->open_count--;
    return counted->inner->ops->close(counted->inner, handle, err);
}

static ddp_status files_rename(struct ddp_files *files, const char *from, const char *to,
                               struct ddp_err *err)
{
    struct ddp_files *inner = counted_of(files)->inner;

    return inner->ops->rename(inner, from, to, err);
}

static ddp_status files_read_all(struct ddp_files *files, const char *path, struct ddp_mem *mem,
                                 void **out_data, size_t *out_size_bytes, struct ddp_err *err)
{
    struct ddp_files *inner = counted_of(files)->inner;

    return inner->ops->read_all(inner, path, mem, out_data, out_size_bytes, err);
}

static ddp_status files_remove(struct ddp_files *files, const char *path, struct ddp_err *err)
{
    struct ddp_files *inner = counted_of(files)->inner;

    return inner->ops->remove(inner, path, err);
}

static const struct ddp_files_ops files_ops = {.name = "counted",
                                               .create = files_create,
                                               .append = files_append,
                                               .write = files_write,
                                               .sync = files_sync,
                                               .close = files_close,
                                               .rename = files_rename,
                                               .read_all = files_read_all,
                                               .remove = files_remove};

void ddp_counted_mem_init(struct ddp_counted_mem *counted, struct ddp_mem *inner)
{
    *counted = (struct ddp_counted_mem){.base = {.alloc = count_alloc, .free = count_free},
                                        .inner = inner};
}

uint64_t ddp_counted_mem_blocks(const struct ddp_counted_mem *counted)
{
    return __atomic_load_n(&counted->block_count, __ATOMIC_RELAXED);
}

void ddp_counted_files_init(struct ddp_counted_files *counted, struct ddp_files *inner)
{
    *counted = (struct ddp_counted_files){.base = {.ops = &files_ops}, .inner = inner};
}
