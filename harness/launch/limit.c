/* Descriptors, address space, loopback. */
#include "harness/launch/limit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* What any of the job's processes opens besides what it opens for each rank (its pidfd, its
 * connection, its shared memory). The monitor keeps its own above 64. */
enum { DESCRIPTORS_BASE = 80, DESCRIPTORS_A_RANK = 3 };
/* OpenBLAS's buffers, stacks and the shared memory of small jobs. */
static const uint64_t address_space_bytes = UINT64_C(1024) * 1024 * 1024;

static ddp_status check_descriptors(const struct harness_plan *plan, struct ddp_err *err)
{
    rlim_t needed = DESCRIPTORS_BASE + (rlim_t)DESCRIPTORS_A_RANK * plan->job.ranks;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "getrlimit: %s", strerror(errno));
    }
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < needed) {
        struct rlimit raised = {needed < limit.rlim_max ? needed : limit.rlim_max, limit.rlim_max};

        if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &raised) != 0) {
            return ddp_err_set(err, DDP_E_SYSTEM,
                               "a process may open %llu files, a job of %u ranks needs %llu; raise "
                               "the limit (ulimit -n), or use --driver sim",
                               (unsigned long long)limit.rlim_max, plan->job.ranks,
                               (unsigned long long)needed);
        }
    }
    return DDP_OK;
}

static ddp_status check_address_space(struct ddp_err *err)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "getrlimit: %s", strerror(errno));
    }
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= address_space_bytes) {
        return DDP_OK;
    }
    return ddp_err_set(err, DDP_E_SYSTEM,
                       "a process may use %llu MiB of address space, a rank needs %llu; raise the "
                       "limit (ulimit -v), or use --driver sim",
                       (unsigned long long)limit.rlim_cur >> 20,
                       (unsigned long long)address_space_bytes >> 20);
}

/* A connection to ourselves. */
static ddp_status check_loopback(struct ddp_err *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ddp_status status = DDP_OK;

    if (server < 0 || client < 0 || bind(server, (struct sockaddr *)&address, size) != 0 ||
        listen(server, 1) != 0 || getsockname(server, (struct sockaddr *)&address, &size) != 0 ||
        (connect(client, (struct sockaddr *)&address, size) != 0 && errno != EINPROGRESS)) {
        status = ddp_err_set(err, DDP_E_SYSTEM,
                             "no connection over loopback: %s; bring it up (ip link set lo up), or "
                             "use --driver sim",
                             strerror(errno));
    }
    if (server >= 0) {
        (void)close(server);
    }
    if (client >= 0) {
        (void)close(client);
    }
    return status;
}

ddp_status harness_limits_prepare(const struct harness_plan *plan, struct ddp_err *err)
{
    DDP_TRY(check_descriptors(plan, err));
    DDP_TRY(check_address_space(err));
    return check_loopback(err);
}
