/* All-reduces by somebody else's code under the executor: beside schedules on one transport, behind
 * agreements, and what becomes of its errors. */
#include <string.h>

#include "ddpcore/collective/mover.h"
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

enum { RANKS = 3, COUNT = 5, ROUNDS = 4 };

/* Everybody sends everything to everybody, and adds in the order of ranks. */
struct mover {
    struct ddp_coll_mover base;
    struct coll_rank *rank;
    uint32_t started, stopped;
    ddp_status fails; /* what it returns instead; OK: nothing */
    uint64_t ticket[RANKS];
    bool is_sent[RANKS], has_come[RANKS];
    float came[RANKS][COUNT];
};
static struct mover movers[RANKS];
static bool is_checked;

static ddp_status exchange(struct mover *mover, const struct ddp_coll_way *way)
{
    struct ddp_transport *transport = way->transport;
    const struct ddp_coll_args *args = &way->work->args;
    bool is_done = true;

    for (uint32_t r = 0; r < RANKS; r++) {
        struct ddp_message message = {.data = args->input,
                                      .size_bytes = COUNT * sizeof(float),
                                      .seq = way->work->seq,
                                      .signature = way->signature,
                                      .number = way->counts[r].sent};

        if (r == transport->member) {
            memcpy(mover->came[r], args->input, sizeof mover->came[r]);
            continue;
        }
        if (!mover->is_sent[r]) {
            ddp_status status =
                transport->ops->send_post(transport, r, &message, &mover->ticket[r]);

            mover->is_sent[r] = status == DDP_OK;
            way->counts[r].sent += status == DDP_OK;
            if (status < DDP_OK) {
                return status;
            }
        }
        if (!mover->has_come[r] && transport->ops->recv_peek(transport, r, &message) == DDP_OK) {
            CT_CHECK(!way->is_checked ||
                     (message.seq == way->work->seq && message.signature == way->signature));
            CT_CHECK_EQ_U64(message.number, way->counts[r].taken++);
            memcpy(mover->came[r], message.data, sizeof mover->came[r]);
            transport->ops->recv_ack(transport, r);
            mover->has_come[r] = true;
        }
        is_done = is_done && mover->is_sent[r] && mover->has_come[r] &&
                  transport->ops->send_poll(transport, r, mover->ticket[r]) == DDP_OK;
    }
    if (!is_done) {
        return ddp_coll_way_check(way);
    }
    for (size_t i = 0; i < COUNT; i++) {
        ((float *)args->output)[i] = mover->came[0][i] + mover->came[1][i] + mover->came[2][i];
    }
    return DDP_OK;
}

static ddp_status start(struct ddp_coll_mover *base, const struct ddp_coll_way *way)
{
    struct mover *mover = (struct mover *)base;

    mover->started++;
    memset(mover->is_sent, 0, sizeof mover->is_sent);
    memset(mover->has_come, 0, sizeof mover->has_come);
    return mover->fails != DDP_OK ? mover->fails : exchange(mover, way);
}

static ddp_status go_on(struct ddp_coll_mover *base, const struct ddp_coll_way *way)
{
    struct mover *mover = (struct mover *)base;

    return mover->fails != DDP_OK ? mover->fails : exchange(mover, way);
}

static void stop(struct ddp_coll_mover *base)
{
    ((struct mover *)base)->stopped++;
}

static ddp_status make(void *context, struct coll_rank *rank, struct ddp_transport *transport)
{
    static const struct ddp_coll_mover_ops ops = {start, go_on, stop};
    struct mover *mover = &movers[transport->member];
    const struct ddp_coll_schedule_config config = {
        .comm = 42, .is_checked = is_checked, .mover = &mover->base};
    struct ddp_err err = {""};

    (void)context;
    *mover = (struct mover){.base = {&ops}, .rank = rank};
    CT_CHECK_OK(
        ddp_coll_schedule_create(&rank->env, transport, rank->device, &config, &rank->coll, &err));
    return DDP_OK;
}

static void open_world(struct coll_world *world, bool checked)
{
    const struct coll_world_options options = {.make = make};

    is_checked = checked;
    CT_REQUIRE(coll_world_open(world, RANKS, &options));
}

static void post_for(struct coll_world *world, uint32_t rank, enum ddp_coll_kind kind,
                     enum ddp_coll_role role, float *data, size_t count)
{
    world->ranks[rank].work.args = (struct ddp_coll_args){.kind = kind,
                                                          .role = role,
                                                          .dtype = DDP_DTYPE_F32,
                                                          .root = 0,
                                                          .input = data,
                                                          .output = data,
                                                          .elem_count = count};
    CT_CHECK_OK(coll_world_post(world, rank));
}

static void post(struct coll_world *world, uint32_t rank, enum ddp_coll_kind kind, float *data,
                 size_t count)
{
    post_for(world, rank, kind, DDP_ROLE_USER, data, count);
}

