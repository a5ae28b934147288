/* What keys of `job` mean together. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/plan/bucket.h"
#include "harness/scenario/reader.h"
#include "reference/model.h"

ddp_status harness_scenario_check_optimizer(const struct harness_reader *reader,
                                            const struct harness_yaml_node *map, void *kept)
{
    struct harness_optimizer *optimizer = kept;
    const struct harness_yaml_node *nesterov =
        harness_reader_node(map, HARNESS_ROW_OPTIMIZER_nesterov);
    bool is_plain =
        optimizer->momentum <= 0.0 || optimizer->dampening > 0.0 || optimizer->dampening < 0.0;

    if (harness_reader_node(map, HARNESS_ROW_OPTIMIZER_weight_decay) == NULL) {
        optimizer->weight_decay = optimizer->kind == HARNESS_OPTIMIZER_ADAMW ? 1e-2 : 0.0;
    }
    if (optimizer->kind == HARNESS_OPTIMIZER_SGD && optimizer->nesterov && is_plain) {
        return harness_yaml_fail(nesterov, reader->err, DDP_E_INVALID,
                                 "nesterov needs a momentum above 0 and a dampening of 0");
    }
    return DDP_OK;
}

/* A file from now on with its whole name, for whoever runs the plan from another place. */
static ddp_status find_file(const struct harness_reader *reader,
                            const struct harness_yaml_node *map, enum harness_row row,
                            const char *key, const char **inout)
{
    const char *slash = reader->path != NULL ? strrchr(reader->path, '/') : NULL;
    char whole[PATH_MAX];
    struct ddp_text path;

    if (*inout == NULL) {
        return DDP_OK;
    }
    ddp_text_init(&path, reader->scratch);
    if (slash != NULL && (*inout)[0] != '/') {
        ddp_text_add_bytes(&path, reader->path, (size_t)(slash + 1 - reader->path));
    }
    ddp_text_add(&path, "%s", *inout);
    if (realpath(ddp_text_str(&path), whole) == NULL) {
        return harness_yaml_fail(harness_reader_node(map, row), reader->err, DDP_E_INVALID,
                                 "%s %s: %s", key, ddp_text_str(&path), strerror(errno));
    }
    return harness_reader_keep(reader, whole, inout);
}

static ddp_status find_files(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, struct harness_job *job)
{
    DDP_TRY(find_file(reader, map, HARNESS_ROW_JOB_data_file, "data_file", &job->data_file));
    DDP_TRY(find_file(reader, map, HARNESS_ROW_JOB_label_file, "label_file", &job->label_file));
    return find_file(reader, map, HARNESS_ROW_JOB_initial, "initial", &job->initial);
}

/* The dataset as it is, its samples and features, and that the model can learn from it. */
static ddp_status check_data(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, const struct harness_job *job,
                             struct ref_data_sizes *out)
{
    const struct ref_data_config config = {
        .name = job->data,
        .sample_count = job->samples,
        .feature_count = job->features,
        .path = job->data_file,
        .label_path = job->label_file,
    };
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_samples);
    const struct harness_yaml_node *features = harness_reader_node(map, HARNESS_ROW_JOB_features);
    struct ddp_err err = {{0}};

    if (ref_data_describe(&config, out, &err) != DDP_OK) {
        return harness_yaml_fail(node != NULL ? node : map, reader->err, DDP_E_INVALID, "%s",
                                 err.text);
    }
    if (job->features != 0 && out->feature_count != job->features) {
        return harness_yaml_fail(
            features, reader->err, DDP_E_INVALID,
            "dataset %s has %zu features, not %zu; only synthetic and text have "
            "as many as are asked for",
            job->data, out->feature_count, job->features);
    }
    node = harness_reader_node(map, HARNESS_ROW_JOB_data);
    node = node != NULL ? node : harness_reader_node(map, HARNESS_ROW_JOB_model);
    return ref_model_check_learned(job->model, out->learned, &err) == DDP_OK
               ? DDP_OK
               : harness_yaml_fail(node, reader->err, DDP_E_INVALID, "%s", err.text);
}

