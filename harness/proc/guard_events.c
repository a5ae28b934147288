/* mpirun as launcher: what guards report, and what follows. The guard of the first rank that fails
 * is released at once, the others when all ranks have ended. So mpirun sees the first failure and
 * does what it always does (SIGTERM to all after a second); ranks that end before that end by
 * themselves, and ranks that mpirun ends are victims. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/proc/guard.h"
#include "harness/proc/mpirun.h"

enum { REPORTS_AT_A_TIME = 64 };

void harness_proc_mpirun_release(struct harness_proc_mpirun *mpirun, uint32_t rank)
{
    struct harness_proc_mpirun_guard *guard = &mpirun->guards[rank];

    if (guard->fd >= 0 && !guard->is_released) {
        guard->is_released = true;
        (void)syscall(SYS_pidfd_send_signal, guard->fd, HARNESS_PROC_GUARD_RELEASE, NULL, 0);
    }
}

static ddp_status note_start(struct harness_proc_job *job,
                             const struct harness_proc_guard_report *report)
{
    struct harness_proc_rank *rank = &job->ranks[report->rank];
    struct harness_proc_mpirun_guard *guard = &job->mpirun->guards[report->rank];

    if (rank->pid != 0) {
        return ddp_err_set(job->err, DDP_E_STATE, "mpirun started rank %" PRIu32 " twice",
                           report->rank);
    }
    rank->pid = report->rank_pid;
    job->not_started_count--;
    job->mpirun->started_count++;
    DDP_ASSERT(guard->pid == 0 && guard->fd < 0);
    guard->pid = report->guard_pid;
    guard->fd = (int)syscall(SYS_pidfd_open, guard->pid, 0);
    DDP_TRY(harness_proc_loop_note_start(job, report->rank));
    if (job->is_reaping) {
        rank->is_ended_by_us = true;
        (void)kill(-rank->pid, SIGKILL);
    }
    return guard->fd >= 0 ? harness_proc_loop_add(job, guard->fd) : DDP_OK;
}

/* mpirun ends the ranks, or will do so. */
static bool is_ending(const struct harness_proc_mpirun *mpirun)
{
    return mpirun->has_failure || mpirun->is_order_unprovoked || mpirun->is_ended;
}

/* A rank ended. Of the first failure, mpirun learns at the end of this poll, when killed guards are
 * known too. All other guards are kept until all ranks have ended: each end of a guard interrupts
 * the second of sleep that mpirun gives the others before it sends SIGTERM, and a rank with MPI
 * that ended well may not have called MPI_Finalize, for which mpirun would end the job. */
static void note_end(struct harness_proc_job *job, uint32_t rank)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    const struct harness_proc_rank *self = &job->ranks[rank];
    bool is_failure = self->process.state != HARNESS_PROCESS_EXITED || self->process.code != 0;

    if (!is_ending(mpirun) && is_failure && !self->is_ended_by_us) {
        mpirun->has_failure = true;
        mpirun->failed = &mpirun->guards[rank];
    }
}

static ddp_status note_report(struct harness_proc_job *job,
                              const struct harness_proc_guard_report *report)
{
    struct harness_proc_rank *rank;

    if (report->rank >= job->world_size) {
        return ddp_err_set(job->err, DDP_E_STATE, "mpirun started rank %" PRIu32 " of %" PRIu32,
                           report->rank, job->world_size);
    }
    if (report->kind == HARNESS_PROC_REPORT_STARTED) {
        return note_start(job, report);
    }
    rank = &job->ranks[report->rank];
    if (!harness_proc_rank_is_alive(rank)) {
        return DDP_OK;
    }
    if (report->kind == HARNESS_PROC_REPORT_ORDERED) {
        job->mpirun->is_order_unprovoked =
            job->mpirun->is_order_unprovoked || (!job->mpirun->has_failure && !job->is_reaping);
        harness_proc_rank_note_end_order(rank);
        return DDP_OK;
    }
    harness_proc_loop_note_change(job, report->rank, report->code, report->status);
    if (!harness_proc_rank_is_alive(rank)) {
        note_end(job, report->rank);
    }
    return DDP_OK;
}

static ddp_status read_reports(struct harness_proc_job *job, bool *has_events)
{
    struct harness_proc_guard_report reports[REPORTS_AT_A_TIME];
    ssize_t size;

    while ((size = read(job->mpirun->pipe_fd[0], reports, sizeof(reports))) > 0) {
        *has_events = true;
        for (size_t i = 0; i < (size_t)size / sizeof(reports[0]); i++) {
            DDP_TRY(note_report(job, &reports[i]));
        }
    }
    return DDP_OK;
}

static bool is_over(int pid_fd)
{
    struct pollfd watched = {.fd = pid_fd, .events = POLLIN};

    return pid_fd < 0 || poll(&watched, 1, 0) > 0;
}

/* A guard that ended without reporting its rank's end was killed, and the rank died with it. If
 * mpirun was ending the job before this poll, mpirun killed it; otherwise the rank counts as killed
 * by a signal, whoever sent it. Then failures and orders that were read in this poll are its
 * consequences: a rank that ends because a peer has died ends later, and mpirun reacts to the end
 * of the guard. */
