/* What the launcher makes of guards' words and of their silence, with sleeping processes in place
 * of mpirun, guards and ranks. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/proc/guard.h"
#include "harness/proc/mpirun.h"
#include "tests/ct.h"

enum { RANKS = 3, PAGE_BYTES = 4096 };

struct rig {
    struct harness_plan plan; /* without faults */
    struct harness_launch_config config;
    struct harness_proc_job job;
    struct harness_proc_mpirun mpirun;
    struct harness_proc_rank ranks[RANKS];
    struct harness_proc_mpirun_guard guards[RANKS];
    pid_t sleepers[2 * RANKS + 1];
    size_t sleeper_count;
    struct ddp_err err;
};

static pid_t start_sleeper(struct rig *rig)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid == 0) {
        sigset_t none;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        (void)sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)pause();
        _exit(0);
    }
    rig->sleepers[rig->sleeper_count++] = pid;
    return pid;
}

static void say(struct rig *rig, uint32_t rank, enum harness_proc_report_kind kind, int code,
                int status)
{
    struct harness_proc_guard_report word = {
        .rank = rank, .kind = kind, .code = code, .status = status};

    if (rank < RANKS && kind == HARNESS_PROC_REPORT_STARTED) {
        word.guard_pid = start_sleeper(rig);
        word.rank_pid = start_sleeper(rig);
    }
    CT_CHECK(write(rig->mpirun.pipe_fd[1], &word, sizeof(word)) == (ssize_t)sizeof(word));
}

static ddp_status look(struct rig *rig)
{
    bool has_events;

    return harness_proc_mpirun_poll(&rig->job, &has_events);
}

static void init(struct rig *rig)
{
    struct harness_proc_job *job = &rig->job;
    size_t stride = ddp_recorder_size_bytes(64);
    size_t head_size_bytes = (sizeof(*job->head) + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;

    memset(rig, 0, sizeof(*rig));
    rig->config.plan = &rig->plan;
    *job = (struct harness_proc_job){.config = &rig->config,
                                     .mem = ddp_mem_system(),
                                     .clock = ddp_clock_monotonic(),
                                     .err = &rig->err,
                                     .world_size = RANKS,
                                     .ranks = rig->ranks,
                                     .not_started_count = RANKS,
                                     .mpirun = &rig->mpirun,
                                     .epoll_fd = -1,
                                     .signal_fd = -1,
                                     .timer_fd = -1};
    job->head = aligned_alloc(PAGE_BYTES, head_size_bytes + RANKS * stride);
    CT_REQUIRE(job->head != NULL);
    memset(job->head, 0, head_size_bytes + RANKS * stride);
    job->head->recorder_offset_bytes = head_size_bytes;
    job->head->recorder_stride_bytes = stride;
    job->head->ring_entry_count = 64;
    harness_conclusions_init(&job->conclusions, job->mem);
    CT_REQUIRE_OK(ddp_mem_pool_create(&job->pool));
    CT_CHECK_OK(harness_proc_loop_open(job));
    rig->mpirun.guards = rig->guards;
    CT_CHECK(pipe2(rig->mpirun.pipe_fd, O_CLOEXEC | O_NONBLOCK) == 0);
    rig->mpirun.pid = start_sleeper(rig);
    for (uint32_t r = 0; r < RANKS; r++) {
        rig->guards[r].fd = -1;
        rig->ranks[r].pid_fd = -1;
        say(rig, r, HARNESS_PROC_REPORT_STARTED, 0, 0);
    }
    CT_CHECK_OK(look(rig));
    CT_CHECK_EQ_U64(job->alive_count, RANKS);
    CT_CHECK_EQ_U64(job->not_started_count, 0);
}

static void fini(struct rig *rig)
{
    for (size_t i = 0; i < rig->sleeper_count; i++) {
        (void)kill(rig->sleepers[i], SIGKILL);
        (void)waitpid(rig->sleepers[i], NULL, 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        if (rig->guards[r].fd >= 0) {
            (void)close(rig->guards[r].fd);
        }
        if (rig->ranks[r].pid_fd >= 0) {
            (void)close(rig->ranks[r].pid_fd);
        }
    }
    (void)close(rig->mpirun.pipe_fd[0]);
    (void)close(rig->mpirun.pipe_fd[1]);
    harness_proc_loop_close(&rig->job);
    harness_conclusions_fini(&rig->job.conclusions);
    ddp_mem_pool_destroy(rig->job.pool);
    free(rig->job.head);
}

/* Kill a process and wait until it is a zombie. */
static void kill_sleeper(pid_t pid)
{
    siginfo_t info;

    CT_CHECK(kill(pid, SIGKILL) == 0);
    CT_CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
}

/* The guard was told that nothing more is expected of it. */
static bool is_released(const struct rig *rig, uint32_t rank)
{
    siginfo_t info = {.si_pid = 0};

    if (!rig->guards[rank].is_released) {
        CT_CHECK(waitid(P_PID, (id_t)rig->guards[rank].pid, &info, WEXITED | WNOHANG | WNOWAIT) ==
                     0 &&
                 info.si_pid == 0);
        return false;
    }
    CT_CHECK(waitid(P_PID, (id_t)rig->guards[rank].pid, &info, WEXITED | WNOWAIT) == 0);
    CT_CHECK_EQ_I64(info.si_status, HARNESS_PROC_GUARD_RELEASE);
    return true;
}

static enum harness_process_state published(const struct rig *rig, uint32_t rank)
{
    return harness_proc_state_load(&rig->job.head->states[rank]).state;
}

/* Ends of a healthy job free their guards one by one. */
CT_TEST(proc_words, releases_guards_of_a_healthy_job)
{
    struct rig rig;

    init(&rig);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
    CT_CHECK_OK(look(&rig));
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_STOPPED);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_CONTINUED, SIGCONT);
    CT_CHECK_OK(look(&rig));
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_RUNNING);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK(!is_released(&rig, r));
        say(&rig, r, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 0);
        CT_CHECK_OK(look(&rig));
        CT_CHECK(is_released(&rig, r));
        CT_CHECK_EQ_U64(published(&rig, r), HARNESS_PROCESS_EXITED);
    }
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
    fini(&rig);
}

