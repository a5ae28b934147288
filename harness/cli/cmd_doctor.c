/* doctor: what this machine offers, and what is skipped without it. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ddpcore/device/device.h"
#include "harness/ckpt/ckpt.h"
#include "harness/cli/cli.h"
#include "harness/exec/launcher.h"
#include "harness/launch/card.h"
#include "harness/launch/mpi.h"

static void report(const char *what, bool is_there, const char *detail, const char *without)
{
    (void)printf("%-22s %-4s %s%s%s\n", what, is_there ? "yes" : "no", detail,
                 is_there ? "" : "  without it: ", is_there ? "" : without);
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

/* The same probe and the same text as when `run` skips a scenario on cuda. */
static void report_cards(void)
{
    struct ddp_err err = {{0}};
    struct harness_cards cards;
    char detail[sizeof cards.info.name + 128];

    if (harness_cards_probe(&cards, &err) != DDP_OK) {
        (void)snprintf(cards.reason, sizeof cards.reason, "%.500s", err.text);
        cards.is_usable = false;
    }
    (void)snprintf(detail, sizeof detail, "%u x %s, driver %u.%u, runtime %u.%u, NCCL %u.%u.%u",
                   cards.info.card_count, cards.info.name, cards.info.driver_version / 1000,
                   cards.info.driver_version % 1000 / 10, cards.info.runtime_version / 1000,
                   cards.info.runtime_version % 1000 / 10, cards.nccl_version / 10000,
                   cards.nccl_version / 100 % 100, cards.nccl_version % 100);
    report("GPUs", cards.is_usable, cards.is_usable ? detail : cards.reason,
           "scenarios on cuda are SKIPPED");
}

/* The same probe and the same text as when `run --launcher mpirun` skips. */
static void report_mpirun(void)
{
    struct ddp_err err = {{0}};
    char detail[256];
    bool is_there =
        harness_launcher_describe(HARNESS_LAUNCHER_MPIRUN, detail, sizeof detail, &err) == DDP_OK;

    report("mpirun", is_there, is_there ? detail : err.text,
           "scenarios run with --launcher mpirun are SKIPPED");
}

/* The same probe and the same text as when `run --collective mpi` skips. */
static void report_mpi(void)
{
    struct ddp_err err = {{0}};
    char detail[128];
    bool is_there = harness_mpi_describe(detail, sizeof detail, &err) == DDP_OK;

    report("MPI", is_there, is_there ? detail : err.text,
           "scenarios with collective mpi are SKIPPED");
}

/* What `exec` asks where the ranks of a hang stand. */
static void report_stacks(void)
{
    report("eu-stack", harness_exec_is_in_path("eu-stack"), "where ranks of a hang stand",
           "no stacks of ranks: install elfutils");
    report("py-spy", harness_exec_is_in_path("py-spy"), "where Python programs of a hang stand",
           "the interpreter's stacks in their place: pip install py-spy");
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
    report("libfiu preload", has_program("/usr/bin/fiu-run"),
           "faults of files strike in front of the C library",
           "faults of files strike in the ranks' own file layer: install fiu-utils");
    report_cards();
    report_mpirun();
    report_mpi();
    report_stacks();
    report("libzip", harness_ckpt_reads_torch(), "ckpt reads what torch.save wrote",
           "ckpt reads safetensors alone: install libzip-dev and build again");
    can_run = has_blas && has_memfd() && has_pidfd();
    (void)printf("drivers: sim %s, proc %s\n", has_blas ? "ready" : "not ready",
                 can_run ? "ready" : "not ready");
    return can_run ? 0 : 1;
}
