/* On a terminal a run shows colours and how far it is; elsewhere neither. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cli/job.h"
#include "tests/ct.h"

#define ESCAPE "\033"

static const char *const argv[] = {"ddprove",  "run", DDPROVE_SOURCE_DIR "/scenarios/hang",
                                   "--driver", "sim", "--out",
                                   "@/out",    NULL};

static void run(struct cli_job *job, bool has_terminal, const char *no_color, const char *term)
{
    CT_REQUIRE(setenv("NO_COLOR", no_color, 1) == 0 && setenv("TERM", term, 1) == 0);
    cli_job_init(job);
    cli_job_start(job, argv, has_terminal, 0);
    CT_CHECK_EQ_I64(cli_job_wait(job), 0);
}

/* A terminal gets green PASS lines, each on a line of its own, and a line of progress that is gone
 * at the end. */
CT_TEST(cli_terminal, colours_and_progress)
{
    struct cli_job job;

    run(&job, true, "", "xterm");
    CT_CHECK(strstr(job.shown, ESCAPE "[32mPASS") != NULL);
    CT_CHECK(strstr(job.shown, " cells, ") != NULL);
    CT_CHECK(strstr(job.shown, " s left" ESCAPE "[K\r" ESCAPE "[K" ESCAPE "[32mPASS") != NULL);
    CT_CHECK(strstr(job.shown, " passed, 0 failed") != NULL);
    CT_REQUIRE(job.shown_size > 2);
    CT_CHECK_STR(job.shown + job.shown_size - 2, "\r\n");
    cli_job_fini(&job);
}

/* A cell that takes long is named, with its time. */
CT_TEST(cli_terminal, long_cell)
{
    static const char *const slow[] = {"ddprove",
                                       "run",
                                       DDPROVE_SOURCE_DIR "/scenarios/hang/in_data.yaml",
                                       "--driver",
                                       "proc",
                                       "--out",
                                       "@/out",
                                       "--set",
                                       "job.phase_budget_ms.data=60000",
                                       "--set",
                                       "faults.0.at.rank=1",
                                       NULL};
    struct cli_job job;

    CT_REQUIRE(setenv("TERM", "xterm", 1) == 0);
    cli_job_init(&job);
    cli_job_start(&job, slow, true, 0);
    CT_CHECK(cli_job_await_shown(&job, "0/1 cells"));
    CT_CHECK(cli_job_await_shown(&job, "; hang.in_data.proc since "));
    CT_CHECK(kill(job.pid, SIGINT) == 0);
    CT_CHECK_EQ_I64(cli_job_wait(&job), 130);
    cli_job_check_gone(&job);
    cli_job_fini(&job);
}

/* NO_COLOR takes the colours, not the progress. */
CT_TEST(cli_terminal, no_color)
{
    struct cli_job job;

    run(&job, true, "1", "xterm");
    CT_CHECK(strstr(job.shown, ESCAPE "[32m") == NULL);
    CT_CHECK(strstr(job.shown, "PASS ") != NULL);
    CT_CHECK(strstr(job.shown, " cells, ") != NULL);
    cli_job_fini(&job);
}

/* A terminal that knows no sequences gets none. */
CT_TEST(cli_terminal, dumb)
{
    struct cli_job job;

    run(&job, true, "", "dumb");
    CT_CHECK(strstr(job.shown, ESCAPE) == NULL);
    CT_CHECK(strstr(job.shown, " passed, 0 failed") != NULL);
    cli_job_fini(&job);
}

/* A file gets lines, nothing else. */
CT_TEST(cli_terminal, file)
{
    struct cli_job job;
    char log[8192];

    run(&job, false, "", "xterm");
    cli_job_read(&job, "log", log, sizeof(log));
    CT_CHECK(strstr(log, ESCAPE) == NULL);
    CT_CHECK(strstr(log, "cells,") == NULL);
    CT_CHECK(strstr(log, " passed, 0 failed") != NULL);
    cli_job_fini(&job);
}
