/* The loader: order, ends and errors whatever number of workers reads; runs that are stopped and go
 * on with another number of ranks. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "ddpcore/ddp/loader.h"
#include "tests/ct.h"

enum { SAMPLES = 103, ROWS = 4 };

/* What the reader is asked for. */
struct reads {
    atomic_uint count, at_once, most_at_once;
    uint64_t fail_at; /* batch that cannot be read */
};

static ddp_status end_worker(void *context, const struct ddp_loader_batch *batch)
{
    const struct reads *reads = context;

    if (batch->index == reads->fail_at) {
        pthread_exit(NULL);
    }
    return DDP_OK;
}

static ddp_status read_batch(void *context, const struct ddp_loader_batch *batch)
{
    struct reads *reads = context;
    uint32_t *data = batch->data;
    unsigned now = atomic_fetch_add(&reads->at_once, 1) + 1;
    unsigned most = atomic_load(&reads->most_at_once);

    while (now > most && !atomic_compare_exchange_weak(&reads->most_at_once, &most, now)) {
    }
    for (size_t i = 0; i < batch->rows; i++) {
        data[i] = 3 * batch->samples[i] + 1;
    }
    atomic_fetch_add(&reads->count, 1);
    atomic_fetch_sub(&reads->at_once, 1);
    return batch->index == reads->fail_at ? DDP_E_IO : DDP_OK;
}

struct fixture {
    struct ddp_mem_pool *pool;
    struct reads reads;
    struct ddp_loader_config config;
    struct ddp_idle_process idle;
    struct ddp_loader *loader;
};

static bool fixture_open(struct fixture *f, uint32_t workers, uint64_t epoch)
{
    struct ddp_err err = {""};

    if (f->pool == NULL && ddp_mem_pool_create(&f->pool) != DDP_OK) {
        return false;
    }
    if (f->config.batch_rows == 0) {
        f->reads.fail_at = UINT64_MAX;
        f->config = (struct ddp_loader_config){
            .sampler = {.sample_count = SAMPLES, .world_size = 1, .is_shuffled = true, .seed = 5},
            .batch_rows = ROWS,
            .slot_count = 3,
            .slot_bytes = ROWS * sizeof(uint32_t),
            .read = read_batch,
            .context = &f->reads};
    }
    f->config.worker_count = workers;
    ddp_idle_process_init(&f->idle, ddp_clock_monotonic(), true);
    if (ddp_loader_create(ddp_mem_pool_mem(f->pool), &f->config, epoch, &f->loader, &err) !=
        DDP_OK) {
        CT_FAIL("the loader does not open: %s", err.text);
        return false;
    }
    return true;
}

static void fixture_close(struct fixture *f)
{
    ddp_loader_destroy(f->loader);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(f->pool), 0);
    ddp_mem_pool_destroy(f->pool);
}

/* The next batch, within 10 s of waiting. */
static ddp_status next(struct fixture *f, struct ddp_loader_batch *out)
{
    struct ddp_clock *clock = ddp_clock_monotonic();

    return ddp_loader_next(f->loader, &f->idle.base, clock,
                           ddp_clock_deadline_ns(clock, 10000000000U), out);
}

static void check_epoch(struct fixture *f, uint64_t epoch)
{
    uint32_t expected[SAMPLES];
    struct ddp_loader_batch batch;
    size_t seen = 0;

    CT_REQUIRE_OK(ddp_sampler_epoch(&f->config.sampler, epoch, ddp_mem_system(), expected));
    CT_CHECK_EQ_U64(ddp_loader_batch_count(f->loader), (SAMPLES + ROWS - 1) / ROWS);
    for (uint64_t index = 0; index < (SAMPLES + ROWS - 1) / ROWS; index++) {
        CT_REQUIRE_OK(next(f, &batch));
        CT_CHECK(batch.index == index && batch.epoch == epoch);
        CT_REQUIRE(batch.rows == (SAMPLES - seen < ROWS ? SAMPLES - seen : ROWS));
        CT_CHECK_BYTES(batch.samples, expected + seen, batch.rows * sizeof(uint32_t));
        for (size_t i = 0; i < batch.rows; i++) {
            CT_CHECK_EQ_U64(((const uint32_t *)batch.data)[i], 3 * batch.samples[i] + 1);
        }
        seen += batch.rows;
    }
    for (int again = 0; again < 2; again++) {
        CT_REQUIRE_OK(next(f, &batch));
        CT_CHECK(batch.rows == 0 && batch.epoch == epoch);
    }
}

