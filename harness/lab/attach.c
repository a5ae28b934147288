/* Purpose: a rank that mpirun has started finds its team by a path below /proc. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness/lab/bench.h"
#include "harness/lab/shared.h"

enum { EXIT_NO_TEAM = 3 };

/* Ranks that somebody else has started end with ddprove all the same. */
static void *wait_for_end(void *argument)
{
    struct pollfd entry = {.fd = *(const int *)argument, .events = POLLIN};

    while (poll(&entry, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(EXIT_NO_TEAM);
}

static bool follow_host(const struct harness_lab_shared *shared)
{
    static int fd;
    pthread_t thread;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* mpirun is ended: so are its ranks */
    fd = (int)syscall(SYS_pidfd_open, shared->host_pid, 0);
    return fd >= 0 && pthread_create(&thread, NULL, wait_for_end, &fd) == 0;
}

int harness_lab_main(const char *path, uint32_t rank)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;
    struct harness_lab_shared *shared;

    if (fd < 0) {
        return EXIT_NO_TEAM;
    }
    if (fstat(fd, &about) != 0 || (size_t)about.st_size < sizeof *shared) {
        (void)close(fd);
        return EXIT_NO_TEAM;
    }
    shared = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (shared == MAP_FAILED || shared->magic != HARNESS_LAB_MAGIC ||
        shared->size_bytes != (size_t)about.st_size || rank >= shared->request.ranks ||
        !follow_host(shared)) {
        return EXIT_NO_TEAM;
    }
    return harness_lab_rank(shared, rank);
}
