/* Collectives over NCCL's stand-in: results, order, producers, words and notes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/nccl/nccl_world.h"

#define COUNT 37u

static float input[NCCL_MEMBERS_MAX][COUNT], output[NCCL_MEMBERS_MAX][COUNT * NCCL_MEMBERS_MAX];

static void fill(void)
{
    for (uint32_t rank = 0; rank < NCCL_MEMBERS_MAX; rank++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            input[rank][i] = (float)(rank * 100 + i);
        }
        for (uint32_t i = 0; i < COUNT * NCCL_MEMBERS_MAX; i++) {
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

static void post_everywhere(struct nccl_world *world, enum ddp_coll_kind kind, enum ddp_redop redop,
                            uint32_t root)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args args = args_of(kind, rank);

        args.redop = redop;
        args.root = root;
        CT_CHECK_OK(nccl_world_post(world, rank, &args));
    }
}

static void check_ok(const struct nccl_world *world)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        for (uint32_t i = 0; i < world->ranks[rank].work_count; i++) {
            CT_CHECK_OK(world->ranks[rank].works[i].status);
        }
    }
}

static void check_count(uint32_t comm, const char *call, uint64_t count)
{
    char pattern[32];

    (void)snprintf(pattern, sizeof(pattern), "%u: ncclComm%s", comm, call);
    CT_CHECK_EQ_U64(nccl_turns_count(pattern), count);
}

static void check_kinds(uint32_t count, bool is_checked)
{
    const struct nccl_world_options options = {.is_checked = is_checked, .has_revoke = true};
    struct nccl_world world;
    uint32_t last = count - 1;

    CT_REQUIRE(nccl_world_open(&world, count, &options));
    fill();
    post_everywhere(&world, DDP_COLL_ALL_REDUCE, DDP_REDOP_SUM, 0);
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < count; rank++) {
        CT_CHECK(output[rank][5] == (float)(100 * (last * count / 2) + 5 * count));
    }
    post_everywhere(&world, DDP_COLL_ALL_REDUCE, DDP_REDOP_MAX, 0);
    nccl_world_run(&world);
    CT_CHECK(output[0][5] == (float)(last * 100 + 5));
    post_everywhere(&world, DDP_COLL_BROADCAST, DDP_REDOP_SUM, last);
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < count; rank++) {
        CT_CHECK(output[rank][COUNT - 1] == (float)(last * 100 + COUNT - 1));
    }
    post_everywhere(&world, DDP_COLL_ALL_GATHER, DDP_REDOP_SUM, 0);
    nccl_world_run(&world);
    for (uint32_t rank = 0; rank < count; rank++) {
        CT_CHECK(output[rank][0] == 0.0f);
        CT_CHECK(output[rank][last * COUNT + 3] == (float)(last * 100 + 3));
    }
    post_everywhere(&world, DDP_COLL_BARRIER, DDP_REDOP_SUM, 0);
    nccl_world_run(&world);
    check_ok(&world);
    nccl_world_close(&world);
    for (uint32_t rank = 0; rank < count; rank++) {
        check_count(rank, "Finalize", 1);
        check_count(rank, "Destroy", 1);
        check_count(rank, "Abort", 0);
    }
}

CT_TEST(nccl_coll, every_kind_gives_its_result)
{
    for (uint32_t count = 1; count <= 5; count++) {
        check_kinds(count, false);
        check_kinds(count, true);
    }
}

/* In place: all_gather's input is where it belongs, written either way. */
CT_TEST(nccl_coll, in_place)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 3, &options));
    for (int is_equal = 0; is_equal < 2; is_equal++) {
        fill();
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct ddp_coll_args args = args_of(DDP_COLL_ALL_GATHER, rank);

            memcpy(output[rank] + rank * COUNT, input[rank], sizeof(input[rank]));
            args.input = is_equal ? output[rank] : output[rank] + rank * COUNT;
            CT_CHECK_OK(nccl_world_post(&world, rank, &args));
        }
        nccl_world_run(&world);
        for (uint32_t rank = 0; rank < 3; rank++) {
            CT_CHECK(output[rank][2] == 2.0f && output[rank][2 * COUNT + 2] == 202.0f);
        }
    }
    check_ok(&world);
    nccl_world_close(&world);
}

