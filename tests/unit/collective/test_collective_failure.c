/* Collectives when something is wrong: mismatches, deaths, revocations, injected faults; and what
 * the observer records of all that. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

#define COUNT 1000u

static float data[COLL_RANKS_MAX][COUNT + 1];

static void prepare(struct coll_world *world, size_t count)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args *args = &world->ranks[rank].work.args;

        for (size_t i = 0; i < COUNT; i++) {
            data[rank][i] = 1.0f;
        }
        args->elem_count = count;
        args->input = data[rank];
        args->output = data[rank];
    }
}

static void post_all(struct coll_world *world)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        CT_CHECK_OK(coll_world_post(world, rank));
    }
}

/* Whatever differs in the arguments ends the collective on every rank, before anyone uses the
 * other's data, and the revocation says MISMATCH and the sequence number. */
static void check_mismatch(void (*change)(struct ddp_coll_args *args))
{
    struct coll_world_options options = {.is_checked = true};
    struct coll_world world;
    struct ddp_revocation revocation;

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    prepare(&world, 100);
    change(&world.ranks[1].work.args);
    post_all(&world);
    CT_CHECK(coll_world_run(&world));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct coll_rank *who = &world.ranks[rank];

        CT_CHECK(who->work.status == DDP_E_MISMATCH || who->work.status == DDP_E_REVOKED);
        CT_CHECK(who->coll->ops->is_revoked(who->coll, &revocation));
        CT_CHECK_STATUS(revocation.status, DDP_E_MISMATCH);
        CT_CHECK_EQ_U64(revocation.detail, 1);
        CT_CHECK(data[rank][0] == 1.0f);
        CT_CHECK(coll_world_post(&world, rank) < 0);
    }
    coll_world_close(&world);
}

static void other_count(struct ddp_coll_args *args)
{
    args->elem_count = 101;
}
static void other_dtype(struct ddp_coll_args *args)
{
    args->dtype = DDP_DTYPE_I32;
}
static void other_op(struct ddp_coll_args *args)
{
    args->redop = DDP_REDOP_MAX;
}
static void other_role(struct ddp_coll_args *args)
{
    args->role = DDP_ROLE_BUCKET;
}
static void other_index(struct ddp_coll_args *args)
{
    args->index = 1;
}
CT_TEST(collective_failure, mismatch_is_found)
{
    check_mismatch(other_count);
    check_mismatch(other_dtype);
    check_mismatch(other_op);
    check_mismatch(other_role);
    check_mismatch(other_index);
}

/* Unchecked, only a message of another size is noticed, and nobody else is told. */
CT_TEST(collective_failure, unchecked_mismatch)
{
    struct coll_world_options options = {.is_checked = false};
    struct coll_world world;
    struct ddp_revocation revocation;

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    prepare(&world, 100);
    other_op(&world.ranks[1].work.args);
    post_all(&world);
    CT_CHECK(coll_world_run(&world));
    CT_CHECK_OK(world.ranks[0].work.status);
    CT_CHECK_OK(world.ranks[1].work.status);
    prepare(&world, 100);
    world.ranks[1].work.args.elem_count = 200;
    post_all(&world);
    (void)coll_world_run(&world);
    CT_CHECK_STATUS(world.ranks[0].work.status, DDP_E_MISMATCH);
    CT_CHECK(!world.ranks[0].coll->ops->is_revoked(world.ranks[0].coll, &revocation));
    coll_world_close(&world);
}

/* A rank dies at any moment of an all-reduce and its memory is dropped: every other rank ends with
 * OK or PEER_DIED, some with PEER_DIED unless it had done its part, and they name it. */
