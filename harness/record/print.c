/* The record as text. */
#include <inttypes.h>

#include "ddpcore/base/hash.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/record/record.h"
#include "harness/trace/trace.h"
#include "harness/watch/analyse.h"
#include "harness/watch/names.h"

static void print_rank(const struct harness_watch *watch, uint32_t rank, struct ddp_text *out)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    ddp_text_add(out,
                 "rank %" PRIu32 " state=%s code=%d attached=%d detached=%d steps=%" PRIu64
                 " lost=%" PRIu64 " lost_comms=%" PRIu64 " fired=",
                 rank, harness_watch_state_name(self->state), self->code, self->is_attached,
                 self->is_detached, self->step_count, self->lost_count, self->lost_comms);
    for (uint32_t f = 0; f < GUEST_FAULTS_MAX; f++) {
        ddp_text_add(out, "%s%" PRIu32, f > 0 ? "," : "", self->fired[f]);
    }
    ddp_text_add(out, " unable=");
    for (uint32_t f = 0; f < GUEST_FAULTS_MAX; f++) {
        ddp_text_add(out, "%s%d", f > 0 ? "," : "", self->unable[f]);
    }
    ddp_text_add(out, " fired_ns=%" PRIu64 "\n", self->fired_ns);
}

static void print_calls(const struct harness_watch_group *group, size_t number, uint32_t rank,
                        struct ddp_text *out)
{
    const struct harness_watch_member *member = &group->members[rank];
    const uint64_t end = member->kept_seq + member->call_count;
    const uint64_t from = member->call_count > HARNESS_WATCH_RECORD_CALLS_MAX
                              ? end - HARNESS_WATCH_RECORD_CALLS_MAX
                              : member->kept_seq;

    ddp_text_add(out,
                 "member %zu rank=%" PRIu32 " index=%" PRIu32 " freed=%d posted=%" PRIu64
                 " from=%" PRIu64 " calls=%" PRIu64 "\n",
                 number, rank, member->rank, member->is_freed, member->posted, from, end - from);
    for (uint64_t seq = from; seq < end; seq++) {
        const struct harness_watch_call *call = &member->calls[seq - member->kept_seq];

        ddp_text_add(out,
                     "call %zu rank=%" PRIu32 " seq=%" PRIu64
                     " kind=%s dtype=%s redop=%s root=%" PRIu32 " count=%" PRIu64 " bucket=%" PRIu64
                     " step=%" PRIu32 " micro=%" PRIu16 " phase=%" PRIu8 " done=%d time=%" PRIu64,
                     number, rank, seq, harness_watch_kind_name(guest_op_kind(call->op)),
                     harness_watch_dtype_name(guest_op_dtype(call->op)),
                     harness_watch_redop_name(guest_op_redop(call->op)), guest_op_root(call->op),
                     call->elem_count, call->bucket, call->step, call->micro, call->phase,
                     call->is_done, call->time_ns);
        if (call->model != 0) {
            ddp_text_add(out, " model=%" PRIu32, call->model);
        }
        if (call->list != NULL) {
            ddp_text_add(out, " list=%" PRIu32, call->list->number);
        }
        ddp_text_add(out, "\n");
    }
}

static void print_list(const struct harness_watch *watch, uint32_t number, struct ddp_text *out)
{
    const struct harness_watch_list *list = watch->lists;

    while (list != NULL && list->number != number) {
        list = list->next;
    }
    ddp_text_add(out, "list %" PRIu32 " names=", number);
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        ddp_text_add(out, "%s%" PRIu32, i > 0 ? "," : "", list->params[i]);
    }
    ddp_text_add(out, "\n");
}

/* What ranks told by names; of a program that told nothing, nothing. */
static void print_names(const struct harness_watch *watch, struct ddp_text *out)
{
    const uint32_t lists = watch->lists != NULL ? watch->lists->number + 1 : 0;

    for (uint32_t i = 0; i < watch->names.count; i++) {
        ddp_text_add(out, "name %" PRIu32 " text=%s\n", i, watch->names.items[i]);
    }
    for (uint32_t i = 0; i < lists; i++) {
        print_list(watch, i, out);
    }
}

static void print_group(const struct harness_watch *watch, size_t number, struct ddp_text *out)
{
    const struct harness_watch_group *group = &watch->groups[number];

    ddp_text_add(out, "group %zu key=%" PRIu64 " size=%" PRIu64 " text=%s\n", number, group->key,
                 group->size, group->name);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there) {
            print_calls(group, number, r, out);
        }
    }
}

static void print_finding(const struct harness_finding *finding, struct ddp_text *out)
{
    const int32_t kind = finding->guest.kind;

    ddp_text_add(out, "about kind=%s text=%s\n",
                 kind > 0 ? harness_watch_kind_name((uint32_t)kind - 1) : "-", finding->guest.comm);
    harness_trace_print_diagnosis(0, finding, out);
}

static void print_accounts(const struct harness_watch_accounts *accounts, struct ddp_text *out)
{
    unsigned judged = 0;

    for (int i = 0; i < HARNESS_ORACLE_COUNT; i++) {
        judged += accounts->of[i].judged > 0;
    }
    ddp_text_add(out, "oracles judged=%u unjudged=%zu\n", judged, accounts->lack_count);
    for (int i = 0; i < HARNESS_ORACLE_COUNT; i++) {
        const struct harness_watch_account *account = &accounts->of[i];

        if (account->judged > 0) {
            ddp_text_add(
                out, "judged oracle=%s count=%" PRIu64 " bitwise=%" PRIu64 " bound=%" PRIu64 "\n",
                harness_oracle_name((enum harness_oracle_id)i), account->judged, account->bitwise,
                account->bound);
        }
    }
    for (size_t i = 0; i < accounts->lack_count; i++) {
        ddp_text_add(out, "unjudged %zu oracle=%s count=%" PRIu64 " text=%s\n", i,
                     harness_oracle_name(accounts->lacks[i].oracle), accounts->lacks[i].count,
                     accounts->lacks[i].why);
    }
}

void harness_watch_record_print(const struct harness_watch_record *record, struct ddp_text *out)
{
    const struct harness_watch *watch = &record->watch;
    const size_t start = out->size_bytes;

    ddp_text_add(out, "ddprove-guest-record 2 world=%" PRIu32 " ended=%d exit=%d\n",
                 watch->world_size, record->is_ended, record->exit_code);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        print_rank(watch, r, out);
    }
    print_names(watch, out);
    for (size_t g = 0; g < watch->group_count; g++) {
        print_group(watch, g, out);
    }
    print_accounts(&record->accounts, out);
    for (size_t i = 0; i < record->findings.count; i++) {
        print_finding(&record->findings.items[i], out);
    }
    if (!out->is_failed) {
        ddp_text_add(out, "end digest=%016" PRIx64 "\n",
                     ddp_hash_bytes(out->data + start, out->size_bytes - start, 0));
    }
}
