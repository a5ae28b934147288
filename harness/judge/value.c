/* Paths from a cause to a value that differs. */
#include "harness/judge/value.h"

#include "ddpcore/seam/option.h"

/* The used map of that step came out of mixed operations: it says which gradients are copied back
 * and used. No gradient becomes a NaN by that. */
static bool is_map_mixed(const struct harness_paths *paths, const struct harness_finding *a,
                         const struct harness_finding *b)
{
    uint64_t seq = b->step < 0 ? 0 : harness_path_map_seq(paths, b->step);

    return seq != 0 && seq >= a->op.seq && b->verdict != HARNESS_VERDICT_VALUE_NONFINITE;
}

/* The operation before is posted just like this one: two rounds of a bucket. */
static bool is_like_the_last(const struct harness_paths *paths, uint64_t seq)
{
    const struct harness_op *last = harness_program_at(paths->program, seq - 1);
    const struct harness_op *op = harness_program_at(paths->program, seq);

    DDP_ASSERT(seq > 0);
    return last != NULL && op != NULL && op->role == DDP_ROLE_BUCKET && last->role == op->role &&
           last->step == op->step && last->index == op->index && last->kind == op->kind &&
           last->dtype == op->dtype && last->elem_count == op->elem_count;
}

/* The first operation in which the rank's may have been another one: where it left one out, or
 * posted one twice, that cannot be told from the next, this was not seen. */
static uint64_t first_seq(const struct harness_paths *paths, const struct harness_finding *a)
{
    const uint64_t back = a->verdict == HARNESS_VERDICT_MISMATCH_EXTRA ? 1 : 0;
    uint64_t seq = a->op.seq;

    if (back == 1 || a->verdict == HARNESS_VERDICT_MISMATCH_MISSING) {
        while (seq > back && is_like_the_last(paths, seq - back)) {
            seq--;
        }
    }
    return seq;
}

/* PowerSGD counts its passes, and keeps of each what was not sent: a rank that left one out, or a
 * bucket of it, is behind in both from then on. */
bool harness_value_is_hook_behind(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b)
{
    DDP_ASSERT(a != b);
    return paths->plan->job.hook == HARNESS_HOOK_POWERSGD &&
           a->verdict == HARNESS_VERDICT_MISMATCH_MISSING && harness_path_is_of(b, a) &&
           (b->step < 0 || harness_path_is_in_time(a, b));
}

static const struct harness_trace_event *post_of(const struct harness_paths *paths, uint32_t rank,
                                                 uint64_t seq)
{
    return rank < paths->index.world_size /* 0 without a trace */
               ? harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_POST, seq)
               : NULL;
}

/* All those ranks posted that operation with another type or length than planned: what they take
 * out of it is that many other values, in every step in which they do so. */
static bool is_posted_otherwise(const struct harness_paths *paths, const struct harness_finding *b,
                                uint64_t seq)
{
    const struct harness_op *planned = harness_program_at(paths->program, seq);
    const uint32_t count = harness_rank_set_count(&b->culprits);
    bool is_so = planned != NULL && count > 0;

    for (uint32_t i = 0; is_so && i < count; i++) {
        const struct harness_trace_event *post =
            post_of(paths, harness_rank_set_at(&b->culprits, i), seq);
        const struct ddp_event_op op =
            post != NULL ? ddp_event_op_unpack(post->entry.arg[1]) : (struct ddp_event_op){0};

        is_so = post != NULL && op.role == planned->role && op.index == planned->index &&
                (op.dtype != planned->dtype || post->entry.arg[2] != planned->elem_count);
    }
    return is_so;
}

/* A buffer that survivors start from. No step's are taken from what was recorded, and all ranks had
 * theirs from another one. */
static bool is_left_buffer(const struct harness_paths *paths, const struct harness_finding *b)
{
    return b->oracle == HARNESS_ORACLE_SURVIVORS && b->stage == HARNESS_STAGE_BUFFER &&
           paths->plan->job.broadcast_buffers;
}

bool harness_value_is_left(const struct harness_paths *paths, const struct harness_finding *a,
                           const struct harness_finding *b)
{
    return a->oracle == HARNESS_ORACLE_BUFFERS && a->step <= b->step && is_left_buffer(paths, b);
}

