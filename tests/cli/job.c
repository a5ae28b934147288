/* Starting ddprove, and looking for what it leaves behind. */
#include "tests/cli/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "tests/ct.h"

enum { ARGUMENTS_MAX = 24 };
static const uint64_t patience_ns = 20 * DDP_NS_PER_S;

/* Between two looks at a condition. */
static void pause_shortly(void)
{
    const struct timespec time = {0, 2 * (long)DDP_NS_PER_MS};

    (void)nanosleep(&time, NULL);
}

/* Names of segments; not those of the folders and files that other tests have there meanwhile. */
static void list_shm(char *out, size_t size)
{
    DIR *folder = opendir("/dev/shm");
    struct dirent *entry;
    size_t used = 0;

    out[0] = '\0';
    while (folder != NULL && (entry = readdir(folder)) != NULL && used + 260 < size) {
        if (strncmp(entry->d_name, "ddp", 3) == 0 && strncmp(entry->d_name, "ddprove-", 8) != 0 &&
            strncmp(entry->d_name, "ddprove_test_", 13) != 0) {
            used += (size_t)snprintf(out + used, size - used, "%s\n", entry->d_name);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
}

void cli_job_init(struct cli_job *job)
{
    memset(job, 0, sizeof(*job));
    job->terminal_fd = -1;
    (void)snprintf(job->folder, sizeof(job->folder), "/tmp/ddprove-cli-XXXXXX");
    CT_REQUIRE(mkdtemp(job->folder) != NULL);
    CT_REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    list_shm(job->shm, sizeof(job->shm));
}

/* The child: its streams, its signals, its program. */
__attribute__((noreturn)) static void become(const struct cli_job *job, const char *const *argv,
                                             int stream_fd, int ignored)
{
    char words[ARGUMENTS_MAX][512];
    char *list[ARGUMENTS_MAX + 1];
    size_t count = 0;

    (void)setsid();
    if (isatty(stream_fd) != 0) {
        (void)ioctl(stream_fd, TIOCSCTTY, 0);
        (void)dup2(stream_fd, STDIN_FILENO);
    }
    (void)dup2(stream_fd, STDOUT_FILENO);
    (void)dup2(stream_fd, STDERR_FILENO);
    (void)close(stream_fd);
    (void)setenv("TMPDIR", job->folder, 1);
    if (ignored != 0) {
        (void)signal(ignored, SIG_IGN);
    }
    for (; argv[count] != NULL && count < ARGUMENTS_MAX; count++) {
        const char *at = strchr(argv[count], '@');

        (void)snprintf(words[count], sizeof(words[count]), "%.*s%s%s",
                       (int)strcspn(argv[count], "@"), argv[count], at != NULL ? job->folder : "",
                       at != NULL ? at + 1 : "");
        list[count] = words[count];
    }
    list[count] = NULL;
    (void)execv(DDPROVE_PATH, list);
    _exit(127);
}

void cli_job_start(struct cli_job *job, const char *const *argv, bool has_terminal, int ignored)
{
    char path[128];
    int stream_fd;

    (void)snprintf(path, sizeof(path), "%s/log", job->folder);
    if (has_terminal) {
        job->terminal_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
        CT_REQUIRE(job->terminal_fd >= 0);
        CT_REQUIRE(grantpt(job->terminal_fd) == 0 && unlockpt(job->terminal_fd) == 0);
        stream_fd = open(ptsname(job->terminal_fd), O_RDWR | O_NOCTTY);
    } else {
        stream_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    }
    CT_REQUIRE(stream_fd >= 0);
    job->pid = fork();
    if (job->pid == 0) {
        become(job, argv, stream_fd, ignored);
    }
    (void)close(stream_fd);
    CT_REQUIRE(job->pid > 0);
}

static bool read_stat(pid_t pid, struct cli_process *out)
{
    char path[64];
    char line[512];
    char *open_at;
    char *end;
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    size = fread(line, 1, sizeof(line) - 1, file);
    (void)fclose(file);
    line[size] = '\0';
    open_at = strchr(line, '(');
    end = strrchr(line, ')');
    if (open_at == NULL || end == NULL) {
        return false;
    }
    *end = '\0';
    out->pid = pid;
    (void)snprintf(out->name, sizeof(out->name), "%s", open_at + 1);
    out->state = end[2];
    out->parent = (pid_t)strtol(end + 4, NULL, 10);
    return true;
}

static bool is_listed(const struct cli_process *list, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].pid == pid) {
            return true;
        }
    }
    return false;
}

size_t cli_job_descendants(const struct cli_job *job, struct cli_process *out)
{
    size_t count = 0;
    size_t before;

    /* Until a pass over all processes adds none: a child may have a smaller id than its parent. */
    do {
        DIR *folder = opendir("/proc");
        struct dirent *entry;

        before = count;
        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
            struct cli_process process;

            if (pid > 0 && count < CLI_JOB_PROCESSES_MAX && !is_listed(out, count, pid) &&
                read_stat(pid, &process) &&
                (process.parent == job->pid || is_listed(out, count, process.parent))) {
                out[count++] = process;
            }
        }
        if (folder != NULL) {
            (void)closedir(folder);
        }
    } while (count > before);
    return count;
}

