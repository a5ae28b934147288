/* The happens-before checker on histories written by hand: what orders two uses of memory and what
 * does not. Whatever is not ordered must be found in every run, since timing plays no part.
 */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/order/order_history.h"

enum { COMPUTE = 0, COMM = 1, THIRD = 2, BUCKET = 10, GRADS = 11, PARAMS = 12 };

#define READ       DDP_ACCESS_READ
#define WRITE      DDP_ACCESS_WRITE
#define COLL_READ  DDP_ACCESS_COLL_READ
#define COLL_WRITE DDP_ACCESS_COLL_WRITE

static void init(struct order_history *h)
{
    memset(h, 0, sizeof *h);
    h->phase = DDP_PHASE_BACKWARD;
}

/* The stream that writes records event 1, another waits for it and reads. */
CT_TEST(happens_before, a_wait_orders)
{
    struct order_history h;

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_wait(&h, 1, COMM);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(order_history_is_ordered(&h));
}

CT_TEST(happens_before, a_missing_wait_is_found)
{
    struct order_history h;

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    h.step = 7;
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(!order_history_is_ordered(&h));
    CT_CHECK_EQ_U64(h.facts.disorder.step, 7);
    CT_CHECK_EQ_U64(h.facts.disorder.phase, DDP_PHASE_BACKWARD);
    CT_CHECK_STR(h.facts.disorder.text,
                 "allocation 10 is read by work of stream 1 while work of stream 0, which wrote "
                 "its bytes [0, 64) in step 0, backward, is not ordered before it");
}

/* A wait comes too late, for another event, on another stream, or before the record. */
CT_TEST(happens_before, a_wrong_wait_does_not_order)
{
    for (int wrong = 0; wrong < 6; wrong++) {
        struct order_history h;

        init(&h);
        if (wrong == 0) { /* recorded before what it is to stand for */
            order_history_record(&h, 1, COMPUTE);
        }
        order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
        order_history_record(&h, 2, COMM);
        if (wrong == 1) { /* waits for nothing: no record yet */
            order_history_wait(&h, 1, COMM);
        }
        if (wrong != 0) {
            order_history_record(&h, 1, wrong == 2 ? THIRD : COMPUTE);
        }
        if (wrong != 1 && wrong != 5) {
            order_history_wait(&h, wrong == 3 ? 2 : 1, wrong == 4 ? THIRD : COMM);
        }
        order_history_use(&h, COMM, BUCKET, 0, 64, READ);
        if (wrong == 5) {
            order_history_wait(&h, 1, COMM);
        }
        CT_CHECK(!order_history_is_ordered(&h));
    }
}

/* A wait means the last record before it: an earlier one of the same event is forgotten, a later
 * one comes too late. */
CT_TEST(happens_before, an_event_recorded_again)
{
    struct order_history h;

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_record(&h, 1, THIRD);
    order_history_wait(&h, 1, COMM);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(!order_history_is_ordered(&h));

    init(&h);
    order_history_record(&h, 1, COMPUTE);
    order_history_wait(&h, 1, COMM);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_wait(&h, 1, COMM);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(order_history_is_ordered(&h));

    init(&h);
    order_history_record(&h, 1, COMPUTE);
    order_history_wait(&h, 1, COMM);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(!order_history_is_ordered(&h));
}

/* What the host saw done comes before all that it enqueues afterwards, on any stream; not before
 * what it enqueued earlier. */
CT_TEST(happens_before, the_host_orders_what_it_saw)
{
    struct order_history h;

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_done(&h, 1);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(order_history_is_ordered(&h));

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    order_history_done(&h, 1);
    CT_CHECK(!order_history_is_ordered(&h));

    init(&h); /* seen done before the work was there */
    order_history_record(&h, 1, COMPUTE);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_done(&h, 1);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(!order_history_is_ordered(&h));
}

