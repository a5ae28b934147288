/* Purpose: ranks that ended because of another rank. Whom they name must be a rank of which a
 * finding says why, and a rank that they call dead must be dead. Who gives up waiting is not to
 * blame, whoever was waited for is. Idea: rank.error names the peer; how that peer ended was seen
 * by the launcher; whoever had not posted the collective when a wait in it ended was waited for. */
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"

/* Victims by what they say. */
struct victims {
    struct harness_rank_set ranks; /* all of them */
    struct harness_rank_set named; /* whom they name */
    struct harness_rank_set alive; /* of these, whom they called dead before it was */
    bool is_nobody_named; /* by one of them: as by who has lost the rank that has the store */
};

static bool is_blamed(const struct harness_findings *out, uint32_t rank)
{
    for (size_t i = 0; i < out->count; i++) {
        if (harness_verdict_family(out->items[i].verdict) != HARNESS_FAMILY_VALUE &&
            harness_rank_set_has(&out->items[i].culprits, rank)) {
            return true;
        }
    }
    return false;
}

/* A finding that may say why ranks end, whomever it blames: none of a value. */
static bool is_any_end(const struct harness_findings *out)
{
    for (size_t i = 0; i < out->count; i++) {
        if (harness_verdict_family(out->items[i].verdict) != HARNESS_FAMILY_VALUE) {
            return true;
        }
    }
    return false;
}

/* The rank's process ended by itself without recording it. */
static bool is_dead(const struct harness_emulation *e, uint32_t rank)
{
    enum harness_end_how how = e->input->trace->ends[rank].how;

    return how != HARNESS_END_REAPED && harness_index_end(&e->index, rank) == NULL;
}

/* The rank may have been dead at that time: it was about to record its end, or never did. One that
 * the launcher ended may be seen to die, too. */
static bool is_over_at(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);

    return end == NULL || end->entry.time_ns <= time_ns ||
           harness_usage_is_leaving(e, rank, time_ns) || harness_usage_gave_up(e, rank, time_ns);
}

/* A rank that ended with PEER_DIED or REVOKED, and the peer of its first error. */
static void note_victim(const struct harness_emulation *e, uint32_t rank, struct victims *victims)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    ddp_status status = end == NULL ? DDP_OK : harness_index_status(end->entry.arg[0]);
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);
    int64_t peer = count == 0 ? -1 : (int64_t)list[0]->entry.arg[1];

    if (status != DDP_E_PEER_DIED && status != DDP_E_REVOKED) {
        return;
    }
    harness_rank_set_add(&victims->ranks, rank);
    if (peer < 0 || peer >= (int64_t)e->world) {
        victims->is_nobody_named = true;
        return;
    }
    harness_rank_set_add(&victims->named, (uint32_t)peer);
    if (status == DDP_E_PEER_DIED &&
        (peer == (int64_t)rank || !is_over_at(e, (uint32_t)peer, list[0]->entry.time_ns))) {
        harness_rank_set_add(&victims->alive, (uint32_t)peer);
    }
}

static void begin(const struct victims *victims, struct harness_findings *out,
                  struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, HARNESS_VERDICT_CRASH_EXITED, HARNESS_ORACLE_USAGE,
                         HARNESS_MODE_STATUS);
    finding->victims = victims->ranks;
}

/* Ranks that themselves saw this one dead; the others were told so. */
static void blame_witnesses(const struct harness_emulation *e, uint32_t dead,
                            struct harness_finding *finding)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_PEER_DIED, &count);

        for (size_t i = 0; i < count; i++) {
            if (list[i]->entry.arg[0] == dead) {
                harness_rank_set_add(&finding->culprits, r);
                finding->step = (int32_t)list[i]->entry.step;
                finding->phase = list[i]->entry.phase;
            }
        }
    }
}

