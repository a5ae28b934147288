/* Requests: waited for, tested. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/call.h"
#include "harness/guest/mpi/pending.h"

void guest_mpi_request_of_call(const void *request, const struct ddprove_guest_call *call)
{
    if (call->seq != 0) {
        guest_mpi_pending_set(&(struct guest_mpi_pending){.request = guest_mpi_load(request, 0),
                                                          .kind = GUEST_MPI_PENDING_CALL,
                                                          .is_active = 1,
                                                          .call = *call});
    } else if (guest_mpi_world() != 0) { /* in a communicator that is not watched */
        guest_mpi_request_of_message(request, 0, 0, 0, 1, 0);
    }
}

void guest_mpi_request_of_starts(const void *request, const struct ddprove_guest_call *call,
                                 uint64_t comm)
{
    if (call->comm != 0) {
        guest_mpi_pending_set(&(struct guest_mpi_pending){.request = guest_mpi_load(request, 0),
                                                          .kind = GUEST_MPI_PENDING_CALL,
                                                          .is_persistent = 1,
                                                          .comm = comm,
                                                          .about = *call});
    } else {
        guest_mpi_request_of_message(request, 0, 0, 0, 0, 1);
    }
}

void guest_mpi_request_of_message(const void *request, uint64_t comm, int peer, int other,
                                  int is_started, int is_persistent)
{
    if (guest_mpi_world() != 0) {
        guest_mpi_pending_set(&(struct guest_mpi_pending){.request = guest_mpi_load(request, 0),
                                                          .kind = GUEST_MPI_PENDING_MESSAGE,
                                                          .is_persistent = is_persistent,
                                                          .is_active = is_started,
                                                          .comm = comm,
                                                          .peer = peer,
                                                          .other = other});
    }
}

/* One that nobody follows keeps it for ever. */
void guest_mpi_request_keep(const void *request, int result, struct guest_mpi_small *small)
{
    struct guest_mpi_pending pending;

    if (small->count == 0) {
        return;
    }
    if (result != 0) {
        guest_mpi_small_free(small);
    } else if (guest_mpi_pending_of(guest_mpi_load(request, 0), &pending)) {
        pending.small = *small;
        guest_mpi_pending_set(&pending);
    }
}

void guest_mpi_request_of_comm(const void *request, const struct ddprove_guest_call *call,
                               const void *comm, uint64_t key, enum guest_mpi_topology topology)
{
    if (call->seq != 0) {
        guest_mpi_pending_set(&(struct guest_mpi_pending){.request = guest_mpi_load(request, 0),
                                                          .kind = GUEST_MPI_PENDING_CALL,
                                                          .is_active = 1,
                                                          .call = *call,
                                                          .new_comm = comm,
                                                          .key = key,
                                                          .topology = topology});
    }
}

/* --- waiting
 * ------------------------------------------------------------------------------------------------
 */

/* The calling thread waits for this. A message in a communicator that is not watched: for anybody.
 */
static void show(const struct guest_mpi_pending *pending)
{
    if (pending->kind == GUEST_MPI_PENDING_CALL) {
        ddprove_guest_call_wait_begin(&pending->call);
    } else {
        guest_mpi_wait_begin(pending->comm, pending->peer, pending->other);
    }
}

/* So many messages as a thread has taken part in are told, whether it had to wait for them or not.
 */
static void count_message(const struct guest_mpi_pending *pending)
{
    if (pending->kind == GUEST_MPI_PENDING_MESSAGE && pending->is_active) {
        guest_wait_count();
    }
}

/* Of a request that is not known it is not seen whom it needs. */
static void show_anybody(void)
{
    guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));
}

/* MPI overwrites requests that are done, so they are copied before. NULL: nobody watches, or there
 * is no memory. */
static struct guest_mpi_asked *copy_of(int count, const void *requests)
{
    struct guest_mpi_asked *copy =
        guest_mpi_world() != 0 && count > 0 ? malloc((size_t)count * sizeof *copy) : NULL;

    for (int i = 0; copy != NULL && i < count; i++) {
        copy[i].request = guest_mpi_load(requests, (size_t)i);
    }
    if (copy != NULL) {
        guest_mpi_pending_ask(copy, count);
    }
    return copy;
}

static int is_unknown(const struct guest_mpi_asked *asked)
{
    return asked->number == 0 && asked->request != guest_mpi_names()->REQUEST_NULL;
}

enum progress { UNDER_WAY, DONE, FAILED };

/* Open MPI says in the status alone that it failed. */
static enum progress progress_of(uint64_t request)
{
    /* As large as any MPI's status. */
    uint64_t status[16] = {0};
    int flag = 1;
    int error = guest_mpi()->Request_get_status(request, &flag, status);

    if (error == 0 && flag == 0) {
        return UNDER_WAY;
    }
    if (error == 0) {
        memcpy(&error, (const char *)status + guest_mpi_names()->STATUS_ERROR_AT, sizeof error);
    }
    return error == 0 ? DONE : FAILED;
}

