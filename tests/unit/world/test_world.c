/* A world of one: what ddp_world_open refuses, and what a state file must be. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/world/state.h"
#include "tests/ct.h"

static char port_text[8];

static const char *lookup(void *context, const char *name)
{
    static const char *const variables[][2] = {{"RANK", "0"},
                                               {"WORLD_SIZE", "1"},
                                               {"MASTER_ADDR", "127.0.0.1"},
                                               {"MASTER_PORT", port_text}};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (strcmp(name, variables[i][0]) == 0 &&
            (context == NULL || strcmp(name, (const char *)context) != 0)) {
            return variables[i][1];
        }
    }
    return NULL;
}

static void take_port(void)
{
    struct ddp_err err;
    uint16_t port = 0;
    int fd = -1;

    CT_REQUIRE(ddp_store_listen("127.0.0.1", 0, &fd, &port, &err) == DDP_OK);
    (void)close(fd);
    (void)snprintf(port_text, sizeof(port_text), "%u", port);
}

static void open_world(struct ddp_world *world)
{
    const struct ddp_world_config config = {.timeout_ns = 10 * DDP_NS_PER_S};
    struct ddp_err err = {{0}};

    take_port();
    CT_CHECK_STATUS(ddp_world_open(world, lookup, NULL, &config, &err), DDP_OK);
}

CT_TEST(world, opens_and_ends)
{
    struct ddp_world world;
    float value = 3;
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .dtype = DDP_DTYPE_F32,
                                       .input = &value,
                                       .output = &value,
                                       .elem_count = 1};

    open_world(&world);
    CT_CHECK_STATUS(ddp_group_run(&world.group, &args), DDP_OK);
    CT_CHECK(value == 3);
    CT_CHECK_STATUS(ddp_world_finish(&world), DDP_OK);
    ddp_world_close(&world);
    ddp_world_close(&world); /* does nothing */
}

static void refused(const struct ddp_world_config *config, char *missing, ddp_status status,
                    const char *words)
{
    struct ddp_err err = {{0}};
    struct ddp_world world;

    take_port();
    CT_CHECK_STATUS(ddp_world_open(&world, lookup, missing, config, &err), status);
    if (strstr(err.text, words) == NULL) {
        CT_FAIL("\"%s\" says nothing of \"%s\"", err.text, words);
    }
    ddp_world_close(&world); /* everything is released, and this does nothing */
}

CT_TEST(world, says_what_does_not_fit)
{
    struct ddp_world_config config = {.timeout_ns = DDP_NS_PER_S};

    refused(&config, (char[]){"WORLD_SIZE"}, DDP_E_NOT_FOUND, "WORLD_SIZE");
    config.engine = DDP_WORLD_ENGINE_MPI;
    refused(&config, NULL, DDP_E_INVALID, "mpi_path");
    config.mpi_path = "/nowhere/libddp_mpi.so";
    refused(&config, NULL, DDP_E_NOT_FOUND, "libddp_mpi.so");
    config.algorithm = DDP_ALGORITHM_RING;
    refused(&config, NULL, DDP_E_INVALID, "ring");
    config.engine = DDP_WORLD_ENGINE_NCCL;
    config.nccl_path = "/nowhere/libnccl.so.2";
    refused(&config, NULL, DDP_E_NOT_FOUND, "nccl");
    config.engine = DDP_WORLD_ENGINE_SCHEDULE;
    config.algorithm = DDP_ALGORITHM_BINOMIAL_BROADCAST;
    refused(&config, NULL, DDP_E_NOT_FOUND, "ring");
    config.algorithm = DDP_ALGORITHM_RING;
    config.tuned_path = "/nowhere/collectives.txt";
    refused(&config, NULL, DDP_E_INVALID, "so does ring");
    config.algorithm = DDP_ALGORITHM_NONE;
    config.transport = DDP_WORLD_TRANSPORT_TCP;
    refused(&config, NULL, DDP_E_INVALID, "not TCP");
    config.tuned_path = NULL;
    config.of_kind[DDP_COLL_BROADCAST] = DDP_ALGORITHM_BINOMIAL_BROADCAST;
    config.engine = DDP_WORLD_ENGINE_NCCL;
    refused(&config, NULL, DDP_E_INVALID, "SCHEDULE");
}

static ddp_status refuse_to_decorate(void *context, const char *group, struct ddp_coll *inner,
                                     struct ddp_coll **out)
{
    (void)group;
    (void)context;
    (void)inner;
    (void)out;
    return DDP_E_NOMEM;
}

CT_TEST(world, releases_everything_when_its_decorator_fails)
{
    const struct ddp_world_config config = {.timeout_ns = 10 * DDP_NS_PER_S,
                                            .decorate = refuse_to_decorate};

    refused(&config, NULL, DDP_E_NOMEM, "decorator");
}

struct state_test {
    struct ddp_world world;
    struct ddp_param tensors[2];
    float weight[6], bias[2];
    struct ddp_world_state state;
    char path[64];
};

