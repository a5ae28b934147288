/* A training program that shows its model and its samples, beside its collectives: linear
 * regression on samples that all ranks share, with SGD or AdamW. What scenarios/guest runs where
 * these are judged; what goes wrong in it is asked for on the command line.
 *
 * Usage: model_trainer [STEPS [sgd|adamw [FAULT RANK STEP]]], with torchrun's variables; RANK -1:
 * all. */
#include <ddprove_guest.h>
#include <math.h>
#include <star.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 64, SAMPLES = 96, BATCH = 4 };

static int rank, world_size;

static int number(const char *text)
{
    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

/* What goes wrong, where and when. */
static const char *fault = "";
static int fault_rank, fault_step;
static int now; /* the step */

static bool is_wrong(const char *what, int step)
{
    return strcmp(fault, what) == 0 && (fault_rank < 0 || fault_rank == rank) && fault_step == step;
}

/* The sum of all ranks' values, in place. */
static void reduce(uint32_t comm, uint32_t bucket, const char *name, float *values, size_t count)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = comm,
                                      .kind = DDPROVE_GUEST_ALL_REDUCE,
                                      .dtype = DDPROVE_GUEST_F32,
                                      .redop = DDPROVE_GUEST_SUM,
                                      .elem_count = count,
                                      .bucket = bucket,
                                      .name = name,
                                      .in = values,
                                      .out = values};

    (void)ddprove_guest_call_begin(&call);
    if (count > 1 && is_wrong("lose", now)) { /* on the way into the sum */
        memset(values, 0, count * sizeof *values);
    }
    star_all_reduce(values, values, count);
    ddprove_guest_call_end(&call);
}

/* --- the model --- */

static float weight[FEATURES], bias[1], weight_gradient[FEATURES], bias_gradient[1];
static float weight_state[2][FEATURES], bias_state[2][1];
static struct ddprove_guest_optimizer sgd = {.size_bytes = sizeof sgd,
                                             .kind = DDPROVE_GUEST_SGD,
                                             .lr = 0.05,
                                             .weight_decay = 0.01,
                                             .momentum = 0.9,
                                             .is_nesterov = 1};
static struct ddprove_guest_optimizer adamw = {.size_bytes = sizeof adamw,
                                               .kind = DDPROVE_GUEST_ADAMW,
                                               .lr = 0.01,
                                               .weight_decay = 0.01,
                                               .beta1 = 0.9,
                                               .beta2 = 0.999,
                                               .eps = 1e-8};
static struct ddprove_guest_tensor tensors[] = {
    {.size_bytes = sizeof tensors[0],
     .dtype = DDPROVE_GUEST_F32,
     .elem_count = FEATURES,
     .name = "weight",
     .data = weight,
     .gradient = weight_gradient,
     .state = {weight_state[0], weight_state[1]}},
    {.size_bytes = sizeof tensors[0],
     .dtype = DDPROVE_GUEST_F32,
     .elem_count = 1,
     .name = "bias",
     .data = bias,
     .gradient = bias_gradient,
     .state = {bias_state[0], bias_state[1]}},
};

/* Of the mean squared error; the samples' values follow from their numbers. Returns the error. */
static float backward(const uint64_t *samples, uint64_t count)
{
    float loss = 0;

    memset(weight_gradient, 0, sizeof weight_gradient);
    bias_gradient[0] = 0;
    for (uint64_t s = 0; s < count; s++) {
        uint32_t seed = 17u * (uint32_t)samples[s] + 1;
        float error = bias[0] - 1;
        float x[FEATURES];

        for (int i = 0; i < FEATURES; i++) {
            seed = seed * 1664525u + 1013904223u;
            x[i] = (float)(seed >> 9) / (float)(1 << 22) - 1;
            error += (weight[i] - (float)i / FEATURES) * x[i];
        }
        for (int i = 0; i < FEATURES; i++) {
            weight_gradient[i] += 2 * error * x[i] / (float)count / (float)world_size;
        }
        bias_gradient[0] += 2 * error / (float)count / (float)world_size;
        loss += error * error / (float)count;
    }
    return loss;
}

static void update_sgd(float *param, const float *gradient, float *momentum, int count,
                       uint64_t step, double lr)
{
    for (int i = 0; i < count; i++) {
        const float decayed = gradient[i] + (float)sgd.weight_decay * param[i];

        momentum[i] = step == 0 ? decayed : (float)sgd.momentum * momentum[i] + decayed;
        param[i] -= (float)lr * (decayed + (float)sgd.momentum * momentum[i]);
    }
}

static void update_adamw(float *param, const float *gradient, float *first, float *second,
                         int count, uint64_t step, double lr)
{
    const double t = (double)step + 1;

    for (int i = 0; i < count; i++) {
        first[i] = (float)adamw.beta1 * first[i] + (float)(1 - adamw.beta1) * gradient[i];
        second[i] =
            (float)adamw.beta2 * second[i] + (float)(1 - adamw.beta2) * gradient[i] * gradient[i];
        param[i] = param[i] * (float)(1 - lr * adamw.weight_decay) -
                   (float)(lr / (1 - pow(adamw.beta1, t))) *
                       (first[i] / (sqrtf(second[i]) / (float)sqrt(1 - pow(adamw.beta2, t)) +
                                    (float)adamw.eps));
    }
}