static int is_done(uint64_t request)
{
    return progress_of(request) != UNDER_WAY;
}

static int has_failed(int count, const struct guest_mpi_asked *asked)
{
    struct guest_mpi_pending pending;

    for (int i = 0; i < count; i++) {
        if (guest_mpi_pending_find(&asked[i], &pending) && pending.is_active &&
            progress_of(asked[i].request) == FAILED) {
            return 1;
        }
    }
    return 0;
}

/* False: one of all of them failed meanwhile. */
static int wait_for(uint64_t request, int count, const struct guest_mpi_asked *asked)
{
    enum { EAGER = 64 };

    for (int n = 0; !is_done(request); n++) {
        if (n % EAGER == 0 && has_failed(count, asked)) {
            return 0;
        }
        if (n > EAGER) {
            (void)sched_yield();
        }
    }
    return 1;
}

/* Wait for each in turn, and show that: which one is late is seen, also if others are done before.
 * A library's own waiting is a loop like this one, and may end with the first error, of whichever
 * it is: then the rest is left to it, as the last one always is, and those that are not known. */
static void wait_for_each(int count, const struct guest_mpi_asked *asked)
{
    struct guest_mpi_pending pending;
    int has_unknown = 0;
    int last = -1;

    for (int i = 0; i < count; i++) {
        last = guest_mpi_pending_find(&asked[i], &pending) && pending.is_active ? i : last;
        has_unknown = has_unknown || is_unknown(&asked[i]);
    }
    for (int i = 0; i <= last; i++) {
        if (!guest_mpi_pending_find(&asked[i], &pending) || !pending.is_active) {
            continue;
        }
        if (is_done(asked[i].request)) {
            count_message(&pending);
            continue;
        }
        show(&pending);
        if ((i < last || has_unknown) && !wait_for(asked[i].request, count, asked)) {
            return;
        }
    }
    if (has_unknown) {
        show_anybody();
    }
}

/* Show what a thread waits for that waits for one of several. */
static void one_of_begin(int count, const struct guest_mpi_asked *asked,
                         struct guest_mpi_waits *waits)
{
    waits->count = 0;
    for (int i = 0; i < count; i++) {
        struct guest_mpi_pending pending;

        if (!guest_mpi_pending_find(&asked[i], &pending)) {
            if (is_unknown(&asked[i])) {
                guest_mpi_waits_add_any(waits);
            }
        } else if (pending.is_active && pending.kind == GUEST_MPI_PENDING_CALL) {
            guest_mpi_waits_add_call(waits, &pending.call);
        } else if (pending.is_active) {
            guest_mpi_waits_add_message(waits, pending.comm, pending.peer, pending.other);
        }
    }
    guest_mpi_waits_begin(waits);
}

/* One request, found before MPI is asked for it. */
static struct guest_mpi_asked one_of(const void *request)
{
    struct guest_mpi_asked asked = {.request = guest_mpi_load(request, 0)};

    if (guest_mpi_pending_is_any()) {
        guest_mpi_pending_ask(&asked, 1);
    }
    return asked;
}

int MPI_Wait(void *request, void *status)
{
    const struct guest_mpi_asked asked = one_of(request);
    struct guest_mpi_pending pending;
    const int is_known = guest_mpi_pending_find(&asked, &pending);
    const int is_shown = is_known ? pending.is_active : is_unknown(&asked);
    int result;

    if (is_shown && is_known) {
        show(&pending);
    } else if (is_shown) {
        show_anybody();
    }
    result = guest_mpi()->Wait(request, status);
    if (is_shown) {
        guest_wait_show(0, 0);
    }
    guest_mpi_pending_end(&asked, result, 0);
    return result;
}
GUEST_MPI_ALSO(Wait);

/* MPI says of some that they failed, and may have left others as they are (MPI_ERR_PENDING): these
 * have requests still, which are not done. */
static void end_all(int count, const struct guest_mpi_asked *before, const void *requests,
                    int result)
{
    for (int i = 0; i < count; i++) {
        const uint64_t now = guest_mpi_load(requests, (size_t)i);

        if (result == 0 || now == guest_mpi_names()->REQUEST_NULL || is_done(now)) {
            guest_mpi_pending_end(&before[i], result, 0);
        }
    }
}

int MPI_Waitall(int count, void *requests, void *statuses)
{
    struct guest_mpi_asked *before = copy_of(count, requests);
    int result;

    if (before != NULL) {
        wait_for_each(count, before);
    }
    result = guest_mpi()->Waitall(count, requests, statuses);
    if (before != NULL) {
        guest_wait_show(0, 0);
    }
    if (before != NULL) {
        end_all(count, before, requests, result);
    }
    free(before);
    return result;
}
GUEST_MPI_ALSO(Waitall);

/* One that was not waited for by itself. */
static void found_done(const struct guest_mpi_asked *asked, int result)
{
    struct guest_mpi_pending pending;

    if (guest_mpi_pending_find(asked, &pending)) {
        count_message(&pending);
        guest_mpi_pending_end(asked, result, 0);
    } else if (is_unknown(asked)) {
        guest_wait_count();
    }
}

