/* Purpose: what a sum is that is not the expected one: one that lacks a rank, or has one twice.
 * Idea: the order of summing is run again with one rank left out, or counted twice, and must give
 * the very bits seen. Of many ranks that is many runs of a whole bucket, nearly all of them in
 * vain: a few elements are added first, each once for all that may have happened, and only what
 * fits them is run. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/emulation/describing.h"
#include "harness/sums/arith.h"

/* Inputs of a sum that is run again, and its outputs: [2 * world] tensors of the bucket's type. */
struct rerun {
    struct harness_emulation *e;
    const struct harness_layout_item *item;
    char *block;
    void **pointers;
    float *sum;
    const float **inputs; /* [world] as fp32 */
    bool *is_possible;    /* [2 * world]: rank r is left out, and behind them, it is there twice */
};

static ddp_status open_rerun(struct rerun *rerun, struct harness_emulation *e, size_t b)
{
    struct ddp_mem *mem = e->mem;
    uint32_t world = e->world;

    *rerun = (struct rerun){.e = e, .item = &e->buckets.items[b]};
    rerun->block = ddp_mem_array(mem, 2 * (size_t)world, rerun->item->size_bytes);
    rerun->pointers = ddp_mem_array(mem, 2 * (size_t)world, sizeof(*rerun->pointers));
    rerun->sum = ddp_mem_array(mem, rerun->item->elem_count, sizeof(float));
    rerun->inputs = ddp_mem_array(mem, world, sizeof(*rerun->inputs));
    rerun->is_possible = ddp_mem_array(mem, 2 * (size_t)world, sizeof(*rerun->is_possible));
    if (rerun->block == NULL || rerun->pointers == NULL || rerun->sum == NULL ||
        rerun->inputs == NULL || rerun->is_possible == NULL) {
        return DDP_E_NOMEM;
    }
    memset(rerun->is_possible, true, 2 * (size_t)world);
    for (uint32_t r = 0; r < 2 * world; r++) {
        rerun->pointers[r] = rerun->block + r * rerun->item->size_bytes;
    }
    for (uint32_t r = 0; r < world; r++) {
        struct harness_tensor input = harness_layout_at(&e->buckets, e->now.bucket_in, r, b);
        float *decoded = NULL;

        DDP_TRY(harness_describing_decode(e, &input, &decoded));
        rerun->inputs[r] = decoded;
    }
    return DDP_OK;
}

static void close_rerun(struct rerun *rerun)
{
    struct ddp_mem *mem = rerun->e->mem;

    for (uint32_t r = 0; rerun->inputs != NULL && r < rerun->e->world; r++) {
        ddp_mem_free(mem, (void *)(uintptr_t)rerun->inputs[r]);
    }
    ddp_mem_free(mem, rerun->is_possible);
    ddp_mem_free(mem, rerun->inputs);
    ddp_mem_free(mem, rerun->sum);
    ddp_mem_free(mem, rerun->pointers);
    ddp_mem_free(mem, rerun->block);
}

/* --- a sample --------------------------------------------------------------------------------- */

enum { SAMPLE_COUNT = 16 };

/* Values of one element, a column for each of what may have happened. */
struct columns {
    const struct rerun *rerun;
    struct harness_sum_order order;
    uint32_t count; /* 2 * world, as is_possible */
    char *block;
    void **rows; /* [world + 1]: the ranks' values, and the sums; in the bucket's type */
    float *row;  /* of one rank, or of the sum */
};

static ddp_status open_columns(struct columns *columns, const struct rerun *rerun)
{
    struct ddp_mem *mem = rerun->e->mem;
    uint32_t world = rerun->e->world;
    size_t row_bytes = 2 * (size_t)world * ddp_dtype_size_bytes(rerun->item->dtype);

    *columns = (struct columns){.rerun = rerun, .count = 2 * world};
    columns->block = ddp_mem_array(mem, (size_t)world + 1, row_bytes);
    columns->rows = ddp_mem_array(mem, (size_t)world + 1, sizeof(*columns->rows));
    columns->row = ddp_mem_array(mem, columns->count, sizeof(float));
    if (columns->block == NULL || columns->rows == NULL || columns->row == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r <= world; r++) {
        columns->rows[r] = columns->block + r * row_bytes;
    }
    return harness_sum_order_open(rerun->e, rerun->item->dtype, rerun->item->elem_count,
                                  &columns->order);
}

