/* Purpose: each whole step of each rank was recorded in full.
 * Idea: a table says which events each checker reads, and how many a rank records in a step. A rank
 * went through a whole step if it recorded something in a later one, or says so at its end. Steps
 * on which a fault acted are left out: it may have kept the rank from something. */
#include <string.h>

#include "harness/evidence/internal.h"
#include "harness/plan/hook_round.h"

enum { JOIN_MIRROR = 2 }; /* as the core records it: enum ddp_join_event */

struct place {
    const struct harness_emulation *e;
    uint32_t rank, step;
    size_t k;    /* step, counted from the emulation's first */
    bool is_off; /* by then the rank has left the program, which is a finding */
};

/* How many events about a subject are right. */
struct amount {
    size_t least, most;
};

/* What the events of a row are about: argument 0 counts them, from 0. */
enum about { ABOUT_NOTHING, ABOUT_PARAM, ABOUT_SLOT, ABOUT_BUFFER, ABOUT_PHASE, ABOUT_BUCKET };

static size_t micro_count(const struct place *place)
{
    return place->e->input->job->micro_batches;
}

static struct amount once(const struct place *place, size_t subject)
{
    (void)place;
    (void)subject;
    return (struct amount){1, 1};
}

/* Of which step the rank has the buckets in this one: whoever left out the pass after which they
 * are rebuilt still has the first ones (-1). */
static int32_t bucket_step(const struct place *place)
{
    const struct harness_program *program = place->e->input->program;
    const struct ddp_event_entry *rebuilt = harness_evidence_rebuilt(place->e, place->rank);
    const bool is_first = (int64_t)place->step >= (int64_t)program->rebuilt_step &&
                          (rebuilt == NULL || rebuilt->step > place->step);

    return is_first ? -1 : (int32_t)place->step;
}

/* As many as the bucket has collectives. */
static struct amount each_round(const struct place *place, size_t subject)
{
    const struct harness_emulation_input *input = place->e->input;
    struct harness_hook_round rounds[HARNESS_HOOK_ROUNDS_MAX];
    const struct harness_bucket *bucket =
        harness_program_bucket(input->program, bucket_step(place), subject);
    const size_t due =
        harness_hook_rounds(&input->plan->job, input->params, bucket, place->step, rounds);

    return (struct amount){due, due};
}

static struct amount each_micro(const struct place *place, size_t subject)
{
    (void)subject;
    return (struct amount){micro_count(place), micro_count(place)};
}

/* As many as the recorded batches have rows. */
static struct amount each_sample(const struct place *place, size_t subject)
{
    size_t count = 0;
    size_t rows = 0;
    const struct harness_trace_event *const *list = harness_index_in_step(
        &place->e->index, place->rank, DDP_EVENT_DATA_BATCH, place->step, &count);

    (void)subject;
    for (size_t i = 0; i < count; i++) {
        rows += list[i]->entry.arg[0];
    }
    return (struct amount){rows, rows};
}

static bool has_gradient(const struct place *place, size_t param)
{
    const struct harness_emulation *e = place->e;

    return e->expected.has_grad[(place->k * e->world + place->rank) * e->params.count + param] != 0;
}

/* Parameters that the reference gives a gradient; where models branch, not in each micro-batch. */
static struct amount each_gradient(const struct place *place, size_t subject)
{
    bool is_branching = harness_emulation_is_branching(place->e);
    size_t most = has_gradient(place, subject) ? micro_count(place) : 0;

    return (struct amount){is_branching && most > 0 ? 1 : most, most};
}

/* And those that it gives none, where DDP looks for them. */
static struct amount each_unused(const struct place *place, size_t subject)
{
    const struct harness_job *job = &place->e->input->plan->job;
    bool is_sought = job->find_unused_parameters || job->static_graph;
    bool is_due = is_sought && micro_count(place) == 1;

    if (!is_sought) {
        return (struct amount){0, 0};
    }
    return (struct amount){is_due && !has_gradient(place, subject) ? 1 : 0,
                           is_due && has_gradient(place, subject) ? 0 : 1};
}

