/* Processes that sleep or keep a processor busy. */
#ifndef TESTS_UNIT_PROC_PROC_LOAD_H
#define TESTS_UNIT_PROC_PROC_LOAD_H

#include <stdbool.h>
#include <sys/types.h>

/* A child that sleeps or spins for ever; policy: its scheduling, on the first CPU that we may use
 * if it is not -1. Beside a spinning one of SCHED_OTHER one of SCHED_IDLE has next to no CPU. */
pid_t proc_load_start(bool spins, int policy);
/* One that sleeps has come to do so. */
void proc_load_await_sleep(pid_t pid);
/* Kill and reap it. */
void proc_load_end(pid_t pid);

#endif
