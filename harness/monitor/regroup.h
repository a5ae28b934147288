/* What the monitor knows of ranks that go on after a loss (job.on_loss: continue): who they are, as
 * they announce it, and the program that they follow from then on. Internal to harness/monitor. */
#ifndef HARNESS_MONITOR_REGROUP_H
#define HARNESS_MONITOR_REGROUP_H

#include "harness/monitor/monitor.h"
#include "harness/plan/continued.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_regroup {
    struct ddp_mem *mem;
    const struct harness_plan *first_plan;
    const struct harness_tables *tables; /* NULL: nobody goes on */
    uint32_t world_size;
    uint32_t *heard; /* [world][world] ranks that each has named so far */
    uint32_t *heard_count;
    bool *has_come; /* [world] it has announced that it is in the new group */
    /* As the first one that came has it: */
    bool is_open;
    uint32_t *ranks; /* [count] */
    uint32_t count;
    struct harness_plan plan;
    struct harness_program program;
    /* The cut as seen by the new group: [world] */
    struct ddp_page *pages;
    struct harness_process *processes;
    bool is_failed; /* out of memory */
};

/* Nothing is allocated unless the plan's ranks go on after a loss. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_regroup_init(struct harness_regroup *regroup, struct ddp_mem *mem,
                                             const struct harness_plan *plan,
                                             const struct harness_tables *tables,
                                             uint32_t world_size);
/* Zeroed is fine too. */
void harness_regroup_fini(struct harness_regroup *regroup);
bool harness_regroup_is_followed(const struct harness_regroup *regroup);
/* An event of a rank's ring; others than group.* say nothing. */
void harness_regroup_note(struct harness_regroup *regroup, uint32_t rank,
                          const struct ddp_event_entry *entry);
/* From the whole cut to that of the new group, with the ranks' first numbers: those that are not in
 * it have ended in good order, members that have not come yet have posted nothing. Valid until the
 * next call. */
struct harness_cut harness_regroup_cut(struct harness_regroup *regroup,
                                       const struct harness_cut *cut);
/* The same of those that were lost: members run. */
struct harness_cut harness_regroup_lost(struct harness_regroup *regroup,
                                        const struct harness_cut *cut);

#ifdef __cplusplus
}
#endif
#endif