/* A rank whose model lacks buffers, as the model oracle says, hands out those that it has. */
static size_t buffers_due(const struct place *place)
{
    const struct harness_emulation *e = place->e;
    size_t count = 0;

    if (!e->input->plan->job.broadcast_buffers) {
        return 0;
    }
    (void)harness_index_list(&e->index, place->rank, DDP_EVENT_BUFFER_SHAPE, &count);
    return count < e->buffers.count ? count : e->buffers.count;
}

static struct amount each_buffer(const struct place *place, size_t subject)
{
    const bool is_due = subject < buffers_due(place);

    return (struct amount){is_due ? 1 : 0, is_due ? 1 : 0};
}

static struct amount each_phase(const struct place *place, size_t subject)
{
    size_t least = subject == DDP_PHASE_FORWARD || subject == DDP_PHASE_LOSS ||
                           subject == DDP_PHASE_BACKWARD || subject == DDP_PHASE_OPTIMIZER
                       ? 1
                       : 0;

    (void)place;
    return (struct amount){least, SIZE_MAX};
}

/* How many collectives of that role the rank posted in the step and completed. */
static size_t completed_count(const struct place *place, enum ddp_coll_role role)
{
    const struct harness_emulation *e = place->e;
    size_t completed = 0;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, place->rank, DDP_EVENT_COLL_POST, place->step, &count);

    for (size_t i = 0; i < count; i++) {
        const struct harness_trace_event *done = harness_index_with_seq(
            &e->index, place->rank, DDP_EVENT_COLL_DONE, list[i]->entry.arg[0]);

        completed += ddp_event_op_unpack(list[i]->entry.arg[1]).role == role && done != NULL &&
                     harness_index_status(done->entry.arg[3]) == DDP_OK;
    }
    return completed;
}

/* What ranks gather for the checkpoint behind the step has all come, if they do. */
static bool is_gathered(const struct place *place)
{
    const struct harness_emulation *e = place->e;
    const size_t due = harness_program_is_hook_gathered(&e->input->plan->job, place->step + 1u)
                           ? e->params.count
                           : 0;

    return completed_count(place, DDP_ROLE_HOOK_STATE) >= due;
}

static struct amount each_save(const struct place *place, size_t subject)
{
    uint32_t every = place->e->input->plan->job.checkpoint_every;
    bool is_due = every > 0 && (place->step + 1) % every == 0 && place->rank == 0;

    (void)subject;
    return (struct amount){is_due && is_gathered(place) ? 1 : 0, is_due ? 1 : 0};
}

static struct amount each_drift(const struct place *place, size_t subject)
{
    const uint32_t every = place->e->input->plan->job.drift_every;
    const bool is_due = every > 0 && (place->step + 1) % every == 0;

    (void)subject;
    return (struct amount){is_due ? 1 : 0, is_due ? 1 : 0};
}

/* Of whoever has met the others in it. That rank 0 evaluated nothing for all is a finding. */
static struct amount each_evaluation(const struct place *place, size_t subject)
{
    const struct harness_job *job = &place->e->input->plan->job;
    const bool is_due = job->evaluate_every > 0 && (place->step + 1) % job->evaluate_every == 0;
    const bool is_sharded = job->evaluation == HARNESS_EVALUATION_SHARDED;

    (void)subject;
    return (struct amount){is_due && completed_count(place, DDP_ROLE_EVALUATION) > 0 ? 1 : 0,
                           is_due && (is_sharded || place->rank == 0) ? 1 : 0};
}

