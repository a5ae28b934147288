/* Joining a group over NCCL, and leaving it when others do not. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/nccl/nccl_world.h"

static void check_text(const struct nccl_world *world, uint32_t rank, const char *text)
{
    if (strstr(world->ranks[rank].err.text, text) == NULL) {
        CT_FAIL("\"%s\" does not say \"%s\"", world->ranks[rank].err.text, text);
    }
}

CT_TEST(nccl_group, id_that_cannot_be_made_ends_all)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    nccl_world_begin(&world, 3, &options);
    nccl_world_script(&world, "id=system_error");
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_SYSTEM);
    check_text(
        &world, 0,
        "NCCL group world: ncclGetUniqueId: unhandled system error (run with NCCL_DEBUG=INFO "
        "for details) (stand-in script: id=2)");
    /* Nobody would ever set the key, and there is no deadline. */
    CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_REVOKED);
    check_text(&world, 1, "while the id was shared");
    CT_CHECK_STATUS(nccl_world_join(&world, 2), DDP_E_REVOKED);
    nccl_world_close(&world);
}

CT_TEST(nccl_group, members_that_never_come)
{
    const struct nccl_world_options options = {.is_checked = true, .init_timeout_ns = 1000000};
    struct nccl_world world;

    nccl_world_begin(&world, 2, &options);
    CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_TIMEOUT);
    check_text(&world, 1, "the deadline passed, while the id was shared");
    nccl_world_close(&world);

    nccl_world_begin(&world, 2, &options);
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_TIMEOUT);
    check_text(&world, 0, "not all members have connected in time");
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
}

CT_TEST(nccl_group, refusal_to_connect_ends_all)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    nccl_world_begin(&world, 2, &options);
    nccl_world_script(&world, "rank0:init_call=cuda_error");
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_DEVICE);
    check_text(&world, 0,
               "ncclCommInitRankConfig: unhandled cuda error (run with NCCL_DEBUG=INFO for "
               "details) (stand-in script: init_call=1)");
    CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_REVOKED);
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("*: ncclCommInitRankConfig *"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
}

CT_TEST(nccl_group, member_that_dies_while_others_connect)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    /* NCCL knows nothing of it, or has seen a connection break. */
    for (int i = 0; i < 2; i++) {
        nccl_world_begin(&world, 2, &options);
        nccl_world_script(&world, i == 0 ? "" : "init=internal_error");
        ddp_loop_net_kill(world.net, 1);
        CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_PEER_DIED);
        nccl_world_close(&world);
        CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    }
}

/* The others hear of an error that no death explains. */
CT_TEST(nccl_group, error_while_connecting_ends_all)
{
    static const struct {
        const char *script;
        ddp_status status;
    } cases[] = {{"rank0:init=internal_error", DDP_E_SYSTEM},
                 {"rank0:init=remote_error", DDP_E_DEVICE}};
    const struct nccl_world_options options = {.is_checked = true, .pass_ns = 100000};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nccl_world world;

        nccl_world_begin(&world, 2, &options);
        nccl_world_script(&world, cases[i].script);
        CT_CHECK_STATUS(nccl_world_join(&world, 0), cases[i].status);
        check_text(&world, 0, "while connecting: ");
        CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_REVOKED);
        nccl_world_close(&world);
    }
}

CT_TEST(nccl_group, algorithm_of_another_kind)
{
    const struct nccl_world_options options = {.algorithm = DDP_ALGORITHM_RING_ALL_GATHER};
    struct nccl_world world;

    nccl_world_begin(&world, 1, &options);
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_NOT_FOUND);
    check_text(&world, 0, "ring_all_gather is no all_reduce algorithm");
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("*"), 0);
}

/* Wherever memory runs out, nothing is left behind. */
CT_TEST(nccl_group, memory_may_run_out_anywhere)
{
    const struct nccl_world_options options = {.is_checked = true, .algorithm = DDP_ALGORITHM_RING};
    bool has_failed = true;

    for (uint64_t allocations = 0; has_failed; allocations++) {
        struct nccl_world world;

        CT_REQUIRE(allocations < 1000);
        nccl_world_begin(&world, 1, &options);
        ddp_mem_pool_fail_after(world.ranks[0].pool, allocations, -1);
        has_failed = nccl_world_join(&world, 0) != DDP_OK;
        if (has_failed) {
            CT_CHECK_STATUS(world.ranks[0].created, DDP_E_NOMEM);
        }
        nccl_world_close(&world);
    }
}

/* The other members have left before this one ends, so finalizing would wait for ever. */
CT_TEST(nccl_group, finalize_ends_with_a_death)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    nccl_world_script(&world, "rank0:finalize=hang");
    nccl_world_kill(&world, 1);
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommFinalize"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommDestroy"), 0);
}

struct rest {
    struct nccl_world world;
    struct ddp_coll *coll[2];
    struct ddp_err err;
    float data[3][4];
};

/* Ranks 0 and 1 wait for rank 2 in the middle of a collective. */
static bool open_stuck(struct rest *rest, bool has_revoke, bool is_busy)
{
    /* NCCL may wait for the missing member in the call, too. */
    const struct nccl_world_options options = {.has_revoke = has_revoke, .is_lazy = is_busy};

    memset(rest->coll, 0, sizeof(rest->coll));
    if (!nccl_world_open(&rest->world, 3, &options)) {
        return false;
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                           .input = rest->data[rank],
                                           .output = rest->data[rank],
                                           .elem_count = 4};

        rest->data[rank][0] = (float)(rank + 1);
        if (rank < 2) {
            CT_CHECK_OK(nccl_world_post(&rest->world, rank, &args));
        }
    }
    nccl_world_settle(&rest->world);
    CT_CHECK_STATUS(rest->world.ranks[0].works[0].status, DDP_PENDING);
    return true;
}

