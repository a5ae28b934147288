/* Purpose: the schedules of the built-in algorithms as the judge reads them: as text. */
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/schedule.h"
#include "harness/coll/coll.h"
#include "harness/coll/guarded.h"

enum { EMIT_CPU_MS = 10000 }; /* the longest schedule takes a few */

struct builtin {
    struct harness_coll_source base;
    const struct ddp_algorithm *algorithm;
};

/* *out: what it emits, to be released with ddp_schedule_fini after OK. */
static ddp_status ask_builtin(struct harness_coll_source *source,
                              const struct harness_coll_case *test, uint32_t rank,
                              struct ddp_mem *mem, struct ddp_schedule *out, struct ddp_err *err)
{
    const struct ddp_algorithm *algorithm = ((struct builtin *)source)->algorithm;
    const struct ddp_schedule_params params = {.kind = algorithm->kind,
                                               .dtype = test->dtype,
                                               .rank = rank,
                                               .size = test->world,
                                               .elem_count = test->elem_count,
                                               .root = test->root,
                                               .segment_elem_count = test->segment_elem_count,
                                               .node_of_rank = test->node_of_rank,
                                               .is_in_place =
                                                   harness_coll_is_in_place(source, test, rank)};
    ddp_status status;

    ddp_schedule_init(out, mem, algorithm->name, &params);
    status = harness_coll_guarded_emit(algorithm, out, EMIT_CPU_MS, err);
    if (status != DDP_OK) {
        source->is_crashed = true;
        return status;
    }
    if (out->status != DDP_OK) {
        status = ddp_err_set(err, out->status, "%s cannot be emitted: %s", algorithm->name,
                             ddp_status_name(out->status));
        ddp_schedule_fini(out);
    }
    return status;
}

static ddp_status emit_builtin(struct harness_coll_source *source,
                               const struct harness_coll_case *test, uint32_t rank,
                               struct ddp_text *out, struct ddp_err *err)
{
    struct ddp_schedule schedule;

    DDP_TRY(ask_builtin(source, test, rank, out->mem, &schedule, err));
    ddp_schedule_print(&schedule, out);
    ddp_schedule_fini(&schedule);
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}

_Static_assert((int)DDP_STEP_SEND == (int)HARNESS_STEP_SEND &&
                   (int)DDP_STEP_RECV == (int)HARNESS_STEP_RECV &&
                   (int)DDP_STEP_RECV_REDUCE == (int)HARNESS_STEP_RECV_REDUCE &&
                   (int)DDP_STEP_REDUCE == (int)HARNESS_STEP_REDUCE &&
                   (int)DDP_STEP_COPY == (int)HARNESS_STEP_COPY &&
                   (int)DDP_STEP_CONVERT == (int)HARNESS_STEP_CONVERT &&
                   (int)DDP_STEP_KIND_COUNT == (int)HARNESS_STEP_KIND_COUNT,
               "steps have the same numbers");

static struct harness_span span_of(const struct ddp_range *range)
{
    return (struct harness_span){range->buffer == DDP_BUFFER_INPUT    ? 0
                                 : range->buffer == DDP_BUFFER_OUTPUT ? 1
                                                                      : range->scratch + 2,
                                 range->first, range->elem_count};
}

static ddp_status add_steps(const struct ddp_schedule *schedule, struct harness_schedule *out,
                            struct ddp_err *err)
{
    for (size_t s = 0; s < schedule->step_count; s++) {
        const struct ddp_step *step = &schedule->steps[s];
        bool is_sent = step->kind == DDP_STEP_SEND;
        bool is_taken = step->kind == DDP_STEP_RECV || step->kind == DDP_STEP_RECV_REDUCE;
        struct harness_schedule_step made = {.kind = (enum harness_step_kind)step->kind,
                                             .round = step->round,
                                             .peer = is_sent || is_taken ? step->peer : UINT32_MAX,
                                             .dep_count = step->dep_count};

        if (!is_taken) {
            made.src = span_of(&step->src);
        }
        if (!is_sent) {
            made.dst = span_of(&step->dst);
        }
        _Static_assert(sizeof made.dep == sizeof step->dep, "steps wait for as many others");
        memcpy(made.dep, step->dep, sizeof made.dep);
        DDP_TRY(harness_schedule_add_step(out, &made, err));
    }
    return DDP_OK;
}

