/* A rank's record is cut at its group.lost: before it lies what the lost group did, behind it how
 * it came into the new group and all that follows. */
#include "harness/trace/part.h"

#include <string.h>

static ddp_status add_member(struct harness_parting *parting, struct harness_parting_rank *self,
                             const struct ddp_event_entry *entry)
{
    if (self->list == NULL) {
        self->list = ddp_mem_array(parting->mem, parting->world_size, sizeof(*self->list));
        self->steps = ddp_mem_array(parting->mem, parting->world_size, sizeof(*self->steps));
    }
    if (self->list == NULL || self->steps == NULL) {
        return DDP_E_NOMEM;
    }
    if (self->list_count < parting->world_size && entry->arg[1] < parting->world_size) {
        self->steps[self->list_count] = entry->arg[2];
        self->list[self->list_count++] = (uint32_t)entry->arg[1];
    }
    return DDP_OK;
}

static bool is_same_list(const struct harness_parting_rank *a, const struct harness_parting_rank *b)
{
    return a->list_count == b->list_count && a->list_count > 0 &&
           memcmp(a->list, b->list, a->list_count * sizeof(*a->list)) == 0;
}

/* Every rank of the list had lost its group, and none had ended before this rank was in the new
 * one.
 */
static bool is_possible(const struct harness_trace *trace, const struct harness_parting *parting,
                        const struct harness_parting_rank *self)
{
    for (uint32_t m = 0; m < self->list_count; m++) {
        const struct harness_rank_end *end = &trace->ends[self->list[m]];
        const bool is_ended = end->how == HARNESS_END_SIGNALED || end->how == HARNESS_END_EXITED;

        if (parting->by_rank[self->list[m]].lost == NULL ||
            (is_ended && end->time_ns != 0 && end->time_ns < self->changed->entry.time_ns &&
             parting->by_rank[self->list[m]].changed == NULL)) {
            return false;
        }
    }
    return self->list_count > 0;
}

/* The list that is right: nobody in it is dead, and whoever has come is. Of those that ranks went
 * on with, the longest that is possible, then the one that most have, then the first rank's. */
static void choose(const struct harness_trace *trace, struct harness_parting *parting)
{
    uint32_t most = 0;
    bool is_found = false;

    for (uint32_t r = 0; r < parting->world_size; r++) {
        const struct harness_parting_rank *self = &parting->by_rank[r];
        uint32_t count = 0;
        bool is_better;

        if (self->changed == NULL || self->list_count == 0) {
            continue;
        }
        for (uint32_t q = 0; q < parting->world_size; q++) {
            count +=
                parting->by_rank[q].changed != NULL && is_same_list(self, &parting->by_rank[q]);
        }
        is_better = is_possible(trace, parting, self) &&
                    (!is_found || self->list_count > parting->count ||
                     (self->list_count == parting->count && count > most));
        if (is_better || !parting->is_set) {
            is_found = is_found || is_better;
            most = count;
            parting->ranks = self->list;
            parting->count = self->list_count;
            parting->is_set = true;
        }
    }
}

static void find_start(struct harness_parting *parting)
{
    bool is_first = true;

    for (uint32_t m = 0; m < parting->count; m++) {
        const struct harness_parting_rank *self = &parting->by_rank[parting->ranks[m]];
        const uint64_t done = self->lost != NULL ? self->lost->entry.arg[2] : 0;

        if (self->lost != NULL && done <= INT32_MAX && (is_first || done > parting->first_step)) {
            parting->first_step = (uint32_t)done;
            parting->source = m;
            is_first = false;
        }
        if (self->changed != NULL &&
            (parting->changed_ns == 0 || self->changed->entry.time_ns < parting->changed_ns)) {
            parting->changed_ns = self->changed->entry.time_ns;
        }
    }
}

ddp_status harness_parting_find(struct ddp_mem *mem, const struct harness_trace *trace,
                                struct harness_parting *out)
{
    ddp_status status = DDP_OK;