static void check_death(enum ddp_algorithm_id algorithm, uint32_t victim, uint32_t after_steps)
{
    struct coll_world_options options = {
        .algorithm = algorithm, .segment_bytes = 400, .is_checked = true};
    struct coll_world world;
    float *block[5];
    bool is_done = false;
    uint32_t died = 0;

    CT_REQUIRE(coll_world_open(&world, 5, &options));
    for (uint32_t rank = 0; rank < 5; rank++) {
        block[rank] = coll_world_alloc(&world, rank, COUNT * sizeof(float));
        for (uint32_t i = 0; i < COUNT; i++) {
            block[rank][i] = 1.0f;
        }
        world.ranks[rank].work.args.elem_count = COUNT;
        world.ranks[rank].work.args.input = block[rank];
        world.ranks[rank].work.args.output = block[rank];
        CT_CHECK_OK(coll_world_post(&world, rank));
    }
    for (uint32_t i = 0; i < after_steps && !is_done; i++) {
        CT_CHECK(coll_world_step(&world, &is_done));
    }
    bool was_complete = world.ranks[victim].work.status == DDP_OK;

    coll_world_kill(&world, victim);
    CT_CHECK(coll_world_run(&world));
    for (uint32_t rank = 0; rank < 5; rank++) {
        struct coll_rank *who = &world.ranks[rank];

        if (rank == victim) {
            continue;
        }
        if (who->work.status == DDP_OK) {
            CT_CHECK(block[rank][0] == 5.0f && block[rank][COUNT - 1] == 5.0f);
        } else {
            CT_CHECK_STATUS(who->work.status, DDP_E_PEER_DIED);
            CT_CHECK_EQ_I64(who->coll->ops->dead_rank(who->coll), victim);
            died++;
        }
    }
    CT_CHECK(died > 0 || was_complete || after_steps > 20);
    coll_world_close(&world);
}

CT_TEST(collective_failure, death_in_mid_collective)
{
    for (uint32_t steps = 0; steps < 120; steps += steps < 20 ? 1 : 10) {
        check_death(DDP_ALGORITHM_RING, steps % 5, steps);
        check_death(DDP_ALGORITHM_RECURSIVE_DOUBLING, (steps + 1) % 5, steps);
    }
}

/* A revocation ends queued works on every rank and later posts too, but a completed work stays OK.
 */
CT_TEST(collective_failure, revocation)
{
    struct coll_world_options options = {.is_checked = true};
    const struct ddp_revocation revocation = {2, DDP_E_UNUSED_PARAMETER, 9, 5};
    struct ddp_coll_work done;
    struct ddp_revocation seen;
    struct coll_world world;

    CT_REQUIRE(coll_world_open(&world, 3, &options));
    prepare(&world, 10);
    post_all(&world);
    CT_CHECK(coll_world_run(&world));
    done = world.ranks[0].work;
    CT_CHECK_OK(coll_world_post(&world, 0));
    CT_CHECK_OK(coll_world_post(&world, 1));
    world.ranks[2].coll->ops->revoke(world.ranks[2].coll, &revocation);
    CT_CHECK(coll_world_run(&world));
    CT_CHECK_STATUS(world.ranks[0].work.status, DDP_E_REVOKED);
    CT_CHECK_STATUS(world.ranks[1].work.status, DDP_E_REVOKED);
    CT_CHECK_OK(world.ranks[2].work.status);
    CT_CHECK_OK(world.ranks[0].coll->ops->poll(world.ranks[0].coll, &done));
    CT_CHECK(world.ranks[0].coll->ops->is_revoked(world.ranks[0].coll, &seen));
    CT_CHECK_EQ_U64(seen.rank, 2);
    CT_CHECK_EQ_U64(seen.detail, 5);
    CT_CHECK_STATUS(coll_world_post(&world, 0), DDP_E_REVOKED);
    coll_world_close(&world);
}

/* collective/enqueue: SKIP completes at once and touches nothing; FAIL is an error of that post. */
CT_TEST(collective_failure, fault_point)
{
    struct coll_world_options options = {.is_checked = true};
    struct coll_world world;
    bool is_done;

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    prepare(&world, 10);
    world.ranks[0].hook.armed = UINT64_C(1) << DDP_FAULT_POINT_COLLECTIVE_ENQUEUE;
    world.ranks[0].action = DDP_FAULT_SKIP;
    post_all(&world);
    while (coll_world_step(&world, &is_done) && !is_done) {
    }
    CT_CHECK_OK(world.ranks[0].work.status);
    CT_CHECK(data[0][0] == 1.0f);
    CT_CHECK_STATUS(world.ranks[1].work.status, DDP_PENDING);
    world.ranks[0].action = DDP_FAULT_FAIL;
    CT_CHECK_STATUS(coll_world_post(&world, 0), DDP_E_INJECTED);
    coll_world_close(&world);
}

