/* Requests that are not done, and what they are about. Internal to the MPI adapter. */
#ifndef HARNESS_GUEST_MPI_PENDING_H
#define HARNESS_GUEST_MPI_PENDING_H

#include "harness/guest/mpi/adapter.h"

enum guest_mpi_pending_kind { GUEST_MPI_PENDING_CALL, GUEST_MPI_PENDING_MESSAGE };

struct guest_mpi_pending {
    struct guest_mpi_pending *next;
    uint64_t request;
    uint64_t number; /* of all that were ever followed; 0: it is not yet */
    uint64_t asked;  /* the last list in which it was found */
    enum guest_mpi_pending_kind kind;
    int is_persistent;               /* its request lives on when it is done */
    int is_active;                   /* it is under way */
    struct ddprove_guest_call call;  /* as it was posted */
    struct ddprove_guest_call about; /* of one that is started again and again: before that */
    uint64_t comm;                   /* of a message, and of one that is started again and again */
    int peer, other;      /* the same, unless it is a message to one rank and one from another */
    const void *new_comm; /* where a communicator is being made; NULL: none is */
    uint64_t key;         /* its key */
    enum guest_mpi_topology topology;
    struct guest_mpi_small small;
};

/* A request as a program names it, and what it is about; 0: nothing that is known. MPI gives a
 * request that is done to whoever asks for one next, also to another thread before this one has
 * seen the end: so what is to end is found before MPI is asked, and named by its number. */
struct guest_mpi_asked {
    uint64_t request, number;
};

/* Some request is known. Without a lock: for whoever made it, it is. */
int guest_mpi_pending_is_any(void);
/* Fill in the numbers. MPI may give one request to several calls that are done at once: then each
 * is found once. */
void guest_mpi_pending_ask(struct guest_mpi_asked *asked, int count);
/* What it is about; 0: nothing that is known. */
int guest_mpi_pending_find(const struct guest_mpi_asked *asked, struct guest_mpi_pending *out);
/* The same of a request by itself, of which nothing can end meanwhile. */
int guest_mpi_pending_of(uint64_t request, struct guest_mpi_pending *out);
/* From now on it is about this: one more, if it has no number. Without memory it is not followed.
 */
void guest_mpi_pending_set(const struct guest_mpi_pending *pending);
/* It is done, with this result; is_kept: and its request is still to be waited for. */
void guest_mpi_pending_end(const struct guest_mpi_asked *asked, int result, int is_kept);
/* It is given back without anybody waiting for it. */
void guest_mpi_pending_forget(uint64_t request);

/* other.c: a call that a fault starts with other arguments than it was made ready with. */
int guest_mpi_other_can(const struct ddprove_guest_call *about);
int guest_mpi_other_is(const struct ddprove_guest_call *call,
                       const struct ddprove_guest_call *about);
/* After its post. It returns when the call is done, and the request was not started. */
int guest_mpi_other_make(struct guest_mpi_pending *pending);

#endif