static void check_named(const struct harness_emulation *e, const struct victims *victims,
                        uint32_t rank, struct harness_findings *out)
{
    const bool is_alive = harness_rank_set_has(&victims->alive, rank);
    /* A rank that recorded its end has a status of its own, of which other findings tell. If that
     * says that all is well, and nothing else was found either, nobody may call it dead. */
    const bool is_well = !is_alive && out->count == 0 && harness_index_is_ended_ok(&e->index, rank);
    struct harness_finding finding;
    char ranks[96];

    if (!is_alive && !is_well && (!is_dead(e, rank) || is_blamed(out, rank))) {
        return;
    }
    begin(victims, out, &finding);
    if (is_alive || is_well) {
        blame_witnesses(e, rank, &finding);
    } else {
        harness_rank_set_add(&finding.culprits, rank);
    }
    (void)snprintf(finding.text, sizeof(finding.text),
                   is_alive  ? "%s ended because rank %u had died, and it had not"
                   : is_well ? "%s ended because rank %u had died, and it had ended well"
                             : "%s ended because of rank %u, and no finding says why it died",
                   harness_subject_ranks_text(&victims->ranks, ranks, sizeof(ranks)), rank);
    harness_findings_add(out, &finding);
}

void harness_usage_check_victims(const struct harness_emulation *e, struct harness_findings *out)
{
    struct victims victims = {.ranks = harness_rank_set_in(out->mem),
                              .named = harness_rank_set_in(out->mem),
                              .alive = harness_rank_set_in(out->mem)};
    struct harness_finding finding;
    struct harness_rank_set ends = harness_rank_set_in(out->mem);
    char ranks[96];

    for (uint32_t r = 0; r < e->world; r++) {
        note_victim(e, r, &victims);
    }
    if (!harness_rank_set_is_empty(&victims.alive) || victims.is_nobody_named) {
        (void)harness_usage_check_links(e, &victims.ranks, out, &ends);
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&victims.named); i++) {
        uint32_t named = harness_rank_set_at(&victims.named, i);

        if (!harness_rank_set_has(&ends, named)) {
            check_named(e, &victims, named, out);
        }
    }
    if (victims.is_nobody_named && !is_any_end(out)) {
        begin(&victims, out, &finding);
        harness_subject_set_op(e, harness_subject_open_seq(e, &victims.ranks), &finding);
        (void)snprintf(finding.text, sizeof(finding.text),
                       "%s ended because of another rank, and no finding tells which and why",
                       harness_subject_ranks_text(&victims.ranks, ranks, sizeof(ranks)));
        harness_findings_add(out, &finding);
    }
}

/* --- whoever was waited for ------------------------------------------------------------------- */

/* The event about collective seq that the rank had recorded by then, or NULL. */
static const struct harness_trace_event *by_then(const struct harness_emulation *e, uint32_t rank,
                                                 enum ddp_event event, uint64_t seq,
                                                 uint64_t time_ns)
{
    const struct harness_trace_event *found = harness_index_with_seq(&e->index, rank, event, seq);

    return found != NULL && found->entry.time_ns <= time_ns ? found : NULL;
}

/* The rank had completed the collective by then; one that was revoked it had waited in. */
static bool is_completed(const struct harness_emulation *e, uint32_t rank, uint64_t seq,
                         uint64_t time_ns)
{
    const struct harness_trace_event *done = by_then(e, rank, DDP_EVENT_COLL_DONE, seq, time_ns);

    return done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK;
}

/* The rank itself waited for another one then: of what it had posted, a collective was open that
 * some rank had not posted. */
static bool is_held_too(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    size_t count = 0;
    const struct harness_trace_event *const *posts =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count && posts[i]->entry.time_ns <= time_ns; i++) {
        const uint64_t seq = posts[i]->entry.arg[0];

        if (is_completed(e, rank, seq, time_ns)) {
            continue;
        }
        for (uint32_t r = 0; r < e->world; r++) {
            if (by_then(e, r, DDP_EVENT_COLL_POST, seq, time_ns) == NULL) {
                return true;
            }
        }
    }
    return false;
}

/* Where the rank was then. */
static void set_place(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns,
                      struct harness_finding *finding)
{
    const struct harness_trace *trace = e->input->trace;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];

        if (event->rank == rank && event->entry.time_ns <= time_ns) {
            finding->phase = event->entry.phase;
            finding->step = event->entry.phase > DDP_PHASE_INIT ? (int32_t)event->entry.step : -1;
        }
    }
}

