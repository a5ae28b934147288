/* Files that operands name: scenarios, records, dumps; scenarios read and parsed. */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"

/* nftw has no context argument; only search sets these, for the length of a call. */
static struct cli_files *collecting;
static enum { SCENARIOS, RECORDS, DUMPS } wanted;
static char unreadable[4096]; /* what it could not read, or "" */

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

/* The folder of a file, without the last slash. */
static ddp_status add_folder_of(struct cli_files *files, const char *path)
{
    char folder[4096];
    size_t size = (size_t)(strrchr(path, '/') - path);

    if (size >= sizeof folder) {
        return DDP_E_NOMEM;
    }
    memcpy(folder, path, size);
    folder[size] = '\0';
    return add_path(files, folder);
}

/* The plan of a run that came to no verdict: <cell>/<driver>/plan.yaml. Left out, it would be as
 * good as passed. */
static bool is_unjudged(const char *path, int base)
{
    char verdict[4096];

    for (unsigned d = 0; strcmp(path + base, "plan.yaml") == 0 && d < HARNESS_DRIVER_COUNT; d++) {
        const char *driver = harness_driver_name((enum harness_driver)d);
        const size_t size = strlen(driver);

        if (base > (int)size + 1 && path[base - 2 - (int)size] == '/' &&
            strncmp(path + base - 1 - size, driver, size) == 0) {
            return snprintf(verdict, sizeof verdict, "%.*sverdict.json", base, path) <
                       (int)sizeof verdict &&
                   access(verdict, F_OK) != 0;
        }
    }
    return false;
}

static int visit(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    size_t size = strlen(path);
    ddp_status status = DDP_OK;

    (void)info;
    if (type == FTW_DNR || type == FTW_NS) {
        (void)snprintf(unreadable, sizeof unreadable, "%s", path);
        return -1;
    }
    if (type != FTW_F) {
        return 0;
    }
    switch (wanted) {
    case SCENARIOS:
        status =
            size > 5 && strcmp(path + size - 5, ".yaml") == 0 ? add_path(collecting, path) : DDP_OK;
        break;
    case RECORDS:
        status = strcmp(path + walk->base, "verdict.json") == 0 || is_unjudged(path, walk->base)
                     ? add_folder_of(collecting, path)
                     : DDP_OK;
        break;
    case DUMPS:
        status = path[walk->base] != '.' ? add_path(collecting, path) : DDP_OK;
        break;
    }
    return status == DDP_OK ? 0 : -1;
}

static int compare_paths(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Add what is wanted of the folder's files, sorted. */
static ddp_status search(const char *folder, struct cli_files *out, struct ddp_err *err)
{
    size_t first = out->count;

    collecting = out;
    unreadable[0] = '\0';
    if (nftw(folder, visit, 16, FTW_PHYS) != 0) {
        return ddp_err_set(err, DDP_E_IO,
                           "%s: cannot be read, so what is in it would be left out; make it "
                           "readable, or name others",
                           unreadable[0] != '\0' ? unreadable : folder);
    }
    if (out->count > first) {
        qsort(out->path + first, out->count - first, sizeof *out->path, compare_paths);
    }
    return DDP_OK;
}

/* A file or folder by what it is, not by its name. at: its place in the list. */
struct identity {
    dev_t device;
    ino_t inode;
    size_t at;
    bool is_there;
};

static int compare_identities(const void *left, const void *right)
{
    const struct identity *a = left;
    const struct identity *b = right;

    if (a->device != b->device) {
        return a->device < b->device ? -1 : 1;
    }
    if (a->inode != b->inode) {
        return a->inode < b->inode ? -1 : 1;
    }
    return a->at < b->at ? -1 : a->at > b->at;
}

/* What several operands name is taken once, in the place of the first. Errors: E_NOMEM. */
static ddp_status drop_repeated(struct cli_files *files)
{
    size_t kept = 0;
    struct identity *all = calloc(files->count + 1, sizeof *all);

    if (all == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < files->count; i++) {
        struct stat info = {0};

        all[i].is_there = stat(files->path[i], &info) == 0;
        all[i].device = info.st_dev;
        all[i].inode = info.st_ino;
        all[i].at = i;
    }
    qsort(all, files->count, sizeof *all, compare_identities);
    for (size_t i = 1; i < files->count; i++) {
        if (all[i].is_there && all[i - 1].is_there && all[i].device == all[i - 1].device &&
            all[i].inode == all[i - 1].inode) {
            free(files->path[all[i].at]);
            files->path[all[i].at] = NULL;
        }
    }
    for (size_t i = 0; i < files->count; i++) {
        if (files->path[i] != NULL) {
            files->path[kept++] = files->path[i];
        }
    }
    files->count = kept;
    free(all);
    return DDP_OK;
}

ddp_status cli_files_collect(char *const *operands, int operand_count, struct cli_files *out,
                             struct ddp_err *err)
{
    memset(out, 0, sizeof *out);
    wanted = SCENARIOS;
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
            continue;
        }
        DDP_TRY(search(operands[i], out, err));
        if (out->count == first) {
            return ddp_err_set(err, DDP_E_NOT_FOUND, "%s: holds no *.yaml scenario", operands[i]);
        }
    }
    return drop_repeated(out);
}

