#include "tests/unit/watch/made_record.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"

void made_open(struct made_record *made, uint32_t world_size)
{
    memset(made, 0, sizeof *made);
    CT_REQUIRE(ddp_mem_pool_create(&made->pool) == DDP_OK);
    made->mem = ddp_mem_pool_mem(made->pool);
    made->record.watch.mem = made->mem;
    made->record.watch.world_size = world_size;
    made->record.watch.ranks =
        ddp_mem_array(made->mem, world_size, sizeof *made->record.watch.ranks);
    harness_findings_init(&made->record.findings, made->mem);
    for (uint32_t r = 0; r < world_size; r++) {
        made->record.watch.ranks[r].state = HARNESS_WATCH_EXITED;
        made->record.watch.ranks[r].is_attached = true;
        made->record.watch.ranks[r].is_detached = true;
    }
}

void made_close(struct made_record *made)
{
    ddp_mem_pool_destroy(made->pool);
}

size_t made_group(struct made_record *made, const char *name, uint64_t calls)
{
    struct harness_watch *watch = &made->record.watch;
    struct harness_watch_group *groups = ddp_mem_grow(made->mem, watch->groups, watch->group_count,
                                                      &watch->group_capacity, sizeof *groups);
    struct harness_watch_group *group = &groups[watch->group_count];

    watch->groups = groups;
    *group =
        (struct harness_watch_group){.key = 100 + watch->group_count, .size = watch->world_size};
    (void)snprintf(group->name, sizeof group->name, "%s", name);
    group->members = ddp_mem_array(made->mem, watch->world_size, sizeof *group->members);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        struct harness_watch_member *member = &group->members[r];

        *member = (struct harness_watch_member){
            .is_there = true, .handle = 1, .rank = r, .posted = calls, .kept_seq = 1};
        member->calls = ddp_mem_array(made->mem, calls, sizeof *member->calls);
        member->call_count = calls;
        for (uint64_t i = 0; i < calls; i++) {
            member->calls[i] = (struct harness_watch_call){
                .op = guest_op_pack(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_F32, DDPROVE_GUEST_SUM,
                                    0),
                .elem_count = 10,
                .time_ns = 1000 * (i + 1),
                .step = (uint32_t)i,
                .is_done = true};
        }
        if (watch->ranks[r].step_count < calls) {
            watch->ranks[r].step_count = calls;
        }
    }
    return watch->group_count++;
}

void made_cut(struct made_record *made, size_t group, uint32_t rank, uint64_t calls)
{
    struct harness_watch_member *member = &made->record.watch.groups[group].members[rank];

    member->posted = calls;
    member->call_count = calls;
}

void made_kill(struct made_record *made, uint32_t rank, int signal_number)
{
    made->record.watch.ranks[rank].state = HARNESS_WATCH_SIGNALED;
    made->record.watch.ranks[rank].code = signal_number;
    made->record.watch.ranks[rank].is_detached = false;
}

struct harness_finding *made_finding(struct made_record *made, enum harness_verdict verdict,
                                     uint32_t culprit)
{
    struct harness_finding finding;

    harness_finding_init(&finding, made->mem, verdict, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, culprit);
    harness_watch_say(&finding, "rank %u is wrong", culprit);
    harness_findings_add(&made->record.findings, &finding);
    return &made->record.findings.items[made->record.findings.count - 1];
}

const char *made_text(struct made_record *made, size_t *out_size_bytes)
{
    struct ddp_text text;

    ddp_text_init(&text, made->mem);
    harness_watch_record_print(&made->record, &text);
    CT_CHECK(!text.is_failed);
    *out_size_bytes = text.size_bytes;
    return ddp_text_str(&text);
}

/* A list of two names. */
static const struct harness_watch_list *made_list(struct made_record *made, const char *one,
                                                  const char *other)
{
    uint32_t params[2] = {0, 0};

    CT_CHECK(harness_watch_name(&made->record.watch, one, &params[1]) &&
             harness_watch_name(&made->record.watch, other, &params[0]));
    return harness_watch_list_of(&made->record.watch, params, 2);
}

void made_rich(struct made_record *made)
{
    struct harness_watch *watch = &made->record.watch;
    struct harness_finding *finding;
    size_t world, pair;

    made_open(made, MADE_RICH_WORLD);
    world = made_group(made, "world", 3);
    pair = made_group(made, "a pair of ranks", 2);
    (void)made_group(made, "", 1);
    watch->groups[pair].size = 2;
    watch->groups[pair].members[1].is_there = false;
    watch->groups[pair].members[2].rank = 1;
    watch->groups[pair].members[0].is_freed = true;
    made_cut(made, world, 2, 2);
    watch->groups[world].members[1].calls[1] = (struct harness_watch_call){
        .op = guest_op_pack(DDPROVE_GUEST_REDUCE, DDPROVE_GUEST_BF16, DDPROVE_GUEST_MAX, 7),
        .elem_count = UINT64_MAX,
        .bucket = 4,
        .model = 2,
        .list = made_list(made, "fc1.weight", "a name, with spaces"),
        .time_ns = UINT64_MAX,
        .step = UINT32_MAX,
        .micro = UINT16_MAX,
        .phase = UINT8_MAX};
    made_kill(made, 2, SIGKILL);
    watch->ranks[0].code = -1;
    watch->ranks[1].lost_count = 5;
    watch->ranks[1].lost_comms = 6;
    watch->ranks[1].fired[0] = 1;
    watch->ranks[1].fired[GUEST_FAULTS_MAX - 1] = UINT32_MAX;
    watch->ranks[1].unable[1] = GUEST_UNABLE_NO_DATA;
    watch->ranks[1].fired_ns = 123456789;
    made->record.accounts.of[HARNESS_ORACLE_PROGRAM] = (struct harness_watch_account){91, 7, 80};
    made->record.accounts.of[HARNESS_ORACLE_LEDGER].judged = 1;
    harness_watch_add_lack(&made->record.accounts, HARNESS_ORACLE_UPDATE, 5, "hidden");
    harness_watch_add_lack(&made->record.accounts, HARNESS_ORACLE_GRADIENT, 0, "");
    made->record.is_ended = true;
    made->record.exit_code = 128 + SIGKILL;
    finding = made_finding(made, HARNESS_VERDICT_CRASH_SIGNALED, 2);
    harness_rank_set_add(&finding->victims, 0);
    harness_rank_set_add(&finding->victims, 1);
    finding->step = 2;
    finding->phase = DDP_PHASE_BACKWARD;
    finding->detect_ns = 1500000;
    harness_watch_set_op(&watch->groups[world], 3, &watch->groups[world].members[0].calls[2],
                         finding);
    harness_finding_add_param(finding, 1);
    finding = made_finding(made, HARNESS_VERDICT_HANG_STOPPED, 1);
    finding->mode = HARNESS_MODE_BUDGET;
}