static void close_columns(struct columns *columns)
{
    struct ddp_mem *mem = columns->rerun->e->mem;

    harness_sum_order_close(&columns->order);
    ddp_mem_free(mem, columns->row);
    ddp_mem_free(mem, columns->rows);
    ddp_mem_free(mem, columns->block);
}

/* The sums of one element, into `row`. */
static ddp_status add_columns(const struct columns *columns, uint32_t seen_by, size_t elem)
{
    const struct rerun *rerun = columns->rerun;
    uint32_t world = rerun->e->world;
    enum ddp_dtype dtype = rerun->item->dtype;

    for (uint32_t r = 0; r < world; r++) {
        for (uint32_t c = 0; c < columns->count; c++) {
            columns->row[c] = rerun->inputs[r][elem];
        }
        columns->row[r] *= 0.0f;
        columns->row[world + r] *= 2.0f;
        DDP_TRY(harness_arith_scale(columns->rows[r], dtype, columns->row, DDP_DTYPE_F32,
                                    columns->count, 1.0f));
    }
    DDP_TRY(harness_sum_order_apply(&columns->order, seen_by, elem, columns->rows, columns->count,
                                    columns->rows[world]));
    return harness_arith_scale(columns->row, DDP_DTYPE_F32, columns->rows[world], dtype,
                               columns->count, 1.0f);
}

/* Rule out what does not give what was seen of one element. */
static ddp_status rule_out(const struct columns *columns, uint32_t seen_by, size_t elem, float got,
                           bool *out_is_any_left)
{
    *out_is_any_left = true;
    DDP_TRY(add_columns(columns, seen_by, elem));
    *out_is_any_left = false;
    for (uint32_t c = 0; c < columns->count; c++) {
        bool *is_possible = &columns->rerun->is_possible[c];

        *is_possible =
            *is_possible && harness_residual_bits(columns->row[c]) == harness_residual_bits(got);
        *out_is_any_left = *out_is_any_left || *is_possible;
    }
    return DDP_OK;
}

/* Which NaN a sum is depends on more than its tree. */
static bool is_telling(const struct harness_describing *view, size_t elem)
{
    return harness_residual_bits(view->got[elem]) != harness_residual_bits(view->expected[elem]) &&
           !isnan(view->got[elem]);
}

/* Elements that tell, all over the bucket, until nothing is left. */
static ddp_status try_sample(const struct harness_describing *view, const struct columns *columns,
                             uint32_t seen_by)
{
    size_t telling_count = 0;
    size_t number = 0;
    size_t stride;
    bool is_any_left = true;

    for (size_t i = 0; i < view->elem_count; i++) {
        telling_count += is_telling(view, i);
    }
    stride = 1 + telling_count / SAMPLE_COUNT;
    for (size_t i = 0; is_any_left && i < view->elem_count; i++) {
        if (is_telling(view, i) && number++ % stride == 0) {
            DDP_TRY(rule_out(columns, seen_by, i, view->got[i], &is_any_left));
        }
    }
    return DDP_OK;
}