/* mpirun hears of the first failure at once, and of no other; whom it ends is no crash. */
CT_TEST(proc_words, tells_mpirun_of_the_first_failure_alone)
{
    struct rig rig;

    init(&rig);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGSEGV);
    say(&rig, 2, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 1);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(is_released(&rig, 1));
    CT_CHECK(!is_released(&rig, 2));
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_SIGNALED);
    CT_CHECK_EQ_U64(published(&rig, 2), HARNESS_PROCESS_EXITED);
    say(&rig, 0, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    say(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(!is_released(&rig, 0));
    CT_CHECK(rig.ranks[0].is_ended_by_us && !rig.ranks[1].is_ended_by_us);
    CT_CHECK_EQ_U64(published(&rig, 0), HARNESS_PROCESS_RUNNING);
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
    fini(&rig);
}

/* The launcher ends a stopped rank, which continues it; mpirun, told of another's end, orders the
 * same once more. The rank was stopped when it was ended. */
CT_TEST(proc_words, remembers_a_stop_through_a_second_order)
{
    struct rig rig;

    init(&rig);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
    CT_CHECK_OK(look(&rig));
    rig.job.is_reaping = true;
    harness_proc_rank_note_end_order(&rig.ranks[1]);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_CONTINUED, SIGCONT);
    say(&rig, 1, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(rig.ranks[1].is_ended_by_us && rig.ranks[1].is_stopped_at_end);
    fini(&rig);
}

/* A stop that its fault ends soon is published as such: how late the launcher is to end it says
 * nothing about the rank. */
CT_TEST(proc_words, tells_brief_stops_from_others)
{
    static const struct {
        uint64_t ms;
        bool is_brief;
    } rows[] = {{0, false}, {40, true}, {79, true}, {80, false}, {5000, false}};
    struct harness_fault fault = {.action.kind = HARNESS_ACTION_STOP};
    struct rig rig;
    struct ddp_recorder recorder;

    init(&rig);
    rig.plan.faults = &fault;
    rig.plan.fault_count = 1;
    ddp_recorder_init(&recorder, harness_proc_recorder(rig.job.head, 1), 64, rig.job.clock, 1,
                      RANKS, 1);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(!harness_proc_state_load(&rig.job.head->states[1]).is_brief); /* nobody planned it */
    ddp_recorder_event(&recorder, DDP_EVENT_FAULT_FIRED, 0, 0, 1, 0, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fault.action.stop_ms = rows[i].ms;
        say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
        CT_CHECK_OK(look(&rig));
        CT_CHECK(harness_proc_state_load(&rig.job.head->states[1]).is_brief == rows[i].is_brief);
        CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_STOPPED);
        CT_CHECK_EQ_I64(harness_proc_state_load(&rig.job.head->states[1]).code, SIGSTOP);
        say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_CONTINUED, SIGCONT);
        CT_CHECK_OK(look(&rig));
        CT_CHECK(!harness_proc_state_load(&rig.job.head->states[1]).is_brief);
    }
    fini(&rig);
}

/* mpirun, told to end by somebody, kills a guard before that could say a word: its rank is a victim
 * like the one whose guard could. */
