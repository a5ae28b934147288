/* new: a project to start from. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/cli/template.h"

enum { PATH_BYTES = 4096 };

static int write_file(const char *folder, const struct cli_template *file)
{
    struct ddp_err err = {{0}};
    char path[PATH_BYTES];

    if (snprintf(path, sizeof path, "%s/%s", folder, file->path) >= (int)sizeof path) {
        return cli_usage_error("new: the path is too long");
    }
    if (ddp_files_write_atomic(ddp_files_system(), path, file->data, file->size_bytes, &err) !=
        DDP_OK) {
        (void)cli_usage_error("new: %s", err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    (void)printf("%s\n", path);
    return 0;
}

int cli_new(const struct cli_options *options)
{
    const char *folder = options->path_count > 1 ? options->paths[1] : NULL;
    char inner[PATH_BYTES];
    struct ddp_err err = {{0}};
    struct stat there;
    int code = 0;

    if (options->path_count != 2 || strcmp(options->paths[0], "guest") != 0) {
        return cli_usage_error("new: say what, and in which folder: ddprove new guest mytrainer");
    }
    if (stat(folder, &there) == 0) {
        return cli_usage_error("new: %s is there already; name a folder that is not", folder);
    }
    (void)snprintf(inner, sizeof inner, "%s/faults", folder);
    if (ddp_files_make_dirs(inner, &err) != DDP_OK) {
        return cli_usage_error("new: %s", err.text);
    }
    for (const struct cli_template *file = cli_guest_templates; code == 0 && file->path != NULL;
         file++) {
        code = write_file(folder, file);
    }
    if (code != 0) { /* a part of a project is none, and would be in the way of the next try */
        (void)!ddp_files_remove_tree(folder, NULL);
    } else {
        (void)printf("next: cmake -S %s -B %s/build && cmake --build %s/build && ctest --test-dir "
                     "%s/build\n",
                     folder, folder, folder, folder);
    }
    return code;
}
