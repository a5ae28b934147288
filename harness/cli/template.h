/* Files that `ddprove new` and `ddprove coll new` write, as they lie in harness/cli/template,
 * harness/guest/example and harness/plugin;
 * the build makes them a part of the program (template.cmake). */
#ifndef HARNESS_CLI_TEMPLATE_H
#define HARNESS_CLI_TEMPLATE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cli_template {
    const char *path; /* within the folder that is written */
    const unsigned char *data;
    size_t size_bytes;
};
/* Of a guest's project; ends with a path of NULL. */
extern const struct cli_template cli_guest_templates[];
/* Of a scenario: one file, in which @NAME@ is its id. */
extern const struct cli_template cli_scenario_templates[];
/* Of `coll new`: the algorithm, in which @NAME@ is its name, and the header. */
extern const struct cli_template cli_coll_templates[];
extern const struct cli_template cli_coll_opaque_templates[];

#ifdef __cplusplus
}
#endif
#endif
