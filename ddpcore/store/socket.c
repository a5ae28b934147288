/* The store's sockets: listening, and moving bytes without blocking. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ddpcore/store/wire.h"

#define BACKLOG 1024

ddp_status ddp_store_flush(int fd, const uint8_t *data, size_t size_bytes, size_t *sent_bytes)
{
    DDP_ASSERT(*sent_bytes <= size_bytes);
    while (*sent_bytes < size_bytes) {
        ssize_t sent = send(fd, data + *sent_bytes, size_bytes - *sent_bytes, MSG_NOSIGNAL);

        if (sent > 0) {
            *sent_bytes += (size_t)sent;
        } else if (errno != EINTR) {
            return errno == EAGAIN ? DDP_PENDING : DDP_E_IO;
        }
    }
    return DDP_OK;
}

ddp_status ddp_store_fill(int fd, uint8_t *data, size_t capacity_bytes, size_t *filled_bytes)
{
    ssize_t got;

    DDP_ASSERT(*filled_bytes < capacity_bytes); /* or the end of the stream could not be told */
    do {
        got = recv(fd, data + *filled_bytes, capacity_bytes - *filled_bytes, 0);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        *filled_bytes += (size_t)got;
        return DDP_OK;
    }
    errno = got < 0 ? errno : 0;
    return errno == EAGAIN ? DDP_PENDING : DDP_E_IO;
}

static ddp_status bound_port(int fd, uint16_t *out_port)
{
    struct sockaddr_storage name;
    socklen_t name_bytes = sizeof(name);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&name;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&name;

    memset(&name, 0, sizeof(name));
    if (getsockname(fd, (struct sockaddr *)&name, &name_bytes) != 0) {
        return DDP_E_SYSTEM;
    }
    *out_port = ntohs(name.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
    return DDP_OK;
}

ddp_status ddp_store_listen(const char *address, uint16_t port, int *out_fd, uint16_t *out_port,
                            struct ddp_err *err)
{
    const int one = 1;
    struct addrinfo wanted = {.ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    int fd = -1;
    int code;

    (void)snprintf(service, sizeof(service), "%u", port);
    code = getaddrinfo(address, service, &wanted, &found);
    if (code != 0) {
        return ddp_err_set(err, DDP_E_IO, "%s: %s", address, gai_strerror(code));
    }
    for (const struct addrinfo *at = found; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            continue;
        }
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
            int saved = errno;

            (void)close(fd);
            fd = -1;
            errno = saved;
        }
    }
    freeaddrinfo(found);
    if (fd < 0 || bound_port(fd, out_port) != DDP_OK) {
        ddp_status status =
            ddp_err_set(err, DDP_E_IO, "listening on %s:%u: %s", address, port, strerror(errno));

        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    *out_fd = fd;
    return DDP_OK;
}