/* NCCL sees works in the order in which they were posted, each once the one before is launched. */
CT_TEST(nccl_coll, queued_works_keep_their_order)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;
    uint32_t seen[2] = {0, 0};

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    fill();
    for (uint32_t i = 1; i <= 6; i++) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            struct ddp_coll_args args =
                args_of(i % 2 == 0 ? DDP_COLL_ALL_REDUCE : DDP_COLL_BROADCAST, rank);

            args.elem_count = i;
            CT_CHECK_OK(nccl_world_post(&world, rank, &args));
        }
    }
    nccl_world_run(&world);
    check_ok(&world);
    CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 12);
    for (size_t i = 0; i < 12; i++) {
        const char *line = nccl_turns_line(NCCL_TURNS_DATA, i);
        char name[32];
        uint32_t rank;
        uint64_t count;

        CT_REQUIRE(sscanf(line, "%u: %31s %" SCNu64, &rank, name, &count) == 3 && rank < 2);
        seen[rank]++;
        CT_CHECK_EQ_U64(count, seen[rank]);
        CT_CHECK_STR(name, seen[rank] % 2 == 0 ? "ncclAllReduce" : "ncclBroadcast");
    }
    nccl_world_close(&world);
}

/* Unchecked, a collective goes to NCCL as it is posted. */
CT_TEST(nccl_coll, unchecked_work_is_launched_by_post)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct nccl_world world;
    struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, 0);

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 1);
    args = args_of(DDP_COLL_ALL_REDUCE, 1);
    CT_CHECK_OK(nccl_world_post(&world, 1, &args));
    nccl_world_run(&world);
    check_ok(&world);
    nccl_world_close(&world);
}

/* The collective reads what the producer's stream had been told to write before it was posted. */
CT_TEST(nccl_coll, waits_for_the_producer)
{
    for (int is_default = 0; is_default < 2; is_default++) {
        const struct nccl_world_options options = {.is_checked = true};
        struct nccl_world world;
        struct ddp_stream *producer = NULL;
        struct nccl_device *device;
        static float made[COUNT];

        CT_REQUIRE(nccl_world_open(&world, 2, &options));
        device = &world.ranks[0].device;
        fill();
        for (uint32_t i = 0; i < COUNT; i++) {
            made[i] = 1000.0f;
        }
        if (!is_default) {
            CT_CHECK_OK(device->base.ops->stream_create(&device->base, &producer));
        }
        for (size_t i = 0; i < 8; i++) {
            device->is_held[i] = device->streams[i] == producer || (producer == NULL && i == 0);
        }
        CT_CHECK_OK(device->base.ops->copy(&device->base, producer, input[0], made, sizeof(made)));
        for (uint32_t rank = 0; rank < 2; rank++) {
            struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, rank);

            args.producer = rank == 0 ? producer : NULL;
            CT_CHECK_OK(nccl_world_post(&world, rank, &args));
        }
        nccl_world_settle(&world);
        CT_CHECK_STATUS(world.ranks[0].works[0].status, DDP_PENDING);
        CT_CHECK_STATUS(world.ranks[1].works[0].status, DDP_PENDING);
        memset(device->is_held, 0, sizeof(device->is_held));
        nccl_world_run(&world);
        CT_CHECK(output[1][0] == 1100.0f);
        if (producer != NULL) {
            device->base.ops->stream_destroy(&device->base, producer);
        }
        nccl_world_close(&world);
    }
}

/* NCCL returns at once for zero elements; the members still agree on them. */
CT_TEST(nccl_coll, zero_counts)
{
    for (int is_checked = 0; is_checked < 2; is_checked++) {
        const struct nccl_world_options options = {.is_checked = is_checked != 0};
        struct nccl_world world;

        CT_REQUIRE(nccl_world_open(&world, 3, &options));
        for (int kind = 0; kind < DDP_COLL_BARRIER; kind++) {
            for (uint32_t rank = 0; rank < 3; rank++) {
                struct ddp_coll_args args = args_of((enum ddp_coll_kind)kind, rank);

                if (kind == DDP_COLL_BARRIER) {
                    continue;
                }
                args.elem_count = 0;
                args.input = NULL;
                args.output = NULL;
                CT_CHECK_OK(nccl_world_post(&world, rank, &args));
            }
        }
        nccl_world_run(&world);
        check_ok(&world);
        CT_CHECK_EQ_U64(nccl_turns_count(NCCL_TURNS_DATA), 0);
        nccl_world_close(&world);
    }
}

/* A zero count between others does not overtake them. */
CT_TEST(nccl_coll, zero_count_ends_in_its_turn)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct nccl_world world;
    struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, 0);

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    args.elem_count = 0;
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    nccl_world_settle(&world);
    CT_CHECK_STATUS(world.ranks[0].works[1].status, DDP_PENDING);
    args = args_of(DDP_COLL_ALL_REDUCE, 1);
    CT_CHECK_OK(nccl_world_post(&world, 1, &args));
    args.elem_count = 0;
    CT_CHECK_OK(nccl_world_post(&world, 1, &args));
    nccl_world_run(&world);
    check_ok(&world);
    nccl_world_close(&world);
}

