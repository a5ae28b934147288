/* Fuzz target: any bytes as a scenario. The parser may refuse them, in one line; what it accepts
 * must print as a plan that parses back to the same plan. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/scenario/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
const char *__lsan_default_suppressions(void);

/* libfyaml 0.7.12 loses a buffer of its own when it refuses an odd run of quotes. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libfyaml.so";
}

static void check(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_round_trip(const struct harness_plan *plan)
{
    struct harness_scenario again;
    struct ddp_text first;
    struct ddp_text second;
    struct ddp_err err;

    ddp_text_init(&first, ddp_mem_system());
    ddp_text_init(&second, ddp_mem_system());
    harness_plan_print(plan, &first);
    check(harness_scenario_parse(ddp_text_str(&first), first.size_bytes, "x.yaml", NULL, 0, &again,
                                 &err) == DDP_OK);
    check(again.plan_count == 1);
    harness_plan_print(&again.plans[0], &second);
    check(strcmp(ddp_text_str(&first), ddp_text_str(&second)) == 0);
    harness_scenario_fini(&again);
    ddp_text_fini(&first);
    ddp_text_fini(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct harness_scenario scenario;
    struct ddp_err err;

    memset(&err, 0, sizeof(err));
    if (harness_scenario_parse((const char *)data, size_bytes, "x.yaml", NULL, 0, &scenario,
                               &err) != DDP_OK) {
        check(err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
        return 0;
    }
    for (size_t i = 0; i < scenario.plan_count && i < 8; i++) {
        check_round_trip(&scenario.plans[i]);
    }
    harness_scenario_fini(&scenario);
    return 0;
}
