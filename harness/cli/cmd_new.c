/* new: a scenario, or a project, to start from. */
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

static int new_guest(const char *folder)
{
    char inner[PATH_BYTES];
    struct ddp_err err = {{0}};
    struct stat there;
    int code = 0;

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

/* FAMILY/NAME.yaml in the folder of all scenarios, where its id is FAMILY.NAME. */
static int new_scenario(const char *id, const char *root)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "_-";
    const size_t family_size = strspn(id, letters);
    const char *name = id[family_size] == '.' ? id + family_size + 1 : "";
    const size_t name_size = strspn(name, letters);
    char path[PATH_BYTES];
    struct ddp_err err = {{0}};
    struct stat there;
    int code;

    if (family_size == 0 || id[0] == '-' || name_size == 0 || name[name_size] != '\0' ||
        strlen(id) > 200) {
        return cli_usage_error("new: \"%.100s\" is no scenario's id; one is FAMILY.NAME, such as "
                               "crash.mine, of letters, digits, _ and -",
                               id);
    }
    if (strlen(root) + strlen(id) + sizeof "//.yaml" > sizeof path) {
        return cli_usage_error("new: the path is too long");
    }
    (void)snprintf(path, sizeof path, "%s/%.*s", root, (int)family_size, id);
    if (ddp_files_make_dirs(path, &err) != DDP_OK) {
        return cli_usage_error("new: %s", err.text);
    }
    (void)snprintf(path, sizeof path, "%s/%.*s/%s.yaml", root, (int)family_size, id, name);
    if (lstat(path, &there) == 0) {
        return cli_usage_error("new: %s is there already; choose another name", path);
    }
    code = cli_write_template("new", path, id, &cli_scenario_templates[0]);
    if (code == 0) {
        (void)printf("next: ddprove run %s\n", path);
    }
    return code;
}

int cli_new(const struct cli_options *options)
{
    const char *what = options->path_count == 2 ? options->paths[0] : "";

    if (strcmp(what, "guest") == 0) {
        return options->out_dir == NULL
                   ? new_guest(options->paths[1])
                   : cli_usage_error(
                         "new: --out is of a scenario; a guest's folder is named behind "
                         "\"guest\"");
    }
    if (strcmp(what, "scenario") == 0) {
        return new_scenario(options->paths[1],
                            options->out_dir != NULL ? options->out_dir : "scenarios");
    }
    return cli_usage_error(
        "new: say what, and its name: ddprove new scenario crash.mine, or ddprove "
        "new guest mytrainer");
}
