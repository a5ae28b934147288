/* Rank programs for transport tests: one function per rank, written as straight-line code, run
 * either as baton-passing threads on the loop net or as forked processes on shm and tcp. */
#ifndef TESTS_UNIT_TRANSPORT_TRANSPORT_RANKS_H
#define TESTS_UNIT_TRANSPORT_TRANSPORT_RANKS_H

#include "ddpcore/seam/env.h"
#include "ddpcore/store/store.h"
#include "ddpcore/transport/transport.h"

#define RANKS_MAX 8u
/* Per wait, in the rank's own time: virtual on loop, real in processes. */
#define RANKS_WAIT_NS (10 * DDP_NS_PER_S)

struct rank_context {
    struct ddp_env *env;
    struct ddp_store *store;
    struct ddp_transport *transport; /* NULL once the program destroyed it */
    uint32_t rank, count;
    void (*die)(struct rank_context *context); /* does not return */
    void *runner;
    char failure[256]; /* first failed check, or "" */
};

typedef void rank_program(struct rank_context *context);

/* Run program on `count` ranks; failures become test failures. */
void ranks_run_loop(uint32_t count, rank_program *program);
void ranks_run_shm(uint32_t count, rank_program *program);
void ranks_run_tcp(uint32_t count, rank_program *program);

/* Sets context->transport; context has all but that. */
typedef ddp_status ranks_open(struct rank_context *context, uint64_t deadline_ns,
                              struct ddp_err *err);
void ranks_run_processes(uint32_t count, ranks_open *open, rank_program *program);

/* Inside rank programs: note the first failed condition. */
#define RANK_CHECK(context, condition)                                                             \
    do {                                                                                           \
        if (!(condition) && (context)->failure[0] == '\0') {                                       \
            (void)snprintf((context)->failure, sizeof((context)->failure), "rank %u, line %d: %s", \
                           (context)->rank, __LINE__, #condition);                                 \
        }                                                                                          \
    } while (0)

/* Wait for the oldest message from a peer. */
ddp_status rank_recv(struct rank_context *context, uint32_t from, struct ddp_message *out);
/* Wait until a send is taken by the stream. */
ddp_status rank_send(struct rank_context *context, uint32_t to, const void *data, size_t size_bytes,
                     uint64_t *out_ticket);
/* Wait until a send is acknowledged. */
ddp_status rank_sent(struct rank_context *context, uint32_t to, uint64_t ticket);
/* Wait until a condition holds. */
ddp_status rank_until(struct rank_context *context,
                      bool (*condition)(struct rank_context *context));

#endif
