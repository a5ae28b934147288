/* The happens-before checker and the host: what it waited for, what it only saw, and what it uses
 * itself. Histories written by hand. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/order/order_history.h"

enum { COMPUTE = 0, COMM = 1, THIRD = 2, BUCKET = 10, GRADS = 11 };

#define READ       DDP_ACCESS_READ
#define COLL_READ  DDP_ACCESS_COLL_READ
#define COLL_WRITE DDP_ACCESS_COLL_WRITE

static void init(struct order_history *h)
{
    memset(h, 0, sizeof *h);
    h->phase = DDP_PHASE_BACKWARD;
}

/* A collective that a poll saw done is relied on once it was waited for, and then only if it was
 * seen done. */
CT_TEST(happens_before, a_lucky_poll_does_not_order)
{
    for (int how = 0; how < 8; how++) {
        struct order_history h;
        const bool is_done = (how & 1) != 0;
        const bool is_waited = (how & 2) != 0;
        const bool is_late = (how & 4) != 0; /* waited for before it was seen done */

        init(&h);
        order_history_use(&h, COMM, BUCKET, 0, 64, COLL_WRITE);
        order_history_record(&h, 1, COMM);
        order_history_queued(&h, 9);
        if (is_late && is_waited) {
            order_history_waited(&h, 9);
        }
        if (is_done) {
            order_history_done(&h, 1);
        }
        if (!is_late && is_waited) {
            order_history_waited(&h, 9);
        }
        order_history_use(&h, COMPUTE, BUCKET, 0, 64, READ);
        CT_CHECK(order_history_is_ordered(&h) == (is_done && is_waited && !is_late));
    }
}

/* Another collective's wait does not stand in for it, a later one's on the same stream does. */
CT_TEST(happens_before, a_later_collective_stands_in)
{
    for (int is_later = 0; is_later < 2; is_later++) {
        struct order_history h;

        init(&h);
        order_history_use(&h, is_later ? COMM : THIRD, GRADS, 0, 64, COLL_WRITE);
        order_history_record(&h, 1, is_later ? COMM : THIRD);
        order_history_queued(&h, 9);
        order_history_use(&h, COMM, BUCKET, 0, 64, COLL_WRITE);
        order_history_record(&h, 2, COMM);
        order_history_queued(&h, 10);
        order_history_done(&h, 1);
        order_history_done(&h, 2);
        order_history_waited(&h, 10);
        order_history_use(&h, COMPUTE, GRADS, 0, 64, READ);
        CT_CHECK(order_history_is_ordered(&h) == (is_later == 1));
    }
}

/* Before memory is freed or read for diagnosis, its earlier uses must have been seen done. */
CT_TEST(happens_before, frees_and_diagnostic_reads_follow_what_was_seen)
{
    for (int how = 0; how < 4; how++) {
        struct order_history h;
        const bool is_done = (how & 1) != 0;

        init(&h);
        order_history_use(&h, COMM, BUCKET, 0, 64, COLL_WRITE);
        order_history_record(&h, 1, COMM);
        order_history_queued(&h, 9);
        if (is_done) {
            order_history_done(&h, 1);
        }
        if ((how & 2) != 0) {
            order_history_add(&h, DDP_EVENT_DEVICE_FREE, BUCKET, 0, 0, 0, 0);
        } else {
            order_history_use(&h, COMPUTE, BUCKET, 0, 64, DDP_ACCESS_DIAGNOSTIC_READ);
        }
        order_history_add(&h, DDP_EVENT_RANK_END, DDP_OK, 0, 0, 0, 0);
        CT_CHECK(order_history_is_ordered(&h) == is_done);
    }
}

/* Later work need not be ordered after a diagnostic read, but still after the use before it. */
CT_TEST(happens_before, diagnostic_reads_are_no_uses)
{
    for (int is_used = 0; is_used < 2; is_used++) {
        struct order_history h;

        init(&h);
        if (is_used) {
            order_history_use(&h, COMPUTE, BUCKET, 0, 64, READ);
        }
        order_history_use(&h, COMPUTE, BUCKET, 0, 64, DDP_ACCESS_DIAGNOSTIC_READ);
        order_history_use(&h, COMM, BUCKET, 0, 64, COLL_WRITE);
        CT_CHECK(order_history_is_ordered(&h) == (is_used == 0));
    }
}

