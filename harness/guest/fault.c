/* Which faults match, and what those do that need no data. */
#include "harness/guest/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/guest/call.h"
#include "harness/guest/observe/sums.h"

/* In call->state: the copy that the changed contribution is in; the arguments cannot be changed. */
enum { STATE_COPY, STATE_BOUND };

static bool is_named(const struct guest_fault *fault, const struct guest_comm *comm)
{
    for (unsigned i = 0; i < GUEST_NAME_BYTES / 8; i++) {
        if (guest_load(&comm->name[i]) != fault->comm[i]) {
            return false;
        }
    }
    return true;
}

static bool is_of_rank(const struct guest_fault *fault, const struct guest_arena *arena,
                       const struct guest_page *page)
{
    return fault->rank == 0 || guest_arena_page(arena, (uint32_t)(fault->rank - 1)) == page;
}

/* What is about no call; of a place that is about a tensor: name, else NULL. */
static bool is_match_of_place(const struct guest_fault *fault, const char *name)
{
    return fault->comm[0] == 0 && fault->kind == 0 && fault->seq == 0 && fault->bucket == 0 &&
           fault->elem_count == 0 &&
           (fault->tensor == 0 || (name != NULL && guest_name_hash(name) == fault->tensor));
}

static bool is_match(const struct guest_fault *fault, const struct guest_page *page,
                     const struct guest_arena *arena, enum guest_point point,
                     const struct ddprove_guest_call *call, const char *name)
{
    const struct guest_comm *comm =
        call != NULL ? &page->comms[(call->comm - 1) % GUEST_COMMS_MAX] : NULL;

    if (fault->point != (uint64_t)point || !is_of_rank(fault, arena, page) ||
        (fault->step != 0 && fault->step - 1 != guest_load(&page->step)) ||
        (fault->phase != 0 && fault->phase - 1 != guest_load(&page->phase))) {
        return false;
    }
    if (call == NULL) {
        return is_match_of_place(fault, name);
    }
    return fault->tensor == 0 && (fault->comm[0] == 0 || is_named(fault, comm)) &&
           (fault->kind == 0 || fault->kind - 1 == call->kind) &&
           (fault->seq == 0 || fault->seq == call->seq) &&
           (fault->bucket == 0 || fault->bucket == call->bucket) &&
           (fault->elem_count == 0 || fault->elem_count - 1 == call->elem_count);
}

static void sleep_ns(uint64_t ns)
{
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};

    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

__attribute__((noreturn)) static void hang(void)
{
    for (;;) {
        sleep_ns(UINT64_C(1000000000000));
    }
}

/* Elements of what a call brings, or of what it takes: one part for each member where it takes them
 * apart. */
static uint64_t count_of(const struct ddprove_guest_call *call, enum guest_point point)
{
    const struct guest_comm *comm = &guest_self_page()->comms[(call->comm - 1) % GUEST_COMMS_MAX];
    const uint64_t parts =
        guest_parts_in(call->kind, guest_load(&comm->rank), call->root, guest_load(&comm->size))
            .count;

    if (point == GUEST_POINT_DONE) {
        return call->out_count != 0 ? call->out_count : call->elem_count;
    }
    return call->elem_count * (parts > 1 ? parts : 1);
}

/* A call at a point of its way. */
struct passage {
    enum guest_point point;
    struct ddprove_guest_call *call;
    bool can_hold;    /* whoever makes the call can make it later */
    const void *past; /* what its data were in the call of its sort before; NULL: not known */
    int times;        /* how often it is to be made */
};

static bool damage(const struct guest_fault *fault, const struct passage *passage, void *data)
{
    const struct ddprove_guest_call *call = passage->call;
    const uint64_t count = count_of(call, passage->point);

    if (fault->action != GUEST_ACTION_STALE) {
        return guest_corrupt(data, count, call->dtype, fault);
    }
    if (passage->past != NULL) {
        memcpy(data, passage->past, count * guest_dtype_size_bytes(call->dtype));
    }
    return passage->past != NULL;
}

/* A contribution that the program only reads is changed in a copy, unless the damage is to lie in
 * its own memory. Without memory for it nothing is changed, and the fault does not count as fired.
 */
