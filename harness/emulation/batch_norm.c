/* Purpose: statistics of BatchNorm over all ranks' batches, as torch.nn.SyncBatchNorm makes them.
 * Idea: each rank's model waits in the middle of its pass for the others' statistics. What went
 * into and came out of each exchange is compared with what the rank recorded, and replaced by it.
 *
 * The arithmetic is this file's own: with n_m rows on rank m, in fp64 and ascending m,
 *   N = sum n_m,  mean = (sum n_m mean_m) / N,
 *   variance = (sum n_m (v_m + (mean_m - mean)^2)) / N. */
#include "harness/emulation/batch_norm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"

enum { TEXT_BYTES = 320 };

/* One exchange: statistics forward (an all-gather), sums backward (an all-reduce). */
struct exchanged {
    const struct harness_batch_norm *norm;
    uint32_t layer;
    enum ddp_coll_kind kind;
    size_t columns;
};

bool harness_batch_norm_is_met(const struct harness_emulation *e, uint32_t step)
{
    for (uint32_t r = 0; e->input->plan->job.sync_batchnorm && r < e->world; r++) {
        if (!harness_emulation_is_active(e, r, step)) {
            return false;
        }
    }
    return true;
}

/* --- compared with what was recorded ---------------------------------------------------------- */

/* The rank's event of that exchange; NULL: none. */
static const struct harness_trace_event *find_event(const struct exchanged *at,
                                                    enum ddp_event event)
{
    const struct harness_batch_norm *norm = at->norm;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&norm->e->index, norm->rank, DDP_EVENT_COLL_POST, norm->step, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);

        if (op.role == DDP_ROLE_BATCH_NORM && op.kind == at->kind && op.index == at->layer &&
            list[i]->entry.micro == norm->micro) {
            return event == DDP_EVENT_COLL_POST
                       ? list[i]
                       : harness_index_with_seq(&norm->e->index, norm->rank, event,
                                                list[i]->entry.arg[0]);
        }
    }
    return NULL;
}

static uint64_t recorded_hash(const struct harness_trace_event *event, enum ddp_event kind)
{
    if (event == NULL ||
        (kind == DDP_EVENT_COLL_DONE && harness_index_status(event->entry.arg[3]) != DDP_OK)) {
        return 0;
    }
    return event->entry.arg[4];
}

/* What an element of an exchange's data is. */
static void name_element(const struct exchanged *at, size_t i, char *text, size_t size_bytes)
{
    static const char *const of_kind[2][2] = {{"the mean", "the variance"},
                                              {"the sum of dy", "the sum of dy * y"}};
    const bool is_sum = at->kind == DDP_COLL_ALL_REDUCE;
    const size_t stride = 2 * at->columns + (is_sum ? 0 : 1);
    const size_t place = i % stride;

    if (place == 2 * at->columns) {
        (void)snprintf(text, size_bytes, "the number of rows");
    } else {
        (void)snprintf(text, size_bytes, "%s of channel %zu", of_kind[is_sum][place / at->columns],
                       place % at->columns);
    }
}

static void describe(const struct exchanged *at, bool is_input, const float *expected,
                     const float *got, size_t elem_count, struct harness_description *out)
{
    char *text = ddp_mem_array(ddp_mem_pool_mem(at->norm->e->sets), TEXT_BYTES, 1);
    char name[64];
    size_t i = 0;

    while (i + 1 < elem_count &&
           harness_residual_bits(expected[i]) == harness_residual_bits(got[i])) {
        i++;
    }
    name_element(at, i, name, sizeof(name));
    out->verdict = isfinite(expected[i]) && !isfinite(got[i]) ? HARNESS_VERDICT_VALUE_NONFINITE
                                                              : HARNESS_VERDICT_VALUE_CORRUPTED;
    if (text != NULL) {
        (void)snprintf(text, TEXT_BYTES, "BatchNorm %u, what %s: %s is %.9g, not %.9g", at->layer,
                       is_input ? "went in" : "came out", name, (double)got[i],
                       (double)expected[i]);
    }
    out->text = text;
    out->residual.bit = -1;
}