/* The words say: enqueued at once, reached when the stream is there. */
CT_TEST(nccl_coll, words_show_where_the_stream_is)
{
    struct ddp_progress progress = {.is_mapped = 1};
    struct nccl_world_options options = {.is_checked = false, .progress = &progress};
    const struct ddp_progress_words *words = &progress.stream[DDP_PROGRESS_COMM];
    struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, 0);
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    CT_CHECK_EQ_U64(words->enqueued, ddp_mark_pack(1, DDP_MARK_COLL, 1));
    CT_CHECK_EQ_U64(words->reached, 0);
    nccl_world_settle(&world);
    CT_CHECK_EQ_U64(words->enqueued, ddp_mark_pack(2, DDP_MARK_COLL_END, 1));
    CT_CHECK_EQ_U64(words->reached, ddp_mark_pack(1, DDP_MARK_COLL, 1));
    args = args_of(DDP_COLL_ALL_REDUCE, 1);
    CT_CHECK_OK(nccl_world_post(&world, 1, &args));
    nccl_world_run(&world);
    CT_CHECK_EQ_U64(words->reached, ddp_mark_pack(2, DDP_MARK_COLL_END, 1));
    nccl_world_close(&world);

    memset(&progress, 0, sizeof(progress));
    CT_REQUIRE(nccl_world_open(&world, 1, &options));
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    nccl_world_run(&world);
    CT_CHECK_EQ_U64(words->enqueued, 0);
    nccl_world_close(&world);
}

CT_TEST(nccl_coll, ranges_are_noted_for_the_observer)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    post_everywhere(&world, DDP_COLL_BROADCAST, DDP_REDOP_SUM, 1);
    nccl_world_run(&world);
    CT_CHECK_EQ_U64(world.ranks[0].device.read_bytes, 0);
    CT_CHECK_EQ_U64(world.ranks[0].device.written_bytes, COUNT * 4);
    CT_CHECK_EQ_U64(world.ranks[1].device.read_bytes, COUNT * 4);
    post_everywhere(&world, DDP_COLL_ALL_GATHER, DDP_REDOP_SUM, 0);
    nccl_world_run(&world);
    CT_CHECK_EQ_U64(world.ranks[0].device.read_bytes, COUNT * 4);
    CT_CHECK_EQ_U64(world.ranks[0].device.written_bytes, 3 * COUNT * 4);
    post_everywhere(&world, DDP_COLL_BARRIER, DDP_REDOP_SUM, 0);
    nccl_world_run(&world);
    CT_CHECK_EQ_U64(world.ranks[0].device.access_count, 5); /* it adds up a token */
    nccl_world_close(&world);
}

CT_TEST(nccl_coll, memory_comes_from_the_device)
{
    const struct nccl_world_options options = {.is_checked = false};
    struct nccl_world world;
    struct ddp_coll *coll;
    void *a;
    void *b;

    CT_REQUIRE(nccl_world_open(&world, 1, &options));
    coll = world.ranks[0].coll;
    a = coll->ops->alloc(coll, 100, DDP_SPACE_DEVICE);
    b = coll->ops->alloc(coll, 100, DDP_SPACE_HOST);
    CT_CHECK(a != NULL && b != NULL);
    coll->ops->free(coll, DDP_SPACE_DEVICE, a);
    coll->ops->free(coll, DDP_SPACE_HOST, b);
    CT_CHECK_STR(coll->ops->last_error(coll), "");
    nccl_world_close(&world);
}

/* Device work rings no doorbell: only a wait for agreement may sleep on the control channel. */
CT_TEST(nccl_coll, hint_is_blind_while_the_device_works)
{
    const struct nccl_world_options options = {.is_checked = false};
    const struct ddp_coll_args args = args_of(DDP_COLL_ALL_REDUCE, 0);
    struct ddp_idle_hint hint = {.fd = 5};
    uint32_t bell = 0;
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    CT_CHECK_OK(nccl_world_post(&world, 0, &args));
    hint.doorbell = &bell;
    world.ranks[0].coll->ops->hint(world.ranks[0].coll, &hint);
    CT_CHECK(hint.doorbell == NULL && hint.fd == -1);
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_STATUS(world.ranks[0].works[0].status, DDP_E_STATE);
}
