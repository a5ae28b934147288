/* Rank programs in processes: forked, a store served by the parent, failures through a pipe. The
 * parent waits a bounded time and leaves no process behind. And those on shm. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/transport/shm.h"
#include "tests/ct.h"
#include "tests/unit/transport/transport_ranks.h"

#define RUN_NS (30 * DDP_NS_PER_S)

static void die(struct rank_context *context)
{
    (void)context;
    (void)raise(SIGKILL);
}

static void report(int fd, const char *text)
{
    if (write(fd, text, strlen(text)) < 0) {
        _exit(4);
    }
}

static int child_main(uint32_t rank, uint32_t count, uint16_t port, int fd, ranks_open *open,
                      rank_program *program)
{
    struct ddp_env env;
    struct ddp_idle_process idle;
    struct rank_context context = {.rank = rank, .count = count, .die = die};
    struct ddp_err err = {""};
    uint64_t deadline_ns;

    ddp_env_init_process(&env, &idle, rank, count);
    deadline_ns = ddp_clock_deadline_ns(env.clock, RANKS_WAIT_NS);
    context.env = &env;
    if (ddp_store_tcp_create(&env, "127.0.0.1", port, -1, deadline_ns, &context.store, &err) !=
            DDP_OK ||
        open(&context, deadline_ns, &err) != DDP_OK) {
        report(fd, err.text);
        return 1;
    }
    program(&context);
    if (context.transport != NULL) {
        context.transport->ops->destroy(context.transport);
    }
    context.store->ops->destroy(context.store);
    report(fd, context.failure);
    return context.failure[0] == '\0' ? 0 : 1;
}

/* Children that have not ended yet; a death by signal other than SIGKILL is a failure. */
static uint32_t reap(pid_t *pids, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++) {
        int status;

        if (pids[i] <= 0) {
            continue;
        }
        if (waitpid(pids[i], &status, WNOHANG) == 0) {
            left++;
            continue;
        }
        pids[i] = 0;
        CT_CHECK(WIFEXITED(status) || WTERMSIG(status) == SIGKILL);
        CT_CHECK(!WIFEXITED(status) || WEXITSTATUS(status) == 0);
    }
    return left;
}

void ranks_run_processes(uint32_t count, ranks_open *open, rank_program *program)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    uint64_t deadline_ns = ddp_clock_deadline_ns(clock, RUN_NS);
    const struct timespec pause = {0, 200000};
    struct ddp_store_server *server;
    struct ddp_err err;
    pid_t pids[RANKS_MAX] = {0};
    char text[2048] = "";
    int listen_fd;
    int pipe_fd[2];
    uint16_t port;
    ssize_t got;

    CT_REQUIRE_OK(ddp_store_listen("127.0.0.1", 0, &listen_fd, &port, &err));
    CT_REQUIRE(pipe(pipe_fd) == 0);
    for (uint32_t i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            (void)close(listen_fd);
            _exit(child_main(i, count, port, pipe_fd[1], open, program));
        }
    }
    (void)close(pipe_fd[1]);
    CT_REQUIRE_OK(ddp_store_server_create(ddp_mem_system(), listen_fd, &server, &err));
    while (reap(pids, count) > 0) {
        ddp_store_server_pump(server);
        (void)nanosleep(&pause, NULL);
        if (ddp_clock_now_ns(clock) > deadline_ns) {
            CT_FAIL("rank processes did not end");
            for (uint32_t i = 0; i < count; i++) {
                if (pids[i] > 0) {
                    (void)kill(pids[i], SIGKILL);
                }
            }
            deadline_ns = UINT64_MAX;
        }
    }
    got = read(pipe_fd[0], text, sizeof(text) - 1);
    CT_CHECK(got >= 0);
    CT_CHECK_STR(text, "");
    (void)close(pipe_fd[0]);
    ddp_store_server_destroy(server);
}

static ddp_status open_shm(struct rank_context *context, uint64_t deadline_ns, struct ddp_err *err)
{
    const struct ddp_shm_config config = {.group_name = "test",
                                          .member = context->rank,
                                          .member_count = context->count,
                                          .heap_bytes = 4 << 20,
                                          .slot_count = 8};

    return ddp_shm_create(context->env, context->store, &config, deadline_ns, &context->transport,
                          err);
}

void ranks_run_shm(uint32_t count, rank_program *program)
{
    ranks_run_processes(count, open_shm, program);
}
