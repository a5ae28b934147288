/* ddprove coll conform, and coll check of what has no schedules: judged by running it. */
#include <stdio.h>
#include <unistd.h>

#include "harness/cli/cli.h"
#include "harness/lab/conform.h"
#include "harness/report/report.h"

enum { BUDGET_S = 60, TIMEOUT_S = 10 };

static void show_progress(void *context, size_t done, size_t total)
{
    (void)context;
    (void)total;
    (void)fprintf(stderr, "\r%zu calls\033[K", done);
    (void)fflush(stderr);
}

static int write_junit(const char *path, const struct harness_conform_report *report)
{
    json_t *verdicts = harness_conform_verdicts(report);
    struct ddp_text text;
    int code;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_junit(verdicts, &text);
    code = cli_write_text("coll conform", path, &text);
    ddp_text_fini(&text);
    json_decref(verdicts);
    return code;
}

int cli_coll_conform(const struct cli_options *options, const char *name)
{
    uint64_t budget_s =
        options->budget_s > 0 || options->is_full ? options->budget_s : (uint64_t)BUDGET_S;
    const struct harness_conform_options asked = {
        .name = name,
        .program = "/proc/self/exe",
        .worlds = {options->worlds.first, options->worlds.last, options->has_worlds},
        .is_full = options->is_full,
        .is_tcp = options->is_tcp,
        .budget_ns = budget_s * DDP_NS_PER_S,
        .timeout_ns =
            (options->limit_s > 0 ? options->limit_s : (uint64_t)TIMEOUT_S) * DDP_NS_PER_S,
        .progress = isatty(STDERR_FILENO) != 0 ? show_progress : NULL};
    static struct harness_conform_report report;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    ddp_status status = harness_conform_run(&asked, &report, &err);
    int code = 0;

    if (asked.progress != NULL) {
        (void)fputs("\r\033[K", stderr);
    }
    if (status != DDP_OK) {
        code =
            cli_usage_error("coll: %s", err.text[0] != '\0' ? err.text : ddp_status_text(status));
        return status == DDP_E_INVALID || status == DDP_E_NOT_FOUND || status == DDP_E_UNSUPPORTED
                   ? code
                   : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_conform_print(&report, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    if (options->json != NULL) {
        code = cli_write_json("coll conform", options->json, harness_conform_json(&report));
    }
    if (code == 0 && options->junit != NULL) {
        code = write_junit(options->junit, &report);
    }
    return code != 0 ? code : harness_outcome_exit_code(harness_conform_outcome(&report));
}
