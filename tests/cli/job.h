/* A ddprove started as a user starts it, and everything that descends from it: the test is made the
 * reaper of orphans, so that "nothing is left" means that it has no child any more. */
#ifndef TESTS_CLI_JOB_H
#define TESTS_CLI_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CLI_JOB_PROCESSES_MAX = 64 };

struct cli_process {
    pid_t pid, parent;
    char name[32];
    char state; /* as in /proc: R, S, T, Z, ... */
};

struct cli_job {
    pid_t pid;
    int terminal_fd;   /* of a job with a terminal: its other side; -1 */
    char folder[64];   /* of its own, taken away by cli_job_fini */
    char shm[4096];    /* names in /dev/shm before it */
    char shown[65536]; /* what it wrote to its terminal, up to cli_job_wait's return */
    size_t shown_size;
};

void cli_job_init(struct cli_job *job);
/* Start `ddprove argv...`, "@" in an argument being the job's folder. ignored: a signal that it
 * inherits as ignored, or 0. */
void cli_job_start(struct cli_job *job, const char *const *argv, bool has_terminal, int ignored);
/* Processes that descend from it, itself left out; zombies too. */
size_t cli_job_descendants(const struct cli_job *job, struct cli_process *out);
/* Wait until a descendant is called `name` (rank 0.. and workers: "ddprove") and `count` of them
 * are; false if it takes too long. */
bool cli_job_await(const struct cli_job *job, const char *name, size_t count);
/* Wait until `count` descendants are in this state. */
bool cli_job_await_state(const struct cli_job *job, char state, size_t count);
/* Wait until its terminal shows a text; false if it takes too long. */
bool cli_job_await_shown(struct cli_job *job, const char *text);
/* The first descendant of that name, or 0. */
pid_t cli_job_find(const struct cli_job *job, const char *name);
/* Wait for its end: exit code, or 128 + signal; -1 if it takes too long. */
int cli_job_wait(struct cli_job *job);
/* No process, no name in /dev/shm, no temporary file is left of it. */
void cli_job_check_gone(struct cli_job *job);
/* Number of its open descriptors; 0 once it is gone. */
size_t cli_job_fd_count(const struct cli_job *job);
/* Whole text of a file of its folder, or "" */
void cli_job_read(const struct cli_job *job, const char *name, char *out, size_t size);
void cli_job_fini(struct cli_job *job);

#endif
