/* Scenario files: found, read, parsed. */
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"

/* nftw has no context argument; only cli_files_collect sets this, for the length of a call. */
static struct cli_files *collecting;

static ddp_status add_path(struct cli_files *files, const char *path)
{
    char **grown = realloc(files->path, (files->count + 1) * sizeof *grown);

    if (grown == NULL) {
        return DDP_E_NOMEM;
    }
    files->path = grown;
    files->path[files->count] = strdup(path);
    if (files->path[files->count] == NULL) {
        return DDP_E_NOMEM;
    }
    files->count++;
    return DDP_OK;
}

static int visit(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    size_t size = strlen(path);

    (void)info;
    (void)walk;
    if (type == FTW_F && size > 5 && strcmp(path + size - 5, ".yaml") == 0) {
        return add_path(collecting, path) == DDP_OK ? 0 : -1;
    }
    return 0;
}

static bool is_same_file(const char *left, const char *right)
{
    struct stat a;
    struct stat b;

    return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* Files that several operands name are run once. first: of the files that may repeat others. */
static void drop_repeated(struct cli_files *files, size_t first)
{
    size_t kept = first;

    for (size_t i = first; i < files->count; i++) {
        bool is_repeated = false;

        for (size_t k = 0; k < kept && !is_repeated; k++) {
            is_repeated = is_same_file(files->path[k], files->path[i]);
        }
        if (is_repeated) {
            free(files->path[i]);
        } else {
            files->path[kept++] = files->path[i];
        }
    }
    files->count = kept;
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

ddp_status cli_files_collect(char *const *operands, int operand_count, struct cli_files *out,
                             struct ddp_err *err)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < operand_count; i++) {
        struct stat info;
        size_t first = out->count;

        if (stat(operands[i], &info) != 0) {
            return ddp_err_set(err, DDP_E_NOT_FOUND,
                               "%s: %s; name a scenario file or a folder of them", operands[i],
                               strerror(errno));
        }
        if (!S_ISDIR(info.st_mode)) {
            DDP_TRY(add_path(out, operands[i]));
            drop_repeated(out, first);
            continue;
        }
        collecting = out;
        if (nftw(operands[i], visit, 16, FTW_PHYS) != 0) {
            return ddp_err_set(err, DDP_E_IO, "%s: cannot be searched", operands[i]);
        }
        if (out->count == first) {
            return ddp_err_set(err, DDP_E_NOT_FOUND, "%s: holds no *.yaml scenario", operands[i]);
        }
        qsort(out->path + first, out->count - first, sizeof *out->path, compare_paths);
        drop_repeated(out, first);
    }
    return DDP_OK;
}

void cli_files_fini(struct cli_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->path[i]);
    }
    free(files->path);
    memset(files, 0, sizeof *files);
}

bool cli_scenario_load(const char *path, const struct cli_options *options,
                       struct harness_scenario *out)
{
    struct ddp_err err = {{0}};
    void *text = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    status = ddp_files_system()->ops->read_all(ddp_files_system(), path, ddp_mem_system(), &text,
                                               &size_bytes, &err);
    if (status == DDP_OK) {
        status = harness_scenario_parse(text, size_bytes, path, (const char *const *)options->sets,
                                        options->set_count, out, &err);
        ddp_mem_free(ddp_mem_system(), text);
    }
    if (status != DDP_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
    }
    return status == DDP_OK;
}
