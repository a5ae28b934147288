/* job: what is trained. Fills every field, with the rows' defaults where a key is absent. */
#include <math.h>
#include <string.h>

#include "harness/scenario/parse.h"

static ddp_status out_of_memory(const struct harness_reader *reader)
{
    return ddp_err_set(reader->err, DDP_E_NOMEM, "%.200s: out of memory", reader->path);
}

ddp_status harness_parse_keep(const struct harness_reader *reader, const char *text,
                              const char **out)
{
    *out = NULL;
    if (text == NULL) {
        return DDP_OK;
    }
    *out = ddp_mem_strdup(reader->keep, text);
    return *out == NULL ? out_of_memory(reader) : DDP_OK;
}

ddp_status harness_parse_texts(const struct harness_reader *reader,
                               const struct harness_yaml_node *list, const char ***out,
                               uint32_t *out_count)
{
    size_t count = list == NULL ? 0 : list->count;

    *out = NULL;
    *out_count = (uint32_t)count;
    if (count == 0) {
        return DDP_OK;
    }
    *out = ddp_mem_array(reader->keep, count, sizeof(**out));
    if (*out == NULL) {
        return out_of_memory(reader);
    }
    for (size_t i = 0; i < count; i++) {
        DDP_TRY(harness_parse_keep(reader, list->items[i]->text, &(*out)[i]));
    }
    return DDP_OK;
}

static ddp_status keep_row(const struct harness_reader *reader, const struct harness_yaml_node *map,
                           enum harness_row row, const char **out)
{
    return harness_parse_keep(reader, harness_schema_text(map, row), out);
}

/* A row that is a rank below ranks, or absent (-1 out). */
static ddp_status check_rank_row(const struct harness_reader *reader,
                                 const struct harness_yaml_node *map, enum harness_row row,
                                 uint32_t ranks)
{
    const struct harness_yaml_node *node = harness_schema_node(map, row);

    if (node != NULL && harness_schema_int(map, row) >= (int64_t)ranks) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s is %s, but the job has %u ranks, counted from 0",
                                 harness_schema_row(row)->key, node->text, ranks);
    }
    return DDP_OK;
}

/* size_t[ranks] from a list of exactly that length, or from one number for all. */
static ddp_status parse_per_rank(const struct harness_reader *reader,
                                 const struct harness_yaml_node *node, uint32_t ranks, size_t **out)
{
    bool is_list = node->kind == HARNESS_YAML_LIST;

    if (is_list && node->count != ranks) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "the list has %zu entries, but the job has %u ranks; give one "
                                 "each",
                                 node->count, ranks);
    }
    *out = ddp_mem_array(reader->keep, ranks, sizeof(**out));
    if (*out == NULL) {
        return out_of_memory(reader);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        int64_t value = 0;

        DDP_ASSERT(harness_schema_is_int(is_list ? node->items[rank] : node, &value));
        (*out)[rank] = (size_t)value;
    }
    return DDP_OK;
}

static ddp_status parse_widths(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_schema_node(map, HARNESS_ROW_JOB_widths);
    size_t count_max = sizeof(job->width) / sizeof(job->width[0]);

    if (node == NULL) {
        return DDP_OK;
    }
    if (node->count < 2 || node->count > count_max) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "widths wants from 2 to %zu entries, input and output included",
                                 count_max);
    }
    for (size_t i = 0; i < node->count; i++) {
        int64_t value = 0;

        DDP_ASSERT(harness_schema_is_int(node->items[i], &value));
        job->width[i] = (size_t)value;
    }
    job->width_count = node->count;
    return DDP_OK;
}

/* Bytes of a KiB row; 0 if absent. */
static ddp_status parse_kb(const struct harness_reader *reader, const struct harness_yaml_node *map,
                           enum harness_row row, size_t *out)
{
    const struct harness_yaml_node *node = harness_schema_node(map, row);
    double bytes;

    *out = 0;
    if (node == NULL) {
        return DDP_OK;
    }
    bytes = harness_schema_number(map, row) * 1024.0;
    if (floor(bytes) != bytes) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s KiB is %.10g bytes; give a whole number of bytes", node->text,
                                 bytes);
    }
    *out = (size_t)bytes;
    return DDP_OK;
}

