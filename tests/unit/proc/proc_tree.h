/* Processes below one, read from /proc: for tests that end some and look for what is left. */
#ifndef TESTS_UNIT_PROC_PROC_TREE_H
#define TESTS_UNIT_PROC_PROC_TREE_H

#include <stdbool.h>
#include <stddef.h>

enum { PROC_TREE_MAX = 32 };

/* Between two looks at a condition. */
void proc_tree_nap(long ms);
/* Parent, name and state of a process; false if it is gone. */
bool proc_tree_stat(long pid, long *out_parent, char name[64], char *out_state);
/* Living children of a process; those named `name` only, unless NULL. */
size_t proc_tree_children(long parent, const char *name, long pids[PROC_TREE_MAX]);
/* Living processes below a process, those named `name` only, unless NULL. */
size_t proc_tree_below(long ancestor, const char *name, long pids[PROC_TREE_MAX]);
/* How many of these a process holds a pidfd of. */
size_t proc_tree_watched(long watcher, const long *pids, size_t count);
/* Wait up to 20 seconds until one of those below a process is stopped. */
bool proc_tree_await_stop(long ancestor, const char *name);
/* Of these, wait up to ten seconds until none is left (a zombie has gone); how many are. */
size_t proc_tree_left(const long *pids, size_t count);

#endif
