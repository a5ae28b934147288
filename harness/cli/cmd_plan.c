/* plan: the resolved plan of every cell, as YAML. */
#include <stdio.h>

#include "harness/cli/cli.h"

int cli_plan(const struct cli_options *options)
{
    struct harness_scenario scenario;
    struct ddp_text text;

    if (options->path_count != 1) {
        return cli_usage_error("plan: name one scenario file");
    }
    if (!cli_scenario_load(options->paths[0], options, &scenario)) {
        return CLI_EXIT_USAGE;
    }
    for (size_t i = 0; i < scenario.plan_count; i++) {
        ddp_text_init(&text, ddp_mem_system());
        harness_plan_print(&scenario.plans[i], &text);
        (void)printf("%s%s", i > 0 ? "---\n" : "", ddp_text_str(&text));
        ddp_text_fini(&text);
    }
    harness_scenario_fini(&scenario);
    return 0;
}
