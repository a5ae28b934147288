/* The proc driver under mpirun: the same conclusions, what mpirun does to a failed job, and what is
 * left when one of the processes in between is killed. Skipped where mpirun is not installed. */
#include <errno.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/unit/proc/proc_job.h"
#include "tests/unit/proc/proc_tree.h"

enum { RANKS = 4 };
/* The launcher ends nothing within this; a test that waits for it runs into its own time-out. */
#define LINGER_NEVER_NS (3600 * DDP_NS_PER_S)

static bool has_mpirun(void)
{
    struct ddp_err err = {""};
    char line[128];

    return harness_launcher_describe(HARNESS_LAUNCHER_MPIRUN, line, sizeof(line), &err) == DDP_OK;
}

#define REQUIRE_MPIRUN()                        \
    do {                                        \
        if (!has_mpirun()) {                    \
            CT_SKIP("mpirun is not installed"); \
        }                                       \
    } while (0)

/* mpirun's own, in its usual place, which is the test's folder. */
static size_t count_folders(const struct proc_test *test)
{
    char pattern[128];
    glob_t found;
    size_t count;

    (void)snprintf(pattern, sizeof(pattern), "%s/ompi.*", test->dir);
    count = glob(pattern, 0, NULL, &found) == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return count;
}

static void init(struct proc_test *test)
{
    proc_test_init(test, RANKS);
    test->job.config.launcher = HARNESS_LAUNCHER_MPIRUN;
    for (int phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        test->job.plan.job.phase_budget_ms[phase] = 60000; /* hung ranks are ended before */
    }
    CT_REQUIRE(setenv("TMPDIR", test->dir, 1) == 0);
}

/* Nothing is left: no descriptor, process, name, nor a folder of mpirun's. */
static void check_clean(const struct proc_test *test)
{
    char path[128];
    struct stat info;

    proc_test_check_clean(test);
    (void)snprintf(path, sizeof(path), "%s/mpirun", test->dir);
    CT_CHECK(stat(path, &info) != 0 && errno == ENOENT);
    CT_CHECK_EQ_U64(count_folders(test), 0);
    CT_CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void check_culprit(const struct harness_finding *finding, uint32_t rank)
{
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 1);
    CT_CHECK(harness_rank_set_has(&finding->culprits, rank));
}

enum victim { VICTIM_LAUNCHER, VICTIM_MPIRUN, VICTIM_GUARD };

/* A process of the launcher's job, once the launcher knows all guards and ranks; 0 until then. */
static pid_t find_victim(long launcher, enum victim victim)
{
    long mpirun[PROC_TREE_MAX], pids[PROC_TREE_MAX];

    size_t count = proc_tree_below(launcher, "proc_rank", pids);

    if (proc_tree_watched(launcher, pids, count) < 2 * (size_t)RANKS ||
        proc_tree_children(launcher, "mpirun", mpirun) != 1 ||
        proc_tree_children(mpirun[0], "proc_rank", pids) != (size_t)RANKS) {
        return 0;
    }
    return (pid_t)(victim == VICTIM_LAUNCHER ? launcher
                   : victim == VICTIM_MPIRUN ? mpirun[0]
                                             : pids[RANKS - 1]);
}

/* A helper process that sends the signal to one of the processes of our job. */
static pid_t start_saboteur(enum victim victim, int signal_number)
{
    long launcher = getpid();
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    for (int i = 0; i < 4000; i++) {
        pid = find_victim(launcher, victim);
        if (pid != 0) {
            _exit(kill(pid, signal_number) == 0 ? 0 : 1);
        }
        proc_tree_nap(5);
    }
    _exit(2);
}

