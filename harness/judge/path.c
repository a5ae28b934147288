/* Paths through the trace. */
#include "harness/judge/path.h"

#include "harness/trace/taken.h"

ddp_status harness_paths_open(struct ddp_mem *mem, const struct harness_plan *plan,
                              const struct harness_program *program,
                              const struct harness_trace *trace, struct harness_paths *out)
{
    static const struct harness_program no_program;

    DDP_ASSERT(plan != NULL);
    DDP_ASSERT(trace == NULL || trace->event_count == 0 || trace->events != NULL);
    *out = (struct harness_paths){.plan = plan, .program = program != NULL ? program : &no_program};
    if (trace != NULL) {
        DDP_TRY(harness_index_build(mem, trace, &out->index));
        out->trace = trace;
    }
    return DDP_OK;
}

void harness_paths_close(struct harness_paths *paths)
{
    if (paths->trace != NULL) {
        harness_index_fini(&paths->index);
    }
    *paths = (struct harness_paths){.trace = NULL};
}

/* --- ranks ------------------------------------------------------------------------------------ */

bool harness_path_is_of(const struct harness_finding *b, const struct harness_finding *a)
{
    return !harness_rank_set_is_empty(&b->culprits) &&
           harness_rank_set_is_subset(&b->culprits, &a->culprits);
}

bool harness_path_is_beset(const struct harness_finding *b, const struct harness_finding *a)
{
    uint32_t count = harness_rank_set_count(&b->culprits);

    DDP_ASSERT(a != b);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = harness_rank_set_at(&b->culprits, i);

        if (!harness_rank_set_has(&a->culprits, rank) && !harness_rank_set_has(&a->victims, rank)) {
            return false;
        }
    }
    return count > 0;
}

bool harness_path_is_common(const struct harness_finding *a, const struct harness_finding *b)
{
    return harness_rank_set_is_common(&a->culprits, &b->culprits);
}

bool harness_path_is_in_time(const struct harness_finding *a, const struct harness_finding *b)
{
    return a->step <= b->step;
}

/* --- operations ------------------------------------------------------------------------------- */

static bool is_known(const struct harness_paths *paths, uint32_t rank)
{
    return rank < paths->index.world_size; /* 0 without a trace */
}

static const struct harness_trace_event *find_post(const struct harness_paths *paths, uint32_t rank,
                                                   uint64_t seq)
{
    return is_known(paths, rank)
               ? harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_POST, seq)
               : NULL;
}

static bool is_completed(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *done =
        is_known(paths, rank)
            ? harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_DONE, seq)
            : NULL;

    return done != NULL && harness_index_status(done->entry.arg[3]) == DDP_OK;
}

/* Nobody that waits has posted a collective: the group never formed. */
static bool is_without_group(const struct harness_paths *paths,
                             const struct harness_rank_set *ranks)
{
    for (uint32_t i = 0; i < harness_rank_set_count(ranks); i++) {
        uint32_t rank = harness_rank_set_at(ranks, i);
        size_t count = 0;

        if (!is_known(paths, rank)) {
            return false;
        }
        (void)harness_index_list(&paths->index, rank, DDP_EVENT_COLL_POST, &count);
        if (count > 0) {
            return false;
        }
    }
    return true;
}

/* It posted this operation or a later one, and did not complete it. */
static bool is_inside(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    size_t count = 0;
    const struct harness_trace_event *const *list;
    uint64_t last;

    if (!is_known(paths, rank)) {
        return false;
    }
    list = harness_index_list(&paths->index, rank, DDP_EVENT_COLL_POST, &count);
    last = count == 0 ? 0 : list[count - 1]->entry.arg[0];
    return (find_post(paths, rank, seq) != NULL && !is_completed(paths, rank, seq)) ||
           (last > seq && !is_completed(paths, rank, last));
}

bool harness_path_is_open(const struct harness_paths *paths, const struct harness_finding *b,
                          uint64_t seq)
{
    const struct harness_rank_set *waiting =
        harness_rank_set_is_empty(&b->culprits) ? &b->victims : &b->culprits;

    if (b->op.seq == 0) {
        return !harness_rank_set_is_empty(waiting) && is_without_group(paths, waiting);
    }
    for (uint32_t i = 0; i < harness_rank_set_count(waiting); i++) {
        uint32_t rank = harness_rank_set_at(waiting, i);

        if (!is_inside(paths, rank, seq)) {
            return false;
        }
    }
    return !harness_rank_set_is_empty(waiting);
}

