/* What an earlier run left in a run folder. */
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>

#include "ddpcore/base/file.h"
#include "harness/cell/cell.h"
#include "harness/cell/stage.h"

/* Everything that a run writes into its folder (cell.h). */
static const char *const file_patterns[] = {
    "plan.yaml",         "program.txt",  "trace.*",
    "rank*.log",         "rank*.stack",  "launcher.log",
    "graph.txt",         "verdict.json", "checkpoint.safetensors*",
    "given.safetensors*"};
static const char *const folder_patterns[] = {"schedules", "survivors", "trees",
                                              "payload",   "replay",    "restore",
                                              "kept",      "mpi",       HARNESS_STAGE_PROOF};

static bool is_ours(const char *path, const char *const *patterns, size_t pattern_count)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;

    for (size_t i = 0; i < pattern_count; i++) {
        if (fnmatch(patterns[i], name, 0) == 0) {
            return true;
        }
    }
    return false;
}

/* Whatever else lies there is not read by any stage: it stays. */
static ddp_status remove_entry(void *context, const char *path, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    struct stat info;
    bool is_folder = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);

    (void)context;
    if (is_folder) {
        return is_ours(path, folder_patterns, sizeof folder_patterns / sizeof folder_patterns[0])
                   ? ddp_files_remove_tree(path, err)
                   : DDP_OK;
    }
    return is_ours(path, file_patterns, sizeof file_patterns / sizeof file_patterns[0])
               ? files->ops->remove(files, path, err)
               : DDP_OK;
}

ddp_status harness_cell_clear(const char *run_dir, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();

    return files->ops->each(files, run_dir, remove_entry, NULL, err);
}