/* name: of the control channel, which serves one attempt. */
static ddp_status shrink(struct rest *rest, uint32_t rank, const char *name,
                         const uint32_t *excluded, uint32_t excluded_count)
{
    struct nccl_rank *who = &rest->world.ranks[rank];
    const struct ddp_coll_nccl_config config = {
        .name = "rest", .comm = 43, .is_checked = true, .init_timeout_ns = DDP_NS_PER_S};
    struct ddp_transport *transport = NULL;

    CT_CHECK_OK(ddp_loop_create(rest->world.net, &who->env, name, rank, 2, NULL, &transport));
    return ddp_coll_nccl_shrink(who->coll, transport, &config, excluded, excluded_count,
                                &rest->coll[rank], &rest->err);
}

static void close_rest(struct rest *rest)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        if (rest->coll[rank] != NULL) {
            rest->coll[rank]->ops->destroy(rest->coll[rank]);
        }
    }
    nccl_world_close(&rest->world);
}

static void shrink_part(struct nccl_world *world, uint32_t rank, void *context)
{
    const uint32_t excluded[] = {2};

    (void)world;
    CT_CHECK_OK(shrink(context, rank, "rest", excluded, 1));
}

static void check_shrink(bool has_revoke, bool is_busy)
{
    struct ddp_coll_work works[2] = {{.status = DDP_PENDING}, {.status = DDP_PENDING}};
    struct rest rest;

    CT_REQUIRE(open_stuck(&rest, has_revoke, is_busy));
    nccl_world_together(&rest.world, 2, shrink_part, &rest);
    for (uint32_t rank = 0; rank < 2; rank++) {
        CT_REQUIRE(rest.coll[rank] != NULL);
        CT_CHECK_EQ_U64(rest.coll[rank]->member_count, 2);
        /* The parent is over. */
        CT_CHECK_STATUS(rest.world.ranks[rank].works[0].status, DDP_E_REVOKED);
        CT_CHECK_STATUS(nccl_world_post(&rest.world, rank, &rest.world.ranks[rank].works[0].args),
                        DDP_E_REVOKED);
    }
    for (uint32_t rank = 0; rank < 2; rank++) {
        rest.data[rank][0] = (float)(rank + 1);
        works[rank].seq = 1;
        works[rank].args = rest.world.ranks[rank].works[0].args;
        CT_CHECK_OK(rest.coll[rank]->ops->post(rest.coll[rank], &works[rank]));
    }
    while (works[0].status == DDP_PENDING || works[1].status == DDP_PENDING) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            (void)rest.coll[rank]->ops->poll(rest.coll[rank], &works[rank]);
        }
        (void)nccl_world_step(&rest.world);
    }
    CT_CHECK_OK(works[0].status);
    CT_CHECK_OK(works[1].status);
    CT_CHECK(rest.data[0][0] == 3.0f && rest.data[1][0] == 3.0f);
    close_rest(&rest);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("3: ncclCommDestroy"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("4: ncclCommDestroy"), 1);
}

CT_TEST(nccl_group, shrinks_around_a_member_that_hangs)
{
    check_shrink(true, false);
    check_shrink(true, true);
    check_shrink(false, false);
}

CT_TEST(nccl_group, shrink_is_refused_where_it_cannot_work)
{
    static const uint32_t excluded[] = {2, 2, 0, 3};
    int (*shrink_call)(struct ddp_nccl_comm_handle *, int *, int, struct ddp_nccl_comm_handle **,
                       struct ddp_nccl_config *, int);
    struct rest rest;

    CT_REQUIRE(open_stuck(&rest, true, false));
    CT_CHECK_STATUS(shrink(&rest, 0, "a", excluded, 0), DDP_E_INVALID);
    CT_CHECK_STATUS(shrink(&rest, 0, "b", excluded, 2), DDP_E_INVALID);     /* twice */
    CT_CHECK_STATUS(shrink(&rest, 0, "c", excluded + 2, 1), DDP_E_INVALID); /* itself */
    CT_CHECK_STATUS(shrink(&rest, 0, "d", excluded + 3, 1), DDP_E_INVALID); /* nobody */
    CT_CHECK_STATUS(rest.world.ranks[0].works[0].status, DDP_PENDING);
    shrink_call = rest.world.library->calls.shrink;
    rest.world.library->calls.shrink = NULL;
    CT_CHECK_STATUS(shrink(&rest, 0, "e", excluded, 1), DDP_E_UNSUPPORTED);
    nccl_world_abort(&rest.world, 1);
    rest.world.library->calls.shrink = shrink_call;
    CT_CHECK_STATUS(shrink(&rest, 1, "f", excluded, 1), DDP_E_STATE);
    close_rest(&rest);

    /* NCCL's refusal ends the parent, too. */
    CT_REQUIRE(open_stuck(&rest, true, false));
    nccl_world_script(&rest.world, "shrink_call=system_error");
    CT_CHECK_STATUS(shrink(&rest, 0, "g", excluded, 1), DDP_E_SYSTEM);
    CT_CHECK_STR(
        rest.err.text,
        "NCCL group rest: ncclCommShrink: unhandled system error (run with NCCL_DEBUG=INFO for "
        "details) (stand-in script: shrink_call=2)");
    close_rest(&rest);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommAbort"), 1);
    CT_CHECK_EQ_U64(nccl_turns_count("0: ncclCommRevoke"), 1);

    /* Without revocation nothing gets NCCL out of a call. */
    CT_REQUIRE(open_stuck(&rest, false, true));
    CT_CHECK_STATUS(shrink(&rest, 0, "h", excluded, 1), DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(rest.err.text, "a call is in progress") != NULL);
    close_rest(&rest);
}