static bool corrupt_call(const struct guest_fault *fault, const struct passage *passage)
{
    struct ddprove_guest_call *call = passage->call;
    const uint64_t size_bytes =
        count_of(call, passage->point) * guest_dtype_size_bytes(call->dtype);
    void *copy;

    if (passage->point == GUEST_POINT_DONE || call->in == call->out) {
        return call->out != NULL && damage(fault, passage, call->out);
    }
    if (call->in == NULL || call->state[STATE_COPY] != 0) {
        return false;
    }
    if (fault->stays != 0) {
        return damage(fault, passage, (void *)(uintptr_t)call->in);
    }
    copy = malloc(size_bytes > 0 ? size_bytes : 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, call->in, size_bytes);
    if (!damage(fault, passage, copy)) {
        free(copy);
        return false;
    }
    call->in = copy;
    call->state[STATE_COPY] = (uint64_t)(uintptr_t)copy;
    return true;
}

void guest_fault_release(struct ddprove_guest_call *call)
{
    if (call->state[STATE_COPY] != 0) {
        free((void *)(uintptr_t)call->state[STATE_COPY]);
        call->state[STATE_COPY] = 0;
    }
}

void guest_fault_bind(struct ddprove_guest_call *call)
{
    call->state[STATE_BOUND] = 1;
}

void guest_fault_swap(struct ddprove_guest_call *call, const void *in)
{
    uint8_t *copy = (uint8_t *)(uintptr_t)call->state[STATE_COPY];
    uint8_t *own = (uint8_t *)(uintptr_t)in;
    const uint64_t size_bytes =
        copy != NULL ? count_of(call, GUEST_POINT_POST) * guest_dtype_size_bytes(call->dtype) : 0;

    for (uint64_t i = 0; i < size_bytes; i++) {
        const uint8_t byte = own[i];

        own[i] = copy[i];
        copy[i] = byte;
    }
}

/* Returns when the fault has acted on its rank, which is about to do what it says. */
static void wait_for_fault(const struct guest_arena *arena, uint64_t number)
{
    const struct guest_fault *fault = number < arena->fault_count ? &arena->faults[number] : NULL;

    while (fault != NULL && fault->rank != 0 && fault->rank <= arena->world_size &&
           guest_load(&guest_arena_page(arena, (uint32_t)fault->rank - 1)->fault_hits[number]) <
               fault->hit) {
        sleep_ns(100000); /* between two looks */
    }
}

/* What ends the process, or holds it, does not return. */
static void act_on_process(const struct guest_arena *arena, const struct guest_fault *fault)
{
    switch ((enum guest_action)fault->action) {
    case GUEST_ACTION_KILL:
        (void)kill(getpid(), (int)fault->value);
        break;
    case GUEST_ACTION_EXIT:
        _exit((int)fault->value);
    case GUEST_ACTION_ABORT:
        abort();
    case GUEST_ACTION_STOP:
        (void)kill(getpid(), SIGSTOP);
        break;
    case GUEST_ACTION_HANG:
        hang();
    case GUEST_ACTION_DELAY:
        sleep_ns(fault->value);
        break;
    case GUEST_ACTION_UNTIL:
        wait_for_fault(arena, fault->value);
        break;
    default:
        break;
    }
}

/* All of its data are elements of the one type that the call names. */
static bool has_one_dtype(const struct ddprove_guest_call *call)
{
    switch ((enum ddprove_guest_kind)call->kind) {
    case DDPROVE_GUEST_ALL_REDUCE:
    case DDPROVE_GUEST_BROADCAST:
    case DDPROVE_GUEST_REDUCE:
    case DDPROVE_GUEST_REDUCE_SCATTER:
    case DDPROVE_GUEST_SCAN:
    case DDPROVE_GUEST_EXSCAN:
        return call->dtype != DDPROVE_GUEST_BYTES;
    default:
        return false;
    }
}

/* Never of larger elements: the program's buffers end where its own do. */
static enum guest_unable change_dtype(uint64_t dtype, struct ddprove_guest_call *call)
{
    if (!has_one_dtype(call) || dtype == call->dtype ||
        guest_dtype_size_bytes((uint32_t)dtype) == 0 ||
        guest_dtype_size_bytes((uint32_t)dtype) > guest_dtype_size_bytes(call->dtype)) {
        return GUEST_UNABLE_LARGER;
    }
    call->dtype = (uint32_t)dtype;
    return GUEST_UNABLE_NOT;
}

