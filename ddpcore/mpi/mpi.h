/* MPI's own collectives, for ranks that an MPI launcher started: MPI_Iallreduce, MPI_Ibcast,
 * MPI_Iallgather and MPI_Ibarrier, polled with MPI_Test. No MPI is needed to build this: what was
 * compiled against one is a module, loaded at run time.
 *
 * Beside MPI runs a control channel, as beside NCCL: deaths and revocations come from there, and,
 * if is_checked, members agree on each collective before MPI sees it. MPI cannot go on without a
 * member, so after a failure nothing calls it any more, and the process leaves without
 * MPI_Finalize.
 *
 * Sums are taken in an order of MPI's own. f16 and bf16 are moved, not reduced; which operand of a
 * floating-point max or min wins over a NaN is MPI's choice. */
#ifndef DDPCORE_MPI_MPI_H
#define DDPCORE_MPI_MPI_H

#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The module, and the state of MPI in this process: the first group initialises it, and it can end
 * only once. */
struct ddp_mpi_library;
/* path: of libddp_mpi.so. Never unmapped. Errors: E_NOT_FOUND (no module, or its MPI cannot be
 * loaded; err says what to do), E_UNSUPPORTED (a module of another version). */
DDP_MUST_USE ddp_status ddp_mpi_library_open(const char *path, struct ddp_mpi_library **out,
                                             struct ddp_err *err);
/* All its groups are destroyed. MPI itself is left as it is: ddp_coll_mpi_finish ends it. */
void ddp_mpi_library_close(struct ddp_mpi_library *library);
/* "Open MPI v4.1.4". Borrowed. */
const char *ddp_mpi_library_version(const struct ddp_mpi_library *library);

struct ddp_coll_mpi_config {
    struct ddp_mpi_library *library;
    uint64_t comm;
    const uint32_t *member_rank; /* global rank of each member; NULL = identity */
    bool is_checked;             /* agree before every collective (strict semantics) */
    uint64_t init_timeout_ns;    /* 0 = never */
};

/* Joins the group of all processes that the MPI launcher started; member numbers are MPI's ranks.
 * All must call, in the same order if there are several groups. Takes over transport (the control
 * channel, also on failure); borrows device, which must be in host memory, and library. works'
 * elem_count fits an int, or they end with E_UNSUPPORTED.
 * Errors: E_STATE (MPI has ended or was given up, or its launcher did not start these ranks),
 * E_UNSUPPORTED (device), E_TIMEOUT (a member never came), E_PEER_DIED, E_REVOKED, E_SYSTEM with
 * MPI's text. */
DDP_MUST_USE ddp_status ddp_coll_mpi_create(struct ddp_env *env, struct ddp_transport *transport,
                                            struct ddp_device *device,
                                            const struct ddp_coll_mpi_config *config,
                                            struct ddp_coll **out, struct ddp_err *err);

/* End MPI in good order (MPI_Finalize). All members must call, with nothing under way, as the last
 * call to any group before it is destroyed. Without it, or if it
 * fails, MPI is left as it is. coll: created by ddp_coll_mpi_create. Errors: E_STATE (the group has
 * failed, or something is under way), E_PEER_DIED, E_REVOKED, E_TIMEOUT, E_SYSTEM. */
DDP_MUST_USE ddp_status ddp_coll_mpi_finish(struct ddp_coll *coll, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
