/* The cost of an all-reduce over sockets, through rank 0 as in tests/guest/trainer.c, with the
 * guest library around it and without. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/guest/ddprove_guest.h"
#include "tests/bench/guest_cost.h"

enum { RANKS_MAX = 16, ELEMS_MAX = 1 << 22 };

static int rank, ranks;
static int peer[RANKS_MAX]; /* rank 0: sockets of the others; others: peer[0] is rank 0's */
static float other[ELEMS_MAX];
static uint32_t comm;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int number(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

static void move(int fd, void *data, size_t size_bytes, bool is_sending)
{
    for (size_t done = 0; done < size_bytes;) {
        const ssize_t size = is_sending ? write(fd, (char *)data + done, size_bytes - done)
                                        : read(fd, (char *)data + done, size_bytes - done);

        if (size <= 0) {
            fail("socket");
        }
        done += (size_t)size;
    }
}

static int connect_to_rank_0(const struct sockaddr_in *address)
{
    int fd;

    while (fd = socket(AF_INET, SOCK_STREAM, 0),
           connect(fd, (const struct sockaddr *)address, sizeof *address) != 0) {
        if (errno != ECONNREFUSED) {
            fail("connect");
        }
        (void)close(fd); /* rank 0 may not listen yet */
        (void)poll(NULL, 0, 1);
    }
    return fd;
}

static void connect_all(void)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)number("MASTER_PORT")),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    if (rank > 0) {
        peer[0] = connect_to_rank_0(&address);
        move(peer[0], &rank, sizeof rank, true);
    } else if (setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
               bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
               listen(listener, RANKS_MAX) != 0) {
        fail("listen");
    }
    for (int i = 1; rank == 0 && i < ranks; i++) {
        const int fd = accept(listener, NULL, NULL);
        int from = 0;

        move(fd, &from, sizeof from, false);
        peer[from] = fd;
    }
    for (int r = 0; r < (rank == 0 ? ranks : 1); r++) {
        (void)setsockopt(peer[r], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    (void)close(listener);
}

static void bare(const float *in, float *out, size_t count)
{
    if (rank > 0) {
        move(peer[0], (void *)(uintptr_t)in, count * sizeof *in, true);
        move(peer[0], out, count * sizeof *out, false);
        return;
    }
    for (size_t i = 0; in != out && i < count; i++) {
        out[i] = in[i];
    }
    for (int r = 1; r < ranks; r++) {
        move(peer[r], other, count * sizeof *other, false);
        for (size_t i = 0; i < count; i++) {
            out[i] += other[i];
        }
    }
    for (int r = 1; r < ranks; r++) {
        move(peer[r], out, count * sizeof *out, true);
    }
}

static void shown(const float *in, float *out, size_t count)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call,
                                      .comm = comm,
                                      .kind = DDPROVE_GUEST_ALL_REDUCE,
                                      .dtype = DDPROVE_GUEST_F32,
                                      .redop = DDPROVE_GUEST_SUM,
                                      .elem_count = count,
                                      .in = in,
                                      .out = out};

    for (int times = ddprove_guest_call_begin(&call); times > 0; times--) {
        bare(call.in, out, call.elem_count);
    }
    ddprove_guest_call_end(&call);
}

static void barrier(void)
{
    static float nothing;

    bare(&nothing, &nothing, 1);
}

int main(void)
{
    struct cost_program program = {
        .name = "sockets, through rank 0", .barrier = barrier, .bare = bare, .shown = shown};

    rank = program.rank = number("RANK");
    ranks = program.ranks = number("WORLD_SIZE");
    if (ranks < 2 || ranks > RANKS_MAX || ddprove_guest_attach(rank, ranks) == 0) {
        fail("attach");
    }
    connect_all();
    comm = ddprove_guest_comm_create(1, (uint32_t)rank, (uint32_t)ranks, "world");
    cost_measure(&program);
    ddprove_guest_detach();
    return 0;
}