    *out = (struct harness_parting){.mem = mem, .world_size = trace->world_size};
    out->by_rank = ddp_mem_array(mem, trace->world_size, sizeof(*out->by_rank));
    if (out->by_rank == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; status == DDP_OK && i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        struct harness_parting_rank *self =
            event->rank < trace->world_size ? &out->by_rank[event->rank] : NULL;

        if (self == NULL) {
            continue;
        }
        if (event->entry.event == DDP_EVENT_GROUP_LOST && self->lost == NULL) {
            self->lost = event;
            out->is_lost = true;
        } else if (event->entry.event == DDP_EVENT_GROUP_CHANGED && self->changed == NULL &&
                   self->lost != NULL) {
            self->changed = event;
        } else if (event->entry.event == DDP_EVENT_GROUP_MEMBER && self->changed == NULL) {
            status = add_member(out, self, &event->entry);
        }
    }
    if (status != DDP_OK) {
        harness_parting_fini(out);
        return status;
    }
    choose(trace, out);
    find_start(out);
    return DDP_OK;
}

void harness_parting_fini(struct harness_parting *parting)
{
    for (uint32_t r = 0; parting->by_rank != NULL && r < parting->world_size; r++) {
        ddp_mem_free(parting->mem, parting->by_rank[r].list);
        ddp_mem_free(parting->mem, parting->by_rank[r].steps);
    }
    if (parting->mem != NULL) {
        ddp_mem_free(parting->mem, parting->by_rank);
    }
    *parting = (struct harness_parting){.mem = NULL};
}

uint32_t harness_parting_member(const struct harness_parting *parting, uint32_t rank)
{
    for (uint32_t m = 0; m < parting->count; m++) {
        if (parting->ranks[m] == rank) {
            return m;
        }
    }
    return UINT32_MAX;
}

/* A diagnosis that is about the new group: it came once that was there, and blames a member of it,
 * or nobody. */
static bool is_after(const struct harness_trace *trace, const struct harness_parting *parting,
                     size_t number)
{
    const struct harness_rank_set *culprits = &trace->diagnoses.items[number].culprits;

    for (uint32_t i = 0; i < harness_rank_set_count(culprits); i++) {
        if (harness_parting_member(parting, harness_rank_set_at(culprits, i)) == UINT32_MAX) {
            return false;
        }
    }
    return parting->is_set && trace->diagnosis_time_ns[number] >= parting->changed_ns;
}

static void open_part(const struct harness_trace *trace, uint32_t world_size,
                      struct harness_trace *out)
{
    harness_trace_init(out, trace->mem, world_size, trace->driver);
    out->launcher = trace->launcher;
    out->seed = trace->seed;
    out->start_ns = trace->start_ns;
    out->end_ns = trace->end_ns;
    out->lost_count = trace->lost_count;
    out->refuted_count = trace->refuted_count;
    memcpy(out->files, trace->files, sizeof(out->files));
    out->event_capacity = trace->event_count + 4 * (size_t)world_size;
    out->events = ddp_mem_array(trace->mem, out->event_capacity, sizeof(*out->events));
}

ddp_status harness_trace_before(const struct harness_trace *trace,
                                const struct harness_parting *parting, struct harness_trace *out)
{
    open_part(trace, trace->world_size, out);
    if (out->events == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(out->ends, trace->ends, trace->world_size * sizeof(*out->ends));
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        const struct harness_trace_event *lost =
            event->rank < trace->world_size ? parting->by_rank[event->rank].lost : NULL;
        struct harness_trace_event *kept = &out->events[out->event_count];

        if (lost != NULL && event->entry.index > lost->entry.index) {
            continue;
        }
        *kept = *event;
        out->event_count++;
        if (event == lost) {
            kept->entry.event = DDP_EVENT_RANK_END;
            kept->entry.arg[1] = lost->entry.arg[2];
            kept->entry.arg[2] = lost->entry.arg[3];
            kept->entry.arg[3] = 0;
            out->ends[event->rank] = (struct harness_rank_end){.how = HARNESS_END_EXITED,
                                                               .code = 1,
                                                               .time_ns = lost->entry.time_ns,
                                                               .event_count = lost->entry.index};
        }
    }
    for (size_t i = 0; i < trace->diagnoses.count; i++) {
        if (!is_after(trace, parting, i)) {
            DDP_TRY(harness_trace_add_diagnosis(out, trace->diagnosis_time_ns[i],
                                                &trace->diagnoses.items[i]));
        }
    }
    return DDP_OK;
}

/* --- after ------------------------------------------------------------------------------------ */

static void append(struct harness_trace *out, const struct ddp_event_entry *entry, uint32_t member)
{
    struct harness_trace_event *event = &out->events[out->event_count++];

    DDP_ASSERT(out->event_count <= out->event_capacity);
    event->rank = member;
    event->entry = *entry;
    event->entry.index = ++out->ends[member].event_count;
}