int MPI_Waitany(int count, void *requests, int *index, void *status)
{
    struct guest_mpi_asked *before = copy_of(count, requests);
    struct guest_mpi_waits waits;
    int result;

    if (before != NULL) {
        one_of_begin(count, before, &waits);
    }
    *index = GUEST_MPI_UNDEFINED; /* an error may leave it alone */
    result = guest_mpi()->Waitany(count, requests, index, status);
    if (before != NULL) {
        guest_mpi_waits_end(&waits);
    }
    if (before != NULL && *index >= 0 && *index < count) {
        found_done(&before[*index], result);
    }
    free(before);
    return result;
}
GUEST_MPI_ALSO(Waitany);

int MPI_Waitsome(int count, void *requests, int *done_count, int indices[], void *statuses)
{
    struct guest_mpi_asked *before = copy_of(count, requests);
    struct guest_mpi_waits waits;
    int result;

    if (before != NULL) {
        one_of_begin(count, before, &waits);
    }
    *done_count = 0; /* an error may leave it alone */
    result = guest_mpi()->Waitsome(count, requests, done_count, indices, statuses);
    if (before != NULL) {
        guest_mpi_waits_end(&waits);
    }
    for (int i = 0; before != NULL && i < *done_count; i++) { /* MPI_UNDEFINED is below 0 */
        found_done(&before[indices[i]], result);
    }
    free(before);
    return result;
}
GUEST_MPI_ALSO(Waitsome);

/* --- testing
 * ------------------------------------------------------------------------------------------------
 */

/* The thread has asked for these requests, and none is done, or not all are: of several that are
 * under way it may need any. */
static void ask(int count, const struct guest_mpi_asked *asked, int needs_all)
{
    struct guest_mpi_pending first;
    struct guest_mpi_pending pending;
    int known = 0;

    for (int i = 0; i < count && (known == 0 || !needs_all); i++) {
        if (guest_mpi_pending_find(&asked[i], &pending) && pending.is_active &&
            (!needs_all || count == 1 || !is_done(asked[i].request))) {
            first = known == 0 ? pending : first;
            known++;
        }
    }
    if (known == 1 && first.kind == GUEST_MPI_PENDING_CALL) {
        guest_poll_show(first.call.comm, first.call.seq);
    } else if (known == 1) {
        guest_mpi_poll(first.comm, first.peer, first.other);
    } else if (known > 1) {
        guest_poll_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    }
}

int MPI_Test(void *request, int *flag, void *status)
{
    const struct guest_mpi_asked before = one_of(request);
    const int result = guest_mpi()->Test(request, flag, status);

    if (result != 0 || *flag != 0) {
        guest_poll_over();
        found_done(&before, result);
    } else {
        ask(1, &before, 1);
    }
    return result;
}
GUEST_MPI_ALSO(Test);

int MPI_Testall(int count, void *requests, int *flag, void *statuses)
{
    struct guest_mpi_asked *before = copy_of(count, requests);
    const int result = guest_mpi()->Testall(count, requests, flag, statuses);

    if (before != NULL && result == 0 && *flag == 0) {
        ask(count, before, 1);
    } else if (before != NULL) {
        guest_poll_over();
    }
    for (int i = 0; before != NULL && result == 0 && *flag != 0 && i < count; i++) {
        found_done(&before[i], result);
    }
    if (before != NULL && result != 0) {
        end_all(count, before, requests, result);
    }
    free(before);
    return result;
}
GUEST_MPI_ALSO(Testall);

int MPI_Testany(int count, void *requests, int *index, int *flag, void *status)
{
    struct guest_mpi_asked *before = copy_of(count, requests);
    int result;

    *index = GUEST_MPI_UNDEFINED; /* an error may leave it alone */
    result = guest_mpi()->Testany(count, requests, index, flag, status);
    if (before != NULL && result == 0 && *flag == 0) {
        ask(count, before, 0);
    } else if (before != NULL) {
        guest_poll_over();
    }
    if (before != NULL && (result != 0 || *flag != 0) && *index >= 0 && *index < count) {
        found_done(&before[*index], result);
    }
    free(before);
    return result;
}
GUEST_MPI_ALSO(Testany);

int MPI_Testsome(int count, void *requests, int *done_count, int indices[], void *statuses)
{
    struct guest_mpi_asked *before = copy_of(count, requests);
    int result;

    *done_count = 0; /* an error may leave it alone */
    result = guest_mpi()->Testsome(count, requests, done_count, indices, statuses);
    if (before != NULL && result == 0 && *done_count == 0) {
        ask(count, before, 0);
    } else if (before != NULL) {
        guest_poll_over();
    }
    for (int i = 0; before != NULL && i < *done_count; i++) {
        found_done(&before[indices[i]], result);
    }
    free(before);
    return result;
}
GUEST_MPI_ALSO(Testsome);