static ddp_status rule_out_by_sample(const struct harness_describing *view,
                                     const struct rerun *rerun, uint32_t seen_by)
{
    struct columns columns;
    ddp_status status = open_columns(&columns, rerun);

    if (status == DDP_OK) {
        status = try_sample(view, &columns, seen_by);
    }
    close_columns(&columns);
    /* What cannot be tried is not ruled out: it is run. */
    return status == DDP_E_NOMEM ? status : DDP_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Run the sum with one rank's input times factor, as `seen_by` then has it. */
static bool run_again(const struct rerun *rerun, uint32_t rank, float factor, uint32_t seen_by)
{
    const struct harness_layout_item *item = rerun->item;
    uint32_t world = rerun->e->world;

    for (uint32_t r = 0; r < world; r++) {
        if (harness_arith_scale(rerun->pointers[r], item->dtype, rerun->inputs[r], DDP_DTYPE_F32,
                                item->elem_count, r == rank ? factor : 1.0f) != DDP_OK) {
            return false;
        }
    }
    return harness_emulation_sum(rerun->e, item->dtype, item->elem_count, rerun->pointers,
                                 rerun->pointers + world, NULL, 0) == DDP_OK &&
           harness_arith_scale(rerun->sum, DDP_DTYPE_F32, rerun->pointers[world + seen_by],
                               item->dtype, item->elem_count, 1.0f) == DDP_OK;
}

/* Where the sum that was seen is not the expected one, it is this one; the first and the last such
 * element. */
static bool is_where_different(const struct harness_describing *view, const float *sum,
                               size_t *out_first, size_t *out_last)
{
    bool is_any = false;

    for (size_t i = 0; i < view->elem_count; i++) {
        uint32_t got = harness_residual_bits(view->got[i]);

        if (got == harness_residual_bits(view->expected[i])) {
            continue;
        }
        if (got != harness_residual_bits(sum[i])) {
            return false;
        }
        *out_first = is_any ? *out_first : i;
        *out_last = i;
        is_any = true;
    }
    return is_any;
}

static void name_sum(struct harness_describing *view, enum harness_share share, uint32_t rank,
                     size_t first, size_t last)
{
    static const char *const words[] = {[HARNESS_SHARE_NOTHING] = "not at all",
                                        [HARNESS_SHARE_ALL] = "alone",
                                        [HARNESS_SHARE_TWICE] = "twice"};
    struct harness_description *out = view->out;
    char where[96] = "";

    if (last - first + 1 < view->elem_count) {
        (void)snprintf(where, sizeof(where), ", in elements %zu to %zu of the bucket", first, last);
    }
    out->verdict = out->residual.verdict = share == HARNESS_SHARE_TWICE
                                               ? HARNESS_VERDICT_VALUE_DUPLICATED
                                               : HARNESS_VERDICT_VALUE_LOST;
    out->share = share;
    out->share_rank = rank;
    out->residual.bit = -1;
    (void)snprintf((char *)(uintptr_t)out->text, HARNESS_DESCRIBING_TEXT_BYTES,
                   "the sum holds the contribution of rank %u %s%s", rank, words[share], where);
}

static bool is_reordered(struct harness_describing *view, const struct rerun *rerun)
{
    if (!harness_residual_is_reordered(rerun->inputs, view->e->world, view->expected, view->got,
                                       view->elem_count)) {
        return false;
    }
    view->out->verdict = HARNESS_VERDICT_VALUE_REORDERED;
    (void)snprintf((char *)(uintptr_t)view->out->text, HARNESS_DESCRIBING_TEXT_BYTES,
                   "the sum holds every contribution, added in another order than was "
                   "declared or measured");
    return true;
}

static bool is_run_so(const struct harness_describing *view, const struct rerun *rerun,
                      enum harness_share share, uint32_t rank, uint32_t seen_by, size_t *out_first,
                      size_t *out_last)
{
    bool is_twice = share == HARNESS_SHARE_TWICE;

    if (share == HARNESS_SHARE_ALL) {
        return is_where_different(view, rerun->inputs[rank], out_first, out_last);
    }
    return rerun->is_possible[is_twice ? rerun->e->world + rank : rank] &&
           run_again(rerun, rank, is_twice ? 2.0f : 0.0f, seen_by) &&
           is_where_different(view, rerun->sum, out_first, out_last);
}

/* Another order; or, where the sum is not the expected one, a rank that was left out or counted
 * twice, or all but one left out. What is within rounding everywhere lacks nobody. */
static ddp_status explain_sum(struct harness_describing *view, const struct rerun *rerun,
                              uint32_t seen_by)
{
    static const enum harness_share shares[] = {HARNESS_SHARE_NOTHING, HARNESS_SHARE_ALL,
                                                HARNESS_SHARE_TWICE};
    size_t first = 0;
    size_t last = 0;

    if (is_reordered(view, rerun)) {
        return DDP_OK;
    }
    DDP_TRY(rule_out_by_sample(view, rerun, seen_by));
    for (size_t k = 0; k < sizeof(shares) / sizeof(shares[0]); k++) {
        for (uint32_t r = 0; r < view->e->world; r++) {
            if (is_run_so(view, rerun, shares[k], r, seen_by, &first, &last)) {
                name_sum(view, shares[k], r, first, last);
                return DDP_OK;
            }
        }
    }
    return DDP_OK;
}

ddp_status harness_describing_explain_sum(struct harness_describing *view, uint32_t rank, size_t b)
{
    struct rerun rerun;
    ddp_status status = open_rerun(&rerun, view->e, b);

    if (status == DDP_OK) {
        status = explain_sum(view, &rerun, rank);
    }
    close_rerun(&rerun);
    return status;
}
