/* Buckets of a job that delays parameters: those of the model without them, then one for each type
 * of what is delayed. */
#include <string.h>

#include "harness/plan/bucket.h"

static bool is_delayed(const struct harness_job *job, const struct ddp_param *param)
{
    for (size_t i = 0; i < job->delayed.count; i++) {
        if (strcmp(job->delayed.items[i], param->name) == 0) {
            return true;
        }
    }
    return false;
}

/* The model without what is delayed. */
struct prompt {
    struct harness_tables tables;
    struct ddp_param *params;
    uint32_t *index; /* which parameter of the model each is */
    uint32_t *order;
};

static void prompt_fini(struct ddp_mem *mem, struct prompt *prompt)
{
    ddp_mem_free(mem, prompt->params);
    ddp_mem_free(mem, prompt->index);
    ddp_mem_free(mem, prompt->order);
}

static ddp_status prompt_init(struct ddp_mem *mem, const struct harness_job *job,
                              const struct harness_tables *model, struct prompt *out)
{
    const size_t count = model->param_count;
    size_t kept = 0, ordered = 0;

    *out = (struct prompt){.tables = *model};
    out->params = ddp_mem_array(mem, count, sizeof(*out->params));
    out->index = ddp_mem_array(mem, count, sizeof(*out->index));
    out->order = ddp_mem_array(mem, count, sizeof(*out->order));
    if (out->params == NULL || out->index == NULL || out->order == NULL) {
        prompt_fini(mem, out);
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_delayed(job, &model->params[i])) {
            out->index[kept] = i;
            out->params[kept++] = model->params[i];
        }
    }
    /* The same parameters in the order in which they are ready. */
    for (size_t i = 0; model->ready_order != NULL && i < count; i++) {
        for (uint32_t k = 0; k < kept; k++) {
            if (out->index[k] == model->ready_order[i]) {
                out->order[ordered++] = k;
            }
        }
    }
    out->tables.params = out->params;
    out->tables.param_count = kept;
    out->tables.ready_order = model->ready_order != NULL ? out->order : NULL;
    return DDP_OK;
}

static ddp_status fill(struct ddp_mem *mem, const struct harness_job *job,
                       const struct harness_tables *model, enum ddp_dtype dtype,
                       struct harness_bucket *bucket)
{
    bucket->dtype = dtype;
    bucket->params = ddp_mem_array(mem, model->param_count, sizeof(*bucket->params));
    bucket->offsets = ddp_mem_array(mem, model->param_count, sizeof(*bucket->offsets));
    if (bucket->params == NULL || bucket->offsets == NULL) {
        ddp_mem_free(mem, bucket->params);
        ddp_mem_free(mem, bucket->offsets);
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < model->param_count; i++) {
        if (model->params[i].dtype == dtype && is_delayed(job, &model->params[i])) {
            bucket->params[bucket->param_count] = i;
            bucket->offsets[bucket->param_count++] = bucket->elem_count;
            bucket->elem_count += model->params[i].elem_count;
        }
    }
    return DDP_OK;
}

static bool has_type(const struct harness_job *job, const struct harness_tables *model,
                     enum ddp_dtype dtype)
{
    for (size_t i = 0; i < model->param_count; i++) {
        if (model->params[i].dtype == dtype && is_delayed(job, &model->params[i])) {
            return true;
        }
    }
    return false;
}

/* From numbers of the model without them to the model's own, and what is delayed behind. */
static ddp_status complete(struct ddp_mem *mem, const struct harness_job *job,
                           const struct harness_tables *model, const struct prompt *prompt,
                           struct harness_buckets *buckets)
{
    struct harness_bucket *items =
        ddp_mem_array(mem, buckets->count + DDP_DTYPE_COUNT, sizeof(*items));

    if (items == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t b = 0; b < buckets->count; b++) {
        items[b] = buckets->items[b];
        for (uint32_t i = 0; i < items[b].param_count; i++) {
            items[b].params[i] = prompt->index[items[b].params[i]];
        }
    }
    ddp_mem_free(mem, buckets->items);
    buckets->items = items;
    for (size_t dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        if (has_type(job, model, (enum ddp_dtype)dtype)) {
            DDP_TRY(fill(mem, job, model, (enum ddp_dtype)dtype, &items[buckets->count]));
            buckets->count++;
        }
    }
    return DDP_OK;
}

ddp_status harness_bucket_assign_job(struct ddp_mem *mem, const struct harness_job *job,
                                     const struct harness_tables *model,
                                     struct harness_buckets *first, struct harness_buckets *rebuilt)
{
    struct prompt prompt;
    ddp_status status;

    if (job->delayed.count == 0) {
        return harness_bucket_assign_prompt(mem, job, model, first, rebuilt);
    }
    DDP_TRY(prompt_init(mem, job, model, &prompt));
    status = harness_bucket_assign_prompt(mem, job, &prompt.tables, first, rebuilt);
    status = status == DDP_OK ? complete(mem, job, model, &prompt, first) : status;
    if (status == DDP_OK && harness_bucket_is_rebuilt(job)) {
        status = complete(mem, job, model, &prompt, rebuilt);
    }
    prompt_fini(mem, &prompt);
    return status;
}
