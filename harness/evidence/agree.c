/* Purpose: what is recorded in two places says the same in both.
 * Idea: a death is said by an event and by the error that follows from it, and whoever is dead
 * records nothing any more; a revocation by who sends it and by who receives it; a checkpoint's
 * hash by its event and by the file; messages by their count and by the schedules. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/checkpoint_state.h"
#include "harness/evidence/internal.h"

/* Arguments of event rank.error. */
enum { ERROR_STATUS, ERROR_PEER, ERROR_CAUSE, ERROR_DETAIL };

/* --- errors ----------------------------------------------------------------------------------- */

static const struct ddp_event_entry *first_of(const struct harness_emulation *e, uint32_t rank,
                                              enum ddp_event event, size_t *out_count)
{
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, event, out_count);

    return *out_count > 0 ? &list[0]->entry : NULL;
}

/* The rank recorded an error of this status, which a call returned as this cause. OK: any. */
static bool has_error(const struct harness_emulation *e, uint32_t rank, ddp_status status,
                      ddp_status cause, int64_t peer)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);
    bool is_found = false;

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        is_found =
            is_found || ((status == DDP_OK || harness_index_status(arg[ERROR_STATUS]) == status) &&
                         (cause == DDP_OK || harness_index_status(arg[ERROR_CAUSE]) == cause) &&
                         (peer < 0 || (int64_t)arg[ERROR_PEER] == peer));
    }
    return is_found;
}

/* The rank recorded an error with that detail. */
static bool has_error_about(const struct harness_emulation *e, uint32_t rank, uint64_t detail)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_RANK_ERROR, &count);
    bool is_found = count == 0; /* check_error says so */

    for (size_t i = 0; i < count; i++) {
        is_found = is_found || list[i]->entry.arg[ERROR_DETAIL] == detail;
    }
    return is_found;
}

/* A rank that is dead has recorded its last, but that it leaves. */
static void check_dead(const struct harness_emulation *e, uint32_t rank,
                       const struct ddp_event_entry *death, struct harness_gap *out)
{
    const uint32_t dead = (uint32_t)death->arg[0];
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, dead, DDP_EVENT_PHASE, &count);
    const struct ddp_event_entry *last = count > 0 ? &list[count - 1]->entry : NULL;

    if (last != NULL && last->arg[0] < DDP_PHASE_TEARDOWN && last->time_ns > death->time_ns) {
        harness_gap_set(out, "rank %u recorded the death of rank %u, which went on", rank, dead);
    }
}

/* A group learns once of a death, by the collective that fails. */
static void check_death(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t post_count = 0;
    size_t count = 0;
    const struct ddp_event_entry *death = first_of(e, rank, DDP_EVENT_PEER_DIED, &count);
    const int64_t dead = death != NULL ? (int64_t)death->arg[0] : -1;
    const bool has_ended = harness_index_end(&e->index, rank) != NULL;

    (void)first_of(e, rank, DDP_EVENT_COLL_POST, &post_count);
    if (death == NULL) {
        const struct ddp_event_entry *seen = first_of(e, rank, DDP_EVENT_REVOKE, &count);
        const bool is_told = seen != NULL && seen->arg[0] != rank; /* by who noticed it */

        if (post_count > 0 && !is_told &&
            has_error(e, rank, DDP_E_PEER_DIED, DDP_E_PEER_DIED, -1)) {
            harness_gap_set(out, "rank %u ended by a death that it did not record", rank);
        }
        return;
    }
    if (count > 1 || dead >= (int64_t)e->world || dead == (int64_t)rank ||
        (has_ended && !has_error(e, rank, DDP_E_PEER_DIED, DDP_OK, dead))) {
        harness_gap_set(out, "rank %u recorded the death of rank %lld, and another error", rank,
                        (long long)dead);
    } else if (dead >= 0) {
        check_dead(e, rank, death, out);
    }
}

/* Its step is that in which it was sent; but a rank that goes on after a loss counts its new
 * group's steps from 0 until it trains, and one that measures trees is in none. */
static bool is_step_right(const struct ddp_event_entry *sent)
{
    return sent->arg[2] == sent->step || sent->phase == DDP_PHASE_RECOVERY ||
           sent->phase == DDP_PHASE_PROBE ||
           (sent->phase == DDP_PHASE_INIT && sent->arg[2] == 0); /* of that new group */
}

