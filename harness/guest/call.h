/* Communicators and calls of the guest library. Internal to it. */
#ifndef HARNESS_GUEST_CALL_H
#define HARNESS_GUEST_CALL_H

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/self.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The record of a handle; NULL: there is none (any more). */
struct guest_comm *guest_comm_of(struct guest_page *page, uint32_t comm);
/* Of the communicator's calls of neighbours, this rank waits for these members alone: for those
 * that it gets something from, and with large messages for those that it sends to. */
void guest_comm_near(uint32_t comm, const int *from, int from_count, const int *to, int to_count);
/* In place of how often a call is to be made: after the next one of its communicator, by
 * guest_call_show. */
#define GUEST_CALL_HELD (-1)
/* As ddprove_guest_call_post; can_hold: it may return GUEST_CALL_HELD. */
int guest_call_post(struct ddprove_guest_call *call, int can_hold);
/* A call that is made whatever is said here: posted, without faults. */
void guest_call_show(struct ddprove_guest_call *call);
/* The calling thread waits in a communicator for ranks, which guest_wait_pack says; 0, 0: it does
 * no more wait. */
void guest_wait_show(uint32_t comm, uint64_t ranks);
/* It waits for one of several: how often it does so chance decides, so that each message counts
 * once it is there. */
void guest_wait_one_of(uint32_t comm, uint64_t what);
/* It has waited for ranks once more, or need not have. */
void guest_wait_count(void);
/* It asks whether this has come, and it has not: called again and again. Not to be found waiting
 * any more, it need only ask no more. what: a call's number, or guest_wait_pack. */
void guest_poll_show(uint32_t comm, uint64_t what);
/* It has come. */
void guest_poll_over(void);
/* It waits for this too, and one of the two is enough: shown as if another thread did, so that it
 * counts as stuck if both are. what: a call's number, or guest_wait_pack. Returns the place that is
 * to be given back, -1: there is none. */
int guest_wait_also(uint32_t comm, uint64_t what);
void guest_wait_no_more(int place);

#ifdef __cplusplus
}
#endif
#endif