static void update(bool is_adamw, uint64_t step, double factor)
{
    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++) {
        float *param = t == 0 ? weight : bias;
        const float *gradient = tensors[t].gradient;
        float *first = t == 0 ? weight_state[0] : bias_state[0];
        float *second = t == 0 ? weight_state[1] : bias_state[1];
        const int count = (int)tensors[t].elem_count;

        if (is_adamw) {
            update_adamw(param, gradient, first, second, count, step, factor * adamw.lr);
        } else {
            update_sgd(param, gradient, first, count, step, factor * sgd.lr);
        }
    }
}

/* --- the samples
 * ------------------------------------------------------------------------------------------------
 */

static uint64_t per_rank(void)
{
    return (uint64_t)((SAMPLES + world_size - 1) / world_size);
}

/* The batch that begins at the so many-th sample of a rank: every world_size-th one. */
static uint64_t take_batch(int of, uint64_t from, uint64_t *out)
{
    uint64_t count = 0;

    for (; count < BATCH && from + count < per_rank(); count++) {
        out[count] = ((from + count) * (uint64_t)world_size + (uint64_t)of) % SAMPLES;
    }
    return count;
}

static void begin_epoch(uint64_t epoch_number, bool is_strided)
{
    const struct ddprove_guest_epoch epoch = {
        .size_bytes = sizeof epoch,
        .sampler = is_strided ? DDPROVE_GUEST_STRIDED : DDPROVE_GUEST_ANY_SAMPLER,
        .number = epoch_number,
        .sample_count = SAMPLES,
        .padded = per_rank() * (uint64_t)world_size - SAMPLES};

    ddprove_guest_epoch(&epoch);
}

/* --- training
 * ---------------------------------------------------------------------------------------------------
 */

/* The program comes by a place where a fault may act. */
static int pass(enum ddprove_guest_point point, const struct ddprove_guest_tensor *tensor,
                float *data)
{
    struct ddprove_guest_place place = {.size_bytes = sizeof place,
                                        .point = point,
                                        .name = tensor != NULL ? tensor->name : NULL,
                                        .data = data,
                                        .elem_count = tensor != NULL ? tensor->elem_count : 0,
                                        .dtype = DDPROVE_GUEST_F32};

    return ddprove_guest_pass(&place);
}

/* The samples of a step; *from: where the rank is in its share. */
static uint64_t next_batch(int step, uint64_t *from, uint64_t *out)
{
    int times = pass(DDPROVE_GUEST_POINT_DATA_NEXT, NULL, NULL);
    uint64_t count;

    for (; times == 0; times = pass(DDPROVE_GUEST_POINT_DATA_NEXT, NULL, NULL)) {
        *from += BATCH; /* it is lost */
    }
    count = take_batch(is_wrong("shard", step) ? (rank + 1) % world_size : rank,
                       *from + (is_wrong("order", step) ? 1 : 0), out);

    if (is_wrong("repeat", step)) {
        out[0] = out[1];
    }
    *from += times > 1 ? 0 : BATCH; /* it comes again */
    return is_wrong("short", step) ? count - 1 : count;
}

/* Which gradients came; of the others no sum is made. */
static void tell_gradients(bool *is_ready)
{
    const char *unused[sizeof tensors / sizeof tensors[0]];
    uint32_t count = 0;

    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++) {
        is_ready[t] = pass(DDPROVE_GUEST_POINT_GRAD_READY, &tensors[t],
                           t == 0 ? weight_gradient : bias_gradient) > 0;
        if (!is_ready[t]) {
            unused[count++] = tensors[t].name;
        }
    }
    ddprove_guest_unused(0, unused, count, 0);
}

/* What rank 0 has to say at the end; who leaves it out ends well all the same. */
static void farewell(uint32_t world)
{
    float words[1] = {weight[1]};
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = world,
                                      .kind = DDPROVE_GUEST_BROADCAST,
                                      .dtype = DDPROVE_GUEST_F32,
                                      .elem_count = 1,
                                      .in = rank == 0 ? words : NULL,
                                      .out = words};

    if (fault_rank == rank) {
        return;
    }
    (void)ddprove_guest_call_begin(&call);
    star_broadcast(words, 1, 0);
    ddprove_guest_call_end(&call);
}

