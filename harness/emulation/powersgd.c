/* Purpose: the hook powersgd as it should be: the thin matrices that ranks send in place of a
 * bucket's gradients, what comes of them, and what each rank keeps for its next pass. Idea (Vogels,
 * Karimireddy, Jaggi, 2019): a gradient and what was left out before are a matrix M of n x m. Each
 * rank sends P = M Q with the Q of its last pass, columns made orthonormal; of the sum of all P,
 * made orthonormal, each makes Q = M^T P, which is averaged; P Q^T stands for the mean of all M,
 * and M - P Q^T is kept. What is not worth it travels whole. All in fp32, each sum from its first
 * addend on.
 *
 * Gram-Schmidt clears a column of those before it twice, and makes it zero if less than 1e-4 of it
 * is left. A column of Q that is zero, or not finite, is drawn anew, and what is left out is kept
 * only where it is finite: a gradient that overflows spoils one pass, not all that follow. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/lossy.h"

/* A parameter in its bucket; rank 0: it travels whole. Places count elements. */
struct thin {
    size_t param; /* its number */
    size_t rows, columns, rank;
    size_t in_bucket, in_rest, in_p, in_q;
};

enum part { PART_REST, PART_P, PART_Q, PART_COUNT };
static const char *const part_names[PART_COUNT] = {"what travels whole", "P", "Q"};

struct squeezed {
    struct harness_emulation *e;
    uint32_t step;
    size_t bucket;
    bool is_error_kept;
    struct thin *thin; /* [param_count] */
    uint32_t param_count;
    size_t count[PART_COUNT];
    struct harness_round round[PART_COUNT];
    float *in[PART_COUNT], *out[PART_COUNT]; /* [world][count] */
    bool *is_known;                          /* [world] gradient and state of the rank */
    bool *is_in, *is_out;                    /* [PART_COUNT][world] */
    void **sums;                             /* [2 * world] */
};

static float *own_of(const struct squeezed *s, float *const parts[PART_COUNT], enum part part,
                     uint32_t rank)
{
    return parts[part] + rank * s->count[part];
}

static float *gradient_of(const struct squeezed *s, uint32_t rank)
{
    return harness_layout_at(&s->e->buckets, s->e->now.bucket_in, rank, s->bucket).data;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

static float inner(const float *x, const float *y, size_t count, size_t stride)
{
    float sum = 0.0f;

    for (size_t i = 0; i < count; i++) {
        sum += x[i * stride] * y[i * stride];
    }
    return sum;
}

static void make_orthonormal(float *a, size_t rows, size_t columns)
{
    for (size_t c = 0; c < columns; c++) {
        const float whole = sqrtf(inner(a + c, a + c, rows, columns));
        float left;

        for (int turn = 0; turn < 2; turn++) {
            for (size_t k = 0; k < c; k++) {
                const float share = inner(a + k, a + c, rows, columns);

                for (size_t i = 0; i < rows; i++) {
                    a[i * columns + c] -= share * a[i * columns + k];
                }
            }
        }
        left = sqrtf(inner(a + c, a + c, rows, columns));
        for (size_t i = 0; i < rows; i++) {
            a[i * columns + c] = left <= 1e-4f * whole ? 0.0f : a[i * columns + c] / left;
        }
    }
}

/* out = M Q, or (is_turned) M^T P. */
static void multiply(const struct thin *thin, const float *m, const float *other, bool is_turned,
                     float *out)
{
    const size_t rows = is_turned ? thin->columns : thin->rows;
    const size_t addends = is_turned ? thin->rows : thin->columns;
    const size_t step = is_turned ? thin->columns : 1;

    for (size_t i = 0; i < rows; i++) {
        for (size_t c = 0; c < thin->rank; c++) {
            float sum = 0.0f;

            for (size_t k = 0; k < addends; k++) {
                sum +=
                    m[i * (is_turned ? 1 : thin->columns) + k * step] * other[k * thin->rank + c];
            }
            out[i * thin->rank + c] = sum;
        }
    }
}

/* What all ranks draw alike. */
static void draw_columns(const struct squeezed *s, const struct thin *thin, float *q)
{
    const struct harness_job *job = &s->e->input->plan->job;
    const uint64_t pass = ddp_hash_combine(job->seed, s->step);

    for (size_t c = 0; c < thin->rank; c++) {
        const int kind = fpclassify(inner(q + c, q + c, thin->columns, thin->rank));
        const bool is_of_use = kind == FP_NORMAL || kind == FP_SUBNORMAL;

        for (size_t i = 0; !(is_of_use && job->powersgd_warm_start) && i < thin->columns; i++) {
            const size_t place = i * thin->rank + c;
            const uint64_t drawn = ddp_hash_combine(ddp_hash_combine(pass, thin->param), place);

            q[place] = ldexpf((float)(int32_t)(uint32_t)(drawn >> 32), -31);
        }
    }
}

/* --- stages of a bucket ----------------------------------------------------------------------- */

static void fill_first(const struct squeezed *s, uint32_t rank)
{
    for (uint32_t p = 0; p < s->param_count; p++) {
        const struct thin *thin = &s->thin[p];
        float *m = gradient_of(s, rank) + thin->in_bucket;
        float *left = harness_powersgd_error(s->e, rank, thin->param);
        float *q = harness_powersgd_q(s->e, rank, thin->param);

        for (size_t i = 0; s->is_error_kept && i < thin->rows * thin->columns; i++) {
            m[i] += left[i];
            left[i] = m[i];
        }
        if (thin->rank == 0) {
            memcpy(own_of(s, s->in, PART_REST, rank) + thin->in_rest, m,
                   thin->rows * thin->columns * sizeof(*m));
            continue;
        }
        draw_columns(s, thin, q);
        make_orthonormal(q, thin->columns, thin->rank);
        multiply(thin, m, q, false, own_of(s, s->in, PART_P, rank) + thin->in_p);
    }
}

static void fill_q(const struct squeezed *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct thin *thin = &s->thin[i];
        float *p = own_of(s, s->out, PART_P, rank) + thin->in_p;

        if (thin->rank > 0) {
            make_orthonormal(p, thin->rows, thin->rank);
            multiply(thin, gradient_of(s, rank) + thin->in_bucket, p, true,
                     own_of(s, s->in, PART_Q, rank) + thin->in_q);
        }
    }
}

