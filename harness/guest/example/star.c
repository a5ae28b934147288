/* Collectives over sockets, all through rank 0. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <star.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS_MAX = 64 };

static int rank, world_size;
static int peer[RANKS_MAX]; /* rank 0: sockets of the others; others: peer[0] is rank 0's */

static void fail(const char *what)
{
    (void)fprintf(stderr, "rank %d: %s: %s\n", rank, what, strerror(errno));
    exit(1);
}

static void move(int fd, void *data, size_t size_bytes, bool is_sending)
{
    for (size_t done = 0; done < size_bytes;) {
        ssize_t size = is_sending ? send(fd, (char *)data + done, size_bytes - done, MSG_NOSIGNAL)
                                  : recv(fd, (char *)data + done, size_bytes - done, 0);

        if (size == 0 || (size < 0 && (errno == ECONNRESET || errno == EPIPE))) {
            exit(1); /* the other one has ended, and says why */
        }
        if (size < 0) {
            fail(is_sending ? "send" : "recv");
        }
        done += (size_t)size;
    }
}

/* Rank 0 may not listen yet, and nothing tells when it does. */
static int connect_to_rank_0(const struct sockaddr_in *address)
{
    for (;;) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);

        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            return fd;
        }
        if (errno != ECONNREFUSED) {
            fail("connect");
        }
        (void)close(fd);
        (void)poll(NULL, 0, 1);
    }
}

static int variable(const char *name)
{
    const char *text = getenv(name);

    return text != NULL ? (int)strtol(text, NULL, 10) : 0;
}

void star_begin(int *own_rank, int *size)
{
    *own_rank = variable("RANK");
    *size = variable("WORLD_SIZE");
}

void star_connect(int own_rank, int size, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int one = 1;
    int listener;

    rank = own_rank;
    world_size = size;
    address.sin_port = htons((uint16_t)port);
    if (rank > 0) {
        peer[0] = connect_to_rank_0(&address);
        (void)setsockopt(peer[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        move(peer[0], &rank, sizeof rank, true);
        return;
    }
    listener = socket(AF_INET, SOCK_STREAM, 0);
    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, RANKS_MAX) != 0) {
        fail("listen");
    }
    for (int i = 1; i < world_size; i++) {
        const int fd = accept(listener, NULL, NULL);
        int from = 0;

        move(fd, &from, sizeof from, false);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        peer[from] = fd;
    }
    (void)close(listener);
}

void star_all_reduce(const float *in, float *out, size_t count)
{
    float other[STAR_COUNT_MAX];

    if (rank > 0) {
        move(peer[0], (void *)(uintptr_t)in, count * sizeof *in, true);
        move(peer[0], out, count * sizeof *out, false);
        return;
    }
    memmove(out, in, count * sizeof *out);
    for (int r = 1; r < world_size; r++) {
        move(peer[r], other, count * sizeof *other, false);
        for (size_t i = 0; i < count; i++) {
            out[i] += other[i];
        }
    }
    for (int r = 1; r < world_size; r++) {
        move(peer[r], out, count * sizeof *out, true);
    }
}

void star_broadcast(float *values, size_t count, uint32_t root)
{
    if (rank > 0) {
        move(peer[0], values, count * sizeof *values, rank == (int)root);
    } else if (root > 0) {
        move(peer[root], values, count * sizeof *values, false);
    }
    for (int r = 1; rank == 0 && r < world_size; r++) {
        if (r != (int)root) {
            move(peer[r], values, count * sizeof *values, true);
        }
    }
}

void star_end(void)
{
    for (int r = 0; r < world_size; r++) {
        if (r != rank && (rank == 0 || r == 0)) {
            (void)close(peer[r]);
        }
    }
}