/* It began to measure trees behind the last operation that it posted. */
static bool is_measuring(const struct harness_paths *paths, uint32_t rank)
{
    const struct harness_trace_event *const *phases = NULL;
    const struct harness_trace_event *const *posts = NULL;
    size_t phase_count = 0;
    size_t post_count = 0;

    if (is_known(paths, rank)) {
        phases = harness_index_list(&paths->index, rank, DDP_EVENT_PHASE, &phase_count);
        posts = harness_index_list(&paths->index, rank, DDP_EVENT_COLL_POST, &post_count);
    }
    while (phase_count > 0 && phases[phase_count - 1]->entry.arg[0] != DDP_PHASE_PROBE) {
        phase_count--;
    }
    return phase_count > 0 && (post_count == 0 || phases[phase_count - 1]->entry.index >=
                                                      posts[post_count - 1]->entry.index);
}

bool harness_path_is_apart(const struct harness_paths *paths, const struct harness_finding *b,
                           uint64_t seq)
{
    const struct harness_rank_set *waiting =
        harness_rank_set_is_empty(&b->culprits) ? &b->victims : &b->culprits;
    bool is_one_measuring = false;

    DDP_ASSERT(seq > 0 && b->verdict != HARNESS_VERDICT_NONE);
    for (uint32_t i = 0; i < harness_rank_set_count(waiting); i++) {
        uint32_t rank = harness_rank_set_at(waiting, i);
        bool measures = is_measuring(paths, rank);

        if (!measures && !is_inside(paths, rank, seq)) {
            return false;
        }
        is_one_measuring = is_one_measuring || measures;
    }
    return is_one_measuring;
}

bool harness_path_is_owed(const struct harness_paths *paths, const struct harness_finding *a,
                          const struct harness_finding *b)
{
    DDP_ASSERT(a != b);
    for (uint32_t i = 0; i < harness_rank_set_count(&a->culprits); i++) {
        uint32_t rank = harness_rank_set_at(&a->culprits, i);

        if (!is_completed(paths, rank, b->op.seq)) {
            return true;
        }
    }
    return false;
}

bool harness_path_is_held_back(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b)
{
    bool is_held = b->verdict == HARNESS_VERDICT_HANG_NOT_JOINED &&
                   b->oracle == HARNESS_ORACLE_USAGE && harness_path_is_common(a, b);

    for (uint32_t i = 0; i < harness_rank_set_count(&b->culprits); i++) {
        const uint32_t rank = harness_rank_set_at(&b->culprits, i);
        size_t count = 0;
        const struct harness_trace_event *const *posts =
            is_known(paths, rank)
                ? harness_index_list(&paths->index, rank, DDP_EVENT_COLL_POST, &count)
                : NULL;
        const uint64_t last = count > 0 ? posts[count - 1]->entry.arg[0] : 0;

        for (uint32_t k = 0;
             !harness_rank_set_has(&a->culprits, rank) && k < harness_rank_set_count(&a->culprits);
             k++) {
            is_held = is_held && last > 0 && last < b->op.seq && !is_completed(paths, rank, last) &&
                      !is_completed(paths, harness_rank_set_at(&a->culprits, k), last);
        }
    }
    return is_held;
}

bool harness_path_is_storeless(const struct harness_paths *paths, const struct harness_finding *a,
                               const struct harness_finding *b)
{
    (void)paths;
    return a->verdict == HARNESS_VERDICT_CRASH_STORE && b->op.seq == 0 &&
           b->phase <= (int32_t)DDP_PHASE_INIT && b->status != DDP_E_INJECTED;
}

/* A sum of several ranks' that is what this one had put in: the observer gives both the same name.
 */
static bool is_own_input(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *post = find_post(paths, rank, seq);
    const struct harness_trace_event *done;

    if (post == NULL || !is_completed(paths, rank, seq)) {
        return false;
    }
    done = harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_DONE, seq);
    return post->entry.arg[4] != 0 && done->entry.arg[4] == post->entry.arg[4];
}