static void check_saboteur(pid_t pid)
{
    int status = -1;

    CT_CHECK(waitpid(pid, &status, 0) == pid);
    CT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

CT_TEST(proc_mpirun, runs_a_healthy_job)
{
    struct proc_test test;

    REQUIRE_MPIRUN();
    init(&test);
    CT_CHECK_OK(proc_test_run(&test));
    CT_CHECK_STR(test.job.err.text, "");
    CT_CHECK_EQ_U64(test.job.trace.diagnoses.count, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK_EQ_U64(test.job.trace.ends[r].how, HARNESS_END_EXITED);
        CT_CHECK_EQ_I64(test.job.trace.ends[r].code, 0);
        CT_CHECK_STATUS(sim_job_status(&test.job, r), DDP_OK);
        CT_CHECK_EQ_U64(sim_job_param_hash(&test.job, r), sim_job_param_hash(&test.job, 0));
    }
    check_clean(&test);
    proc_test_fini(&test);
}

/* Who ends by itself within the second that mpirun leaves has ended by itself. */
CT_TEST(proc_mpirun, names_a_killed_rank_and_hears_the_others_out)
{
    struct proc_test test;
    const struct harness_finding *finding;

    REQUIRE_MPIRUN();
    init(&test);
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, HARNESS_ACTION_KILL)->at.step =
        2;
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 1);
    CT_CHECK_EQ_I64(finding->step, 2);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK_EQ_U64(test.job.trace.ends[r].how,
                        r == 1 ? HARNESS_END_SIGNALED : HARNESS_END_EXITED);
        CT_CHECK_STATUS(sim_job_status(&test.job, r), r == 1 ? DDP_PENDING : DDP_E_PEER_DIED);
    }
    check_clean(&test);
    proc_test_fini(&test);
}

/* A rank that does not end by itself is ended by mpirun, not by the launcher: a victim, and no
 * crash of its own; a stopped one too. */
CT_TEST(proc_mpirun, does_not_blame_whom_mpirun_ends)
{
    static const enum harness_action_kind kinds[] = {HARNESS_ACTION_HANG, HARNESS_ACTION_STOP};

    REQUIRE_MPIRUN();
    for (size_t i = 0; i < 2; i++) {
        struct proc_test test;
        const struct harness_findings *said = &test.job.trace.diagnoses;

        init(&test);
        test.job.config.linger_ns = LINGER_NEVER_NS;
        /* At birth: later, rank 0 may hear of the death before it gets to its own fault. */
        sim_job_fault(&test.job, 0, DDP_FAULT_POINT_LAUNCH_SPAWN, kinds[i]);
        sim_job_fault(&test.job, 2, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_KILL);
        CT_CHECK_OK(proc_test_run(&test));
        for (size_t k = 0; k < said->count; k++) {
            bool is_crash = said->items[k].verdict == HARNESS_VERDICT_CRASH_SIGNALED;

            CT_CHECK(is_crash || said->items[k].verdict == HARNESS_VERDICT_HANG_STOPPED);
            check_culprit(&said->items[k], is_crash ? 2 : 0);
        }
        CT_CHECK(said->count >= 1);
        CT_CHECK_EQ_U64(test.job.trace.ends[0].how, HARNESS_END_REAPED);
        CT_CHECK(test.job.trace.ends[0].is_stopped == (kinds[i] == HARNESS_ACTION_STOP));
        CT_CHECK_EQ_U64(test.job.trace.ends[2].how, HARNESS_END_SIGNALED);
        CT_CHECK_EQ_I64(test.job.trace.ends[2].code, SIGKILL);
        check_clean(&test);
        proc_test_fini(&test);
    }
}

/* exit(0) is no failure to mpirun; to the others it is. */
CT_TEST(proc_mpirun, names_a_rank_that_finished_early)
{
    struct proc_test test;
    const struct harness_finding *finding;

    REQUIRE_MPIRUN();
    init(&test);
    sim_job_fault(&test.job, 3, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_EXIT)->at.step = 2;
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_FINISHED_EARLY);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 3);
    CT_CHECK_STATUS(sim_job_status(&test.job, 0), DDP_E_PEER_DIED);
    check_clean(&test);
    proc_test_fini(&test);
}

/* A stopped rank is seen through its guard, and goes on when its stop is over. */
CT_TEST(proc_mpirun, sees_stops)
{
    struct proc_test test;
    const struct harness_finding *finding;

    REQUIRE_MPIRUN();
    init(&test);
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_FORWARD_LAYER, HARNESS_ACTION_STOP)->at.step = 1;
    test.job.faults[0].action.stop_ms = 50;
    CT_CHECK_OK(proc_test_run(&test));
    CT_CHECK_EQ_U64(test.job.trace.diagnoses.count, 0);
    CT_CHECK_STATUS(sim_job_status(&test.job, 1), DDP_OK);
    check_clean(&test);
    proc_test_fini(&test);

    init(&test);
    test.job.config.linger_ns = 50 * DDP_NS_PER_MS;
    sim_job_fault(&test.job, 2, DDP_FAULT_POINT_FORWARD_LAYER, HARNESS_ACTION_STOP)->at.step = 1;
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_HANG_STOPPED);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 2);
    CT_CHECK_EQ_U64(test.job.trace.ends[2].how, HARNESS_END_REAPED);
    CT_CHECK(test.job.trace.ends[2].is_stopped);
    check_clean(&test);
    proc_test_fini(&test);
}