/* What the host writes is visible to all work that it enqueues afterwards; work that wrote what it
 * reads, or used what it overwrites, must be done before. */
CT_TEST(happens_before, the_host_waits_for_what_it_uses)
{
    for (int how = 0; how < 6; how++) {
        struct order_history h;
        const bool is_waited = how % 2 != 0;
        const enum ddp_access device = how < 4 ? COLL_WRITE : COLL_READ;
        const enum ddp_access host = how < 2 ? DDP_ACCESS_HOST_READ : DDP_ACCESS_HOST_WRITE;

        init(&h);
        order_history_use(&h, 0, BUCKET, 0, 64, DDP_ACCESS_HOST_WRITE);
        order_history_use(&h, COMM, BUCKET, 0, 64, device);
        order_history_record(&h, 1, COMM);
        order_history_queued(&h, 9);
        order_history_done(&h, 1);
        if (is_waited) {
            order_history_waited(&h, 9);
        }
        order_history_use(&h, 0, BUCKET, 60, 64, host);
        CT_CHECK(order_history_is_ordered(&h) == is_waited);
        if (how == 0) {
            CT_CHECK(strstr(h.facts.disorder.text, "is read by the host while a collective") !=
                     NULL);
        }
    }
}

/* A rank that did not wait for a bucket's collective reads the bucket, and goes on to the next step
 * before the stream gets the collective: the two meet in the step in which it was posted. */
CT_TEST(happens_before, a_collective_is_of_the_step_of_its_post)
{
    struct order_history h;

    init(&h);
    order_history_add(&h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, BUCKET, 0, 64);
    h.step = 2;
    order_history_post(&h, 9, 1);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, READ);
    h.step = 3;
    order_history_use(&h, COMM, BUCKET, 0, 64, COLL_WRITE);
    CT_CHECK(!order_history_is_ordered(&h));
    CT_CHECK_EQ_U64(h.facts.disorder.step, 2);
    CT_CHECK_EQ_U64(h.facts.disorder.seq, 9);
}

/* A bucket and its hook's copy of it: the all-reduce uses one of the two. */
CT_TEST(happens_before, a_reduction_of_a_hooks_copy_is_seen)
{
    for (int copy = 0; copy < 2; copy++) {
        struct order_history h;

        init(&h);
        order_history_add(&h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, BUCKET, 0, 64);
        order_history_add(&h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, GRADS, 0, 64);
        order_history_post(&h, 2, 1);
        if (copy) {
            order_history_use(&h, COMM, GRADS, 0, 64, COLL_WRITE);
        }
        order_history_complete(&h, 2, 1);
        CT_CHECK(order_history_is_ordered(&h));
        CT_CHECK(h.facts.is_reduction_unseen == !copy);
    }
}

/* An all-reduce of one bucket that was posted as another one's: the memory that it uses is not what
 * its name says, but its accesses are there. Those of the collective before it are not its own. */
CT_TEST(happens_before, a_reduction_under_another_index_is_seen)
{
    enum { OTHERS, NOBODYS, NOTHING, BEFORE };

    for (int uses = OTHERS; uses <= BEFORE; uses++) {
        struct order_history h;

        init(&h);
        order_history_add(&h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 0, BUCKET, 0, 64);
        order_history_add(&h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, GRADS, 0, 64);
        order_history_post(&h, 2, 1);
        if (uses != NOTHING) {
            order_history_use(&h, COMM, uses == NOBODYS ? GRADS + 100 : BUCKET, 0, 64, COLL_WRITE);
        }
        order_history_record(&h, 1, COMM);
        if (uses == BEFORE) {
            order_history_queued(&h, 1);
        }
        order_history_queued(&h, 2);
        order_history_complete(&h, 2, 1);
        CT_CHECK(order_history_is_ordered(&h));
        CT_CHECK(h.facts.is_reduction_unseen == (uses != OTHERS));
    }
}