/* The newest folder of CLI_RUNS_DIR: their names begin with the time. */
static ddp_status find_latest(char *out, size_t size_bytes, struct ddp_err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(CLI_RUNS_DIR, &entries, NULL, alphasort);

    out[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] >= '0' && entries[i]->d_name[0] <= '9') {
            (void)snprintf(out, size_bytes, CLI_RUNS_DIR "/%s", entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return out[0] != '\0' ? DDP_OK
                          : ddp_err_set(err, DDP_E_NOT_FOUND,
                                        CLI_RUNS_DIR "/ holds no run; name the folder of one");
}

ddp_status cli_records_collect(char *const *operands, int operand_count, struct cli_files *out,
                               struct ddp_err *err)
{
    char latest[300];
    char *fallback[] = {latest};

    memset(out, 0, sizeof(*out));
    wanted = RECORDS;
    if (operand_count == 0) {
        DDP_TRY(find_latest(latest, sizeof latest, err));
        operands = fallback;
        operand_count = 1;
    }
    for (int i = 0; i < operand_count; i++) {
        size_t first = out->count;
        struct stat info;

        const int error = stat(operands[i], &info) == 0 ? 0 : errno;

        if (error != 0 || !S_ISDIR(info.st_mode)) {
            return ddp_err_set(err, DDP_E_NOT_FOUND, "%s: %s; name the folder of a run",
                               operands[i], error != 0 ? strerror(error) : "is no folder");
        }
        DDP_TRY(search(operands[i], out, err));
        /* A folder without a verdict may still be checked, if that is all there is of it. */
        if (out->count == first) {
            DDP_TRY(add_path(out, operands[i]));
        }
    }
    return drop_repeated(out);
}

ddp_status cli_dumps_collect(char *const *operands, int operand_count, struct cli_files *out,
                             struct ddp_err *err)
{
    memset(out, 0, sizeof(*out));
    wanted = DUMPS;
    for (int i = 0; i < operand_count; i++) {
        struct stat info;

        if (stat(operands[i], &info) != 0) {
            return ddp_err_set(err, DDP_E_NOT_FOUND,
                               "%s: %s; name dumps, logs, or a folder of them", operands[i],
                               strerror(errno));
        }
        DDP_TRY(S_ISDIR(info.st_mode) ? search(operands[i], out, err) : add_path(out, operands[i]));
    }
    DDP_TRY(drop_repeated(out));
    if (out->count > 0) {
        qsort(out->path, out->count, sizeof *out->path, compare_paths);
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

ddp_status cli_scenario_read(const char *path, char *const *sets, size_t set_count,
                             struct harness_scenario *out, struct ddp_err *err)
{
    void *text = NULL;
    size_t size_bytes = 0;
    struct ddp_err why = {{0}};
    ddp_status status = ddp_files_system()->ops->read_all(
        ddp_files_system(), path, ddp_mem_system(), &text, &size_bytes, &why);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "%s; name a scenario file that can be read", why.text);
    }
    status = harness_scenario_parse(text, size_bytes, path, (const char *const *)sets, set_count,
                                    out, err);
    ddp_mem_free(ddp_mem_system(), text);
    return status;
}

bool cli_scenario_load(const char *path, const struct cli_options *options,
                       struct harness_scenario *out)
{
    struct ddp_err err = {{0}};

    if (cli_scenario_read(path, options->sets, options->set_count, out, &err) != DDP_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return false;
    }
    return true;
}