static const struct row {
    enum ddp_event event;
    enum harness_oracle_id oracle; /* that reads them */
    enum about about;
    int hash_arg; /* the argument that has to be a hash; -1: none */
    struct amount (*amount)(const struct place *place, size_t subject);
} rows[] = {
    {DDP_EVENT_PHASE, HARNESS_ORACLE_LIVENESS, ABOUT_PHASE, -1, each_phase},
    {DDP_EVENT_DATA_BATCH, HARNESS_ORACLE_LEDGER, ABOUT_NOTHING, 1, each_micro},
    {DDP_EVENT_DATA_SAMPLE, HARNESS_ORACLE_LEDGER, ABOUT_NOTHING, -1, each_sample},
    {DDP_EVENT_LOSS, HARNESS_ORACLE_GRADIENT, ABOUT_NOTHING, -1, each_micro},
    {DDP_EVENT_GRAD_READY, HARNESS_ORACLE_GRADIENT, ABOUT_PARAM, 1, each_gradient},
    {DDP_EVENT_PARAM_UNUSED, HARNESS_ORACLE_USAGE, ABOUT_PARAM, -1, each_unused},
    {DDP_EVENT_COLL_POST, HARNESS_ORACLE_REDUCTION, ABOUT_BUCKET, 4, each_round},
    {DDP_EVENT_COLL_DONE, HARNESS_ORACLE_REDUCTION, ABOUT_BUCKET, 4, each_round},
    {DDP_EVENT_GRAD_FINAL, HARNESS_ORACLE_REDUCTION, ABOUT_PARAM, -1, once},
    {DDP_EVENT_PARAM_UPDATED, HARNESS_ORACLE_UPDATE, ABOUT_PARAM, 1, once},
    {DDP_EVENT_OPTIMIZER_STATE, HARNESS_ORACLE_UPDATE, ABOUT_SLOT, 1, once},
    {DDP_EVENT_DRIFT, HARNESS_ORACLE_DRIFT, ABOUT_NOTHING, -1, each_drift},
    {DDP_EVENT_EVALUATED, HARNESS_ORACLE_LEDGER, ABOUT_NOTHING, -1, each_evaluation},
    {DDP_EVENT_BUFFER_SYNCED, HARNESS_ORACLE_REPLICAS, ABOUT_BUFFER, 1, each_buffer},
    {DDP_EVENT_BUFFER_UPDATED, HARNESS_ORACLE_BUFFERS, ABOUT_BUFFER, 1, once},
    {DDP_EVENT_CHECKPOINT_SAVED, HARNESS_ORACLE_CHECKPOINT, ABOUT_NOTHING, 1, each_save},
};

static size_t subject_count(const struct harness_emulation *e, enum about about, int32_t step)
{
    switch (about) {
    case ABOUT_PARAM:
        return e->params.count;
    case ABOUT_SLOT:
        return e->params.count * e->slot_count;
    case ABOUT_BUFFER:
        return e->buffers.count;
    case ABOUT_PHASE:
        return DDP_PHASE_COUNT;
    case ABOUT_BUCKET:
        return harness_program_buckets(e->input->program, step)->count;
    case ABOUT_NOTHING:
        break;
    }
    return 1;
}

/* The subject of an event, or SIZE_MAX: none of this row's. */
static size_t subject_of(const struct harness_emulation *e, const struct row *row,
                         const struct ddp_event_entry *entry)
{
    struct ddp_event_op op;

    switch (row->about) {
    case ABOUT_NOTHING:
        return 0;
    case ABOUT_SLOT:
        return entry->arg[0] < e->params.count && entry->arg[2] < e->slot_count
                   ? entry->arg[2] * e->params.count + entry->arg[0]
                   : SIZE_MAX;
    case ABOUT_BUCKET:
        op = ddp_event_op_unpack(entry->arg[1]);
        return op.role == DDP_ROLE_BUCKET ? op.index : SIZE_MAX;
    default:
        return entry->arg[0];
    }
}

/* An event that is there may still say nothing: a gradient that is defined has a hash, and what did
 * not complete has no result. */
static bool is_sound(const struct row *row, const struct ddp_event_entry *entry)
{
    switch (row->event) {
    case DDP_EVENT_GRAD_FINAL:
        return entry->arg[2] == 0 || entry->arg[1] != 0;
    case DDP_EVENT_COLL_DONE:
        return harness_index_status(entry->arg[3]) == DDP_OK;
    default:
        return true;
    }
}

/* Count the row's events in a step by subject. False: one lacks its hash. Completions count in the
 * step in which they were posted. */
