/* Calls and findings about them, in words. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"
#include "harness/watch/names.h"

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

uint64_t harness_watch_first_posted_ns(const struct harness_watch *watch,
                                       const struct harness_watch_group *group, uint64_t seq)
{
    uint64_t first_ns = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_call *call = harness_watch_call_at(&group->members[r], seq);

        if (call != NULL && (first_ns == 0 || call->time_ns < first_ns)) {
            first_ns = call->time_ns;
        }
    }
    return first_ns;
}

/* A wait for ranks, named by their places in the communicator. */
static void print_ranks(const struct harness_watch_group *group, uint64_t seq, struct ddp_text *out)
{
    const int first = guest_wait_rank(seq, 0);
    const int second = guest_wait_rank(seq, 1);

    if (first < 0) {
        ddp_text_add(out, "a wait for anybody");
        return;
    }
    ddp_text_add(out, "a message with rank %d", first);
    if (second >= 0 && second != first) {
        ddp_text_add(out, " or %d", second);
    }
    ddp_text_add(out, " of %s", group->name);
}

/* The first ones of what a bucket holds: a sentence has room for so much. */
static void print_params(const struct harness_watch_list *list, struct ddp_text *out)
{
    enum { SHOWN_BYTES = 64 };
    size_t size_bytes = 0;
    uint32_t i = 0;

    for (; list != NULL && i < list->count &&
           (i == 0 || size_bytes + strlen(list->texts[i]) <= SHOWN_BYTES);
         i++) {
        ddp_text_add(out, "%s%s", i == 0 ? " of " : " and ", list->texts[i]);
        size_bytes += strlen(list->texts[i]);
    }
    if (list != NULL && i < list->count) {
        ddp_text_add(out, " and %u more", list->count - i);
    }
}

void harness_watch_print_call(const struct harness_watch_group *group, uint64_t seq,
                              const struct harness_watch_call *call, struct ddp_text *out)
{
    const uint32_t redop = call != NULL ? guest_op_redop(call->op) : 0;

    if (guest_wait_is_of_ranks(seq)) {
        print_ranks(group, seq, out);
        return;
    }
    ddp_text_add(out, "%s %llu",
                 call != NULL ? harness_watch_kind_name(guest_op_kind(call->op)) : "call",
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
                 harness_watch_dtype_name(guest_op_dtype(call->op)));
    if (redop != DDPROVE_GUEST_NO_REDOP) {
        ddp_text_add(out, ", %s", harness_watch_redop_name(redop));
    }
    if (call->bucket != 0) {
        ddp_text_add(out, ", bucket %llu", (unsigned long long)(call->bucket - 1));
        print_params(call->list, out);
    }
    if (call->name[0] != '\0') {
        ddp_text_add(out, ", %s", call->name);
    }
    if (guest_op_root(call->op) != 0) {
        ddp_text_add(out, ", root %u", guest_op_root(call->op));
    }
    ddp_text_add(out, ")");
}

void harness_watch_set_op(const struct harness_watch_group *group, uint64_t seq,
                          const struct harness_watch_call *call, struct harness_finding *finding)
{
    finding->op.is_set = true;
    (void)snprintf(finding->guest.comm, sizeof finding->guest.comm, "%s", group->name);
    finding->op.seq = guest_wait_is_of_ranks(seq) ? 0 : seq;
    finding->op.bucket = -1;
    if (call != NULL) {
        finding->guest.kind = 1 + (int32_t)guest_op_kind(call->op);
        finding->op.elem_count = call->elem_count;
        finding->op.bucket = call->bucket != 0 ? (int32_t)(call->bucket - 1) : -1;
        for (uint32_t i = 0; call->list != NULL && i < call->list->count; i++) {
            harness_finding_add_param(finding, call->list->params[i]);
        }
        finding->step = (int32_t)call->step;
        finding->micro = call->micro;
        finding->phase = call->phase < DDP_PHASE_COUNT ? call->phase : -1;
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

bool harness_watch_may_be_of_launcher(const struct harness_watch_rank *rank)
{
    return rank->is_of_launcher && rank->state == HARNESS_WATCH_SIGNALED &&
           (rank->code == SIGTERM || rank->code == SIGKILL);
}

bool harness_watch_ended_before(const struct harness_watch_rank *first,
                                const struct harness_watch_rank *second)
{
    if (first->since_ns != second->since_ns) {
        return first->since_ns < second->since_ns;
    }
    return (second->code == SIGTERM &&
            (first->state == HARNESS_WATCH_EXITED || first->code != SIGTERM)) ||
           (second->wait_count > 0 && first->wait_count == 0);
}

void harness_watch_say_call(const struct harness_watch *watch,
                            const struct harness_watch_group *group, uint64_t seq,
                            const struct harness_watch_call *call, struct harness_finding *finding)
{
    struct ddp_text text;

    ddp_text_init(&text, watch->mem);
    harness_watch_print_call(group, seq, call, &text);
    harness_watch_say(finding, "%s", ddp_text_str(&text));
    ddp_text_fini(&text);
}

void harness_watch_say_lists(struct harness_finding *finding,
                             const struct harness_watch_list *wrong,
                             const struct harness_watch_list *right)
{
    uint32_t i = 0;

    while (i < wrong->count && i < right->count && wrong->params[i] == right->params[i]) {
        i++;
    }
    if (i < wrong->count && i < right->count) {
        harness_watch_say(finding, "; parameter %u of the bucket is %s, not %s", i, wrong->texts[i],
                          right->texts[i]);
    } else {
        harness_watch_say(finding, "; the bucket holds %u parameters, not %u", wrong->count,
                          right->count);
    }
}
