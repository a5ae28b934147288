/* ddprove diagnose: what the dumps and logs of a job that hung say. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/diagnose/diagnose.h"

enum { FILE_BYTES_MAX = 512 << 20 };

/* False: it could not be used, and that was said. */
static bool read_file(struct harness_diagnosis *diagnosis, const char *path)
{
    struct ddp_files *files = ddp_files_system();
    struct ddp_err err = {{0}};
    struct stat info = {0};
    void *data = NULL;
    size_t size_bytes = 0;
    ddp_status status = DDP_OK;

    if (stat(path, &info) == 0 && info.st_size > FILE_BYTES_MAX) {
        status = ddp_err_set(&err, DDP_E_OVERFLOW,
                             "%s: larger than 512 MiB; name the part around the hang", path);
    }
    if (status == DDP_OK) {
        status = files->ops->read_all(files, path, ddp_mem_system(), &data, &size_bytes, &err);
    }
    if (status == DDP_OK) {
        status = harness_diagnosis_read(diagnosis, path, data, size_bytes,
                                        (uint64_t)info.st_mtim.tv_sec * UINT64_C(1000000000) +
                                            (uint64_t)info.st_mtim.tv_nsec,
                                        &err);
    }
    ddp_mem_free(ddp_mem_system(), data);
    if (status != DDP_OK) {
        (void)cli_usage_error("%s", err.text);
    }
    return status == DDP_OK;
}

static bool write_scenario(const struct harness_diagnosis *diagnosis, const char *path)
{
    struct ddp_err err = {{0}};
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, ddp_mem_system());
    status = harness_diagnosis_scenario(diagnosis, path, &text, &err);
    if (status == DDP_OK) {
        status = ddp_files_write_atomic(ddp_files_system(), path, ddp_text_str(&text),
                                        text.size_bytes, &err);
    }
    ddp_text_fini(&text);
    if (status != DDP_OK) {
        (void)cli_usage_error("%s", err.text);
        return false;
    }
    (void)printf("scenario: ddprove run %s\n", path);
    return true;
}

static int conclude(struct harness_diagnosis *diagnosis, const struct cli_options *options)
{
    enum harness_outcome outcome = harness_diagnosis_conclude(diagnosis);
    struct ddp_text text;
    int code = harness_outcome_exit_code(outcome);

    ddp_text_init(&text, ddp_mem_system());
    harness_diagnosis_print(diagnosis, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    if (options->json != NULL &&
        cli_write_json("--json", options->json, harness_diagnosis_json(diagnosis)) != 0) {
        code = CLI_EXIT_USAGE;
    }
    if (options->scenario != NULL && !write_scenario(diagnosis, options->scenario)) {
        code = CLI_EXIT_USAGE;
    }
    return code;
}

int cli_diagnose(const struct cli_options *options)
{
    struct harness_diagnosis *diagnosis = NULL;
    struct cli_files files;
    struct ddp_err err = {{0}};
    size_t used = 0;
    int code = CLI_EXIT_USAGE;

    if (options->path_count == 0) {
        return cli_usage_error("diagnose: name the dumps and logs of the job, or their folder");
    }
    if (cli_dumps_collect(options->paths, options->path_count, &files, &err) != DDP_OK) {
        (void)cli_usage_error("diagnose: %s", err.text);
    } else if (harness_diagnosis_create(&diagnosis) == DDP_OK) {
        for (size_t i = 0; i < files.count; i++) {
            used += read_file(diagnosis, files.path[i]);
        }
        if (used > 0) {
            code = conclude(diagnosis, options);
        } else if (files.count == 0) {
            (void)cli_usage_error("diagnose: there is no file in what was named");
        }
    }
    harness_diagnosis_destroy(diagnosis);
    cli_files_fini(&files);
    return code;
}