static bool has_param(const struct ref_model_tables *tables, const char *name)
{
    for (size_t i = 0; i < tables->param_count; i++) {
        if (strcmp(tables->params[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* The model's widths, and which of its parameters are delayed: as many as it takes, from the
 * dataset's features to its classes. */
static ddp_status check_widths(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job,
                               const struct ref_data_sizes *data)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_widths);
    struct ref_model_config model = {.name = job->model,
                                     .width_count = job->widths.count,
                                     .heads = job->heads,
                                     .experts = job->experts};
    size_t outputs = data->class_count > 0 ? data->class_count : data->target_count;
    struct ref_model_tables tables = {0};
    struct ddp_err err = {{0}};
    ddp_status status;

    node = node != NULL ? node : map;
    if (job->widths.count > REF_LAYERS_MAX + 1 || job->widths.count == 1) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "widths wants from 2 to %d entries, input and output included",
                                 REF_LAYERS_MAX + 1);
    }
    for (size_t i = 0; i < job->widths.count; i++) {
        model.width[i] = job->widths.items[i];
    }
    ref_model_defaults(&model, data->feature_count, outputs);
    status = ref_model_describe(ddp_mem_system(), &model, &tables, &err);
    for (size_t i = 0; status == DDP_OK && i < job->delayed.count; i++) {
        if (!has_param(&tables, job->delayed.items[i])) {
            node = harness_reader_node(map, HARNESS_ROW_JOB_delayed);
            status = ddp_err_set(&err, DDP_E_INVALID,
                                 "delayed: model %s has no parameter %s; the first one is %s",
                                 job->model, job->delayed.items[i], tables.params[0].name);
        }
    }
    ddp_mem_free(ddp_mem_system(), tables.params);
    status = status == DDP_OK ? ref_model_check_data(&model, data, &err) : status;
    return status == DDP_OK ? DDP_OK
                            : harness_yaml_fail(node, reader->err, DDP_E_INVALID, "%s", err.text);
}

/* Shards are cut from the dataset one behind the other. */
static ddp_status check_shards(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job,
                               const struct ref_data_sizes *data)
{
    const struct harness_yaml_node *drop = harness_reader_node(map, HARNESS_ROW_JOB_drop_last);
    size_t total = 0;

    if (job->drop_last && job->shard_sizes != NULL) {
        return harness_yaml_fail(drop, reader->err, DDP_E_INVALID,
                                 "drop_last is of lists that all ranks share; job.shard_sizes says "
                                 "what each rank owns: leave one of them out");
    }
    if (job->drop_last && data->sample_count < job->ranks) {
        return harness_yaml_fail(drop, reader->err, DDP_E_INVALID,
                                 "drop_last leaves %u ranks nothing of %zu samples", job->ranks,
                                 data->sample_count);
    }
    for (uint32_t rank = 0; job->shard_sizes != NULL && rank < job->ranks; rank++) {
        total += job->shard_sizes[rank];
    }
    if (total <= data->sample_count) {
        return DDP_OK;
    }
    return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_shard_sizes), reader->err,
                             DDP_E_INVALID,
                             "the shards of %u ranks hold %zu samples, the dataset only %zu",
                             job->ranks, total, data->sample_count);
}

