/* PowerSGD: a bucket's matrices travel as products of two thin ones.
 * Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
 * Distributed Optimization", NeurIPS 2019, algorithms 1 and 2, as PyTorch's powerSGD_hook has them.
 *
 * Of a gradient M (n x m, this rank's, plus what the passes before left out) and Q (m x r):
 *   P = M Q, summed over ranks, then made orthonormal;  Q = M^T P, averaged over ranks;
 *   the average is P Q^T, and M - P Q^T is kept for the next pass.
 * The P of all matrices are one collective, and so are their Q, and all that is not compressed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/device/device.h"
#include "ddpcore/hook/hooks.h"

/* A parameter of a bucket. rank 0: it is not compressed, and at counts elements of `rest`; else
 * at_p and at_q count those of P and Q. */
struct matrix {
    size_t n, m, rank;
    size_t first; /* in the bucket */
    size_t at, at_p, at_q;
};

struct compressed {
    struct ddp_block block; /* what travels: rest, then P, then Q */
    size_t rest_count, p_count, q_count;
    float *error; /* [elem_count] what was left out so far */
    struct matrix *matrices;
    size_t matrix_count;
};

struct powersgd_hook {
    struct ddp_hook base;
    struct ddp_mem *mem;
    struct ddp_powersgd_config config;
    uint64_t iteration;      /* passes begun */
    uint64_t pass_iteration; /* of the present pass */

    const struct ddp_hook_site *site; /* while open */
    struct compressed *buckets;       /* [bucket_count] */
    struct ddp_param *state;          /* iteration, then error and Q of each bucket */
    char (*names)[40];
};

static struct powersgd_hook *self_of(struct ddp_hook *hook)
{
    return (struct powersgd_hook *)hook;
}

static uint64_t powersgd_identity(const struct ddp_hook *hook)
{
    const struct ddp_powersgd_config *config = &((const struct powersgd_hook *)hook)->config;
    uint64_t hash = ddp_hash_combine(ddp_hash_text(hook->ops->name), config->rank);

    hash = ddp_hash_combine(hash, config->start_iteration);
    hash = ddp_hash_combine(hash, (uint64_t)(config->min_compression_rate * 1024.0));
    hash = ddp_hash_combine(hash, config->is_error_kept);
    hash = ddp_hash_combine(hash, config->is_warm_start);
    return ddp_hash_combine(hash, config->seed) | 1;
}

/* --- layout ----------------------------------------------------------------------------------- */

