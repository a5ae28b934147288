/* Rules that harness_monitor_analyse applies to a cut, one file each. Internal to harness/monitor.
 */
#ifndef HARNESS_MONITOR_RULES_H
#define HARNESS_MONITOR_RULES_H

#include "harness/monitor/draft.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How a rank crashed, or NONE. */
enum harness_verdict harness_crash_of(const struct harness_view *view, uint32_t rank);
/* Add a finding for each way in which ranks ended before their work was done. */
void harness_crash_find_all(const struct harness_view *view, struct harness_findings *out);

/* How the last operation that a rank posted differs from the program, or NONE. */
enum harness_verdict harness_mismatch_of(const struct harness_view *view, uint32_t rank);
/* It posted in one group before it did in another, as harness_program_is_open says: no finding yet,
 * but of a circle it is the one to blame. */
bool harness_mismatch_is_open(const struct harness_view *view, uint32_t rank);
/* As harness_draft_set_planned, of what a rank is to do next; nothing once ranks agree on another
 * program (under join, if one lost a batch), which nobody knows before the record is there. */
void harness_mismatch_set_due(const struct harness_view *view, uint64_t seq,
                              struct harness_finding *finding);
/* Add a finding for each way in which it does. */
void harness_mismatch_find_all(const struct harness_view *view, struct harness_findings *out);

/* A rank waits for a message that its sender has sent. For long: it was lost. */
bool harness_message_is_any_lost(const struct harness_cut *cut);
/* Add a finding for each. Between the two ends of a link the record does not tell who lost it. */
void harness_message_find_lost(const struct harness_view *view, struct harness_findings *out);
/* Of a stable cut in which all wait: a rank waits for a message of a collective that its sender is
 * done with, and sent no such message: it took no part. Add a finding, at most one; false: there is
 * no such rank. */
bool harness_message_find_unsent(const struct harness_view *view, struct harness_findings *out);

/* Add a finding, at most one and by budget, if progress words of a stable cut show a device that
 * hangs. is_explained: a crash, a stop, a mismatch or the end of the job already explains why ranks
 * wait; then only a compute kernel that nothing else holds up is a finding. */
void harness_device_find(const struct harness_view *view, bool is_explained,
                         struct harness_findings *out);

/* The host is in its own code, and has rounds of a collective that has started on its device left
 * to enqueue: no rank gets to the end of it before this host comes back. */
bool harness_rounds_is_owing(const struct harness_cut *cut, uint32_t rank);
/* The device is inside of a collective that another rank's host owes rounds of, and its own host
 * does not: whatever waits for this device is held up by that host. */
bool harness_rounds_is_held(const struct harness_cut *cut, uint32_t rank);

/* The host is silent beyond its budget while its device is inside of a collective that a rank has
 * ended without completing: the host may be in a call that waits for the device. */
bool harness_blocked_is(const struct harness_view *view, uint32_t rank);
/* Add one finding for all of them. */
void harness_blocked_find(const struct harness_view *view, struct harness_findings *out);

#ifdef __cplusplus
}
#endif
#endif
