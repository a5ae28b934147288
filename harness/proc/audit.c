/* What a job must not leave behind: processes (a rank's whole process group), names in /dev/shm
 * that carry one of its process ids, and descriptors of the launcher. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/proc/job.h"

static int count_fds(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    if (folder == NULL) {
        return -1;
    }
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

uint64_t harness_proc_audit_descriptors(void)
{
    int count = count_fds();

    return count < 0 ? 0 : (uint64_t)count;
}

static void list_shm(struct ddp_text *out)
{
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;

    if (folder == NULL) {
        return;
    }
    ddp_text_add(out, "\n");
    while ((entry = readdir(folder)) != NULL) {
        ddp_text_add(out, "%s\n", entry->d_name);
    }
    (void)closedir(folder);
}

void harness_proc_audit_begin(struct harness_proc_audit *audit, struct ddp_mem *mem)
{
    ddp_text_init(&audit->shm, mem);
    list_shm(&audit->shm);
    audit->fd_count = count_fds();
}

void harness_proc_audit_fini(struct harness_proc_audit *audit)
{
    ddp_text_fini(&audit->shm);
}

/* What leaks stays for ever, so only a failure takes so long: a busy machine must not make one. */
#define GROUP_END_NS (5 * DDP_NS_PER_S)

static void add_text(struct harness_trace *trace, const char *what, long number)
{
    size_t used = strlen(trace->leak_text);

    (void)snprintf(trace->leak_text + used, sizeof(trace->leak_text) - used, "%s%s%ld",
                   used > 0 ? "; " : "", what, number);
}

/* The name contains the number as a whole. */
static bool has_number(const char *name, long number)
{
    char text[24];
    size_t size = (size_t)snprintf(text, sizeof(text), "%ld", number);
    const char *at = name;

    while ((at = strstr(at, text)) != NULL) {
        bool is_start = at == name || !isdigit((unsigned char)at[-1]);

        if (is_start && !isdigit((unsigned char)at[size])) {
            return true;
        }
        at++;
    }
    return false;
}

/* A helper process of a rank (a sanitizer's leak checker, for instance) ends with it, and may need
 * a moment for that. What is still there afterwards is a leak. */
static bool is_group_left(pid_t leader)
{
    uint64_t deadline_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), GROUP_END_NS);

    while (kill(-leader, 0) == 0) {
        if (ddp_clock_now_ns(ddp_clock_monotonic()) >= deadline_ns) {
            return true;
        }
        (void)poll(NULL, 0, 1);
    }
    return false;
}

static void audit_processes(const struct harness_proc_rank *ranks, uint32_t world_size,
                            struct harness_trace *trace)
{
    for (uint32_t r = 0; r < world_size; r++) {
        /* The leader is reaped, or was killed and is not ended by the kernel; all else that is
         * still in its group was started by it. */
        if (ranks[r].pid > 0 && is_group_left(ranks[r].pid)) {
            trace->leak_process = true;
            add_text(trace,
                     ranks[r].is_given_up ? "the kernel has not ended the killed process of rank "
                                          : "processes are left in the group of rank ",
                     (long)r);
            (void)kill(-ranks[r].pid, SIGKILL);
        }
    }
}

static void audit_shm_name(const char *name, const struct harness_proc_audit *audit,
                           const struct harness_proc_rank *ranks, uint32_t world_size,
                           struct harness_trace *trace)
{
    char line[300];
    bool is_ours = has_number(name, (long)getpid());

    (void)snprintf(line, sizeof(line), "\n%s\n", name);
    if (strstr(ddp_text_str(&audit->shm), line) != NULL) {
        return;
    }
    for (uint32_t r = 0; r < world_size && !is_ours; r++) {
        is_ours = ranks[r].pid > 0 && has_number(name, (long)ranks[r].pid);
    }
    if (is_ours) {
        trace->leak_shm = true;
        (void)snprintf(line, sizeof(line), "/dev/shm/%.200s is left, made by a process of job ",
                       name);
        add_text(trace, line, (long)getpid());
    }
}

void harness_proc_audit_end(struct harness_proc_audit *audit, const struct harness_proc_rank *ranks,
                            uint32_t world_size, struct harness_trace *trace)
{
    int fd_count = count_fds();
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;

    audit_processes(ranks, world_size, trace);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        audit_shm_name(entry->d_name, audit, ranks, world_size, trace);
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    if (fd_count > audit->fd_count) {
        trace->leak_fd = true;
        add_text(trace, "descriptors that the launcher did not close: ",
                 (long)(fd_count - audit->fd_count));
    }
}
