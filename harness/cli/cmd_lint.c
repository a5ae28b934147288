/* lint: scenario files, read and checked but not run. */
#include <stdio.h>

#include "harness/cli/cli.h"

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

        if (cli_scenario_load(files.path[i], options, &scenario)) {
            harness_scenario_fini(&scenario);
        } else {
            bad++;
        }
    }
    (void)printf("%zu scenario files, %zu bad\n", files.count, bad);
    cli_files_fini(&files);
    return bad > 0 ? CLI_EXIT_USAGE : 0;
}
