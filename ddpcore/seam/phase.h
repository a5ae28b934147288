/* Phases of a rank's life: what a rank is doing, as the page shows it, triggers name it and
 * verdicts report it. */
#ifndef DDPCORE_SEAM_PHASE_H
#define DDPCORE_SEAM_PHASE_H

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name, default budget in ms before silence in this phase is called a hang) */
#define DDP_PHASE_TABLE(X)                       \
    X(DDP_PHASE_SPAWN, "spawn", 5000)            \
    X(DDP_PHASE_RENDEZVOUS, "rendezvous", 5000)  \
    X(DDP_PHASE_INIT, "init", 5000)              \
    X(DDP_PHASE_DATA, "data", 2000)              \
    X(DDP_PHASE_FORWARD, "forward", 2000)        \
    X(DDP_PHASE_LOSS, "loss", 2000)              \
    X(DDP_PHASE_BACKWARD, "backward", 2000)      \
    X(DDP_PHASE_REDUCE, "reduce", 2000)          \
    X(DDP_PHASE_OPTIMIZER, "optimizer", 2000)    \
    X(DDP_PHASE_BUFFER, "buffer", 2000)          \
    X(DDP_PHASE_CHECKPOINT, "checkpoint", 10000) \
    X(DDP_PHASE_JOIN, "join", 5000)              \
    X(DDP_PHASE_PROBE, "probe", 60000)           \
    X(DDP_PHASE_RECOVERY, "recovery", 5000)      \
    X(DDP_PHASE_TEARDOWN, "teardown", 5000)      \
    X(DDP_PHASE_END, "end", 5000)

enum ddp_phase {
#define X(id, name, budget_ms) id,
    DDP_PHASE_TABLE(X)
#undef X
        DDP_PHASE_COUNT
};

const char *ddp_phase_name(enum ddp_phase phase);
DDP_MUST_USE ddp_status ddp_phase_parse(const char *name, enum ddp_phase *out);
unsigned ddp_phase_budget_ms(enum ddp_phase phase);

#ifdef __cplusplus
}
#endif
#endif
