/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Groups, scripts, teardown and the older library. */
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/world.h"

static bool is_launched(int result)
{
    return result == STANDIN_SUCCESS || result == STANDIN_IN_PROGRESS;
}

/* Two blocking communicators in one thread: a group runs their initialisation in parallel. */
static void blocking_pair(struct standin_comm **comm, const char *script)
{
    struct standin_id id;
    CT_CHECK_EQ_I64(ddp_nccl_standin_script(script), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGetUniqueId(&id), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGroupStart(), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommInitRank(&comm[0], 2, id, 0), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommInitRank(&comm[1], 2, id, 1), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_SUCCESS);
}

CT_TEST(nccl_standin_scripts, group_with_an_error_is_discarded)
{
    struct standin_comm *comm[2] = {NULL, NULL};
    int value[2] = {3, 4};
    blocking_pair(comm, "bus_id=unique");
    CT_REQUIRE(comm[0] != NULL && comm[1] != NULL);
    CT_CHECK_EQ_I64(ncclGroupStart(), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(
        ncclAllReduce(&value[0], &value[0], 1, STANDIN_INT32, STANDIN_SUM, comm[0], NULL),
        STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclAllReduce(&value[1], &value[1], 1, 99, STANDIN_SUM, comm[1], NULL),
                    STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("AllReduce : invalid type 99"));
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(comm[0]), 0);
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_INVALID_USAGE);
    CT_CHECK_EQ_I64(ncclGroupStart(), STANDIN_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CT_CHECK_EQ_I64(
            ncclAllReduce(&value[i], &value[i], 1, STANDIN_INT32, STANDIN_SUM, comm[i], NULL),
            STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CT_CHECK(case_await_idle(comm[i]));
        CT_CHECK_EQ_I64(value[i], 7);
        CT_CHECK_EQ_I64(ncclCommFinalize(comm[i]), STANDIN_SUCCESS);
        CT_CHECK_EQ_I64(ncclCommFinalize(comm[i]), STANDIN_INVALID_ARGUMENT);
        CT_CHECK_EQ_I64(ncclCommDestroy(comm[i]), STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

CT_TEST(nccl_standin_scripts, blocking_and_nonblocking_do_not_mix)
{
    struct standin_comm *comm[2] = {NULL, NULL};
    struct standin_config config = world_config(0);
    struct standin_id id;
    CT_CHECK_EQ_I64(ddp_nccl_standin_script(NULL), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGetUniqueId(&id), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGroupStart(), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommInitRank(&comm[0], 2, id, 0), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommInitRankConfig(&comm[1], 2, id, 1, &config), STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("Blocking and nonblocking communicators are not allowed"));
    CT_CHECK(comm[1] == NULL);
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(ncclCommAbort(comm[0]), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

CT_TEST(nccl_standin_scripts, config_must_be_initialized)
{
    struct standin_comm *comm = NULL;
    struct standin_config config = world_config(0);
    struct standin_id id;
    config.magic = 0;
    CT_CHECK_EQ_I64(ddp_nccl_standin_script(NULL), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGetUniqueId(&id), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommInitRankConfig(&comm, 2, id, 0, &config), STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("not initialized via NCCL_CONFIG_INITIALIZER"));
    config = world_config(2);
    CT_CHECK_EQ_I64(ncclCommInitRankConfig(&comm, 2, id, 0, &config), STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("Invalid config blocking attribute value 2"));
    config = world_config(0);
    config.size = sizeof config;
    config.version = 22809;
    CT_CHECK_EQ_I64(ncclCommInitRankConfig(&comm, 2, id, 0, &config), STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("Invalid config min/max channels attribute value 0/0"));
    CT_CHECK_EQ_I64(ncclCommInitRankConfig(&comm, 2, id, 2, NULL), STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("Invalid rank requested : 2/2"));
    CT_CHECK(comm == NULL);
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

CT_TEST(nccl_standin_scripts, scripted_initialisation)
{
    struct world world;
    int state = STANDIN_SUCCESS;
    world_start(&world, 2, "bus_id=unique;rank0:init=in_progress_for_ever;rank1:init=system_error");
    CT_CHECK_EQ_I64(case_await(world.comm[1]), STANDIN_SYSTEM_ERROR);
    CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[0], &state), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(state, STANDIN_IN_PROGRESS);
    world_abort(&world);
}

CT_TEST(nccl_standin_scripts, scripted_calls)
{
    struct world world;
    int state = STANDIN_SUCCESS;
    world_init(&world, 2, "bus_id=unique;rank0:op2=system_error;rank1:op2=hang;rank1:launch3=6");
    CT_CHECK_EQ_I64(world_all_reduce(&world, 0), STANDIN_SYSTEM_ERROR);
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_SYSTEM_ERROR);
    CT_CHECK(is_launched(world_all_reduce(&world, 1)));
    CT_CHECK_EQ_I64(case_await(world.comm[1]), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[1]), 1);
    (void)world_all_reduce(&world, 1);
    CT_CHECK_EQ_I64(case_await(world.comm[1]), STANDIN_REMOTE_ERROR);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[1]), 1);
    world_abort(&world);
    world_start(&world, 1, "launch1=hang");
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(world_all_reduce(&world, 0), STANDIN_IN_PROGRESS);
    CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[0], &state), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(state, STANDIN_IN_PROGRESS);
    world_abort(&world);
}