/* Order goes through a third stream, and through what the host knew when it recorded there. */
CT_TEST(happens_before, order_is_transitive)
{
    struct order_history h;

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_wait(&h, 1, THIRD);
    order_history_record(&h, 2, THIRD);
    order_history_wait(&h, 2, COMM);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(order_history_is_ordered(&h));

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_done(&h, 1);
    order_history_record(&h, 2, THIRD);
    order_history_wait(&h, 2, COMM);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(order_history_is_ordered(&h));

    init(&h); /* the third stream never waited */
    order_history_use(&h, COMPUTE, BUCKET, 0, 64, WRITE);
    order_history_record(&h, 1, COMPUTE);
    order_history_record(&h, 2, THIRD);
    order_history_wait(&h, 2, COMM);
    order_history_use(&h, COMM, BUCKET, 0, 64, READ);
    CT_CHECK(!order_history_is_ordered(&h));
}

/* Only common bytes, in one allocation, of which one access writes, need an order. */
CT_TEST(happens_before, only_shared_bytes_conflict)
{
    struct order_history h;

    init(&h);
    order_history_use(&h, COMPUTE, BUCKET, 0, 32, WRITE);
    order_history_use(&h, COMM, BUCKET, 32, 64, WRITE);  /* beside it */
    order_history_use(&h, COMM, GRADS, 0, 32, WRITE);    /* elsewhere */
    order_history_use(&h, COMPUTE, PARAMS, 0, 64, READ); /* both read */
    order_history_use(&h, COMM, PARAMS, 0, 64, READ);
    CT_CHECK(order_history_is_ordered(&h));
    order_history_use(&h, THIRD, BUCKET, 31, 32, READ); /* one byte */
    CT_CHECK(!order_history_is_ordered(&h));

    init(&h); /* a write after reads of two streams, ordered with one of them */
    order_history_use(&h, COMPUTE, PARAMS, 0, 64, READ);
    order_history_use(&h, COMM, PARAMS, 16, 24, READ);
    order_history_use(&h, COMPUTE, PARAMS, 0, 16, WRITE);
    order_history_use(&h, COMPUTE, PARAMS, 24, 64, WRITE);
    CT_CHECK(order_history_is_ordered(&h));
    order_history_use(&h, COMPUTE, PARAMS, 0, 64, WRITE);
    CT_CHECK(!order_history_is_ordered(&h));
    CT_CHECK(strstr(h.facts.disorder.text, "which read its bytes [16, 24)") != NULL);

    init(&h); /* bytes at the end of the address space do not wrap */
    order_history_add(&h, DDP_EVENT_DEVICE_ACCESS, COMPUTE, GRADS, UINT64_MAX - 4, 64, WRITE);
    order_history_use(&h, COMM, GRADS, 0, 8, WRITE);
    CT_CHECK(order_history_is_ordered(&h));
}

/* One step of a bucket with two gradients: filled on the compute stream, reduced on the
 * communication stream, copied back, used by the optimizer. What is left out: */
enum omission {
    OMIT_NOTHING,
    OMIT_PRODUCER_WAIT, /* the all-reduce starts without waiting for the gradients */
    OMIT_LAST_GRADIENT, /* the event was recorded before the last gradient was put in */
    OMIT_DONE,          /* the host goes on without having seen the all-reduce done */
    OMIT_COUNT
};

static void name_memory(struct order_history *h)
{
    order_history_add(h, DDP_EVENT_BUCKET_PARAM, 1, 2, 4, 12, 0);
    order_history_add(h, DDP_EVENT_BUCKET_PARAM, 1, 3, 0, 4, 0);
    order_history_add(h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, BUCKET, 0, 64);
    order_history_add(h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_GRAD, 2, GRADS, 16, 48);
    order_history_add(h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_GRAD, 3, GRADS, 64, 16);
    order_history_add(h, DDP_EVENT_DEVICE_NAME, DDP_RANGE_PARAM, 2, PARAMS, 0, 48);
}

