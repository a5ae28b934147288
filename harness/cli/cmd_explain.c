/* explain: how a recorded verdict follows. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"

int cli_explain(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    char path[4096];
    json_error_t error;
    json_t *verdict;
    struct ddp_text text;

    if (options->path_count != 1) {
        return cli_usage_error("explain: name the folder of one run (it holds verdict.json)");
    }
    (void)snprintf(path, sizeof path, "%s/verdict.json", options->paths[0]);
    if (access(path, R_OK) != 0) {
        return cli_usage_error("explain: %s: %s; name the folder of one run", path,
                               strerror(errno));
    }
    verdict = json_load_file(path, 0, &error);
    if (verdict == NULL) {
        return cli_usage_error("%s:%d:%d: %s", path, error.line, error.column, error.text);
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_report_findings(verdict, &text);
    if (harness_cell_print_diagnosis(options->paths[0], &text, &err) != DDP_OK) {
        ddp_text_add(&text, "    no record of the run: %s\n", err.text);
    }
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    json_decref(verdict);
    return 0;
}
