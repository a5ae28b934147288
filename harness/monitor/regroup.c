/* Ranks announce in their rings who goes on. What a ring holds is not trusted: a number that no
 * rank has is left out, and the judge compares what all of them announced. */
#include "harness/monitor/regroup.h"

#include <string.h>

ddp_status harness_regroup_init(struct harness_regroup *regroup, struct ddp_mem *mem,
                                const struct harness_plan *plan,
                                const struct harness_tables *tables, uint32_t world_size)
{
    const size_t n = world_size;

    *regroup = (struct harness_regroup){.mem = mem, .first_plan = plan, .world_size = world_size};
    if (plan->job.on_loss != HARNESS_ON_LOSS_CONTINUE || tables == NULL) {
        return DDP_OK;
    }
    regroup->tables = tables;
    regroup->heard = ddp_mem_array(mem, n * n, sizeof(*regroup->heard));
    regroup->heard_count = ddp_mem_array(mem, n, sizeof(*regroup->heard_count));
    regroup->has_come = ddp_mem_array(mem, n, sizeof(*regroup->has_come));
    regroup->ranks = ddp_mem_array(mem, n, sizeof(*regroup->ranks));
    regroup->pages = ddp_mem_array(mem, n, sizeof(*regroup->pages));
    regroup->processes = ddp_mem_array(mem, n, sizeof(*regroup->processes));
    if (regroup->heard == NULL || regroup->heard_count == NULL || regroup->has_come == NULL ||
        regroup->ranks == NULL || regroup->pages == NULL || regroup->processes == NULL) {
        harness_regroup_fini(regroup);
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

void harness_regroup_fini(struct harness_regroup *regroup)
{
    struct ddp_mem *mem = regroup->mem;

    if (mem == NULL) {
        return;
    }
    if (regroup->is_open) {
        harness_program_fini(&regroup->program);
        harness_plan_continued_fini(mem, regroup->first_plan, &regroup->plan);
    }
    ddp_mem_free(mem, regroup->heard);
    ddp_mem_free(mem, regroup->heard_count);
    ddp_mem_free(mem, regroup->has_come);
    ddp_mem_free(mem, regroup->ranks);
    ddp_mem_free(mem, regroup->pages);
    ddp_mem_free(mem, regroup->processes);
    *regroup = (struct harness_regroup){.mem = NULL};
}

bool harness_regroup_is_followed(const struct harness_regroup *regroup)
{
    return regroup->tables != NULL;
}

/* The first announcement: what all others are taken to follow. */
static void open_group(struct harness_regroup *regroup, uint32_t rank,
                       const struct ddp_event_entry *entry)
{
    struct harness_continuation who = {.ranks = regroup->ranks,
                                       .rank_count = regroup->heard_count[rank]};

    memcpy(regroup->ranks, &regroup->heard[(size_t)rank * regroup->world_size],
           who.rank_count * sizeof(*regroup->ranks));
    who.first_step = (uint32_t)entry->arg[2];
    who.source = (uint32_t)entry->arg[3];
    if (who.rank_count == 0 || entry->arg[2] > regroup->first_plan->job.steps) {
        return;
    }
    if (harness_plan_continue(regroup->mem, regroup->first_plan, &who, &regroup->plan) != DDP_OK) {
        regroup->is_failed = true;
        return;
    }
    if (harness_program_build(regroup->mem, &regroup->plan, regroup->tables, NULL,
                              &regroup->program) != DDP_OK) {
        harness_plan_continued_fini(regroup->mem, regroup->first_plan, &regroup->plan);
        regroup->is_failed = true;
        return;
    }
    regroup->count = who.rank_count;
    regroup->is_open = true;
}

void harness_regroup_note(struct harness_regroup *regroup, uint32_t rank,
                          const struct ddp_event_entry *entry)
{
    uint32_t *count = &regroup->heard_count[rank];

    if (entry->event == DDP_EVENT_GROUP_MEMBER && *count < regroup->world_size &&
        entry->arg[1] < regroup->world_size) {
        regroup->heard[(size_t)rank * regroup->world_size + (*count)++] = (uint32_t)entry->arg[1];
    }
    if (entry->event != DDP_EVENT_GROUP_CHANGED) {
        return;
    }
    regroup->has_come[rank] = true;
    if (!regroup->is_open) {
        open_group(regroup, rank, entry);
    }
}

static bool is_member(const struct harness_regroup *regroup, uint32_t rank)
{
    for (uint32_t m = 0; m < regroup->count; m++) {
        if (regroup->ranks[m] == rank) {
            return true;
        }
    }
    return false;
}

/* A member's number, + 1, as the rank that it was. */
static uint64_t rank_of(const struct harness_regroup *regroup, uint64_t member_plus_1)
{
    return member_plus_1 == 0 || member_plus_1 > regroup->count
               ? 0
               : (uint64_t)regroup->ranks[member_plus_1 - 1] + 1;
}

/* It still shows what it did in the lost group. */
static void mask(struct ddp_page *page)
{
    page->comm = 0;
    page->seq_posted = 0;
    page->seq_done = 0;
    page->call_seq = 0;
    page->revoke_rank = 0;
    page->revoke_status = 0;
    if (page->wait_kind == DDP_WAIT_COLLECTIVE) {
        page->wait_kind = DDP_WAIT_NONE;
    }
    page->wait_peer = 0;
    ddp_links_clear(&page->links);
}

static uint64_t link_of(const struct harness_regroup *regroup, uint64_t key)
{
    return ddp_links_key_with(key, (uint32_t)rank_of(regroup, ddp_links_rank_plus_1(key)));
}

static void show_member(const struct harness_regroup *regroup, uint32_t rank, struct ddp_page *page)
{
    if (!regroup->has_come[rank]) {
        mask(page);
        return;
    }
    page->wait_peer = rank_of(regroup, page->wait_peer);
    page->revoke_rank = rank_of(regroup, page->revoke_rank);
    page->links.due_from = link_of(regroup, page->links.due_from);
    for (size_t i = 0; i < DDP_LINKS_SENT_COUNT; i++) {
        page->links.sent_to[i] = link_of(regroup, page->links.sent_to[i]);
    }
}

static void show_gone(const struct harness_regroup *regroup, struct ddp_page *page,
                      struct harness_process *process)
{
    const struct harness_op *last =
        harness_program_at(&regroup->program, regroup->program.op_count);

    mask(page);
    if (last != NULL) {
        page->posted_op = ddp_event_op_pack(&(struct ddp_event_op){
            last->kind, last->redop, last->dtype, last->role, last->index, last->root});
        page->posted_count = last->elem_count;
        page->posted_step = (uint64_t)last->step;
        page->posted_phase = last->phase;
    }
    page->wait_kind = DDP_WAIT_NONE;
    page->seq_posted = regroup->program.op_count;
    page->seq_done = regroup->program.op_count;
    page->phase = DDP_PHASE_END;
    page->end_status = 1;
    process->state = HARNESS_PROCESS_EXITED;
    process->code = 0;
    process->ending_ns = 0;
}

/* A cut of the same moment, whose pages and processes are ours to change. */
static struct harness_cut copy_cut(struct harness_regroup *regroup, const struct harness_cut *cut)
{
    struct harness_cut out = *cut;

    DDP_ASSERT(regroup->is_open && cut->world_size == regroup->world_size);
    memcpy(regroup->pages, cut->pages, cut->world_size * sizeof(*regroup->pages));
    memcpy(regroup->processes, cut->processes, cut->world_size * sizeof(*regroup->processes));
    out.pages = regroup->pages;
    out.processes = regroup->processes;
    return out;
}

struct harness_cut harness_regroup_cut(struct harness_regroup *regroup,
                                       const struct harness_cut *cut)
{
    struct harness_cut out = copy_cut(regroup, cut);

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (is_member(regroup, r)) {
            show_member(regroup, r, &regroup->pages[r]);
        } else {
            show_gone(regroup, &regroup->pages[r], &regroup->processes[r]);
        }
    }
    return out;
}

struct harness_cut harness_regroup_lost(struct harness_regroup *regroup,
                                        const struct harness_cut *cut)
{
    struct harness_cut out = copy_cut(regroup, cut);

    for (uint32_t r = 0; r < cut->world_size; r++) {
        if (is_member(regroup, r)) {
            regroup->pages[r].end_status = 0;
            regroup->processes[r].state = HARNESS_PROCESS_RUNNING;
        }
    }
    return out;
}
