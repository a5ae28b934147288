/* doctor: what this machine offers, and what is skipped without it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ddpcore/device/device.h"
#include "harness/cli/cli.h"

static void report(const char *what, bool is_there, const char *detail, const char *without)
{
    (void)printf("%-22s %-4s %s%s%s\n", what, is_there ? "yes" : "no", detail,
                 is_there ? "" : "  without it: ", is_there ? "" : without);
}

static bool can_load(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);

    if (handle != NULL) {
        (void)dlclose(handle);
    }
    return handle != NULL;
}

static bool has_program(const char *path)
{
    return access(path, X_OK) == 0;
}

static bool has_memfd(void)
{
    int fd = memfd_create("ddprove-doctor", MFD_CLOEXEC);

    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

static bool has_pidfd(void)
{
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

int cli_doctor(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    struct rlimit files = {0, 0};
    bool has_blas = ddp_blas_open(NULL, &err) == DDP_OK;
    bool can_run;

    if (options->path_count > 0) {
        return cli_usage_error("doctor: takes nothing more, but \"%s\" follows", options->paths[0]);
    }
    (void)printf("ddprove %s\n", DDPROVE_VERSION);
    (void)printf("%-22s %ld\n", "cores", sysconf(_SC_NPROCESSORS_ONLN));
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)printf("%-22s %llu\n", "open files", (unsigned long long)files.rlim_cur);
    report("BLAS", has_blas, has_blas ? ddp_blas_describe() : err.text,
           "nothing runs: install libopenblas-serial-dev or libopenblas0");
    report("memfd", has_memfd(), "anonymous shared memory", "no proc driver");
    report("pidfd", has_pidfd(), "deaths of peers (Linux >= 5.3)", "no proc driver");
    report("libfiu preload", has_program("/usr/bin/fiu-run"), "I/O faults in other libraries",
           "scenarios that need it are SKIPPED: install fiu-utils");
    report("CUDA driver", can_load("libcuda.so.1"), "", "no GPU scenario runs");
    report("NCCL", can_load("libnccl.so.2"), "", "no nccl scenario runs");
    report("Open MPI", can_load("libmpi.so.40"), "", "no MPI collective, no --launcher mpirun");
    can_run = has_blas && has_memfd() && has_pidfd();
    (void)printf("drivers: sim %s, proc %s\n", has_blas ? "ready" : "not ready",
                 can_run ? "ready" : "not ready");
    return can_run ? 0 : 1;
}