static bool tally(const struct place *place, const struct row *row, size_t *counts, size_t size)
{
    const struct harness_emulation *e = place->e;
    const bool is_done = row->event == DDP_EVENT_COLL_DONE;
    size_t count = 0;
    const struct harness_trace_event *const *list = harness_index_in_step(
        &e->index, place->rank, is_done ? DDP_EVENT_COLL_POST : row->event, place->step, &count);

    memset(counts, 0, size * sizeof(*counts));
    for (size_t i = 0; i < count; i++) {
        const struct harness_trace_event *event =
            is_done
                ? harness_index_with_seq(&e->index, place->rank, row->event, list[i]->entry.arg[0])
                : list[i];
        size_t subject = event != NULL ? subject_of(e, row, &event->entry) : SIZE_MAX;

        if (subject >= size) {
            continue;
        }
        counts[subject]++;
        if (!is_sound(row, &event->entry)) {
            return false;
        }
        if (row->hash_arg >= 0 && event->entry.arg[row->hash_arg] == 0 &&
            (row->event != DDP_EVENT_GRAD_READY || event->entry.micro + 1u >= micro_count(place))) {
            return false;
        }
    }
    return true;
}

static void check_row(const struct place *place, const struct row *row, size_t *counts,
                      struct harness_gap *out)
{
    size_t size = subject_count(place->e, row->about, bucket_step(place));

    if (!tally(place, row, counts, size)) {
        harness_gap_set(out, "rank %u, step %u: %s without a value, which oracle %s needs",
                        place->rank, place->step, ddp_event_name(row->event),
                        harness_oracle_name(row->oracle));
        return;
    }
    for (size_t s = 0; s < size && !out->is_set; s++) {
        struct amount amount = row->amount(place, s);

        if (counts[s] < amount.least || counts[s] > amount.most) {
            harness_gap_set(
                out, "rank %u, step %u: oracle %s needs %zu of %s %zu, and %zu %s there",
                place->rank, place->step, harness_oracle_name(row->oracle),
                counts[s] < amount.least ? amount.least : amount.most, ddp_event_name(row->event),
                s, counts[s], counts[s] == 1 ? "is" : "are");
        }
    }
}

/* Whatever the rank posted in the step it also completed. */
static void check_posts(const struct place *place, struct harness_gap *out)
{
    const struct harness_emulation *e = place->e;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, place->rank, DDP_EVENT_COLL_POST, place->step, &count);

    for (size_t i = 0; i < count; i++) {
        const struct harness_trace_event *done = harness_index_with_seq(
            &e->index, place->rank, DDP_EVENT_COLL_DONE, list[i]->entry.arg[0]);

        if (done == NULL || harness_index_status(done->entry.arg[3]) != DDP_OK) {
            harness_gap_set(out, "rank %u, step %u: collective %llu was not completed", place->rank,
                            place->step, (unsigned long long)list[i]->entry.arg[0]);
        }
    }
}

static size_t count_in(const struct place *place, enum ddp_event event)
{
    size_t count = 0;

    (void)harness_index_in_step(&place->e->index, place->rank, event, place->step, &count);
    return count;
}

/* Also of a step that was cut short, or that the rank only mirrored for others: no loss without a
 * batch, no gradient without a loss, and buffers are handed out once, in order and all. */
static void check_begun(const struct place *place, bool is_clean, struct harness_gap *out)
{
    size_t losses = count_in(place, DDP_EVENT_LOSS), count = 0;
    const struct harness_trace_event *const *list = harness_index_in_step(
        &place->e->index, place->rank, DDP_EVENT_BUFFER_SYNCED, place->step, &count);
    const size_t due = buffers_due(place);
    bool is_right = is_clean ? count == due : count <= due;

    for (size_t i = 0; i < count; i++) {
        is_right = is_right && list[i]->entry.arg[0] == i;
    }
    if (!is_right || count_in(place, DDP_EVENT_DATA_BATCH) < losses ||
        (losses == 0 && count_in(place, DDP_EVENT_GRAD_READY) > 0)) {
        harness_gap_set(out, "rank %u, step %u: what it recorded lacks its beginning", place->rank,
                        place->step);
    }
}

/* A rank that left a step out may be in its last step while others have one more: what it mirrors
 * for them is recorded beside what it did itself. */
