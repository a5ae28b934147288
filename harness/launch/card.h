/* GPUs: which there are, which one a rank gets, and the environment with which several ranks can
 * share one. */
#ifndef HARNESS_LAUNCH_CARD_H
#define HARNESS_LAUNCH_CARD_H

#include "ddpcore/cuda/cuda.h"
#include "ddpcore/store/store.h"
#include "harness/rank/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The path of cuBLAS if it is outside of the loader's search path (environment: DDPROVE_CUBLAS), or
 * NULL. */
const char *harness_card_cublas_path(void);

/* The id that `ddprove list resources` gives to the card of a machine that has none. */
#define HARNESS_CARD_ABSENT "absent"

/* Cards that a plan's ranks need; 0: it runs on the CPU. */
uint32_t harness_cards_needed(const struct harness_plan *plan);

/* Show this process and its children only the cards that CTest has lent it (RESOURCE_GROUPS with
 * "gpus"), if it runs under CTest with a resource specification. Errors: E_PARSE, E_SYSTEM. */
DDP_MUST_USE ddp_status harness_cards_from_ctest(struct ddp_err *err);

struct harness_cards {
    bool is_usable; /* a card, its driver and NCCL are there */
    struct ddp_device_cuda_info info;
    uint32_t nccl_version; /* 0: none */
    char reason[512];      /* why not; "" if usable */
};
/* Probe in a child process, because a process that has used CUDA can no longer fork. Errors:
 * E_SYSTEM (no child could be made). */
DDP_MUST_USE ddp_status harness_cards_probe(struct harness_cards *out, struct ddp_err *err);
/* Why a plan cannot run on these cards, or false: too few for its ranks, or none at all. */
DDP_MUST_USE bool harness_cards_refuse(const struct harness_cards *cards,
                                       const struct harness_plan *plan, char *reason,
                                       size_t reason_size);

/* In a rank's process, before CUDA and NCCL are loaded: choose its card and libraries, and set the
 * environment, so that sums have an order that can be measured and ranks can share cards. Variables
 * that the user has set are kept, except NCCL_HOSTID, which has to differ from rank to rank, and
 * NCCL_COMM_BLOCKING, which must be off. Source: NCCL 2.28.9 init.cc and utils.cc (duplicate GPU
 * check, getHostHash); NCCL_MULTI_RANK_GPU_ENABLE from 2.30.3. */
DDP_MUST_USE ddp_status harness_card_prepare(const struct harness_plan *plan,
                                             const struct ddp_rendezvous *rendezvous,
                                             struct harness_rank_options *options,
                                             struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
