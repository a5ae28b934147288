/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Loopback sockets whose waits end when a communicator is aborted; messages as those of
 * transport/net_socket.cc. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/standin/nccl/internal.h"

bool standin_wait_is_over(const struct standin_wait *wait)
{
    return (wait->abort_flag != NULL && atomic_load(wait->abort_flag) != 0) ||
           (wait->is_cancelled != NULL &&
            __atomic_load_n(wait->is_cancelled, __ATOMIC_ACQUIRE) != 0);
}

void standin_wait_park(const struct standin_wait *wait)
{
    while (!standin_wait_is_over(wait)) {
        (void)standin_poll(NULL, 0, STANDIN_POLL_MS);
    }
}

void standin_wait_pause(int duration_ms, const struct standin_wait *wait)
{
    for (int done_ms = 0; done_ms < duration_ms && !standin_wait_is_over(wait);
         done_ms += STANDIN_POLL_MS) {
        int rest_ms = duration_ms - done_ms;
        (void)standin_poll(NULL, 0, rest_ms < STANDIN_POLL_MS ? rest_ms : STANDIN_POLL_MS);
    }
}

void standin_close(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in inet;
        struct sockaddr_un local;
    };
    socklen_t size;
};

/* In turns a name that nobody else has, of a socket that delivers at once what is sent. */
static struct address address_of(uint16_t port)
{
    struct address address;
    memset(&address, 0, sizeof address);
    if (standin_turns_are_on()) {
        address.local.sun_family = AF_UNIX;
        int length = snprintf(address.local.sun_path + 1, sizeof address.local.sun_path - 1,
                              "ddp-nccl-standin-%ld-%u", (long)getpid(), port);
        address.size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
        return address;
    }
    address.inet.sin_family = AF_INET;
    address.inet.sin_port = htons(port);
    address.inet.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.size = sizeof address.inet;
    return address;
}

static int system_error(const char *call)
{
    standin_warn("Call to %s failed: %s", call, strerror(errno));
    return STANDIN_SYSTEM_ERROR;
}

int standin_listen(int *fd, uint16_t *port)
{
    static atomic_ushort turns_port;
    *port = standin_turns_are_on() ? (uint16_t)(atomic_fetch_add(&turns_port, 1) + 1) : 0;
    struct address address = address_of(*port);
    *fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*fd < 0) {
        return system_error("socket");
    }
    if (bind(*fd, &address.any, address.size) != 0 || listen(*fd, 1024) != 0 ||
        getsockname(*fd, &address.any, &address.size) != 0) {
        int result = system_error("bind");
        standin_close(fd);
        return result;
    }
    if (*port == 0) {
        *port = ntohs(address.inet.sin_port);
    }
    return STANDIN_SUCCESS;
}

static int prepare(int fd)
{
    int one = 1;
    if (!standin_turns_are_on() &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) {
        return system_error("setsockopt");
    }
    return STANDIN_SUCCESS;
}

static int environment_int(const char *name, int fallback)
{
    const char *text = getenv(name);
    return text == NULL ? fallback : (int)strtol(text, NULL, 10);
}

/* Refused connections are tried again with growing pauses, as misc/socket.cc does. */
int standin_connect(uint16_t port, const struct standin_wait *wait, int *fd)
{
    int retry_count = environment_int("NCCL_SOCKET_RETRY_CNT", 34);
    int pause_ms = environment_int("NCCL_SOCKET_RETRY_SLEEP_MSEC", 100);
    for (int attempt = 1; !standin_wait_is_over(wait); attempt++) {
        struct address address = address_of(port);
        *fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*fd < 0) {
            return system_error("socket");
        }
        if (connect(*fd, &address.any, address.size) == 0) {
            return prepare(*fd);
        }
        int reason = errno;
        standin_close(fd);
        if (reason != ECONNREFUSED && reason != ETIMEDOUT && reason != EHOSTUNREACH &&
            reason != EINTR) {
            standin_warn("ncclSocketConnect: connect to 127.0.0.1<%u> failed : %s", port,
                         strerror(reason));
            return STANDIN_SYSTEM_ERROR;
        }
        if (attempt > retry_count) {
            standin_warn("socketPollConnect: connect to 127.0.0.1<%u> returned %s, exceeded error "
                         "retry count after %d attempts",
                         port, strerror(reason), attempt);
            return STANDIN_REMOTE_ERROR;
        }
        standin_wait_pause(attempt * pause_ms, wait);
    }
    return STANDIN_INTERNAL_ERROR;
}

static bool wait_ready(int fd, short events, const struct standin_wait *wait)
{
    while (!standin_wait_is_over(wait)) {
        struct pollfd entry = {.fd = fd, .events = events};
        if (standin_poll(&entry, 1, STANDIN_POLL_MS) > 0) {
            return true;
        }
    }
    return false;
}

int standin_accept(int listen_fd, const struct standin_wait *wait, int *fd)
{
    for (;;) {
        *fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (*fd >= 0) {
            return prepare(*fd);
        }
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED) {
            return system_error("accept");
        }
        if (!wait_ready(listen_fd, POLLIN, wait)) {
            return STANDIN_INTERNAL_ERROR;
        }
    }
}

static uint16_t peer_port(int fd)
{
    struct address address = address_of(0);
    (void)getpeername(fd, &address.any, &address.size);
    return address.any.sa_family == AF_INET ? ntohs(address.inet.sin_port) : 0;
}

