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
/* A call that is made whatever is said here: posted, without faults. */
void guest_call_show(struct ddprove_guest_call *call);
/* The calling thread waits in a communicator for ranks, which guest_wait_pack says; 0, 0: it does
 * no more wait. */
void guest_wait_show(uint32_t comm, uint64_t ranks);

#ifdef __cplusplus
}
#endif
#endif