/* NCCL moves the memory of GPUs only, the core's schedules and MPI that of the host only. */
static ddp_status check_device(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_collective);

    if (job->all_gather != HARNESS_GATHER_BRUCK &&
        job->collective.engine != HARNESS_ENGINE_SCHEDULE &&
        job->collective.engine != HARNESS_ENGINE_OPAQUE) {
        const struct harness_yaml_node *gather =
            harness_reader_node(map, HARNESS_ROW_JOB_all_gather);

        return harness_yaml_fail(gather != NULL ? gather : map, reader->err, DDP_E_INVALID,
                                 "collective %s has an all-gather of its own: leave all_gather out",
                                 harness_collective_name(job->collective));
    }
    if (job->segment_bytes > 0 && job->collective.engine != HARNESS_ENGINE_SCHEDULE &&
        job->collective.engine != HARNESS_ENGINE_OPAQUE) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_segment_kb), reader->err,
                                 DDP_E_INVALID,
                                 "collective %s cuts its messages by itself: leave segment_kb out",
                                 harness_collective_name(job->collective));
    }
    if (job->nodes != NULL && job->collective.engine != HARNESS_ENGINE_SCHEDULE) {
        const struct harness_yaml_node *nodes = harness_reader_node(map, HARNESS_ROW_JOB_nodes);

        return harness_yaml_fail(nodes != NULL ? nodes : map, reader->err, DDP_E_INVALID,
                                 "collective %s finds nodes by itself: leave nodes out",
                                 harness_collective_name(job->collective));
    }
    if (harness_bucket_is_rebuilt(job) && harness_engine_is_opaque(job->collective.engine)) {
        const struct harness_yaml_node *order =
            harness_reader_node(map, HARNESS_ROW_JOB_bucket_order);

        return harness_yaml_fail(order != NULL ? order : map, reader->err, DDP_E_INVALID,
                                 "collective %s is measured before the first step, and buckets are "
                                 "rebuilt after it: use bucket_order reverse",
                                 harness_collective_name(job->collective));
    }
    if (job->device == harness_engine_traits(job->collective.engine)->device) {
        return DDP_OK;
    }
    return harness_yaml_fail(node != NULL ? node : map, reader->err, DDP_E_INVALID,
                             job->device == HARNESS_DEVICE_CUDA
                                 ? "device cuda needs collective nccl or nccl/<algorithm>, not %s"
                                 : "collective %s needs device cuda",
                             harness_collective_name(job->collective));
}

/* Of the model as it is by default: its widths change none. */
static ddp_status count_buffers(const struct harness_reader *reader,
                                const struct harness_yaml_node *map, const struct harness_job *job,
                                size_t *out)
{
    struct ref_model_config model = {.name = job->model};
    struct ref_model_tables tables = {0};
    struct ref_data_sizes data;

    DDP_TRY(check_data(reader, map, job, &data));
    ref_model_defaults(&model, data.feature_count,
                       data.class_count > 0 ? data.class_count : data.target_count);
    DDP_TRY(ref_model_describe(ddp_mem_system(), &model, &tables, reader->err));
    *out = tables.buffer_count;
    ddp_mem_free(ddp_mem_system(), tables.params);
    return DDP_OK;
}

/* Ranks whose data has ended would not take part; and a forward pass changes buffers. */
static ddp_status check_evaluation(const struct harness_reader *reader,
                                   const struct harness_yaml_node *map,
                                   const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_evaluate_every);
    size_t buffer_count;

    if (job->drift_every > 0 && (job->join.is_set || job->hook == HARNESS_HOOK_LOCAL_SGD)) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_drift_every), reader->err,
                                 DDP_E_INVALID,
                                 "under join, or with hook local_sgd, ranks need "
                                 "not hold the same behind a step");
    }
    if (job->evaluate_every == 0) {
        return DDP_OK;
    }
    if (job->join.is_set) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "under join ranks end at different steps, and cannot evaluate "
                                 "together");
    }
    DDP_TRY(count_buffers(reader, map, job, &buffer_count));
    return buffer_count == 0
               ? DDP_OK
               : harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                   "model %s has buffers, which an evaluation would change",
                                   job->model);
}

/* What the ranks exchange in the middle of a pass has to come from all of them, in an order of sums
 * that schedules tell. */
static ddp_status check_batch_norm(const struct harness_reader *reader,
                                   const struct harness_yaml_node *map,
                                   const struct harness_job *job, const struct ref_data_sizes *data)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_sync_batchnorm);
    struct ref_model_config model = {.name = job->model, .width_count = job->widths.count};
    struct ref_model_tables tables = {0};
    size_t norm_count;

    if (!job->sync_batchnorm) {
        return DDP_OK;
    }
    for (size_t i = 0; i < job->widths.count; i++) {
        model.width[i] = job->widths.items[i];
    }
    ref_model_defaults(&model, data->feature_count,
                       data->class_count > 0 ? data->class_count : data->target_count);
    DDP_TRY(ref_model_describe(ddp_mem_system(), &model, &tables, reader->err));
    norm_count = tables.batch_norm_count;
    ddp_mem_free(ddp_mem_system(), tables.params);
    if (norm_count == 0) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "model %s has no BatchNorm: leave sync_batchnorm out", job->model);
    }
    if (job->join.is_set && !job->join.throw_on_early_termination) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "under join nothing mirrors statistics for a rank whose data has "
                                 "ended: set join.throw_on_early_termination, or leave one out");
    }
    if (harness_engine_traits(job->collective.engine)->name != NULL) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "collective %s is measured for buckets only: use a schedule with "
                                 "sync_batchnorm",
                                 harness_collective_name(job->collective));
    }
    return DDP_OK;
}

