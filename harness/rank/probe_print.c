/* Purpose: what probes showed, as text. */
#include <inttypes.h>

#include "harness/rank/probe_map.h"

const char *harness_probe_result_name(enum harness_probe_result result)
{
    static const char *const names[] = {
#define X(id, name) name,
        HARNESS_PROBE_RESULT_TABLE(X)
#undef X
    };

    return (unsigned)result < HARNESS_PROBE_RESULT_COUNT ? names[result] : "?";
}

void harness_probe_map_print(const struct harness_probe_map *map, struct ddp_text *out)
{
    const char *separator = "";

    if (map->result == HARNESS_PROBE_MEASURED || map->result == HARNESS_PROBE_UNKNOWN) {
        ddp_text_add(out, "result %s", harness_probe_result_name(map->result));
    } else {
        ddp_text_add(out,
                     "result inconsistent %s members=", harness_probe_result_name(map->result));
        for (uint32_t r = 0; r < HARNESS_PROBE_MEMBERS_MAX; r++) {
            if ((map->members >> r & 1u) != 0) {
                ddp_text_add(out, "%s%" PRIu32, separator, r);
                separator = ",";
            }
        }
    }
    ddp_text_add(out, "%s%s\n", map->text[0] == '\0' ? "" : " ", map->text);
    for (size_t r = 0; map->result == HARNESS_PROBE_MEASURED && r < map->range_count; r++) {
        ddp_text_add(out, "%zu %zu ", map->ranges[r].first, map->ranges[r].elem_count);
        harness_probe_tree_print(&map->ranges[r].tree, out);
        ddp_text_add(out, "\n");
    }
}