/* The rank that a revocation names says that it sent it. PyTorch's ranks revoke nothing: the engine
 * of one that failed does, which has recorded that. So has a rank that leaves a lost group to go
 * on, and ends it for those that have not noticed. */
static bool is_revocation_sent(const struct harness_emulation *e,
                               const struct ddp_event_entry *seen)
{
    const uint32_t sender = (uint32_t)seen->arg[0];
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, sender, DDP_EVENT_REVOKE, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_entry *sent = &list[i]->entry;

        if (memcmp(sent->arg, seen->arg, 4 * sizeof(seen->arg[0])) == 0 && is_step_right(sent)) {
            return true;
        }
    }
    return count == 0 &&
           (e->input->plan->job.semantics == HARNESS_SEMANTICS_PYTORCH ||
            e->input->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE) &&
           has_error(e, sender, harness_index_status(seen->arg[1]), DDP_OK, -1);
}

static void check_revocation_of(const struct harness_emulation *e, uint32_t rank,
                                const struct ddp_event_entry *seen, struct harness_gap *out)
{
    const ddp_status status = harness_index_status(seen->arg[1]);

    if (seen->arg[0] == rank && harness_index_end(&e->index, rank) != NULL &&
        !has_error(e, rank, status, DDP_OK, -1)) {
        harness_gap_set(out, "rank %u sent a revocation for %s and recorded other errors", rank,
                        ddp_status_name(status));
    } else if (!is_revocation_sent(e, seen)) {
        harness_gap_set(out, "rank %u saw a revocation by rank %llu that nobody sent", rank,
                        (unsigned long long)seen->arg[0]);
    }
}

/* Of how many groups a rank can be. */
static size_t group_count(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_program *program = e->input->program;
    size_t count = 1;

    for (uint32_t i = 0; i < program->group_count; i++) {
        count += harness_group_member(&program->groups[i], rank) < program->groups[i].rank_count;
    }
    return count;
}

/* A rank sends a revocation or receives one, once for each group that ends. What it received was
 * sent by a rank that says so. */
static void check_revocation(const struct harness_emulation *e, uint32_t rank,
                             struct harness_gap *out)
{
    size_t count = 0;
    size_t post_count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_REVOKE, &count);

    (void)first_of(e, rank, DDP_EVENT_COLL_POST, &post_count);
    if (count == 0) { /* before a rank has a group, nothing records what its library said */
        if (post_count > 0 && has_error(e, rank, DDP_OK, DDP_E_REVOKED, -1)) {
            harness_gap_set(out, "rank %u ended by a revocation that it did not record", rank);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (count > group_count(e, rank) || list[i]->entry.arg[0] >= e->world) {
            harness_gap_set(out, "rank %u recorded %zu revocations", rank, count);
            return;
        }
        check_revocation_of(e, rank, &list[i]->entry, out);
    }
    /* An error in a measurement says nothing of the collective. */
    if (harness_index_end(&e->index, rank) != NULL &&
        list[count - 1]->entry.phase != DDP_PHASE_PROBE &&
        !has_error_about(e, rank, list[count - 1]->entry.arg[3])) {
        harness_gap_set(out, "rank %u ended by another revocation than it recorded", rank);
    }
}

/* Its schedule of an operation that it posted; NULL: it left none. */
static const struct harness_schedule *schedule_of(const struct harness_emulation *e, uint32_t rank,
                                                  const struct harness_trace_event *post)
{
    const struct harness_members members = harness_emulation_members(e, rank, post->entry.arg[0]);
    const struct harness_schedule_set *set = harness_emulation_schedules(e, rank, post->entry.arg);

    return set != NULL && members.member < set->size ? set->member[members.member] : NULL;
}

/* How many messages of a rank it takes in an operation. */
static uint64_t taken_from(const struct harness_emulation *e, uint32_t rank, uint64_t seq,
                           const struct harness_schedule *schedule, uint64_t from)
{
    const struct harness_members members = harness_emulation_members(e, rank, seq);
    uint64_t count = 0;

    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct harness_schedule_step *step = &schedule->steps[i];

        count += (step->kind == HARNESS_STEP_RECV || step->kind == HARNESS_STEP_RECV_REDUCE) &&
                 harness_members_rank(&members, step->peer) == from;
    }
    return count;
}

/* Whether the message that was due can be that one: messages have numbers from 0, and as many came
 * before as the schedules of all that the rank completed in the group have, and some of this one.
 * True where that is not known: what was left out has no messages, and survivors count anew. */