bool harness_path_is_displacing(const struct harness_paths *paths, const struct harness_finding *a)
{
    uint32_t count = harness_rank_set_count(&a->culprits);
    bool is_alone = count > 0 && paths->plan->job.semantics != HARNESS_SEMANTICS_STRICT;

    if (a->verdict != HARNESS_VERDICT_VALUE_LOST || a->op.seq == 0) {
        return false;
    }
    if (a->op.kind != DDP_COLL_ALL_REDUCE) {
        return is_alone && a->oracle == HARNESS_ORACLE_SCHEDULE;
    }
    for (uint32_t i = 0; i < count && is_alone; i++) {
        is_alone = is_own_input(paths, harness_rank_set_at(&a->culprits, i), a->op.seq);
    }
    return is_alone;
}

bool harness_path_is_steering(enum ddp_coll_role role)
{
    return role == DDP_ROLE_JOIN_PRESENT || role == DDP_ROLE_JOIN_SYNC_FLAG ||
           role == DDP_ROLE_JOIN_LAST;
}

static bool is_steered(const struct harness_paths *paths, uint32_t rank, uint64_t from,
                       uint64_t before)
{
    size_t count = 0;
    const struct harness_trace_event *const *list;

    if (!is_known(paths, rank)) {
        return false;
    }
    list = harness_index_list(&paths->index, rank, DDP_EVENT_COLL_DONE, &count);
    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        if (arg[0] >= from && arg[0] < before && harness_index_status(arg[3]) == DDP_OK &&
            harness_path_is_steering(ddp_event_op_unpack(arg[1]).role)) {
            return true;
        }
    }
    return false;
}

bool harness_path_is_steered(const struct harness_paths *paths, uint64_t from,
                             const struct harness_finding *b)
{
    uint32_t count = harness_rank_set_count(&b->culprits);
    uint64_t before = b->op.seq != 0 ? b->op.seq : UINT64_MAX;

    DDP_ASSERT(b->verdict != HARNESS_VERDICT_NONE);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_steered(paths, harness_rank_set_at(&b->culprits, i), from, before)) {
            return false;
        }
    }
    return count > 0;
}

uint64_t harness_path_first_seq(const struct harness_paths *paths, int32_t step)
{
    DDP_ASSERT(step >= 0);
    for (size_t i = 0; i < paths->program->op_count; i++) {
        if (paths->program->ops[i].step == step) {
            return paths->program->ops[i].seq;
        }
    }
    return 0;
}

/* The planned operation of a step with this role and, for a bucket, this number. */
static uint64_t planned_seq(const struct harness_paths *paths, int32_t step,
                            enum ddp_coll_role role, int64_t index)
{
    DDP_ASSERT(step >= 0 && index >= -1);
    for (size_t i = 0; i < paths->program->op_count; i++) {
        const struct harness_op *op = &paths->program->ops[i];

        if (op->step == step && op->role == role && (index < 0 || op->index == index)) {
            return op->seq;
        }
    }
    return 0;
}

uint64_t harness_path_map_seq(const struct harness_paths *paths, int32_t step)
{
    return planned_seq(paths, step, DDP_ROLE_USED_MAP, -1);
}

bool harness_path_is_not_received(const struct harness_paths *paths,
                                  const struct harness_finding *a, const struct harness_finding *b)
{
    bool is_sync = a->op.role == DDP_ROLE_PARAM_SYNC || a->op.role == DDP_ROLE_BUFFER_SYNC;

    (void)paths;
    return is_sync && harness_path_is_of(b, a) && harness_path_is_in_time(a, b);
}

uint64_t harness_path_seq(const struct harness_paths *paths, const struct harness_finding *b)
{
    int64_t bucket;

    if (b->op.seq != 0) {
        return b->op.seq;
    }
    bucket = harness_path_bucket(paths, b);
    if (b->step < 0) {
        return 0;
    }
    return bucket >= 0 ? planned_seq(paths, b->step, DDP_ROLE_BUCKET, bucket)
                       : planned_seq(paths, b->step, DDP_ROLE_BUFFER_SYNC, -1);
}

/* --- tensors ---------------------------------------------------------------------------------- */

int64_t harness_path_bucket(const struct harness_paths *paths, const struct harness_finding *b)
{
    uint32_t bucket;

    if (b->op.bucket >= 0) {
        return b->op.bucket;
    }
    bucket = b->params.count > 0 ? harness_program_bucket_of(paths->program, b->step,
                                                             harness_list_at(&b->params, 0))
                                 : UINT32_MAX;
    return bucket != UINT32_MAX ? (int64_t)bucket : -1;
}