CT_TEST(nccl_standin_scripts, scripted_ends)
{
    struct world world;
    world_init(&world, 2, "bus_id=unique;rank1:corrupt_after_op=2;rank0:async_after_op=2:5");
    for (int i = 0; i < 2; i++) {
        CT_CHECK(world_all_reduce(&world, i) != STANDIN_INVALID_ARGUMENT);
    }
    for (int i = 0; i < 2; i++) {
        (void)case_await(world.comm[i]);
        CT_CHECK(case_await_idle(world.comm[i]));
    }
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_INVALID_USAGE);
    CT_CHECK_EQ_I64(case_await(world.comm[1]), STANDIN_SUCCESS);
    CT_CHECK(memcmp(world.data[0], world.data[1], sizeof world.data[0]) != 0);
    CT_CHECK(memcmp(world.data[0], world.data[1], sizeof world.data[0] - 4) == 0);
    world_abort(&world);
}

CT_TEST(nccl_standin_scripts, scripts_are_checked)
{
    static const char *const wrong[] = {"op=hang",    "op0=hang",    "op1=7",
                                        "op1",        "launch=6",    "init=9",
                                        "abort=6",    "version=x",   "async_after_op=3",
                                        "rank:op1=2", "bus_id=none", "id=hang",
                                        "child2=1",   "revoke=1",    "finalize1=hang"};
    int version = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (ddp_nccl_standin_script(wrong[i]) != STANDIN_INVALID_ARGUMENT) {
            CT_FAIL("the script \"%s\" was taken", wrong[i]);
        }
    }
    CT_CHECK_EQ_I64(ddp_nccl_standin_script("version=21903"), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGetVersion(&version), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(version, 21903);
    CT_CHECK_EQ_I64(ddp_nccl_standin_script(""), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGetVersion(&version), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(version, 22809);
}

CT_TEST(nccl_standin_scripts, destroy_after_an_error_frees_nothing)
{
    struct world world;
    world_init(&world, 1, "async_after_op=2:3");
    CT_CHECK(world_all_reduce(&world, 0) != STANDIN_INVALID_ARGUMENT);
    (void)case_await(world.comm[0]);
    CT_CHECK(case_await_idle(world.comm[0]));
    CT_CHECK_EQ_I64(ncclCommDestroy(world.comm[0]), STANDIN_INTERNAL_ERROR);
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 1);
    /* The call left this thread's group open. */
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_INVALID_USAGE);
    world_abort(&world);
}

struct aborter {
    pthread_t thread;
    struct standin_comm *comm;
    atomic_bool is_done;
};

static void *abort_main(void *context)
{
    struct aborter *aborter = context;
    CT_CHECK_EQ_I64(ncclCommAbort(aborter->comm), STANDIN_SUCCESS);
    atomic_store(&aborter->is_done, true);
    return NULL;
}

/* The first abort waits for the other communicator's work, so the second has to be another
 * thread's. */
CT_TEST(nccl_standin_scripts, strict_aborts_have_to_be_parallel)
{
    struct world world;
    struct aborter aborter[2];
    memset(aborter, 0, sizeof aborter);
    world_init(&world, 2, "bus_id=unique;op2=hang;strict_abort=1");
    for (int i = 0; i < 2; i++) {
        CT_CHECK(is_launched(world_all_reduce(&world, i)));
        CT_CHECK_EQ_I64(case_await(world.comm[i]), STANDIN_SUCCESS);
        aborter[i].comm = world.comm[i];
    }
    CT_REQUIRE(pthread_create(&aborter[0].thread, NULL, abort_main, &aborter[0]) == 0);
    CT_CHECK(case_await_idle(world.comm[0]));
    /* Its own work has ended; it would be done at once were it not for the other's. */
    (void)poll(NULL, 0, 100);
    CT_CHECK(!atomic_load(&aborter[0].is_done));
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[1]), 1);
    CT_REQUIRE(pthread_create(&aborter[1].thread, NULL, abort_main, &aborter[1]) == 0);
    CT_CHECK(pthread_join(aborter[0].thread, NULL) == 0);
    CT_CHECK(pthread_join(aborter[1].thread, NULL) == 0);
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

CT_TEST(nccl_standin_scripts, older_library_lacks_what_came_later)
{
    static const char *const later[] = {"ncclCommRevoke", "ncclCommShrink", "ncclCommSplit"};
    union {
        void *object;
        int (*function)(int *);
    } get_version;
    int version = 0;
    void *library = dlopen(NCCL_STANDIN_OLD, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        CT_FAIL("%s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        CT_CHECK(dlsym(library, later[i]) == NULL);
    }
    CT_CHECK(dlsym(library, "ncclCommFinalize") != NULL);
    get_version.object = dlsym(library, "ncclGetVersion");
    CT_REQUIRE(get_version.object != NULL);
    CT_CHECK_EQ_I64(get_version.function(&version), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(version, 21903);
    CT_CHECK(dlclose(library) == 0);
}