/* What a call is about, if that is not settled since it was made ready. */
static enum guest_unable change_argument(const struct guest_fault *fault,
                                         struct ddprove_guest_call *call)
{
    if (call->state[STATE_BOUND] != 0) {
        return GUEST_UNABLE_SETTLED;
    }
    switch ((enum guest_action)fault->action) {
    case GUEST_ACTION_DTYPE:
        return change_dtype(fault->value, call);
    case GUEST_ACTION_ELEMS:
        if (fault->value > call->elem_count) {
            return GUEST_UNABLE_LARGER;
        }
        call->elem_count = fault->value;
        return GUEST_UNABLE_NOT;
    case GUEST_ACTION_REDOP:
        call->redop = (uint32_t)fault->value;
        return GUEST_UNABLE_NOT;
    default:
        call->root = (uint32_t)fault->value;
        return GUEST_UNABLE_NOT;
    }
}

/* What only the post of a call can bring about. */
static enum guest_unable act_on_post(const struct guest_fault *fault, struct passage *passage)
{
    switch ((enum guest_action)fault->action) {
    case GUEST_ACTION_SKIP:
        passage->times = 0;
        return GUEST_UNABLE_NOT;
    case GUEST_ACTION_TWICE:
        passage->times = 2;
        return GUEST_UNABLE_NOT;
    case GUEST_ACTION_LATER:
        passage->times = passage->can_hold ? GUEST_CALL_HELD : passage->times;
        return passage->can_hold ? GUEST_UNABLE_NOT : GUEST_UNABLE_AT_ONCE;
    default:
        return change_argument(fault, passage->call);
    }
}

/* Returns why it could not be done here. */
static enum guest_unable act(const struct guest_fault *fault, struct passage *passage)
{
    switch ((enum guest_action)fault->action) {
    case GUEST_ACTION_SKIP:
    case GUEST_ACTION_TWICE:
    case GUEST_ACTION_LATER:
    case GUEST_ACTION_DTYPE:
    case GUEST_ACTION_ELEMS:
    case GUEST_ACTION_REDOP:
    case GUEST_ACTION_ROOT:
        return passage->point == GUEST_POINT_POST ? act_on_post(fault, passage)
                                                  : GUEST_UNABLE_SETTLED;
    case GUEST_ACTION_ZERO:
    case GUEST_ACTION_SCALE:
    case GUEST_ACTION_SHIFT:
    case GUEST_ACTION_FLIP:
    case GUEST_ACTION_SET:
    case GUEST_ACTION_NAN_VALUE:
    case GUEST_ACTION_STALE:
        return corrupt_call(fault, passage) ? GUEST_UNABLE_NOT : GUEST_UNABLE_NO_DATA;
    default:
        return GUEST_UNABLE_NOT;
    }
}

/* A fault puts the data of an earlier call in the place of a later one's. */
static bool needs_past(const struct guest_arena *arena, const struct guest_page *page,
                       enum guest_point point)
{
    for (uint64_t i = 0; i < arena->fault_count; i++) {
        const struct guest_fault *fault = &arena->faults[i];

        if (fault->action == GUEST_ACTION_STALE && fault->point == (uint64_t)point &&
            is_of_rank(fault, arena, page)) {
            return true;
        }
    }
    return false;
}

/* Count the match, and say whether it is one at which the fault acts. */
static bool is_hit(const struct guest_fault *fault, struct guest_page *page, uint64_t number,
                   uint64_t *out_hit)
{
    *out_hit = __atomic_add_fetch(&page->fault_hits[number], 1, __ATOMIC_RELAXED);
    return *out_hit >= fault->hit && *out_hit - fault->hit < fault->times;
}

int guest_fault_pass(struct guest_page *page, enum guest_point point,
                     struct ddprove_guest_call *call, int can_hold)
{
    const struct guest_arena *arena = guest_self_arena();
    struct passage passage = {.point = point, .call = call, .can_hold = can_hold != 0, .times = 1};
    void *past = call != NULL && needs_past(arena, page, point)
                     ? guest_past_exchange(point, call, count_of(call, point))
                     : NULL;