static size_t count_descendants(const struct cli_job *job, const char *name, char state)
{
    struct cli_process list[CLI_JOB_PROCESSES_MAX];
    size_t count = cli_job_descendants(job, list);
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        bool is_named = name == NULL || strcmp(list[i].name, name) == 0;
        bool is_state = state == 0 || list[i].state == state;

        found += is_named && is_state ? 1 : 0;
    }
    return found;
}

static bool await(const struct cli_job *job, const char *name, char state, size_t count)
{
    uint64_t end_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), patience_ns);

    while (count_descendants(job, name, state) < count) {
        if (ddp_clock_now_ns(ddp_clock_monotonic()) > end_ns) {
            return false;
        }
        pause_shortly();
    }
    return true;
}

bool cli_job_await(const struct cli_job *job, const char *name, size_t count)
{
    return await(job, name, 0, count);
}

bool cli_job_await_state(const struct cli_job *job, char state, size_t count)
{
    return await(job, NULL, state, count);
}

pid_t cli_job_find(const struct cli_job *job, const char *name)
{
    struct cli_process list[CLI_JOB_PROCESSES_MAX];
    size_t count = cli_job_descendants(job, list);

    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, name) == 0) {
            return list[i].pid;
        }
    }
    return 0;
}

/* What it shows must be taken, or its terminal fills up. */
static void take_shown(struct cli_job *job)
{
    ssize_t size = 1;

    while (job->terminal_fd >= 0 && size > 0 && job->shown_size + 1 < sizeof(job->shown)) {
        size = read(job->terminal_fd, job->shown + job->shown_size,
                    sizeof(job->shown) - 1 - job->shown_size);
        job->shown_size += size > 0 ? (size_t)size : 0;
    }
}

bool cli_job_await_shown(struct cli_job *job, const char *text)
{
    uint64_t end_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), patience_ns);

    while (ddp_clock_now_ns(ddp_clock_monotonic()) < end_ns) {
        take_shown(job);
        if (strstr(job->shown, text) != NULL) {
            return true;
        }
        pause_shortly();
    }
    return false;
}

int cli_job_wait(struct cli_job *job)
{
    uint64_t end_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), patience_ns);
    int status = 0;

    while (waitpid(job->pid, &status, WNOHANG) == 0) {
        if (ddp_clock_now_ns(ddp_clock_monotonic()) > end_ns) {
            return -1;
        }
        take_shown(job);
        pause_shortly();
    }
    take_shown(job);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Orphans become our children: once they are all reaped there is none left. */
static bool reap_orphans(void)
{
    uint64_t end_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), patience_ns);

    while (ddp_clock_now_ns(ddp_clock_monotonic()) < end_ns) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);

        if (pid < 0) {
            return true;
        }
        if (pid == 0) {
            pause_shortly();
        }
    }
    return false;
}

/* nftw has no context argument. */
static char left_over[512];

static int find_temporary(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    const char *name = path + walk->base;
    bool is_temporary = strstr(name, ".tmp") != NULL || strncmp(name, "ddprove-train", 13) == 0;

    (void)type;
    if (is_temporary || S_ISSOCK(info->st_mode) || S_ISFIFO(info->st_mode)) {
        (void)snprintf(left_over, sizeof(left_over), "%s", path);
    }
    return 0;
}

void cli_job_check_gone(struct cli_job *job)
{
    struct cli_job self = {.pid = getpid()};
    struct cli_process list[CLI_JOB_PROCESSES_MAX];
    char shm[sizeof(job->shm)];

    if (!reap_orphans()) {
        size_t count = cli_job_descendants(&self, list);

        for (size_t i = 0; i < count; i++) {
            CT_FAIL("%s (%d, %c) is left", list[i].name, (int)list[i].pid, list[i].state);
            (void)kill(list[i].pid, SIGKILL);
        }
    }
    list_shm(shm, sizeof(shm));
    CT_CHECK_STR(shm, job->shm);
    left_over[0] = '\0';
    CT_CHECK(nftw(job->folder, find_temporary, 16, FTW_PHYS) == 0);
    CT_CHECK_STR(left_over, "");
}

size_t cli_job_fd_count(const struct cli_job *job)
{
    char path[64];
    DIR *folder;
    struct dirent *entry;
    size_t count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)job->pid);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        count += entry->d_name[0] != '.' ? 1 : 0;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

void cli_job_read(const struct cli_job *job, const char *name, char *out, size_t size)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", job->folder, name);
    file = fopen(path, "r");
    out[0] = '\0';
    if (file != NULL) {
        out[fread(out, 1, size - 1, file)] = '\0';
        (void)fclose(file);
    }
}

void cli_job_fini(struct cli_job *job)
{
    struct ddp_err err = {{0}};

    if (job->terminal_fd >= 0) {
        (void)close(job->terminal_fd);
    }
    CT_CHECK_OK(ddp_files_remove_tree(job->folder, &err));
}