/* data: as it should be; afterwards, as it was recorded. */
static void rebase(const struct exchanged *at, enum ddp_event kind, float *data, size_t elem_count)
{
    struct harness_emulation *e = at->norm->e;
    const struct harness_trace_event *event = find_event(at, kind);
    struct harness_deviation deviation = {
        .rank = at->norm->rank, .bucket = -1, .param = -1, .slot = -1};
    const bool was_known = e->are_statistics_known;
    const void *found;
    uint64_t salt;
    char name[48];

    (void)snprintf(name, sizeof(name), "%s/%u", ddp_coll_role_name(DDP_ROLE_BATCH_NORM), at->layer);
    salt = ddp_hash_text(name);
    deviation.got = recorded_hash(event, kind);
    deviation.expected = ddp_hash_tensor(data, elem_count * sizeof(*data), salt, NULL);
    if (!e->is_judging || deviation.got == 0 || deviation.got == deviation.expected) {
        return;
    }
    deviation.seq = event->entry.arg[0];
    deviation.is_result = kind == DDP_EVENT_COLL_DONE;
    deviation.what.residual.bit = -1;
    found = harness_kept_find(e->input->kept, deviation.got, elem_count * sizeof(*data), salt);
    if (found == NULL) {
        harness_hashes_add(&e->wanted, deviation.got);
        e->unknown_from = e->unknown_from < 0 ? (int64_t)at->norm->step : e->unknown_from;
        e->are_statistics_known = false;
    } else {
        describe(at, kind == DDP_EVENT_COLL_POST, data, found, elem_count, &deviation.what);
        memcpy(data, found, elem_count * sizeof(*data));
    }
    if (was_known && !at->norm->is_excused) {
        harness_compare_note(e, &deviation);
    }
}

/* --- forward ---------------------------------------------------------------------------------- */

static double rows_of(const float *all, uint32_t rank, size_t columns)
{
    return (double)all[(rank + 1) * (2 * columns + 1) - 1];
}

/* One column's mean and variance over all ranks' rows. */
static void merge(const float *all, uint32_t world, size_t column, size_t columns, double total,
                  float *out_mean, float *out_variance)
{
    const size_t stride = 2 * columns + 1;
    double mean = 0.0;
    double spread = 0.0;

    for (uint32_t r = 0; r < world; r++) {
        mean += rows_of(all, r, columns) * (double)all[r * stride + column];
    }
    mean = mean / total;
    for (uint32_t r = 0; r < world; r++) {
        const double gap = (double)all[r * stride + column] - mean;
        const double variance = (double)all[r * stride + columns + column];

        spread += rows_of(all, r, columns) * (variance + gap * gap);
    }
    *out_mean = (float)mean;
    *out_variance = (float)(spread / total);
}

static ddp_status hand_back(const struct exchanged *at, const struct ddp_moments *moments,
                            const float *all, float *merged, float eps, float *out_rows)
{
    const struct harness_emulation *e = at->norm->e;
    const size_t size_bytes = at->columns * sizeof(float);
    double total = 0.0;

    for (uint32_t r = 0; r < e->world; r++) {
        total += rows_of(all, r, at->columns);
    }
    for (size_t c = 0; c < at->columns; c++) {
        float *inverse = &merged[2 * at->columns + c];

        merge(all, e->world, c, at->columns, total, &merged[c], &merged[at->columns + c]);
        *inverse = 1.0F / sqrtf(merged[at->columns + c] + eps);
    }
    *out_rows = (float)total;
    DDP_TRY(harness_emulation_copy(e, moments->mean, merged, size_bytes));
    DDP_TRY(harness_emulation_copy(e, moments->variance, merged + at->columns, size_bytes));
    return harness_emulation_copy(e, moments->inverse, merged + 2 * at->columns, size_bytes);
}

