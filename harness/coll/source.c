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

static ddp_status emit_builtin(struct harness_coll_source *source,
                               const struct harness_coll_case *test, uint32_t rank,
                               struct ddp_text *out, struct ddp_err *err)
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
    struct ddp_schedule schedule;
    ddp_status status;

    ddp_schedule_init(&schedule, out->mem, algorithm->name, &params);
    status = harness_coll_guarded_emit(algorithm, &schedule, EMIT_CPU_MS, err);
    if (status != DDP_OK) {
        source->is_crashed = true;
        return status;
    }
    status = schedule.status;
    if (status == DDP_OK) {
        ddp_schedule_print(&schedule, out);
    } else {
        (void)ddp_err_set(err, status, "%s cannot be emitted: %s", algorithm->name,
                          ddp_status_name(status));
    }
    ddp_schedule_fini(&schedule);
    return status == DDP_OK && out->is_failed ? DDP_E_NOMEM : status;
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

static const struct harness_coll_source_ops builtin_ops = {emit_builtin, destroy_builtin};

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

ddp_status harness_coll_emit(struct harness_coll_source *source,
                             const struct harness_coll_case *test,
                             struct harness_schedules *schedules, uint32_t *out_rank,
                             struct ddp_err *err)
{
    struct harness_schedule parsed;
    struct ddp_text text;
    ddp_status status = DDP_OK;

    DDP_ASSERT(test->world >= 1 && test->world <= HARNESS_COLL_WORLD_MAX);
    for (uint32_t rank = 0; status == DDP_OK && rank < test->world; rank++) {
        *out_rank = rank;
        ddp_text_init(&text, schedules->mem);
        status = source->ops->emit(source, test, rank, &text, err);
        if (status == DDP_OK) {
            status = harness_schedule_parse(schedules->mem, ddp_text_str(&text), &parsed, err);
        }
        if (status == DDP_OK) {
            status = harness_schedules_add(schedules, &parsed, err);
        }
        ddp_text_fini(&text);
    }
    DDP_ASSERT(status != DDP_OK || schedules->set_count == 1);
    return status == DDP_OK ? harness_schedules_order(schedules) : status;
}
