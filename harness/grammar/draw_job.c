/* Rows of the job: world, steps, model, data, collectives. */
#include <string.h>

#include "harness/grammar/draw.h"
#include "harness/grammar/job.h"
#include "reference/data.h"
#include "reference/model.h"

/* All samples that the smallest dataset has; a job with more of them in shards is not drawn. */
enum { SAMPLES_MAX = 1000 };

void grammar_JOB_seed(struct harness_draw *draw)
{
    draw->plan->job.seed = harness_draw_below(draw, 1000000);
}

/* Small worlds most, but every size up to 16. */
void grammar_JOB_ranks(struct harness_draw *draw)
{
    static const unsigned weights[16] = {3, 24, 16, 18, 8, 6, 5, 6, 3, 2, 2, 2, 1, 1, 1, 2};
    uint32_t most = draw->options->ranks_max;

    most = most == 0 || most > 16 ? 16 : most;
    draw->plan->job.ranks = draw->options->ranks > 0
                                ? draw->options->ranks
                                : 1 + (uint32_t)harness_draw_weighted(draw, weights, most);
}

void grammar_JOB_steps(struct harness_draw *draw)
{
    static const unsigned weights[8] = {10, 20, 20, 20, 10, 10, 5, 5};
    uint32_t most = draw->options->steps_max;

    most = most == 0 || most > 8 ? 8 : most;
    draw->plan->job.steps = draw->options->steps > 0
                                ? draw->options->steps
                                : 1 + (uint32_t)harness_draw_weighted(draw, weights, most);
}

void grammar_JOB_micro_batches(struct harness_draw *draw)
{
    draw->plan->job.micro_batches = (uint32_t)harness_draw_between(draw, 1, 4);
}

/* What can go wrong in a reducer seldom depends on what computes the gradients: mostly the small
 * models, of which many runs a second can be had. Twins are in scenarios, since which rule reads
 * them how is not modelled (refusal.c). */
void grammar_JOB_model(struct harness_draw *draw)
{
    static const char *const names[] = {"mlp",     "branchy", "exact_linear", "module_child",
                                        "convnet", "gpt",     "moe"};
    static const unsigned weights[] = {22, 22, 22, 22, 4, 4, 4};

    draw->plan->job.model =
        names[harness_draw_weighted(draw, weights, sizeof weights / sizeof weights[0])];
}

static bool is_model(const struct harness_draw *draw, const char *name)
{
    return strcmp(draw->plan->job.model, name) == 0;
}

static bool is_slow(const struct harness_draw *draw)
{
    return is_model(draw, "convnet") || is_model(draw, "gpt");
}

void grammar_JOB_branch(struct harness_draw *draw)
{
    if (is_model(draw, "branchy")) {
        draw->plan->job.branch =
            (enum ref_branch_rule)harness_draw_below(draw, REF_BRANCH_RULE_COUNT);
        if (draw->plan->job.branch == REF_BRANCH_RANK_USES_NONE) {
            draw->plan->job.branch = REF_BRANCH_BOTH; /* faults at layers would not fire there */
        }
    }
}

void grammar_JOB_skip_rank(struct harness_draw *draw)
{
    if (draw->plan->job.branch == REF_BRANCH_RANK_SKIPS) {
        draw->plan->job.skip_rank = (uint32_t)harness_draw_below(draw, draw->plan->job.ranks);
    }
}

/* What the model needs: a regression, images, text; the others classify anything. */
void grammar_JOB_data(struct harness_draw *draw)
{
    static const char *const classes[] = {"digits", "synthetic"};

    draw->plan->job.data = is_model(draw, "exact_linear") ? "dyadic"
                           : is_model(draw, "gpt")        ? "text"
                           : is_model(draw, "convnet")    ? "digits"
                                                          : classes[harness_draw_below(draw, 2)];
    if (is_model(draw, "gpt")) { /* short sequences, for time and for enough of them */
        draw->plan->job.features = harness_draw_between(draw, 2, 6);
    }
}

void grammar_JOB_features(struct harness_draw *draw)
{
    if (strcmp(draw->plan->job.data, "synthetic") == 0) {
        draw->plan->job.features = harness_draw_between(draw, 1, 12);
    }
}

/* Features and classes of the data that were drawn, from a look at one sample. */
static bool look_at_data(struct harness_draw *draw, struct ref_data *out)
{
    const struct harness_job *job = &draw->plan->job;
    const struct ref_data_config config = {
        .name = job->data, .sample_count = 1, .feature_count = job->features};

    draw->status = ref_data_open(draw->mem, &config, out, NULL);
    return draw->status == DDP_OK;
}