/* Arguments out of range are refused at post. */
CT_TEST(collective_failure, invalid_arguments)
{
    struct coll_world_options options = {.is_checked = true};
    struct coll_world world;

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    prepare(&world, 10);
    world.ranks[0].work.args.root = 2;
    CT_CHECK_STATUS(coll_world_post(&world, 0), DDP_E_INVALID);
    coll_world_close(&world);
}

/* An algorithm of another kind is refused with the known ones. */
CT_TEST(collective_failure, algorithm_of_another_kind)
{
    struct coll_world_options options = {.is_checked = true};
    struct ddp_coll_schedule_config config = {.algorithm = DDP_ALGORITHM_RING_ALL_GATHER};
    struct ddp_transport *transport;
    struct coll_world world;
    struct ddp_coll *coll;
    struct ddp_err err;

    CT_REQUIRE(coll_world_open(&world, 1, &options));
    CT_REQUIRE_OK(ddp_loop_create(world.net, &world.ranks[0].env, "other", 0, 1, NULL, &transport));
    CT_CHECK_STATUS(ddp_coll_schedule_create(&world.ranks[0].env, transport, world.ranks[0].device,
                                             &config, &coll, &err),
                    DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "recursive_doubling") != NULL);
    transport->ops->destroy(transport);
    coll_world_close(&world);
}

/* Choices by size are of all-reduces, and each is for more bytes than the one before. */
CT_TEST(collective_failure, choices_that_are_none)
{
    static const struct ddp_coll_choice unordered[] = {{8, DDP_ALGORITHM_RING, 0},
                                                       {8, DDP_ALGORITHM_LINEAR, 0}};
    static const struct ddp_coll_choice other[] = {{8, DDP_ALGORITHM_RING_ALL_GATHER, 0}};
    struct coll_world_options options = {.is_checked = true};
    struct ddp_coll_schedule_config config = {.choices = unordered, .choice_count = 2};
    struct ddp_transport *transport;
    struct coll_world world;
    struct ddp_coll *coll;
    struct ddp_err err;

    CT_REQUIRE(coll_world_open(&world, 1, &options));
    CT_REQUIRE_OK(ddp_loop_create(world.net, &world.ranks[0].env, "other", 0, 1, NULL, &transport));
    CT_CHECK_STATUS(ddp_coll_schedule_create(&world.ranks[0].env, transport, world.ranks[0].device,
                                             &config, &coll, &err),
                    DDP_E_INVALID);
    config.choices = other;
    config.choice_count = 1;
    CT_CHECK_STATUS(ddp_coll_schedule_create(&world.ranks[0].env, transport, world.ranks[0].device,
                                             &config, &coll, &err),
                    DDP_E_NOT_FOUND);
    transport->ops->destroy(transport);
    coll_world_close(&world);
}

static bool find_event(const struct coll_rank *rank, enum ddp_event event, uint32_t skip,
                       struct ddp_event_entry *out)
{
    for (uint64_t i = 1;
         ddp_ring_read(rank->recorder.ring, rank->recorder.ring_entry_count, i, out) == DDP_OK;
         i++) {
        if (out->event == event && skip-- == 0) {
            return true;
        }
    }
    return false;
}

