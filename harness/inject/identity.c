/* Who a rank is told that it is: the variables of its launcher, as faults left them. */
#include "harness/inject/inject.h"

struct source {
    const struct harness_injector *injector;
    const char *(*lookup)(void *context, const char *name);
    void *context;
};

static const char *look_up(void *context, const char *name)
{
    const struct source *source = context;

    return harness_injector_variable(source->injector, name, source->lookup(source->context, name));
}

ddp_status harness_injector_identify(const struct harness_injector *injector, struct ddp_env *env,
                                     const char *(*lookup)(void *context, const char *name),
                                     void *context, struct ddp_rendezvous *out, struct ddp_err *err)
{
    struct source source = {injector, lookup, context};

    DDP_ASSERT(env->recorder != NULL);
    DDP_TRY(ddp_rendezvous_parse(look_up, &source, out, err));
    ddp_recorder_event(env->recorder, DDP_EVENT_RANK_TOLD, out->rank, out->world_size, 0, 0, 0);
    return DDP_OK;
}