static int closed(int fd)
{
    standin_warn("socketProgress: Connection closed by remote peer 127.0.0.1<%u>", peer_port(fd));
    return STANDIN_REMOTE_ERROR;
}

/* Moves what can be moved now. done grows; SUCCESS says nothing about completion. */
static int move_some(int fd, bool is_send, unsigned char *data, uint64_t size_bytes,
                     uint64_t *done_bytes)
{
    while (*done_bytes < size_bytes) {
        size_t rest = (size_t)(size_bytes - *done_bytes);
        ssize_t moved = is_send ? send(fd, data + *done_bytes, rest, MSG_NOSIGNAL | MSG_DONTWAIT)
                                : recv(fd, data + *done_bytes, rest, MSG_DONTWAIT);
        if (moved > 0) {
            *done_bytes += (uint64_t)moved;
        } else if (moved == 0 && !is_send) {
            return closed(fd);
        } else if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return STANDIN_SUCCESS;
        } else if (moved < 0 && errno != EINTR) {
            return closed(fd);
        }
    }
    return STANDIN_SUCCESS;
}

int standin_send_all(int fd, const void *data, size_t size_bytes, const struct standin_wait *wait)
{
    unsigned char *bytes = malloc(size_bytes);
    if (bytes == NULL) {
        return system_error("malloc");
    }
    memcpy(bytes, data, size_bytes);
    uint64_t done_bytes = 0;
    int result = STANDIN_SUCCESS;
    while (result == STANDIN_SUCCESS) {
        result = move_some(fd, true, bytes, size_bytes, &done_bytes);
        if (result != STANDIN_SUCCESS || done_bytes == size_bytes) {
            break;
        }
        if (!wait_ready(fd, POLLOUT, wait)) {
            result = STANDIN_INTERNAL_ERROR;
        }
    }
    free(bytes);
    return result;
}

int standin_recv_all(int fd, void *data, size_t size_bytes, const struct standin_wait *wait)
{
    uint64_t done_bytes = 0;
    for (;;) {
        STANDIN_CHECK(move_some(fd, false, data, size_bytes, &done_bytes));
        if (done_bytes == size_bytes) {
            return STANDIN_SUCCESS;
        }
        if (!wait_ready(fd, POLLIN, wait)) {
            return STANDIN_INTERNAL_ERROR;
        }
    }
}

static bool message_is_done(const struct standin_message *message)
{
    return message->header_done == sizeof message->header &&
           message->body_done == message->body_bytes;
}

static int message_move(struct standin_message *message)
{
    uint64_t header_done = message->header_done;
    bool had_header = header_done == sizeof message->header;
    STANDIN_CHECK(move_some(message->fd, message->is_send, message->header, sizeof message->header,
                            &header_done));
    message->header_done = (size_t)header_done;
    if (header_done < sizeof message->header) {
        return STANDIN_SUCCESS;
    }
    if (!had_header && !message->is_send) {
        memcpy(&message->body_bytes, message->header + 8, sizeof message->body_bytes);
        if (message->body_bytes > message->size_bytes) {
            standin_warn(
                "NET/Socket : peer 127.0.0.1<%u> message truncated : receiving %llu bytes instead "
                "of %llu. If you believe your socket network is in a healthy state, there may be a "
                "mismatch in collective sizes or environment settings (e.g. NCCL_PROTO, NCCL_ALGO) "
                "between ranks",
                peer_port(message->fd), (unsigned long long)message->body_bytes,
                (unsigned long long)message->size_bytes);
            return STANDIN_INVALID_USAGE;
        }
    }
    return move_some(message->fd, message->is_send, message->data, message->body_bytes,
                     &message->body_done);
}

static bool is_first_of_its_socket(const struct standin_message *messages, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (messages[i].fd == messages[index].fd &&
            messages[i].is_send == messages[index].is_send && !message_is_done(&messages[i])) {
            return false;
        }
    }
    return true;
}

int standin_messages_run(struct standin_message *messages, size_t count,
                         const struct standin_wait *wait)
{
    struct pollfd *entries = calloc(count > 0 ? count : 1, sizeof *entries);
    if (entries == NULL) {
        return system_error("malloc");
    }
    for (size_t i = 0; i < count; i++) {
        messages[i].header_done = 0;
        messages[i].body_done = 0;
        messages[i].body_bytes = messages[i].is_send ? messages[i].size_bytes : 0;
        memset(messages[i].header, 0, sizeof messages[i].header);
        memcpy(messages[i].header + 8, &messages[i].body_bytes, sizeof messages[i].body_bytes);
    }
    int result = STANDIN_SUCCESS;
    for (;;) {
        nfds_t active = 0;
        for (size_t i = 0; i < count && result == STANDIN_SUCCESS; i++) {
            if (message_is_done(&messages[i]) || !is_first_of_its_socket(messages, i)) {
                continue;
            }
            result = message_move(&messages[i]);
            if (!message_is_done(&messages[i])) {
                entries[active].fd = messages[i].fd;
                entries[active++].events = messages[i].is_send ? POLLOUT : POLLIN;
            }
        }
        if (result != STANDIN_SUCCESS || active == 0) {
            break;
        }
        if (standin_wait_is_over(wait)) {
            result = STANDIN_INTERNAL_ERROR;
            break;
        }
        (void)standin_poll(entries, active, STANDIN_POLL_MS);
    }
    free(entries);
    return result;
}
