/* Finds the arena, and takes the rank's slot in it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/guest/self.h"

static pthread_mutex_t attaching = PTHREAD_MUTEX_INITIALIZER;

/* A number without sign that takes the whole text, or up to `end`. */
static bool parse_number(const char *text, char end, int base, uint64_t *out, const char **out_rest)
{
    char *rest = NULL;

    if (text == NULL || text[0] < '0') {
        return false;
    }
    errno = 0;
    *out = strtoull(text, &rest, base);
    if (errno != 0 || rest == text || *rest != end) {
        return false;
    }
    if (out_rest != NULL) {
        *out_rest = rest;
    }
    return true;
}

/* The value of the first of these variables that is set; -1: none is, or it is no number. */
static int64_t variable_of(const char *const *names)
{
    uint64_t value = 0;

    for (; *names != NULL; names++) {
        const char *text = getenv(*names);

        if (text != NULL) {
            return parse_number(text, '\0', 10, &value, NULL) && value <= UINT32_MAX
                       ? (int64_t)value
                       : -1;
        }
    }
    return -1;
}

static int64_t told_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID",
                                        NULL};

    return variable_of(names);
}

static int64_t told_world_size(void)
{
    static const char *const names[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_NTASKS", NULL};

    return variable_of(names);
}

static bool is_arena(const struct guest_arena *arena, uint64_t size_bytes, uint64_t nonce)
{
    return arena->magic == GUEST_ARENA_MAGIC && arena->version == GUEST_ARENA_VERSION &&
           arena->nonce == nonce && arena->size_bytes <= size_bytes;
}

/* Map what "/proc/PID/fd/N:NONCE" names. NULL: it is not there any more, or is something else. */
static struct guest_arena *map_arena(const char *where)
{
    const char *colon = strrchr(where, ':');
    char path[64];
    uint64_t nonce = 0;
    struct stat file;
    struct guest_arena *arena;
    int fd;

    if (colon == NULL || (size_t)(colon - where) >= sizeof path ||
        !parse_number(colon + 1, '\0', 16, &nonce, NULL)) {
        return NULL;
    }
    memcpy(path, where, (size_t)(colon - where));
    path[colon - where] = '\0';
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &file) != 0 || file.st_size < (off_t)sizeof *arena) {
        (void)close(fd);
        return NULL;
    }
    arena = mmap(NULL, (size_t)file.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (arena == MAP_FAILED) {
        return NULL;
    }
    if (!is_arena(arena, (uint64_t)file.st_size, nonce)) {
        (void)munmap(arena, (size_t)file.st_size);
        return NULL;
    }
    return arena;
}

/* Where the system asks for it, allow ddprove, whose process made the arena, and what it starts to
 * take a stack. where: "/proc/PID/...". */
static void let_be_looked_at(const char *where)
{
    uint64_t pid = 0;

    if (strncmp(where, "/proc/", 6) == 0 && parse_number(where + 6, '/', 10, &pid, NULL)) {
        (void)prctl(PR_SET_PTRACER, pid, 0, 0, 0);
    }
}

/* Take the slot, unless a living process has it: that is shown. */
static bool take_slot(struct guest_page *page)
{
    uint64_t pid = __atomic_load_n(&page->pid, __ATOMIC_ACQUIRE);

    if (pid != 0 && (kill((pid_t)pid, 0) == 0 || errno != ESRCH)) {
        guest_store(&page->rival_pid, (uint64_t)getpid());
        return false;
    }
    return __atomic_compare_exchange_n(&page->pid, &pid, (uint64_t)getpid(), false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static struct guest_page *attach(int64_t rank, int64_t world_size)
{
    static bool is_fork_seen;
    const char *where = getenv(GUEST_ARENA_VARIABLE);
    struct guest_arena *arena;
    struct guest_page *page;

    rank = rank < 0 ? told_rank() : rank;
    world_size = world_size < 0 ? told_world_size() : world_size;
    arena = rank < 0 || where == NULL ? NULL : map_arena(where);
    if (arena == NULL) {
        return NULL;
    }
    page = (uint64_t)rank < arena->world_size ? guest_arena_page(arena, (uint32_t)rank) : NULL;
    if (page == NULL) {
        guest_store(&arena->stray_rank, (uint64_t)rank);
        guest_store(&arena->stray_pid, (uint64_t)getpid());
    }
    if (page == NULL || !take_slot(page)) {
        (void)munmap(arena, arena->size_bytes);
        return NULL;
    }
    if (!is_fork_seen) {
        /* A forked child is not the rank, and must not write where its parent does. */
        is_fork_seen = pthread_atfork(NULL, NULL, guest_self_forget) == 0;
    }
    let_be_looked_at(where);
    guest_store(&page->world_size, world_size < 0 ? 0 : (uint64_t)world_size);
    guest_self_open(arena, page);
    return page;
}

/* How a process ends that was never met cannot be learnt if it is no child of the watcher's. The
 * watcher looks every few milliseconds; one that is stopped, or gone, keeps nobody. */
static void await_meeting(const struct guest_arena *arena, struct guest_page *page)
{
    const struct timespec most = {.tv_sec = 1};

    while (arena->is_meeting != 0 && __atomic_load_n(&page->is_met, __ATOMIC_ACQUIRE) == 0 &&
           (syscall(SYS_futex, &page->is_met, FUTEX_WAIT, 0, &most, NULL, 0) == 0 ||
            errno == EINTR || errno == EAGAIN)) {
    }
}

int ddprove_guest_attach(int rank, int world_size)
{
    struct guest_page *page;

    (void)pthread_mutex_lock(&attaching);
    page = guest_self_page();
    if (page == NULL) {
        page = attach(rank, world_size);
        if (page != NULL) {
            const uint64_t arg[GUEST_ARG_COUNT] = {(uint64_t)getpid(),
                                                   guest_load(&page->world_size)};
            guest_self_record(page, GUEST_EVENT_ATTACH, arg);
            await_meeting(guest_self_arena(), page);
        }
    }
    (void)pthread_mutex_unlock(&attaching);
    return page != NULL;
}

void ddprove_guest_detach(void)
{
    struct guest_page *page = guest_self_page();
    const uint64_t arg[GUEST_ARG_COUNT] = {0};

    if (page != NULL) {
        guest_self_record(page, GUEST_EVENT_DETACH, arg);
        guest_store(&page->is_ended, 1);
    }
}

int ddprove_guest_is_watched(void)
{
    return guest_self_page() != NULL;
}