static ddp_status make_builtin(struct harness_coll_source *source,
                               const struct harness_coll_case *test, uint32_t rank,
                               struct ddp_mem *mem, struct harness_schedule *out,
                               struct ddp_err *err)
{
    size_t elem_count[2 + DDP_SCHEDULE_SCRATCH_MAX] = {0};
    enum ddp_dtype dtype[2 + DDP_SCHEDULE_SCRATCH_MAX] = {0};
    struct ddp_schedule schedule;
    struct harness_schedule head;
    ddp_status status;

    DDP_TRY(ask_builtin(source, test, rank, mem, &schedule, err));
    head = (struct harness_schedule){.kind = schedule.params.kind,
                                     .rank = schedule.params.rank,
                                     .size = schedule.params.size,
                                     .root = schedule.params.root,
                                     .elem_count = schedule.params.elem_count,
                                     .dtype = schedule.params.dtype,
                                     .is_in_place = schedule.params.is_in_place != 0,
                                     .buffer_count = 2 + (size_t)schedule.scratch_count,
                                     .buffer_elem_count = elem_count,
                                     .buffer_dtype = dtype};
    memcpy(head.algorithm, schedule.algorithm, sizeof head.algorithm);
    for (uint32_t i = 0; i < schedule.scratch_count; i++) {
        elem_count[2 + i] = schedule.scratch[i].elem_count;
        dtype[2 + i] = schedule.scratch[i].dtype;
    }
    status = harness_schedule_make(mem, &head, schedule.step_count, out, err);
    if (status == DDP_OK) {
        status = add_steps(&schedule, out, err);
        if (status != DDP_OK) {
            harness_schedule_fini(out);
        }
    }
    ddp_schedule_fini(&schedule);
    return status;
}

bool harness_coll_is_in_place(const struct harness_coll_source *source,
                              const struct harness_coll_case *test, uint32_t rank)
{
    return test->is_in_place && (source->kind != DDP_COLL_REDUCE || rank == test->root);
}

static void destroy_builtin(struct harness_coll_source *source)
{
    ddp_mem_free(ddp_mem_system(), source);
}

static const struct harness_coll_source_ops builtin_ops = {emit_builtin, destroy_builtin,
                                                           make_builtin};

/* What the built-in algorithms claim: the same bits on all ranks and rounds to follow, all of them;
 * and these the same order for every element. */
static unsigned claims_of(const struct ddp_algorithm *algorithm)
{
    static const enum ddp_algorithm_id one_order[] = {DDP_ALGORITHM_RECURSIVE_DOUBLING,
                                                      DDP_ALGORITHM_RABENSEIFNER,
                                                      DDP_ALGORITHM_LINEAR,
                                                      DDP_ALGORITHM_BINOMIAL_TREE,
                                                      DDP_ALGORITHM_ONE_SHOT,
                                                      DDP_ALGORITHM_TWO_SHOT,
                                                      DDP_ALGORITHM_HIERARCHICAL,
                                                      DDP_ALGORITHM_HALVING_REDUCE_SCATTER,
                                                      DDP_ALGORITHM_BINOMIAL_REDUCE,
                                                      DDP_ALGORITHM_TWO_SHOT_F32};
    unsigned claims = (unsigned)HARNESS_COLL_CLAIM_RANKS | (unsigned)HARNESS_COLL_CLAIM_ROUNDS;

    for (size_t i = 0; i < sizeof one_order / sizeof one_order[0]; i++) {
        claims |= algorithm->id == one_order[i] ? (unsigned)HARNESS_COLL_CLAIM_ORDER : 0;
    }
    return claims;
}