bool harness_path_is_same_tensor(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b)
{
    bool is_bucket = a->op.bucket >= 0 || b->op.bucket >= 0;

    DDP_ASSERT(a != b);
    for (uint32_t i = 0; i < b->params.count; i++) {
        if (harness_list_has(&a->params, harness_list_at(&b->params, i))) {
            return true;
        }
    }
    return is_bucket && harness_path_bucket(paths, a) >= 0 &&
           harness_path_bucket(paths, a) == harness_path_bucket(paths, b);
}

bool harness_path_is_same_shape(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    int64_t bucket = harness_path_bucket(paths, b);

    if (!a->op.is_set) {
        return false;
    }
    if (b->op.is_set) {
        return a->op.kind == b->op.kind && a->op.elem_count == b->op.elem_count;
    }
    return a->op.kind == DDP_COLL_ALL_REDUCE && bucket >= 0 &&
           harness_program_bucket(paths->program, b->step, (uint64_t)bucket)->elem_count ==
               a->op.elem_count;
}

static bool is_finished(const struct harness_paths *paths, uint32_t rank, uint32_t step)
{
    size_t count = 0;

    if (!is_known(paths, rank)) {
        return true;
    }
    (void)harness_index_in_step(&paths->index, rank, DDP_EVENT_GRAD_FINAL, step, &count);
    return count > 0;
}

bool harness_path_is_unfinished(const struct harness_paths *paths, const struct harness_finding *a,
                                const struct harness_finding *b)
{
    for (uint32_t i = 0; b->step >= 0 && i < harness_rank_set_count(&b->culprits); i++) {
        uint32_t rank = harness_rank_set_at(&b->culprits, i);

        if (harness_rank_set_has(&a->culprits, rank) &&
            !is_finished(paths, rank, (uint32_t)b->step)) {
            return true;
        }
    }
    return false;
}

bool harness_path_is_unreduced(const struct harness_paths *paths, const struct harness_finding *b)
{
    bool is_so = b->step >= 0;

    DDP_ASSERT(b->verdict != HARNESS_VERDICT_NONE);
    for (uint32_t i = 0; is_so && i < harness_rank_set_count(&b->culprits); i++) {
        uint32_t rank = harness_rank_set_at(&b->culprits, i);
        size_t count = 0;

        if (is_known(paths, rank)) {
            (void)harness_index_in_step(&paths->index, rank, DDP_EVENT_LOSS, (uint32_t)b->step,
                                        &count);
        }
        is_so = count > 0 && !is_finished(paths, rank, (uint32_t)b->step);
    }
    return is_so;
}

bool harness_path_is_step_left_out(const struct harness_paths *paths,
                                   const struct harness_finding *a, const struct harness_finding *b)
{
    uint32_t rank_count = harness_rank_set_count(&b->culprits);

    for (uint32_t i = 0; a->step >= 0 && i < rank_count; i++) {
        uint32_t rank = harness_rank_set_at(&b->culprits, i);
        size_t count = 0;

        if (!harness_rank_set_has(&a->culprits, rank) || !is_known(paths, rank)) {
            return false;
        }
        (void)harness_index_in_step(&paths->index, rank, DDP_EVENT_LOSS, (uint32_t)a->step, &count);
        if (count > 0) {
            return false;
        }
    }
    return a->step >= 0 && rank_count > 0;
}

/* The last step in which the rank took a batch, or said that its data had ended; -1: none. */
static int64_t last_step(const struct harness_paths *paths, uint32_t rank, bool is_training)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&paths->index, rank, DDP_EVENT_DATA_BATCH, &count);
    int64_t last = count > 0 ? (int64_t)list[count - 1]->entry.step : -1;
    const struct harness_trace_event *ended =
        is_training ? NULL : harness_taken_ended(&paths->index, rank);

    return ended != NULL ? (int64_t)ended->entry.step : last;
}

bool harness_path_is_ahead(const struct harness_paths *paths, const struct harness_finding *a,
                           bool is_training)
{
    uint32_t rank_count = harness_rank_set_count(&a->culprits);

    for (uint32_t i = 0; a->step >= 0 && i < rank_count; i++) {
        uint32_t rank = harness_rank_set_at(&a->culprits, i);
        size_t count = 0;

        if (!is_known(paths, rank)) {
            return false;
        }
        (void)harness_index_in_step(&paths->index, rank, DDP_EVENT_DATA_BATCH, (uint32_t)a->step,
                                    &count);
        if (count > 0 || last_step(paths, rank, is_training) <= a->step) {
            return false;
        }
    }
    return a->step >= 0 && rank_count > 0;
}
