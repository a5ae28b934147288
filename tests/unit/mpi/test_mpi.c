/* Groups over a scripted MPI: results, agreement, failures, beginning and end. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"
#include "tests/unit/mpi/mpi_fake.h"

#define COUNT 37u

/* Every member is a process of its own to MPI, so each has a library. */
struct mpi_world {
    struct coll_world world;
    struct ddp_mpi_library *library[MPI_FAKE_MEMBERS_MAX];
    ddp_status created[MPI_FAKE_MEMBERS_MAX];
    struct ddp_err err[MPI_FAKE_MEMBERS_MAX];
    bool is_checked;
    uint64_t init_timeout_ns;
};

static ddp_status make(void *context, struct coll_rank *rank, struct ddp_transport *transport)
{
    struct mpi_world *self = context;
    uint32_t number = rank->env.rank;
    struct ddp_coll_mpi_config config = {
        .comm = 42, .is_checked = self->is_checked, .init_timeout_ns = self->init_timeout_ns};

    CT_CHECK_OK(
        ddp_mpi_library_wrap(mpi_fake_module(), &self->library[number], &self->err[number]));
    config.library = self->library[number];
    self->created[number] = ddp_coll_mpi_create(&rank->env, transport, rank->device, &config,
                                                &rank->coll, &self->err[number]);
    return self->created[number];
}

static bool open_world(struct mpi_world *self, uint32_t count)
{
    const struct coll_world_options options = {.make = make, .context = self};

    return coll_world_open(&self->world, count, &options);
}

/* A world that works. */
static bool open_good(struct mpi_world *self, uint32_t count, bool is_checked)
{
    memset(self, 0, sizeof(*self));
    self->is_checked = is_checked;
    mpi_fake_open(count);
    return open_world(self, count);
}

static void close_world(struct mpi_world *self)
{
    uint32_t count = self->world.count;

    coll_world_close(&self->world);
    for (uint32_t i = 0; i < count; i++) {
        ddp_mpi_library_close(self->library[i]);
    }
    mpi_fake_release();
}

static float input[MPI_FAKE_MEMBERS_MAX][COUNT];
static float output[MPI_FAKE_MEMBERS_MAX][COUNT * MPI_FAKE_MEMBERS_MAX];

static void fill(void)
{
    for (uint32_t rank = 0; rank < MPI_FAKE_MEMBERS_MAX; rank++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            input[rank][i] = (float)(rank * 100 + i);
        }
        for (uint32_t i = 0; i < COUNT * MPI_FAKE_MEMBERS_MAX; i++) {
            output[rank][i] = -1.0f;
        }
    }
}

static struct ddp_coll_args args_of(enum ddp_coll_kind kind, uint32_t rank)
{
    const struct ddp_coll_args args = {.kind = kind,
                                       .dtype = DDP_DTYPE_F32,
                                       .input = input[rank],
                                       .output = output[rank],
                                       .elem_count = COUNT};

    return args;
}

static ddp_status post(struct mpi_world *self, uint32_t rank, const struct ddp_coll_args *args)
{
    self->world.ranks[rank].work.args = *args;
    return coll_world_post(&self->world, rank);
}

static void post_all(struct mpi_world *self, enum ddp_coll_kind kind)
{
    fill();
    for (uint32_t rank = 0; rank < self->world.count; rank++) {
        const struct ddp_coll_args args = args_of(kind, rank);

        CT_CHECK_OK(post(self, rank, &args));
    }
}

static void check_status(const struct mpi_world *self, ddp_status expected)
{
    for (uint32_t rank = 0; rank < self->world.count; rank++) {
        CT_CHECK_STATUS(self->world.ranks[rank].work.status, expected);
    }
}

/* Polls as often as anything can take, with time for whatever waits for time. Returns whether all
 * works have ended. */
static bool settle(struct mpi_world *self)
{
    bool is_done = false;

    for (int i = 0; i < 200 && !is_done; i++) {
        if (!coll_world_step(&self->world, &is_done)) {
            ddp_clock_virtual_advance_to(&self->world.clock,
                                         self->world.clock.time_ns + 10 * DDP_NS_PER_MS);
        }
    }
    return is_done;
}