/* The rank begins anew: as whom, what it is told, and what it held from the very first. */
static void begin(const struct harness_trace *trace, const struct harness_parting *parting,
                  uint32_t member, uint64_t program_hash, struct harness_trace *out)
{
    const struct harness_trace_event *lost = parting->by_rank[parting->ranks[member]].lost;
    struct ddp_event_entry entry = {.time_ns = lost->entry.time_ns,
                                    .phase = DDP_PHASE_SPAWN,
                                    .event = DDP_EVENT_RANK_BEGIN,
                                    .arg = {0, parting->count, program_hash}};
    const struct harness_trace_event *held;
    size_t cursor = 0;

    append(out, &entry, member);
    held = harness_trace_next(trace, &cursor, lost->rank, DDP_EVENT_RANK_HOLDS);
    if (held != NULL) {
        entry.event = DDP_EVENT_RANK_HOLDS;
        memcpy(entry.arg, held->entry.arg, sizeof(entry.arg));
        append(out, &entry, member);
    }
    entry = (struct ddp_event_entry){.time_ns = lost->entry.time_ns,
                                     .phase = DDP_PHASE_SPAWN,
                                     .event = DDP_EVENT_RANK_TOLD,
                                     .arg = {member, parting->count}};
    append(out, &entry, member);
}

static struct harness_rank_set members_of(const struct harness_parting *parting,
                                          const struct harness_rank_set *ranks, struct ddp_mem *mem)
{
    struct harness_rank_set members = harness_rank_set_in(mem);

    for (uint32_t i = 0; i < harness_rank_set_count(ranks); i++) {
        const uint32_t member = harness_parting_member(parting, harness_rank_set_at(ranks, i));

        if (member != UINT32_MAX) {
            harness_rank_set_add(&members, member);
        }
    }
    return members;
}

static ddp_status take_diagnoses(const struct harness_trace *trace,
                                 const struct harness_parting *parting, struct harness_trace *out)
{
    for (size_t i = 0; i < trace->diagnoses.count; i++) {
        struct harness_finding finding = trace->diagnoses.items[i];

        if (is_after(trace, parting, i)) {
            finding.culprits = members_of(parting, &finding.culprits, trace->mem);
            finding.victims = members_of(parting, &finding.victims, trace->mem);
            DDP_TRY(harness_trace_add_diagnosis(out, trace->diagnosis_time_ns[i], &finding));
        }
    }
    return DDP_OK;
}

/* Connections are between processes, whatever their ranks are now. False: who is gone is seen to go
 * by some only when they have the new group, which it is no member of. */
static bool take_link(const struct harness_parting *parting, struct ddp_event_entry *entry)
{
    uint32_t peer;

    if (entry->arg[0] >= parting->world_size) {
        return true; /* whose it was is not known */
    }
    peer = harness_parting_member(parting, (uint32_t)entry->arg[0]);
    entry->arg[0] = peer;
    return peer != UINT32_MAX;
}

ddp_status harness_trace_after(const struct harness_trace *trace,
                               const struct harness_parting *parting, uint64_t program_hash,
                               struct harness_trace *out)
{
    DDP_ASSERT(parting->is_set);
    open_part(trace, parting->count, out);
    if (out->events == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t m = 0; m < parting->count; m++) {
        out->ends[m] = trace->ends[parting->ranks[m]];
        out->ends[m].event_count = 0;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        const uint32_t member = harness_parting_member(parting, event->rank);
        const struct harness_trace_event *lost =
            member != UINT32_MAX ? parting->by_rank[event->rank].lost : NULL;
        struct ddp_event_entry entry = event->entry;

        if (lost == NULL || entry.index < lost->entry.index) {
            continue;
        }
        if (event == lost) {
            begin(trace, parting, member, program_hash, out);
            continue;
        }
        if (entry.event == DDP_EVENT_RANK_END) {
            entry.arg[2] -= lost->entry.arg[3] <= entry.arg[2] ? lost->entry.arg[3] : 0;
        }
        if (entry.event != DDP_EVENT_LINK_LOST || take_link(parting, &entry)) {
            append(out, &entry, member);
        }
    }
    return take_diagnoses(trace, parting, out);
}
