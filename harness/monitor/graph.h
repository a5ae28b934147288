/* The wait-for graph of a cut, computed edge by edge. Internal to harness/monitor. */
#ifndef HARNESS_MONITOR_GRAPH_H
#define HARNESS_MONITOR_GRAPH_H

#include "harness/monitor/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The process is gone. */
bool harness_graph_is_gone(const struct harness_cut *cut, uint32_t rank);
/* Gone, or it has recorded rank.end. */
bool harness_graph_is_over(const struct harness_cut *cut, uint32_t rank);
/* Started and not over. */
bool harness_graph_is_live(const struct harness_cut *cut, uint32_t rank);
/* Live, running, and inside a wait. */
bool harness_graph_is_waiting(const struct harness_cut *cut, uint32_t rank);
/* A waiting rank needs something of `other`. */
bool harness_graph_has_edge(const struct harness_cut *cut, uint32_t rank, uint32_t other);
/* Some waiting rank has an edge to this one. */
bool harness_graph_has_waiter(const struct harness_cut *cut, uint32_t rank);
/* First collective that this rank has not posted, if a waiting rank has; 0 = none. */
uint64_t harness_graph_seq_owed(const struct harness_cut *cut, uint32_t rank);
void harness_graph_waiting_set(const struct harness_cut *cut, struct harness_rank_set *out);
/* First waiting rank that a waiting rank needs; world_size: none, or it does not wait. */
uint32_t harness_graph_next(const struct harness_cut *cut, uint32_t rank);
/* `rank` waits inside a collective that `other`, which waits inside one too, has posted as well. */
bool harness_graph_is_inside(const struct harness_cut *cut, uint32_t rank, uint32_t other);
/* Members of a circle of waits, if there is one. *out_is_mixed: its members do not all wait inside
 * one group's posted collectives, where a message under way could still end the wait. */
bool harness_graph_find_cycle(const struct harness_cut *cut, struct harness_rank_set *out,
                              bool *out_is_mixed);
/* Phase of a rank; SPAWN while it has shown nothing. */
enum ddp_phase harness_graph_phase(const struct harness_cut *cut, uint32_t rank);
/* How long the rank has shown no sign of life, by its own doing. */
uint64_t harness_graph_silent_ns(const struct harness_cut *cut, uint32_t rank);
/* Of the time since then, what a busy machine took. */
uint64_t harness_graph_starved_ns(const struct harness_cut *cut, uint32_t rank);
uint64_t harness_graph_budget_ns(const struct harness_plan *plan, enum ddp_phase phase);
/* now - then, 0 if then is later. */
uint64_t harness_graph_age_ns(const struct harness_cut *cut, uint64_t then_ns);

#ifdef __cplusplus
}
#endif
#endif