static size_t smallest(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Compressed only if that saves enough: PyTorch's _should_compress. */
static void measure(const struct powersgd_hook *self, const struct ddp_param *param,
                    struct compressed *bucket, struct matrix *out)
{
    out->n = param->ndim > 0 ? param->shape[0] : 1;
    out->m = out->n > 0 ? param->elem_count / out->n : 0;
    out->rank = smallest(smallest(out->n, out->m), self->config.rank);
    if (!((double)(out->n + out->m) * (double)out->rank * self->config.min_compression_rate <
          (double)param->elem_count)) {
        out->rank = 0;
    }
    out->at = bucket->rest_count;
    out->at_p = bucket->p_count;
    out->at_q = bucket->q_count;
    bucket->rest_count += out->rank == 0 ? param->elem_count : 0;
    bucket->p_count += out->n * out->rank;
    bucket->q_count += out->m * out->rank;
}

static ddp_status open_bucket(struct powersgd_hook *self, const struct ddp_grad_bucket *from,
                              struct compressed *bucket)
{
    const struct ddp_hook_site *site = self->site;

    if (!site->device->ops->is_host_memory || from->dtype != DDP_DTYPE_F32) {
        return DDP_E_UNSUPPORTED;
    }
    bucket->matrix_count = from->param_count;
    bucket->matrices = ddp_mem_array(site->mem, from->param_count, sizeof(*bucket->matrices));
    bucket->error = ddp_mem_array(site->mem, from->elem_count, sizeof(float));
    if (bucket->matrices == NULL || bucket->error == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < from->param_count; i++) {
        bucket->matrices[i].first = from->offsets[i];
        measure(self, &site->params[from->params[i]], bucket, &bucket->matrices[i]);
    }
    return ddp_hook_alloc(site, from->index,
                          (bucket->rest_count + bucket->p_count + bucket->q_count) * sizeof(float),
                          &bucket->block);
}

static float *rest_of(const struct compressed *bucket)
{
    return bucket->block.data;
}

static float *p_of(const struct compressed *bucket)
{
    return rest_of(bucket) + bucket->rest_count;
}

static float *q_of(const struct compressed *bucket)
{
    return p_of(bucket) + bucket->p_count;
}

static void add_state(struct powersgd_hook *self, size_t place, const char *what, size_t bucket,
                      enum ddp_dtype dtype, void *data, size_t elem_count)
{
    (void)snprintf(self->names[place], sizeof(self->names[place]), "powersgd.%s.%zu", what, bucket);
    self->state[place] = (struct ddp_param){.name = self->names[place],
                                            .dtype = dtype,
                                            .data = data,
                                            .elem_count = elem_count,
                                            .ndim = 1,
                                            .shape = {elem_count}};
}

static ddp_status list_state(struct powersgd_hook *self)
{
    const size_t count = 1 + 2 * self->site->bucket_count;

    self->state = ddp_mem_array(self->site->mem, count, sizeof(*self->state));
    self->names = ddp_mem_array(self->site->mem, count, sizeof(*self->names));
    if (self->state == NULL || self->names == NULL) {
        return DDP_E_NOMEM;
    }
    add_state(self, 0, "iteration", 0, DDP_DTYPE_I64, &self->iteration, 1);
    for (size_t b = 0; b < self->site->bucket_count; b++) {
        struct compressed *bucket = &self->buckets[b];

        add_state(self, 1 + 2 * b, "error", b, DDP_DTYPE_F32, bucket->error,
                  self->site->buckets[b].elem_count);
        add_state(self, 2 + 2 * b, "q", b, DDP_DTYPE_F32, q_of(bucket), bucket->q_count);
    }
    return DDP_OK;
}

static ddp_status powersgd_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    struct powersgd_hook *self = self_of(hook);

    self->site = site;
    self->buckets = ddp_mem_array(site->mem, site->bucket_count, sizeof(*self->buckets));
    if (self->buckets == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < site->bucket_count; i++) {
        DDP_TRY(open_bucket(self, &site->buckets[i], &self->buckets[i]));
    }
    return list_state(self);
}

static void powersgd_close(struct ddp_hook *hook)
{
    struct powersgd_hook *self = self_of(hook);

    if (self->site == NULL) {
        return;
    }
    for (size_t i = 0; self->buckets != NULL && i < self->site->bucket_count; i++) {
        ddp_hook_free(self->site, &self->buckets[i].block);
        ddp_mem_free(self->site->mem, self->buckets[i].error);
        ddp_mem_free(self->site->mem, self->buckets[i].matrices);
    }
    ddp_mem_free(self->site->mem, self->buckets);
    ddp_mem_free(self->site->mem, self->state);
    ddp_mem_free(self->site->mem, self->names);
    self->buckets = NULL;
    self->state = NULL;
    self->names = NULL;
    self->site = NULL;
}

/* --- arithmetic: fp32, sums in rising order --------------------------------------------------- */

/* Column c of a (rows x columns) times column k. */
static float dot(const float *a, size_t rows, size_t columns, size_t c, size_t k)
{
    float sum = 0.0F;

    for (size_t i = 0; i < rows; i++) {
        sum += a[i * columns + c] * a[i * columns + k];
    }
    return sum;
}

/* A column of which less than this is left depends on those before it, as far as fp32 can tell. */
#define DEPENDENT 1e-4F

/* Gram-Schmidt on the columns, each cleared of those before it twice (Kahan: twice is enough). One
 * that depends on them, or is zero, becomes zero: what would be left of it is rounding. */
static void orthogonalize(float *a, size_t rows, size_t columns)
{
    for (size_t c = 0; c < columns; c++) {
        const float before = sqrtf(dot(a, rows, columns, c, c));
        float norm;

        for (size_t k = 0; k < 2 * c; k++) {
            const float part = dot(a, rows, columns, k % c, c);

            for (size_t i = 0; i < rows; i++) {
                a[i * columns + c] -= part * a[i * columns + k % c];
            }
        }
        norm = sqrtf(dot(a, rows, columns, c, c));
        for (size_t i = 0; i < rows; i++) {
            a[i * columns + c] = norm <= DEPENDENT * before ? 0.0F : a[i * columns + c] / norm;
        }
    }
}

