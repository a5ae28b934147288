/* Purpose: see the header.
 * Idea: a rank is a fork of ddprove, which has one thread, so nothing has to be handed over; mpirun
 * starts ddprove anew, and its ranks find the mapping below /proc by the number of this process.
 * All die with it. */
#include "harness/lab/team.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"

#define PAGE_BYTES    ((size_t)4096)
#define STUCK_NS      (90 * DDP_NS_PER_S)
#define GRACE_NS      (2 * DDP_NS_PER_S)
#define MPIRUN_END_NS (5 * DDP_NS_PER_S)
#define FILES         "/dev/shm/ddprove-lab-"
enum { LOOK_MS = 4, SHARE_OF_MEMORY = 2 };

/* --- mapping ---------------------------------------------------------------------------------- */

static ddp_status map(struct harness_lab_team *team, size_t size_bytes, struct ddp_err *err)
{
    long pages = sysconf(_SC_AVPHYS_PAGES);
    void *room;

    if (pages > 0 && size_bytes / SHARE_OF_MEMORY > (size_t)pages * PAGE_BYTES) {
        return ddp_err_set(err, DDP_E_NOMEM,
                           "the buffers of all ranks need up to %zu MiB, of which %zu are free; "
                           "choose fewer --ranks or a smaller -e",
                           size_bytes >> 20, ((size_t)pages * PAGE_BYTES) >> 20);
    }
    team->fd = memfd_create("ddprove-lab", MFD_CLOEXEC);
    if (team->fd < 0 || ftruncate(team->fd, (off_t)size_bytes) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "no shared memory: %s", strerror(errno));
    }
    room = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, team->fd, 0);
    if (room == MAP_FAILED) {
        return ddp_err_set(err, DDP_E_SYSTEM, "no shared memory: %s", strerror(errno));
    }
    team->shared = room;
    team->shared->magic = HARNESS_LAB_MAGIC;
    team->shared->size_bytes = size_bytes;
    team->shared->host_pid = (int)getpid();
    return DDP_OK;
}

ddp_status harness_lab_team_init(struct harness_lab_team *team, uint32_t ranks, size_t arena_bytes,
                                 struct ddp_err *err)
{
    size_t arena = (arena_bytes + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;
    size_t head = (sizeof(struct harness_lab_shared) + PAGE_BYTES) / PAGE_BYTES * PAGE_BYTES;

    DDP_ASSERT(ranks >= 1 && ranks <= HARNESS_LAB_RANKS_MAX);
    *team = (struct harness_lab_team){.fd = -1};
    DDP_TRY(map(team, head + (size_t)ranks * HARNESS_LAB_AREAS * arena, err));
    team->shared->arena_at = head;
    team->shared->arena_bytes = arena;
    return DDP_OK;
}

void harness_lab_team_fini(struct harness_lab_team *team)
{
    harness_lab_team_end(team);
    if (team->shared != NULL) {
        (void)munmap(team->shared, team->shared->size_bytes);
    }
    if (team->fd >= 0) {
        (void)close(team->fd);
    }
    team->shared = NULL;
    team->fd = -1;
}

/* --- start ------------------------------------------------------------------------------------ */

static ddp_status fork_ranks(struct harness_lab_team *team, struct ddp_err *err)
{
    pid_t parent = getpid();

    for (uint32_t rank = 0; rank < team->shared->request.ranks; rank++) {
        pid_t pid = fork();

        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(1); /* it was gone before that was set */
            }
            _exit(harness_lab_rank(team->shared, rank));
        }
        if (pid < 0) {
            (void)ddp_err_set(err, DDP_E_SYSTEM, "a rank cannot be started: %s", strerror(errno));
            harness_lab_team_end(team);
            return DDP_E_SYSTEM;
        }
        team->pid[team->process_count++] = pid;
    }
    return DDP_OK;
}

/* More ranks than cores, on one host, none bound to a core, and as root if ddprove is; and no
 * second of waiting when they are ended. What the user has set stays. */
