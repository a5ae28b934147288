/* Algorithms: pure functions that emit a schedule. To add one: write <name>.c with an emit function
 * and its row in algorithm.c; ddprove and the tests find it by name. */
#ifndef DDPCORE_SCHEDULE_ALGORITHM_H
#define DDPCORE_SCHEDULE_ALGORITHM_H

#include "ddpcore/schedule/schedule.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_algorithm {
    const char *name;
    enum ddp_coll_kind kind;
    const char *description;
    /* Emit params->rank's steps into schedule (params are in it). Must be pure: the same params
     * give the same steps. Supports any size >= 1 and any elem_count. */
    void (*emit)(struct ddp_schedule *schedule);
};

/* All built-in algorithms; *out_count says how many. Static storage. */
const struct ddp_algorithm *ddp_algorithm_table(size_t *out_count);
/* By kind and name; name NULL = the kind's default. NULL if unknown. */
const struct ddp_algorithm *ddp_algorithm_find(enum ddp_coll_kind kind, const char *name);

/* The same, or E_NOT_FOUND with an error that lists the kind's algorithms. */
DDP_MUST_USE ddp_status ddp_algorithm_require(enum ddp_coll_kind kind, const char *name,
                                              const struct ddp_algorithm **out,
                                              struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
