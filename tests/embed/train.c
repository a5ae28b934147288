/* Somebody else's trainer: y = w.x + b fitted by hand-written gradients, its replicas kept equal by
 * ddpcore. Uses only installed headers; torchrun's variables say who and where it is. Prints the
 * first and the last loss and a hash of the parameters. Every rank draws its own data, so the
 * hashes agree only if gradients are really averaged. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/prng.h"
#include "ddpcore/ddp/ddp.h"
#include "ddpcore/transport/shm.h"

enum { FEATURES = 8, BATCH = 16, STEPS = 120 };
#define TIMEOUT_NS    (20 * DDP_NS_PER_S)
#define LEARNING_RATE 0.05f

static const char *lookup(void *context, const char *name)
{
    (void)context;
    return getenv(name);
}

/* One batch forward and backward: the mean squared error; gradients into params[0] (w), [1] (b). */
static float train_batch(struct ddp_param *params, const float *x, const float *y)
{
    const float *w = params[0].data, *b = params[1].data;
    float *w_grad = params[0].grad, *b_grad = params[1].grad;
    float loss = 0;

    for (int k = 0; k < FEATURES; k++) {
        w_grad[k] = 0;
    }
    *b_grad = 0;
    for (int i = 0; i < BATCH; i++) {
        float error = *b - y[i];

        for (int k = 0; k < FEATURES; k++) {
            error += w[k] * x[i * FEATURES + k];
        }
        loss += error * error / BATCH;
        for (int k = 0; k < FEATURES; k++) {
            w_grad[k] += 2 * error * x[i * FEATURES + k] / BATCH;
        }
        *b_grad += 2 * error / BATCH;
    }
    return loss;
}

static ddp_status train_step(struct ddp *ddp, struct ddp_param *params, const float *x,
                             const float *y, float *out_loss)
{
    DDP_TRY(ddp_forward_begin(ddp));
    DDP_TRY(ddp_backward_begin(ddp, NULL));
    *out_loss = train_batch(params, x, y);
    DDP_TRY(ddp_grad_ready(ddp, 1));
    DDP_TRY(ddp_grad_ready(ddp, 0));
    DDP_TRY(ddp_backward_end(ddp));
    for (int p = 0; p < 2; p++) {
        float *data = params[p].data;
        const float *grad = params[p].grad;

        for (size_t k = 0; k < params[p].elem_count; k++) {
            data[k] -= LEARNING_RATE * grad[k];
        }
    }
    return DDP_OK;
}

static ddp_status train(struct ddp_env *env, struct ddp_group *group, struct ddp_device *device,
                        struct ddp_err *err)
{
    float w[FEATURES], w_grad[FEATURES] = {0}, b = 0, b_grad = 0, x[BATCH * FEATURES], y[BATCH];
    struct ddp_param params[2] = {
        {.name = "w", .data = w, .grad = w_grad, .elem_count = FEATURES, .ndim = 1},
        {.name = "b", .data = &b, .grad = &b_grad, .elem_count = 1, .ndim = 1}};
    const struct ddp_model model = {.params = params, .param_count = 2};
    const struct ddp_config config = {.bucket_cap_bytes = 16};
    struct ddp_prng prng = ddp_prng_make(env->rank + 1, "embed");
    float first = 0, last = 0;
    struct ddp *ddp = NULL;
    ddp_status status;

    params[0].shape[0] = FEATURES;
    params[1].shape[0] = 1;
    for (int k = 0; k < FEATURES; k++) {
        w[k] = (float)env->rank; /* ddp_create gives all ranks those of rank 0 */
    }
    status = ddp_create(group, device, &model, &config, &ddp, err);
    for (int step = 0; step < STEPS && status == DDP_OK; step++) {
        for (int i = 0; i < BATCH; i++) {
            y[i] = 0.5f;
            for (int k = 0; k < FEATURES; k++) {
                x[i * FEATURES + k] = ddp_prng_uniform(&prng) * 2 - 1;
                y[i] += (float)(k + 1) * 0.25f * x[i * FEATURES + k];
            }
        }
        status = train_step(ddp, params, x, y, &last);
        first = step == 0 ? last : first;
    }
    if (status == DDP_OK) {
        printf("first %.6f last %.6f hash %016" PRIx64 "\n", (double)first, (double)last,
               ddp_hash_combine(ddp_hash_bytes(w, sizeof w, 0), ddp_hash_bytes(&b, sizeof b, 0)));
    }
    ddp_destroy(ddp);
    return status;
}

int main(void)
{
    struct ddp_err err = {{0}};
    struct ddp_rendezvous where;
    struct ddp_idle_process idle;
    struct ddp_env env;
    struct ddp_shm_config shm = {.group_name = "world"};
    struct ddp_coll_schedule_config schedule = {
        .comm = 1, .algorithm = DDP_ALGORITHM_RING, .is_checked = true};
    struct ddp_store *store = NULL;
    struct ddp_transport *transport = NULL;
    struct ddp_device *device = NULL;
    struct ddp_coll *coll = NULL;
    struct ddp_group group;
    uint64_t deadline_ns;
    ddp_status status = ddp_rendezvous_parse(lookup, NULL, &where, &err);

    if (status != DDP_OK) {
        fprintf(stderr, "train: %s\n", err.text);
        return 1;
    }
    ddp_env_init_process(&env, &idle, where.rank, where.world_size);
    deadline_ns = ddp_clock_deadline_ns(env.clock, TIMEOUT_NS);
    shm.member = where.rank;
    shm.member_count = where.world_size;
    status = ddp_rendezvous_store(&env, &where, deadline_ns, &store, &err);
    if (status == DDP_OK) {
        status = ddp_shm_create(&env, store, &shm, deadline_ns, &transport, &err);
    }
    if (status == DDP_OK) {
        status = ddp_device_cpu_create(env.mem, &device);
    }
    if (status == DDP_OK) {
        status = ddp_coll_schedule_create(&env, transport, device, &schedule, &coll, &err);
    }
    if (status == DDP_OK) {
        ddp_group_init(&group, &env, coll, DDP_SEMANTICS_STRICT, TIMEOUT_NS);
        status = train(&env, &group, device, &err);
        if (status == DDP_OK) {
            status = ddp_group_barrier(&group);
        }
        ddp_group_fini(&group);
    }
    if (status != DDP_OK) {
        fprintf(stderr, "train: rank %" PRIu32 ": %s: %s\n", env.rank, ddp_status_name(status),
                err.text);
    }
    if (device != NULL) {
        device->ops->destroy(device);
    }
    if (store != NULL) {
        store->ops->destroy(store);
    }
    return status == DDP_OK ? 0 : 1;
}