/* What comes out of an operation whose messages met others, from there on. All else is judged from
 * what was recorded before it; only the rank itself may go on with another buffer, or leave out the
 * rest of its step, and of later ones. */
bool harness_value_is_mixed(const struct harness_paths *paths, const struct harness_finding *a,
                            const struct harness_finding *b)
{
    uint64_t seq = harness_path_seq(paths, b);

    DDP_ASSERT(a != b);
    if (b->oracle == HARNESS_ORACLE_JOINED || is_left_buffer(paths, b)) {
        return true; /* after everything */
    }
    if (b->stage == HARNESS_STAGE_GRADIENT || b->oracle == HARNESS_ORACLE_GLOBAL_BATCH) {
        return false;
    }
    if (b->stage >= HARNESS_STAGE_FINAL && is_map_mixed(paths, a, b)) {
        return true; /* of buckets before that operation, too: the map comes behind all of them */
    }
    if (seq < first_seq(paths, a)) {
        return false;
    }
    if (a->verdict == HARNESS_VERDICT_MISMATCH_REDUCTION && seq > a->op.seq &&
        b->stage == HARNESS_STAGE_OUTPUT) {
        return false; /* its messages were the right ones */
    }
    return b->stage < 0 || b->stage == HARNESS_STAGE_OUTPUT ||
           (harness_path_is_of(b, a) &&
            (a->step == b->step || is_posted_otherwise(paths, b, seq) ||
             harness_path_is_unreduced(paths, b) || harness_value_is_hook_behind(paths, a, b)));
}

/* The receiver recorded that of a message in another one's place, which came from the sender. */
static bool is_met_from(const struct harness_paths *paths, uint32_t receiver, uint32_t sender,
                        enum ddp_event event)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        receiver < paths->index.world_size /* 0 without a trace */
            ? harness_index_list(&paths->index, receiver, event, &count)
            : NULL;

    return count > 0 && list[0]->entry.arg[1] == sender;
}

/* Messages between the two say that the first went on, and the second did not. */
static bool is_gone_on_from(const struct harness_paths *paths, uint32_t ahead, uint32_t behind)
{
    return is_met_from(paths, behind, ahead, DDP_EVENT_MESSAGE_AHEAD) ||
           is_met_from(paths, ahead, behind, DDP_EVENT_MESSAGE_BEHIND);
}

/* Each rank that b blames was left behind by one that a blames, and not the other way round. */
static bool is_left_behind(const struct harness_paths *paths, const struct harness_finding *a,
                           const struct harness_finding *b)
{
    bool is_so = !harness_path_is_common(a, b);

    for (uint32_t i = 0; is_so && i < harness_rank_set_count(&b->culprits); i++) {
        const uint32_t left = harness_rank_set_at(&b->culprits, i);
        bool is_by_one = false;

        for (uint32_t k = 0; is_so && k < harness_rank_set_count(&a->culprits); k++) {
            const uint32_t other = harness_rank_set_at(&a->culprits, k);

            is_by_one = is_by_one || is_gone_on_from(paths, other, left);
            is_so = !is_gone_on_from(paths, left, other);
        }
        is_so = is_so && is_by_one;
    }
    return is_so;
}

/* A rank that took no part in an operation meets the others' messages of it with those of its next
 * one, and so on to the end: each has one message too many under way. Checked messages are refused
 * instead. Another rank that took no part in another operation did so by itself; but it may have
 * taken part, and have met only zeros. Then messages tell who went on without the other. */
bool harness_value_is_displaced(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    uint64_t seq = harness_path_seq(paths, b);
    bool is_later = seq > a->op.seq || (seq == a->op.seq && !harness_path_is_of(b, a));

    DDP_ASSERT(a != b);
    return is_later && harness_path_is_displacing(paths, a) &&
           (!harness_path_is_displacing(paths, b) || is_left_behind(paths, a, b)) &&
           (b->stage < 0 || b->stage == HARNESS_STAGE_OUTPUT);
}

/* What it sends of a later operation ends those that wait in the one it took no part in, and is
 * short by so much in its own, in which it seems to have taken no part. */
