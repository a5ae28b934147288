/* Learned programs in files. */
#include <limits.h>
#include <stdio.h>

#include "ddpcore/base/file.h"
#include "harness/exec/exec.h"

static ddp_status path_of(const char *folder, char path[PATH_MAX], struct ddp_err *err)
{
    const int size = snprintf(path, PATH_MAX, "%s/" HARNESS_LEARNED_FILE, folder);

    return size > 0 && size < PATH_MAX ? DDP_OK
                                       : ddp_err_set(err, DDP_E_INVALID, "a path is too long");
}

ddp_status harness_exec_read_learned(struct ddp_mem *mem, const char *folder,
                                     struct harness_learned *out, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    char path[PATH_MAX];
    void *text = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    DDP_TRY(path_of(folder, path, err));
    DDP_TRY(files->ops->read_all(files, path, mem, &text, &size_bytes, err));
    status = harness_learned_parse(mem, text, size_bytes, out, err);
    return status == DDP_OK ? DDP_OK : ddp_err_wrap(err, status, "%s", path);
}

ddp_status harness_exec_write_learned(const struct harness_learned *learned, const char *folder,
                                      struct ddp_err *err)
{
    char path[PATH_MAX];
    struct ddp_text text;
    ddp_status status;

    DDP_TRY(path_of(folder, path, err));
    DDP_TRY(ddp_files_make_dirs(folder, err));
    ddp_text_init(&text, learned->mem);
    harness_learned_print(learned, &text);
    status = text.is_failed ? ddp_err_set(err, DDP_E_NOMEM, "out of memory")
                            : ddp_files_write_atomic(ddp_files_system(), path, ddp_text_str(&text),
                                                     text.size_bytes, err);
    ddp_text_fini(&text);
    return status;
}
