/* Evidence files, written in place: a file that a killed rank left half written is recognised by
 * its size. What could not be written whole is removed: a part would be read as something else. */
#include "harness/rank/session.h"

ddp_status harness_file_write(struct ddp_env *env, const char *path, const void *data,
                              size_t size_bytes, struct ddp_err *err)
{
    struct ddp_files *files = env->files;
    const char *bytes = data;
    size_t done = 0;
    int handle;
    ddp_status status = files->ops->create(files, path, &handle, err);
    ddp_status close_status;

    if (status != DDP_OK) {
        return status;
    }
    while (status == DDP_OK && done < size_bytes) {
        size_t written = 0;

        status = files->ops->write(files, handle, bytes + done, size_bytes - done, &written, err);
        done += written;
    }
    close_status = files->ops->close(files, handle, status == DDP_OK ? err : NULL);
    status = status != DDP_OK ? status : close_status;
    if (status != DDP_OK) {
        const ddp_status removed = files->ops->remove(files, path, NULL);

        (void)removed; /* the first error is reported */
    }
    return status;
}
