/* A call of a collective: posted, waited for, done. */
#include "harness/guest/call.h"

#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/fault.h"
#include "harness/guest/lane.h"
#include "harness/guest/observe/sums.h"

/* Most calls have none, and then nothing is written. */
static void show_name(struct guest_page *page, const struct ddprove_guest_call *call)
{
    uint64_t words[GUEST_NAME_BYTES / 8] = {0};

    if (call->name == NULL || call->name[0] == '\0') {
        return;
    }
    strncpy((char *)words, call->name, sizeof words - 1);
    guest_self_record(page, GUEST_EVENT_CALL_NAME,
                      (const uint64_t[GUEST_ARG_COUNT]){call->comm | call->seq << 32, words[0],
                                                        words[1], words[2], words[3]});
}

/* bucket | model << 32; a program of an older header has no model. */
static uint64_t bucket_of(const struct ddprove_guest_call *call)
{
    const size_t needed = offsetof(struct ddprove_guest_call, model) + sizeof call->model;

    return call->bucket | (uint64_t)(call->size_bytes >= needed ? call->model : 0) << 32;
}

/* What the call is, and whether its values may overflow. */
static uint64_t op_of(const struct ddprove_guest_call *call)
{
    const int may_overflow = call->size_bytes >= sizeof *call && call->may_overflow != 0;

    return guest_op_pack(call->kind, call->dtype, call->redop, call->root) |
           (may_overflow ? GUEST_OP_MAY_OVERFLOW : 0);
}

static void post(struct guest_page *page, struct guest_comm *comm, struct ddprove_guest_call *call)
{
    call->seq = __atomic_add_fetch(&comm->posted, 1, __ATOMIC_ACQ_REL);
    guest_self_record(page, GUEST_EVENT_POST,
                      (const uint64_t[GUEST_ARG_COUNT]){call->comm, call->seq, op_of(call),
                                                        call->elem_count, bucket_of(call)});
    show_name(page, call);
}

int guest_call_post(struct ddprove_guest_call *call, int can_hold)
{
    struct guest_page *page = guest_self_page();
    struct guest_comm *comm = page != NULL ? guest_comm_of(page, call->comm) : NULL;
    struct guest_input input;
    int times;

    call->seq = 0;
    if (comm == NULL) {
        return 1;
    }
    call->seq =
        guest_load(&comm->posted) + 1; /* for faults; threads that post at once may see the same */
    guest_sums_post_begin(page, comm, call, &input);
    times = guest_fault_pass(page, GUEST_POINT_POST, call, can_hold);
    call->seq = 0;
    if (times <= 0) {
        return times; /* as if the program had not come here */
    }
    for (int i = 1; i < times; i++) {
        post(page, comm, call);
        guest_sums_post_end(page, call, &input);
    }
    post(page, comm, call);
    guest_sums_post_end(page, call, &input);
    return times;
}

int ddprove_guest_call_post(struct ddprove_guest_call *call)
{
    return guest_call_post(call, 0);
}

void guest_call_show(struct ddprove_guest_call *call)
{
    struct guest_page *page = guest_self_page();
    struct guest_comm *comm = page != NULL ? guest_comm_of(page, call->comm) : NULL;

    call->seq = 0;
    if (comm != NULL) {
        post(page, comm, call);
    }
}

/* comm 0: nothing. */
static void show(struct guest_thread *thread, uint32_t comm, uint64_t seq, int is_polled)
{
    const uint64_t now_ns = guest_self_now_ns();

    guest_change_begin(&thread->change);
    guest_store(&thread->comm, comm);
    guest_store(&thread->seq, seq);
    guest_store(&thread->enter_ns, now_ns);
    guest_store(&thread->polled_ns, is_polled ? now_ns : 0);
    guest_change_end(&thread->change);
}

static struct guest_thread *thread_of(struct guest_page *page)
{
    const uint32_t place = page != NULL ? guest_self_thread(page) : GUEST_THREADS_MAX;

    return place < GUEST_THREADS_MAX ? &page->threads[place] : NULL;
}

