/* Hosts that owe rounds. A collective by schedule is no single call: each rank's host enqueues its
 * rounds one after the other, whenever it comes by. A host that does not come by holds up all
 * devices in that collective, its own as well, and none of them hangs. */
#include "harness/monitor/graph.h"
#include "harness/monitor/position.h"
#include "harness/monitor/rules.h"

bool harness_rounds_is_owing(const struct harness_cut *cut, uint32_t rank)
{
    const struct harness_position position = harness_position_of(cut, rank);

    return position.is_known && position.rounds_left != 0 && position.seq > position.seq_ended &&
           !harness_graph_is_waiting(cut, rank);
}

bool harness_rounds_is_held(const struct harness_cut *cut, uint32_t rank)
{
    const struct harness_position position = harness_position_of(cut, rank);

    if (!position.is_known || position.comm < HARNESS_COMM_INSIDE ||
        harness_rounds_is_owing(cut, rank)) {
        return false;
    }
    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (r != rank && harness_rounds_is_owing(cut, r) &&
            cut->pages[r].comm == cut->pages[rank].comm &&
            harness_position_of(cut, r).seq == position.seq) {
            return true;
        }
    }
    return false;
}
