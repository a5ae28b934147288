/* check: a recorded run, judged again. */
#include <stdio.h>
#include <string.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"

int cli_check(const struct cli_options *options)
{
    struct harness_report_counts counts;

    memset(&counts, 0, sizeof counts);
    if (options->path_count == 0) {
        return cli_usage_error("check: name the folder of a run (it holds trace.txt)");
    }
    for (int i = 0; i < options->path_count; i++) {
        struct ddp_err err = {{0}};
        json_t *verdict = NULL;
        struct ddp_text text;

        if (harness_cell_check(options->paths[i], options->is_time_enforced, &verdict, &err) !=
            DDP_OK) {
            return cli_usage_error("%s", err.text);
        }
        harness_report_count(&counts, verdict);
        ddp_text_init(&text, ddp_mem_system());
        harness_report_line(verdict, 1, false, &text);
        (void)fputs(ddp_text_str(&text), stdout);
        ddp_text_fini(&text);
        json_decref(verdict);
    }
    return harness_outcome_exit_code(harness_report_worst(&counts));
}