static bool is_due_so(const struct harness_emulation *e, uint32_t rank, const uint64_t *astray)
{
    const struct harness_trace_event *now =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, astray[0]);
    const struct harness_schedule *schedule = now != NULL ? schedule_of(e, rank, now) : NULL;
    uint64_t due = astray[4];
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    if (schedule == NULL || e->input->plan->job.is_continued ||
        e->input->plan->job.collective.engine != HARNESS_ENGINE_SCHEDULE) {
        return true;
    }
    if (due > 0 && due >= taken_from(e, rank, astray[0], schedule, astray[1])) {
        return false; /* all of them had come */
    }
    for (size_t i = 0; i < count && list[i] != now; i++) {
        schedule = schedule_of(e, rank, list[i]);
        if (schedule == NULL || harness_evidence_is_disturbed(e, rank, list[i]->entry.step)) {
            return true;
        }
        due += list[i]->entry.arg[3] == now->entry.arg[3]
                   ? taken_from(e, rank, list[i]->entry.arg[0], schedule, astray[1])
                   : 0;
    }
    return due == astray[3];
}

/* By its schedule of that collective the rank takes messages of the other one; true where it left
 * none. */
static bool takes_from(const struct harness_emulation *e, uint32_t rank, uint64_t seq,
                       uint64_t from)
{
    const struct harness_trace_event *post =
        harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, seq);
    const struct harness_schedule *schedule = post != NULL ? schedule_of(e, rank, post) : NULL;

    return schedule == NULL || taken_from(e, rank, seq, schedule, from) > 0;
}

/* Who revokes the group for a message that was lost says which one: its event is of that
 * collective, in which it takes messages of that rank.
 */
static void check_astray(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t astray_count = 0;
    size_t count = 0;
    const struct ddp_event_entry *astray =
        first_of(e, rank, DDP_EVENT_MESSAGE_ASTRAY, &astray_count);
    const struct ddp_event_entry *seen = first_of(e, rank, DDP_EVENT_REVOKE, &count);
    const bool is_own =
        seen != NULL && seen->arg[0] == rank && harness_index_status(seen->arg[1]) == DDP_E_MESSAGE;
    const uint64_t *arg = astray != NULL ? astray->arg : NULL;

    if (is_own && (astray_count != 1 || arg == NULL || arg[0] != seen->arg[3] ||
                   arg[1] >= e->world || arg[1] == rank || arg[2] == arg[3] ||
                   !takes_from(e, rank, arg[0], arg[1]) || !is_due_so(e, rank, arg))) {
        harness_gap_set(out,
                        "rank %u ended by a message that did not come in turn, and does not "
                        "say which",
                        rank);
    } else if (astray != NULL && !has_error(e, rank, DDP_OK, DDP_OK, -1)) {
        harness_gap_set(out, "rank %u met a message out of turn and recorded no error", rank);
    }
}

/* Who got a message of a later operation ended by that, and its sender had posted both. */
static void check_ahead(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    const struct ddp_event_entry *ahead = first_of(e, rank, DDP_EVENT_MESSAGE_AHEAD, &count);
    const uint64_t *arg = ahead != NULL ? ahead->arg : NULL;

    if (arg != NULL &&
        (count != 1 || arg[2] <= arg[0] || arg[1] >= e->world || arg[1] == rank ||
         harness_index_with_seq(&e->index, (uint32_t)arg[1], DDP_EVENT_COLL_POST, arg[2]) == NULL ||
         !has_error(e, rank, DDP_OK, DDP_OK, -1))) {
        harness_gap_set(out, "rank %u met a message of a later collective that nobody sent", rank);
    }
}

/* Who got a message of an earlier operation ended by that, and had posted it, as its sender
 * had; where groups count together, it may be one of another group to it. */
static void check_behind(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    size_t count = 0;
    const struct ddp_event_entry *behind = first_of(e, rank, DDP_EVENT_MESSAGE_BEHIND, &count);
    const uint64_t *arg = behind != NULL ? behind->arg : NULL;

    if (arg != NULL &&
        (count != 1 || arg[2] >= arg[0] || arg[1] >= e->world || arg[1] == rank ||
         harness_index_with_seq(&e->index, (uint32_t)arg[1], DDP_EVENT_COLL_POST, arg[2]) == NULL ||
         (e->input->program->group_count == 0 &&
          harness_index_with_seq(&e->index, rank, DDP_EVENT_COLL_POST, arg[2]) == NULL) ||
         !has_error(e, rank, DDP_OK, DDP_OK, -1))) {
        harness_gap_set(out, "rank %u met a message of an earlier collective that nobody sent",
                        rank);
    }
}