/* How many hidden layers: branchy and moe have one, a convnet and gpt some that cost time. */
static size_t draw_depth(struct harness_draw *draw)
{
    if (is_model(draw, "exact_linear")) {
        return 0;
    }
    if (is_model(draw, "branchy") || is_model(draw, "moe")) {
        return 1;
    }
    return is_model(draw, "convnet") || is_model(draw, "gpt") ? harness_draw_between(draw, 1, 2)
                                                              : harness_draw_between(draw, 0, 3);
}

/* Narrow layers: what can go wrong does not depend on the width, and time does. All of gpt's are of
 * one width. */
void grammar_JOB_widths(struct harness_draw *draw)
{
    struct harness_sizes *widths = &draw->plan->job.widths;
    size_t hidden = draw_depth(draw);
    struct ref_data data;

    /* Now and then the model's own, if they are not those of a slow one. */
    if ((!is_slow(draw) && harness_draw_chance(draw, 15)) || !look_at_data(draw, &data)) {
        return;
    }
    widths->items = harness_draw_array(draw, hidden + 2, sizeof *widths->items);
    if (widths->items != NULL) {
        widths->count = hidden + 2;
        widths->items[0] = data.feature_count;
        for (size_t i = 1; i <= hidden; i++) {
            widths->items[i] = i > 1 && is_model(draw, "gpt")
                                   ? widths->items[1]
                                   : harness_draw_between(draw, 1, is_slow(draw) ? 4 : 12);
        }
        widths->items[hidden + 1] = data.labels != NULL ? data.class_count : data.target_count;
    }
    ref_data_close(&data);
}

void grammar_JOB_batch_per_rank(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;
    bool is_equal = harness_draw_chance(draw, 60);

    job->batch_per_rank = harness_draw_array(draw, job->ranks, sizeof *job->batch_per_rank);
    for (uint32_t rank = 0; job->batch_per_rank != NULL && rank < job->ranks; rank++) {
        job->batch_per_rank[rank] =
            rank > 0 && is_equal ? job->batch_per_rank[0] : harness_draw_between(draw, 1, 6);
    }
}

void grammar_JOB_join(struct harness_draw *draw)
{
    draw->plan->job.join.is_set = true;
}

/* How many micro-batches each rank has, in the shapes that uneven data come in. */
static uint64_t shard_passes(struct harness_draw *draw, unsigned shape, uint32_t rank,
                             uint64_t passes)
{
    const struct harness_job *job = &draw->plan->job;

    switch (shape) {
    case 0: /* each as it comes */
        return harness_draw_between(draw, 0, passes + 1);
    case 1: /* one has more than all others */
        return rank == job->seed % job->ranks ? passes : passes / 3;
    case 2: /* one has less, or nothing */
        return rank == job->seed % job->ranks ? harness_draw_below(draw, passes) : passes;
    case 3: /* most have nothing */
        return harness_draw_chance(draw, 30) ? harness_draw_between(draw, 1, passes) : 0;
    case 4: /* all end inside a step, or all alike */
        return passes / 2 + 1;
    default: /* more than the job needs */
        return passes + 1;
    }
}

void grammar_JOB_shard_sizes(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;
    uint64_t passes = (uint64_t)job->steps * job->micro_batches;
    unsigned shape = (unsigned)harness_draw_below(draw, 6);
    uint64_t total = 0;
    size_t *sizes = harness_draw_array(draw, job->ranks, sizeof *sizes);

    for (uint32_t rank = 0; sizes != NULL && rank < job->ranks; rank++) {
        /* Without join the data of all ranks must suffice: too few are a fault. */
        uint64_t own = job->join.is_set ? shard_passes(draw, shape, rank, passes) : passes;
        uint64_t batch = job->batch_per_rank[rank];

        /* The last batch may be smaller. */
        sizes[rank] = own == 0 ? 0 : (own - 1) * batch + harness_draw_between(draw, 1, batch);
        total += sizes[rank];
    }
    if (total <= SAMPLES_MAX) {
        job->shard_sizes = sizes;
    }
    /* Somebody must take a step: else nothing is proven. */
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        if (harness_grammar_full_steps(job, rank) > 0) {
            return;
        }
    }
    job->shard_sizes = NULL;
}

void grammar_JOB_samples(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;

    if (job->shard_sizes == NULL) {
        job->samples = harness_draw_between(draw, 1, harness_draw_chance(draw, 50) ? 40 : 400);
        return;
    }
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        job->samples += job->shard_sizes[rank];
    }
    job->samples += harness_draw_below(draw, 10);
}

/* Where every rank gets something. */
void grammar_JOB_drop_last(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;

    job->drop_last = job->shard_sizes == NULL && (job->samples == 0 || job->samples >= job->ranks);
}

