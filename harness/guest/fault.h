/* Faults that ddprove has armed. Internal to the guest library. */
#ifndef HARNESS_GUEST_FAULT_H
#define HARNESS_GUEST_FAULT_H

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/self.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The rank passes a point; call: NULL if it is not about one. Takes the actions of the faults that
 * match. can_hold: who makes the call can do so after the next one of its communicator. Returns how
 * often the program is to make the call, or GUEST_CALL_HELD (call.h). */
int guest_fault_pass(struct guest_page *page, enum guest_point point,
                     struct ddprove_guest_call *call, int can_hold);
/* Give back what a changed contribution was kept in. */
void guest_fault_release(struct ddprove_guest_call *call);
/* The library was told a call's arguments before: of these, faults change none but data. */
void guest_fault_bind(struct ddprove_guest_call *call);
/* It has the address of the contribution too. If a fault has changed a copy, exchange that with the
 * program's own data, and back. */
void guest_fault_swap(struct ddprove_guest_call *call, const void *in);

/* past.c */
/* The call's data are kept for the next call of its communicator, kind, bucket, type and count at
 * this point. Returns what was kept of the one before, which the caller frees; NULL: nothing was,
 * or there is no memory. count: elements of the data. */
void *guest_past_exchange(enum guest_point point, const struct ddprove_guest_call *call,
                          uint64_t count);

/* corrupt.c */
/* Change data in place; false: not with elements of this type, or they are what they would become.
 */
int guest_corrupt(void *data, uint64_t elem_count, uint32_t dtype, const struct guest_fault *fault);
/* Bytes of an element. */
uint64_t guest_dtype_size_bytes(uint32_t dtype);

#ifdef __cplusplus
}
#endif
#endif