/* The error that a rank ends with is one that it recorded. */
static void check_error(const struct harness_emulation *e, uint32_t rank, struct harness_gap *out)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    const ddp_status status = end != NULL ? harness_index_status(end->entry.arg[0]) : DDP_OK;

    if (status != DDP_OK && !has_error(e, rank, status, DDP_OK, -1)) {
        harness_gap_set(out, "rank %u ended with %s and recorded other errors", rank,
                        ddp_status_name(status));
    }
}

/* --- messages --------------------------------------------------------------------------------- */

static size_t message_count(const struct harness_schedule *schedule)
{
    size_t count = 0;

    for (size_t i = 0; i < schedule->step_count; i++) {
        const enum harness_step_kind kind = schedule->steps[i].kind;

        count += kind == HARNESS_STEP_SEND || kind == HARNESS_STEP_RECV ||
                 kind == HARNESS_STEP_RECV_REDUCE;
    }
    return count;
}

/* As many as the schedules of its collectives have, of a rank that completed all of them. */
static void check_messages(const struct harness_emulation *e, uint32_t rank,
                           struct harness_gap *out)
{
    const struct harness_trace_event *end = harness_index_end(&e->index, rank);
    uint64_t due = 0;
    size_t count = 0;
    size_t post_count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_DONE, &count);

    (void)first_of(e, rank, DDP_EVENT_COLL_POST, &post_count);
    if (post_count != count || e->input->plan->job.collective.engine != HARNESS_ENGINE_SCHEDULE ||
        e->input->run_dir == NULL || !harness_index_is_ended_ok(&e->index, rank)) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct harness_schedule *schedule = schedule_of(e, rank, list[i]);

        if (schedule == NULL) {
            return; /* rank.c says so */
        }
        due += message_count(schedule);
    }
    if (end->entry.arg[2] != due) {
        harness_gap_set(out, "rank %u sent and received %llu messages, and its schedules have %llu",
                        rank, (unsigned long long)end->entry.arg[2], (unsigned long long)due);
    }
}

/* --- checkpoint ------------------------------------------------------------------------------- */

/* Hash of what follows the header, whose length the first 8 bytes say, the lowest first. */
static uint64_t data_hash(const struct harness_checkpoint *file)
{
    size_t begin = 0;

    for (int i = 7; i >= 0; i--) {
        begin = begin << 8 | file->bytes[i];
    }
    begin += 8;
    return ddp_hash_bytes(file->bytes + begin, file->size_bytes - begin, 0);
}

/* The last checkpoint that was saved is the file that is there, if it is of the same step. */
static ddp_status check_saved(const struct harness_emulation *e, struct harness_gap *out)
{
    struct harness_checkpoint file;
    struct harness_rank_set writers;
    const struct harness_trace_event *const *list;
    uint32_t steps_done = 0;
    size_t count = 0;
    char path[4096];

    if (!harness_checkpoint_last_save(e, &steps_done, &writers) ||
        harness_rank_set_count(&writers) != 1 || !harness_rank_set_has(&writers, 0) ||
        !harness_checkpoint_path(e->input->run_dir, path, sizeof(path))) {
        return DDP_OK;
    }
    list = harness_index_list(&e->index, 0, DDP_EVENT_CHECKPOINT_SAVED, &count);
    DDP_TRY(harness_checkpoint_open(e->mem, harness_emulation_files(e->input), path, &file, NULL));
    if (file.is_found && file.damage == HARNESS_VERDICT_NONE &&
        file.steps_done == (int64_t)steps_done &&
        (list[count - 1]->entry.arg[1] != data_hash(&file) ||
         list[count - 1]->entry.arg[2] != file.size_bytes)) {
        harness_gap_set(out,
                        "rank 0 recorded another checkpoint of step %u than the file that it "
                        "left",
                        steps_done);
    }
    harness_checkpoint_close(&file);
    return DDP_OK;
}

ddp_status harness_evidence_agreement(const struct harness_emulation *e, struct harness_gap *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        check_death(e, r, out);
        check_revocation(e, r, out);
        check_error(e, r, out);
        check_astray(e, r, out);
        check_ahead(e, r, out);
        check_behind(e, r, out);
        check_messages(e, r, out);
    }
    return check_saved(e, out);
}
