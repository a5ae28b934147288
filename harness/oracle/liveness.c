/* Purpose: every rank ended, and the reason is known.
 * Idea: a missing rank.end needs a diagnosis, and a death one that names the rank; a rank that
 * ended OK must have completed what it posted. It does not look for hangs: the monitor does. */
#include <stdio.h>

#include "harness/oracle/subject.h"

static bool is_diagnosed(const struct harness_emulation *e)
{
    return e->input->trace->diagnoses.count > 0;
}

/* A diagnosis blames this rank. */
static bool is_blamed(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_findings *diagnoses = &e->input->trace->diagnoses;

    for (size_t i = 0; i < diagnoses->count; i++) {
        if (harness_rank_set_has(&diagnoses->items[i].culprits, rank)) {
            return true;
        }
    }
    return false;
}

static void add(uint32_t rank, enum harness_verdict verdict, const char *text,
                struct harness_findings *out)
{
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem, verdict, HARNESS_ORACLE_LIVENESS, HARNESS_MODE_STATUS);
    harness_rank_set_add(&finding.culprits, rank);
    (void)snprintf(finding.text, sizeof(finding.text), "rank %u %s", rank, text);
    harness_findings_add(out, &finding);
}

/* A rank that still runs waits in a collective if it posted one that is not complete. */
static enum harness_verdict hang_of(const struct harness_emulation *e, uint32_t rank)
{
    size_t posted = 0;
    size_t done = 0;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &posted);
    (void)harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &done);
    return posted > done ? HARNESS_VERDICT_HANG_NOT_JOINED : HARNESS_VERDICT_HANG_HOST;
}

/* A rank that recorded its end must then have left, and as it said. */
static void check_left(const struct harness_emulation *e, uint32_t rank,
                       struct harness_findings *out)
{
    const struct harness_rank_end *end = &e->input->trace->ends[rank];
    char text[96];

    if (end->how == HARNESS_END_EXITED && end->code != 0 && !is_blamed(e, rank) &&
        harness_index_is_ended_ok(&e->index, rank)) {
        (void)snprintf(text, sizeof(text), "recorded a good end and then exited with code %d",
                       end->code);
        add(rank, HARNESS_VERDICT_CRASH_EXITED, text, out);
    } else if (end->how == HARNESS_END_SIGNALED && !is_blamed(e, rank)) {
        (void)snprintf(text, sizeof(text), "recorded its end and was then ended by signal %d",
                       end->code);
        add(rank, HARNESS_VERDICT_CRASH_SIGNALED, text, out);
    } else if (end->how == HARNESS_END_REAPED && !is_diagnosed(e)) {
        add(rank, HARNESS_VERDICT_HANG_TEARDOWN, "recorded its end and then did not leave", out);
    }
}

/* It came to its end, and its process left as it does then: only the last line is not there, and
 * the evidence is missed, not the rank. */
static bool is_left_in_order(const struct harness_emulation *e, uint32_t rank, int code)
{
    size_t phase_count = 0;
    size_t error_count = 0;
    const struct harness_trace_event *const *phases =
        harness_index_list(&e->index, rank, DDP_EVENT_PHASE, &phase_count);

    (void)harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &error_count);
    return phase_count > 0 && phases[phase_count - 1]->entry.arg[0] == DDP_PHASE_END &&
           code == (error_count > 0 ? 1 : 0);
}

static void check_end(const struct harness_emulation *e, uint32_t rank,
                      struct harness_findings *out)
{
    const struct harness_rank_end *end = &e->input->trace->ends[rank];
    char text[96];

