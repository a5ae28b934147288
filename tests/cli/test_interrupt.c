/* Whatever ends ddprove, or a process of its own, nothing of a run survives it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/cli/job.h"
#include "tests/ct.h"

#define SCENARIOS DDPROVE_SOURCE_DIR "/scenarios"

/* A rank hangs while it fetches data, and may do so for longer than any test lasts. */
static const char *const hanging[] = {"ddprove",
                                      "run",
                                      SCENARIOS "/hang/in_data.yaml",
                                      "--driver",
                                      "proc",
                                      "--out",
                                      "@/out",
                                      "--set",
                                      "job.phase_budget_ms.data=60000",
                                      "--set",
                                      "faults.0.at.rank=1",
                                      NULL};
/* A rank is stopped; that is named at once, and ended two seconds later. */
static const char *const stopped[] = {"ddprove",  "run",   SCENARIOS "/stop/sigstop_forever.yaml",
                                      "--driver", "proc",  "--out",
                                      "@/out",    "--set", "faults.0.at.rank=1",
                                      NULL};

/* Worker and four ranks bear the program's name. */
enum { PROCESSES = 5 };

static void start_hanging(struct cli_job *job, bool has_terminal, int ignored)
{
    cli_job_init(job);
    cli_job_start(job, hanging, has_terminal, ignored);
    CT_CHECK(cli_job_await(job, "ddprove-monitor", 1));
    CT_CHECK(cli_job_await(job, "ddprove", PROCESSES));
}

static void check_end(struct cli_job *job, int code)
{
    CT_CHECK_EQ_I64(cli_job_wait(job), code);
    cli_job_check_gone(job);
    cli_job_fini(job);
}

static void check_signal(int signal_number, int code)
{
    struct cli_job job;

    start_hanging(&job, false, 0);
    CT_CHECK(kill(job.pid, signal_number) == 0);
    check_end(&job, code);
}

static void check_signal_stopped(int signal_number, int code)
{
    struct cli_job job;

    cli_job_init(&job);
    cli_job_start(&job, stopped, false, 0);
    CT_CHECK(cli_job_await_state(&job, 'T', 1));
    CT_CHECK(kill(job.pid, signal_number) == 0);
    check_end(&job, code);
}

/* SIGINT ends everything, and the exit code says so. */
CT_TEST(cli_interrupt, sigint)
{
    check_signal(SIGINT, 130);
}

/* What was done is reported, also after an interrupt. */
CT_TEST(cli_interrupt, reports_are_written)
{
    static const char *const argv[] = {"ddprove",
                                       "run",
                                       SCENARIOS "/control/dummy_injection.yaml",
                                       SCENARIOS "/hang/in_data.yaml",
                                       "--driver",
                                       "proc",
                                       "-j",
                                       "1",
                                       "--out",
                                       "@/out",
                                       "--json",
                                       "@/report.json",
                                       "--junit",
                                       "@/report.xml",
                                       "--set",
                                       "job.phase_budget_ms.data=60000",
                                       "--set",
                                       "faults.0.at.rank=1",
                                       NULL};
    static char report[65536];
    struct cli_job job;

    cli_job_init(&job);
    cli_job_start(&job, argv, true, 0);
    CT_CHECK(cli_job_await_shown(&job, "PASS"));
    CT_CHECK(cli_job_await(&job, "ddprove-monitor", 1));
    CT_CHECK(cli_job_await(&job, "ddprove", PROCESSES));
    CT_CHECK(write(job.terminal_fd, "\003", 1) == 1);
    CT_CHECK_EQ_I64(cli_job_wait(&job), 130);
    CT_CHECK(strstr(job.shown, "1 of 2 cells done") != NULL);
    CT_CHECK(strstr(job.shown, "1 passed, 0 failed") != NULL);
    cli_job_read(&job, "report.json", report, sizeof report);
    CT_CHECK(strstr(report, "interrupted by SIGINT") != NULL);
    cli_job_read(&job, "report.xml", report, sizeof report);
    CT_CHECK(strstr(report, "</testsuite") != NULL);
    cli_job_check_gone(&job);
    cli_job_fini(&job);
}

/* SIGTERM ends everything, and the exit code says so. */
CT_TEST(cli_interrupt, sigterm)
{
    check_signal(SIGTERM, 143);
}

/* The end of the session ends everything, and the exit code says so. */
CT_TEST(cli_interrupt, sighup)
{
    check_signal(SIGHUP, 129);
}

/* Killed at once, it still takes everything along. */
CT_TEST(cli_interrupt, sigkill)
{
    check_signal(SIGKILL, 137);
}

/* A stopped rank ends with an interrupted run. */
CT_TEST(cli_interrupt, sigint_with_stopped_rank)
{
    check_signal_stopped(SIGINT, 130);
}

/* A stopped rank ends with a killed run. */
CT_TEST(cli_interrupt, sigkill_with_stopped_rank)
{
    check_signal_stopped(SIGKILL, 137);
}

/* Ctrl-C reaches every process of the foreground; the run ends once, as if it alone was asked. */
CT_TEST(cli_interrupt, ctrl_c)
{
    struct cli_job job;

    start_hanging(&job, true, 0);
    CT_CHECK(write(job.terminal_fd, "\003", 1) == 1);
    check_end(&job, 130);
}

/* A signal that the parent told it to ignore does not end the run (nohup). */
CT_TEST(cli_interrupt, ignored_stays_ignored)
{
    struct cli_job job;

    start_hanging(&job, false, SIGHUP);
    CT_CHECK(kill(job.pid, SIGHUP) == 0);
    CT_CHECK(kill(job.pid, SIGTERM) == 0);
    check_end(&job, 143);
}

