/* What the kernel tells of a process, whoever's child it is. Internal to harness/exec. */
#ifndef HARNESS_EXEC_STAT_H
#define HARNESS_EXEC_STAT_H

#include <stdbool.h>
#include <sys/types.h>

/* PF_EXITING: the kernel sets it before it closes what the process has open. */
enum { EXEC_FLAG_EXITING = 4 };

/* From /proc/PID/stat, or that of a thread. */
struct exec_stat {
    char letter; /* its state */
    pid_t parent;
    unsigned flags;
    unsigned threads;
    int status; /* as wait() says it, of one that ends or has ended */
};

/* False: there is no such process. */
bool harness_exec_read_stat(pid_t pid, struct exec_stat *out);
/* The same of a process whose file is kept open, which is read every few milliseconds: that spares
 * the kernel half of the work. -1: there is no such process. */
int harness_exec_open_stat(pid_t pid);
bool harness_exec_read_stat_of(int stat_fd, struct exec_stat *out);
/* One process is the other, or was started by it, or by one that was, and so on. */
bool harness_exec_is_below(pid_t pid, pid_t ancestor);
/* No thread of the process will run code of its own any more. Giving back much memory takes the
 * kernel milliseconds, and only then is the end told. */
bool harness_exec_is_past_its_code(pid_t pid);
/* How a process that is no child of ours has ended, as wait() says it. False: nobody tells. */
bool harness_exec_read_status(pid_t pid, int pid_fd, int *out);

#endif