static void check_kinds(uint32_t count, bool is_checked)
{
    struct mpi_world self;
    uint32_t last = count - 1;

    CT_REQUIRE(open_good(&self, count, is_checked));
    post_all(&self, DDP_COLL_ALL_REDUCE);
    CT_CHECK(settle(&self));
    check_status(&self, DDP_OK);
    for (uint32_t rank = 0; rank < count; rank++) {
        CT_CHECK(output[rank][3] == (float)(count * 3 + 100 * (count * last / 2)));
        CT_CHECK(output[rank][COUNT] == -1.0f);
    }
    post_all(&self, DDP_COLL_ALL_GATHER);
    CT_CHECK(settle(&self));
    for (uint32_t rank = 0; rank < count; rank++) {
        CT_CHECK(output[rank][2] == 2.0f && output[rank][last * COUNT] == (float)(100 * last));
    }
    post_all(&self, DDP_COLL_BROADCAST);
    CT_CHECK(settle(&self));
    for (uint32_t rank = 0; rank < count; rank++) {
        CT_CHECK_BYTES(output[rank], input[0], sizeof(input[0]));
    }
    post_all(&self, DDP_COLL_BARRIER);
    CT_CHECK(settle(&self));
    check_status(&self, DDP_OK);
    CT_CHECK_EQ_U64(mpi_fake.start_count, 4 * count);
    close_world(&self);
    CT_CHECK_EQ_U64(mpi_fake.end_count, 0);
}

CT_TEST(mpi, kinds)
{
    for (uint32_t count = 1; count <= 4; count++) {
        check_kinds(count, true);
        check_kinds(count, false);
    }
}

CT_TEST(mpi, in_place)
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 3, true));
    for (int is_equal = 0; is_equal < 2; is_equal++) {
        fill();
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct ddp_coll_args args = args_of(DDP_COLL_ALL_GATHER, rank);

            memcpy(output[rank] + rank * COUNT, input[rank], sizeof(input[rank]));
            args.input = is_equal ? output[rank] : output[rank] + rank * COUNT;
            CT_CHECK_OK(post(&self, rank, &args));
        }
        CT_CHECK(settle(&self));
        for (uint32_t rank = 0; rank < 3; rank++) {
            CT_CHECK(output[rank][2] == 2.0f && output[rank][2 * COUNT + 2] == 202.0f);
        }
    }
    close_world(&self);
}

/* Nobody else has posted: MPI sees nothing, and is still moved on for the others. */
CT_TEST(mpi, nothing_starts_before_all_agree)
{
    struct mpi_world self;
    const struct ddp_coll_args first = args_of(DDP_COLL_ALL_REDUCE, 0);
    const struct ddp_coll_args second = args_of(DDP_COLL_ALL_REDUCE, 1);

    CT_REQUIRE(open_good(&self, 2, true));
    fill();
    CT_CHECK_OK(post(&self, 0, &first));
    CT_CHECK(!settle(&self));
    CT_CHECK_EQ_U64(mpi_fake.start_count, 0);
    CT_CHECK(mpi_fake.progress_count > 0);
    CT_CHECK_OK(post(&self, 1, &second));
    CT_CHECK(settle(&self));
    check_status(&self, DDP_OK);
    close_world(&self);
}

static void check_mismatch(void (*change)(struct ddp_coll_args *args))
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 3, true));
    fill();
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, rank);

        if (rank == 1) {
            change(&args);
        }
        CT_CHECK_OK(post(&self, rank, &args));
    }
    CT_CHECK(settle(&self));
    CT_CHECK_EQ_U64(mpi_fake.start_count, 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        ddp_status status = self.world.ranks[rank].work.status;

        CT_CHECK(status == DDP_E_MISMATCH || status == DDP_E_REVOKED);
    }
    close_world(&self);
}

static void change_op(struct ddp_coll_args *args)
{
    args->redop = DDP_REDOP_MAX;
}
static void change_count(struct ddp_coll_args *args)
{
    args->elem_count--;
}
static void change_dtype(struct ddp_coll_args *args)
{
    args->dtype = DDP_DTYPE_I32;
}
static void change_kind(struct ddp_coll_args *args)
{
    args->kind = DDP_COLL_BROADCAST;
}

CT_TEST(mpi, mismatches_never_reach_mpi)
{
    check_mismatch(change_op);
    check_mismatch(change_count);
    check_mismatch(change_dtype);
    check_mismatch(change_kind);
}