bool harness_value_is_overtaken(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    return b->oracle == HARNESS_ORACLE_MONITOR && b->verdict == HARNESS_VERDICT_MISMATCH_MISSING &&
           b->op.seq > a->op.seq && harness_rank_set_is_equal(&a->culprits, &b->culprits) &&
           harness_path_is_displacing(paths, a);
}

/* An extra collective works on a buffer while its rank goes on using it. */
bool harness_value_is_extra_work(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b)
{
    return a->verdict == HARNESS_VERDICT_MISMATCH_EXTRA && a->step == b->step &&
           harness_path_is_of(b, a) && harness_path_is_same_tensor(paths, a, b);
}

/* The same of an operation that reduces no bucket: its twin's buffer is read for its hash. */
bool harness_value_is_extra_use(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    const bool is_twin = b->op.seq == a->op.seq || b->op.seq + 1 == a->op.seq;

    (void)paths;
    return a->verdict == HARNESS_VERDICT_MISMATCH_EXTRA && is_twin && b->op.is_set &&
           b->op.role == a->op.role && a->op.role != DDP_ROLE_BUCKET && harness_path_is_of(b, a);
}

/* A BatchNorm that left an exchange out went on with the statistics of the rank's own batch. */
bool harness_value_is_of_own_batch(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    const struct harness_op *planned = harness_program_at(paths->program, a->op.seq);

    return planned != NULL && planned->role == DDP_ROLE_BATCH_NORM &&
           (b->stage == HARNESS_STAGE_GRADIENT || b->stage == HARNESS_STAGE_STATISTIC) &&
           a->step == b->step && harness_path_is_of(b, a);
}

/* The rank completed it, and put it on no stream, as it did others. */
static bool is_never_queued(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *done;
    size_t queued_count = 0;

    if (post_of(paths, rank, seq) == NULL) {
        return false;
    }
    done = harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_DONE, seq);
    (void)harness_index_list(&paths->index, rank, DDP_EVENT_COLL_QUEUED, &queued_count);
    return queued_count > 0 && done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK &&
           harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_QUEUED, seq) == NULL;
}

/* Ranks that took no part in a broadcast measure sums already, and the library takes the messages
 * of those for the broadcast's. */
bool harness_value_is_measured_so(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b)
{
    const uint32_t count = harness_rank_set_count(&a->culprits);
    bool is_apart = a->oracle == HARNESS_ORACLE_BROADCAST && a->op.seq > 0 && count > 0 &&
                    b->phase == (int32_t)DDP_PHASE_PROBE && b->status == DDP_E_STATE;

    for (uint32_t i = 0; is_apart && i < count; i++) {
        is_apart = is_never_queued(paths, harness_rank_set_at(&a->culprits, i), a->op.seq);
    }
    return is_apart;
}

/* A sum over a wrong schedule or tree. */
bool harness_value_is_summed_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    bool is_sum = b->stage < 0 || b->stage == HARNESS_STAGE_OUTPUT;

    return is_sum && harness_path_is_same_shape(paths, a, b) && harness_path_is_in_time(a, b);
}

/* The rank posted the operation twice where the program has one of it. */
static bool is_posted_twice(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *first = post_of(paths, rank, seq);
    const struct harness_trace_event *second = post_of(paths, rank, seq + 1);

    return first != NULL && second != NULL && first->entry.arg[1] == second->entry.arg[1] &&
           first->entry.step == second->entry.step && !is_like_the_last(paths, seq + 1);
}

/* With an operation that the rank posted twice: once both are over, nothing of it is left. */
static bool is_race_of_twins(const struct harness_paths *paths, const struct harness_finding *a)
{
    const uint32_t rank = harness_rank_set_at(&a->culprits, 0);

    return a->op.seq > 1 &&
           (is_posted_twice(paths, rank, a->op.seq) || is_posted_twice(paths, rank, a->op.seq - 1));
}

/* The memory that is used without an order: on that rank, and in everybody's sums. Of races between
 * host and collective each one is named, and the bucket's next use waits for what still runs; of a
 * device's work only the first, which others may follow. What an extra operation does is over with
 * its step. */
