/* Jobs that are started at the same time get different ports. */
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/exec/job.h"
#include "tests/ct.h"

enum { FIRST = 18000, TRIES = 1000 };

/* A port below those of exec that is free now, and whose descriptor this is. */
static int reserve_one(uint16_t *out)
{
    int fd = -1;

    for (uint16_t i = 0; i < TRIES && fd < 0; i++) {
        *out = (uint16_t)(FIRST + ((unsigned)getpid() + i) % TRIES);
        fd = harness_exec_reserve_port(*out);
    }
    return fd;
}

CT_TEST(port, is_one_jobs_alone)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint16_t port = 0;
    int fd = reserve_one(&port);

    CT_REQUIRE(fd >= 0);
    CT_CHECK_EQ_I64(harness_exec_reserve_port(port), -1);
    /* The program itself takes it as if nothing were there. */
    address.sin_port = htons(port);
    CT_CHECK(bind(listener, (const struct sockaddr *)&address, sizeof address) == 0);
    (void)close(fd);
    CT_CHECK_EQ_I64(harness_exec_reserve_port(port), -1);
    (void)close(listener);
    fd = harness_exec_reserve_port(port);
    CT_CHECK(fd >= 0);
    (void)close(fd);
}
