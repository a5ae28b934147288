/* The static graph: which parameters get gradients, and how often each is reported ready, noted in
 * the first synchronised pass. Passes without synchronisation do not count: what they accumulate is
 * part of the next synchronised one, which PyTorch forgets (143580). */
#include <string.h>

#include "ddpcore/ddp/core.h"

bool ddp_graph_is_noting(const struct ddp *ddp)
{
    return ddp->config.is_static_graph && ddp->is_sync_pass && !ddp->is_graph_noted;
}

bool ddp_graph_is_known(const struct ddp *ddp)
{
    return ddp->config.is_static_graph && ddp->is_sync_pass && ddp->is_graph_noted;
}

bool ddp_graph_has_map(const struct ddp *ddp)
{
    return ddp->config.find_unused_parameters || ddp->config.is_static_graph;
}

ddp_status ddp_graph_open(struct ddp *ddp)
{
    struct ddp_mem *mem = ddp->group->env->mem;

    if (!ddp->config.is_static_graph) {
        return DDP_OK;
    }
    ddp->ready_times = ddp_mem_array(mem, ddp->param_count, sizeof(*ddp->ready_times));
    ddp->noted_times = ddp_mem_array(mem, ddp->param_count, sizeof(*ddp->noted_times));
    return ddp->ready_times == NULL || ddp->noted_times == NULL ? DDP_E_NOMEM : DDP_OK;
}

void ddp_graph_close(struct ddp *ddp)
{
    ddp_mem_free(ddp->group->env->mem, ddp->ready_times);
    ddp_mem_free(ddp->group->env->mem, ddp->noted_times);
}

void ddp_graph_begin(struct ddp *ddp)
{
    if (!ddp->config.is_static_graph) {
        return;
    }
    memset(ddp->ready_times, 0, ddp->param_count * sizeof(*ddp->ready_times));
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->is_expected[i] = !ddp->is_graph_noted || ddp->noted_times[i] > 0;
    }
}

bool ddp_graph_count(struct ddp *ddp, size_t param)
{
    if (ddp_graph_is_noting(ddp)) {
        if (ddp->ready_times[param]++ == 0) {
            ddp_rebuild_note(ddp, param);
        }
        return false;
    }
    if (!ddp_graph_is_known(ddp)) {
        return true;
    }
    DDP_ASSERT(ddp->ready_times[param] < ddp->noted_times[param]);
    return ++ddp->ready_times[param] == ddp->noted_times[param];
}

void ddp_graph_end(struct ddp *ddp)
{
    DDP_ASSERT(ddp_graph_is_noting(ddp));
    memcpy(ddp->noted_times, ddp->ready_times, ddp->param_count * sizeof(*ddp->noted_times));
    ddp->is_graph_noted = true;
}
