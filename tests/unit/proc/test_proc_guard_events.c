/* What the launcher concludes from reports of guards, and from guards that die without one.
 * Sleeping processes stand in for mpirun, guards and ranks. */
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

static void report(struct rig *rig, uint32_t rank, enum harness_proc_report_kind kind, int code,
                   int status)
{
    struct harness_proc_guard_report message = {
        .rank = rank, .kind = kind, .code = code, .status = status};

    if (rank < RANKS && kind == HARNESS_PROC_REPORT_STARTED) {
        message.guard_pid = start_sleeper(rig);
        message.rank_pid = start_sleeper(rig);
    }
    CT_CHECK(write(rig->mpirun.pipe_fd[1], &message, sizeof(message)) == (ssize_t)sizeof(message));
}

static ddp_status poll_guards(struct rig *rig)
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
        report(rig, r, HARNESS_PROC_REPORT_STARTED, 0, 0);
    }
    CT_CHECK_OK(poll_guards(rig));
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

/* The guard got the signal that releases it. */
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

/* A rank that ended well keeps its guard until the job is closed: the guard's end would interrupt
 * the time that mpirun gives the others if one of them failed meanwhile. */
CT_TEST(proc_guard_events, keeps_guards_of_a_healthy_job)
{
    struct rig rig;

    init(&rig);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_STOPPED);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_CONTINUED, SIGCONT);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_RUNNING);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK(!is_released(&rig, r));
        report(&rig, r, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 0);
        CT_CHECK_OK(poll_guards(&rig));
        CT_CHECK(!is_released(&rig, r));
        CT_CHECK_EQ_U64(published(&rig, r), HARNESS_PROCESS_EXITED);
    }
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
    fini(&rig);
}

/* The guard of the first failed rank is released at once, and no other; ranks that mpirun ends have
 * not crashed. */
CT_TEST(proc_guard_events, releases_only_the_first_failed_guard)
{
    struct rig rig;

    init(&rig);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGSEGV);
    report(&rig, 2, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 1);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(is_released(&rig, 1));
    CT_CHECK(!is_released(&rig, 2));
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_SIGNALED);
    CT_CHECK_EQ_U64(published(&rig, 2), HARNESS_PROCESS_EXITED);
    report(&rig, 0, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    report(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(!is_released(&rig, 0));
    CT_CHECK(rig.ranks[0].is_ended_by_us && !rig.ranks[1].is_ended_by_us);
    CT_CHECK_EQ_U64(published(&rig, 0), HARNESS_PROCESS_RUNNING);
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
    fini(&rig);
}

/* The launcher ends a stopped rank, which continues it; then mpirun orders its end too, because of
 * another rank. It is recorded that the rank was stopped when it was ended. */
CT_TEST(proc_guard_events, records_a_stop_at_the_first_order)
{
    struct rig rig;

    init(&rig);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
    CT_CHECK_OK(poll_guards(&rig));
    rig.job.is_reaping = true;
    harness_proc_rank_note_end_order(&rig.ranks[1]);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_CONTINUED, SIGCONT);
    report(&rig, 1, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(rig.ranks[1].is_ended_by_us && rig.ranks[1].is_stopped_at_end);
    fini(&rig);
}

/* A stop that its fault is to end soon is published as brief, so that it is no hang if the launcher
 * ends it late. */
CT_TEST(proc_guard_events, marks_brief_stops)
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
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(!harness_proc_state_load(&rig.job.head->states[1]).is_brief); /* nobody planned it */
    ddp_recorder_event(&recorder, DDP_EVENT_FAULT_FIRED, 0, 0, 1, 0, 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fault.action.stop_ms = rows[i].ms;
        report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_STOPPED, SIGSTOP);
        CT_CHECK_OK(poll_guards(&rig));
        CT_CHECK(harness_proc_state_load(&rig.job.head->states[1]).is_brief == rows[i].is_brief);
        CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_STOPPED);
        CT_CHECK_EQ_I64(harness_proc_state_load(&rig.job.head->states[1]).code, SIGSTOP);
        report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_CONTINUED, SIGCONT);
        CT_CHECK_OK(poll_guards(&rig));
        CT_CHECK(!harness_proc_state_load(&rig.job.head->states[1]).is_brief);
    }
    fini(&rig);
}

/* mpirun, which was ordered to end, kills a guard before it has reported: its rank is a victim, as
 * is a rank whose guard has reported. */