    passage.past = past;
    for (uint64_t i = 0; i < arena->fault_count; i++) {
        const struct guest_fault *fault = &arena->faults[i];
        enum guest_unable why;
        uint64_t hit;

        if (!is_match(fault, page, arena, point, call, NULL)) {
            continue;
        }
        if (!is_hit(fault, page, i, &hit)) {
            continue;
        }
        why = call != NULL ? act(fault, &passage) : GUEST_UNABLE_NOT;
        guest_self_record(page, GUEST_EVENT_FAULT,
                          (const uint64_t[GUEST_ARG_COUNT]){i, hit, call != NULL ? call->comm : 0,
                                                            call != NULL ? call->seq : 0, why});
        act_on_process(arena, fault);
    }
    free(past);
    return passage.times;
}

/* --- places that the program comes by
 * -----------------------------------------------------------------------------
 */

static bool is_of_part(const struct guest_fault *fault, enum ddprove_guest_part part)
{
    const bool is_whether =
        fault->action == GUEST_ACTION_SKIP || fault->action == GUEST_ACTION_TWICE;

    return part == DDPROVE_GUEST_WHOLE || (part == DDPROVE_GUEST_WHETHER) == is_whether;
}

/* What a fault does there beside what it does to the process. */
static enum guest_unable act_at_place(const struct guest_fault *fault,
                                      struct ddprove_guest_place *place, int *times)
{
    switch ((enum guest_action)fault->action) {
    case GUEST_ACTION_SKIP:
        *times = 0;
        return GUEST_UNABLE_NOT;
    case GUEST_ACTION_TWICE:
        *times = 2;
        return GUEST_UNABLE_NOT;
    case GUEST_ACTION_EDIT:
        place->edit = (uint32_t)fault->value;
        return GUEST_UNABLE_NOT;
    case GUEST_ACTION_ZERO:
    case GUEST_ACTION_SCALE:
    case GUEST_ACTION_SHIFT:
    case GUEST_ACTION_FLIP:
    case GUEST_ACTION_SET:
    case GUEST_ACTION_NAN_VALUE:
        return place->data != NULL &&
                       guest_corrupt(place->data, place->elem_count, place->dtype, fault)
                   ? GUEST_UNABLE_NOT
                   : GUEST_UNABLE_NO_DATA;
    default:
        return GUEST_UNABLE_NOT;
    }
}

int ddprove_guest_pass(struct ddprove_guest_place *place)
{
    struct guest_page *page = guest_self_page();
    const struct guest_arena *arena = guest_self_arena();
    const enum guest_point point = (enum guest_point)(GUEST_POINT_PLACE + place->point);
    int times = 1;

    place->edit = DDPROVE_GUEST_NO_EDIT;
    for (uint64_t i = 0; page != NULL && i < arena->fault_count; i++) {
        const struct guest_fault *fault = &arena->faults[i];
        enum guest_unable why;
        uint64_t hit;

        if (!is_of_part(fault, (enum ddprove_guest_part)place->part) ||
            !is_match(fault, page, arena, point, NULL, place->name) ||
            !is_hit(fault, page, i, &hit)) {
            continue;
        }
        why = act_at_place(fault, place, &times);
        guest_self_record(page, GUEST_EVENT_FAULT,
                          (const uint64_t[GUEST_ARG_COUNT]){i, hit, 0, 0, why});
        act_on_process(arena, fault);
    }
    return times;
}

int ddprove_guest_wants(enum ddprove_guest_point point, const char *name)
{
    struct guest_page *page = guest_self_page();
    const struct guest_arena *arena = guest_self_arena();

    for (uint64_t i = 0; page != NULL && i < arena->fault_count; i++) {
        const struct guest_fault *fault = &arena->faults[i];

        if (fault->point == GUEST_POINT_PLACE + (uint64_t)point && is_of_rank(fault, arena, page) &&
            (fault->tensor == 0 || name == NULL || guest_name_hash(name) == fault->tensor)) {
            return 1;
        }
    }
    return 0;
}

int ddprove_guest_wants_calls(int is_behind)
{
    const enum guest_point point = is_behind ? GUEST_POINT_DONE : GUEST_POINT_POST;
    struct guest_page *page = guest_self_page();
    const struct guest_arena *arena = guest_self_arena();

    for (uint64_t i = 0; page != NULL && i < arena->fault_count; i++) {
        if (arena->faults[i].point == (uint64_t)point &&
            is_of_rank(&arena->faults[i], arena, page)) {
            return 1;
        }
    }
    return 0;
}
