/* Purpose: what a collective can be compared with: a copy of the input, which no collective beats,
 * and an all-reduce in which every rank reads the others' data where they lie.
 * Idea: each rank adds its own part of all inputs, in the order of ranks, and takes the other parts
 * from whoever has added them: the least that shared memory has to move. */
#include <string.h>

#include "harness/lab/engine.h"

enum { BLOCK_ELEMS = 2048 };

struct yardstick {
    struct harness_lab_engine base;
};

static size_t part_begin(size_t elem_count, uint32_t ranks, uint32_t rank)
{
    return elem_count / ranks * rank + (rank < elem_count % ranks ? rank : elem_count % ranks);
}

/* The work buffer of another rank that is called as this one's. */
static float *of_rank(struct harness_lab_shared *shared, uint32_t self, uint32_t rank,
                      const void *own)
{
    ptrdiff_t offset =
        (const char *)own - (const char *)harness_lab_area(shared, self, (enum harness_lab_area)0);

    return (float *)(void *)((char *)harness_lab_area(shared, rank, (enum harness_lab_area)0) +
                             offset);
}

static void add_part(struct harness_lab_shared *shared, uint32_t self,
                     const struct harness_lab_call *call, size_t begin, size_t end)
{
    float sum[BLOCK_ELEMS];
    float *output = call->output;

    for (size_t first = begin; first < end; first += BLOCK_ELEMS) {
        size_t count = end - first < BLOCK_ELEMS ? end - first : BLOCK_ELEMS;

        memcpy(sum, of_rank(shared, self, 0, call->input) + first, count * sizeof(*sum));
        for (uint32_t rank = 1; rank < shared->request.ranks; rank++) {
            const float *term = of_rank(shared, self, rank, call->input) + first;

            for (size_t i = 0; i < count; i++) {
                sum[i] += term[i];
            }
        }
        memcpy(output + first, sum, count * sizeof(*sum));
    }
}

static ddp_status zero_copy_run(struct harness_lab_engine *engine,
                                const struct harness_lab_call *call)
{
    struct harness_lab_shared *shared = engine->shared;
    uint32_t self = engine->env.rank;
    uint32_t ranks = shared->request.ranks;

    (void)harness_lab_gate(shared, engine->idle.may_spin);
    add_part(shared, self, call, part_begin(call->elem_count, ranks, self),
             part_begin(call->elem_count, ranks, self + 1));
    (void)harness_lab_gate(shared, engine->idle.may_spin);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        size_t begin = part_begin(call->elem_count, ranks, rank);
        size_t end = part_begin(call->elem_count, ranks, rank + 1);

        if (rank != self && end > begin) {
            memcpy((float *)call->output + begin, of_rank(shared, self, rank, call->output) + begin,
                   (end - begin) * sizeof(float));
        }
    }
    (void)harness_lab_gate(shared, engine->idle.may_spin);
    return DDP_OK;
}

static ddp_status copy_run(struct harness_lab_engine *engine, const struct harness_lab_call *call)
{
    const void *from = call->input;

    if (call->input == call->output) {
        from = harness_lab_area(engine->shared, engine->env.rank, HARNESS_LAB_WORK_INPUT);
    }
    memcpy(call->output, from, call->elem_count * sizeof(float));
    return DDP_OK;
}

static void *yardstick_alloc(struct harness_lab_engine *engine, enum harness_lab_area area,
                             size_t size_bytes)
{
    return size_bytes <= engine->shared->arena_bytes
               ? harness_lab_area(engine->shared, engine->env.rank, area)
               : NULL;
}

static void yardstick_close(struct harness_lab_engine *engine)
{
    ddp_mem_free(ddp_mem_system(), engine);
}

ddp_status harness_lab_yardstick_open(const struct harness_lab_engine *base,
                                      struct harness_lab_engine **out)
{
    static const struct harness_lab_engine_ops zero_copy = {yardstick_alloc, zero_copy_run,
                                                            yardstick_close, NULL};
    static const struct harness_lab_engine_ops copy = {yardstick_alloc, copy_run, yardstick_close,
                                                       NULL};
    struct yardstick *engine = ddp_mem_array(ddp_mem_system(), 1, sizeof(*engine));

    if (engine == NULL) {
        return ddp_err_set(base->err, DDP_E_NOMEM, "no memory");
    }
    engine->base = *base;
    engine->base.env.idle = &engine->base.idle.base;
    engine->base.ops = base->shared->request.engine == HARNESS_LAB_COPY ? &copy : &zero_copy;
    *out = &engine->base;
    return DDP_OK;
}