static void allow_ranks(void)
{
    static const char *const settings[][2] = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
        {"OMPI_MCA_hwloc_base_binding_policy", "none"},
        {"OMPI_MCA_odls_base_sigkill_timeout", "0"},
        {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
        {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
        {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
        {"PRTE_MCA_hwloc_default_binding_policy", "none"}};

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        (void)setenv(settings[i][0], settings[i][1], 0);
    }
}

/* A folder for the files of Open MPI, so that they can be removed: now and then mpirun hangs as it
 * is ended, and then leaves them. In memory, as its ranks map some of them. A folder that the user
 * has named for these stays. */
static ddp_status make_files(struct harness_lab_team *team, struct ddp_err *err)
{
    static const char *const names[] = {"OMPI_MCA_orte_tmpdir_base", "PRTE_MCA_prte_tmpdir_base",
                                        "OMPI_MCA_btl_vader_backing_directory",
                                        "OMPI_MCA_btl_sm_backing_directory"};

    (void)snprintf(team->files, sizeof team->files, FILES "%d-XXXXXX", (int)getpid());
    if (mkdtemp(team->files) == NULL) {
        team->files[0] = '\0';
        return ddp_err_set(err, DDP_E_SYSTEM, "no folder for the files of mpirun, " FILES "...: %s",
                           strerror(errno));
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *set = getenv(names[i]);

        if (set == NULL || strncmp(set, FILES, strlen(FILES)) == 0) {
            (void)setenv(names[i], team->files, 1);
        }
    }
    return DDP_OK;
}

static void remove_files(struct harness_lab_team *team)
{
    if (team->files[0] != '\0') {
        (void)!ddp_files_remove_tree(team->files, NULL);
        team->files[0] = '\0';
    }
}

static ddp_status spawn_mpirun(struct harness_lab_team *team, const char *mpirun,
                               struct ddp_err *err)
{
    char self[4096], place[64], ranks[16];
    char flag[] = "-n";
    char command[] = "lab";
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    char *program = strdup(mpirun);
    char *const argv[] = {program, flag, ranks, self, command, place, NULL};
    posix_spawnattr_t attributes;
    int error = size > 0 && program != NULL ? 0 : ENOENT;

    self[size > 0 ? size : 0] = '\0';
    (void)snprintf(place, sizeof place, "/proc/%d/fd/%d", (int)getpid(), team->fd);
    (void)snprintf(ranks, sizeof ranks, "%u", team->shared->request.ranks);
    allow_ranks();
    if (make_files(team, err) != DDP_OK) {
        free(program);
        return DDP_E_SYSTEM;
    }
    error = error != 0 ? error : posix_spawnattr_init(&attributes);
    if (error == 0) {
        /* A group of its own, so that all that it starts ends with it. */
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
        (void)posix_spawnattr_setpgroup(&attributes, 0);
        error = posix_spawnp(&team->pid[0], program, NULL, &attributes, argv, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    free(program);
    if (error != 0) {
        remove_files(team);
        return ddp_err_set(err, DDP_E_SYSTEM, "%s cannot be started: %s", mpirun, strerror(error));
    }
    team->process_count = 1;
    return DDP_OK;
}

ddp_status harness_lab_team_start(struct harness_lab_team *team, const char *mpirun,
                                  struct ddp_err *err)
{
    struct harness_lab_shared *shared = team->shared;

    DDP_ASSERT(team->process_count == 0);
    shared->ready = 0;
    memset(shared->port, 0, sizeof shared->port);
    shared->gate_count = 0;
    shared->gate_round = 0;
    memset(shared->slot, 0, shared->request.ranks * sizeof(shared->slot[0]));
    team->failed = 0;
    memset(team->end, -1, sizeof team->end);
    team->is_by_mpirun = mpirun != NULL;
    return mpirun != NULL ? spawn_mpirun(team, mpirun, err) : fork_ranks(team, err);
}

/* --- end -------------------------------------------------------------------------------------- */

/* mpirun removes what its ranks have left in the file system and in shared memory, if it is told to
 * end and not killed. */
static void end_mpirun(struct harness_lab_team *team)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    const uint64_t deadline_ns = ddp_clock_now_ns(clock) + MPIRUN_END_NS;

    if (team->pid[0] <= 0 || kill(team->pid[0], SIGTERM) != 0) {
        return;
    }
    while (team->pid[0] > 0 && ddp_clock_now_ns(clock) < deadline_ns) {
        if (waitpid(team->pid[0], NULL, WNOHANG) == team->pid[0]) {
            team->pid[0] = 0;
        } else {
            (void)poll(NULL, 0, LOOK_MS);
        }
    }
}

void harness_lab_team_end(struct harness_lab_team *team)
{
    if (team->is_by_mpirun && team->process_count > 0) {
        end_mpirun(team);
    }
    for (uint32_t i = 0; i < team->process_count; i++) {
        if (team->pid[i] > 0) {
            (void)kill(team->is_by_mpirun ? -team->pid[i] : team->pid[i], SIGKILL);
        }
    }
    for (uint32_t i = 0; i < team->process_count; i++) {
        while (team->pid[i] > 0 && waitpid(team->pid[i], NULL, 0) < 0 && errno == EINTR) {
        }
        team->pid[i] = 0;
    }
    team->process_count = 0;
    remove_files(team);
}

/* The first rank that has said why it failed, and not only that another one is gone. */
static bool find_reason(const struct harness_lab_shared *shared, bool is_any, struct ddp_err *err,
                        ddp_status *out)
{
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        const struct harness_lab_slot *slot = &shared->slot[r];

        if (slot->status != DDP_OK && (is_any || slot->status != DDP_E_PEER_DIED)) {
            *out = ddp_err_set(err, slot->status, "rank %u: %s", r, slot->text);
            return true;
        }
    }
    return false;
}

static ddp_status say_signal(const struct harness_lab_team *team, uint32_t i, int status,
                             struct ddp_err *err)
{
    return ddp_err_set(err, DDP_E_PEER_DIED, "%s %u was ended by signal %d (%s)",
                       team->is_by_mpirun ? "mpirun, process" : "rank", i, WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
}

/* Collects those that have ended. One that was ended by a signal is a reason by itself. */
static ddp_status collect(struct harness_lab_team *team, uint32_t *out_running, struct ddp_err *err)
{
    *out_running = 0;
    for (uint32_t i = 0; i < team->process_count; i++) {
        int status = 0;

        if (team->pid[i] > 0 && waitpid(team->pid[i], &status, WNOHANG) == team->pid[i]) {
            team->pid[i] = 0;
            if (WIFSIGNALED(status)) {
                return say_signal(team, i, status, err);
            }
            if (WEXITSTATUS(status) != 0 && team->failed == 0) {
                team->failed = i + 1;
                team->failed_status = status;
                team->failed_ns = ddp_clock_now_ns(ddp_clock_monotonic());
            }
        }
        *out_running += team->pid[i] > 0 ? 1 : 0;
    }
    return DDP_OK;
}

/* Somebody failed: why? OK: that is not known yet, and somebody who may know still runs. */
static ddp_status judge_failure(const struct harness_lab_team *team, bool is_running,
                                uint64_t now_ns, struct ddp_err *err)
{
    ddp_status reason = DDP_E_PEER_DIED;

    if (find_reason(team->shared, false, err, &reason)) {
        return reason;
    }
    if (is_running && now_ns - team->failed_ns < GRACE_NS) {
        return DDP_OK;
    }
    if (find_reason(team->shared, true, err, &reason)) {
        return reason;
    }
    return ddp_err_set(err, reason, "%s %u ended with code %d",
                       team->is_by_mpirun ? "mpirun, process" : "rank", team->failed - 1,
                       WEXITSTATUS(team->failed_status));
}

static uint64_t progress_of(const struct harness_lab_shared *shared, uint32_t *out_least)
{
    uint64_t sum = __atomic_load_n(&shared->gate_round, __ATOMIC_ACQUIRE);

    *out_least = UINT32_MAX;
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        uint32_t done = __atomic_load_n(&shared->slot[r].done, __ATOMIC_ACQUIRE);

        sum += done;
        *out_least = done < *out_least ? done : *out_least;
    }
    return sum;
}

static ddp_status follow(struct harness_lab_team *team, uint32_t done, bool is_end,
                         struct ddp_err *err)
{
    uint64_t moved_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    uint64_t before = 0;

    for (;;) {
        uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        uint32_t least, running;
        uint64_t progress = progress_of(team->shared, &least);
        ddp_status status = collect(team, &running, err);

        if (status == DDP_OK && team->failed > 0) {
            status = judge_failure(team, running > 0, now_ns, err);
            if (status == DDP_OK) {
                (void)poll(NULL, 0, LOOK_MS);
                continue;
            }
        }
        if (status != DDP_OK || (is_end ? running == 0 : least >= done)) {
            return status;
        }
        if (running == 0) {
            return ddp_err_set(err, DDP_E_PEER_DIED, "the ranks ended before they had begun");
        }
        if (progress != before) {
            before = progress;
            moved_ns = now_ns;
        } else if (now_ns - moved_ns > STUCK_NS) {
            return ddp_err_set(err, DDP_E_TIMEOUT, "no rank has got on for %d s",
                               (int)(STUCK_NS / DDP_NS_PER_S));
        }
        (void)poll(NULL, 0, LOOK_MS);
    }
}

bool harness_lab_team_watch(struct harness_lab_team *team, uint32_t done, uint64_t timeout_ns,
                            int *out_end)
{
    uint64_t deadline_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), timeout_ns);
    uint32_t ranks = team->shared->request.ranks;
    int wait_ms = 0;

    for (;;) {
        bool is_over = true;

        for (uint32_t i = 0; i < team->process_count; i++) {
            if (team->pid[i] > 0 && waitpid(team->pid[i], &team->end[i], WNOHANG) == team->pid[i]) {
                team->pid[i] = 0;
            } else if (team->pid[i] > 0) {
                team->end[i] = -1;
            }
        }
        for (uint32_t r = 0; r < ranks; r++) {
            out_end[r] = team->end[team->is_by_mpirun ? 0 : r];
            is_over = is_over && (out_end[r] != -1 || __atomic_load_n(&team->shared->slot[r].done,
                                                                      __ATOMIC_ACQUIRE) >= done);
        }
        if (is_over || ddp_clock_now_ns(ddp_clock_monotonic()) > deadline_ns) {
            return is_over;
        }
        (void)poll(NULL, 0, wait_ms);
        wait_ms = wait_ms < LOOK_MS ? wait_ms + 1 : LOOK_MS;
    }
}

ddp_status harness_lab_team_wait(struct harness_lab_team *team, uint32_t done, struct ddp_err *err)
{
    ddp_status status = follow(team, done, false, err);

    if (status != DDP_OK) {
        harness_lab_team_end(team);
    }
    return status;
}

ddp_status harness_lab_team_join(struct harness_lab_team *team, struct ddp_err *err)
{
    ddp_status status = follow(team, 0, true, err);

    harness_lab_team_end(team);
    return status;
}