bool harness_value_is_raced_for(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    bool is_shared = b->stage < 0 || b->stage == HARNESS_STAGE_OUTPUT;
    bool is_placed = harness_path_bucket(paths, a) >= 0;
    /* Gradients that lie in the bucket are written there by the next step's backward pass. */
    bool is_next = paths->plan->job.gradient_as_bucket_view && a->step + 1 == b->step;
    bool is_in_time = harness_plan_is_cuda(paths->plan) && !is_race_of_twins(paths, a)
                          ? harness_path_is_in_time(a, b)
                          : a->step == b->step || is_next;

    return is_in_time && (is_shared || harness_path_is_of(b, a)) &&
           (!is_placed || harness_path_is_same_tensor(paths, a, b));
}

/* Gradients that were not reduced are used as they are. PyTorch says so one pass late. */
bool harness_value_is_unreduced(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    DDP_ASSERT(harness_verdict_family(a->verdict) == HARNESS_FAMILY_USAGE);
    return (b->step == a->step || b->step + 1 == a->step) &&
           harness_path_is_unfinished(paths, a, b);
}

/* Posted, and never waited for. */
static bool is_in_flight(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    return post_of(paths, rank, seq) != NULL &&
           harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_WAITED, seq) == NULL;
}

/* A rank that left out a bucket never ended its pass: it goes on with its own gradients, of earlier
 * buckets, too. Where gradients lie in buckets, it so writes into what is still being reduced. */
bool harness_value_is_left_unreduced(const struct harness_paths *paths,
                                     const struct harness_finding *a,
                                     const struct harness_finding *b)
{
    bool is_written = paths->plan->job.gradient_as_bucket_view &&
                      b->stage == HARNESS_STAGE_OUTPUT && b->op.is_set;
    bool is_used = false;

    if (a->verdict != HARNESS_VERDICT_MISMATCH_MISSING || a->step != b->step) {
        return false;
    }
    for (uint32_t i = 0; is_written && i < harness_rank_set_count(&a->culprits); i++) {
        is_used = is_used || is_in_flight(paths, harness_rank_set_at(&a->culprits, i), b->op.seq);
    }
    return is_used || (b->stage >= HARNESS_STAGE_FINAL && harness_path_is_unfinished(paths, a, b));
}

/* The optimizer remembers gradients: what was wrong in one step may first show in a later one. */
static bool is_remembered(const struct harness_paths *paths)
{
    const struct harness_optimizer *optimizer = &paths->plan->job.optimizer;

    return optimizer->kind != HARNESS_OPTIMIZER_SGD || optimizer->momentum > 0;
}

/* Where gradients are clipped, one that is wrong is in the norm that all of them are divided by. */
static bool is_clipped(const struct harness_paths *paths)
{
    return paths->plan->job.optimizer.clip_norm > 0;
}

/* Replicas differ where some of them hold another value than the emulation. What went wrong before
 * the sum is in all of them alike. */
bool harness_value_is_held_by_some(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    DDP_ASSERT(a->stage >= -1 && a->stage < HARNESS_STAGE_COUNT);
    if (b->oracle != HARNESS_ORACLE_REPLICAS || a->stage < HARNESS_STAGE_OUTPUT ||
        !harness_path_is_common(a, b) ||
        !(is_clipped(paths) || harness_path_is_same_tensor(paths, a, b))) {
        return false;
    }
    return a->step == b->step || (is_remembered(paths) && a->step < b->step);
}

/* A rank that received other parameters takes its first step with them; other buffers, or a model
 * at the end of join, it holds. */
bool harness_value_is_received(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b)
{
    int64_t first_step = (int64_t)paths->plan->job.start_step;

    DDP_ASSERT(a->oracle != HARNESS_ORACLE_BROADCAST || a->op.is_set);
    if (a->oracle == HARNESS_ORACLE_SURVIVORS && a->op.role == DDP_ROLE_PARAM_SYNC) {
        return b->step == first_step &&
               (b->stage == HARNESS_STAGE_GRADIENT || b->stage == HARNESS_STAGE_UPDATE);
    }
    if (a->oracle != HARNESS_ORACLE_BROADCAST || !harness_path_is_of(b, a)) {
        return false;
    }
    if (b->oracle == HARNESS_ORACLE_JOINED ||
        (b->oracle == HARNESS_ORACLE_REPLICAS && b->params.count == 0)) {
        return harness_path_is_in_time(a, b);
    }
    return a->op.role == DDP_ROLE_PARAM_SYNC && a->step < 0 && b->step == first_step &&
           (b->stage == HARNESS_STAGE_GRADIENT || b->stage == HARNESS_STAGE_UPDATE ||
            b->oracle == HARNESS_ORACLE_REPLICAS);
}

