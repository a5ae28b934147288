/* Calls and findings about them, in words. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

static const char *const kind_names[DDPROVE_GUEST_KIND_COUNT] = {
#define X(id, name) [DDPROVE_GUEST_##id] = name,
    DDPROVE_GUEST_KIND_TABLE(X)
#undef X
};
static const char *const dtype_names[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = name,
    DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
};
static const char *const redop_names[DDPROVE_GUEST_REDOP_COUNT] = {
#define X(id, name) [DDPROVE_GUEST_##id] = name,
    DDPROVE_GUEST_REDOP_TABLE(X)
#undef X
};

static const char *name_of(const char *const *names, uint32_t count, uint32_t index)
{
    return index < count ? names[index] : "?";
}

const struct harness_watch_call *harness_watch_any_call(const struct harness_watch *watch,
                                                        const struct harness_watch_group *group,
                                                        uint64_t seq)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);

        if (call != NULL) {
            return call;
        }
    }
    return NULL;
}

void harness_watch_print_call(const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_call *call, struct ddp_text *out)
{
    const uint32_t redop = call != NULL ? guest_op_redop(call->op) : 0;

    ddp_text_add(out, "%s %llu",
                 call != NULL
                     ? name_of(kind_names, DDPROVE_GUEST_KIND_COUNT, guest_op_kind(call->op))
                     : "call",
                 (unsigned long long)seq);
    if (group->name[0] != '\0') {
        ddp_text_add(out, " of %s", group->name);
    } else {
        ddp_text_add(out, " of communicator %llx", (unsigned long long)group->key);
    }
    if (call == NULL) {
        return;
    }
    ddp_text_add(out, " (%llu %s", (unsigned long long)call->elem_count,
                 name_of(dtype_names, DDPROVE_GUEST_DTYPE_COUNT, guest_op_dtype(call->op)));
    if (redop != DDPROVE_GUEST_NO_REDOP) {
        ddp_text_add(out, ", %s", name_of(redop_names, DDPROVE_GUEST_REDOP_COUNT, redop));
    }
    if (call->bucket != 0) {
        ddp_text_add(out, ", bucket %llu", (unsigned long long)(call->bucket - 1));
    }
    if (guest_op_root(call->op) != 0) {
        ddp_text_add(out, ", root %u", guest_op_root(call->op));
    }
    ddp_text_add(out, ")");
}

void harness_watch_set_op(const struct harness_watch_group *group, uint64_t seq,
                          const struct harness_watch_call *call, struct harness_finding *finding)
{
    (void)group;
    finding->op.is_set = true;
    finding->op.seq = seq;
    finding->op.bucket = -1;
    if (call != NULL) {
        finding->op.elem_count = call->elem_count;
        finding->op.bucket = call->bucket != 0 ? (int32_t)(call->bucket - 1) : -1;
        finding->step = (int32_t)call->step;
        finding->micro = call->micro;
        finding->phase = call->phase;
    }
}

void harness_watch_say(struct harness_finding *finding, const char *format, ...)
{
    const size_t used = strlen(finding->text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(finding->text + used, sizeof finding->text - used, format, args);
    va_end(args);
}