/* Every number of workers gives the same batches, epoch after epoch, and reads each once. */
CT_TEST(loader, order_does_not_depend_on_workers)
{
    for (uint32_t workers = 0; workers <= 5; workers++) {
        struct fixture f = {0};

        CT_REQUIRE(fixture_open(&f, workers, 3));
        check_epoch(&f, 3);
        CT_REQUIRE_OK(ddp_loader_epoch(f.loader, 4));
        check_epoch(&f, 4);
        CT_CHECK_EQ_U64(atomic_load(&f.reads.count), 2 * ((SAMPLES + ROWS - 1) / ROWS));
        CT_CHECK(atomic_load(&f.reads.most_at_once) <= (workers == 0 ? 1 : workers));
        fixture_close(&f);
    }
}

/* One epoch behind the other, from the middle of one on; a rank without samples is told so. */
CT_TEST(loader, epochs_follow_each_other)
{
    for (uint32_t workers = 0; workers <= 2; workers++) {
        struct fixture f = {0};
        struct ddp_loader_batch batch;

        CT_REQUIRE(fixture_open(&f, workers, 0));
        ddp_loader_destroy(f.loader);
        f.config.is_endless = true;
        CT_REQUIRE(fixture_open(&f, workers, 3));
        for (uint64_t epoch = 3; epoch < 6; epoch++) {
            uint32_t expected[SAMPLES];

            CT_REQUIRE_OK(ddp_sampler_epoch(&f.config.sampler, epoch, ddp_mem_system(), expected));
            for (size_t seen = 0; seen < SAMPLES; seen += batch.rows) {
                CT_REQUIRE_OK(next(&f, &batch));
                CT_REQUIRE(batch.epoch == epoch && batch.index == seen / ROWS && batch.rows > 0);
                CT_CHECK_BYTES(batch.samples, expected + seen, batch.rows * sizeof(uint32_t));
                CT_CHECK_EQ_U64(((const uint32_t *)batch.data)[0], 3 * batch.samples[0] + 1);
            }
        }
        CT_CHECK_EQ_U64(ddp_loader_state(f.loader).epoch, 6);
        fixture_close(&f);
        f = (struct fixture){0};
        CT_REQUIRE(fixture_open(&f, 0, 0));
        ddp_loader_destroy(f.loader);
        f.config.is_endless = true;
        f.config.sampler.sample_count = 1;
        f.config.sampler.world_size = 2;
        f.config.sampler.drop_last = true;
        CT_REQUIRE(fixture_open(&f, workers, 0));
        CT_CHECK_STATUS(next(&f, &batch), DDP_E_INVALID);
        fixture_close(&f);
    }
}

/* Workers go no further ahead than there are slots, and never into the one in use. */
CT_TEST(loader, reads_as_far_ahead_as_there_are_slots)
{
    struct fixture f = {0};
    struct ddp_loader_batch batch;
    uint32_t kept[ROWS];

    CT_REQUIRE(fixture_open(&f, 2, 0));
    CT_REQUIRE_OK(next(&f, &batch));
    memcpy(kept, batch.data, sizeof(kept));
    while (atomic_load(&f.reads.count) < 3) {
        f.idle.base.ops->wait(&f.idle.base, &(struct ddp_idle_hint){.fd = -1});
    }
    CT_CHECK(atomic_load(&f.reads.count) == 3); /* the one in use, and two ahead */
    CT_CHECK_BYTES(batch.data, kept, sizeof(kept));
    CT_REQUIRE_OK(next(&f, &batch));
    while (atomic_load(&f.reads.count) < 4) {
        f.idle.base.ops->wait(&f.idle.base, &(struct ddp_idle_hint){.fd = -1});
    }
    fixture_close(&f); /* in the middle of an epoch */
}

/* A batch that cannot be read ends the loader with that error, and only the next epoch's turn is
 * refused before the end. */
CT_TEST(loader, errors)
{
    struct fixture f = {0};
    struct ddp_loader_batch batch;
    ddp_status status = DDP_OK;
    struct ddp_err err;

    CT_REQUIRE(fixture_open(&f, 2, 0));
    CT_CHECK_STATUS(ddp_loader_epoch(f.loader, 1), DDP_E_STATE);
    f.reads.fail_at = 9;
    for (int i = 0; i < 20 && status == DDP_OK; i++) {
        status = next(&f, &batch);
    }
    CT_CHECK_STATUS(status, DDP_E_IO);
    CT_CHECK_STATUS(next(&f, &batch), DDP_E_IO);
    CT_CHECK_STATUS(ddp_loader_epoch(f.loader, 1), DDP_E_IO);
    ddp_loader_destroy(f.loader);
    f.config.slot_count = 1;
    CT_CHECK_STATUS(ddp_loader_create(ddp_mem_pool_mem(f.pool), &f.config, 0, &f.loader, &err),
                    DDP_E_INVALID);
    f.config.slot_count = 2;
    f.config.sampler.first = SAMPLES + 1;
    CT_CHECK_STATUS(ddp_loader_create(ddp_mem_pool_mem(f.pool), &f.config, 0, &f.loader, &err),
                    DDP_E_INVALID);
    CT_CHECK(f.loader == NULL);
    fixture_close(&f);
}

