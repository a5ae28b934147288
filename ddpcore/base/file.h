/* Files, behind a table, so that a simulated rank writes to memory and a fault decorator can tear,
 * fail or shorten any operation. Paths are plain strings with '/' separators. Nothing here blocks
 * on another rank. */
#ifndef DDPCORE_BASE_FILE_H
#define DDPCORE_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_files;

struct ddp_files_ops {
    const char *name;
    /* Create (or truncate) a file for writing; *out_handle identifies it until close. */
    ddp_status (*create)(struct ddp_files *files, const char *path, int *out_handle,
                         struct ddp_err *err);
    /* Open a file for writing behind its last byte; one that does not exist is created. */
    ddp_status (*append)(struct ddp_files *files, const char *path, int *out_handle,
                         struct ddp_err *err);
    /* Append bytes; may write fewer: *out_written says how many (0 only with an error). */
    ddp_status (*write)(struct ddp_files *files, int handle, const void *data, size_t size_bytes,
                        size_t *out_written, struct ddp_err *err);
    /* Make the contents durable. */
    ddp_status (*sync)(struct ddp_files *files, int handle, struct ddp_err *err);
    /* Always releases the handle, whatever it returns. */
    ddp_status (*close)(struct ddp_files *files, int handle, struct ddp_err *err);
    /* Atomically replace `to` by `from`, durably (the folder is synced too). */
    ddp_status (*rename)(struct ddp_files *files, const char *from, const char *to,
                         struct ddp_err *err);
    /* Whole file into a block of `mem` (gives it to the caller; never NULL on OK), with a NUL
     * behind its last byte that *out_size_bytes does not count.
     * Errors: E_NOT_FOUND, E_IO, E_NOMEM. */
    ddp_status (*read_all)(struct ddp_files *files, const char *path, struct ddp_mem *mem,
                           void **out_data, size_t *out_size_bytes, struct ddp_err *err);
    /* Errors: E_NOT_FOUND, E_IO. */
    ddp_status (*remove)(struct ddp_files *files, const char *path, struct ddp_err *err);
    /* Hand the path of everything that lies directly in a folder to `take`, in the order of names,
     * until it fails. A folder that does not exist is empty. Errors: take's, E_IO, E_NOMEM. */
    ddp_status (*each)(struct ddp_files *files, const char *folder,
                       ddp_status (*take)(void *context, const char *path, struct ddp_err *err),
                       void *context, struct ddp_err *err);
};

/* Base of every implementation; decorators add an inner pointer behind it. */
struct ddp_files {
    const struct ddp_files_ops *ops;
};

/* The status of a file's system call that failed with this errno: E_NO_SPACE, E_NO_FD, E_NOT_FOUND,
 * else E_IO. */
ddp_status ddp_files_status(int error);
/* The operating system's files. Static storage. */
struct ddp_files *ddp_files_system(void);
/* The same without a wait for the disk: whatever dies, a file is the old or the new one, but a
 * crash of the machine may leave neither. For what can be made again, such as the files of a test
 * run. Static storage. */
struct ddp_files *ddp_files_unsynced(void);

/* Files in memory, from the process heap. Folders are implied by paths. */
struct ddp_files_memory;
DDP_MUST_USE ddp_status ddp_files_memory_create(struct ddp_files_memory **out);
void ddp_files_memory_destroy(struct ddp_files_memory *memory);
struct ddp_files *ddp_files_memory_files(struct ddp_files_memory *memory);
/* What a crash of the machine leaves: a file that was renamed has lost the bytes that were never
 * synced, as with a file system that delays writing but not renaming. A file that still has the
 * name under which it was made keeps them: who writes in place promises nothing. */
void ddp_files_memory_crash(struct ddp_files_memory *memory);
/* Copy every file to the operating system, path by path (missing folders are made). */
DDP_MUST_USE ddp_status ddp_files_memory_export(struct ddp_files_memory *memory,
                                                struct ddp_err *err);

/* Write a whole file atomically: create "<path>.tmp", write all, sync, rename.
 * On error the temporary is removed and `path` is untouched. */
DDP_MUST_USE ddp_status ddp_files_write_atomic(struct ddp_files *files, const char *path,
                                               const void *data, size_t size_bytes,
                                               struct ddp_err *err);
/* Write a whole file in place, neither atomically nor durably; a failure may leave a part of it. */
DDP_MUST_USE ddp_status ddp_files_write_whole(struct ddp_files *files, const char *path,
                                              const void *data, size_t size_bytes,
                                              struct ddp_err *err);
/* Hand the text of every file of a folder whose name ends with `suffix` to `take`, in the order of
 * their names, until one fails. A folder that does not exist is empty.
 * Errors: take's, behind the file's path; E_PARSE for a file with a zero byte; E_IO; E_NOMEM. */
DDP_MUST_USE ddp_status ddp_files_each_text(struct ddp_files *files, const char *folder,
                                            const char *suffix, struct ddp_mem *mem,
                                            ddp_status (*take)(void *context, const char *text,
                                                               struct ddp_err *err),
                                            void *context, struct ddp_err *err);
/* mkdir -p on the operating system. */
DDP_MUST_USE ddp_status ddp_files_make_dirs(const char *path, struct ddp_err *err);
/* rm -r on the operating system; a path that does not exist is no error. Follows no links. */
DDP_MUST_USE ddp_status ddp_files_remove_tree(const char *path, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