/* p = m q */
static void multiply(const struct matrix *shape, const float *m, const float *q, float *p)
{
    for (size_t i = 0; i < shape->n; i++) {
        float *row = &p[i * shape->rank];

        memset(row, 0, shape->rank * sizeof(*row));
        for (size_t j = 0; j < shape->m; j++) {
            for (size_t c = 0; c < shape->rank; c++) {
                row[c] += m[i * shape->m + j] * q[j * shape->rank + c];
            }
        }
    }
}

/* q = m^T p */
static void multiply_back(const struct matrix *shape, const float *m, const float *p, float *q)
{
    memset(q, 0, shape->m * shape->rank * sizeof(*q));
    for (size_t i = 0; i < shape->n; i++) {
        for (size_t j = 0; j < shape->m; j++) {
            for (size_t c = 0; c < shape->rank; c++) {
                q[j * shape->rank + c] += m[i * shape->m + j] * p[i * shape->rank + c];
            }
        }
    }
}

/* out = p q^T */
static void expand(const struct matrix *shape, const float *p, const float *q, float *out)
{
    for (size_t i = 0; i < shape->n; i++) {
        for (size_t j = 0; j < shape->m; j++) {
            float sum = 0.0F;

            for (size_t c = 0; c < shape->rank; c++) {
                sum += p[i * shape->rank + c] * q[j * shape->rank + c];
            }
            out[i * shape->m + j] = sum;
        }
    }
}