CT_TEST(mpi, death_inside_mpi)
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 3, true));
    mpi_fake.is_stuck = true;
    post_all(&self, DDP_COLL_ALL_REDUCE);
    CT_CHECK(!settle(&self));
    check_status(&self, DDP_PENDING);
    CT_CHECK_EQ_U64(mpi_fake.start_count, 3);
    coll_world_kill(&self.world, 2);
    CT_CHECK(settle(&self));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct ddp_coll *coll = self.world.ranks[rank].coll;

        CT_CHECK_STATUS(self.world.ranks[rank].work.status, DDP_E_PEER_DIED);
        CT_CHECK(coll->ops->dead_rank(coll) == 2);
        CT_CHECK(ddp_mpi_library_life(self.library[rank]) == DDP_MPI_GIVEN_UP);
        CT_CHECK_STATUS(ddp_coll_mpi_finish(coll, 0), DDP_E_STATE);
    }
    CT_CHECK_EQ_U64(mpi_fake.end_count, 0);
    close_world(&self);
}

CT_TEST(mpi, revocation_inside_mpi)
{
    struct mpi_world self;
    const struct ddp_revocation revocation = {1, DDP_E_UNUSED_PARAMETER, 5, 3};
    struct ddp_coll *coll;

    CT_REQUIRE(open_good(&self, 3, true));
    mpi_fake.is_stuck = true;
    post_all(&self, DDP_COLL_ALL_REDUCE);
    CT_CHECK(!settle(&self));
    coll = self.world.ranks[1].coll;
    coll->ops->revoke(coll, &revocation);
    CT_CHECK(settle(&self));
    check_status(&self, DDP_E_REVOKED);
    for (uint32_t rank = 0; rank < 3; rank++) {
        struct ddp_revocation seen;

        coll = self.world.ranks[rank].coll;
        CT_CHECK(coll->ops->is_revoked(coll, &seen));
        CT_CHECK(seen.rank == 1 && seen.status == DDP_E_UNUSED_PARAMETER);
    }
    close_world(&self);
}

/* MPI's own error ends the group with MPI's text, unless a death explains it. */
CT_TEST(mpi, errors_of_mpi)
{
    for (int is_death = 0; is_death < 2; is_death++) {
        struct mpi_world self;
        struct ddp_coll *coll;

        CT_REQUIRE(open_good(&self, 2, true));
        mpi_fake.test_result = MPI_FAKE_ERROR;
        post_all(&self, DDP_COLL_ALL_REDUCE);
        if (is_death) {
            coll_world_kill(&self.world, 1);
        }
        CT_CHECK(settle(&self));
        coll = self.world.ranks[0].coll;
        CT_CHECK_STATUS(self.world.ranks[0].work.status, is_death ? DDP_E_PEER_DIED : DDP_E_SYSTEM);
        if (!is_death) {
            CT_CHECK_STR(coll->ops->last_error(coll), "MPI_Test: scripted");
        }
        close_world(&self);
    }
}

CT_TEST(mpi, error_at_start)
{
    struct mpi_world self;
    struct ddp_coll *coll;
    struct ddp_revocation seen;

    CT_REQUIRE(open_good(&self, 2, false));
    mpi_fake.start_result = MPI_FAKE_ERROR;
    post_all(&self, DDP_COLL_BARRIER);
    CT_CHECK(settle(&self));
    coll = self.world.ranks[0].coll;
    CT_CHECK_STR(coll->ops->last_error(coll), "MPI's start of a collective: scripted");
    CT_CHECK(coll->ops->is_revoked(coll, &seen) && seen.status == DDP_E_SYSTEM);
    close_world(&self);
}

CT_TEST(mpi, what_mpi_cannot_do)
{
    struct mpi_world self;
    struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, 0);

    CT_REQUIRE(open_good(&self, 1, true));
    args.dtype = DDP_DTYPE_BF16;
    CT_CHECK_STATUS(post(&self, 0, &args), DDP_E_UNSUPPORTED);
    args.dtype = DDP_DTYPE_F16;
    CT_CHECK_STATUS(post(&self, 0, &args), DDP_E_UNSUPPORTED);
    args.dtype = DDP_DTYPE_F32;
    args.elem_count = (size_t)INT32_MAX + 1;
    CT_CHECK_STATUS(post(&self, 0, &args), DDP_E_UNSUPPORTED);
    args.elem_count = 1;
    args.root = 1;
    CT_CHECK_STATUS(post(&self, 0, &args), DDP_E_INVALID);
    args = args_of(DDP_COLL_ALL_GATHER, 0);
    args.dtype = DDP_DTYPE_BF16;
    CT_CHECK_OK(post(&self, 0, &args));
    CT_CHECK(settle(&self));
    check_status(&self, DDP_OK);
    CT_CHECK_BYTES(output[0], input[0], COUNT * 2);
    close_world(&self);
}