static void train_step(int step, uint32_t world, bool is_adamw, uint64_t *from)
{
    uint64_t samples[BATCH] = {0};
    const uint64_t count = next_batch(step, from, samples);
    bool is_ready[sizeof tensors / sizeof tensors[0]];
    float loss;

    now = step;
    weight[3] += is_wrong("rot", step) ? 0.001F : 0.0F;
    ddprove_guest_phase(DDPROVE_GUEST_PHASE_DATA);
    ddprove_guest_batch(samples, count);
    ddprove_guest_phase(DDPROVE_GUEST_PHASE_BACKWARD);
    loss = backward(samples, count);
    tell_gradients(is_ready);
    ddprove_guest_phase(DDPROVE_GUEST_PHASE_REDUCE);
    if (is_wrong("swap", step)) {
        reduce(world, 2, "weight", weight_gradient, FEATURES);
        reduce(world, 1, "bias", bias_gradient, 1);
    } else {
        if (is_ready[1]) {
            reduce(world, 1, "bias", bias_gradient, 1);
        }
        if (is_ready[0]) {
            reduce(world, 2, "weight", weight_gradient, FEATURES - is_wrong("count", step));
        }
    }
    ddprove_guest_phase(DDPROVE_GUEST_PHASE_OPTIMIZER);
    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++) {
        tensors[t].update_count = (uint64_t)step;
    }
    ddprove_guest_update_begin(tensors, sizeof tensors / sizeof tensors[0]);
    if (pass(DDPROVE_GUEST_POINT_OPTIMIZER_PRE, NULL, NULL) > 0 && !is_wrong("skip", step) &&
        !is_wrong("forget", step)) {
        update(is_adamw, (uint64_t)step, is_wrong("lr", step) ? 2 : 1);
    }
    weight_state[0][5] += is_wrong("state", step) ? 1.0F : 0.0F;
    weight[3] += is_wrong("poke", step) ? 0.001F : 0.0F;
    if (!is_wrong("forget", step)) {
        ddprove_guest_updated(tensors, sizeof tensors / sizeof tensors[0]);
    }
    for (int i = is_wrong("drop", step) ? 1 : 0; i < (is_wrong("extra", step) ? 2 : 1); i++) {
        reduce(world, 0, "loss", &loss, 1);
    }
}

/* As a wrapped model is saved, and loaded into it again. */
static void checkpoint(void)
{
    static const char *const named[][2] = {{"weight", "bias"},
                                           {"module.weight", "module.bias"},
                                           {"module.module.weight", "module.module.bias"}};
    struct ddprove_guest_place place = {.size_bytes = sizeof place,
                                        .point = DDPROVE_GUEST_POINT_CHECKPOINT_KEY};
    const char *const *keys = named[1];

    ddprove_guest_phase(DDPROVE_GUEST_PHASE_CHECKPOINT);
    if (ddprove_guest_pass(&place) == 0) {
        return;
    }
    keys = place.edit == DDPROVE_GUEST_ADD_PREFIX     ? named[2]
           : place.edit == DDPROVE_GUEST_STRIP_PREFIX ? named[0]
                                                      : keys;
    ddprove_guest_keys(DDPROVE_GUEST_SAVED, keys, 2, named[0], 2);
    ddprove_guest_keys(DDPROVE_GUEST_LOADED, keys, 2, named[1], 2);
}

int main(int argc, char **argv)
{
    const int steps = argc > 1 ? number(argv[1]) : 12;
    const bool is_adamw = argc > 2 && strcmp(argv[2], "adamw") == 0;
    uint64_t from = 0;
    uint64_t epoch = 0;
    uint32_t world;

    rank = number(getenv("RANK"));
    world_size = number(getenv("WORLD_SIZE"));
    if (argc > 5) {
        fault = argv[3];
        fault_rank = number(argv[4]);
        fault_step = number(argv[5]);
    }
    star_connect(rank, world_size, number(getenv("MASTER_PORT")));
    (void)ddprove_guest_attach(rank, world_size);
    world = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)world_size, "world");
    weight[0] = is_wrong("init", 0) ? 0.5F : 0.0F;
    tensors[1].name = is_wrong("model", 0) ? "offset" : "bias";
    for (uint32_t b = 0; b < 2; b++) {
        ddprove_guest_bucket(0, b, &tensors[1 - b].name, 1);
    }
    tensors[1].name = is_wrong("table", 0) ? "offset" : tensors[1].name;
    for (size_t t = 0; t < sizeof tensors / sizeof tensors[0]; t++) {
        tensors[t].optimizer = is_adamw ? &adamw : &sgd;
        tensors[t].state[1] = is_adamw ? tensors[t].state[1] : NULL;
    }
    begin_epoch(0, strcmp(fault, "repeat") != 0);
    for (int step = 0; step < steps; step++) {
        if (from >= per_rank() || is_wrong("leave", step)) {
            from = 0;
            begin_epoch(++epoch, strcmp(fault, "repeat") != 0);
        }
        ddprove_guest_step((uint64_t)step);
        train_step(step, world, is_adamw, &from);
    }
    if (from >= per_rank()) {
        ddprove_guest_epoch(NULL);
    }
    if (strcmp(fault, "unheard") == 0) {
        farewell(world);
    }
    if (rank == 0) {
        checkpoint();
    }
    ddprove_guest_detach();
    if (rank == 0) {
        (void)printf("weight %.6f bias %.6f\n", (double)weight[1], (double)bias[0]);
    }
    return 0;
}
