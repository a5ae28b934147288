/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * What one rank does in the stand-in's tests, as a thread or as a process. Functions return NULL,
 * or a text that says what went wrong. */
#ifndef TESTS_STANDIN_NCCL_CASES_H
#define TESTS_STANDIN_NCCL_CASES_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/standin/nccl/functions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Polls until the state is not IN_PROGRESS, at most 30 s; returns the state. */
int case_await(struct standin_comm *comm);
/* Waits until the communicator has no work on streams, at most 30 s. */
bool case_await_idle(struct standin_comm *comm);
/* Makes a communicator and waits for it. *out also on failure, if NCCL made one. */
int case_init(const struct standin_id *id, int rank, int rank_count, bool is_blocking,
              struct standin_comm **out);
/* Calls, waits for the launch and for the work. */
int case_finish(struct standin_comm *comm, int result);

/* Input of rank's element, the same for everybody; floats of many magnitudes, so that the order of
 * a sum shows. out: one element. */
void case_input(int dtype, int rank, uint64_t index, void *out);
/* What all_reduce has to give for element index, by the folds that the contract documents. */
void case_all_reduce_expected(int dtype, int redop, int rank_count, int channel_count,
                              uint64_t count, uint64_t index, void *out);

/* Sums of all types and several odd sizes, bit by bit. */
const char *case_all_reduce(struct standin_comm *comm, int redop);
const char *case_broadcast(struct standin_comm *comm);
const char *case_reduce(struct standin_comm *comm);
const char *case_all_gather(struct standin_comm *comm);
const char *case_reduce_scatter(struct standin_comm *comm);
/* Everybody sends to everybody, itself included, in one group; then a ring by rounds. */
const char *case_send_recv(struct standin_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