static ddp_status check_graph(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_static_graph);

    if (job->logging && job->on_loss == HARNESS_ON_LOSS_CONTINUE) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_logging), reader->err,
                                 DDP_E_INVALID,
                                 "what is logged of a group that lost a rank is not known: leave "
                                 "logging or on_loss out");
    }

    if (job->static_graph && job->join.is_set) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "a joined rank cannot tell a static graph: leave join or "
                                 "static_graph out");
    }
    if (job->static_graph && job->find_unused_parameters) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "a static graph notes unused parameters itself: leave "
                                 "find_unused_parameters out");
    }
    return DDP_OK;
}

static ddp_status check_transport(const struct harness_reader *reader,
                                  const struct harness_yaml_node *map,
                                  const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_transport);

    if (job->transport != HARNESS_TRANSPORT_TCP || job->ranks <= HARNESS_TRANSPORT_TCP_RANKS_MAX) {
        return DDP_OK;
    }
    return harness_yaml_fail(node != NULL ? node : map, reader->err, DDP_E_INVALID,
                             "transport tcp connects every rank to every other one: at most %u "
                             "ranks, not %u; shm takes more",
                             HARNESS_TRANSPORT_TCP_RANKS_MAX, job->ranks);
}

/* Ranks agree in each step on whether to leave it out. */
static ddp_status check_scaler(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job)
{
    return job->optimizer.loss_scale > 0 && job->join.is_set
               ? harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_join), reader->err,
                                   DDP_E_INVALID,
                                   "under join nothing mirrors what ranks with a loss_scale agree "
                                   "on: leave one of them out")
               : DDP_OK;
}

/* What does not go with hooks that average parameters, or send something else than gradients. */
static ddp_status check_special_hook(const struct harness_reader *reader,
                                     const struct harness_yaml_node *map,
                                     const struct harness_job *job)
{
    const bool is_local = job->hook == HARNESS_HOOK_LOCAL_SGD;
    const struct harness_yaml_node *hook = harness_reader_node(map, HARNESS_ROW_JOB_hook);
    const char *name = harness_names_of(HARNESS_NAMES_HOOKS, (int)job->hook);

    if (!is_local && job->hook != HARNESS_HOOK_QUANTIZE && job->hook != HARNESS_HOOK_POWERSGD) {
        return DDP_OK;
    }
    if (job->hook == HARNESS_HOOK_POWERSGD && job->powersgd_start < 2 &&
        (job->powersgd_error_feedback || job->powersgd_warm_start)) {
        return harness_yaml_fail(
            hook, reader->err, DDP_E_INVALID,
            "buckets may be rebuilt after the first step, so powersgd_start is "
            "at least 2, unless powersgd_error_feedback and "
            "powersgd_warm_start are false");
    }
    if (job->join.is_set) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_join), reader->err,
                                 DDP_E_INVALID,
                                 "of a rank whose data has ended nobody knows what hook %s should "
                                 "send: leave join out",
                                 name);
    }
    if (is_local && job->optimizer.loss_scale > 0) {
        return harness_yaml_fail(hook, reader->err, DDP_E_INVALID,
                                 "ranks that step apart leave no step out together: leave "
                                 "loss_scale or hook %s out",
                                 name);
    }
    if (job->device != HARNESS_DEVICE_CPU || harness_engine_is_opaque(job->collective.engine)) {
        return harness_yaml_fail(hook, reader->err, DDP_E_INVALID,
                                 "hook %s runs on device cpu, with collectives by schedules", name);
    }
    return DDP_OK;
}

