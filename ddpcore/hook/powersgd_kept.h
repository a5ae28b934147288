/* What PowerSGD keeps from pass to pass: of each parameter, not of each bucket, so that buckets may
 * be rebuilt, and a run that is resumed may begin with other ones. (PyTorch keeps it by the
 * bucket's number; what then fits no bucket, or another one, is taken all the same.) Internal to
 * ddpcore/hook. */
#ifndef DDPCORE_HOOK_POWERSGD_KEPT_H
#define DDPCORE_HOOK_POWERSGD_KEPT_H

#include "ddpcore/hook/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A parameter as a matrix of n x m; rank: columns of its P and Q, 0: it is not compressed. */
struct ddp_powersgd_part {
    size_t n, m, rank;
    size_t elem_count;
    float *error; /* [elem_count] what was left out so far */
    float *q;     /* [m * rank] as the last pass left it; at first zero */
};

struct ddp_powersgd_kept {
    struct ddp_mem *mem;
    struct ddp_powersgd_part *parts; /* [param_count]; NULL: nothing is kept */
    size_t param_count;
    struct ddp_param *state; /* the iteration, then error and Q of each parameter */
    size_t state_count;
    float *block;
    char *names;
};

/* Room for what is kept of these parameters, zeroed. If there is some for parameters of the same
 * shapes already, what it holds stays. iteration: the first tensor of the state, borrowed. kept:
 * zeroed at first. Errors: E_NOMEM, then nothing is kept. */
DDP_MUST_USE ddp_status ddp_powersgd_kept_open(struct ddp_powersgd_kept *kept, struct ddp_mem *mem,
                                               const struct ddp_powersgd_config *config,
                                               const struct ddp_param *params, size_t param_count,
                                               uint64_t *iteration);
void ddp_powersgd_kept_close(struct ddp_powersgd_kept *kept);

#ifdef __cplusplus
}
#endif
#endif
