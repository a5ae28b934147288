/* DDPLogger's fields. */
#include "ddpcore/ddp/logging.h"

#include <inttypes.h>

#include "ddpcore/ddp/core.h"

static void add_dtypes(const struct ddp *ddp, struct ddp_text *out)
{
    const char *separator = "";

    ddp_text_add(out, "\"dtypes\":\"");
    for (int d = 0; d < DDP_DTYPE_COUNT; d++) {
        bool is_used = false;

        for (size_t p = 0; p < ddp->param_count; p++) {
            is_used = is_used || ddp->params[p].dtype == (enum ddp_dtype)d;
        }
        if (is_used) {
            ddp_text_add(out, "%s%s", separator, ddp_dtype_name((enum ddp_dtype)d));
            separator = ", ";
        }
    }
    ddp_text_add(out, "\"");
}

static void add_sizes(const struct ddp *ddp, struct ddp_text *out)
{
    size_t total = 0, unused = 0;

    for (size_t p = 0; p < ddp->param_count; p++) {
        const size_t size_bytes = ddp_param_size_bytes(&ddp->params[p]);

        total += size_bytes;
        unused += ddp->params[p].is_grad_defined ? 0 : size_bytes;
    }
    ddp_text_add(out,
                 "\"num_parameter_tensors\":%zu,\"total_parameter_size_bytes\":%zu,"
                 "\"unused_parameter_size\":%zu,\"bucket_sizes\":\"",
                 ddp->param_count, total, unused);
    DDP_ASSERT(ddp->layout.bucket_count <= ddp->param_count && unused <= total);
    for (size_t b = 0; b < ddp->layout.bucket_count; b++) {
        ddp_text_add(out, "%s%zu", b > 0 ? ", " : "", ddp->layout.buckets[b].size_bytes);
    }
    ddp_text_add(out, "\"");
}

/* PyTorch's mixed precision is a hook, too. */
static void add_hook(const struct ddp *ddp, struct ddp_text *out)
{
    const char *name = ddp->config.hook != NULL ? ddp->config.hook->ops->name : "";
    char mixed[DDP_MIXED_NAME_BYTES];

    if (ddp->config.mixed != NULL) {
        ddp_mixed_name(ddp, mixed);
        name = mixed;
    }
    ddp_text_add(out, ",\"gradient_as_bucket_view\":%d,\"comm_hook\":\"%s\"",
                 ddp->config.gradient_as_bucket_view, name);
}

void ddp_logging_data(const struct ddp *ddp, struct ddp_text *out)
{
    const struct ddp_group *group = ddp->group;
    const bool has_error = group->failure.status != DDP_OK;

    DDP_ASSERT(group->coll != NULL);
    ddp_text_add(out, "{\"world_size\":%" PRIu32 ",\"rank\":%" PRIu32 ",\"iteration\":%" PRIu32 ",",
                 group->env->world_size, group->env->rank, group->step);
    add_sizes(ddp, out);
    ddp_text_add(out, ",");
    add_dtypes(ddp, out);
    add_hook(ddp, out);
    ddp_text_add(out,
                 ",\"bucket_cap_bytes\":%zu,\"broadcast_buffers\":%d,\"find_unused_parameters\":%d,"
                 "\"static_graph\":%d,\"join_uneven_inputs\":%d,\"has_error\":%d,\"error\":\"",
                 ddp->config.bucket_cap_bytes, ddp->config.broadcast_buffers,
                 ddp->config.find_unused_parameters, ddp->config.is_static_graph, ddp->is_joining,
                 has_error);
    if (has_error) { /* a status and its meaning: nothing to escape */
        ddp_text_add(out, "%s: %s", ddp_status_name(group->failure.status),
                     ddp_status_text(group->failure.status));
        if (group->failure.rank >= 0) {
            ddp_text_add(out, " (rank %" PRId32 ")", group->failure.rank);
        }
    }
    ddp_text_add(out, "\"}");
}