CT_TEST(proc_guard_events, silent_guard_of_an_ending_job_is_a_victim)
{
    struct rig rig;

    init(&rig);
    report(&rig, 0, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    report(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(!is_released(&rig, 0));
    for (uint32_t r = 1; r < RANKS; r++) {
        kill_sleeper(rig.guards[r].pid);
        CT_CHECK_OK(poll_guards(&rig));
        CT_CHECK(harness_proc_rank_is_alive(&rig.ranks[r])); /* its end is still to be seen */
        kill_sleeper(rig.ranks[r].pid);
        CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
        CT_CHECK_OK(poll_guards(&rig));
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

/* A guard is killed in a healthy job, and its rank dies with it: a crash. mpirun sees that, and
 * later ends are its doing. */
CT_TEST(proc_guard_events, first_silent_guard_is_a_crash)
{
    struct rig rig;

    init(&rig);
    kill_sleeper(rig.guards[1].pid);
    kill_sleeper(rig.ranks[1].pid);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(!rig.ranks[1].is_ended_by_us);
    CT_CHECK_EQ_U64(published(&rig, 1), HARNESS_PROCESS_SIGNALED);
    kill_sleeper(rig.guards[2].pid);
    kill_sleeper(rig.ranks[2].pid);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK(rig.ranks[2].is_ended_by_us);
    CT_CHECK_EQ_U64(published(&rig, 2), HARNESS_PROCESS_RUNNING);
    CT_CHECK_EQ_U64(rig.job.alive_count, 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count, 0);
    fini(&rig);
}

/* One late poll finds a guard that was killed, and also its consequences: a rank that gave up, and
 * one that mpirun ended. The cause is still the crash. */
CT_TEST(proc_guard_events, silent_guard_is_the_cause_of_other_events)
{
    struct rig rig;

    init(&rig);
    kill_sleeper(rig.guards[2].pid);
    kill_sleeper(rig.ranks[2].pid);
    report(&rig, 0, HARNESS_PROC_REPORT_ORDERED, 0, 0);
    report(&rig, 1, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 1);
    report(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_KILLED, SIGTERM);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK_EQ_U64(published(&rig, 2), HARNESS_PROCESS_SIGNALED);
    CT_CHECK(!rig.ranks[2].is_ended_by_us && !rig.ranks[1].is_ended_by_us);
    CT_CHECK(rig.ranks[0].is_ended_by_us);
    CT_CHECK(!is_released(&rig, 0) && !is_released(&rig, 1));
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.count,
                    0); /* mpirun did not end the job by itself */
    fini(&rig);
}

/* But a guard that had reported mpirun's order, and was then killed, is a victim. */
CT_TEST(proc_guard_events, killed_guard_with_an_order_is_a_victim)
{
    struct rig rig;

    init(&rig);
    for (uint32_t r = 0; r < RANKS; r++) {
        report(&rig, r, HARNESS_PROC_REPORT_ORDERED, 0, 0);
        kill_sleeper(rig.guards[r].pid);
        kill_sleeper(rig.ranks[r].pid);
    }
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK_EQ_U64(rig.job.alive_count, 0);
    CT_REQUIRE(rig.job.conclusions.reported.count == 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_CRASH_LAUNCHER);
    fini(&rig);
}

/* mpirun has ended while its ranks run: reported at once. */
CT_TEST(proc_guard_events, reports_the_end_of_mpirun)
{
    struct rig rig;

    init(&rig);
    kill_sleeper(rig.mpirun.pid);
    CT_CHECK_OK(poll_guards(&rig));
    CT_CHECK_OK(poll_guards(&rig));
    CT_REQUIRE(rig.job.conclusions.reported.count == 1);
    CT_CHECK_EQ_U64(rig.job.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_CRASH_LAUNCHER);
    CT_CHECK(strstr(rig.job.conclusions.reported.items[0].finding.text, "by signal 9") != NULL);
    fini(&rig);
}

/* Two guards of one rank, or a guard of a rank that does not exist: the job cannot go on. */
CT_TEST(proc_guard_events, refuses_unexpected_ranks)
{
    struct rig rig;

    init(&rig);
    report(&rig, RANKS, HARNESS_PROC_REPORT_STARTED, 0, 0);
    CT_CHECK_STATUS(poll_guards(&rig), DDP_E_STATE);
    CT_CHECK(strstr(rig.err.text, "rank 3 of 3") != NULL);
    report(&rig, 0, HARNESS_PROC_REPORT_CHANGED, CLD_EXITED, 0);
    CT_CHECK_OK(poll_guards(&rig));
    fini(&rig);
}