CT_TEST(mpi, empty_collectives_never_reach_mpi)
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 2, true));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, rank);

        args.elem_count = 0;
        CT_CHECK_OK(post(&self, rank, &args));
    }
    CT_CHECK(settle(&self));
    check_status(&self, DDP_OK);
    CT_CHECK_EQ_U64(mpi_fake.start_count, 0);
    close_world(&self);
}

/* --- beginning and end ------------------------------------------------------------------------ */

static void check_refused(struct mpi_world *self, ddp_status status, const char *text)
{
    CT_CHECK(!open_world(self, 1));
    CT_CHECK_STATUS(self->created[0], status);
    CT_CHECK_STR(self->err[0].text, text);
    close_world(self);
}

CT_TEST(mpi, ranks_that_mpi_does_not_know)
{
    struct mpi_world self = {.is_checked = true};

    mpi_fake_open(3);
    check_refused(&self, DDP_E_STATE,
                  "MPI group: MPI counts this process as 0 of 3, the group as 0 of 1: its ranks "
                  "are to be started by mpirun");
}

CT_TEST(mpi, begin_refused)
{
    struct mpi_world self = {.is_checked = true};

    mpi_fake_open(1);
    mpi_fake.begin_result = MPI_FAKE_ERROR;
    check_refused(&self, DDP_E_SYSTEM, "MPI group: MPI_Init_thread: scripted");
}

CT_TEST(mpi, join_refused)
{
    struct mpi_world self = {.is_checked = true};

    mpi_fake_open(1);
    mpi_fake.join_result = MPI_FAKE_ERROR;
    check_refused(&self, DDP_E_SYSTEM, "MPI group: MPI_Comm_idup: scripted");
}

/* A member that never comes holds up MPI, not the rank. */
CT_TEST(mpi, begin_hangs)
{
    struct mpi_world self = {.is_checked = true, .init_timeout_ns = 5 * DDP_NS_PER_MS};

    mpi_fake_open(1);
    mpi_fake.is_begin_hung = true;
    CT_CHECK(!open_world(&self, 1));
    CT_CHECK_STATUS(self.created[0], DDP_E_TIMEOUT);
    mpi_fake_await_hung();
    close_world(&self);
}

CT_TEST(mpi, finish)
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 1, true));
    CT_CHECK_OK(ddp_coll_mpi_finish(self.world.ranks[0].coll, 0));
    CT_CHECK_EQ_U64(mpi_fake.end_count, 1);
    CT_CHECK(ddp_mpi_library_life(self.library[0]) == DDP_MPI_ENDED);
    CT_CHECK_STATUS(ddp_coll_mpi_finish(self.world.ranks[0].coll, 0), DDP_E_STATE);
    close_world(&self);
}

CT_TEST(mpi, finish_with_work_under_way)
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 1, true));
    mpi_fake.is_stuck = true;
    post_all(&self, DDP_COLL_BARRIER);
    CT_CHECK_STATUS(ddp_coll_mpi_finish(self.world.ranks[0].coll, 0), DDP_E_STATE);
    CT_CHECK_EQ_U64(mpi_fake.end_count, 0);
    close_world(&self);
}

CT_TEST(mpi, finish_hangs)
{
    struct mpi_world self;

    CT_REQUIRE(open_good(&self, 1, true));
    mpi_fake.is_end_hung = true;
    CT_CHECK_STATUS(ddp_coll_mpi_finish(self.world.ranks[0].coll, 5 * DDP_NS_PER_MS),
                    DDP_E_TIMEOUT);
    mpi_fake_await_hung();
    CT_CHECK(ddp_mpi_library_life(self.library[0]) == DDP_MPI_GIVEN_UP);
    close_world(&self);
}
