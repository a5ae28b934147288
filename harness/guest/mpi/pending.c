/* Purpose: what a request that is not done is about.
 * Idea: an active request is unique in its process, so a table by request finds it. A program may
 * have thousands under way. */
#include "harness/guest/mpi/pending.h"

#include <pthread.h>
#include <stdlib.h>

#include "harness/guest/fault.h"
#include "harness/guest/self.h"

enum { ROWS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_mpi_pending *rows[ROWS];
static uint64_t count;

int guest_mpi_pending_is_any(void)
{
    return guest_load(&count) != 0;
}

/* Where the pointer to it stands, or to where it would be put. With the lock. */
static struct guest_mpi_pending **place_of(uint64_t request)
{
    struct guest_mpi_pending **place = &rows[guest_mix(request) % ROWS];

    while (*place != NULL && (*place)->request != request) {
        place = &(*place)->next;
    }
    return place;
}

static void take_out(struct guest_mpi_pending **place)
{
    struct guest_mpi_pending *gone = *place;

    *place = gone->next;
    guest_mpi_small_free(&gone->small);
    free(gone);
    guest_store(&count, count - 1);
}

int guest_mpi_pending_find(uint64_t request, struct guest_mpi_pending *out)
{
    struct guest_mpi_pending **place;
    int is_found;

    if (!guest_mpi_pending_is_any()) {
        return 0;
    }
    (void)pthread_mutex_lock(&lock);
    place = place_of(request);
    is_found = *place != NULL;
    if (is_found) {
        *out = **place;
    }
    (void)pthread_mutex_unlock(&lock);
    return is_found;
}

/* If the request is known, MPI has given it to another call, so nobody saw the end of the one
 * before. */
void guest_mpi_pending_set(const struct guest_mpi_pending *pending)
{
    struct guest_mpi_pending **place;
    struct guest_mpi_pending *next;

    (void)pthread_mutex_lock(&lock);
    place = place_of(pending->request);
    if (*place == NULL) {
        *place = calloc(1, sizeof **place);
        guest_store(&count, count + (*place != NULL));
    }
    if (*place != NULL) {
        next = (*place)->next;
        **place = *pending;
        (*place)->next = next;
    }
    (void)pthread_mutex_unlock(&lock);
}

static void end(struct guest_mpi_pending *pending, int result)
{
    if (pending->kind != GUEST_MPI_PENDING_CALL || !pending->is_active) {
        return;
    }
    if (pending->is_persistent) {
        guest_fault_swap(&pending->call, pending->about.in);
    }
    pending->call.out = result == 0 ? pending->call.out : NULL;
    ddprove_guest_call_done(&pending->call);
    if (pending->new_comm != NULL && result == 0) {
        guest_mpi_adopt(guest_mpi_load(pending->new_comm, 0), pending->key, "MPI_Comm_idup");
    }
}

void guest_mpi_pending_end(uint64_t request, int result)
{
    struct guest_mpi_pending **place;
    struct guest_mpi_pending found = {.is_active = 0};

    if (!guest_mpi_pending_is_any()) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    place = place_of(request);
    if (*place != NULL) {
        found = **place;
        (*place)->is_active = 0;
        if (!found.is_persistent) {
            take_out(place);
        }
    }
    (void)pthread_mutex_unlock(&lock);
    end(&found, result);
}

void guest_mpi_pending_forget(uint64_t request)
{
    struct guest_mpi_pending **place;

    (void)pthread_mutex_lock(&lock);
    place = place_of(request);
    if (*place != NULL) {
        take_out(place);
    }
    (void)pthread_mutex_unlock(&lock);
}
