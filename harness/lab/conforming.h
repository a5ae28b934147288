/* What the parts of a conformance run share. Internal. */
#ifndef HARNESS_LAB_CONFORMING_H
#define HARNESS_LAB_CONFORMING_H

#include "harness/lab/conform.h"
#include "harness/lab/numbers.h"
#include "harness/lab/team.h"

enum { HARNESS_CONFORM_COUNTS = 12 }; /* of elements, that each world is asked for */

struct harness_conforming {
    const struct harness_conform_options *options;
    struct harness_conform_report *report;
    struct harness_lab_team team;
    const char *mpirun; /* NULL: ranks are started by ddprove */
    unsigned claims;    /* DDPROVE_COLL_..., of either form */
    unsigned needs;
    bool is_opaque, is_builtin, has_abort;
    bool is_running;
    uint32_t trial_count; /* of this team */
    /* Counts that this world takes; what is tried besides is of one of these, if it refuses any. */
    size_t taken[HARNESS_CONFORM_COUNTS];
    size_t taken_count;
    bool is_choosy;
    uint64_t start_ns;
    ddp_status status; /* why nothing more can be tried; else OK */
    struct ddp_err *err;
    int end[HARNESS_LAB_RANKS_MAX]; /* of each rank's process, as wait gives it; -1: it lives */
};

/* How a trial ended. */
enum harness_trial_end { HARNESS_TRIAL_WELL, HARNESS_TRIAL_UNTAKEN, HARNESS_TRIAL_BADLY };

/* Lets all ranks make the trial of shared->trial, whose inputs lie ready. *wrong: of one that ended
 * badly, on which rank and how; the team is ended then. is_odd: ranks may fail, and the team goes
 * on; who calls looks at the outcomes. */
enum harness_trial_end harness_conform_try(struct harness_conforming *run, bool is_odd,
                                           struct harness_lab_wrong *wrong);
/* wrong NULL: it holds in this trial. */
void harness_conform_judge(struct harness_conforming *run, enum harness_conform_property property,
                           const struct harness_lab_wrong *wrong);

bool harness_conform_is_over(struct harness_conforming *run); /* no trial is begun any more */
bool harness_conform_has_failed(const struct harness_conforming *run,
                                enum harness_conform_property property);
/* " of f16, in place": how a trial differs from the plain one. */
void harness_conform_tell(const struct harness_lab_trial *trial, char *text, size_t size_bytes);
/* `wanted` elements, or of a world that does not take every count the most below that it takes, or
 * the fewest above. */
size_t harness_conform_count(const struct harness_conforming *run, size_t wanted);
/* The plain trial: fp32, one call, buffers apart. */
void harness_conform_set_trial(const struct harness_conforming *run, size_t elem_count);
void harness_conform_end_team(struct harness_conforming *run);

/* conform_values.c, conform_rows.c: of one world. */
void harness_conform_counts(struct harness_conforming *run);
void harness_conform_types(struct harness_conforming *run);
void harness_conform_special(struct harness_conforming *run);
void harness_conform_repeats(struct harness_conforming *run);
void harness_conform_row(struct harness_conforming *run);
void harness_conform_two(struct harness_conforming *run);
void harness_conform_leak(struct harness_conforming *run);
/* conform_large.c: of two ranks; if the machine has no room for it, the report says so. */
void harness_conform_large(struct harness_conforming *run);
/* conform_trees.c: the trees of a world, as probes show them. */
void harness_conform_trees(struct harness_conforming *run);
/* conform_odd.c: ranks that ask for other things, die, or abort. */
void harness_conform_oddities(struct harness_conforming *run);

#endif