CT_TEST(mover, sums_beside_schedules)
{
    static struct coll_world world;
    float data[RANKS][COUNT];

    for (int checked = 0; checked < 2; checked++) {
        open_world(&world, checked == 1);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            for (uint32_t r = 0; r < RANKS; r++) {
                for (size_t i = 0; i < COUNT; i++) {
                    data[r][i] = (float)(100 * round + 10 * r + i);
                }
                post(&world, r, DDP_COLL_ALL_REDUCE, data[r], COUNT);
            }
            CT_REQUIRE(coll_world_run(&world));
            for (uint32_t r = 0; r < RANKS; r++) {
                CT_CHECK_OK(world.ranks[r].work.status);
                CT_CHECK(data[r][1] == (float)(300 * round + 30 + 3));
                data[r][0] = (float)r + 7;
                post(&world, r, DDP_COLL_BROADCAST, data[r], COUNT);
            }
            CT_REQUIRE(coll_world_run(&world));
            for (uint32_t r = 0; r < RANKS; r++) {
                CT_CHECK_OK(world.ranks[r].work.status);
                CT_CHECK(data[r][0] == 7.0f);
                CT_CHECK_EQ_U64(movers[r].started, round + 1);
            }
        }
        coll_world_close(&world);
        CT_CHECK_EQ_U64(movers[0].stopped, 0);
    }
}

/* Flags and maps are the schedules', in any operation. */
CT_TEST(mover, small_ones_go_by_schedules)
{
    static const enum ddp_coll_role roles[] = {DDP_ROLE_USED_MAP, DDP_ROLE_JOIN_PRESENT,
                                               DDP_ROLE_FOUND_INF, DDP_ROLE_BUCKET};
    static struct coll_world world;
    float data[RANKS][COUNT];
    uint32_t moved = 0;

    open_world(&world, true);
    for (size_t k = 0; k < sizeof roles / sizeof roles[0]; k++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            data[r][1] = (float)r;
            post_for(&world, r, DDP_COLL_ALL_REDUCE, roles[k], data[r], COUNT);
        }
        moved += roles[k] == DDP_ROLE_BUCKET ? 1 : 0;
        CT_REQUIRE(coll_world_run(&world));
        for (uint32_t r = 0; r < RANKS; r++) {
            CT_CHECK_OK(world.ranks[r].work.status);
            CT_CHECK(data[r][1] == 3.0f);
            CT_CHECK_EQ_U64(movers[r].started, moved);
        }
    }
    coll_world_close(&world);
}

CT_TEST(mover, nothing_to_move)
{
    static struct coll_world world;
    float nothing = 0;

    open_world(&world, true);
    for (uint32_t r = 0; r < RANKS; r++) {
        post(&world, r, DDP_COLL_ALL_REDUCE, &nothing, 0);
    }
    CT_CHECK(coll_world_run(&world));
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK_OK(world.ranks[r].work.status);
        CT_CHECK_EQ_U64(movers[r].started, 0);
    }
    coll_world_close(&world);
}

/* In a checked group it is not even begun. */
CT_TEST(mover, mismatch_is_told_before_it_begins)
{
    static struct coll_world world;
    float data[RANKS][COUNT] = {{0}};

    open_world(&world, true);
    for (uint32_t r = 0; r < RANKS; r++) {
        post(&world, r, DDP_COLL_ALL_REDUCE, data[r], r == 1 ? COUNT - 1 : COUNT);
    }
    (void)coll_world_run(&world);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK(world.ranks[r].work.status == DDP_E_MISMATCH ||
                 world.ranks[r].work.status == DDP_E_REVOKED);
        CT_CHECK_EQ_U64(movers[r].started, 0);
    }
    coll_world_close(&world);
}

/* An error of one ends the group for all, and what the others have begun is stopped. */
CT_TEST(mover, error_ends_the_group)
{
    static const struct {
        ddp_status fails, said;
    } cases[] = {{DDP_E_UNSUPPORTED, DDP_E_UNSUPPORTED}, {DDP_E_IO, DDP_E_IO}};
    static struct coll_world world;
    float data[RANKS][COUNT] = {{0}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_world(&world, false);
        movers[1].fails = cases[i].fails;
        for (uint32_t r = 0; r < RANKS; r++) {
            post(&world, r, DDP_COLL_ALL_REDUCE, data[r], COUNT);
        }
        for (bool is_done = false; !is_done;) {
            if (!coll_world_step(&world, &is_done)) {
                /* E_IO is held until it is known that nobody is dead. */
                ddp_clock_virtual_advance_to(&world.clock, world.clock.time_ns + DDP_NS_PER_S);
            }
        }
        CT_CHECK_EQ_U64((uint64_t)-world.ranks[1].work.status, (uint64_t)-cases[i].said);
        CT_CHECK(world.ranks[0].work.status == DDP_E_REVOKED);
        CT_CHECK(world.ranks[2].work.status == DDP_E_REVOKED);
        CT_CHECK_EQ_U64(movers[0].stopped, 1);
        CT_CHECK_EQ_U64(movers[1].stopped, 1);
        coll_world_close(&world);
    }
}

/* An error that follows from a death is said as the death. */
CT_TEST(mover, error_after_a_death)
{
    static struct coll_world world;
    float data[RANKS][COUNT] = {{0}};

    open_world(&world, false);
    for (uint32_t r = 0; r < RANKS; r++) {
        post(&world, r, DDP_COLL_ALL_REDUCE, data[r], COUNT);
        movers[r].fails = r == 0 ? DDP_E_IO : DDP_OK;
    }
    coll_world_kill(&world, 2);
    for (bool is_done = false; !is_done;) {
        if (!coll_world_step(&world, &is_done)) {
            ddp_clock_virtual_advance_to(&world.clock, world.clock.time_ns + DDP_NS_PER_MS);
        }
    }
    CT_CHECK(world.ranks[0].work.status == DDP_E_PEER_DIED);
    CT_CHECK(world.ranks[1].work.status == DDP_E_PEER_DIED);
    coll_world_close(&world);
}
