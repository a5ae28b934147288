/* What one look tells of processes that a launcher has started. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/mem.h"
#include "harness/exec/job.h"
#include "tests/ct.h"

enum { RANKS = 3 };

/* A process of somebody else's that has ended with this code, and that nobody has waited for. */
static pid_t ended_with(int code)
{
    const pid_t pid = fork();
    siginfo_t info;

    if (pid == 0) {
        _exit(code);
    }
    CT_CHECK(pid > 0 && waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    return pid;
}

/* All ranks of a short job show themselves and end between two looks: the next one knows all ends,
 * so that those that followed from another one are known as such. */
CT_TEST(look, ranks_that_show_themselves_and_end_in_between)
{
    struct ddp_mem_pool *pool;
    struct harness_watch watch;
    struct exec_rank ranks[RANKS] = {{0}};
    struct harness_exec_config config = {.ranks = 0};
    struct exec_job job = {.config = &config, .watch = &watch, .ranks = ranks};
    struct ddp_err err = {{0}};
    pid_t pids[RANKS];
    uint32_t known = 0;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    CT_REQUIRE(harness_watch_arena_create(RANKS, 16, &job.arena, &err) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&watch, ddp_mem_pool_mem(pool), job.arena.head) == DDP_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        ranks[r].pid_fd = -1;
        pids[r] = ended_with((int)r + 3);
        guest_arena_page(job.arena.head, r)->pid = (uint64_t)pids[r];
    }
    harness_exec_look(&job, 1000);
    for (uint32_t r = 0; r < RANKS; r++) {
        known += watch.ranks[r].is_of_launcher && watch.ranks[r].state == HARNESS_WATCH_EXITED &&
                 watch.ranks[r].since_ns == 1000;
        (void)waitpid(pids[r], NULL, 0);
    }
    CT_CHECK_EQ_U64(known, RANKS);
    harness_watch_fini(&watch);
    harness_watch_arena_destroy(&job.arena);
    ddp_mem_pool_destroy(pool);
}

/* A child that was stopped before it was met is stopped. */
CT_TEST(look, a_child_that_is_stopped_before_it_is_met)
{
    struct ddp_mem_pool *pool;
    struct harness_watch watch;
    struct exec_rank ranks[1] = {{.pid_fd = -1}};
    struct exec_child child = {0};
    struct harness_exec_config config = {.ranks = 1};
    struct exec_job job = {
        .config = &config, .watch = &watch, .ranks = ranks, .children = &child, .child_count = 1};
    struct ddp_err err = {{0}};
    siginfo_t info;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    CT_REQUIRE(harness_watch_arena_create(1, 16, &job.arena, &err) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&watch, ddp_mem_pool_mem(pool), job.arena.head) == DDP_OK);
    child.pid = child.started_pid = fork();
    if (child.pid == 0) {
        (void)raise(SIGSTOP);
        _exit(0);
    }
    CT_CHECK(waitid(P_PID, (id_t)child.pid, &info, WSTOPPED | WNOWAIT) == 0);
    harness_exec_look(&job, 1000);
    CT_CHECK(watch.ranks[0].state == HARNESS_WATCH_STOPPED);
    guest_arena_page(job.arena.head, 0)->pid = (uint64_t)child.pid;
    harness_exec_look(&job, 2000);
    CT_CHECK_EQ_I64(ranks[0].pid, child.started_pid);
    CT_CHECK(watch.ranks[0].state == HARNESS_WATCH_STOPPED);
    CT_CHECK_EQ_U64(guest_arena_page(job.arena.head, 0)->is_met, 1);
    CT_CHECK(kill(child.started_pid, SIGKILL) == 0);
    CT_CHECK(waitpid(child.started_pid, NULL, 0) == child.started_pid);
    harness_watch_fini(&watch);
    harness_watch_arena_destroy(&job.arena);
    ddp_mem_pool_destroy(pool);
}
