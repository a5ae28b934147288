/* The ranks of a measurement as processes of this machine: started, followed, ended. Internal. */
#ifndef HARNESS_LAB_TEAM_H
#define HARNESS_LAB_TEAM_H

#include <sys/types.h>

#include "harness/lab/shared.h"

struct harness_lab_team {
    struct harness_lab_shared *shared;
    int fd; /* of the mapping; -1: there is none */
    pid_t pid[HARNESS_LAB_RANKS_MAX];
    uint32_t process_count; /* of mpirun's team: 1 */
    bool is_by_mpirun;
    char files[64]; /* the folder of mpirun's files; empty: there is none */
    /* One that ended with an error, which may only follow from another one's. */
    uint32_t failed;                /* its number + 1; 0: none has */
    int failed_status;              /* as wait gives it */
    uint64_t failed_ns;             /* when that was seen */
    int end[HARNESS_LAB_RANKS_MAX]; /* of each process, as wait gives it; -1: it lives */
};

/* Maps room for the inputs of `ranks` ranks of arena_bytes each, and for what they become.
 * Errors: E_NOMEM: that is more than the machine has; E_SYSTEM. */
DDP_MUST_USE ddp_status harness_lab_team_init(struct harness_lab_team *team, uint32_t ranks,
                                              size_t arena_bytes, struct ddp_err *err);
void harness_lab_team_fini(struct harness_lab_team *team);

/* Starts the ranks of shared->request, anew each time. mpirun: NULL, or the program that starts
 * them. Errors: E_SYSTEM. */
DDP_MUST_USE ddp_status harness_lab_team_start(struct harness_lab_team *team, const char *mpirun,
                                               struct ddp_err *err);
/* Waits until all ranks have done `done` parts. Errors: those of a rank, in words; E_TIMEOUT: a
 * minute went by in which none got on. The team is ended then. */
DDP_MUST_USE ddp_status harness_lab_team_wait(struct harness_lab_team *team, uint32_t done,
                                              struct ddp_err *err);
/* The same of ranks that may end: until each has done `done` parts or has ended, and no longer than
 * that. out_end[rank]: its end as wait gives it, or -1: it lives. mpirun's ranks end all at once.
 * False: the time was up. */
bool harness_lab_team_watch(struct harness_lab_team *team, uint32_t done, uint64_t timeout_ns,
                            int *out_end);
/* Waits for the ends of the processes, of which nothing is expected any more. */
DDP_MUST_USE ddp_status harness_lab_team_join(struct harness_lab_team *team, struct ddp_err *err);
/* Kills what still runs. */
void harness_lab_team_end(struct harness_lab_team *team);

#endif
