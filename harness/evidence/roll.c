/* Purpose: what survivors recorded of their new group is whole and does not contradict itself.
 * Idea: each member is said twice, by itself when it loses its group and by all that hear of it.
 * Whether they are the right ones, and start from the right state, harness/oracle/survivors.c says.
 */
#include <string.h>

#include "harness/evidence/evidence.h"
#include "harness/evidence/internal.h"

/* Arguments of group.lost, group.member and group.changed. */
enum { LOST_STATUS, LOST_RANK, LOST_STEPS };
enum { MEMBER_NUMBER, MEMBER_RANK, MEMBER_STEPS };
enum { CHANGED_MEMBER, CHANGED_MEMBERS };

/* A rank loses its group by the error that it recorded last, which names the same rank. */
static void check_lost(const struct harness_trace *trace, const struct harness_trace_event *lost,
                       struct harness_gap *out)
{
    const struct ddp_event_entry *error = NULL;
    size_t cursor = 0;
    const struct harness_trace_event *event;

    while ((event = harness_trace_next(trace, &cursor, lost->rank, DDP_EVENT_RANK_ERROR)) != NULL &&
           event->entry.index < lost->entry.index) {
        error = &event->entry;
    }
    if (error == NULL || error->arg[1] != lost->entry.arg[LOST_RANK] ||
        harness_index_status(error->arg[0]) != harness_index_status(lost->entry.arg[LOST_STATUS])) {
        harness_gap_set(out, "rank %u lost its group by another error than it recorded",
                        lost->rank);
    }
}

/* Who goes on, in order; each has done as much as it says itself. A rank that has heard of others
 * than it should is a finding, and what it heard of them is theirs. */
static void check_members(const struct harness_trace *trace, const struct harness_parting *parting,
                          uint32_t rank, struct harness_gap *out)
{
    const struct harness_parting_rank *self = &parting->by_rank[rank];
    const struct harness_trace_event *event;
    uint64_t number = 0;
    size_t cursor = 0;

    while ((event = harness_trace_next(trace, &cursor, rank, DDP_EVENT_GROUP_MEMBER)) != NULL) {
        const uint64_t *arg = event->entry.arg;
        const struct harness_trace_event *other =
            arg[MEMBER_RANK] < parting->world_size ? parting->by_rank[arg[MEMBER_RANK]].lost : NULL;
        const bool is_common =
            self->list_count == parting->count && number < parting->count &&
            memcmp(self->list, parting->ranks, parting->count * sizeof(*self->list)) == 0;

        if (arg[MEMBER_NUMBER] != number || self->lost == NULL ||
            event->entry.index < self->lost->entry.index) {
            harness_gap_set(out, "rank %u recorded member %llu of its new group where %llu is due",
                            rank, (unsigned long long)arg[MEMBER_NUMBER],
                            (unsigned long long)number);
        } else if (is_common && other != NULL &&
                   other->entry.arg[LOST_STEPS] != arg[MEMBER_STEPS]) {
            harness_gap_set(out, "rank %u heard of %llu steps of rank %u, which says %llu", rank,
                            (unsigned long long)arg[MEMBER_STEPS], other->rank,
                            (unsigned long long)other->entry.arg[LOST_STEPS]);
        }
        number++;
    }
}

/* It is the member of its group that its list says, once. */
static void check_changed(const struct harness_trace *trace, const struct harness_parting *parting,
                          uint32_t rank, struct harness_gap *out)
{
    const struct harness_parting_rank *self = &parting->by_rank[rank];
    const struct harness_trace_event *event;
    size_t count = 0;
    size_t cursor = 0;

    while ((event = harness_trace_next(trace, &cursor, rank, DDP_EVENT_GROUP_CHANGED)) != NULL) {
        const uint64_t *arg = event->entry.arg;

        count++;
        if (count > 1 || self->lost == NULL || arg[CHANGED_MEMBERS] != self->list_count ||
            arg[CHANGED_MEMBER] >= self->list_count || self->list[arg[CHANGED_MEMBER]] != rank) {
            harness_gap_set(out, "rank %u is another member of its new group than it heard", rank);
        }
    }
}

void harness_evidence_roll(const struct harness_trace *trace, const struct harness_parting *parting,
                           struct harness_gap *out)
{
    *out = (struct harness_gap){.is_set = false};
    for (uint32_t r = 0; r < parting->world_size; r++) {
        if (parting->by_rank[r].lost != NULL) {
            check_lost(trace, parting->by_rank[r].lost, out);
        }
        check_members(trace, parting, r, out);
        check_changed(trace, parting, r, out);
    }
}