static void say_awaited(const struct harness_emulation *e, uint64_t time_ns, const char *what,
                        struct harness_finding *finding)
{
    const size_t used = strlen(finding->text);
    char ranks[96];

    set_place(e, harness_rank_set_at(&finding->culprits, 0), time_ns, finding);
    (void)snprintf(finding->text + used, sizeof(finding->text) - used,
                   "; %s %s collective %llu (%s) by then, in %s",
                   harness_subject_ranks_text(&finding->culprits, ranks, sizeof(ranks)), what,
                   (unsigned long long)finding->op.seq, ddp_coll_role_name(finding->op.role),
                   ddp_phase_name((enum ddp_phase)finding->phase));
}

/* Where the rank was then, or had failed; SPAWN if it had recorded nothing. */
static int32_t phase_at(const struct harness_emulation *e, uint32_t rank, uint64_t time_ns)
{
    struct harness_finding place = {.phase = DDP_PHASE_SPAWN};
    size_t count = 0;
    const struct harness_trace_event *const *errors =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);

    if (count > 0 && errors[0]->entry.time_ns <= time_ns) {
        return errors[0]->entry.phase;
    }
    set_place(e, rank, time_ns, &place);
    return place.phase;
}

/* Outside of collectives ranks wait for those that have not come. Whoever tried to come, and gave
 * up, too, did not get through. */
static void blame_missing(const struct harness_emulation *e, uint64_t time_ns,
                          struct harness_finding *finding)
{
    bool is_tried = true;
    char ranks[96];

    for (uint32_t r = 0; r < e->world; r++) {
        if (phase_at(e, r, time_ns) <= DDP_PHASE_RENDEZVOUS) {
            harness_rank_set_add(&finding->culprits, r);
            is_tried = is_tried && harness_rank_set_has(&finding->victims, r);
        }
    }
    if (harness_rank_set_is_empty(&finding->culprits)) {
        return;
    }
    if (is_tried) {
        const size_t used = strlen(finding->text);

        finding->verdict = HARNESS_VERDICT_LAUNCH_CONNECT;
        (void)snprintf(finding->text + used, sizeof(finding->text) - used,
                       "; %s never reached the store",
                       harness_subject_ranks_text(&finding->culprits, ranks, sizeof(ranks)));
    }
    finding->phase = phase_at(e, harness_rank_set_at(&finding->culprits, 0), time_ns);
    finding->step = -1;
}

void harness_usage_blame_awaited(const struct harness_emulation *e, uint64_t time_ns,
                                 struct harness_finding *finding)
{
    const uint64_t seq = finding->op.seq;
    const struct harness_rank_set gave_up = finding->victims;
    struct harness_rank_set stuck = harness_rank_set_in(finding->victims.ranks.mem);

    DDP_ASSERT(harness_rank_set_is_empty(&finding->culprits));
    for (uint32_t r = 0; finding->op.is_set && r < e->world; r++) {
        if (by_then(e, r, DDP_EVENT_COLL_POST, seq, time_ns) == NULL) {
            if (!is_held_too(e, r, time_ns)) {
                harness_rank_set_add(&finding->culprits, r);
            }
        } else if (by_then(e, r, DDP_EVENT_COLL_DONE, seq, time_ns) == NULL &&
                   harness_index_end(&e->index, r) == NULL) {
            harness_rank_set_add(&stuck, r);
        }
    }
    if (!finding->op.is_set) {
        blame_missing(e, time_ns, finding);
    } else if (!harness_rank_set_is_empty(&finding->culprits)) {
        say_awaited(e, time_ns, "had not posted", finding);
    } else if (!harness_rank_set_is_empty(&stuck)) {
        /* It did not even give up. */
        finding->verdict = HARNESS_VERDICT_HANG_HOST;
        finding->culprits = stuck;
        say_awaited(e, time_ns, "was still inside", finding);
    }
    finding->victims = harness_rank_set_in(gave_up.ranks.mem);
    for (uint32_t i = 0; i < harness_rank_set_count(&gave_up); i++) {
        if (!harness_rank_set_has(&finding->culprits, harness_rank_set_at(&gave_up, i))) {
            harness_rank_set_add(&finding->victims, harness_rank_set_at(&gave_up, i));
        }
    }
}
