/* Steps per second of the single-device trainer: MLP-S (64-256-256-10, batch 32) and MLP-L
 * (784-1024-1024-10, batch 64) on synthetic data with SGD, GPT-S (2 blocks of width 128, 4 heads,
 * 64 of 256 tokens, batch 8) on text with AdamW. By the clock, and by the time that the process had
 * a CPU, which other load changes little. Usage: bench_reference [seconds a model] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ddpcore/base/clock.h"
#include "reference/trainer.h"

struct bench_row {
    const char *name, *model, *data;
    enum ref_optimizer_kind optimizer;
    size_t width[4];
    size_t batch_rows;
};

static const struct bench_row rows[] = {
    {"MLP-S", "mlp", "synthetic", REF_OPTIMIZER_SGD, {64, 256, 256, 10}, 32},
    {"MLP-L", "mlp", "synthetic", REF_OPTIMIZER_SGD, {784, 1024, 1024, 10}, 64},
    {"GPT-S", "gpt", "text", REF_OPTIMIZER_ADAMW, {64, 128, 128, 256}, 8},
};

static double cpu_seconds(void)
{
    struct timespec time = {0};

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Best and mean rate over windows of a tenth of the time: other load only ever slows a window. */
static ddp_status run_row(struct ref_trainer *trainer, double seconds, double *out_best,
                          double *out_mean, double *out_cpu)
{
    double start_cpu = cpu_seconds();
    uint64_t start_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    uint64_t window_ns = (uint64_t)(seconds * 1e8);
    uint32_t step = 0;

    *out_best = 0.0;
    for (int window = 0; window < 10; window++) {
        uint64_t begin_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        uint64_t now_ns = begin_ns;
        uint32_t first = step;
        double rate;

        while (now_ns - begin_ns < window_ns) {
            float loss;

            DDP_TRY(ref_trainer_global_step(trainer, step, &loss));
            step++;
            now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        }
        rate = (double)(step - first) * 1e9 / (double)(now_ns - begin_ns);
        *out_best = rate > *out_best ? rate : *out_best;
        *out_mean = (double)step * 1e9 / (double)(now_ns - start_ns);
    }
    *out_cpu = (double)step / (cpu_seconds() - start_cpu);
    return DDP_OK;
}

static ddp_status bench(const struct bench_row *row, double seconds, struct ddp_err *err)
{
    struct ref_job job = {.model = {.name = row->model, .width_count = 4},
                          .data = {.name = row->data, .feature_count = row->width[0]},
                          .shard = {.world_size = 1, .is_shuffled = true},
                          .micro_batches = 1};
    struct ddp_device *device = NULL;
    struct ref_trainer *trainer = NULL;
    double best;
    double mean;
    double cpu;
    ddp_status status;

    for (size_t i = 0; i < 4; i++) {
        job.model.width[i] = row->width[i];
    }
    job.shard.batch_rows = &row->batch_rows;
    ref_optimizer_defaults(&job.optimizer, row->optimizer);
    DDP_TRY(ddp_device_cpu_create(ddp_mem_system(), &device));
    status = ref_trainer_create(device, &job, &trainer, err);
    if (status == DDP_OK) {
        status = run_row(trainer, seconds, &best, &mean, &cpu);
    }
    if (status == DDP_OK) {
        printf("%s  batch %zu  %.1f steps/s (best window), %.1f (mean), %.1f a CPU second\n",
               row->name, row->batch_rows, best, mean, cpu);
    }
    ref_trainer_destroy(trainer);
    device->ops->destroy(device);
    return status;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2.0;
    struct ddp_err err = {""};
    ddp_status status = ddp_blas_open(NULL, &err);

    printf("%s\n", ddp_blas_describe());
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && status == DDP_OK; i++) {
        status = bench(&rows[i], seconds, &err);
    }
    if (status != DDP_OK) {
        fprintf(stderr, "bench_reference: %s %s\n", ddp_status_name(status), err.text);
        return 1;
    }
    return 0;
}
