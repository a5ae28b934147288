/* Faults of the harness's own processes: monitor, launcher. */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/unit/proc/proc_job.h"
#include "tests/unit/proc/proc_tree.h"

enum { RANKS = 3 };

/* A helper process: wait until `parent` has a child of that name, then send it a signal; name NULL:
 * wait until all ranks run, and signal the parent itself. */
static pid_t start_saboteur(long parent, const char *name, int signal_number)
{
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    for (int i = 0; i < 2000; i++) {
        long pids[PROC_TREE_MAX];
        size_t count = proc_tree_children(parent, name != NULL ? name : "proc_rank", pids);

        if (name != NULL ? count > 0 : proc_tree_watched(parent, pids, count) == (size_t)RANKS) {
            _exit(kill((pid_t)(name != NULL ? pids[0] : parent), signal_number) == 0 ? 0 : 1);
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

static void check_count(const struct harness_findings *said, size_t count)
{
    for (size_t i = 0; i < said->count && said->count != count; i++) {
        CT_FAIL("%s: %s", harness_verdict_name(said->items[i].verdict), said->items[i].text);
    }
    CT_CHECK_EQ_U64(said->count, count);
}

/* If the monitor dies, the launcher reports that and monitors the job itself. */
CT_TEST(proc_launcher, survives_the_death_of_its_monitor)
{
    struct proc_test test;
    const struct harness_findings *said = &test.job.trace.diagnoses;
    pid_t saboteur;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 0, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_DELAY)->at.step = 1;
    test.job.faults[0].action.delay_ms = 600;
    sim_job_fault(&test.job, 2, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_KILL)->at.step = 2;
    saboteur = start_saboteur(getpid(), "ddprove-monitor", SIGKILL);
    CT_CHECK_OK(proc_test_run(&test));
    check_saboteur(saboteur);
    check_count(said, 2);
    CT_REQUIRE(said->count == 2);
    CT_CHECK_EQ_U64(said->items[0].verdict, HARNESS_VERDICT_HANG_DETECTOR);
    CT_CHECK_EQ_U64(said->items[1].verdict, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK(harness_rank_set_has(&said->items[1].culprits, 2));
    CT_CHECK(strstr(ddp_text_str(&test.job.trace.graph), "\nr2 (culprit) ended by signal 9") !=
             NULL);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* The store has a process of its own: if that dies, no rank is to blame for what it cannot do. */
CT_TEST(proc_launcher, names_the_store_that_was_killed)
{
    struct proc_test test;
    const struct harness_findings *said = &test.job.trace.diagnoses;
    pid_t saboteur;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 0, DDP_FAULT_POINT_RENDEZVOUS_CONNECT, HARNESS_ACTION_DELAY);
    test.job.faults[0].action.delay_ms = 600;
    saboteur = start_saboteur(getpid(), "ddprove-store", SIGKILL);
    CT_CHECK_OK(proc_test_run(&test));
    check_saboteur(saboteur);
    CT_REQUIRE(said->count >= 1);
    CT_CHECK_EQ_U64(said->items[0].verdict, HARNESS_VERDICT_CRASH_STORE);
    CT_CHECK(strstr(said->items[0].text, "ended by signal 9 (SIGKILL)") != NULL);
    CT_CHECK(harness_rank_set_is_empty(&said->items[0].culprits));
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* A monitor that is stopped is noticed after a second; a stopped rank is then found by the
 * launcher. */
CT_TEST(proc_launcher, survives_a_stopped_monitor)
{
    struct proc_test test;
    const struct harness_findings *said = &test.job.trace.diagnoses;
    pid_t saboteur;

    proc_test_init(&test, RANKS);
    test.job.config.linger_ns = 50 * DDP_NS_PER_MS;
    sim_job_fault(&test.job, 0, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_DELAY)->at.step = 1;
    test.job.faults[0].action.delay_ms = 600;
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_STOP)->at.step = 2;
    saboteur = start_saboteur(getpid(), "ddprove-monitor", SIGSTOP);
    CT_CHECK_OK(proc_test_run(&test));
    check_saboteur(saboteur);
    check_count(said, 2);
    CT_REQUIRE(said->count == 2);
    CT_CHECK_EQ_U64(said->items[0].verdict, HARNESS_VERDICT_HANG_DETECTOR);
    CT_CHECK_EQ_U64(said->items[1].verdict, HARNESS_VERDICT_HANG_STOPPED);
    CT_CHECK(harness_rank_set_has(&said->items[1].culprits, 1));
    CT_CHECK(strstr(ddp_text_str(&test.job.trace.graph), "\nr1 (culprit) stopped for ") != NULL);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* Ctrl-C ends every process and is an error of the harness, with a text that says so. */
CT_TEST(proc_launcher, ends_all_when_interrupted)
{
    struct proc_test test;
    long pids[PROC_TREE_MAX];
    pid_t saboteur;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_HANG)->at.step = 1;
    saboteur = start_saboteur(getpid(), NULL, SIGINT);
    CT_CHECK_STATUS(proc_test_run(&test), DDP_E_STATE);
    CT_CHECK(strstr(test.job.err.text, "SIGINT") != NULL);
    check_saboteur(saboteur);
    CT_CHECK_EQ_U64(proc_tree_children(getpid(), "proc_rank", pids), 0);
    CT_CHECK_EQ_U64(proc_tree_children(getpid(), "ddprove-monitor", pids), 0);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* If the launcher itself is killed the kernel takes ranks and monitor with it, a stopped rank
 * too. */
CT_TEST(proc_launcher, takes_all_with_it_when_killed)
{
    struct proc_test test;
    long pids[PROC_TREE_MAX];
    size_t count = 0;
    pid_t launcher;

    proc_test_init(&test, RANKS);
    test.job.config.linger_ns = 30 * DDP_NS_PER_S;
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_STOP)->at.step = 1;
    launcher = fork();
    if (launcher == 0) {
        _exit(proc_test_run(&test) == DDP_OK ? 0 : 1);
    }
    CT_CHECK(proc_tree_await_stop(launcher, "proc_rank"));
    count = proc_tree_children(launcher, NULL, pids);
    CT_CHECK_EQ_U64(count, RANKS + 2); /* and the monitor and the store */
    CT_CHECK(kill(launcher, SIGKILL) == 0);
    CT_CHECK(waitpid(launcher, NULL, 0) == launcher);
    CT_CHECK_EQ_U64(proc_tree_left(pids, count), 0);
    proc_test_fini(&test);
}
