/* Purpose: one call that is longer than 32 bits can count, in bytes and, where the collective takes
 * bytes as elements, in elements too.
 * Idea: every other trial is short, so a length that is kept in 32 bits passes all of them. Two
 * ranks, in place, have room for it on a machine of 16 GiB; the room is this trial's alone. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "harness/lab/conforming.h"

/* All that ranks write: of each its input and output in the arena, and the buffer of its call.
 * What a collective needs for itself comes on top: once more as much as the inputs. */
enum { LARGE_RANKS = 2, AREAS_USED = 2, TIMES_LONGER = 20 };
#define LARGE_BYTES ((size_t)1 << 31)
#define MORE_ELEMS  ((size_t)5)
#define SPARE_BYTES ((size_t)1 << 30) /* for whoever else runs */

/* What the kernel can give without swapping: pages that cache files count, other than in
 * _SC_AVPHYS_PAGES. */
static size_t memory_free_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    static const char name[] = "MemAvailable:";
    size_t free_bytes = 0;
    struct rlimit limit;
    char line[128];

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0) {
            free_bytes = (size_t)strtoull(line + strlen(name), NULL, 10) << 10; /* it says kB */
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur < free_bytes) {
        free_bytes = (size_t)limit.rlim_cur;
    }
    return free_bytes;
}

/* Elements of a block, such that a rank's buffer is longer than LARGE_BYTES. */
static size_t elems_of(const struct harness_conforming *run, enum ddp_dtype dtype)
{
    const struct harness_lab_request *request = &run->team.shared->request;
    size_t in = harness_lab_input_elems(request, 1), out = harness_lab_output_elems(request, 1);

    return LARGE_BYTES / ((in > out ? in : out) * ddp_dtype_size_bytes(dtype)) + MORE_ELEMS;
}

static void set_untried(struct harness_conforming *run, const char *why)
{
    run->report->result[HARNESS_CONFORM_LARGE].is_asked = false;
    (void)snprintf(run->report->untried, sizeof run->report->untried, "%s", why);
}

/* Nobody here sends that signal to a rank whose time is not up: the kernel does. */
static bool was_killed(const struct harness_conforming *run, uint32_t rank)
{
    return run->end[rank] != -1 && WIFSIGNALED(run->end[rank]) &&
           WTERMSIG(run->end[rank]) == SIGKILL;
}

static enum harness_trial_end try_one(struct harness_conforming *run, enum ddp_dtype dtype)
{
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;

    harness_conform_set_trial(run, elems_of(run, dtype));
    run->team.shared->trial.dtype = dtype;
    run->team.shared->trial.is_in_place = true;
    harness_lab_put_whole(run->team.shared, 0, 0);
    end = harness_conform_try(run, false, &wrong);
    if (end == HARNESS_TRIAL_BADLY && wrong.rank < LARGE_RANKS && was_killed(run, wrong.rank)) {
        set_untried(run, "a rank was killed, as if memory were short");
    } else if (end == HARNESS_TRIAL_BADLY) {
        harness_conform_judge(run, HARNESS_CONFORM_LARGE, &wrong);
    } else if (end == HARNESS_TRIAL_WELL) {
        harness_conform_judge(run, HARNESS_CONFORM_LARGE,
                              harness_lab_judge_whole(run->team.shared, 0, 0, &wrong) ? NULL
                                                                                      : &wrong);
    }
    return end;
}

/* The team of the other trials is at its end; this one has its request. */
static void try_in_team(struct harness_conforming *run, size_t arena_bytes)
{
    const struct harness_lab_request request = run->team.shared->request;
    const struct harness_conform_options *short_options = run->options;
    struct harness_conform_options options = *short_options;

    harness_lab_team_fini(&run->team);
    run->status = harness_lab_team_init(&run->team, LARGE_RANKS, arena_bytes, run->err);
    if (run->status != DDP_OK) {
        return;
    }
    run->team.shared->request = request;
    options.timeout_ns *= TIMES_LONGER;
    run->options = &options;
    if (try_one(run, DDP_DTYPE_U8) == HARNESS_TRIAL_UNTAKEN && run->status == DDP_OK) {
        (void)try_one(run, DDP_DTYPE_F32);
    }
    run->options = short_options;
    harness_conform_end_team(run);
}

void harness_conform_large(struct harness_conforming *run)
{
    size_t need_bytes, arena_bytes, free_bytes = memory_free_bytes();
    char why[120];

    harness_conform_end_team(run);
    run->team.shared->request.ranks = LARGE_RANKS;
    arena_bytes = LARGE_BYTES + LARGE_RANKS * MORE_ELEMS * sizeof(float);
    need_bytes = (size_t)LARGE_RANKS * (AREAS_USED + 1 + 1) * arena_bytes + SPARE_BYTES;
    if (need_bytes > free_bytes) {
        (void)snprintf(why, sizeof why, "%zu MiB of memory are needed, %zu are free",
                       need_bytes >> 20, free_bytes >> 20);
        set_untried(run, why);
        return;
    }
    try_in_team(run, arena_bytes);
}