static void expand(const struct thin *thin, const float *p, const float *q, float *out)
{
    for (size_t i = 0; i < thin->rows * thin->columns; i++) {
        out[i] = inner(p + i / thin->columns * thin->rank, q + i % thin->columns * thin->rank,
                       thin->rank, 1);
    }
}

/* What the rank keeps of a parameter: Q, and what its average has left out. */
static void keep(const struct squeezed *s, const struct thin *thin, uint32_t rank, const float *q,
                 const float *average)
{
    float *left = harness_powersgd_error(s->e, rank, thin->param);

    memcpy(harness_powersgd_q(s->e, rank, thin->param), q + thin->in_q,
           thin->columns * thin->rank * sizeof(*q));
    for (size_t i = 0; s->is_error_kept && i < thin->rows * thin->columns; i++) {
        left[i] = isfinite(left[i] - average[i]) ? left[i] - average[i] : 0.0f;
    }
}

/* The averages, and what the rank keeps. */
static void finish(const struct squeezed *s, uint32_t rank)
{
    const float divisor = (float)s->e->now.divisor;
    float *bucket = harness_layout_at(&s->e->buckets, s->e->now.bucket_out, rank, s->bucket).data;
    float *rest = own_of(s, s->out, PART_REST, rank);
    float *q = own_of(s, s->out, PART_Q, rank);

    for (size_t i = 0; i < s->count[PART_REST]; i++) {
        rest[i] = rest[i] / divisor;
    }
    for (size_t i = 0; i < s->count[PART_Q]; i++) {
        q[i] = q[i] / divisor;
    }
    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct thin *thin = &s->thin[i];
        float *average = bucket + thin->in_bucket;

        if (thin->rank == 0) {
            memcpy(average, rest + thin->in_rest, thin->rows * thin->columns * sizeof(*average));
        } else {
            expand(thin, own_of(s, s->out, PART_P, rank) + thin->in_p, q + thin->in_q, average);
        }
        keep(s, thin, rank, q, average);
    }
}

static ddp_status send(const struct squeezed *s, enum part part)
{
    for (uint32_t r = 0; s->count[part] > 0 && r < s->e->world; r++) {
        const struct harness_tensor own = {DDP_DTYPE_F32, s->count[part],
                                           s->count[part] * sizeof(float),
                                           own_of(s, s->in, part, r)};
        bool *is_known = &s->is_in[part * s->e->world + r];

        *is_known =
            s->is_known[r] && (part != PART_Q || s->is_out[PART_P * (size_t)s->e->world + r]);
        DDP_TRY(
            harness_round_rebase(s->e, &s->round[part], r, DDP_EVENT_COLL_POST, &own, is_known));
    }
    return DDP_OK;
}