static void fill(struct order_history *h, uint64_t param)
{
    bool is_bias = param == 3;

    order_history_use(h, COMPUTE, GRADS, is_bias ? 64 : 16, is_bias ? 80 : 64, WRITE);
    order_history_use(h, COMPUTE, GRADS, is_bias ? 64 : 16, is_bias ? 80 : 64, READ);
    order_history_use(h, COMPUTE, BUCKET, is_bias ? 0 : 16, is_bias ? 16 : 64, WRITE);
}

static void all_reduce(struct order_history *h)
{
    order_history_use(h, COMM, BUCKET, 0, 64, COLL_READ);
    order_history_use(h, COMM, BUCKET, 0, 64, COLL_WRITE);
    order_history_record(h, 2, COMM);
}

static void copy_back_and_update(struct order_history *h)
{
    order_history_use(h, COMPUTE, BUCKET, 0, 64, READ);
    order_history_use(h, COMPUTE, GRADS, 16, 80, WRITE);
    h->phase = DDP_PHASE_OPTIMIZER;
    order_history_use(h, COMPUTE, GRADS, 16, 64, READ);
    order_history_use(h, COMPUTE, PARAMS, 0, 48, WRITE);
    order_history_use(h, COMPUTE, GRADS, 64, 80, READ);
    h->phase = DDP_PHASE_BACKWARD;
}

static void run_step(struct order_history *h, uint32_t step, enum omission omission)
{
    uint64_t seq = step + 1;

    h->step = step;
    fill(h, 3);
    if (omission == OMIT_LAST_GRADIENT) {
        order_history_record(h, 1, COMPUTE);
    }
    fill(h, 2);
    order_history_post(h, seq, 1);
    if (omission != OMIT_LAST_GRADIENT) {
        order_history_record(h, 1, COMPUTE);
    }
    if (omission != OMIT_PRODUCER_WAIT) {
        order_history_wait(h, 1, COMM);
    }
    all_reduce(h);
    if (omission != OMIT_DONE) {
        order_history_done(h, 2);
        order_history_complete(h, seq, 1);
    }
    copy_back_and_update(h);
}

/* Each omission is found in the step in which it happens, with the bucket, its parameters, the
 * collective and both streams. */
CT_TEST(happens_before, each_omission_in_a_step_is_named)
{
    static const char *const texts[OMIT_COUNT] = {
        [OMIT_PRODUCER_WAIT] =
            "bucket 1 (fc1.weight, fc1.bias) is read by all_reduce seq 4 on stream 1 while work of "
            "stream 0, which wrote its bytes [0, 16) in step 3, backward, is not ordered before it",
        [OMIT_LAST_GRADIENT] =
            "bucket 1 (fc1.weight, fc1.bias) is read by all_reduce seq 4 on stream 1 while work of "
            "stream 0, which wrote its bytes [16, 64) in step 3, backward, is not ordered before "
            "it",
        [OMIT_DONE] =
            "bucket 1 (fc1.weight, fc1.bias) is read by work of stream 0 while all_reduce seq 4 on "
            "stream 1, which wrote its bytes [0, 64) in step 3, backward, is not ordered before it",
    };

    for (int omission = 0; omission < OMIT_COUNT; omission++) {
        struct order_history h;

        init(&h);
        name_memory(&h);
        for (uint32_t step = 0; step < 6; step++) {
            run_step(&h, step, step == 3 ? (enum omission)omission : OMIT_NOTHING);
        }
        if (omission == OMIT_NOTHING) {
            CT_CHECK(order_history_is_ordered(&h));
            CT_CHECK(h.facts.is_coll_recorded && !h.facts.is_reduction_unseen);
            continue;
        }
        CT_CHECK(!order_history_is_ordered(&h));
        CT_CHECK_STR(h.facts.disorder.text, texts[omission]);
        CT_CHECK_EQ_U64(h.facts.disorder.step, 3);
        CT_CHECK_EQ_I64(h.facts.disorder.bucket, 1);
        CT_CHECK_EQ_U64(h.facts.disorder.seq, 4);
    }
}

/* Rules that no shared bytes show. An optimizer that takes the gradient from elsewhere (no copy
 * back) must still come after its bucket. */
