/* Purpose: see the header.
 * Idea: the kernel says where a write goes that it refuses. The signal's handler notes that, lets
 * the pages be written to, and the instruction is made once more: nothing else changes for who
 * writes, so what is wrong is said of the input and not of a crash. */
#include "harness/lab/sealed.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ddpcore/base/status.h"

enum { PAGE_BYTES_MAX = 4096 }; /* what callers leave on both sides */

static struct {
    uintptr_t first, end; /* the input */
    uintptr_t pages;
    size_t pages_bytes; /* 0: nothing is sealed */
    struct sigaction before;
} sealed;
static _Atomic int64_t written_at;

static void note_write(int signal, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr;
    int64_t none = -1;

    (void)context;
    if (at < sealed.pages || at >= sealed.pages + sealed.pages_bytes) {
        (void)sigaction(signal, &sealed.before, NULL); /* a crash like any other */
        return;
    }
    if (at >= sealed.first && at < sealed.end) {
        (void)atomic_compare_exchange_strong(&written_at, &none, (int64_t)(at - sealed.first));
    }
    (void)mprotect((void *)sealed.pages, sealed.pages_bytes, PROT_READ | PROT_WRITE);
}

void harness_lab_seal(const unsigned char *data, size_t size_bytes)
{
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct sigaction action = {.sa_sigaction = note_write, .sa_flags = SA_SIGINFO};

    DDP_ASSERT(sealed.pages_bytes == 0);
    written_at = -1;
    if (size_bytes == 0 || page_bytes > (uintptr_t)PAGE_BYTES_MAX) {
        return;
    }
    sealed.first = (uintptr_t)data;
    sealed.end = sealed.first + size_bytes;
    sealed.pages = sealed.first / page_bytes * page_bytes;
    sealed.pages_bytes = (sealed.end + page_bytes - 1) / page_bytes * page_bytes - sealed.pages;
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGSEGV, &action, &sealed.before) != 0) {
        sealed.pages_bytes = 0;
        return;
    }
    (void)mprotect((void *)sealed.pages, sealed.pages_bytes, PROT_READ);
}

int64_t harness_lab_unseal(void)
{
    if (sealed.pages_bytes > 0) {
        (void)mprotect((void *)sealed.pages, sealed.pages_bytes, PROT_READ | PROT_WRITE);
        (void)sigaction(SIGSEGV, &sealed.before, NULL);
        sealed.pages_bytes = 0;
    }
    return written_at;
}