/* If mpirun is killed or ordered to end, no rank is the culprit. */
CT_TEST(proc_mpirun, says_that_mpirun_ended_the_job)
{
    static const int signals[] = {SIGKILL, SIGTERM};

    REQUIRE_MPIRUN();
    for (size_t i = 0; i < 2; i++) {
        struct proc_test test;
        const struct harness_finding *finding;
        pid_t saboteur;

        init(&test);
        test.job.config.linger_ns = LINGER_NEVER_NS;
        /* At birth: it never gets to know that others ended. */
        sim_job_fault(&test.job, 1, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_HANG);
        saboteur = start_saboteur(VICTIM_MPIRUN, signals[i]);
        CT_CHECK_OK(proc_test_run(&test));
        check_saboteur(saboteur);
        finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_LAUNCHER);
        CT_REQUIRE(finding != NULL);
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 0);
        CT_CHECK(strstr(finding->text, "mpirun") != NULL);
        CT_CHECK_EQ_U64(test.job.trace.ends[1].how, HARNESS_END_REAPED);
        check_clean(&test);
        proc_test_fini(&test);
    }
}

/* A guard that is killed takes its rank with it; that rank has crashed. */
CT_TEST(proc_mpirun, blames_a_rank_whose_guard_is_killed)
{
    struct proc_test test;
    pid_t saboteur;
    const struct harness_finding *finding;

    REQUIRE_MPIRUN();
    init(&test);
    sim_job_fault(&test.job, 0, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_DELAY)->at.step = 1;
    test.job.faults[0].action.delay_ms = 1500;
    saboteur = start_saboteur(VICTIM_GUARD, SIGKILL);
    CT_CHECK_OK(proc_test_run(&test));
    check_saboteur(saboteur);
    finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 1);
    check_clean(&test);
    proc_test_fini(&test);
}

/* Ctrl-C ends all, mpirun too. */
CT_TEST(proc_mpirun, ends_all_when_interrupted)
{
    struct proc_test test;
    long pids[PROC_TREE_MAX];
    pid_t saboteur;

    REQUIRE_MPIRUN();
    init(&test);
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_HANG)->at.step = 1;
    saboteur = start_saboteur(VICTIM_LAUNCHER, SIGINT);
    CT_CHECK_STATUS(proc_test_run(&test), DDP_E_STATE);
    CT_CHECK(strstr(test.job.err.text, "SIGINT") != NULL);
    check_saboteur(saboteur);
    CT_CHECK_EQ_U64(proc_tree_below(getpid(), NULL, pids), 0);
    check_clean(&test);
    proc_test_fini(&test);
}

/* If the launcher is killed, mpirun, guards and ranks end, a stopped rank too, and mpirun's files
 * are removed. */
CT_TEST(proc_mpirun, takes_all_with_it_when_killed)
{
    struct proc_test test;
    char pattern[128];
    long pids[PROC_TREE_MAX];
    size_t count = 0;
    pid_t launcher;
    glob_t found;

    REQUIRE_MPIRUN();
    init(&test);
    test.job.config.linger_ns = LINGER_NEVER_NS;
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_STOP)->at.step = 1;
    launcher = fork();
    if (launcher == 0) {
        _exit(proc_test_run(&test) == DDP_OK ? 0 : 1);
    }
    CT_CHECK(proc_tree_await_stop(launcher, "proc_rank"));
    count = proc_tree_below(launcher, NULL, pids);
    CT_CHECK_EQ_U64(count, 2 * RANKS + 4); /* and mpirun, the cleaner, monitor and store */
    CT_CHECK(kill(launcher, SIGKILL) == 0);
    CT_CHECK(waitpid(launcher, NULL, 0) == launcher);
    CT_CHECK_EQ_U64(proc_tree_left(pids, count), 0);
    (void)snprintf(pattern, sizeof(pattern), "%s/mpirun/*", test.dir);
    CT_CHECK(glob(pattern, 0, NULL, &found) == GLOB_NOMATCH);
    globfree(&found);
    proc_test_fini(&test);
}

