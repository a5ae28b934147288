/* Purpose: what a request that is not done is about.
 * Idea: a table by request finds it, as a program may have thousands under way; of one request the
 * last one first. */
#include "harness/guest/mpi/pending.h"

#include <pthread.h>
#include <stdlib.h>

#include "harness/guest/fault.h"
#include "harness/guest/self.h"

enum { ROWS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct guest_mpi_pending *rows[ROWS];
static uint64_t count;
static uint64_t number;
static uint64_t list;

int guest_mpi_pending_is_any(void)
{
    return guest_load(&count) != 0;
}

/* Where the pointer to the last one of a request stands, or to where it would be put; the rest with
 * the lock too. */
static struct guest_mpi_pending **place_of(uint64_t request)
{
    struct guest_mpi_pending **place = &rows[guest_mix(request) % ROWS];

    while (*place != NULL && (*place)->request != request) {
        place = &(*place)->next;
    }
    return place;
}

static struct guest_mpi_pending **place_of_number(const struct guest_mpi_asked *asked)
{
    struct guest_mpi_pending **place = place_of(asked->request);

    while (*place != NULL && (*place)->number != asked->number) {
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

void guest_mpi_pending_ask(struct guest_mpi_asked *asked, int asked_count)
{
    (void)pthread_mutex_lock(&lock);
    list++;
    for (int i = 0; i < asked_count; i++) {
        struct guest_mpi_pending *pending = *place_of(asked[i].request);

        while (pending != NULL &&
               (pending->request != asked[i].request || pending->asked == list)) {
            pending = pending->next;
        }
        asked[i].number = pending != NULL ? pending->number : 0;
        if (pending != NULL) {
            pending->asked = list;
        }
    }
    (void)pthread_mutex_unlock(&lock);
}

static int copy(const struct guest_mpi_pending *found, struct guest_mpi_pending *out)
{
    if (found != NULL) {
        *out = *found;
    }
    return found != NULL;
}

int guest_mpi_pending_find(const struct guest_mpi_asked *asked, struct guest_mpi_pending *out)
{
    int is_found = 0;

    if (asked->number != 0) {
        (void)pthread_mutex_lock(&lock);
        is_found = copy(*place_of_number(asked), out);
        (void)pthread_mutex_unlock(&lock);
    }
    return is_found;
}

int guest_mpi_pending_of(uint64_t request, struct guest_mpi_pending *out)
{
    int is_found = 0;

    if (guest_mpi_pending_is_any()) {
        (void)pthread_mutex_lock(&lock);
        is_found = copy(*place_of(request), out);
        (void)pthread_mutex_unlock(&lock);
    }
    return is_found;
}

/* Where this is to be written. A request that is known was given to something else: another thread
 * is about to see the end of the call before, which stays. Of a message nothing is left to do. */
static struct guest_mpi_pending *room_for(const struct guest_mpi_pending *pending)
{
    struct guest_mpi_pending **place = place_of(pending->request);
    struct guest_mpi_pending *room = *place;

    if (pending->number != 0) {
        return *place_of_number(
            &(struct guest_mpi_asked){.request = pending->request, .number = pending->number});
    }
    if (room != NULL && (room->kind == GUEST_MPI_PENDING_MESSAGE || !room->is_active)) {
        take_out(place);
    }
    room = calloc(1, sizeof *room);
    if (room != NULL) {
        room->next = *place;
        *place = room;
        guest_store(&count, count + 1);
    }
    return room;
}

void guest_mpi_pending_set(const struct guest_mpi_pending *pending)
{
    struct guest_mpi_pending *room;
    struct guest_mpi_pending *next;

    (void)pthread_mutex_lock(&lock);
    room = room_for(pending);
    if (room != NULL) {
        next = room->next;
        *room = *pending;
        room->next = next;
        room->number = pending->number != 0 ? pending->number : ++number;
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
        guest_mpi_adopt(guest_mpi_load(pending->new_comm, 0), pending->key, "MPI_Comm_idup",
                        pending->topology);
    }
}

void guest_mpi_pending_end(const struct guest_mpi_asked *asked, int result, int is_kept)
{
    struct guest_mpi_pending **place;
    struct guest_mpi_pending found = {.is_active = 0};

    if (asked->number == 0) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    place = place_of_number(asked);
    if (*place != NULL) {
        found = **place;
        (*place)->is_active = 0;
        if (!found.is_persistent && !is_kept) {
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
