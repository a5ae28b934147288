/* On a busy machine a rank may be late because nothing has run it. What it was ready to do and had
 * no CPU for is taken off every limit of time. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "ddpcore/base/clock.h"
#include "harness/exec/job.h"

/* A rank is looked at once it has been late for a part of its limit, and then so many times. The
 * time before that counts for it. */
enum { START_PART = 4, READINGS = 64 };
enum { WAITING_TIMES = 9 };
static const uint64_t start_max_ns = 400 * DDP_NS_PER_MS;
static const uint64_t interval_max_ns = 200 * DDP_NS_PER_MS;

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct exec_thread *thread_of(struct exec_starved *self, struct ddp_mem *mem, pid_t tid,
                                     uint64_t since_ns)
{
    for (uint32_t i = 0; i < self->thread_count; i++) {
        if (self->threads[i].tid == tid) {
            return &self->threads[i];
        }
    }
    if (self->thread_count == self->thread_capacity) {
        const uint32_t capacity = 2 * self->thread_capacity + 8;
        struct exec_thread *threads = ddp_mem_array(mem, capacity, sizeof *threads);

        if (threads == NULL) {
            return NULL;
        }
        for (uint32_t i = 0; i < self->thread_count; i++) {
            threads[i] = self->threads[i];
        }
        ddp_mem_free(mem, self->threads);
        self->threads = threads;
        self->thread_capacity = capacity;
    }
    self->threads[self->thread_count] = (struct exec_thread){.tid = tid, .since_ns = since_ns};
    return &self->threads[self->thread_count++];
}

/* The longest of its threads: which of them the rank needs to go on is not known. One that polls
 * all the time makes the limit as many times as long as there are others for its CPU, not endless.
 */
static uint64_t read_threads(struct exec_starved *self, struct ddp_mem *mem, pid_t pid,
                             uint64_t now_ns)
{
    /* One that is met later was not late before. */
    const uint64_t since_ns = self->read_ns == 0 ? self->since_ns : now_ns;
    uint64_t longest_ns = 0;
    char path[32];
    DIR *folder;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    folder = opendir(path);
    for (const struct dirent *entry = NULL; folder != NULL && (entry = readdir(folder)) != NULL;) {
        const pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct exec_thread *thread = tid > 0 ? thread_of(self, mem, tid, since_ns) : NULL;

        if (thread != NULL) {
            const uint64_t starved_ns =
                harness_lag_read(&thread->lag, tid, thread->since_ns, now_ns);

            longest_ns = starved_ns > longest_ns ? starved_ns : longest_ns;
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return longest_ns;
}

uint64_t harness_exec_starved_ns(struct exec_starved *self, struct ddp_mem *mem, pid_t pid,
                                 uint64_t since_ns, uint64_t now_ns, uint64_t interval_ns)
{
    uint64_t starved_ns;

    if (self->since_ns != since_ns || self->pid != pid) {
        self->since_ns = since_ns;
        self->pid = pid;
        self->read_ns = 0;
        self->starved_ns = 0;
        self->thread_count = 0;
    }
    if (self->read_ns != 0 && now_ns - self->read_ns < interval_ns) {
        return self->starved_ns + now_ns - self->read_ns; /* for all that is known */
    }
    starved_ns = read_threads(self, mem, pid, now_ns);
    self->read_ns = now_ns;
    /* A thread that has ended had its time. */
    self->starved_ns = starved_ns > self->starved_ns ? starved_ns : self->starved_ns;
    return self->starved_ns;
}

void harness_exec_starved_fini(struct exec_starved *self, struct ddp_mem *mem)
{
    ddp_mem_free(mem, self->threads);
}

/* Since anything last moved: of the rank for which that is longest. One that waits for others in a
 * loop gives its CPU away each time, and wants it back at once: what it lacks is counted up to a
 * multiple of the limit, else a hang beside busy programs would hardly ever be said. */
static uint64_t starved_since_change(struct exec_job *job, uint64_t now_ns, uint64_t interval_ns)
{
    const uint64_t limit_ns = job->config->limits.silent_ns;
    const uint64_t most_ns =
        limit_ns < UINT64_MAX / WAITING_TIMES ? WAITING_TIMES * limit_ns : UINT64_MAX;
    uint64_t longest_ns = 0;

    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        const pid_t pid = harness_exec_pid(job, r);

        if (pid > 0 && job->watch->ranks[r].state == HARNESS_WATCH_RUNNING) {
            uint64_t starved_ns =
                harness_exec_starved_ns(&job->ranks[r].still, job->config->mem, pid,
                                        job->watch->change_ns, now_ns, interval_ns);

            if (harness_watch_is_waiting(job->watch, r)) {
                starved_ns = smaller(starved_ns, most_ns);
            }
            longest_ns = starved_ns > longest_ns ? starved_ns : longest_ns;
        }
    }
    return longest_ns;
}

/* Some thread or stream has waited for so long. */
static bool has_waited(const struct harness_watch *watch, uint64_t limit_ns)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        for (uint32_t i = 0; i < watch->ranks[r].wait_count; i++) {
            if (watch->now_ns > watch->ranks[r].waits[i].enter_ns + limit_ns) {
                return true;
            }
        }
    }
    return false;
}

/* Since others began to wait for the rank. Of one whose process is not known: as of those that are.
 */
static uint64_t starved_while_needed(struct exec_job *job, uint32_t rank, uint64_t start_ns,
                                     uint64_t interval_ns)
{
    const struct harness_watch *watch = job->watch;
    const uint64_t waited_ns = harness_watch_waited_for_ns(watch, rank);
    const pid_t pid = harness_exec_pid(job, rank);

    if (waited_ns == 0 || waited_ns < start_ns || harness_watch_is_gone(watch, rank)) {
        return 0;
    }
    return pid > 0 ? harness_exec_starved_ns(&job->ranks[rank].needed, job->config->mem, pid,
                                             watch->now_ns - waited_ns, watch->now_ns, interval_ns)
                   : watch->starved_ns;
}

void harness_exec_note_starved(struct exec_job *job, uint64_t now_ns)
{
    struct harness_watch *watch = job->watch;
    const uint64_t limit_ns = job->config->limits.silent_ns;
    const uint64_t part_ns = limit_ns / READINGS;
    const bool is_settling = job->linger_ns != UINT64_MAX;
    const uint64_t start_ns = is_settling ? 0 : smaller(limit_ns / START_PART, start_max_ns);
    const uint64_t interval_ns = is_settling || part_ns < HARNESS_LAG_INTERVAL_NS
                                     ? HARNESS_LAG_INTERVAL_NS
                                     : smaller(part_ns, interval_max_ns);
    bool is_late;

    watch->starved_ns = watch->change_ns != 0 && now_ns - watch->change_ns >= start_ns
                            ? starved_since_change(job, now_ns, interval_ns)
                            : 0;
    is_late = has_waited(watch, start_ns);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        watch->ranks[r].starved_ns =
            is_late ? starved_while_needed(job, r, start_ns, interval_ns) : 0;
    }
}
