/* lint: scenario files, read, checked and rehearsed, but not judged. */
#include <stdio.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"

/* Every cell is tried in the simulator: what can't happen there is a mistake of the scenario. Only
 * the first cell that is wrong is told. */
static bool rehearse(const char *path, const struct harness_scenario *scenario)
{
    for (size_t i = 0; i < scenario->plan_count; i++) {
        const struct harness_plan *plan = &scenario->plans[i];
        struct ddp_err err = {{0}};

        if (harness_cell_rehearse(plan, &err) != DDP_OK) {
            (void)fprintf(stderr, "%s: %s%s%s%s\n", path, err.text,
                          plan->cell[0] != '\0' ? " (cell " : "", plan->cell,
                          plan->cell[0] != '\0' ? ")" : "");
            return false;
        }
    }
    return true;
}

int cli_lint(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    struct cli_files files;
    size_t bad = 0;

    if (options->path_count == 0) {
        return cli_usage_error("lint: name a scenario file or a folder of them");
    }
    if (cli_files_collect(options->paths, options->path_count, &files, &err) != DDP_OK) {
        cli_files_fini(&files);
        return cli_usage_error("%s", err.text);
    }
    for (size_t i = 0; i < files.count; i++) {
        struct harness_scenario scenario;

        if (!cli_scenario_load(files.path[i], options, &scenario)) {
            bad++;
            continue;
        }
        bad += rehearse(files.path[i], &scenario) ? 0 : 1;
        harness_scenario_fini(&scenario);
    }
    (void)printf("%zu scenario file%s, %zu bad\n", files.count, files.count == 1 ? "" : "s", bad);
    cli_files_fini(&files);
    return bad > 0 ? CLI_EXIT_USAGE : 0;
}
