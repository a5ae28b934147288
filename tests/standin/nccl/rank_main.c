/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * One rank as a process: nccl_standin_rank ID RANK COUNT STEPS. ID is the unique id in hex; STEPS
 * is a word of letters, done in order: i  initialise, must succeed          d  initialise, must be
 * refused as a second card c  all collectives, bit by bit       w  one collective of everybody p
 * say "ready", then wait for a line of input o  start a collective that cannot end, and see it
 * pending e  wait until the state is a remote error s  shrink without the last rank, aborting what
 * is outstanding, and go on with the child r  revoke n  shrink without the last rank must be
 * refused with a remote error a  abort                             f  finalize and destroy Says
 * "ok", or what went wrong; exits with 0 or 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"

struct state {
    struct standin_id id;
    int rank, count;
    struct standin_comm *comm, *parent;
    float data[3000];
};

static const char *expect(int result, int expected)
{
    return result == expected ? NULL : ncclGetErrorString(result);
}

static int launch(struct state *state)
{
    int result = ncclAllReduce(state->data, state->data, sizeof state->data / sizeof *state->data,
                               STANDIN_FLOAT32, STANDIN_SUM, state->comm, NULL);
    return result == STANDIN_IN_PROGRESS ? case_await(state->comm) : result;
}

static const char *start_endless(struct state *state)
{
    int result = launch(state);
    if (result != STANDIN_SUCCESS && result != STANDIN_REMOTE_ERROR) {
        return ncclGetErrorString(result);
    }
    return ddp_nccl_standin_pending(state->comm) == 1 ? NULL : "nothing is pending";
}

static const char *await_remote_error(struct state *state)
{
    int result = STANDIN_SUCCESS;
    while (result == STANDIN_SUCCESS || result == STANDIN_IN_PROGRESS) {
        result = case_await(state->comm);
    }
    if (result != STANDIN_REMOTE_ERROR) {
        return ncclGetErrorString(result);
    }
    return ddp_nccl_standin_pending(state->comm) == 1 ? NULL : "the work has ended";
}

static const char *shrink(struct state *state)
{
    int exclude[1] = {state->count - 1};
    struct standin_comm *child = NULL;
    int result = ncclCommShrink(state->comm, exclude, 1, &child, NULL, STANDIN_SHRINK_ABORT);
    if (result == STANDIN_SUCCESS) {
        result = case_await(state->comm);
    }
    if (result != STANDIN_SUCCESS || child == NULL) {
        return ncclGetErrorString(result);
    }
    state->parent = state->comm;
    state->comm = child;
    return NULL;
}

static const char *shrink_refused(struct state *state)
{
    int exclude[1] = {state->count - 1};
    struct standin_comm *child = NULL;
    return expect(ncclCommShrink(state->comm, exclude, 1, &child, NULL, STANDIN_SHRINK_ABORT),
                  STANDIN_REMOTE_ERROR);
}

static const char *revoke(struct state *state)
{
    int result = ncclCommRevoke(state->comm, 0);
    return expect(result == STANDIN_IN_PROGRESS ? case_await(state->comm) : result,
                  STANDIN_SUCCESS);
}

static const char *all_cases(struct state *state)
{
    const char *(*const cases[])(struct standin_comm *) = {
        case_broadcast, case_reduce, case_all_gather, case_reduce_scatter, case_send_recv};
    const char *failure = case_all_reduce(state->comm, STANDIN_SUM);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && failure == NULL; i++) {
        failure = cases[i](state->comm);
    }
    return failure;
}

static const char *wait_for_parent(void)
{
    char line[16];
    (void)printf("ready\n");
    (void)fflush(stdout);
    return fgets(line, sizeof line, stdin) != NULL ? NULL : "the parent is gone";
}

static const char *finish(struct state *state)
{
    int result = ncclCommFinalize(state->comm);
    result = result == STANDIN_IN_PROGRESS ? case_await(state->comm) : result;
    return expect(result == STANDIN_SUCCESS ? ncclCommDestroy(state->comm) : result,
                  STANDIN_SUCCESS);
}

static const char *step(struct state *state, char letter)
{
    switch (letter) {
    case 'i':
        return expect(case_init(&state->id, state->rank, state->count, false, &state->comm),
                      STANDIN_SUCCESS);
    case 'd':
        return expect(case_init(&state->id, state->rank, state->count, false, &state->comm),
                      STANDIN_INVALID_USAGE);
    case 'g':
        return expect(case_init(&state->id, state->rank, state->count, false, &state->comm),
                      STANDIN_REMOTE_ERROR);
    case 'c':
        return all_cases(state);
    case 'w':
        return expect(case_finish(state->comm, launch(state)), STANDIN_SUCCESS);
    case 'p':
        return wait_for_parent();
    case 'o':
        return start_endless(state);
    case 'e':
        return await_remote_error(state);
    case 's':
        return shrink(state);
    case 'n':
        return shrink_refused(state);
    case 'r':
        return revoke(state);
    case 'a':
        return expect(ncclCommAbort(state->comm), STANDIN_SUCCESS);
    case 'f':
        return finish(state);
    default:
        return "no such step";
    }
}

static bool parse_id(const char *text, struct standin_id *id)
{
    for (size_t i = 0; i < sizeof id->internal; i++) {
        unsigned int byte = 0;
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
            return false;
        }
        id->internal[i] = (char)byte;
    }
    return true;
}

static int say_id(void)
{
    struct standin_id id;
    if (ncclGetUniqueId(&id) != STANDIN_SUCCESS) {
        return 1;
    }
    for (size_t i = 0; i < sizeof id.internal; i++) {
        (void)printf("%02x", (unsigned char)id.internal[i]);
    }
    (void)printf("\n");
    return 0;
}

int main(int argc, char **argv)
{
    static struct state state;
    if (argc == 1) {
        return say_id();
    }
    if (argc != 5 || !parse_id(argv[1], &state.id)) {
        (void)fprintf(stderr, "usage: nccl_standin_rank ID RANK COUNT STEPS\n");
        return 2;
    }
    state.rank = (int)strtol(argv[2], NULL, 10);
    state.count = (int)strtol(argv[3], NULL, 10);
    const char *failure = NULL;
    const char *letter = argv[4];
    while (*letter != '\0' && failure == NULL) {
        failure = step(&state, *letter++);
    }
    if (failure == NULL && state.parent != NULL) {
        failure = expect(ncclCommAbort(state.parent), STANDIN_SUCCESS);
    }
    if (failure == NULL && ddp_nccl_standin_comm_count() != 0) {
        failure = "a communicator is left";
    }
    if (failure != NULL) {
        (void)printf("rank %d, step %c: %s (%s)\n", state.rank, letter > argv[4] ? letter[-1] : '-',
                     failure, ncclGetLastError(NULL));
        return 1;
    }
    (void)printf("ok\n");
    return 0;
}
