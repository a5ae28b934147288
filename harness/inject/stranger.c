/* See the header. If the system refuses a call here, a stranger less comes: nothing is owed to it.
 */
#include "harness/inject/stranger.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Those that stay, so that their connections do; more than a group hears at a time. */
#define STRANGERS_MAX 128

static int staying[STRANGERS_MAX];
static size_t staying_count;

/* As much as a greeting or more; what is sent of a greeting has its mark, and a kind of frame, and
 * no hash that could be right (ddpcore/transport/tcp_frame.h). */
static const char request[] =
    "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\n\r\n\r\n\r\n";
static const char greeting[56] = {'D', 'T', 'F', '1', 1};
_Static_assert(sizeof request > sizeof greeting, "whoever hears it hears a whole frame");

static void say(int fd, const char *text, size_t size_bytes)
{
    (void)!write(fd, text, size_bytes);
}

static void do_as(enum harness_stranger kind, int fd)
{
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    switch (kind) {
    case HARNESS_STRANGER_RUBBISH:
        say(fd, request, sizeof request);
        break;
    case HARNESS_STRANGER_PART:
        say(fd, greeting, sizeof greeting / 2);
        break;
    case HARNESS_STRANGER_GREETING:
        say(fd, greeting, sizeof greeting);
        break;
    case HARNESS_STRANGER_RESET:
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        break;
    case HARNESS_STRANGER_NONE:
    case HARNESS_STRANGER_SILENT:
    case HARNESS_STRANGER_GONE:
    case HARNESS_STRANGER_COUNT:
        break;
    }
}

void harness_stranger_come(enum harness_stranger kind, int listen_fd)
{
    const bool stays = kind != HARNESS_STRANGER_GONE && kind != HARNESS_STRANGER_RESET;
    const int error = errno;
    struct sockaddr_storage where = {.ss_family = AF_UNSPEC};
    socklen_t where_bytes = sizeof where;
    int fd = -1;

    if (getsockname(listen_fd, (struct sockaddr *)&where, &where_bytes) == 0) {
        fd = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    }
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&where, where_bytes) == 0) {
        do_as(kind, fd);
        if (stays && staying_count < STRANGERS_MAX) {
            staying[staying_count++] = fd;
            fd = -1;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
}

void harness_strangers_leave(void)
{
    while (staying_count > 0) {
        (void)close(staying[--staying_count]);
    }
}
