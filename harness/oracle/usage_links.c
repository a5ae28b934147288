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

/* A rank that gives up joining closes its connections before it says so: no longer before than
 * this, on a machine with much to do, too. */
#define LEAVING_NS UINT64_C(1000000000)

static const char *const meanings[DDP_LINK_COUNT] = {
#define X(id, meaning) [id] = meaning,
    DDP_LINK_TABLE(X)
#undef X
};

bool harness_usage_is_leaving(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_PHASE, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] == DDP_PHASE_TEARDOWN && list[i]->entry.time_ns <= time_ns) {
            return true;
        }
    }
    return false;
}

/* The rank recorded something after this time, or the launcher ended it much later, along with
 * those that saw it end: it was no process that had died. Nor was it at its end, where it closes
 * its connections: that of a store has no farewell. */
static bool is_alive_after(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    const struct harness_rank_end *process = &e->input->trace->ends[rank];

    return !harness_usage_is_leaving(e, rank, time_ns) &&
           (end != NULL
                ? end->entry.time_ns > time_ns
                : process->how == HARNESS_END_REAPED && process->time_ns > time_ns + LEAVING_NS);
}

/* Its first error was before there was a group that it could have revoked. */
static bool was_joining(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);

    return count > 0 && list[0]->entry.phase <= DDP_PHASE_INIT;
}

static bool has_lost_any(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_LINK_LOST, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] < e->world) {
            return true;
        }
    }
    return false;
}

/* When it reported its first error; 0: never. */
static uint64_t failed_ns(const struct harness_emulation *e, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);

    return count > 0 ? list[0]->entry.time_ns : 0;
}

bool harness_usage_gave_up(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    if (end == NULL || has_lost_any(e, rank) || time_ns + LEAVING_NS < failed_ns(e, rank)) {
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

/* Whom the rank lost in this event. A rank that has the store does not know whose connection broke
 * there: that is whoever then, while it lives, loses this one first. UINT32_MAX: nobody does. */
static uint32_t peer_of(const struct harness_emulation *e, const struct harness_trace_event *lost)
{
    const struct ddp_event_entry *first = NULL;
    const uint64_t from_ns = lost->entry.time_ns;
    uint32_t peer = UINT32_MAX;

    if (lost->entry.arg[0] < e->world) {
        return (uint32_t)lost->entry.arg[0];
    }
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_LINK_LOST, &count);

        for (size_t i = 0; i < count; i++) {
            const struct ddp_event_entry *entry = &list[i]->entry;

            if (entry->arg[0] == lost->rank && entry->time_ns >= from_ns &&
                entry->time_ns - from_ns <= LEAVING_NS &&
                is_alive_after(e, lost->rank, entry->time_ns) &&
                !harness_usage_gave_up(e, lost->rank, entry->time_ns) &&
                (first == NULL || entry->time_ns < first->time_ns)) {
                first = entry;
                peer = r;
            }
        }
    }
    return peer;
}

/* The peer lived when the rank lost it. */
static bool is_break(const struct harness_emulation *e, const struct harness_trace_event *lost)
{
    const uint32_t peer = peer_of(e, lost);

    return peer != UINT32_MAX && lost->entry.arg[1] < DDP_LINK_COUNT &&
           is_alive_after(e, peer, lost->entry.time_ns) &&
           !harness_usage_gave_up(e, peer, lost->entry.time_ns);
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
            if ((first == NULL || list[i]->entry.time_ns < first->entry.time_ns) &&
                is_break(e, list[i])) {
                first = list[i];
            }
        }
    }
    return first;
}

/* Those who are at an end of this break: the rank that lost the other one, and all whom it lost so.
 */
static void add_ends(const struct harness_emulation *e, uint32_t rank, struct harness_rank_set *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_LINK_LOST, &count);

    harness_rank_set_add(out, rank);
    for (size_t i = 0; i < count; i++) {
        if (is_break(e, list[i])) {
            harness_rank_set_add(out, peer_of(e, list[i]));
        }
    }
}

bool harness_usage_check_links(const struct harness_emulation *e,
                               const struct harness_rank_set *victims, struct harness_findings *out,
                               struct harness_rank_set *out_ends)
{
    const struct harness_trace_event *first = first_break(e);
    struct harness_finding finding;
    uint32_t peer;

    if (first == NULL) {
        return false;
    }
    peer = peer_of(e, first);
    add_ends(e, first->rank, out_ends);
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_CRASH_EXITED, HARNESS_ORACLE_USAGE,
                         HARNESS_MODE_STATUS);
    finding.victims = *victims;
    finding.phase = first->entry.phase;
    finding.step = first->entry.phase > DDP_PHASE_INIT ? (int32_t)first->entry.step : -1;
    harness_rank_set_add(&finding.culprits, first->rank);
    if (first->entry.arg[1] == DDP_LINK_SILENT) {
        harness_rank_set_add(&finding.culprits, peer);
    }
    harness_subject_set_op(e, harness_subject_open_seq(e, &finding.culprits), &finding);
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "the connection between ranks %u and %u broke while both lived: for rank %u, rank "
        "%u %s%s%s",
        first->rank, peer, first->rank, peer, meanings[first->entry.arg[1]],
        first->entry.arg[2] != 0 ? ": " : "",
        first->entry.arg[2] != 0 ? strerror((int)first->entry.arg[2]) : "");
    harness_findings_add(out, &finding);
    return true;
}
