/* One rank of a world on tcp, wherever its process is: tcp_world RANK WORLD_SIZE MASTER_ADDR
 * MASTER_PORT ALGORITHM. It sums numbers of its own of several sizes by that algorithm, and says
 * "done NODES", the node of each rank where they were asked for. Exit: 0 all as it should be, 1
 * with a reason. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/world/world.h"

enum { ELEMS_MAX = 300000, ROUNDS = 5 };

static char **arguments;
static float values[ELEMS_MAX];

static const char *lookup(void *context, const char *name)
{
    static const char *const names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};

    (void)context;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0) {
            return arguments[1 + i];
        }
    }
    return NULL;
}

static int fail(const char *what, const char *why)
{
    (void)printf("failed: %s: %s\n", what, why);
    return 1;
}

/* Whole numbers below 2^24, so every order of additions gives the same sum. */
static float value_of(uint32_t rank, size_t elem)
{
    return (float)((elem * 7 + rank * 13) % 1000);
}

static int sum_up(struct ddp_world *world, size_t elem_count)
{
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .redop = DDP_REDOP_SUM,
                                       .dtype = DDP_DTYPE_F32,
                                       .input = values,
                                       .output = values,
                                       .elem_count = elem_count};
    ddp_status status;

    for (size_t i = 0; i < elem_count; i++) {
        values[i] = value_of(world->where.rank, i);
    }
    status = ddp_group_run(&world->group, &args);
    if (status != DDP_OK) {
        return fail("all_reduce", ddp_status_name(status));
    }
    for (size_t i = 0; i < elem_count; i++) {
        float sum = 0.0F;

        for (uint32_t r = 0; r < world->where.world_size; r++) {
            sum += value_of(r, i);
        }
        if (values[i] != sum) {
            return fail("all_reduce", "a sum is another one");
        }
    }
    return 0;
}

static int run(struct ddp_world *world)
{
    const size_t counts[] = {1, 3, 1000, ELEMS_MAX};

    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            if (sum_up(world, counts[i]) != 0) {
                return 1;
            }
        }
    }
    if (ddp_world_finish(world) != DDP_OK) {
        return fail("finish", "an error");
    }
    (void)printf("done");
    for (uint32_t r = 0; world->node_of_rank != NULL && r < world->where.world_size; r++) {
        (void)printf(" %zu", world->node_of_rank[r]);
    }
    (void)printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    struct ddp_world_config config = {.timeout_ns = 20 * DDP_NS_PER_S,
                                      .transport = DDP_WORLD_TRANSPORT_TCP};
    struct ddp_world world;
    struct ddp_err err = {{0}};
    int code;

    if (argc != 6 ||
        ddp_algorithm_parse(argv[5], DDP_COLL_ALL_REDUCE, &config.algorithm) != DDP_OK) {
        return fail("tcp_world", "RANK WORLD_SIZE MASTER_ADDR MASTER_PORT ALGORITHM");
    }
    arguments = argv;
    if (ddp_world_open(&world, lookup, NULL, &config, &err) != DDP_OK) {
        return fail("open", err.text);
    }
    code = run(&world);
    ddp_world_close(&world);
    return code;
}
