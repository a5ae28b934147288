/* Calls that a device makes, some time after a thread has posted and launched them. For adapters;
 * internal to the guest libraries. Nothing here calls a device: the adapter has the stream write
 * the lane's words. */
#ifndef HARNESS_GUEST_LANE_H
#define HARNESS_GUEST_LANE_H

#include "harness/guest/arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As ddprove_guest_comm_create. */
uint32_t guest_comm_create(uint64_t key, uint32_t rank, uint32_t size, const char *name,
                           enum guest_comm_kind kind);
/* Messages of a device's communicator between this process and another one, which is rank `peer` of
 * it. */
uint32_t guest_pair_create(uint64_t key, uint32_t rank, const char *name, uint32_t parent,
                           uint32_t peer);
/* As ddprove_guest_comm_free. */
void guest_comm_free(uint32_t comm, enum guest_free why);
/* A communicator lives that could not be shown. */
void guest_comm_lost(void);

/* The lanes of this rank, GUEST_LANES_MAX of them on one page of memory; NULL: nobody watches. */
struct guest_lane *guest_lanes(void);
/* A lane for the communicator's calls on that stream. past: those up to this one are over, if they
 * were on a lane in the same place. Returns its place plus 1; 0: all are taken. */
uint32_t guest_lane_take(uint32_t comm, uint64_t stream, uint64_t past);
/* It is used no more. The device must have written all of its words. */
void guest_lane_give(uint32_t lane);

/* The posted calls first..last go to the device now, on this lane (or 0, GUEST_LAUNCH_FAILED). */
void guest_lane_launch(uint32_t comm, uint64_t first, uint64_t last, uint64_t lane);

#ifdef __cplusplus
}
#endif
#endif