static bool is_mirroring(const struct place *place)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&place->e->index, place->rank, DDP_EVENT_JOIN, place->step, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] == JOIN_MIRROR) {
            return place->e->expected.is_active[place->k * place->e->world + place->rank];
        }
    }
    return false;
}

/* The last step in which the rank recorded anything, and how many it says it completed. */
static bool is_whole(const struct place *place, uint32_t last_step)
{
    const struct harness_trace_event *end = harness_index_end(&place->e->index, place->rank);

    return last_step > place->step || (end != NULL && end->entry.arg[1] > place->step);
}

static size_t largest(const struct harness_emulation *e)
{
    size_t size = 1;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        size_t own = rows[i].about == ABOUT_BUCKET ? harness_program_bucket_max(e->input->program)
                                                   : subject_count(e, rows[i].about, -1);

        size = own > size ? own : size;
    }
    return size;
}

static void check_step(const struct place *place, uint32_t last_step, bool is_clean, size_t *counts,
                       struct harness_gap *out)
{
    const struct harness_emulation *e = place->e;

    if (e->expected.predicted[place->k] < HARNESS_PREDICTED_UPDATE ||
        harness_evidence_is_disturbed(place->e, place->rank, place->step) || is_mirroring(place)) {
        return;
    }
    check_begun(place, is_clean, out);
    if (!e->expected.is_active[place->k * e->world + place->rank] || !is_whole(place, last_step)) {
        return;
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && !out->is_set; i++) {
        if (rows[i].about != ABOUT_BUCKET || is_clean || !place->is_off) {
            check_row(place, &rows[i], counts, out);
        }
    }
    /* The end of a step is said before its checkpoint is saved, for which ranks wait. */
    if (is_clean || last_step > place->step) {
        check_posts(place, out);
    }
}

/* The first step in which the rank's collectives are not the program's; UINT32_MAX: there is none.
 */
static uint32_t left_program(const struct harness_emulation *e, uint32_t rank)
{
    const struct harness_program *program = e->input->program;
    size_t count = 0;
    const struct harness_trace_event *const *posts =
        harness_index_list(&e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_entry *entry = &posts[i]->entry;
        const struct ddp_event_op op = ddp_event_op_unpack(entry->arg[1]);
        const struct harness_op *planned = harness_program_at(program, entry->arg[0]);
        /* What PowerSGD posts depends on how many passes the rank has made. */
        const int32_t step = e->input->plan->job.hook == HARNESS_HOOK_POWERSGD
                                 ? harness_program_step_of(program, entry->phase, entry->step)
                                 : HARNESS_STEP_UNKNOWN;

        if (harness_program_compare_step(program, entry->arg[0], step, &op, entry->arg[2]) !=
            HARNESS_VERDICT_NONE) {
            return planned != NULL && planned->step >= 0 && (uint32_t)planned->step < entry->step
                       ? (uint32_t)planned->step
                       : entry->step;
        }
    }
    return UINT32_MAX;
}

ddp_status harness_evidence_steps(const struct harness_emulation *e, bool is_clean,
                                  struct harness_gap *out)
{
    const struct harness_trace *trace = e->input->trace;
    uint32_t *last_step = ddp_mem_array(e->mem, e->world, sizeof(*last_step));
    size_t *counts = ddp_mem_array(e->mem, largest(e), sizeof(*counts));

    for (size_t i = 0; last_step != NULL && i < trace->event_count; i++) {
        last_step[trace->events[i].rank] = trace->events[i].entry.step;
    }
    for (uint32_t r = 0; last_step != NULL && counts != NULL && r < e->world; r++) {
        const uint32_t off = left_program(e, r);

        for (uint32_t step = e->start_step; step < e->end_step && !out->is_set; step++) {
            struct place place = {e, r, step, step - e->start_step, step >= off};

            check_step(&place, last_step[r], is_clean, counts, out);
        }
    }
    ddp_mem_free(e->mem, counts);
    ddp_mem_free(e->mem, last_step);
    return last_step != NULL && counts != NULL ? DDP_OK : DDP_E_NOMEM;
}