/* Between -1 and 1, the same on all ranks. */
static float draw(const struct powersgd_hook *self, size_t bucket, size_t elem)
{
    uint64_t hash = ddp_hash_combine(self->config.seed, self->pass_iteration);

    hash = ddp_hash_combine(ddp_hash_combine(hash, bucket), elem);
    return (float)(int32_t)(uint32_t)(hash >> 32) * 0x1p-31F;
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Columns of Q that are to be drawn: all of them, or those that are zero, at the start and where a
 * gradient had a lower rank. */
static void draw_columns(const struct powersgd_hook *self, size_t bucket,
                         const struct matrix *matrix, float *q)
{
    for (size_t c = 0; c < matrix->rank; c++) {
        const float square = dot(q, matrix->m, matrix->rank, c, c);
        const bool is_drawn = !self->config.is_warm_start || (square >= 0.0F && square <= 0.0F);

        for (size_t j = 0; is_drawn && j < matrix->m; j++) {
            q[j * matrix->rank + c] = draw(self, bucket, matrix->at_q + j * matrix->rank + c);
        }
    }
}

/* What was left out is added, and the sum kept; Q is drawn, or is the last one (of this run or of a
 * checkpoint), made orthonormal. */
static void begin(struct powersgd_hook *self, const struct ddp_grad_bucket *view,
                  struct compressed *bucket)
{
    float *gradient = view->data;
    float *q = q_of(bucket);

    for (size_t i = 0; self->config.is_error_kept && i < view->elem_count; i++) {
        gradient[i] += bucket->error[i];
        bucket->error[i] = gradient[i];
    }
    for (size_t i = 0; i < bucket->matrix_count; i++) {
        const struct matrix *matrix = &bucket->matrices[i];
        float *from = gradient + matrix->first;

        if (matrix->rank == 0) {
            memcpy(rest_of(bucket) + matrix->at, from, matrix->n * matrix->m * sizeof(float));
        } else {
            draw_columns(self, view->index, matrix, q + matrix->at_q);
            orthogonalize(q + matrix->at_q, matrix->m, matrix->rank);
            multiply(matrix, from, q + matrix->at_q, p_of(bucket) + matrix->at_p);
        }
    }
}

static void turn(const struct ddp_grad_bucket *view, struct compressed *bucket)
{
    for (size_t i = 0; i < bucket->matrix_count; i++) {
        const struct matrix *matrix = &bucket->matrices[i];

        orthogonalize(p_of(bucket) + matrix->at_p, matrix->n, matrix->rank);
        multiply_back(matrix, (const float *)view->data + matrix->first,
                      p_of(bucket) + matrix->at_p, q_of(bucket) + matrix->at_q);
    }
}

static void end(struct powersgd_hook *self, const struct ddp_grad_bucket *view,
                struct compressed *bucket)
{
    const float divisor = (float)view->divisor;
    float *gradient = view->data;

    for (size_t i = 0; i < bucket->rest_count; i++) {
        rest_of(bucket)[i] /= divisor;
    }
    for (size_t i = 0; i < bucket->q_count; i++) {
        q_of(bucket)[i] /= divisor;
    }
    for (size_t i = 0; i < bucket->matrix_count; i++) {
        const struct matrix *matrix = &bucket->matrices[i];
        float *to = gradient + matrix->first;

        if (matrix->rank == 0) {
            memcpy(to, rest_of(bucket) + matrix->at, matrix->n * matrix->m * sizeof(float));
        } else {
            expand(matrix, p_of(bucket) + matrix->at_p, q_of(bucket) + matrix->at_q, to);
        }
    }
    for (size_t i = 0; self->config.is_error_kept && i < view->elem_count; i++) {
        bucket->error[i] -= gradient[i];
    }
}

/* Rest, P and Q, as far as there are any. */
static ddp_status compressed_round(struct powersgd_hook *self, const struct ddp_grad_bucket *view,
                                   uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    struct compressed *bucket = &self->buckets[view->index];
    const uint32_t first_p = bucket->rest_count > 0 ? 1 : 0;
    float *data = round < first_p    ? rest_of(bucket)
                  : round == first_p ? p_of(bucket)
                                     : q_of(bucket);

    if (round == 0) {
        begin(self, view, bucket);
    }
    if (round == first_p + 1 && bucket->p_count > 0) {
        turn(view, bucket);
    }
    *out_is_over = round == first_p + (bucket->p_count > 0 ? 2 : 0);
    if (*out_is_over) {
        end(self, view, bucket);
        return DDP_OK;
    }
    out->input = data;
    out->output = data;
    out->elem_count = round < first_p    ? bucket->rest_count
                      : round == first_p ? bucket->p_count
                                         : bucket->q_count;
    return DDP_OK;
}

static ddp_status powersgd_round(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket,
                                 uint32_t round, struct ddp_coll_args *out, bool *out_is_over)
{
    struct powersgd_hook *self = self_of(hook);
    struct ddp_device *device = self->site->device;

    if (round == 0 && bucket->index == 0) {
        self->pass_iteration = self->iteration++;
    }
    if (self->pass_iteration >= self->config.start_iteration) {
        return compressed_round(self, bucket, round, out, out_is_over);
    }
    *out_is_over = round > 0;
    return round > 0 || bucket->elem_count == 0
               ? DDP_OK
               : device->ops->scale(device, NULL, bucket->data, bucket->dtype, bucket->data,
                                    bucket->dtype, bucket->elem_count,
                                    1.0 / (double)bucket->divisor);
}

static const struct ddp_param *powersgd_state(struct ddp_hook *hook, size_t *out_count)
{
    struct powersgd_hook *self = self_of(hook);

    *out_count = self->site == NULL ? 0 : 1 + 2 * self->site->bucket_count;
    return self->state;
}

/* State: iteration, then an error and a Q of each bucket. Q comes of sums, and is everybody's. */
static bool powersgd_is_state_own(const struct ddp_hook *hook, size_t index)
{
    return ((const struct powersgd_hook *)hook)->config.is_error_kept && index % 2 == 1;
}

static void powersgd_destroy(struct ddp_hook *hook)
{
    ddp_mem_free(self_of(hook)->mem, hook);
}

static const struct ddp_hook_ops powersgd_ops = {
    .name = "powersgd",
    .identity = powersgd_identity,
    .open = powersgd_open,
    .close = powersgd_close,
    .round = powersgd_round,
    .state = powersgd_state,
    .is_state_own = powersgd_is_state_own,
    .destroy = powersgd_destroy,
};

void ddp_powersgd_defaults(struct ddp_powersgd_config *config)
{
    *config = (struct ddp_powersgd_config){.rank = 1,
                                           .start_iteration = 1000,
                                           .min_compression_rate = 2.0,
                                           .is_error_kept = true,
                                           .is_warm_start = true};
}

ddp_status ddp_hook_powersgd_create(struct ddp_mem *mem, const struct ddp_powersgd_config *config,
                                    struct ddp_hook **out)
{
    struct powersgd_hook *self;

    *out = NULL;
    if (config->rank == 0 || !(config->min_compression_rate >= 0) ||
        (config->start_iteration <= 1 && (config->is_error_kept || config->is_warm_start))) {
        return DDP_E_INVALID;
    }
    self = ddp_mem_array(mem, 1, sizeof(*self));
    if (self == NULL) {
        return DDP_E_NOMEM;
    }
    self->base.ops = &powersgd_ops;
    self->mem = mem;
    self->config = *config;
    *out = &self->base;
    return DDP_OK;
}