CT_TEST(proc_words, takes_a_silent_guard_for_a_victim)
{
    struct rig rig;

    init(&rig);
    say(&rig, 0, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    say(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(!is_released(&rig, 0));
    for (uint32_t r = 1; r < RANKS; r++) {
        kill_sleeper(rig.guards[r].pid);
        CT_CHECK_OK(look(&rig));
        CT_CHECK(harness_proc_rank_is_alive(&rig.ranks[r])); /* its end is still to be seen */
        kill_sleeper(rig.ranks[r].pid);
        CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
        CT_CHECK_OK(look(&rig));
        CT_CHECK(rig.ranks[r].is_ended_by_us);
        CT_CHECK_EQ_U64(published(&rig, r), HARNESS_PROCESS_RUNNING);
    }
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_REQUIRE(rig.job.conclusions.reported.count == 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_CRASH_LAUNCHER);
    CT_CHECK_EQ_U64(harness_rank_set_count(&rig.job.conclusions.reported.items[0].finding.victims),
                    RANKS);
    fini(&rig);
}

/* A guard that is killed while all is well takes its rank with it: a crash, of which mpirun knows.
 * Those after it are mpirun's victims. */
CT_TEST(proc_words, takes_the_first_silent_guard_for_a_crash)
{
    struct rig rig;

    init(&rig);
    kill_sleeper(rig.guards[1].pid);
    kill_sleeper(rig.ranks[1].pid);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(!rig.ranks[1].is_ended_by_us);
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_SIGNALED);
    kill_sleeper(rig.guards[2].pid);
    kill_sleeper(rig.ranks[2].pid);
    CT_CHECK_OK(look(&rig));
    CT_CHECK(rig.ranks[2].is_ended_by_us);
    CT_CHECK_EQ_U64(published(&rig, 2), HARNESS_PROCESS_RUNNING);
    CT_CHECK_EQ_U64(rig.job.alive_count, 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
    fini(&rig);
}

/* A look that comes late finds, with the silence of the guard that was killed, what it led to: a
 * rank that gave up, and one that mpirun was to end. The cause is still the crash. */
CT_TEST(proc_words, takes_a_silent_guard_for_the_cause_of_what_came_with_it)
{
    struct rig rig;

    init(&rig);
    kill_sleeper(rig.guards[2].pid);
    kill_sleeper(rig.ranks[2].pid);
    say(&rig, 0, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    say(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 1);
    say(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(look(&rig));
    CT_CHECK_EQ_U64(published(&rig, 2), HARNESS_PROCESS_SIGNALED);
    CT_CHECK(!rig.ranks[2].is_ended_by_us && !rig.ranks[1].is_ended_by_us);
    CT_CHECK(rig.ranks[0].is_ended_by_us);
    CT_CHECK(!is_released(&rig, 0) && !is_released(&rig, 1));
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count,
                    0); /* mpirun did not end the job by itself */
    fini(&rig);
}

/* The same for mpirun's own doing: the guard that was told to end its rank, then killed, is none.
 */
CT_TEST(proc_words, takes_a_guard_that_had_its_order_for_a_victim)
{
    struct rig rig;

    init(&rig);
    for (uint32_t r = 0; r < RANKS; r++) {
        say(&rig, r, HARNESS_PROC_REPORT_ORDERED, 0, 0);
        kill_sleeper(rig.guards[r].pid);
        kill_sleeper(rig.ranks[r].pid);
    }
    CT_CHECK_OK(look(&rig));
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_REQUIRE(rig.job.conclusions.reported.count == 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_CRASH_LAUNCHER);
    fini(&rig);
}

/* mpirun is gone and its ranks run: said at once. */
CT_TEST(proc_words, says_that_mpirun_is_gone)
{
    struct rig rig;

    init(&rig);
    kill_sleeper(rig.mpirun.pid);
    CT_CHECK_OK(look(&rig));
    CT_CHECK_OK(look(&rig));
    CT_REQUIRE(rig.job.conclusions.reported.count == 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_CRASH_LAUNCHER);
    CT_CHECK(strstr(rig.job.conclusions.reported.items[0].finding.text, "by signal 9") != NULL);
    fini(&rig);
}

/* Two guards of one rank, or of one too many: the job cannot go on. */
CT_TEST(proc_words, refuses_ranks_that_it_did_not_ask_for)
{
    struct rig rig;

    init(&rig);
    say(&rig, RANKS, HARNESS_PROC_REPORT_STARTED, 0, 0);
    CT_CHECK_STATUS(look(&rig), DDP_E_STATE);
    CT_CHECK(strstr(rig.err.text, "rank 3 of 3") != NULL);
    say(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 0);
    CT_CHECK_OK(look(&rig));
    fini(&rig);
}
