/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * A few ranks in one thread, with non-blocking communicators. Failures are noted as test failures.
 */
#ifndef TESTS_STANDIN_NCCL_WORLD_H
#define TESTS_STANDIN_NCCL_WORLD_H

#include <stdbool.h>

#include "tests/standin/nccl/functions.h"

#define WORLD_RANKS_MAX 4
#define WORLD_ELEMS     300

struct world {
    int count;
    struct standin_comm *comm[WORLD_RANKS_MAX];
    float data[WORLD_RANKS_MAX][WORLD_ELEMS];
};

/* As NCCL 2.14 had it. */
struct standin_config world_config(int blocking);
/* Sets the script and starts all ranks; the state of each is asked by the caller. */
void world_start(struct world *world, int count, const char *script);
/* In place, sum. */
int world_all_reduce(struct world *world, int rank);
/* One collective of everybody, so that the ring is connected. */
void world_warm_up(struct world *world);
/* Start, wait, warm up. */
void world_init(struct world *world, int count, const char *script);
/* Aborts those that are not NULL, then looks for leaked communicators. */
void world_abort(struct world *world);
bool world_error_has(const char *text);

#endif
