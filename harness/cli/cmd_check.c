/* check: recorded runs, judged again. */
#include <stdio.h>
#include <string.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"

/* Judge one record again and print it. Returns 0, or an exit code; its error was printed. */
static int check_one(const char *folder, bool is_time_enforced,
                     struct harness_report_counts *counts)
{
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    struct ddp_text text;

    if (harness_cell_check(folder, is_time_enforced, &verdict, &err) != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
    harness_report_count(counts, verdict);
    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 1, false, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    json_decref(verdict);
    return 0;
}

int cli_check(const struct cli_options *options)
{
    struct harness_report_counts counts;
    struct cli_files records;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    int code = 0;

    memset(&counts, 0, sizeof counts);
    if (cli_records_collect(options->paths, options->path_count, &records, &err) != DDP_OK) {
        cli_files_fini(&records);
        return cli_usage_error("check: %s", err.text);
    }
    for (size_t i = 0; i < records.count && code == 0; i++) {
        code = check_one(records.path[i], options->is_time_enforced, &counts);
    }
    if (code == 0 && records.count > 1) {
        ddp_text_init(&text, ddp_mem_system());
        harness_report_summary(&counts, &text);
        (void)fputs(ddp_text_str(&text), stdout);
        ddp_text_fini(&text);
    }
    cli_files_fini(&records);
    return code != 0 ? code : harness_outcome_exit_code(harness_report_worst(&counts));
}