    if (harness_index_end(&e->index, rank) != NULL) {
        check_left(e, rank, out);
        return;
    }
    switch (end->how) {
    case HARNESS_END_REAPED:
        if (!is_diagnosed(e)) {
            add(rank, hang_of(e, rank), "was still running at the end, and no diagnosis says why",
                out);
        }
        return;
    case HARNESS_END_SIGNALED:
        if (!is_blamed(e, rank)) {
            (void)snprintf(text, sizeof(text), "was ended by signal %d, and no diagnosis says so",
                           end->code);
            add(rank, HARNESS_VERDICT_CRASH_SIGNALED, text, out);
        }
        return;
    case HARNESS_END_EXITED:
        if (!is_blamed(e, rank) && !is_left_in_order(e, rank, end->code)) {
            (void)snprintf(text, sizeof(text), "exited with code %d and never recorded its end",
                           end->code);
            add(rank, HARNESS_VERDICT_CRASH_EXITED, text, out);
        }
        return;
    case HARNESS_END_NONE:
        if (!is_diagnosed(e)) {
            add(rank, HARNESS_VERDICT_LAUNCH_MISSING_RANK, "never started", out);
        }
        return;
    }
}

/* Another member saw the collective end, so it did end. A bucket's result that this rank used
 * without waiting is judged where the order of use is (happens_before). */
static bool is_ended_elsewhere(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *done =
            r != rank ? harness_index_with_seq(&e->index, r, DDP_EVENT_COLL_DONE, seq) : NULL;

        if (done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK) {
            return true;
        }
    }
    return false;
}

static bool is_used(const struct harness_emulation *e, const struct harness_trace_event *post)
{
    size_t count = 0;
    const struct harness_trace_event *const *list = harness_index_in_step(
        &e->index, post->rank, DDP_EVENT_GRAD_FINAL, post->entry.step, &count);

    return count > 0 && list[count - 1]->entry.index > post->entry.index;
}

static void check_completed(const struct harness_emulation *e, uint32_t rank,
                            struct harness_findings *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    if (!harness_index_is_ended_ok(&e->index, rank)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);
        struct harness_finding finding;

        if (harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_DONE, list[i]->entry.arg[0]) !=
            NULL) {
            continue;
        }
        if (harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_WAITED, list[i]->entry.arg[0]) !=
            NULL) {
            continue; /* it was over, and the evidence is missed */
        }
        if (op.role == DDP_ROLE_BUCKET && is_used(e, list[i]) &&
            is_ended_elsewhere(e, rank, list[i]->entry.arg[0])) {
            continue;
        }
        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_HANG_NOT_LAUNCHED,
                             HARNESS_ORACLE_LIVENESS, HARNESS_MODE_STATUS);
        harness_rank_set_add(&finding.culprits, rank);
        finding.step = (int32_t)list[i]->entry.step;
        finding.op = (struct harness_finding_op){true, list[i]->entry.arg[0], op.kind, op.role,
                                                 -1,   list[i]->entry.arg[2], op.index};
        (void)snprintf(finding.text, sizeof(finding.text),
                       "rank %u ended with OK and never completed collective %llu (%s)", rank,
                       (unsigned long long)list[i]->entry.arg[0], ddp_coll_role_name(op.role));
        harness_findings_add(out, &finding);
        return;
    }
}

/* A rank that ended well gave back what it took. After an error it may be in the middle of
 * something, and the process ends anyway. */
static void check_holds(const struct harness_emulation *e, uint32_t rank,
                        struct harness_findings *out)
{
    static const char *const things[] = {"blocks of memory", "files", "descriptors"};
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_HOLDS, &count);
    char text[96];

    if (count != 2 || !harness_index_is_ended_ok(&e->index, rank)) {
        return;
    }
    for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
        const uint64_t before = list[0]->entry.arg[i];
        const uint64_t after = list[1]->entry.arg[i];

        if (after != before) {
            (void)snprintf(text, sizeof(text), "ended with %llu %s %s than it began with",
                           (unsigned long long)(after > before ? after - before : before - after),
                           after > before ? "more" : "fewer", things[i]);
            add(rank, HARNESS_VERDICT_RESOURCE_LEAK, text, out);
            return;
        }
    }
}

ddp_status harness_check_liveness(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    (void)err;
    for (uint32_t r = 0; r < e->world; r++) {
        check_end(e, r, out);
        check_completed(e, r, out);
        check_holds(e, r, out);
    }
    return DDP_OK;
}
