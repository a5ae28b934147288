/* Whether a process is at its end: it was killed or exits, and the kernel has not ended it yet. To
 * take down what it has, such as a GPU's context, may take seconds, in which it looks as if it ran
 * and did nothing. */
#ifndef HARNESS_LAUNCH_ENDING_H
#define HARNESS_LAUNCH_ENDING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A process that the kernel has not ended for so long may never end: nobody waits for it any more.
 */
#define HARNESS_ENDING_MAX_NS UINT64_C(30000000000)

struct harness_ending {
    bool is_so;   /* no thread of it will run code of its own any more */
    bool is_over; /* and it is gone: its parent has waited for it */
    int status;   /* as wait() will say it, as far as the kernel tells. Of a signal it does not tell
                     yet, SIGKILL; else 0 */
};

/* One file is read of a process that lives. What cannot be read is not at its end. */
void harness_ending_read(pid_t pid, struct harness_ending *out);

/* The same of one thread, by the text of its /proc/PID/task/TID/stat, and /status, which may be ""
 * if the former tells. */
bool harness_ending_is_told(const char *stat, const char *status);

#ifdef __cplusplus
}
#endif
#endif