static ddp_status receive(const struct squeezed *s, enum part part)
{
    const uint32_t world = s->e->world;
    bool is_sent = true;
    ddp_status status;

    if (s->count[part] == 0) {
        memset(s->is_out + part * (size_t)world, true, world);
        return DDP_OK;
    }
    for (uint32_t r = 0; r < world; r++) {
        s->sums[r] = own_of(s, s->in, part, r);
        s->sums[world + r] = own_of(s, s->out, part, r);
        is_sent = is_sent && s->is_in[part * world + r];
    }
    status = harness_emulation_sum(s->e, DDP_DTYPE_F32, s->count[part], s->sums, s->sums + world,
                                   s->e->unknown_sum.why, sizeof(s->e->unknown_sum.why));
    if (status == DDP_E_NOT_FOUND && world == 1) {
        memcpy(s->sums[1], s->sums[0], s->count[part] * sizeof(float));
        status = DDP_OK;
    }
    if (status == DDP_E_NOT_FOUND && !s->e->unknown_sum.is_set) {
        s->e->unknown_sum.is_set = true;
        s->e->unknown_sum.step = s->step;
        s->e->unknown_sum.bucket = (uint32_t)s->bucket;
        s->e->unknown_sum.elem_count = s->count[part];
    }
    for (uint32_t r = 0; status == DDP_OK && r < world; r++) {
        const struct harness_tensor out = {DDP_DTYPE_F32, s->count[part],
                                           s->count[part] * sizeof(float), s->sums[world + r]};

        s->is_out[part * world + r] = is_sent;
        status = harness_round_rebase(s->e, &s->round[part], r, DDP_EVENT_COLL_DONE, &out,
                                      &s->is_out[part * world + r]);
    }
    return status;
}

/* What the rank put into the bucket was found wrong in this step: what it keeps of it may be as
 * wrong. */
static bool is_input_found(const struct squeezed *s, uint32_t rank)
{
    const struct harness_compare *compare = &s->e->compare;

    for (size_t i = compare->count; i-- > 0 && compare->items[i].step >= s->step;) {
        const struct harness_difference *item = &compare->items[i];

        if (item->stage == HARNESS_STAGE_INPUT && item->step == s->step &&
            item->first.bucket == (int32_t)s->bucket && harness_rank_set_has(&item->ranks, rank)) {
            return true;
        }
    }
    return false;
}

static bool has_param(const struct squeezed *s, const struct harness_list *params)
{
    for (uint32_t i = 0; i < s->param_count; i++) {
        if (harness_list_has(params, (uint32_t)s->thin[i].param)) {
            return true;
        }
    }
    return false;
}

/* And so may be what it keeps of averages that were found wrong in the step before, whichever
 * buckets they were in. */
static bool is_average_found(const struct squeezed *s, uint32_t rank)
{
    const struct harness_compare *compare = &s->e->compare;

    for (size_t i = compare->count; i-- > 0 && compare->items[i].step + 1 >= s->step;) {
        const struct harness_difference *item = &compare->items[i];

        if (item->stage == HARNESS_STAGE_FINAL && item->step + 1 == s->step &&
            harness_rank_set_has(&item->ranks, rank) && has_param(s, &item->params)) {
            return true;
        }
    }
    return false;
}

/* What the rank keeps of a parameter of the bucket is not known. */
static bool is_kept_unknown(const struct squeezed *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->param_count; i++) {
        if (s->e->powersgd.is_unknown[rank * s->e->params.count + s->thin[i].param]) {
            return true;
        }
    }
    return is_average_found(s, rank);
}

static ddp_status run(const struct squeezed *s)
{
    struct harness_emulation *e = s->e;
    const uint32_t world = e->world;

    for (uint32_t r = 0; r < world; r++) {
        s->is_known[r] = harness_lossy_is_known(e, r, s->bucket) && !is_kept_unknown(s, r);
        fill_first(s, r);
    }
    DDP_TRY(send(s, PART_REST));
    DDP_TRY(send(s, PART_P));
    harness_compare_close(e, HARNESS_STAGE_INPUT, s->step);
    DDP_TRY(receive(s, PART_REST));
    harness_compare_close(e, HARNESS_STAGE_OUTPUT, s->step);
    DDP_TRY(receive(s, PART_P));
    harness_compare_close(e, HARNESS_STAGE_OUTPUT, s->step);
    for (uint32_t r = 0; r < world; r++) {
        fill_q(s, r);
    }
    DDP_TRY(send(s, PART_Q));
    harness_compare_close(e, HARNESS_STAGE_INPUT, s->step);
    DDP_TRY(receive(s, PART_Q));
    harness_compare_close(e, HARNESS_STAGE_OUTPUT, s->step);
    for (uint32_t r = 0; r < world; r++) {
        const bool is_known = s->is_out[PART_REST * world + r] && s->is_out[PART_P * world + r] &&
                              s->is_out[PART_Q * world + r];

        finish(s, r);
        e->is_out_known[r * e->buckets.count + s->bucket] = is_known;
        for (uint32_t i = 0; i < s->param_count; i++) {
            e->powersgd.is_unknown[r * e->params.count + s->thin[i].param] =
                !is_known || !s->is_known[r] || is_input_found(s, r);
        }
    }
    return DDP_OK;
}