/* Keys of the other optimizer are mistakes: they would be read and do nothing. */
static ddp_status refuse_foreign_keys(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map, const char *kind)
{
    for (size_t i = 0; map != NULL && i < map->count; i++) {
        const char *key = map->keys[i]->text;
        bool is_sgd_key = strcmp(key, "momentum") == 0 || strcmp(key, "dampening") == 0 ||
                          strcmp(key, "nesterov") == 0;
        bool is_adamw_key = strncmp(key, "beta", 4) == 0 || strcmp(key, "eps") == 0;

        if (strcmp(kind, "sgd") == 0 ? is_adamw_key : is_sgd_key) {
            return harness_yaml_fail(map->keys[i], reader->err, DDP_E_INVALID,
                                     "%s is no option of %s; remove it or change kind", key, kind);
        }
    }
    return DDP_OK;
}

static ddp_status parse_optimizer(const struct harness_reader *reader,
                                  const struct harness_yaml_node *map, struct harness_job *job)
{
    const struct harness_yaml_node *decay =
        harness_schema_node(map, HARNESS_ROW_OPTIMIZER_weight_decay);
    const struct harness_yaml_node *nesterov =
        harness_schema_node(map, HARNESS_ROW_OPTIMIZER_nesterov);
    bool is_sgd;

    DDP_TRY(keep_row(reader, map, HARNESS_ROW_OPTIMIZER_kind, &job->optimizer));
    DDP_ASSERT(job->optimizer != NULL); /* kind has a default */
    is_sgd = strcmp(job->optimizer, "sgd") == 0;
    DDP_TRY(refuse_foreign_keys(reader, map, job->optimizer));
    job->lr = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_lr);
    job->weight_decay = is_sgd ? 0.0 : 1e-2;
    if (decay != NULL) {
        job->weight_decay = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_weight_decay);
    }
    if (!is_sgd) {
        job->beta1 = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_beta1);
        job->beta2 = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_beta2);
        job->eps = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_eps);
        return DDP_OK;
    }
    job->momentum = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_momentum);
    job->dampening = harness_schema_number(map, HARNESS_ROW_OPTIMIZER_dampening);
    job->nesterov = harness_schema_bool(map, HARNESS_ROW_OPTIMIZER_nesterov);
    if (job->nesterov && (job->momentum <= 0.0 || job->dampening > 0.0 || job->dampening < 0.0)) {
        return harness_yaml_fail(nesterov, reader->err, DDP_E_INVALID,
                                 "nesterov needs a momentum above 0 and a dampening of 0");
    }
    return DDP_OK;
}

static void parse_budgets(const struct harness_yaml_node *map, struct harness_job *job)
{
    const struct harness_yaml_node *node =
        harness_schema_node(map, HARNESS_ROW_JOB_phase_budget_ms);

    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        const struct harness_yaml_node *value =
            harness_yaml_get(node, ddp_phase_name((enum ddp_phase)i));
        int64_t budget_ms = ddp_phase_budget_ms((enum ddp_phase)i);

        if (value != NULL) {
            DDP_ASSERT(harness_schema_is_int(value, &budget_ms));
        }
        job->phase_budget_ms[i] = (uint64_t)budget_ms;
    }
}

static ddp_status parse_data(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, struct harness_job *job)
{
    const struct harness_yaml_node *shards = harness_schema_node(map, HARNESS_ROW_JOB_shard_sizes);

    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_data, &job->data));
    job->samples = (size_t)harness_schema_int(map, HARNESS_ROW_JOB_samples);
    job->features = (size_t)harness_schema_int(map, HARNESS_ROW_JOB_features);
    job->is_shuffled = harness_schema_bool(map, HARNESS_ROW_JOB_shuffle);
    DDP_TRY(parse_per_rank(reader, harness_schema_node(map, HARNESS_ROW_JOB_batch_per_rank),
                           job->ranks, &job->batch_per_rank));
    if (shards != NULL) {
        DDP_TRY(parse_per_rank(reader, shards, job->ranks, &job->shard_sizes));
    }
    return DDP_OK;
}

/* NCCL moves the memory of GPUs only, schedules by themselves that of the host only. */
static ddp_status check_device(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_schema_node(map, HARNESS_ROW_JOB_collective);
    bool is_cuda;
    bool is_nccl;

    DDP_ASSERT(job->device != NULL && job->collective != NULL); /* both rows have a default */
    is_cuda = strcmp(job->device, "cuda") == 0;
    is_nccl = strcmp(job->collective, "nccl") == 0 || strncmp(job->collective, "nccl/", 5) == 0;
    if (is_cuda == is_nccl) {
        return DDP_OK;
    }
    return harness_yaml_fail(node != NULL ? node : map, reader->err, DDP_E_INVALID,
                             is_cuda
                                 ? "device cuda needs collective nccl or nccl/<algorithm>, not %s"
                                 : "collective %s needs device cuda",
                             job->collective);
}

