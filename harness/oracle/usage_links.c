/* Purpose: a connection that broke between ranks that live. Each end takes the other one for dead,
 * so what they say of each other is no crash.
 * Idea: link.lost names the peer and what was seen. Whoever lost first a peer that lived is where
 * it broke: its own calls failed; the other end only saw that it was given up. Where neither was
 * answered any more, neither end is to blame more than the other. A peer whose time was up while it
 * joined has left: nothing broke. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/seam/link.h"
#include "harness/oracle/subject.h"

static const char *const meanings[DDP_LINK_COUNT] = {
#define X(id, meaning) [id] = meaning,
    DDP_LINK_TABLE(X)
#undef X
};

/* The rank recorded something after this time: it was no process that had died. */
static bool is_alive_after(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    return end != NULL && end->entry.time_ns > time_ns;
}

/* Its first error was before there was a group that it could have revoked. */
static bool was_joining(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);

    return count > 0 && list[0]->entry.phase <= DDP_PHASE_INIT;
}

bool harness_usage_gave_up(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    size_t count = 0;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_LINK_LOST, &count);
    if (end == NULL || count > 0) {
        return false;
    }
    switch (harness_index_status(end->entry.arg[0])) {
    case DDP_E_TIMEOUT:
        return was_joining(e, rank);
    case DDP_OK:
    case DDP_E_PEER_DIED:
    case DDP_E_REVOKED:
        return false;
    default:
        return true;
    }
}

/* The first loss of a rank that lived; NULL: there is none. */
static const struct harness_trace_event *first_break(const struct harness_emulation *e)
{
    const struct harness_trace_event *first = NULL;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_LINK_LOST, &count);

        for (size_t i = 0; i < count; i++) {
            const struct ddp_event_entry *entry = &list[i]->entry;

            if (entry->arg[0] < e->world && entry->arg[1] < DDP_LINK_COUNT &&
                is_alive_after(e, (uint32_t)entry->arg[0], entry->time_ns) &&
                !harness_usage_gave_up(e, (uint32_t)entry->arg[0]) &&
                (first == NULL || entry->time_ns < first->entry.time_ns)) {
                first = list[i];
            }
        }
    }
    return first;
}

bool harness_usage_check_links(const struct harness_emulation *e,
                               const struct harness_rank_set *victims, struct harness_findings *out,
                               uint32_t ends[2])
{
    const struct harness_trace_event *first = first_break(e);
    struct harness_finding finding;

    if (first == NULL) {
        return false;
    }
    ends[0] = first->rank;
    ends[1] = (uint32_t)first->entry.arg[0];
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_CRASH_EXITED, HARNESS_ORACLE_USAGE,
                         HARNESS_MODE_STATUS);
    finding.victims = *victims;
    finding.phase = first->entry.phase;
    finding.step = first->entry.phase > DDP_PHASE_INIT ? (int32_t)first->entry.step : -1;
    harness_rank_set_add(&finding.culprits, ends[0]);
    if (first->entry.arg[1] == DDP_LINK_SILENT) {
        harness_rank_set_add(&finding.culprits, ends[1]);
    }
    harness_subject_set_op(e, harness_subject_open_seq(e, &finding.culprits), &finding);
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "the connection between ranks %u and %u broke while both lived: for rank %u, rank "
        "%u %s%s%s",
        ends[0], ends[1], ends[0], ends[1], meanings[first->entry.arg[1]],
        first->entry.arg[2] != 0 ? ": " : "",
        first->entry.arg[2] != 0 ? strerror((int)first->entry.arg[2]) : "");
    harness_findings_add(out, &finding);
    return true;
}
