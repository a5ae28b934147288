/* PowerSGD: a bucket's matrices travel as products of two thin ones.
 * Source: Vogels, Karimireddy, Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for
 * Distributed Optimization", NeurIPS 2019, algorithms 1 and 2, as PyTorch's powerSGD_hook has them.
 *
 * Of a gradient M (n x m, this rank's, plus what the passes before left out) and Q (m x r):
 *   P = M Q, summed over ranks, then made orthonormal;  Q = M^T P, averaged over ranks;
 *   the average is P Q^T, and M - P Q^T is kept for the next pass.
 * The P of all matrices are one collective, and so are their Q, and all that is not compressed. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/device/device.h"
#include "ddpcore/hook/powersgd_kept.h"

/* A parameter of a bucket. If it is not compressed, at counts elements of `rest`; else at_p and
 * at_q count those of P and Q. */
struct matrix {
    struct ddp_powersgd_part *part;
    size_t param; /* its number */
    size_t first; /* in the bucket */
    size_t at, at_p, at_q;
};

struct compressed {
    struct ddp_block block; /* what travels: rest, then P, then Q */
    size_t rest_count, p_count, q_count;
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
    struct ddp_powersgd_kept kept;    /* also while closed */
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

static void place(const struct ddp_powersgd_part *part, struct compressed *bucket,
                  struct matrix *out)
{
    out->at = bucket->rest_count;
    out->at_p = bucket->p_count;
    out->at_q = bucket->q_count;
    bucket->rest_count += part->rank == 0 ? part->elem_count : 0;
    bucket->p_count += part->n * part->rank;
    bucket->q_count += part->m * part->rank;
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
    if (bucket->matrices == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < from->param_count; i++) {
        struct matrix *matrix = &bucket->matrices[i];

        matrix->param = from->params[i];
        matrix->part = &self->kept.parts[matrix->param];
        matrix->first = from->offsets[i];
        place(matrix->part, bucket, matrix);
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

static ddp_status powersgd_open(struct ddp_hook *hook, const struct ddp_hook_site *site)
{
    struct powersgd_hook *self = self_of(hook);

    self->site = site;
    DDP_TRY(ddp_powersgd_kept_open(&self->kept, self->mem, &self->config, site->params,
                                   site->param_count, &self->iteration));
    self->buckets = ddp_mem_array(site->mem, site->bucket_count, sizeof(*self->buckets));
    if (self->buckets == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < site->bucket_count; i++) {
        DDP_TRY(open_bucket(self, &site->buckets[i], &self->buckets[i]));
    }
    return DDP_OK;
}

/* What is kept of parameters stays: other buckets may be opened for them. */
static void powersgd_close(struct ddp_hook *hook)
{
    struct powersgd_hook *self = self_of(hook);

    if (self->site == NULL) {
        return;
    }
    for (size_t i = 0; self->buckets != NULL && i < self->site->bucket_count; i++) {
        ddp_hook_free(self->site, &self->buckets[i].block);
        ddp_mem_free(self->site->mem, self->buckets[i].matrices);
    }
    ddp_mem_free(self->site->mem, self->buckets);
    self->buckets = NULL;
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
static void multiply(const struct ddp_powersgd_part *shape, const float *m, const float *q,
                     float *p)
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
static void multiply_back(const struct ddp_powersgd_part *shape, const float *m, const float *p,
                          float *q)
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
static void expand(const struct ddp_powersgd_part *shape, const float *p, const float *q,
                   float *out)
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

/* Between -1 and 1, the same on all ranks, and in whichever bucket the parameter is. */
static float draw(const struct powersgd_hook *self, size_t param, size_t elem)
{
    uint64_t hash = ddp_hash_combine(self->config.seed, self->pass_iteration);

    hash = ddp_hash_combine(ddp_hash_combine(hash, param), elem);
    return (float)(int32_t)(uint32_t)(hash >> 32) * 0x1p-31F;
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Columns of Q that are to be drawn: all of them, or those that are zero, at the start and where a
 * gradient had a lower rank, or not finite, behind a gradient that was not. */
static void draw_columns(const struct powersgd_hook *self, const struct matrix *matrix)
{
    const struct ddp_powersgd_part *part = matrix->part;

    for (size_t c = 0; c < part->rank; c++) {
        const float square = dot(part->q, part->m, part->rank, c, c);
        const bool is_kept = square > 0.0F && isfinite(square);
        const bool is_drawn = !self->config.is_warm_start || !is_kept;

        for (size_t j = 0; is_drawn && j < part->m; j++) {
            part->q[j * part->rank + c] = draw(self, matrix->param, j * part->rank + c);
        }
    }
}

/* What was left out is added, and the sum kept; Q is drawn, or is the last one (of this run or of a
 * checkpoint), made orthonormal. */
static void begin_matrix(const struct powersgd_hook *self, const struct compressed *bucket,
                         const struct matrix *matrix, float *gradient)
{
    struct ddp_powersgd_part *part = matrix->part;

    for (size_t i = 0; self->config.is_error_kept && i < part->elem_count; i++) {
        gradient[i] += part->error[i];
        part->error[i] = gradient[i];
    }
    if (part->rank == 0) {
        memcpy(rest_of(bucket) + matrix->at, gradient, part->elem_count * sizeof(float));
        return;
    }
    draw_columns(self, matrix);
    orthogonalize(part->q, part->m, part->rank);
    multiply(part, gradient, part->q, p_of(bucket) + matrix->at_p);
}

static void begin(const struct powersgd_hook *self, const struct ddp_grad_bucket *view,
                  const struct compressed *bucket)
{
    for (size_t i = 0; i < bucket->matrix_count; i++) {
        begin_matrix(self, bucket, &bucket->matrices[i],
                     (float *)view->data + bucket->matrices[i].first);
    }
}

static void turn(const struct ddp_grad_bucket *view, const struct compressed *bucket)
{
    for (size_t i = 0; i < bucket->matrix_count; i++) {
        const struct matrix *matrix = &bucket->matrices[i];
        const struct ddp_powersgd_part *part = matrix->part;

        orthogonalize(p_of(bucket) + matrix->at_p, part->n, part->rank);
        multiply_back(part, (const float *)view->data + matrix->first, p_of(bucket) + matrix->at_p,
                      q_of(bucket) + matrix->at_q);
    }
}

static void end_matrix(const struct powersgd_hook *self, const struct compressed *bucket,
                       const struct matrix *matrix, float *gradient)
{
    struct ddp_powersgd_part *part = matrix->part;

    if (part->rank == 0) {
        memcpy(gradient, rest_of(bucket) + matrix->at, part->elem_count * sizeof(float));
    } else {
        memcpy(part->q, q_of(bucket) + matrix->at_q, part->m * part->rank * sizeof(float));
        expand(part, p_of(bucket) + matrix->at_p, part->q, gradient);
    }
    for (size_t i = 0; self->config.is_error_kept && i < part->elem_count; i++) {
        const float left = part->error[i] - gradient[i];

        part->error[i] = isfinite(left) ? left : 0.0F; /* else no later pass would be finite */
    }
}

static void end(const struct powersgd_hook *self, const struct ddp_grad_bucket *view,
                const struct compressed *bucket)
{
    const float divisor = (float)view->divisor;

    for (size_t i = 0; i < bucket->rest_count; i++) {
        rest_of(bucket)[i] /= divisor;
    }
    for (size_t i = 0; i < bucket->q_count; i++) {
        q_of(bucket)[i] /= divisor;
    }
    for (size_t i = 0; i < bucket->matrix_count; i++) {
        end_matrix(self, bucket, &bucket->matrices[i],
                   (float *)view->data + bucket->matrices[i].first);
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

    *out_count = self->site == NULL ? 0 : self->kept.state_count;
    return self->kept.state;
}

/* Number 0 is the iteration, then errors and Qs take turns. Q comes of sums, and is everybody's. */
static bool powersgd_is_state_own(const struct ddp_hook *hook, size_t index)
{
    return ((const struct powersgd_hook *)hook)->config.is_error_kept && index % 2 == 1;
}

static void powersgd_destroy(struct ddp_hook *hook)
{
    struct powersgd_hook *self = self_of(hook);

    ddp_powersgd_kept_close(&self->kept);
    ddp_mem_free(self->mem, self);
}

static const struct ddp_hook_ops powersgd_ops = {
    .name = "powersgd",
    .needs = "gradients of f32 in the host's memory",
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
