/* Runs ranks under an adapter with one fault armed in the arena, and says what is found, as
 * `ddprove exec` does; then ends them. Exit: 1 if something was found, else 0.
 *
 * Usage: armed LIBRARY RANKS ACTION VALUE RANK KIND SEQ COMMAND... */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/mem.h"
#include "harness/guest/ability.h"
#include "harness/watch/analyse.h"
#include "harness/watch/arena.h"

enum { RANKS_MAX = 8, RING_ENTRIES = 1 << 12 };

struct job {
    struct harness_watch_arena arena;
    struct harness_watch watch;
    struct harness_findings findings;
    uint32_t ranks, alive;
    pid_t pid[RANKS_MAX];
};

static uint64_t index_of(const char *const *names, uint64_t count, const char *name)
{
    for (uint64_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    (void)fprintf(stderr, "armed: what is \"%s\"?\n", name);
    exit(2);
}

static struct guest_fault parse_fault(char **argv)
{
    static const char *const actions[] = {
#define X(id, name, value) name,
        GUEST_ACTION_TABLE(X)
#undef X
    };
    static const char *const kinds[] = {
#define X(id, name) name,
        DDPROVE_GUEST_KIND_TABLE(X)
#undef X
    };
    struct guest_fault fault = {.point = GUEST_POINT_POST, .hit = 1, .times = 1};
    const char *lack;

    fault.action = index_of(actions, GUEST_ACTION_COUNT, argv[0]);
    fault.value = strtoull(argv[1], NULL, 10);
    fault.rank = strtoull(argv[2], NULL, 10) + 1;
    fault.kind = index_of(kinds, DDPROVE_GUEST_KIND_COUNT, argv[3]) + 1;
    fault.seq = strtoull(argv[4], NULL, 10);
    lack = guest_ability_lack(GUEST_ADAPTER_NCCL, GUEST_POINT_POST, (enum guest_action)fault.action,
                              fault.value);
    if (lack != NULL) {
        (void)fprintf(stderr, "ddprove: refused: %s\n", lack);
        exit(2);
    }
    return fault;
}

static void set_number(const char *name, uint32_t value)
{
    char text[16];

    (void)snprintf(text, sizeof text, "%" PRIu32, value);
    (void)setenv(name, text, 1);
}

static void start(struct job *job, const char *library, char **command)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        job->pid[r] = fork();
        if (job->pid[r] == 0) {
            (void)setenv(GUEST_ARENA_VARIABLE, job->arena.where, 1);
            (void)setenv("LD_PRELOAD", library, 1);
            set_number("RANK", r);
            set_number("WORLD_SIZE", job->ranks);
            (void)execv(command[0], command);
            _exit(127);
        }
        job->watch.ranks[r].state = HARNESS_WATCH_RUNNING;
        job->alive++;
    }
}

static void follow(struct job *job, uint64_t now_ns)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        int status = 0;

        if (job->pid[r] > 0 && waitpid(job->pid[r], &status, WNOHANG) == job->pid[r]) {
            job->watch.ranks[r].state =
                WIFSIGNALED(status) ? HARNESS_WATCH_SIGNALED : HARNESS_WATCH_EXITED;
            job->watch.ranks[r].code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
            job->watch.ranks[r].since_ns = now_ns;
            job->pid[r] = 0;
            job->alive--;
        }
    }
}

static void end(struct job *job)
{
    for (uint32_t r = 0; r < job->ranks; r++) {
        if (job->pid[r] > 0) {
            (void)kill(job->pid[r], SIGKILL);
            (void)waitpid(job->pid[r], NULL, 0);
        }
    }
}

static void say(const struct harness_findings *findings)
{
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (size_t i = 0; i < findings->count; i++) {
        (void)fprintf(
            stderr, "ddprove: %s, rank %s: %s\n", harness_verdict_name(findings->items[i].verdict),
            harness_rank_set_text(&findings->items[i].culprits, ranks), findings->items[i].text);
    }
}

int main(int argc, char **argv)
{
    const char *budget = getenv("ARMED_BUDGET_S");
    const uint64_t budget_s = budget != NULL ? strtoull(budget, NULL, 10) : 2;
    const struct harness_watch_limits limits = {budget_s * DDP_NS_PER_S, 20 * DDP_NS_PER_S, 0};
    struct ddp_err err = {{0}};
    struct ddp_mem_pool *pool;
    struct job job = {.ranks = 0};
    size_t count;

    if (argc < 9 || ddp_mem_pool_create(&pool) != DDP_OK) {
        return 2;
    }
    job.ranks = (uint32_t)strtoul(argv[2], NULL, 10);
    if (job.ranks > RANKS_MAX ||
        harness_watch_arena_create(job.ranks, RING_ENTRIES, &job.arena, &err) != DDP_OK ||
        harness_watch_init(&job.watch, ddp_mem_pool_mem(pool), job.arena.head) != DDP_OK) {
        return 2;
    }
    harness_findings_init(&job.findings, ddp_mem_pool_mem(pool));
    job.arena.head->faults[0] = parse_fault(argv + 3);
    job.arena.head->fault_count = 1;
    start(&job, argv[1], argv + 8);
    while (job.alive > 0 && job.findings.count == 0) {
        const uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());

        follow(&job, now_ns);
        harness_watch_read(&job.watch, now_ns);
        harness_watch_analyse(&job.watch, &limits, &job.findings);
        (void)poll(NULL, 0, 2); /* the time between two looks */
    }
    end(&job);
    say(&job.findings);
    count = job.findings.count;
    harness_watch_fini(&job.watch);
    harness_watch_arena_destroy(&job.arena);
    ddp_mem_pool_destroy(pool);
    return count > 0;
}
