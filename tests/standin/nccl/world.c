/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result. */
#include "tests/standin/nccl/world.h"

#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"

struct standin_config world_config(int blocking)
{
    struct standin_config config = {.size = offsetof(struct standin_config, cga_cluster_size),
                                    .magic = STANDIN_CONFIG_MAGIC,
                                    .version = 21400,
                                    .blocking = blocking};
    return config;
}

/* Starts all ranks; the state of each is asked by the caller. */
void world_start(struct world *world, int count, const char *script)
{
    struct standin_id id;
    struct standin_config config = world_config(0);
    memset(world, 0, sizeof *world);
    world->count = count;
    CT_CHECK_EQ_I64(ddp_nccl_standin_script(script), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGetUniqueId(&id), STANDIN_SUCCESS);
    for (int i = 0; i < count; i++) {
        /* Quick ones may have ended, or failed as the script wants, when the call returns. */
        int result = ncclCommInitRankConfig(&world->comm[i], count, id, i, &config);
        CT_CHECK(result != STANDIN_INVALID_ARGUMENT && world->comm[i] != NULL);
    }
}

int world_all_reduce(struct world *world, int rank)
{
    return ncclAllReduce(world->data[rank], world->data[rank], WORLD_ELEMS, STANDIN_FLOAT32,
                         STANDIN_SUM, world->comm[rank], NULL);
}

/* One collective of everybody, so that the ring is connected. */
void world_warm_up(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        CT_CHECK(world_all_reduce(world, i) != STANDIN_INVALID_ARGUMENT);
    }
    for (int i = 0; i < world->count; i++) {
        CT_CHECK_EQ_I64(case_finish(world->comm[i], case_await(world->comm[i])), STANDIN_SUCCESS);
    }
}

void world_init(struct world *world, int count, const char *script)
{
    world_start(world, count, script);
    for (int i = 0; i < count; i++) {
        CT_CHECK_EQ_I64(case_await(world->comm[i]), STANDIN_SUCCESS);
    }
    world_warm_up(world);
}

void world_abort(struct world *world)
{
    for (int i = 0; i < world->count; i++) {
        CT_CHECK_EQ_I64(ncclCommAbort(world->comm[i]), STANDIN_SUCCESS);
        world->comm[i] = NULL;
    }
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

bool world_error_has(const char *text)
{
    return strstr(ncclGetLastError(NULL), text) != NULL;
}
