#include "tests/unit/proc/proc_load.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/ct.h"
#include "tests/unit/proc/proc_tree.h"

/* To the first CPU that we may use. */
static void pin(void)
{
    cpu_set_t mine, first;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof(mine), &mine) != 0) {
        _exit(1);
    }
    while (!CPU_ISSET(cpu, &mine)) {
        cpu++;
    }
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    if (sched_setaffinity(0, sizeof(first), &first) != 0) {
        _exit(1);
    }
}

pid_t proc_load_start(bool spins, int policy)
{
    const struct sched_param none = {0};
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (policy != -1) {
        pin();
        if (sched_setscheduler(0, policy, &none) != 0) {
            _exit(1);
        }
    }
    for (;;) {
        if (spins) {
            __asm__ volatile("");
        } else {
            (void)pause();
        }
    }
}

void proc_load_await_sleep(pid_t pid)
{
    long parent;
    char name[64], state = '?';

    for (int i = 0; i < 4000 && state != 'S'; i++) {
        proc_tree_nap(5);
        CT_CHECK(proc_tree_stat(pid, &parent, name, &state));
    }
    CT_CHECK_EQ_I64(state, 'S');
}

void proc_load_end(pid_t pid)
{
    CT_CHECK(kill(pid, SIGKILL) == 0);
    CT_CHECK(waitpid(pid, NULL, 0) == pid);
}