CT_TEST(happens_before, the_optimizer_comes_after_the_bucket)
{
    for (int is_broken = 0; is_broken < 2; is_broken++) {
        struct order_history h;

        init(&h);
        name_memory(&h);
        fill(&h, 3);
        fill(&h, 2);
        order_history_record(&h, 1, COMPUTE);
        order_history_wait(&h, 1, COMM);
        order_history_post(&h, 9, 1);
        all_reduce(&h);
        if (!is_broken) {
            order_history_wait(&h, 2, COMPUTE);
        }
        h.phase = DDP_PHASE_OPTIMIZER;
        order_history_use(&h, COMPUTE, GRADS, 16, 64, READ);
        CT_CHECK(order_history_is_ordered(&h) == (is_broken == 0));
        if (is_broken) {
            CT_CHECK_STR(h.facts.disorder.text,
                         "the gradient of fc1.weight is used by work of stream 0 in the optimizer "
                         "while all_reduce seq 9 on stream 1 of bucket 1 (fc1.weight, fc1.bias) is "
                         "not ordered before it");
            CT_CHECK_EQ_I64(h.facts.disorder.param, 2);
            CT_CHECK_EQ_I64(h.facts.disorder.bucket, 1);
        }
    }
}

/* The reduction of a step that its optimizer did not wait for; the next step's is another. */
CT_TEST(happens_before, a_bucket_is_not_reduced_after_its_update)
{
    for (int is_next_step = 0; is_next_step < 3; is_next_step++) {
        struct order_history h;

        init(&h);
        name_memory(&h);
        fill(&h, 2);
        order_history_record(&h, 1, COMPUTE);
        order_history_wait(&h, 1, COMM);
        order_history_post(&h, 9, 1);
        h.phase = DDP_PHASE_OPTIMIZER;
        order_history_use(&h, COMPUTE, GRADS, 16, 64, READ);
        if (is_next_step == 1) {
            h.step++;
        } else if (is_next_step == 2) { /* a pass that is mirrored inside join */
            order_history_add(&h, DDP_EVENT_JOIN, 2, 1, 1, 0, 0);
        }
        all_reduce(&h);
        CT_CHECK(order_history_is_ordered(&h) == (is_next_step != 0));
        if (is_next_step == 0) {
            CT_CHECK_STR(h.facts.disorder.text,
                         "bucket 1 (fc1.weight, fc1.bias) is used by all_reduce seq 9 on stream 1 "
                         "after the optimizer used the gradient of fc1.weight in step 0");
        }
    }
}

/* A gradient that is put into a bucket after its all-reduce read it is lost, even in good order;
 * once the host has seen the all-reduce done, or the result was used, the bucket is free again. */
CT_TEST(happens_before, a_bucket_under_reduction_is_not_written)
{
    for (int is_done = 0; is_done < 3; is_done++) {
        struct order_history h;

        init(&h);
        name_memory(&h);
        fill(&h, 3);
        order_history_record(&h, 1, COMPUTE);
        order_history_wait(&h, 1, COMM);
        order_history_post(&h, 9, 1);
        all_reduce(&h);
        order_history_wait(&h, 2, COMPUTE);
        if (is_done == 1) {
            order_history_done(&h, 2);
        } else if (is_done == 2) {
            order_history_use(&h, COMPUTE, BUCKET, 0, 16, READ);
        }
        fill(&h, 2);
        CT_CHECK(order_history_is_ordered(&h) == (is_done != 0));
        if (!is_done) {
            CT_CHECK_STR(h.facts.disorder.text,
                         "bucket 1 (fc1.weight, fc1.bias) is written by work of stream 0 while "
                         "all_reduce seq 9 on stream 1 is under way, which read it");
        }
    }
}

/* Kernels on the collective's own stream, between its notes, are its own: a schedule over sends and
 * receives reduces there. */