static ddp_status parse_core(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, struct harness_job *job)
{
    const struct harness_yaml_node *join = harness_schema_node(map, HARNESS_ROW_JOB_join);

    DDP_TRY(parse_kb(reader, map, HARNESS_ROW_JOB_bucket_cap_kb, &job->bucket_cap_bytes));
    DDP_TRY(
        parse_kb(reader, map, HARNESS_ROW_JOB_first_bucket_cap_kb, &job->first_bucket_cap_bytes));
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_bucket_order, &job->bucket_order));
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_gradient_scale, &job->gradient_scale));
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_semantics, &job->semantics));
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_collective, &job->collective));
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_device, &job->device));
    job->ranks_per_gpu = (uint32_t)harness_schema_int(map, HARNESS_ROW_JOB_ranks_per_gpu);
    DDP_TRY(check_device(reader, map, job));
    job->find_unused_parameters = harness_schema_bool(map, HARNESS_ROW_JOB_find_unused_parameters);
    job->broadcast_buffers = harness_schema_bool(map, HARNESS_ROW_JOB_broadcast_buffers);
    job->checkpoint_every = (uint32_t)harness_schema_int(map, HARNESS_ROW_JOB_checkpoint_every);
    job->is_checkpoint_wrapped = harness_schema_bool(map, HARNESS_ROW_JOB_checkpoint_wrapped);
    job->timeout_ns = (uint64_t)harness_schema_int(map, HARNESS_ROW_JOB_timeout_ms) * 1000000u;
    job->is_join = join != NULL;
    job->divide_by_initial_world_size =
        harness_schema_bool(join, HARNESS_ROW_JOIN_divide_by_initial_world_size);
    job->throw_on_early_termination =
        harness_schema_bool(join, HARNESS_ROW_JOIN_throw_on_early_termination);
    parse_budgets(map, job);
    return DDP_OK;
}

/* Micro-batches until a rank's own shard is used up, or the job's end if that comes first. */
static uint64_t passes_of(const struct harness_job *job, uint32_t rank)
{
    uint64_t passes = (uint64_t)job->steps * job->micro_batches;
    uint64_t own =
        (job->shard_sizes[rank] + job->batch_per_rank[rank] - 1) / job->batch_per_rank[rank];

    return own < passes ? own : passes;
}

/* A rank that ended under join mirrors reductions, not checkpoints. */
static ddp_status check_join(const struct harness_reader *reader,
                             const struct harness_yaml_node *join, const struct harness_job *job)
{
    if (!job->is_join || job->checkpoint_every == 0 || job->shard_sizes == NULL) {
        return DDP_OK;
    }
    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        if (passes_of(job, rank) != passes_of(job, 0)) {
            return harness_yaml_fail(join, reader->err, DDP_E_INVALID,
                                     "ranks end at different times, and an ended rank takes no "
                                     "part in a checkpoint; remove checkpoint_every");
        }
    }
    return DDP_OK;
}

ddp_status harness_parse_job(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, struct harness_job *job)
{
    memset(job, 0, sizeof(*job));
    job->ranks = (uint32_t)harness_schema_int(map, HARNESS_ROW_JOB_ranks);
    job->steps = (uint32_t)harness_schema_int(map, HARNESS_ROW_JOB_steps);
    job->micro_batches = (uint32_t)harness_schema_int(map, HARNESS_ROW_JOB_micro_batches);
    job->seed = harness_schema_u64(map, HARNESS_ROW_JOB_seed);
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_model, &job->model));
    DDP_TRY(keep_row(reader, map, HARNESS_ROW_JOB_branch, &job->branch));
    DDP_TRY(check_rank_row(reader, map, HARNESS_ROW_JOB_skip_rank, job->ranks));
    job->skip_rank = (uint32_t)harness_schema_int(map, HARNESS_ROW_JOB_skip_rank);
    DDP_TRY(check_rank_row(reader, map, HARNESS_ROW_JOB_model_drift_rank, job->ranks));
    job->model_drift_rank =
        (uint32_t)(harness_schema_optional(map, HARNESS_ROW_JOB_model_drift_rank) + 1);
    DDP_TRY(parse_widths(reader, map, job));
    DDP_TRY(parse_data(reader, map, job));
    DDP_TRY(parse_optimizer(reader, harness_schema_node(map, HARNESS_ROW_JOB_optimizer), job));
    DDP_TRY(parse_core(reader, map, job));
    return check_join(reader, harness_schema_node(map, HARNESS_ROW_JOB_join), job);
}