static const struct ddp_algorithm *find(const char *name, const char **out_nearest)
{
    const char *names[DDP_ALGORITHM_COUNT];
    size_t count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    for (size_t i = 0; i < count; i++) {
        names[i] = table[i].name;
        if (strcmp(name, table[i].name) == 0) {
            return &table[i];
        }
    }
    *out_nearest = ddp_text_nearest(name, names, count);
    return NULL;
}

ddp_status harness_coll_builtin_open(const char *name, struct harness_coll_source **out,
                                     struct ddp_err *err)
{
    const char *nearest = NULL;
    const struct ddp_algorithm *algorithm = find(name, &nearest);
    struct builtin *builtin;

    *out = NULL;
    if (algorithm == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "there is no algorithm \"%s\"; %s%s%s", name,
                           nearest != NULL ? "did you mean \""
                                           : "ddprove list collectives has them",
                           nearest != NULL ? nearest : "", nearest != NULL ? "\"?" : "");
    }
    builtin = ddp_mem_array(ddp_mem_system(), 1, sizeof(*builtin));
    if (builtin == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    }
    builtin->base = (struct harness_coll_source){.ops = &builtin_ops,
                                                 .name = algorithm->name,
                                                 .kind = algorithm->kind,
                                                 .claims = claims_of(algorithm)};
    builtin->algorithm = algorithm;
    *out = &builtin->base;
    return DDP_OK;
}

void harness_coll_source_close(struct harness_coll_source *source)
{
    if (source != NULL) {
        source->ops->destroy(source);
    }
}

static ddp_status read_schedule(struct harness_coll_source *source,
                                const struct harness_coll_case *test, uint32_t rank,
                                struct ddp_mem *mem, struct harness_schedule *out,
                                struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, mem);
    status = source->ops->emit(source, test, rank, &text, err);
    if (status == DDP_OK) {
        status = harness_schedule_parse(mem, ddp_text_str(&text), out, err);
    }
    ddp_text_fini(&text);
    return status;
}

/* Runs dump schedules as text, and the judge reads that; half of a proof's time would be that. In
 * small worlds both ways are gone, and must come to the same. */
static ddp_status take_schedule(struct harness_coll_source *source,
                                const struct harness_coll_case *test, uint32_t rank,
                                struct ddp_mem *mem, struct harness_schedule *out,
                                struct ddp_err *err)
{
    struct harness_schedule made;
    ddp_status status;

    if (source->ops->make == NULL) {
        return read_schedule(source, test, rank, mem, out, err);
    }
    if (test->world > HARNESS_COLL_READ_MAX) {
        return source->ops->make(source, test, rank, mem, out, err);
    }
    DDP_TRY(read_schedule(source, test, rank, mem, out, err));
    status = source->ops->make(source, test, rank, mem, &made, err);
    if (status == DDP_OK) {
        if (!harness_schedule_is_equal(out, &made)) {
            status = ddp_err_set(err, DDP_E_INVALID,
                                 "its schedule is printed otherwise than it was emitted");
        }
        harness_schedule_fini(&made);
    }
    if (status != DDP_OK) {
        harness_schedule_fini(out);
    }
    return status;
}

ddp_status harness_coll_emit(struct harness_coll_source *source,
                             const struct harness_coll_case *test,
                             struct harness_schedules *schedules, uint32_t *out_rank,
                             struct ddp_err *err)
{
    struct harness_schedule schedule;
    ddp_status status = DDP_OK;

    DDP_ASSERT(test->world >= 1 && test->world <= HARNESS_COLL_WORLD_MAX);
    for (uint32_t rank = 0; status == DDP_OK && rank < test->world; rank++) {
        *out_rank = rank;
        status = take_schedule(source, test, rank, schedules->mem, &schedule, err);
        if (status == DDP_OK) {
            status = harness_schedules_add(schedules, &schedule, err);
        }
    }
    DDP_ASSERT(status != DDP_OK || schedules->set_count == 1);
    return status == DDP_OK ? harness_schedules_order(schedules) : status;
}