/* --- layout ----------------------------------------------------------------------------------- */

static void lay_out(struct squeezed *s)
{
    const struct harness_emulation *e = s->e;
    const struct harness_bucket *bucket = &e->assigned[s->bucket];

    for (uint32_t i = 0; i < s->param_count; i++) {
        const struct ddp_param *param = &e->input->params[bucket->params[i]];
        struct thin *thin = &s->thin[i];

        thin->param = bucket->params[i];
        thin->rank = harness_hook_matrix(&e->input->plan->job, param, &thin->rows, &thin->columns);
        thin->in_bucket = bucket->offsets[i];
        thin->in_rest = s->count[PART_REST];
        thin->in_p = s->count[PART_P];
        thin->in_q = s->count[PART_Q];
        s->count[PART_REST] += thin->rank == 0 ? param->elem_count : 0;
        s->count[PART_P] += thin->rows * thin->rank;
        s->count[PART_Q] += thin->columns * thin->rank;
    }
}

static void number_rounds(struct squeezed *s)
{
    uint32_t number = 0;

    for (enum part part = PART_REST; part < PART_COUNT; part++) {
        const struct harness_hook_round planned = {DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32,
                                                   s->count[part]};

        s->round[part] =
            harness_lossy_round(s->step, s->bucket, number, &planned, part_names[part]);
        number += s->count[part] > 0 ? 1 : 0;
    }
}

static ddp_status allocate(struct squeezed *s)
{
    const size_t world = s->e->world;
    bool is_failed = false;

    for (enum part part = PART_REST; part < PART_COUNT; part++) {
        s->in[part] = ddp_mem_array(s->e->mem, world * s->count[part] + 1, sizeof(float));
        s->out[part] = ddp_mem_array(s->e->mem, world * s->count[part] + 1, sizeof(float));
        is_failed = is_failed || s->in[part] == NULL || s->out[part] == NULL;
    }
    s->is_known = ddp_mem_array(s->e->mem, world, sizeof(bool));
    s->is_in = ddp_mem_array(s->e->mem, PART_COUNT * world, sizeof(bool));
    s->is_out = ddp_mem_array(s->e->mem, PART_COUNT * world, sizeof(bool));
    s->sums = ddp_mem_array(s->e->mem, 2 * world, sizeof(*s->sums));
    return is_failed || s->is_known == NULL || s->is_in == NULL || s->is_out == NULL ||
                   s->sums == NULL
               ? DDP_E_NOMEM
               : DDP_OK;
}

static void release(struct squeezed *s)
{
    for (enum part part = PART_REST; part < PART_COUNT; part++) {
        ddp_mem_free(s->e->mem, s->in[part]);
        ddp_mem_free(s->e->mem, s->out[part]);
    }
    ddp_mem_free(s->e->mem, s->is_known);
    ddp_mem_free(s->e->mem, s->is_in);
    ddp_mem_free(s->e->mem, s->is_out);
    ddp_mem_free(s->e->mem, s->sums);
    ddp_mem_free(s->e->mem, s->thin);
}

ddp_status harness_powersgd_bucket(struct harness_emulation *e, uint32_t step, size_t bucket)
{
    struct squeezed s = {.e = e,
                         .step = step,
                         .bucket = bucket,
                         .is_error_kept = e->input->plan->job.powersgd_error_feedback,
                         .param_count = e->assigned[bucket].param_count};
    ddp_status status = DDP_E_NOMEM;

    s.thin = ddp_mem_array(e->mem, s.param_count, sizeof(*s.thin));
    if (s.thin != NULL) {
        lay_out(&s);
        number_rounds(&s);
        status = allocate(&s);
    }
    if (status == DDP_OK) {
        status = run(&s);
    }
    release(&s);
    return status;
}
