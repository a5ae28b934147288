/* Loaded before the C library (LD_PRELOAD): the n-th call of a kind that a program and those it
 * starts make on files of a folder fails, or moves a part. libfiu's preload library cannot say
 * which call of several processes it is, nor on which files. What the C library itself calls behind
 * a FILE does not come here, but fopen does, which never repeats what a signal has interrupted.
 *
 * FAIL_CALL: its name. FAIL_AT: n, from 1 on. FAIL_ERRNO: a number; 0: a write moves half.
 * FAIL_LATER: set if those after it fail, too. FAIL_UNDER: the folder. FAIL_SEEN: a file of struct
 * seen, which all these processes share. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct seen {
    _Atomic uint64_t count;
    char path[PATH_MAX]; /* of the call that failed first */
};

static struct seen *seen;
static const char *chosen;
static const char *under;
static uint64_t at;
static int error;
static bool is_for_good;

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL) {
        (void)fprintf(stderr, "fail_call: %s is not set\n", name);
        abort();
    }
    return value;
}

__attribute__((constructor)) static void begin(void)
{
    const int fd = open(variable("FAIL_SEEN"), O_RDWR | O_CLOEXEC);

    chosen = variable("FAIL_CALL");
    under = variable("FAIL_UNDER");
    at = strtoull(variable("FAIL_AT"), NULL, 10);
    error = (int)strtol(variable("FAIL_ERRNO"), NULL, 10);
    is_for_good = getenv("FAIL_LATER") != NULL;
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (seen == MAP_FAILED) {
        abort();
    }
    (void)close(fd);
}

static bool strikes(const char *call, const char *path)
{
    uint64_t number;

    if (seen == NULL || strcmp(call, chosen) != 0 || strncmp(path, under, strlen(under)) != 0) {
        return false;
    }
    number = atomic_fetch_add(&seen->count, 1) + 1;
    if (number == at) {
        (void)snprintf(seen->path, sizeof seen->path, "%s", path);
    }
    if (number == at || (is_for_good && number > at)) {
        errno = error;
        return true;
    }
    return false;
}

static bool strikes_fd(const char *call, int fd)
{
    const int before = errno;
    char link[64];
    char path[PATH_MAX];
    ssize_t size;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    errno = before;
    if (size < 0) {
        return false;
    }
    path[size] = '\0';
    return strikes(call, path);
}

/* Relative paths lie in the present folder. */
static bool strikes_path(const char *call, const char *path)
{
    char folder[PATH_MAX];
    char whole[2 * PATH_MAX];

    if (path[0] == '/' || getcwd(folder, sizeof folder) == NULL) {
        return strikes(call, path);
    }
    (void)snprintf(whole, sizeof whole, "%s/%s", folder, path);
    return strikes(call, whole);
}

#define NEXT(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                          \
    int name(const char *path, int how, ...)                                \
    {                                                                       \
        va_list list;                                                       \
        mode_t mode;                                                        \
                                                                            \
        va_start(list, how);                                                \
        mode = (how & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;             \
        va_end(list);                                                       \
        return strikes_path((how & O_CREAT) != 0 ? "create" : "open", path) \
                   ? -1                                                     \
                   : NEXT(name)(path, how, mode);                           \
    }
OPEN(open)
OPEN(open64)

#define FOPEN(name)                                                        \
    FILE *name(const char *path, const char *how)                          \
    {                                                                      \
        return strikes_path("fopen", path) ? NULL : NEXT(name)(path, how); \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size_bytes)
{
    if (size_bytes > 0 && strikes_fd("write", fd)) {
        return error != 0 ? -1 : NEXT(write)(fd, data, size_bytes - size_bytes / 2);
    }
    return NEXT(write)(fd, data, size_bytes);
}

ssize_t read(int fd, void *data, size_t size_bytes)
{
    if (size_bytes > 0 && strikes_fd("read", fd)) {
        return error != 0 ? -1 : NEXT(read)(fd, data, size_bytes - size_bytes / 2);
    }
    return NEXT(read)(fd, data, size_bytes);
}

int fsync(int fd)
{
    return strikes_fd("fsync", fd) ? -1 : NEXT(fsync)(fd);
}

int ftruncate(int fd, off_t size)
{
    return strikes_fd("ftruncate", fd) ? -1 : NEXT(ftruncate)(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    return strikes_fd("ftruncate", fd) ? -1 : NEXT(ftruncate64)(fd, size);
}

/* The descriptor is gone, whatever it returns. What was only read has nothing to lose. */
int close(int fd)
{
    const int how = fcntl(fd, F_GETFL);
    const bool is_struck = how >= 0 && (how & O_ACCMODE) != O_RDONLY && strikes_fd("close", fd);
    const int result = NEXT(close)(fd);

    if (is_struck) {
        errno = error;
    }
    return is_struck ? -1 : result;
}

int rename(const char *from, const char *to)
{
    return strikes_path("rename", to) ? -1 : NEXT(rename)(from, to);
}

int mkdir(const char *path, mode_t mode)
{
    return strikes_path("mkdir", path) ? -1 : NEXT(mkdir)(path, mode);
}