/* Who waits for a batch whose worker is gone is told, however many others there are. */
CT_TEST(loader, says_that_a_worker_is_gone)
{
    for (uint32_t workers = 1; workers <= 3; workers++) {
        struct fixture f = {0};
        struct ddp_loader_batch batch;
        ddp_status status = DDP_OK;

        CT_REQUIRE(fixture_open(&f, workers, 0));
        ddp_loader_destroy(f.loader);
        f.reads.fail_at = 7;
        f.config.read = end_worker;
        CT_REQUIRE(fixture_open(&f, workers, 0));
        for (int i = 0; i < 20 && status == DDP_OK; i++) {
            status = next(&f, &batch);
        }
        CT_CHECK_STATUS(status, DDP_E_SYSTEM);
        fixture_close(&f);
    }
}

/* A failed allocation anywhere is E_NOMEM and leaks nothing. */
CT_TEST(loader, survives_exhaustion)
{
    struct fixture f = {0};
    struct ddp_err err;
    ddp_status status = DDP_E_NOMEM;
    uint64_t nth = 0;

    CT_REQUIRE(fixture_open(&f, 1, 0));
    ddp_loader_destroy(f.loader);
    f.loader = NULL;
    for (; status != DDP_OK && nth < 30; nth++) {
        ddp_mem_pool_fail_after(f.pool, nth, 1);
        status = ddp_loader_create(ddp_mem_pool_mem(f.pool), &f.config, 0, &f.loader, &err);
        CT_CHECK(status == DDP_OK || status == DDP_E_NOMEM);
        CT_CHECK(status == DDP_OK || ddp_mem_pool_block_count(f.pool) == 0);
    }
    CT_CHECK(status == DDP_OK && nth > 5);
    fixture_close(&f);
}

/* Counts what `steps` batches of each rank of a world hold, from `state` on; the state after it. */
static struct ddp_sampler_state run_world(uint32_t world, struct ddp_sampler_state state,
                                          uint64_t steps, bool is_last, uint32_t *seen)
{
    struct ddp_sampler_state after = {0};

    for (uint32_t rank = 0; rank < world; rank++) {
        struct fixture f = {0};
        struct ddp_loader_batch batch = {0};

        (void)fixture_open(&f, 0, 0);
        ddp_loader_destroy(f.loader);
        f.config.sampler.world_size = world;
        f.config.sampler.rank = rank;
        f.config.sampler.is_exact = true;
        f.config.sampler.first = state.used;
        (void)fixture_open(&f, rank % 3, state.epoch);
        for (uint64_t step = 0; step < steps || is_last; step++) {
            CT_CHECK_OK(next(&f, &batch));
            if (batch.rows == 0) {
                break;
            }
            for (size_t i = 0; i < batch.rows; i++) {
                seen[batch.samples[i]]++;
            }
        }
        after = ddp_loader_state(f.loader);
        fixture_close(&f);
    }
    return after;
}

/* An epoch that is stopped twice, and goes on with other numbers of ranks each time, holds every
 * sample once. */
CT_TEST(loader, other_worlds_lose_and_repeat_nothing)
{
    static const uint32_t worlds[][3] = {{4, 2, 3}, {1, 5, 2}, {3, 3, 3}, {5, 1, 4}, {2, 7, 1}};

    for (size_t c = 0; c < sizeof(worlds) / sizeof(worlds[0]); c++) {
        uint32_t seen[SAMPLES] = {0};
        struct ddp_sampler_state state = {.epoch = 6};

        state = run_world(worlds[c][0], state, 3, false, seen);
        CT_CHECK(state.epoch == 6 && state.used == (size_t)3 * ROWS * worlds[c][0]);
        state = run_world(worlds[c][1], state, 1, false, seen);
        CT_CHECK(state.epoch == 6 &&
                 state.used == (size_t)3 * ROWS * worlds[c][0] + (size_t)ROWS * worlds[c][1]);
        state = run_world(worlds[c][2], state, 0, true, seen);
        CT_CHECK(state.epoch == 7 && state.used == 0);
        for (size_t i = 0; i < SAMPLES; i++) {
            CT_CHECK_EQ_U64(seen[i], 1);
        }
    }
}
