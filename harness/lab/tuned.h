/* Which algorithm is right for which size, as this machine was found to do it: learned once, kept
 * in a file that people can read, and used where no algorithm is chosen. */
#ifndef HARNESS_LAB_TUNED_H
#define HARNESS_LAB_TUNED_H

#include "ddpcore/base/file.h"
#include "ddpcore/base/text.h"
#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_TUNED_CHOICES_MAX 32u
#define HARNESS_TUNED_WORLDS_MAX  32u

/* All-reduces of a number of ranks on shared memory. */
struct harness_tuned_world {
    uint32_t ranks;
    struct ddp_coll_choice choice[HARNESS_TUNED_CHOICES_MAX];
    size_t choice_count;
};

struct harness_tuned {
    char machine[256]; /* that it was learned on: harness_tuned_machine */
    struct harness_tuned_world world[HARNESS_TUNED_WORLDS_MAX]; /* by ranks */
    size_t world_count;
};

/* What makes a machine another one: its processor, how many of its cores may be used, its cache,
 * and the version of ddprove. */
void harness_tuned_machine(const char *version, char *out, size_t size_bytes);

/* Text form. Errors: E_PARSE with the line and what is wrong with it. */
void harness_tuned_print(const struct harness_tuned *tuned, struct ddp_text *out);
DDP_MUST_USE ddp_status harness_tuned_parse(const char *text, struct harness_tuned *out,
                                            struct ddp_err *err);

/* The file of this machine. Errors: E_NOT_FOUND: nothing was learned yet; E_STATE: on another
 * machine; E_PARSE; E_IO. Each says what to do. */
DDP_MUST_USE ddp_status harness_tuned_read(struct ddp_files *files, const char *path,
                                           const char *machine, struct harness_tuned *out,
                                           struct ddp_err *err);

/* The choices for so many ranks; NULL: none were learned. */
const struct harness_tuned_world *harness_tuned_find(const struct harness_tuned *tuned,
                                                     uint32_t ranks);
/* Puts a world in its place, or replaces it. Errors: E_OVERFLOW. */
DDP_MUST_USE ddp_status harness_tuned_put(struct harness_tuned *tuned,
                                          const struct harness_tuned_world *world);

struct harness_bench_options;
/* tune.c: measures every all-reduce of the core with several lengths of messages, and takes the
 * fastest of each size. options: ranks, sizes, iterations and progress count. Errors: those of
 * harness_bench_run; E_INVALID: something was wrong. */
DDP_MUST_USE ddp_status harness_tuned_learn(const struct harness_bench_options *options,
                                            struct harness_tuned_world *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