void guest_wait_count(void)
{
    struct guest_thread *thread = thread_of(guest_self_page());

    if (thread != NULL) {
        guest_store(&thread->messages, guest_load(&thread->messages) + 1);
    }
}

void guest_wait_one_of(uint32_t comm, uint64_t what)
{
    struct guest_thread *thread = thread_of(guest_self_page());

    if (thread != NULL) {
        show(thread, comm, what, 0);
    }
}

void guest_wait_show(uint32_t comm, uint64_t ranks)
{
    if (guest_wait_is_of_ranks(ranks)) {
        guest_wait_count();
    }
    guest_wait_one_of(comm, ranks);
}

void guest_poll_show(uint32_t comm, uint64_t what)
{
    struct guest_thread *thread = thread_of(guest_self_page());

    if (thread == NULL || comm == 0) {
        return;
    }
    if (guest_load(&thread->polled_ns) != 0 && guest_load(&thread->comm) == comm &&
        guest_load(&thread->seq) == what) {
        guest_store(&thread->polled_ns, guest_self_now_ns());
    } else {
        show(thread, comm, what, 1);
    }
}

void guest_poll_over(void)
{
    struct guest_thread *thread = thread_of(guest_self_page());

    if (thread != NULL && guest_load(&thread->polled_ns) != 0) {
        show(thread, 0, 0, 0);
    }
}

int guest_wait_also(uint32_t comm, uint64_t what)
{
    struct guest_page *page = guest_self_page();
    const uint32_t place = page != NULL ? guest_self_spare(page) : GUEST_THREADS_MAX;

    if (place == GUEST_THREADS_MAX) {
        return -1;
    }
    show(&page->threads[place], comm, what, 0);
    return (int)place;
}

void guest_wait_no_more(int place)
{
    struct guest_page *page = guest_self_page();

    if (page != NULL && place >= 0) {
        show(&page->threads[place], 0, 0, 0);
        guest_store(&page->threads[place].tid, 0);
    }
}

void ddprove_guest_call_wait_begin(const struct ddprove_guest_call *call)
{
    if (call->seq != 0) {
        guest_wait_show(call->comm, call->seq);
    }
}

void ddprove_guest_call_wait_end(const struct ddprove_guest_call *call)
{
    if (call->seq != 0) {
        guest_wait_show(0, 0);
    }
}

void ddprove_guest_wait_for(uint32_t comm, int rank, int other)
{
    if (comm != 0) {
        guest_wait_show(comm, guest_wait_pack(rank, other));
    }
}

void ddprove_guest_wait_over(void)
{
    guest_wait_show(0, 0);
}

void ddprove_guest_call_done(struct ddprove_guest_call *call)
{
    struct guest_page *page = guest_self_page();
    struct guest_comm *comm =
        page != NULL && call->seq != 0 ? guest_comm_of(page, call->comm) : NULL;

    guest_fault_release(call);
    if (comm != NULL) {
        (void)guest_fault_pass(page, GUEST_POINT_DONE, call, 0);
        guest_sums_done(page, comm, call);
        (void)__atomic_add_fetch(&comm->done, 1, __ATOMIC_RELAXED);
        guest_self_record(page, GUEST_EVENT_DONE,
                          (const uint64_t[GUEST_ARG_COUNT]){call->comm, call->seq});
    }
}

void ddprove_guest_call_failed(struct ddprove_guest_call *call)
{
    guest_fault_release(call);
    if (guest_self_page() != NULL && call->seq != 0) {
        guest_lane_launch(call->comm, 0, 0, GUEST_LAUNCH_FAILED);
    }
}

int ddprove_guest_call_begin(struct ddprove_guest_call *call)
{
    int count;

    if (guest_self_page() == NULL) {
        call->seq = 0;
        return 1;
    }
    count = ddprove_guest_call_post(call);
    ddprove_guest_call_wait_begin(call);
    return count;
}

void ddprove_guest_call_end(struct ddprove_guest_call *call)
{
    if (guest_self_page() == NULL) {
        guest_fault_release(call);
        return;
    }
    ddprove_guest_call_wait_end(call);
    ddprove_guest_call_done(call);
}