/* What the map says was used by nobody is not copied back and not updated, and the other way round.
 * The map's finding has the parameters that its ranks alone decide. A static graph's map is the one
 * of all later steps, too. */
bool harness_value_is_copied_so(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    const struct harness_job *job = &paths->plan->job;
    bool is_decided = false;

    DDP_ASSERT(job->find_unused_parameters || job->static_graph || a->op.role != DDP_ROLE_USED_MAP);
    if (a->oracle != HARNESS_ORACLE_REDUCTION || !a->op.is_set || a->op.role != DDP_ROLE_USED_MAP ||
        b->stage < HARNESS_STAGE_FINAL ||
        (job->static_graph ? a->step > b->step : a->step != b->step)) {
        return false;
    }
    for (uint32_t i = 0; i < b->params.count; i++) {
        is_decided = harness_list_has(&a->params, harness_list_at(&b->params, i));
        if (!is_decided) {
            break;
        }
    }
    return is_decided;
}

/* A rank that read another model than was sent asks, or says, what differs, and so the job ends. */
bool harness_value_is_misread(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b)
{
    (void)paths;
    (void)b;
    return a->oracle == HARNESS_ORACLE_MODEL;
}

/* The rank recorded that it has this option otherwise than planned. */
static bool is_other_option(const struct harness_paths *paths, uint32_t rank,
                            enum ddp_option option, bool is_planned)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&paths->index, rank, DDP_EVENT_DDP_CONFIG, &count);

    DDP_ASSERT(option < DDP_OPTION_COUNT);
    return count > 0 && (list[0]->entry.arg[2] >> option & 1) != (uint64_t)is_planned;
}

/* A rank of PyTorch's that is not to look for unused parameters, where the plan has ranks look: it
 * says of all parameters without a gradient that they are misuse, which they are not. */
bool harness_value_is_forbidden_so(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    const uint32_t count = harness_rank_set_count(&a->culprits);
    bool is_off = count > 0;

    DDP_ASSERT(a != b);
    if (a->oracle != HARNESS_ORACLE_MODEL || b->verdict != HARNESS_VERDICT_USAGE_UNUSED_PARAMETER ||
        !paths->plan->job.find_unused_parameters || paths->plan->job.static_graph) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        is_off = is_off && is_other_option(paths, harness_rank_set_at(&a->culprits, i),
                                           DDP_OPTION_FIND_UNUSED, true);
    }
    return is_off;
}

/* Of a rank that divides at another place than planned: what it puts into sums and takes out of
 * them has another factor, in every step. */
bool harness_value_is_configured_so(const struct harness_paths *paths,
                                    const struct harness_finding *a,
                                    const struct harness_finding *b)
{
    const bool is_planned = paths->plan->job.gradient_scale == HARNESS_GRADIENT_SCALE_POST;
    const uint32_t count = harness_rank_set_count(&b->culprits);

    if (a->oracle != HARNESS_ORACLE_MODEL || count == 0 ||
        (b->verdict != HARNESS_VERDICT_VALUE_SCALED &&
         b->verdict != HARNESS_VERDICT_VALUE_DUPLICATED)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = harness_rank_set_at(&b->culprits, i);

        if (!harness_rank_set_has(&a->culprits, rank) ||
            !is_other_option(paths, rank, DDP_OPTION_GRADIENT_SCALE, is_planned)) {
            return false;
        }
    }
    return true;
}

bool harness_value_is_apart(const struct harness_paths *paths, const struct harness_finding *a,
                            const struct harness_finding *b)
{
    return harness_path_is_of(b, a) &&
           harness_index_is_apart(&paths->index, harness_rank_set_at(&a->culprits, 0),
                                  paths->plan->job.ranks);
}
