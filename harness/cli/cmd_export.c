/* export: what a job starts from, for another framework to start from the same. */
#include <stdio.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"

int cli_export(const struct cli_options *options)
{
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    ddp_status status;

    if (options->path_count != 1 || options->out_dir == NULL) {
        return cli_usage_error("export: name one scenario file, and a folder with --out");
    }
    if (!cli_scenario_load(options->paths[0], options, &scenario)) {
        return CLI_EXIT_USAGE;
    }
    /* Of a matrix the first cell; --set pins another one. */
    status = harness_cell_export(&scenario.plans[0], options->out_dir, &err);
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: export: %s\n",
                      err.text[0] != '\0' ? err.text : ddp_status_text(status));
    } else {
        (void)printf("%s: %s\n", scenario.plans[0].id, options->out_dir);
    }
    harness_scenario_fini(&scenario);
    if (status == DDP_E_INVALID) { /* the scenario cannot be exported */
        return CLI_EXIT_USAGE;
    }
    return status == DDP_OK ? 0 : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
}
