/* The eye on a running job: takes cuts of the shared pages and draws conclusions. The monitor
 * process has one; the launcher opens its own if the monitor fails. Internal to the proc driver. */
#ifndef HARNESS_PROC_SAMPLER_H
#define HARNESS_PROC_SAMPLER_H

#include "harness/launch/history.h"
#include "harness/monitor/wait_snapshot.h"
#include "harness/proc/lag.h"
#include "harness/proc/shared.h"

#ifdef __cplusplus
extern "C" {
#endif

struct proc_eye {
    struct ddp_mem *mem;
    const struct harness_plan *plan;
    const struct harness_program *program;
    struct proc_head *head;
    struct ddp_page *pages;            /* [world_size] */
    struct harness_process *processes; /* [world_size] */
    bool *is_page_valid;               /* [world_size] */
    uint64_t *change;                  /* [world_size] page counters at the last look */
    struct ddp_progress *progress;     /* [world_size] progress words at the last look */
    uint64_t *progress_ns;             /* [world_size] when they were last seen to differ */
    struct proc_lag *lags;             /* [world_size] */
    uint64_t *starved_ns;              /* [world_size] */
    struct harness_history *histories; /* [world_size] */
    uint64_t change_ns;                /* when a counter or a word was last seen to differ */
    struct harness_watch watch;
    struct harness_picture *picture; /* of first conclusions; may be NULL */
};

DDP_MUST_USE ddp_status proc_eye_init(struct proc_eye *eye, struct ddp_mem *mem,
                                      const struct harness_plan *plan,
                                      const struct harness_program *program,
                                      struct proc_head *head);
void proc_eye_fini(struct proc_eye *eye);
/* Take a cut and tell watch.tell what is new. */
void proc_eye_look(struct proc_eye *eye, uint64_t now_ns);

#ifdef __cplusplus
}
#endif
#endif