/* The observer records arguments, hashes and statuses as they were, and the page's words. */
CT_TEST(collective_failure, observer)
{
    struct coll_world_options options = {.is_checked = true, .is_observed = true};
    struct coll_world world;
    struct ddp_event_entry entry;
    struct ddp_page page;
    uint64_t input_hash, output_hash;

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    prepare(&world, COUNT);
    for (uint32_t rank = 0; rank < 2; rank++) {
        world.ranks[rank].work.args.role = DDP_ROLE_BUCKET;
        world.ranks[rank].work.args.index = 3;
    }
    input_hash = ddp_hash_tensor(data[1], COUNT * sizeof(float), ddp_hash_text("bucket/3"), NULL);
    post_all(&world);
    CT_REQUIRE(ddp_page_read(world.ranks[1].recorder.page, &page));
    CT_CHECK_EQ_U64(page.seq_posted, 1);
    CT_CHECK_EQ_U64(page.seq_done, 0);
    CT_CHECK_EQ_U64(page.comm, 42);
    CT_CHECK(coll_world_run(&world));
    output_hash = ddp_hash_tensor(data[1], COUNT * sizeof(float), ddp_hash_text("bucket/3"), NULL);
    CT_REQUIRE(find_event(&world.ranks[1], DDP_EVENT_COLL_POST, 0, &entry));
    CT_CHECK_EQ_U64(entry.arg[0], 1);
    CT_CHECK_EQ_U64(ddp_event_op_unpack(entry.arg[1]).index, 3);
    CT_CHECK_EQ_U64(entry.arg[2], COUNT);
    CT_CHECK_EQ_U64(entry.arg[3], 42);
    CT_CHECK_EQ_U64(entry.arg[4], input_hash);
    CT_REQUIRE(find_event(&world.ranks[1], DDP_EVENT_COLL_DONE, 0, &entry));
    CT_CHECK_EQ_U64(entry.arg[3], DDP_OK);
    CT_CHECK_EQ_U64(entry.arg[4], output_hash);
    CT_CHECK(input_hash != output_hash);
    CT_REQUIRE(ddp_page_read(world.ranks[1].recorder.page, &page));
    CT_CHECK_EQ_U64(page.seq_done, 1);
    CT_CHECK(page.message_count > 0);
    /* Polling again records nothing more. */
    CT_CHECK_OK(world.ranks[1].coll->ops->poll(world.ranks[1].coll, &world.ranks[1].work));
    CT_CHECK(!find_event(&world.ranks[1], DDP_EVENT_COLL_DONE, 1, &entry));
    coll_world_close(&world);
}

/* While a rank waits, its page names the rank whose message is missing. */
CT_TEST(collective_failure, waiting_rank_names_its_peer)
{
    struct coll_world_options options = {.algorithm = DDP_ALGORITHM_RING, .is_observed = true};
    struct coll_world world;
    struct ddp_page page;
    bool is_done;

    CT_REQUIRE(coll_world_open(&world, 4, &options));
    prepare(&world, COUNT);
    for (uint32_t rank = 0; rank < 4; rank++) {
        if (rank != 2) {
            CT_CHECK_OK(coll_world_post(&world, rank));
            ddp_recorder_wait_begin(&world.ranks[rank].recorder, DDP_WAIT_COLLECTIVE, 1);
        }
    }
    while (coll_world_step(&world, &is_done) && !is_done) {
    }
    CT_REQUIRE(ddp_page_read(world.ranks[3].recorder.page, &page));
    CT_CHECK_EQ_U64(page.wait_peer, 2 + 1);
    coll_world_close(&world);
}

/* A schedule that the observer refuses is not run. */
static ddp_status refuse(struct ddp_schedule_observer *observer,
                         const struct ddp_schedule *schedule)
{
    (void)observer;
    (void)schedule;
    return DDP_E_NO_SPACE;
}

CT_TEST(collective, observer_refuses_a_schedule)
{
    struct ddp_schedule_observer observer = {refuse};
    struct coll_world_options options = {.algorithm = DDP_ALGORITHM_RING, .observer = &observer};
    struct coll_world world;
    float values[2][8] = {{0}};

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct coll_rank *who = &world.ranks[rank];

        who->work.args.elem_count = 8;
        who->work.args.input = values[rank];
        who->work.args.output = values[rank];
        CT_CHECK_EQ_I64(coll_world_post(&world, rank), DDP_E_NO_SPACE);
    }
    coll_world_close(&world);
}
