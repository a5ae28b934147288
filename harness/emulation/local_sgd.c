/* Purpose: post-local SGD as it should be: each rank steps with its own gradient, and now and then
 * all go on from the averages of their parameters.
 * Idea: ranks that stepped apart are camps of their own. An average is a sum like a bucket's, of
 * parameters divided before it; it is compared parameter by parameter, before the models are. */
#include <string.h>

#include "harness/emulation/round.h"
#include "harness/sums/arith.h"

bool harness_emulation_is_local(const struct harness_emulation *e, uint32_t step)
{
    return harness_program_is_local(&e->input->plan->job, step);
}

bool harness_emulation_are_replicas_equal(const struct harness_emulation *e, uint32_t step)
{
    const struct harness_job *job = &e->input->plan->job;

    return !harness_program_is_local(job, step) || harness_program_is_averaged(job, step);
}

ddp_status harness_local_create(struct harness_emulation *e)
{
    struct harness_local *local = &e->local;
    const size_t cells = (size_t)e->world * e->params.count;

    if (e->input->plan->job.hook != HARNESS_HOOK_LOCAL_SGD) {
        return DDP_OK;
    }
    local->in = harness_emulation_alloc(e, e->world, e->params.size_bytes);
    local->out = harness_emulation_alloc(e, e->world, e->params.size_bytes);
    local->is_in_known = harness_emulation_alloc(e, cells, sizeof(bool));
    local->is_out_known = harness_emulation_alloc(e, cells, sizeof(bool));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status describe(struct harness_emulation *e, const struct harness_round *round,
                           uint32_t rank, const struct harness_tensor *expected, const void *got,
                           struct harness_description *out)
{
    (void)rank;
    return harness_describe_param(e, (size_t)round->param, expected, got, out);
}

static struct harness_round round_of(const struct harness_emulation *e, uint32_t step, size_t p)
{
    return (struct harness_round){.step = step,
                                  .role = DDP_ROLE_AVERAGE,
                                  .index = (uint32_t)p,
                                  .kind = DDP_COLL_ALL_REDUCE,
                                  .dtype = e->params.items[p].dtype,
                                  .elem_count = e->params.items[p].elem_count,
                                  .bucket = -1,
                                  .param = (int32_t)p,
                                  .describe = describe};
}

static ddp_status fill_rank(struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const struct harness_camp *camp = harness_emulation_camp(e, rank);

    for (size_t p = 0; p < e->params.count; p++) {
        const struct harness_round round = round_of(e, step, p);
        const struct harness_tensor own = harness_layout_at(&e->params, camp->state.param, 0, p);
        const struct harness_tensor target = harness_layout_at(&e->params, e->local.in, rank, p);
        bool *is_known = &e->local.is_in_known[rank * e->params.count + p];

        DDP_TRY(harness_arith_scale(target.data, target.dtype, own.data, own.dtype, own.elem_count,
                                    1.0f / (float)e->world));
        *is_known = camp->is_known[p];
        DDP_TRY(harness_round_rebase(e, &round, rank, DDP_EVENT_COLL_POST, &target, is_known));
    }
    return DDP_OK;
}

static ddp_status sum_param(struct harness_emulation *e, uint32_t step, size_t p, void **input)
{
    const struct harness_round round = round_of(e, step, p);
    const struct harness_layout_item *item = &e->params.items[p];
    void **output = input + e->world;
    bool is_known = true;
    ddp_status status;

    for (uint32_t r = 0; r < e->world; r++) {
        input[r] = harness_layout_at(&e->params, e->local.in, r, p).data;
        output[r] = harness_layout_at(&e->params, e->local.out, r, p).data;
        is_known = is_known && e->local.is_in_known[r * e->params.count + p];
    }
    status = harness_emulation_sum(e, item->dtype, item->elem_count, input, output, NULL, 0);
    if (status == DDP_E_NOT_FOUND && e->world == 1) {
        memcpy(output[0], input[0], item->size_bytes);
        status = DDP_OK;
    }
    for (uint32_t r = 0; status == DDP_OK && r < e->world; r++) {
        const struct harness_tensor out = harness_layout_at(&e->params, e->local.out, r, p);
        bool *is_out_known = &e->local.is_out_known[r * e->params.count + p];

        *is_out_known = is_known;
        status = harness_round_rebase(e, &round, r, DDP_EVENT_COLL_DONE, &out, is_out_known);
    }
    return status;
}

static bool is_average_like(const struct harness_emulation *e, uint32_t a, uint32_t b)
{
    const char *out = e->local.out;
    const bool *is_known = e->local.is_out_known;

    return memcmp(out + a * e->params.size_bytes, out + b * e->params.size_bytes,
                  e->params.size_bytes) == 0 &&
           memcmp(is_known + a * e->params.count, is_known + b * e->params.count,
                  e->params.count * sizeof(bool)) == 0;
}

/* Ranks of a camp stay together if they got the same. */
static ddp_status take_over(struct harness_emulation *e)
{
    bool is_new;

    e->parting++;
    for (uint32_t r = 0; r < e->world; r++) {
        const uint32_t first = harness_emulation_camp(e, r)->first;

        if (first != r && !is_average_like(e, first, r)) {
            DDP_TRY(harness_camp_part(e, r, is_average_like, &is_new));
        }
    }
    for (size_t c = 0; c < e->camp_count; c++) {
        struct harness_camp *camp = e->camps[c];

        if (camp->rank_count > 0) {
            memcpy(camp->state.param,
                   (const char *)e->local.out + camp->first * e->params.size_bytes,
                   e->params.size_bytes);
            memcpy(camp->is_known, e->local.is_out_known + camp->first * e->params.count,
                   e->params.count * sizeof(bool));
        }
    }
    return DDP_OK;
}

ddp_status harness_local_average(struct harness_emulation *e, uint32_t step)
{
    void **blocks;
    ddp_status status = DDP_OK;

    if (!harness_program_is_averaged(&e->input->plan->job, step)) {
        return DDP_OK;
    }
    blocks = ddp_mem_array(e->mem, 2 * (size_t)e->world, sizeof(*blocks));
    if (blocks == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; status == DDP_OK && r < e->world; r++) {
        status = fill_rank(e, r, step);
    }
    harness_compare_close(e, HARNESS_STAGE_INPUT, step);
    for (size_t p = 0; status == DDP_OK && p < e->params.count; p++) {
        status = sum_param(e, step, p, blocks);
    }
    harness_compare_close(e, HARNESS_STAGE_OUTPUT, step);
    ddp_mem_free(e->mem, blocks);
    return status == DDP_OK ? take_over(e) : status;
}