static ddp_status exchange_moments(void *context, uint32_t layer, const struct ddp_moments *moments,
                                   size_t columns, float eps, float *inout_rows)
{
    const struct harness_batch_norm *norm = context;
    const struct harness_emulation *e = norm->e;
    const struct exchanged at = {norm, layer, DDP_COLL_ALL_GATHER, columns};
    const size_t elem_count = 2 * columns + 1;
    float *own = ddp_mem_array(e->mem, elem_count, sizeof(*own));
    float *all = ddp_mem_array(e->mem, e->world * elem_count, sizeof(*all));
    float *merged = ddp_mem_array(e->mem, 3 * columns, sizeof(*merged));
    ddp_status status = own == NULL || all == NULL || merged == NULL ? DDP_E_NOMEM : DDP_OK;

    if (status == DDP_OK) {
        status = harness_emulation_copy(e, own, moments->mean, columns * sizeof(*own));
    }
    if (status == DDP_OK) {
        status =
            harness_emulation_copy(e, own + columns, moments->variance, columns * sizeof(*own));
    }
    if (status == DDP_OK) {
        own[2 * columns] = *inout_rows;
        rebase(&at, DDP_EVENT_COLL_POST, own, elem_count);
        status = harness_task_gather(norm->task, "statistics", layer, own,
                                     elem_count * sizeof(*own), all);
    }
    if (status == DDP_OK) {
        rebase(&at, DDP_EVENT_COLL_DONE, all, e->world * elem_count);
        status = hand_back(&at, moments, all, merged, eps, inout_rows);
    }
    ddp_mem_free(e->mem, merged);
    ddp_mem_free(e->mem, all);
    ddp_mem_free(e->mem, own);
    return status;
}

/* --- backward --------------------------------------------------------------------------------- */

static ddp_status add_up(const struct harness_batch_norm *norm, uint32_t layer,
                         struct harness_tensor *own, void *sum)
{
    ddp_status status =
        harness_emulation_exchange_sum(norm->e, norm->task, "gradient sums", layer, own, sum);

    if (status == DDP_E_NOT_FOUND && norm->e->world == 1) {
        memcpy(sum, own->data, own->size_bytes);
        return DDP_OK;
    }
    return status;
}

static ddp_status exchange_sums(void *context, uint32_t layer, float *sums, size_t elem_count)
{
    const struct harness_batch_norm *norm = context;
    const struct harness_emulation *e = norm->e;
    const struct exchanged at = {norm, layer, DDP_COLL_ALL_REDUCE, elem_count / 2};
    struct harness_tensor own = {DDP_DTYPE_F32, elem_count, elem_count * sizeof(float), NULL};
    float *sum = ddp_mem_array(e->mem, elem_count, sizeof(*sum));
    ddp_status status;

    own.data = ddp_mem_array(e->mem, elem_count, sizeof(float));
    status = own.data == NULL || sum == NULL ? DDP_E_NOMEM : DDP_OK;
    if (status == DDP_OK) {
        status = harness_emulation_copy(e, own.data, sums, own.size_bytes);
    }
    if (status == DDP_OK) {
        rebase(&at, DDP_EVENT_COLL_POST, own.data, elem_count);
        status = add_up(norm, layer, &own, sum);
    }
    if (status == DDP_OK) {
        rebase(&at, DDP_EVENT_COLL_DONE, sum, elem_count);
        status = harness_emulation_copy(e, sums, sum, own.size_bytes);
    }
    ddp_mem_free(e->mem, sum);
    ddp_mem_free(e->mem, own.data);
    return status;
}

void harness_batch_norm_begin(struct harness_batch_norm *norm, struct harness_emulation *e,
                              struct harness_task *task, uint32_t rank, uint32_t step)
{
    *norm = (struct harness_batch_norm){
        .e = e,
        .task = task,
        .rank = rank,
        .step = step,
        .is_excused = harness_emulation_took(e, rank, step) == HARNESS_TOOK_UNKNOWN,
        .exchange = {norm, exchange_moments, exchange_sums},
    };
}
