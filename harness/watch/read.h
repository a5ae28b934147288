/* Parts of reading the arena. Internal to this folder. */
#ifndef HARNESS_WATCH_READ_H
#define HARNESS_WATCH_READ_H

#include "harness/watch/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline uint64_t harness_watch_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* comms.c */
/* An entry of the ring: the rank has made a communicator, or given it back. */
void harness_watch_take_comm(struct harness_watch *watch, uint32_t rank,
                             const uint64_t arg[GUEST_ARG_COUNT]);
void harness_watch_take_free(struct harness_watch *watch, uint32_t rank,
                             const uint64_t arg[GUEST_ARG_COUNT]);
/* An entry of the ring: neighbours of a rank in a communicator. */
void harness_watch_take_near(struct harness_watch *watch, uint32_t rank,
                             const uint64_t arg[GUEST_ARG_COUNT]);
/* The member that a handle of this rank is; NULL: the rank never made it. */
struct harness_watch_member *harness_watch_member_of(struct harness_watch *watch, uint32_t rank,
                                                     uint64_t handle, size_t *out_group);

/* buckets.c */
/* Entries of the ring: a name, and what a bucket holds. */
void harness_watch_take_told_name(struct harness_watch *watch, uint32_t rank,
                                  const struct guest_entry *entry);
void harness_watch_take_bucket(struct harness_watch *watch, uint32_t rank,
                               const struct guest_entry *entry);
/* What a bucket of the rank holds now. bucket: as POST has it; NULL: that is not known. */
const struct harness_watch_list *harness_watch_bucket_list(const struct harness_watch *watch,
                                                           uint32_t rank, uint64_t bucket);
/* Entries are lost. */
void harness_watch_forget_told(struct harness_watch *watch, uint32_t rank);
void harness_watch_free_told(struct harness_watch *watch);

/* lane.c */
/* An entry of the ring: calls were given to the device. */
void harness_watch_take_launch(struct harness_watch *watch, uint32_t rank,
                               const uint64_t arg[GUEST_ARG_COUNT]);
/* Read the rank's lanes, and add what its streams wait for to its waits, which are its threads'. */
void harness_watch_read_lanes(struct harness_watch *watch, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
