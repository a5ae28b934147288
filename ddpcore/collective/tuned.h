/* Which algorithm is right for which size, as `ddprove coll tune` found this machine to do it:
 * learned once, kept in a file that people can read, and used where no algorithm is chosen
 * (ddp_world_config.tuned_path, or ddp_coll_schedule_config.choices). */
#ifndef DDPCORE_COLLECTIVE_TUNED_H
#define DDPCORE_COLLECTIVE_TUNED_H

#include "ddpcore/base/file.h"
#include "ddpcore/base/text.h"
#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_TUNED_CHOICES_MAX 32u
#define DDP_TUNED_WORLDS_MAX  32u

/* All-reduces of a number of ranks on shared memory. */
struct ddp_tuned_world {
    uint32_t ranks;
    struct ddp_coll_choice choice[DDP_TUNED_CHOICES_MAX];
    size_t choice_count;
};

struct ddp_tuned {
    char machine[256]; /* that it was learned on: ddp_tuned_machine */
    struct ddp_tuned_world world[DDP_TUNED_WORLDS_MAX]; /* by ranks */
    size_t world_count;
};

/* What makes a machine another one: its processor, how many of its cores may be used, its cache,
 * and the version of ddprove. */
void ddp_tuned_machine(char *out, size_t size_bytes);

/* Text form. Errors: E_PARSE with the line and what is wrong with it. */
void ddp_tuned_print(const struct ddp_tuned *tuned, struct ddp_text *out);
DDP_MUST_USE ddp_status ddp_tuned_parse(const char *text, struct ddp_tuned *out,
                                        struct ddp_err *err);

/* The file of this machine. Errors: E_NOT_FOUND: nothing was learned yet; E_STATE: on another
 * machine; E_PARSE; E_IO. Each says what to do. */
DDP_MUST_USE ddp_status ddp_tuned_read(struct ddp_files *files, const char *path,
                                       const char *machine, struct ddp_tuned *out,
                                       struct ddp_err *err);

/* The choices for so many ranks; NULL: none were learned. */
const struct ddp_tuned_world *ddp_tuned_find(const struct ddp_tuned *tuned, uint32_t ranks);
/* Puts a world in its place, or replaces it. Errors: E_OVERFLOW. */
DDP_MUST_USE ddp_status ddp_tuned_put(struct ddp_tuned *tuned, const struct ddp_tuned_world *world);

#ifdef __cplusplus
}
#endif
#endif
