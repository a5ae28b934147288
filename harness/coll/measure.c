/* Purpose: what an algorithm costs in a world beside the least that is possible, and how wrong its
 * sums may be in each type.
 * Idea: costs are those of one case with many elements a rank; a type is asked for by itself, since
 * an algorithm may add in another one. The least: Chan, Heimlich, Purkayastha, van de Geijn,
 * "Collective communication: theory, practice, and experience", 2007, table 1. */
#include "harness/coll/measure.h"

#include <math.h>

#include "harness/sums/schedule_sums.h"

enum { BLOCK_ELEMS = 64 };

static ddp_status measure_sums(const struct harness_schedule_set *set, uint32_t *out_depth,
                               double *out_bound)
{
    struct harness_schedule_sums sums;
    ddp_status status = harness_schedule_sums_make(set, set->mem, &sums);

    for (uint32_t r = 0; status == DDP_OK && r < set->size; r++) {
        size_t elem_count = harness_schedule_output(set->member[r]).elem_count;

        for (size_t i = 0; i < elem_count; i++) {
            uint32_t depth = sums.nodes[harness_schedule_sums_at(&sums, r, i)].depth;

            *out_depth = depth > *out_depth ? depth : *out_depth;
        }
    }
    if (status == DDP_OK) {
        status = harness_schedule_sums_bound(&sums, out_bound);
    }
    harness_schedule_sums_fini(&sums, set);
    return status;
}

static void find_least(enum ddp_coll_kind kind, struct harness_coll_cost *out)
{
    double elems = (double)out->elem_count;
    double others = (out->world - 1) * elems / out->world;

    out->least_rounds = ceil(log2(out->world));
    out->least_additions = ddp_coll_kind_is_sum(kind) ? others : 0;
    switch (kind) {
    case DDP_COLL_ALL_REDUCE:
        out->least_transfers = 2 * others;
        break;
    case DDP_COLL_BROADCAST:
    case DDP_COLL_REDUCE:
        out->least_transfers = elems;
        break;
    default:
        out->least_transfers = others;
        break;
    }
}

/* One type of the world. *out_is_judged: nothing is wrong with it. */
static ddp_status measure_type(struct harness_coll_source *source,
                               const struct harness_coll_case *test, size_t type,
                               struct harness_coll_cost *out, bool *out_is_judged,
                               struct ddp_err *err)
{
    struct harness_schedules schedules;
    struct harness_findings findings;
    struct ddp_mem_pool *pool = NULL;
    uint32_t rank = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return status;
    }
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    status = harness_coll_emit(source, test, &schedules, &rank, err);
    if (status == DDP_OK) {
        status = harness_schedule_set_prove(&schedules.sets[0], &findings);
        status = findings.is_failed ? DDP_E_NOMEM : status;
    }
    *out_is_judged = status == DDP_OK && findings.count == 0 && schedules.sets[0].is_ordered;
    if (*out_is_judged && type == 0) {
        status = harness_coll_cost_of(&schedules.sets[0], ddp_mem_pool_mem(pool), out);
    }
    if (*out_is_judged && status == DDP_OK) {
        status = measure_sums(&schedules.sets[0], &out->depth, &out->bound[type]);
    }
    ddp_mem_pool_destroy(pool);
    return status == DDP_E_INVALID || status == DDP_E_PARSE ? DDP_OK : status;
}

ddp_status harness_coll_measure(struct harness_coll_source *source, uint32_t world,
                                struct harness_coll_cost *out, struct ddp_err *err)
{
    uint32_t in_blocks = ddp_coll_input_blocks(source->kind, world);
    uint32_t out_blocks = ddp_coll_output_blocks(source->kind, world, true);
    uint32_t blocks = in_blocks > out_blocks ? in_blocks : out_blocks;
    struct harness_coll_case test = {.world = world,
                                     .elem_count = BLOCK_ELEMS * (size_t)(world / blocks)};
    size_t type_count = ddp_coll_kind_is_sum(source->kind) ? (size_t)HARNESS_COLL_TYPES : 1;
    bool is_judged = true;

    DDP_ASSERT(world > 0 && blocks > 0 && world % blocks == 0);
    *out = (struct harness_coll_cost){0};
    for (size_t type = 0; is_judged && type < type_count; type++) {
        test.dtype = harness_coll_type(type);
        DDP_TRY(measure_type(source, &test, type, out, &is_judged, err));
    }
    out->elem_count *= blocks;
    out->world = is_judged ? world : 0;
    if (is_judged) {
        find_least(source->kind, out);
    }
    return DDP_OK;
}

ddp_status harness_coll_cost_at(struct harness_coll_source *source,
                                const struct harness_coll_case *test, struct harness_coll_cost *out,
                                struct ddp_err *err)
{
    struct harness_schedules schedules;
    struct ddp_mem_pool *pool = NULL;
    uint32_t rank = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "no memory");
    }
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    status = harness_coll_emit(source, test, &schedules, &rank, err);
    if (status == DDP_OK && !schedules.sets[0].is_ordered) {
        status = ddp_err_set(err, DDP_E_INVALID, "its ranks wait for each other");
    }
    if (status == DDP_OK) {
        status = harness_coll_cost_of(&schedules.sets[0], ddp_mem_pool_mem(pool), out);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}
