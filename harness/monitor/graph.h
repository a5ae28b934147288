/* The wait-for graph of a cut, computed edge by edge. Internal to harness/monitor. */
#ifndef HARNESS_MONITOR_GRAPH_H
#define HARNESS_MONITOR_GRAPH_H

#include "harness/monitor/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The process has ended. */
bool harness_graph_is_gone(const struct harness_cut *cut, uint32_t rank);
/* The process is at its end, and has not ended. */
bool harness_graph_is_ending(const struct harness_cut *cut, uint32_t rank);
/* The process has ended, or the rank has recorded rank.end. */
bool harness_graph_is_over(const struct harness_cut *cut, uint32_t rank);
/* Started and not over. */
bool harness_graph_is_live(const struct harness_cut *cut, uint32_t rank);
/* Live, running, and inside a wait. */
bool harness_graph_is_waiting(const struct harness_cut *cut, uint32_t rank);
/* `rank` waits for `other`: its operation still needs it, or its transport waits for its message.
 */
bool harness_graph_has_edge(const struct harness_cut *cut, uint32_t rank, uint32_t other);
/* Some rank waits for this one. */
bool harness_graph_has_waiter(const struct harness_cut *cut, uint32_t rank);
/* The first collective of a group that it is in and that this rank has not posted, if a rank has
 * that waits or ended with an error, and this one is not inside an earlier one; 0 = none. */
uint64_t harness_graph_seq_owed(const struct harness_cut *cut, uint32_t rank);
/* Adds them. */
void harness_graph_waiting_set(const struct harness_cut *cut, struct harness_rank_set *out);
/* The waiting rank whose message `rank` waits for; if that is not known, the first one that it
 * waits for. world_size: none, or it does not wait. */
uint32_t harness_graph_next(const struct harness_cut *cut, uint32_t rank);
/* Both wait inside collectives, and `other` has posted the one that `rank` waits in. */
bool harness_graph_is_inside(const struct harness_cut *cut, uint32_t rank, uint32_t other);
/* Adds the members of a circle of waits, if there is one. *out_is_mixed: not all of them wait
 * inside posted collectives of one group; if they do, a message that is under way may end the
 * waits. */
bool harness_graph_find_cycle(const struct harness_cut *cut, struct harness_rank_set *out,
                              bool *out_is_mixed);
/* The phase of a rank; SPAWN while it has no page. */
enum ddp_phase harness_graph_phase(const struct harness_cut *cut, uint32_t rank);
/* How long the rank has shown no sign of life, less the time for which it had no CPU. */
uint64_t harness_graph_silent_ns(const struct harness_cut *cut, uint32_t rank);
/* For how much of that time it had no CPU. */
uint64_t harness_graph_starved_ns(const struct harness_cut *cut, uint32_t rank);
/* now - then, 0 if then is later. */
uint64_t harness_graph_age_ns(const struct harness_cut *cut, uint64_t then_ns);

#ifdef __cplusplus
}
#endif
#endif
