/* explain: how recorded verdicts follow. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"

/* Runs of one call that are explained whole; of more only the line is shown. */
enum { EXPLAINED_MAX = 5 };

/* NULL: its error was printed. */
static json_t *load_verdict(const char *folder)
{
    char path[4096 + 16];
    json_error_t error;
    json_t *verdict;

    (void)snprintf(path, sizeof path, "%s/verdict.json", folder);
    if (access(path, R_OK) != 0) {
        (void)cli_usage_error("explain: %s: %s; name the folder of a run", path, strerror(errno));
        return NULL;
    }
    verdict = json_load_file(path, 0, &error);
    if (verdict == NULL) {
        (void)cli_usage_error("explain: %s:%d:%d: %s; judge the run again: ddprove check %s", path,
                              error.line, error.column, error.text, folder);
    } else if (!harness_report_is_verdict(verdict)) {
        (void)cli_usage_error("explain: %s: is no verdict; judge the run again: ddprove check %s",
                              path, folder);
        json_decref(verdict);
        verdict = NULL;
    }
    return verdict;
}

/* Returns 0, or an exit code: what the run left behind cannot be read. */
static int print_explanation(const char *folder, const json_t *verdict, bool has_events)
{
    const enum harness_outcome outcome = harness_report_outcome(verdict);
    int code = 0;
    const struct harness_diagnosis_options options = {verdict, has_events};
    struct ddp_err err = {{0}};
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_headline(verdict, &text);
    if (harness_cell_print_diagnosis(folder, &options, &text, &err) != DDP_OK) {
        ddp_text_add(&text, "    no record of the run: %s\n", err.text);
        /* What did not run has none. */
        code = outcome == HARNESS_OUTCOME_SKIP || outcome == HARNESS_OUTCOME_ERROR
                   ? 0
                   : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    ddp_text_add(&text, "\n");
    harness_report_findings(verdict, &text);
    if (!has_events) {
        ddp_text_add(&text,
                     "    with --events: the faults that fired, what the monitor saw, and the "
                     "last events of each rank\n");
    }
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    return code;
}

static void print_line(const json_t *verdict)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, 1, false, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
}

static bool is_good(const json_t *verdict)
{
    enum harness_outcome outcome = harness_report_outcome(verdict);

    return outcome == HARNESS_OUTCOME_PASS || outcome == HARNESS_OUTCOME_SKIP;
}

/* Of several runs, those that did not pass are explained. Returns 0, or an exit code. */
static int explain_all(const struct cli_files *records, bool has_events)
{
    size_t explained = 0;
    size_t good = 0;
    int worst = 0;

    for (size_t i = 0; i < records->count; i++) {
        json_t *verdict = load_verdict(records->path[i]);

        if (verdict == NULL) {
            return CLI_EXIT_USAGE;
        }
        if (records->count > 1 && is_good(verdict)) {
            good++;
        } else if (explained < EXPLAINED_MAX) {
            explained++;
            int code = print_explanation(records->path[i], verdict, has_events);

            worst = code != 0 ? code : worst;
        } else {
            print_line(verdict);
        }
        json_decref(verdict);
    }
    if (good > 0) {
        (void)printf("%zu of %zu passed; name the folder of one to have it explained\n", good,
                     records->count);
    }
    return worst;
}

int cli_explain(const struct cli_options *options)
{
    struct cli_files records;
    struct ddp_err err = {{0}};
    int code;

    if (cli_records_collect(options->paths, options->path_count, &records, &err) != DDP_OK) {
        cli_files_fini(&records);
        return cli_usage_error("explain: %s", err.text);
    }
    code = explain_all(&records, options->has_events);
    cli_files_fini(&records);
    return code;
}
