/* Evidence files, written in place. What a killed rank left half written is recognised: a tensor by
 * its size, a schedule by its last line. A tensor that could not be written whole is removed: a
 * part would be read as something else. */
#include "harness/rank/session.h"

/* Closes the handle too. */
static ddp_status write_all(struct ddp_files *files, int handle, const void *data,
                            size_t size_bytes, struct ddp_err *err)
{
    const char *bytes = data;
    size_t done = 0;
    ddp_status status = DDP_OK;
    ddp_status close_status;

    while (status == DDP_OK && done < size_bytes) {
        size_t written = 0;

        status = files->ops->write(files, handle, bytes + done, size_bytes - done, &written, err);
        done += written;
    }
    close_status = files->ops->close(files, handle, status == DDP_OK ? err : NULL);
    return status != DDP_OK ? status : close_status;
}

ddp_status harness_file_write(struct ddp_env *env, const char *path, const void *data,
                              size_t size_bytes, struct ddp_err *err)
{
    struct ddp_files *files = env->files;
    int handle;
    ddp_status status;

    DDP_TRY(files->ops->create(files, path, &handle, err));
    status = write_all(files, handle, data, size_bytes, err);
    if (status != DDP_OK) {
        const ddp_status removed = files->ops->remove(files, path, NULL);

        (void)removed; /* the first error is reported */
    }
    return status;
}

ddp_status harness_file_append(struct ddp_env *env, const char *path, const void *data,
                               size_t size_bytes, struct ddp_err *err)
{
    int handle;

    DDP_TRY(env->files->ops->append(env->files, path, &handle, err));
    return write_all(env->files, handle, data, size_bytes, err);
}
