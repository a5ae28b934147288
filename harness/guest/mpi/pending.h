/* Requests that are not done, and what they are about. Internal to the MPI adapter. */
#ifndef HARNESS_GUEST_MPI_PENDING_H
#define HARNESS_GUEST_MPI_PENDING_H

#include "harness/guest/mpi/adapter.h"

enum guest_mpi_pending_kind { GUEST_MPI_PENDING_CALL, GUEST_MPI_PENDING_MESSAGE };

struct guest_mpi_pending {
    struct guest_mpi_pending *next;
    uint64_t request;
    enum guest_mpi_pending_kind kind;
    int is_persistent;               /* its request lives on when it is done */
    int is_active;                   /* it is under way */
    struct ddprove_guest_call call;  /* as it was posted */
    struct ddprove_guest_call about; /* of one that is started again and again: before that */
    uint64_t comm;                   /* of a message, and of one that is started again and again */
    int peer;
    const void *new_comm; /* where a communicator is being made; NULL: none is */
    uint64_t key;         /* its key */
    struct guest_mpi_small small;
};

/* Some request is known. Without a lock: for whoever made it, it is. */
int guest_mpi_pending_is_any(void);
/* What a request is about; 0: nothing that is known. */
int guest_mpi_pending_find(uint64_t request, struct guest_mpi_pending *out);
/* From now on it is about this. Without memory it is not followed. */
void guest_mpi_pending_set(const struct guest_mpi_pending *pending);
/* Its request is done, with this result; or is given back without anybody waiting for it. */
void guest_mpi_pending_end(uint64_t request, int result);
void guest_mpi_pending_forget(uint64_t request);

/* other.c: a call that a fault starts with other arguments than it was made ready with. */
int guest_mpi_other_can(const struct ddprove_guest_call *about);
int guest_mpi_other_is(const struct ddprove_guest_call *call,
                       const struct ddprove_guest_call *about);
/* After its post. It returns when the call is done, and the request was not started. */
int guest_mpi_other_make(struct guest_mpi_pending *pending);

#endif
