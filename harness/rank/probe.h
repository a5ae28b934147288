/* Measuring the order in which an all-reduce adds, for collectives that have no schedule to read it
 * from.
 *
 * To judge sums bit by bit, the order of additions must be known. Schedules state it; for NCCL and
 * MPI it is measured, with the count and type of each bucket, on the communicator that the run
 * uses. n members need n(n-1)/2 + 3(n-2) all-reduces for each pair of count and type.
 *
 * Probes are posted below the observer, while env->faults and env->recorder are NULL: they appear
 * in no trace, take no sequence number of the group and count as no hit of a fault point. Their
 * sequence numbers are multiples of 65536, which a device's progress words show as no collective.
 * Members meet in the store before and after, so that no probe runs into a collective of the group.
 * From outside only a heartbeat for each probe is seen. */
#ifndef HARNESS_RANK_PROBE_H
#define HARNESS_RANK_PROBE_H

#include "ddpcore/collective/collective.h"
#include "ddpcore/store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Before the first step, and after the last: the judge compares the two. */
enum harness_probe_round { HARNESS_PROBE_FIRST, HARNESS_PROBE_LAST };

struct harness_probe_request {
    size_t elem_count;
    enum ddp_dtype dtype;
};

struct harness_probe {
    struct ddp_env *env;
    struct ddp_coll *coll; /* below the observer; nothing of it may be under way */
    struct ddp_device *device;
    struct ddp_store *store; /* the members' meeting place */
    const char *name;        /* of this group in the store; a name and round serve once */
    const char *run_dir;     /* "<run_dir>/trees" is made; NULL: nothing is written */
    const struct harness_probe_request *requests; /* the same on all members; repeats are skipped */
    size_t request_count;
    enum harness_probe_round round;
    uint64_t timeout_ns; /* of each wait; 0 = never */
};

/* All members must call. Member 0 writes
 * "<run_dir>/trees/all_reduce.n<elem_count>.<dtype>.<first|last>.txt" for each request: a head, a
 * result line, then "first count tree" for each range of elements, as in "0 4096 ((0 1) (2 3))".
 * (a b) is rounded to the type, [a b] to fp32 (16-bit types) or fp64 (fp32), {a b} in a way that
 * was not found out; three operands and more are added without rounding in between. What cannot be
 * measured (too many members, an integer type) is written as "result unknown", what contradicts
 * itself as "result inconsistent": neither is an error here. With one member nothing is done.
 *
 * Errors: those of the collective, the device, the store and the files, with which the collective
 * is revoked and the events of that recorded; E_TIMEOUT. A revocation's own status on all the
 * others. env->faults and env->recorder are NULL meanwhile, except at point probe/sum. */
DDP_MUST_USE ddp_status harness_probe_run(const struct harness_probe *probe, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