static void state_test_init(struct state_test *test)
{
    memset(test, 0, sizeof(*test));
    open_world(&test->world);
    for (int i = 0; i < 6; i++) {
        test->weight[i] = (float)i;
    }
    test->bias[1] = -1;
    test->tensors[0] = (struct ddp_param){
        .name = "weight", .data = test->weight, .elem_count = 6, .ndim = 2, .shape = {2, 3}};
    test->tensors[1] = (struct ddp_param){
        .name = "bias", .data = test->bias, .elem_count = 2, .ndim = 1, .shape = {2}};
    test->state =
        (struct ddp_world_state){.tensors = test->tensors, .tensor_count = 2, .steps_done = 17};
    (void)snprintf(test->path, sizeof(test->path), "/tmp/ddprove_test_world.%d", (int)getpid());
}

static void state_test_fini(struct state_test *test)
{
    (void)unlink(test->path);
    ddp_world_close(&test->world);
}

static void load_is(struct state_test *test, ddp_status status, const char *words)
{
    struct ddp_err err = {{0}};

    CT_CHECK_STATUS(ddp_world_load(&test->world, test->path, &test->state, &err), status);
    if (status != DDP_OK && strstr(err.text, words) == NULL) {
        CT_FAIL("\"%s\" says nothing of \"%s\"", err.text, words);
    }
}

CT_TEST(world, state_comes_back)
{
    struct state_test test;
    struct ddp_err err = {{0}};

    state_test_init(&test);
    load_is(&test, DDP_E_NOT_FOUND, "");
    CT_CHECK_STATUS(ddp_world_save(&test.world, test.path, &test.state, &err), DDP_OK);
    memset(test.weight, 0, sizeof(test.weight));
    memset(test.bias, 0, sizeof(test.bias));
    test.state.steps_done = 0;
    load_is(&test, DDP_OK, "");
    CT_CHECK(test.weight[5] == 5 && test.bias[1] == -1);
    CT_CHECK_EQ_U64(test.state.steps_done, 17);
    /* Another rank writes nothing. */
    (void)unlink(test.path);
    test.world.where.rank = 1;
    CT_CHECK_STATUS(ddp_world_save(&test.world, test.path, &test.state, &err), DDP_OK);
    CT_CHECK(access(test.path, F_OK) != 0);
    test.world.where.rank = 0;
    state_test_fini(&test);
}

CT_TEST(world, state_that_does_not_fit_changes_nothing)
{
    struct state_test test;
    struct ddp_err err = {{0}};

    state_test_init(&test);
    CT_CHECK_STATUS(ddp_world_save(&test.world, test.path, &test.state, &err), DDP_OK);
    test.weight[0] = 99;
    /* The second tensor's shape differs: the first one is not written either. */
    test.tensors[1].ndim = 2;
    test.tensors[1].shape[1] = 1;
    load_is(&test, DDP_E_SHAPE, test.path);
    CT_CHECK(test.weight[0] == 99);
    test.tensors[1].ndim = 1;
    test.tensors[1].name = "offset";
    load_is(&test, DDP_E_KEYS, "offset");
    CT_CHECK(test.weight[0] == 99);
    state_test_fini(&test);
}

/* A file of this text as its number of steps; NULL: of none. */
static void save_steps(struct state_test *test, const char *text)
{
    const uint64_t shapes[2][2] = {{2, 3}, {2, 0}};
    struct ddp_state_dict dict;
    struct ddp_err err = {{0}};

    ddp_state_dict_init(&dict, ddp_mem_system());
    for (int i = 0; i < 2; i++) {
        CT_CHECK_STATUS(ddp_state_dict_add(&dict, i == 0 ? "module.weight" : "module.bias",
                                           DDP_DTYPE_F32, i == 0 ? 2 : 1, shapes[i],
                                           test->tensors[i].data),
                        DDP_OK);
    }
    if (text != NULL) {
        CT_CHECK_STATUS(ddp_state_dict_set_meta(&dict, "steps_done", text), DDP_OK);
    }
    CT_CHECK_STATUS(ddp_safetensors_save(&test->world.env, test->path, &dict, &err), DDP_OK);
    ddp_state_dict_fini(&dict);
}

CT_TEST(world, state_of_a_wrapped_model_and_its_steps)
{
    struct state_test test;

    state_test_init(&test);
    save_steps(&test, "4");
    load_is(&test, DDP_OK, "");
    CT_CHECK_EQ_U64(test.state.steps_done, 4);
    save_steps(&test, "4x");
    load_is(&test, DDP_E_CORRUPT, "4x");
    save_steps(&test, "-1");
    load_is(&test, DDP_E_CORRUPT, "how many steps");
    save_steps(&test, NULL);
    load_is(&test, DDP_E_CORRUPT, "how many steps");
    CT_CHECK_EQ_U64(test.state.steps_done, 4);
    state_test_fini(&test);
}

CT_TEST(world, describes_a_failure)
{
    struct ddp_world world;
    struct ddp_err err = {{0}};

    open_world(&world);
    world.group.failure = (struct ddp_failure){DDP_E_PEER_DIED, 3, 7, 3};
    ddp_world_describe(&world, DDP_E_PEER_DIED, &err);
    CT_CHECK(strncmp(err.text, "rank 0: PEER_DIED: ", 19) == 0);
    CT_CHECK(strstr(err.text, "rank 3, step 7") != NULL);
    memset(err.text, 'x', sizeof(err.text)); /* not even terminated */
    ddp_world_describe(&world, DDP_E_IO, &err);
    CT_CHECK(memchr(err.text, '\0', sizeof(err.text)) != NULL);
    ddp_world_close(&world);
}