void grammar_JOIN_throw_on_early_termination(struct harness_draw *draw)
{
    draw->plan->job.join.throw_on_early_termination =
        harness_grammar_is_even(&draw->plan->job) && harness_draw_chance(draw, 50);
}

/* From four bytes, where every element closes a bucket, to one bucket for all. */
static size_t draw_cap(struct harness_draw *draw)
{
    return (size_t)HARNESS_DRAW_ONE_OF(draw, 4, 8, 40, 64, 128, 256, 400, 512, 1024, 2048, 4096,
                                       65536);
}

void grammar_JOB_bucket_cap_kb(struct harness_draw *draw)
{
    draw->plan->job.bucket_cap_bytes = draw_cap(draw);
}

void grammar_JOB_first_bucket_cap_kb(struct harness_draw *draw)
{
    draw->plan->job.first_bucket_cap_bytes = draw_cap(draw);
}

/* On where some rank leaves parameters unused: else that is a fault. */
void grammar_JOB_find_unused_parameters(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;

    job->find_unused_parameters =
        job->branch != REF_BRANCH_BOTH || is_model(draw, "moe") || harness_draw_chance(draw, 30);
}

/* Only where every rank trains to the end: one that has ended takes no part in a checkpoint. */
void grammar_JOB_checkpoint_every(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;

    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        if (harness_grammar_passes(job, rank) != (uint64_t)job->steps * job->micro_batches) {
            return;
        }
    }
    job->checkpoint_every = (uint32_t)harness_draw_between(draw, 1, job->steps);
}

/* PyTorch's follows the order of gradients, which the planner knows of a row of layers: where a
 * fault is placed at a bucket of another model, it is the other one. So it is under join, where a
 * rank that is a step behind adopts the new buckets when the planner does not know. */
void grammar_JOB_bucket_order(struct harness_draw *draw)
{
    const struct harness_job *job = &draw->plan->job;

    if (draw->is_healthy || (harness_grammar_is_row(job) && !job->join.is_set)) {
        draw->plan->job.bucket_order = HARNESS_BUCKET_ORDER_PYTORCH;
    }
}

/* Not under join, and of models without buffers (check_job.c). */
void grammar_JOB_evaluate_every(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;

    if (!job->join.is_set && !is_model(draw, "branchy") && !is_model(draw, "convnet")) {
        job->evaluate_every = (uint32_t)harness_draw_between(draw, 1, job->steps);
    }
}

/* Messages shorter than a bucket, which are sent in several parts, the last one shorter. */
void grammar_JOB_segment_kb(struct harness_draw *draw)
{
    draw->plan->job.segment_bytes = (size_t)HARNESS_DRAW_ONE_OF(draw, 64, 100, 256, 1000, 4096);
}

/* Nodes of any sizes, their ranks anywhere: only hierarchical asks, and whoever does not must not
 * mind. */
void grammar_JOB_nodes(struct harness_draw *draw)
{
    struct harness_job *job = &draw->plan->job;
    size_t count = 1 + harness_draw_below(draw, job->ranks);

    job->nodes = harness_draw_array(draw, job->ranks, sizeof *job->nodes);
    for (uint32_t rank = 0; job->nodes != NULL && rank < job->ranks; rank++) {
        job->nodes[rank] = harness_draw_below(draw, count);
    }
}

/* The core's own schedules: what else there is needs a card or MPI. */
void grammar_JOB_collective(struct harness_draw *draw)
{
    struct harness_collective schedules[64];
    struct harness_collective collective;
    const char *name;
    size_t count = 0;

    for (size_t i = 0; harness_collective_at(i, &collective, &name); i++) {
        if (collective.engine == HARNESS_ENGINE_SCHEDULE) {
            DDP_ASSERT(count < sizeof schedules / sizeof schedules[0]);
            schedules[count++] = collective;
        }
    }
    draw->plan->job.collective = schedules[harness_draw_below(draw, count)];
}

void grammar_JOB_timeout_ms(struct harness_draw *draw)
{
    draw->plan->job.timeout_ns =
        (uint64_t)HARNESS_DRAW_ONE_OF(draw, 0, 5000, 20000, 60000) * DDP_NS_PER_MS;
}

/* Longer than the defaults: a shorter one may call a slow machine a hang. */
void grammar_JOB_phase_budget_ms(struct harness_draw *draw)
{
    for (unsigned phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        draw->plan->job.phase_budget_ms[phase] *= harness_draw_between(draw, 1, 3);
    }
}

/* Shorter than most pauses that are drawn, or longer than all of them. */
void grammar_JOB_slow_after_ms(struct harness_draw *draw)
{
    draw->plan->job.slow_after_ms = (uint64_t)HARNESS_DRAW_ONE_OF(draw, 5, 10, 20, 100);
}
