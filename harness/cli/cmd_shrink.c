/* ddprove shrink: the smallest scenario that fails in the same way. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/shrink/shrink.h"

enum { RUNS_MAX = 60 };

static void show(void *context, unsigned runs, const struct harness_plan *smallest)
{
    (void)context;
    if (isatty(STDERR_FILENO) != 0) {
        (void)fprintf(stderr, "\r%u runs: %u faults, %u ranks, %u steps\033[K", runs,
                      smallest->fault_count, smallest->job.ranks, smallest->job.steps);
        (void)fflush(stderr);
    }
}

/* A run folder's plan, or the file itself. */
static ddp_status read_plan(const char *operand, char *path, size_t path_bytes, void **out,
                            size_t *out_bytes, struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();
    struct stat info;
    bool is_folder = stat(operand, &info) == 0 && S_ISDIR(info.st_mode);

    (void)snprintf(path, path_bytes, "%s%s", operand, is_folder ? "/plan.yaml" : "");
    return files->ops->read_all(files, path, ddp_mem_system(), out, out_bytes, err);
}

/* scenarios/<family> if that is where it goes. */
static const char *family_of(const char *out_dir)
{
    const char *found = strstr(out_dir, "scenarios/");

    return found != NULL && strchr(found + 10, '/') == NULL && found[10] != '\0' ? found + 10
                                                                                 : "shrunk";
}

static ddp_status write_scenario(const char *out_dir, const char *name, const struct ddp_text *text,
                                 char *path, size_t path_bytes, struct ddp_err *err)
{
    DDP_TRY(ddp_files_make_dirs(out_dir, err));
    (void)snprintf(path, path_bytes, "%s/%s.yaml", out_dir, name);
    return ddp_files_write_atomic(ddp_files_system(), path, ddp_text_str(text), text->size_bytes,
                                  err);
}

int cli_shrink(const struct cli_options *options)
{
    const char *out_dir = options->out_dir != NULL ? options->out_dir : ".";
    struct harness_shrink_config config = {.driver = options->has_driver ? options->driver
                                                                         : HARNESS_DRIVER_SIM,
                                           .seed = options->seed,
                                           .self_path = harness_launch_self_path(),
                                           .runs_max = RUNS_MAX,
                                           .progress = show};
    struct harness_shrink_result result;
    struct ddp_text text;
    struct ddp_err err = {{0}};
    char path[4096], work_dir[4096];
    void *plan = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    if (options->path_count != 1) {
        return cli_usage_error("shrink: name one run folder or plan");
    }
    (void)snprintf(work_dir, sizeof work_dir, "%s/.shrink.%ld", out_dir, (long)getpid());
    config.work_dir = work_dir;
    ddp_text_init(&text, ddp_mem_system());
    status = read_plan(options->paths[0], path, sizeof path, &plan, &size_bytes, &err);
    if (status == DDP_OK) {
        status = harness_shrink(plan, size_bytes, path, &config, family_of(out_dir), &text, &result,
                                &err);
    }
    if (status == DDP_OK) {
        status = write_scenario(out_dir, result.name, &text, path, sizeof path, &err);
    }
    ddp_text_fini(&text);
    ddp_mem_free(ddp_mem_system(), plan);
    if (isatty(STDERR_FILENO) != 0) {
        (void)fputs("\r\033[K", stderr);
    }
    if (status != DDP_OK) {
        return cli_usage_error("%s", err.text[0] != '\0' ? err.text : ddp_status_text(status));
    }
    (void)printf("%s: %s, %u faults, %u ranks, %u steps, after %u runs\n", path,
                 harness_verdict_name(result.signature.verdict), result.faults, result.ranks,
                 result.steps, result.runs);
    return 0;
}