CT_TEST(happens_before, kernels_of_a_collective_are_its_own)
{
    struct order_history h;

    init(&h);
    name_memory(&h);
    fill(&h, 2);
    order_history_record(&h, 1, COMPUTE);
    order_history_wait(&h, 1, COMM);
    order_history_post(&h, 9, 1);
    order_history_use(&h, COMM, BUCKET, 0, 32, COLL_READ);
    order_history_use(&h, COMM, BUCKET, 32, 64, WRITE);
    order_history_record(&h, 2, COMM);
    order_history_use(&h, COMPUTE, BUCKET, 32, 64, READ);
    CT_CHECK(!order_history_is_ordered(&h));
    CT_CHECK(strstr(h.facts.disorder.text, "all_reduce seq 9 on stream 1, which wrote") != NULL);
}

/* Memory may be freed under work of the default stream, not under work that was not seen done; what
 * a failed rank leaves behind is not judged. */
CT_TEST(happens_before, memory_is_freed_after_its_last_use)
{
    static const struct {
        bool is_seen, is_ended_ok, is_ordered;
    } cases[] = {{true, true, true}, {false, true, false}, {false, false, true}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct order_history h;

        init(&h);
        order_history_use(&h, COMPUTE, GRADS, 0, 8, WRITE);
        order_history_use(&h, COMM, BUCKET, 0, 8, READ);
        order_history_record(&h, 1, COMM);
        if (cases[i].is_seen) {
            order_history_done(&h, 1);
        }
        order_history_add(&h, DDP_EVENT_DEVICE_FREE, GRADS, 0, 0, 0, 0);
        order_history_add(&h, DDP_EVENT_DEVICE_FREE, BUCKET, 0, 0, 0, 0);
        order_history_add(&h, DDP_EVENT_RANK_END,
                          (uint64_t)(cases[i].is_ended_ok ? DDP_OK : DDP_E_REVOKED), 0, 0, 0, 0);
        CT_CHECK(order_history_is_ordered(&h) == cases[i].is_ordered);
        if (!cases[i].is_ordered) {
            CT_CHECK_STR(h.facts.disorder.text,
                         "allocation 10 is freed while work of stream 1, which read its bytes "
                         "[0, 8) in step 0, backward, was not seen to end");
        }
    }
}

/* A reduction without recorded accesses is reported: missing records do not prove an order. */
CT_TEST(happens_before, an_unseen_reduction_is_said)
{
    struct order_history h;

    init(&h);
    name_memory(&h);
    run_step(&h, 0, OMIT_NOTHING);
    order_history_post(&h, 2, 1);
    order_history_complete(&h, 2, 1);
    CT_CHECK(order_history_is_ordered(&h));
    CT_CHECK(h.facts.is_reduction_unseen);
    CT_CHECK_EQ_U64(h.facts.unseen_bucket, 1);
    CT_CHECK_EQ_U64(h.facts.unseen_seq, 2);

    init(&h); /* a fault left it out, and says so */
    name_memory(&h);
    order_history_post(&h, 2, 1);
    order_history_add(&h, DDP_EVENT_OP_SKIPPED, 0, 0, 0, 0, 0);
    order_history_complete(&h, 2, 1);
    CT_CHECK(order_history_is_ordered(&h));
    CT_CHECK(!h.facts.is_reduction_unseen);
}

/* More streams than can be judged are refused by name; a history of nothing is in order. */
CT_TEST(happens_before, bounds)
{
    struct order_history h;
    struct ddp_err err = {{0}};

    init(&h);
    CT_CHECK(order_history_is_ordered(&h));
    for (uint64_t s = 0; s <= HARNESS_STREAMS_MAX; s++) {
        order_history_use(&h, s, BUCKET, 0, 8, READ);
    }
    CT_CHECK_STATUS(harness_order_check(h.list, h.count, NULL, 0, ddp_mem_system(), &h.facts, &err),
                    DDP_E_OVERFLOW);
    CT_CHECK(strstr(err.text, "257 streams") != NULL);
    h.count--;
    CT_CHECK(order_history_is_ordered(&h));
}