static ddp_status check_hook(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, const struct harness_job *job)
{
    if (job->hook != HARNESS_HOOK_NONE && job->gradient_scale != HARNESS_GRADIENT_SCALE_PRE) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_gradient_scale),
                                 reader->err, DDP_E_INVALID,
                                 "a hook divides by itself: leave gradient_scale out");
    }
    return check_special_hook(reader, map, job);
}

static ddp_status check_mixed(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node =
        harness_reader_node(map, HARNESS_ROW_JOB_mixed_precision);
    const struct ref_model_config model = {.name = job->model};
    const char *why = NULL;

    if (!job->mixed_precision.is_set) {
        return DDP_OK;
    }
    why = job->collective.engine != HARNESS_ENGINE_SCHEDULE ? "a collective that runs by schedules"
                                                            : why;
    why = job->device != HARNESS_DEVICE_CPU ? "device cpu" : why;
    why = job->gradient_as_bucket_view ? "no gradient_as_bucket_view" : why;
    why = job->hook != HARNESS_HOOK_NONE ? "no hook: in PyTorch it is one itself" : why;
    why = !ref_model_is_roundable(&model) ? "another model: exact_linear computes in f32" : why;
    return why == NULL ? DDP_OK
                       : harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                           "a job with mixed_precision has %s", why);
}

/* What ranks can go on from after a loss: state and samples that follow from how many steps they
 * have done, and a group of its own for those that are left. */
static ddp_status check_on_loss(const struct harness_reader *reader,
                                const struct harness_yaml_node *map, const struct harness_job *job)
{
    const char *why = NULL;
    size_t buffer_count;

    if (job->on_loss != HARNESS_ON_LOSS_CONTINUE) {
        return DDP_OK;
    }
    DDP_TRY(count_buffers(reader, map, job, &buffer_count));
    /* What other ranks than the first have in their buffers within a step is not emulated. */
    why = buffer_count > 0 && job->micro_batches > 1 ? "one micro-batch, if its model has buffers"
                                                     : why;
    for (uint32_t r = 1; r < job->ranks; r++) {
        why = job->batch_per_rank[r] != job->batch_per_rank[0] ? "as many rows on all ranks" : why;
    }
    why = job->collective.engine != HARNESS_ENGINE_SCHEDULE ? "a collective that runs by schedules"
                                                            : why;
    why = job->device != HARNESS_DEVICE_CPU ? "device cpu" : why;
    why = job->store != HARNESS_STORE_LAUNCHER ? "the launcher's store" : why;
    why = job->optimizer.loss_scale > 0 ? "no loss_scale" : why;
    why = job->join.is_set ? "no join" : why;
    why = job->shard_sizes != NULL ? "no shard_sizes" : why;
    why = job->posts.count > 0 ? "no posts" : why;
    why = job->drift_every > 0 ? "no drift_every" : why;
    /* Those are left in the middle of a step: updated by themselves, and not averaged. */
    why = job->hook == HARNESS_HOOK_LOCAL_SGD ? "a hook other than local_sgd" : why;
    why = job->groups.count > 0 ? "no groups" : why;
    return why == NULL
               ? DDP_OK
               : harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_on_loss), reader->err,
                                   DDP_E_INVALID, "to go on after a loss, a job has %s", why);
}

ddp_status harness_scenario_check_job(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map, void *kept)
{
    struct ref_data_sizes data;

    if (harness_plan_is_guest(reader->plan)) {
        return DDP_OK;
    }
    DDP_TRY(find_files(reader, map, kept));
    DDP_TRY(check_data(reader, map, kept, &data));
    DDP_TRY(check_widths(reader, map, kept, &data));
    DDP_TRY(check_shards(reader, map, kept, &data));
    DDP_TRY(check_evaluation(reader, map, kept));
    DDP_TRY(check_batch_norm(reader, map, kept, &data));
    DDP_TRY(check_graph(reader, map, kept));
    DDP_TRY(check_transport(reader, map, kept));
    DDP_TRY(harness_scenario_check_posts(reader, map, kept));
    DDP_TRY(check_hook(reader, map, kept));
    DDP_TRY(check_scaler(reader, map, kept));
    DDP_TRY(check_mixed(reader, map, kept));
    DDP_TRY(check_on_loss(reader, map, kept));
    return check_device(reader, map, kept);
}