static ddp_status poll_guard(struct harness_proc_job *job, uint32_t r, bool was_ending,
                             bool *has_events)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    struct harness_proc_mpirun_guard *guard = &mpirun->guards[r];
    struct harness_proc_rank *rank = &job->ranks[r];

    if (rank->pid == 0 || !is_over(guard->fd)) {
        return DDP_OK;
    }
    /* Reports that it wrote after the pipe was read; there are no later ones. */
    if (harness_proc_rank_is_alive(rank)) {
        DDP_TRY(read_reports(job, has_events));
    }
    if (!harness_proc_rank_is_alive(rank)) {
        if (guard->fd >= 0) {
            (void)close(guard->fd);
            guard->fd = -1;
        }
    } else if (is_over(rank->pid_fd)) {
        rank->is_ended_by_us = rank->is_ended_by_us || was_ending;
        if (!rank->is_ended_by_us) {
            mpirun->is_order_unprovoked = false;
            mpirun->failed = NULL;
        }
        mpirun->has_failure = true;
        harness_proc_loop_note_change(job, r, CLD_KILLED, SIGKILL);
        *has_events = true;
    }
    return DDP_OK;
}

bool harness_proc_mpirun_is_ended(struct harness_proc_mpirun *mpirun)
{
    if (!mpirun->is_ended) {
        (void)waitid(P_PID, (id_t)mpirun->pid, &mpirun->end, WEXITED | WNOHANG);
        mpirun->is_ended = mpirun->end.si_pid != 0;
    }
    return mpirun->is_ended;
}

/* The first line of mpirun's output with more than dashes. */
static void read_first_line(const struct harness_proc_mpirun *mpirun, char *out, size_t size_bytes)
{
    FILE *file = fopen(mpirun->log_path, "re");

    (void)snprintf(out, size_bytes, "it printed nothing");
    while (file != NULL && fgets(out, (int)size_bytes, file) != NULL) {
        out[strcspn(out, "\n")] = '\0';
        if (out[strspn(out, "- ")] != '\0') {
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* mpirun has ended before all ranks ran. */
static ddp_status refuse_start(struct harness_proc_job *job)
{
    const struct harness_proc_mpirun *mpirun = job->mpirun;
    char line[160];

    read_first_line(mpirun, line, sizeof(line));
    return ddp_err_set(job->err, DDP_E_SYSTEM,
                       "mpirun started %" PRIu32 " of %" PRIu32 " ranks and ended %s %d: %s (see "
                       "launcher.log in the run folder)",
                       mpirun->started_count, job->world_size,
                       mpirun->end.si_code == CLD_EXITED ? "with code" : "by signal",
                       mpirun->end.si_status, line);
}

/* mpirun ended the job, or ended itself, while no rank had failed. */
static void report_launcher_end(struct harness_proc_job *job)
{
    const struct harness_proc_mpirun *mpirun = job->mpirun;
    struct harness_finding finding;

    harness_finding_init(&finding, ddp_mem_pool_mem(job->pool), HARNESS_VERDICT_CRASH_LAUNCHER,
                         HARNESS_ORACLE_LAUNCHER, HARNESS_MODE_PROVABLE);
    for (uint32_t r = 0; r < job->world_size; r++) {
        if (harness_proc_rank_is_alive(&job->ranks[r]) || job->ranks[r].is_ended_by_us) {
            harness_rank_set_add(&finding.victims, r);
        }
    }
    if (mpirun->is_ended) {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "mpirun ended %s %d while its ranks ran, and none of them had failed",
                       mpirun->end.si_code == CLD_EXITED ? "with code" : "by signal",
                       mpirun->end.si_status);
    } else {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "mpirun was told to end, and ended its ranks, of which none had failed");
    }
    (void)harness_conclusions_report(&job->conclusions, &finding, ddp_clock_now_ns(job->clock));
}

/* Whether mpirun itself is what ended the job. */
static ddp_status check_launcher(struct harness_proc_job *job)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    bool is_early = mpirun->is_ended && job->alive_count > 0 && !mpirun->has_failure;
    bool is_ordered = mpirun->is_order_unprovoked && job->alive_count + job->not_started_count == 0;

    if (job->is_reaping || mpirun->is_checked) {
        return DDP_OK;
    }
    if (mpirun->is_ended && job->not_started_count > 0) {
        if (job->conclusions.reported.count == 0) {
            return refuse_start(job);
        }
        /* The job failed, and mpirun ended before it had started all ranks. */
        job->not_started_count = 0;
    }
    if (is_early || is_ordered) {
        mpirun->is_checked = true;
        (void)harness_proc_mpirun_is_ended(mpirun); /* it may have ended since */
        report_launcher_end(job);
    }
    return DDP_OK;
}

ddp_status harness_proc_mpirun_poll(struct harness_proc_job *job, bool *out_has_events)
{
    struct harness_proc_mpirun *mpirun = job->mpirun;
    bool was_ending;

    *out_has_events = false;
    /* Before the pipe is read: if mpirun has ended, all reports of its guards are in there. */
    (void)harness_proc_mpirun_is_ended(mpirun);
    was_ending = is_ending(mpirun);
    /* Before the guards: if the death of a guard caused one of these reports, it is seen below. */
    DDP_TRY(read_reports(job, out_has_events));
    for (uint32_t r = 0; r < job->world_size; r++) {
        DDP_TRY(poll_guard(job, r, was_ending, out_has_events));
    }
    if (mpirun->failed != NULL) {
        harness_proc_mpirun_release(mpirun, (uint32_t)(mpirun->failed - mpirun->guards));
        mpirun->failed = NULL;
    }
    return check_launcher(job);
}