/* Leave nothing in PATH but a program called mpirun; returns the former PATH, to be freed. */
static char *put_mpirun(const struct proc_test *test, const char *script)
{
    const char *path = getenv("PATH");
    char *former = strdup(path != NULL ? path : "");
    char folder[128], file_path[160];
    FILE *file;

    (void)snprintf(folder, sizeof(folder), "%s/bin", test->dir);
    (void)snprintf(file_path, sizeof(file_path), "%s/mpirun", folder);
    CT_CHECK(mkdir(folder, 0700) == 0 || errno == EEXIST);
    file = fopen(file_path, "w");
    CT_CHECK(file != NULL && fputs(script, file) >= 0 && fclose(file) == 0 &&
             chmod(file_path, 0700) == 0 && setenv("PATH", folder, 1) == 0);
    return former;
}

/* An mpirun that starts no rank, or not all, is one error with the first line that mpirun printed.
 */
CT_TEST(proc_mpirun, says_why_mpirun_does_not_start)
{
    static const struct {
        const char *script;
        const char *words[2];
    } rows[] = {
        {"#!/bin/sh\necho '-----'\necho\necho 'unknown option --oversubscribe' >&2\nexit 1\n",
         {"unknown option --oversubscribe", "0 of 4 ranks"}},
        {"#!/bin/sh\nexit 0\n", {"it printed nothing", "with code 0"}},
        {"#!/bin/sh\nkill -9 $$\n", {"it printed nothing", "by signal 9"}},
        {"#!/bin/nonexistent\n", {"cannot be run", "install openmpi-bin"}},
        /* Only rank 0 of four. */
        {"#!/bin/sh\nwhile test $# -gt 2; do shift; done\nOMPI_COMM_WORLD_RANK=0 "
         "OMPI_COMM_WORLD_SIZE=4 \"$@\"\nexit 7\n",
         {"1 of 4 ranks", "with code 7"}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct proc_test test;
        char *former;

        init(&test);
        test.job.config.linger_ns = LINGER_NEVER_NS;
        test.job.plan.job.timeout_ns = DDP_NS_PER_S / 2; /* of the one that waits for the others */
        former = put_mpirun(&test, rows[i].script);
        CT_CHECK_STATUS(proc_test_run(&test), DDP_E_SYSTEM);
        for (size_t k = 0; k < 2; k++) {
            if (strstr(test.job.err.text, rows[i].words[k]) == NULL) {
                CT_FAIL("\"%s\" does not say \"%s\"", test.job.err.text, rows[i].words[k]);
            }
        }
        (void)setenv("PATH", former, 1);
        free(former);
        check_clean(&test);
        proc_test_fini(&test);
    }
}

/* What is asked before a run: is it there, and is it Open MPI's? */
CT_TEST(proc_mpirun, tells_open_mpi_from_others)
{
    struct proc_test test;
    struct ddp_err err = {""};
    char line[128];
    char *former;

    CT_CHECK_OK(harness_launcher_describe(HARNESS_LAUNCHER_OWN, line, sizeof(line), &err));
    CT_CHECK_STR(line, "");
    init(&test);
    former = put_mpirun(&test, "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\necho\n");
    CT_CHECK_OK(harness_launcher_describe(HARNESS_LAUNCHER_MPIRUN, line, sizeof(line), &err));
    CT_CHECK_STR(line, "mpirun (Open MPI) 4.1.4");
    free(put_mpirun(&test, "#!/bin/sh\necho 'HYDRA build details:'\ni=0\n"
                           "while test $i -lt 20000; do echo $i; i=$((i + 1)); done\n"));
    CT_CHECK_STATUS(harness_launcher_describe(HARNESS_LAUNCHER_MPIRUN, line, sizeof(line), &err),
                    DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "HYDRA") != NULL);
    (void)setenv("PATH", test.dir, 1); /* nothing of that name in it */
    CT_CHECK_STATUS(harness_launcher_describe(HARNESS_LAUNCHER_MPIRUN, line, sizeof(line), &err),
                    DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "openmpi-bin") != NULL);
    (void)setenv("PATH", former, 1);
    free(former);
    proc_test_fini(&test);
}
