/* Calls of a rank's process that libfiu's preload library does not know, and what of a message is
 * moved and comes. The linker puts these in the place of the C library's (--wrap) in every program
 * that has faults in it; without a fault of its process's calls, each is one comparison and that
 * call. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/inject/io.h"
#include "harness/inject/stranger.h"

/* The names that --wrap asks for are the compiler's. */
ssize_t real_send(int fd, const void *data, size_t size_bytes, int flags) __asm__("__real_send");
ssize_t wrap_send(int fd, const void *data, size_t size_bytes, int flags) __asm__("__wrap_send");
ssize_t real_recv(int fd, void *data, size_t size_bytes, int flags) __asm__("__real_recv");
ssize_t wrap_recv(int fd, void *data, size_t size_bytes, int flags) __asm__("__wrap_recv");
int real_accept4(int fd, struct sockaddr *address, socklen_t *address_bytes,
                 int flags) __asm__("__real_accept4");
int wrap_accept4(int fd, struct sockaddr *address, socklen_t *address_bytes,
                 int flags) __asm__("__wrap_accept4");
int real_setsockopt(int fd, int level, int option, const void *value,
                    socklen_t value_bytes) __asm__("__real_setsockopt");
int wrap_setsockopt(int fd, int level, int option, const void *value,
                    socklen_t value_bytes) __asm__("__wrap_setsockopt");
int real_epoll_create1(int flags) __asm__("__real_epoll_create1");
int wrap_epoll_create1(int flags) __asm__("__wrap_epoll_create1");
int real_epoll_ctl(int epoll_fd, int op, int fd,
                   struct epoll_event *event) __asm__("__real_epoll_ctl");
int wrap_epoll_ctl(int epoll_fd, int op, int fd,
                   struct epoll_event *event) __asm__("__wrap_epoll_ctl");
int real_epoll_wait(int epoll_fd, struct epoll_event *events, int event_max,
                    int timeout_ms) __asm__("__real_epoll_wait");
int wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int event_max,
                    int timeout_ms) __asm__("__wrap_epoll_wait");
int real_close(int fd) __asm__("__real_close");
int wrap_close(int fd) __asm__("__wrap_close");
ssize_t real_getrandom(void *data, size_t size_bytes, unsigned flags) __asm__("__real_getrandom");
ssize_t wrap_getrandom(void *data, size_t size_bytes, unsigned flags) __asm__("__wrap_getrandom");

/* Whether it fails; errno says with what. */
static bool fails(enum harness_io_call call)
{
    const size_t error = harness_io_of_process(call, HARNESS_IO_FAILS);

    if (error != 0) {
        errno = (int)error;
    }
    return error != 0;
}

/* At least one byte: none would be the end of the stream. */
static size_t part_of(enum harness_io_call call, size_t size_bytes)
{
    const size_t part_bytes = harness_io_of_process(call, HARNESS_IO_SIZE);

    if (part_bytes == 0 || size_bytes == 0) {
        return size_bytes;
    }
    return part_bytes == SIZE_MAX    ? size_bytes - size_bytes / 2
           : part_bytes < size_bytes ? part_bytes
                                     : size_bytes;
}

/* Whether these fail, libfiu's preload library asks below. */
ssize_t wrap_send(int fd, const void *data, size_t size_bytes, int flags)
{
    return real_send(fd, data, part_of(HARNESS_IO_SEND, size_bytes), flags);
}

ssize_t wrap_recv(int fd, void *data, size_t size_bytes, int flags)
{
    const ssize_t got = real_recv(fd, data, part_of(HARNESS_IO_RECV, size_bytes), flags);
    const size_t bit = got > 0 ? harness_io_of_process(HARNESS_IO_RECV, HARNESS_IO_CONTENT) : 0;

    if (bit > 0) {
        const size_t byte = (bit - 1) / 8 < (size_t)got ? (bit - 1) / 8 : (size_t)got - 1;

        ((uint8_t *)data)[byte] ^= (uint8_t)(1u << ((bit - 1) % 8));
    }
    return got;
}

int wrap_accept4(int fd, struct sockaddr *address, socklen_t *address_bytes, int flags)
{
    const size_t stranger = harness_io_of_process(HARNESS_IO_ACCEPT, HARNESS_IO_CONTENT);

    if (stranger != 0) {
        harness_stranger_come((enum harness_stranger)stranger, fd);
    }
    return fails(HARNESS_IO_ACCEPT) ? -1 : real_accept4(fd, address, address_bytes, flags);
}

int wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t value_bytes)
{
    return fails(HARNESS_IO_SETSOCKOPT) ? -1
                                        : real_setsockopt(fd, level, option, value, value_bytes);
}

int wrap_epoll_create1(int flags)
{
    return fails(HARNESS_IO_EPOLL_CREATE) ? -1 : real_epoll_create1(flags);
}

int wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    return fails(HARNESS_IO_EPOLL_CTL) ? -1 : real_epoll_ctl(epoll_fd, op, fd, event);
}

int wrap_epoll_wait(int epoll_fd, struct epoll_event *events, int event_max, int timeout_ms)
{
    return fails(HARNESS_IO_EPOLL_WAIT) ? -1
                                        : real_epoll_wait(epoll_fd, events, event_max, timeout_ms);
}

/* Linux releases the descriptor of a close that fails. libfiu's preload library asks below, and
 * then does not close at all. */
int wrap_close(int fd)
{
    const int result = real_close(fd);
    const int error = errno;

    if (result != 0 && harness_io_is_in_files()) {
        (void)syscall(SYS_close, fd);
        errno = error;
    }
    return result;
}

ssize_t wrap_getrandom(void *data, size_t size_bytes, unsigned flags)
{
    return fails(HARNESS_IO_GETRANDOM) ? -1 : real_getrandom(data, size_bytes, flags);
}