/* A worker that is killed is an ERROR of its cell: monitor and ranks are gone, the run goes on. */
CT_TEST(cli_interrupt, worker_killed)
{
    struct cli_process list[CLI_JOB_PROCESSES_MAX];
    struct cli_job job;
    char log[4096];
    size_t count;

    start_hanging(&job, false, 0);
    count = cli_job_descendants(&job, list);
    for (size_t i = 0; i < count; i++) {
        if (list[i].parent == job.pid) {
            CT_CHECK(kill(list[i].pid, SIGKILL) == 0);
        }
    }
    CT_CHECK_EQ_I64(cli_job_wait(&job), 3);
    cli_job_check_gone(&job);
    cli_job_read(&job, "log", log, sizeof(log));
    CT_CHECK(strstr(log, "the harness itself ended by signal 9") != NULL);
    CT_CHECK(strstr(log, "reproduce: ddprove run ") != NULL);
    cli_job_fini(&job);
}

/* Kill the only worker that there is. False: there was none, or it had just ended. */
static bool kill_worker(const struct cli_job *job)
{
    struct cli_process list[CLI_JOB_PROCESSES_MAX];
    bool is_killed = false;
    size_t count = 1;

    /* Who is stopped all the time does not come so far as to have one. */
    if (cli_job_descendants(job, list) == 0) {
        return false;
    }
    CT_CHECK(kill(job->pid, SIGSTOP) == 0); /* so that a worker that ends stays a zombie */
    for (count = cli_job_descendants(job, list); count == 1 && list[0].state != 'Z' && !is_killed;
         count = cli_job_descendants(job, list)) {
        (void)kill(list[0].pid, SIGSTOP);
        is_killed = list[0].state == 'T' && kill(list[0].pid, SIGKILL) == 0;
    }
    CT_CHECK(kill(job->pid, SIGCONT) == 0);
    return is_killed;
}

/* Simulated cells share a worker: its death is the ERROR of the one that it was at, and another
 * worker takes those that it had not begun. */
CT_TEST(cli_interrupt, shared_worker_killed)
{
    static const char *const argv[] = {"ddprove",  "run",   SCENARIOS "/hang/in_data.yaml",
                                       "--driver", "sim",   "--seeds",
                                       "40",       "-j",    "1",
                                       "--out",    "@/out", NULL};
    static char log[65536];
    struct cli_job job;

    cli_job_init(&job);
    cli_job_start(&job, argv, false, 0);
    while (!kill_worker(&job)) {
    }
    CT_CHECK_EQ_I64(cli_job_wait(&job), 3);
    cli_job_check_gone(&job);
    cli_job_read(&job, "log", log, sizeof(log));
    CT_CHECK(strstr(log, "the harness itself ended by signal 9") != NULL);
    CT_CHECK(strstr(log, "119 passed, 1 failed") != NULL);
    cli_job_fini(&job);
}

/* Without its monitor the run still finds who hangs, and leaves nothing behind. */
CT_TEST(cli_interrupt, monitor_killed)
{
    static const char *const argv[] = {"ddprove",
                                       "run",
                                       SCENARIOS "/hang/in_data.yaml",
                                       "--driver",
                                       "proc",
                                       "--out",
                                       "@/out",
                                       "--set",
                                       "job.phase_budget_ms.data=2000",
                                       "--set",
                                       "faults.0.at.rank=1",
                                       NULL};
    struct cli_job job;
    char log[4096];
    pid_t monitor;

    cli_job_init(&job);
    cli_job_start(&job, argv, false, 0);
    CT_CHECK(cli_job_await(&job, "ddprove-monitor", 1));
    CT_CHECK(cli_job_await(&job, "ddprove", PROCESSES));
    monitor = cli_job_find(&job, "ddprove-monitor");
    CT_REQUIRE(monitor > 0);
    CT_CHECK(kill(monitor, SIGKILL) == 0);
    CT_CHECK_EQ_I64(cli_job_wait(&job), 0);
    cli_job_check_gone(&job);
    cli_job_read(&job, "log", log, sizeof(log));
    CT_CHECK(strstr(log, "HANG.DATA  rank 1  step 2 data") != NULL);
    cli_job_fini(&job);
}

/* An interrupted `train` takes its temporary folder along. */
CT_TEST(cli_interrupt, train)
{
    static const char *const argv[] = {"ddprove",
                                       "train",
                                       SCENARIOS "/hang/in_data.yaml",
                                       "--set",
                                       "job.phase_budget_ms.data=60000",
                                       NULL};
    struct cli_job job;

    cli_job_init(&job);
    cli_job_start(&job, argv, false, 0);
    CT_CHECK(cli_job_await(&job, "ddprove", PROCESSES));
    CT_CHECK(kill(job.pid, SIGINT) == 0);
    check_end(&job, 130);
}

/* However many cells it has run, ddprove has a handful of descriptors open. */
CT_TEST(cli_interrupt, descriptors_do_not_pile_up)
{
    static const char *const argv[] = {"ddprove",  "run",   SCENARIOS "/hang/in_data.yaml",
                                       "--driver", "sim",   "--seeds",
                                       "40",       "-j",    "2",
                                       "--out",    "@/out", NULL};
    struct cli_job job;
    size_t most = 0;
    size_t looks = 0;
    size_t count;

    cli_job_init(&job);
    cli_job_start(&job, argv, false, 0);
    CT_CHECK(cli_job_await(&job, "ddprove", 1));
    while ((count = cli_job_fd_count(&job)) > 0) {
        most = count > most ? count : most;
        looks++;
    }
    CT_CHECK(looks > 100);
    /* 120 cells: one left open in every tenth would show. */
    CT_CHECK(most < 16);
    check_end(&job, 0);
}
