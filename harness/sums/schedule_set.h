/* A collective as the dumped schedules of all its members: gathered, ordered, proven, run on
 * values. */
#ifndef HARNESS_SUMS_SCHEDULE_SET_H
#define HARNESS_SUMS_SCHEDULE_SET_H

#include "ddpcore/base/file.h"
#include "harness/sums/schedule_text.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_NO_RANK UINT32_MAX

/* One step forward of a set: a local step, or a receive together with the send that it meets. */
struct harness_schedule_event {
    uint32_t rank, step;
    uint32_t from_rank, from_step; /* from_rank HARNESS_NO_RANK: a local step */
};

/* All members of one collective. */
struct harness_schedule_set {
    struct ddp_mem *mem;
    uint32_t size;
    struct harness_schedule **member; /* [size], NULL where no dump exists */
    uint32_t member_count;            /* dumps that exist */
    struct harness_schedule *any;     /* one of them: says what the operation is */
    struct harness_schedule_event
        *events; /* an order in which everything can run without buffering */
    size_t event_count;
    bool is_ordered; /* events are complete: all members are there and nobody waits for ever */
    bool is_stuck;   /* all members are there and some wait for ever: */
    uint32_t stuck_rank, stuck_step; /* one that does, and the first step that cannot run */
    /* Values while it runs: buffer[rank][k] is buffer k of that rank; 0 and 1 are the caller's. */
    void ***buffer;
};

/* Every dump of a run. */
struct harness_schedules {
    struct ddp_mem *mem;
    struct harness_schedule_set *sets;
    size_t set_count, set_capacity;
};

/* An empty list; everything in it lives in mem. _fini releases it, the members' schedules too. */
void harness_schedules_init(struct harness_schedules *schedules, struct ddp_mem *mem);
void harness_schedules_fini(struct harness_schedules *schedules);
/* Take over one parsed schedule into its set. Errors: E_INVALID (a second one of a rank), E_NOMEM
 */
DDP_MUST_USE ddp_status harness_schedules_add(struct harness_schedules *schedules,
                                              const struct harness_schedule *schedule,
                                              struct ddp_err *err);
/* The schedule that such an operation has of that rank, or NULL. */
struct harness_schedule *harness_schedules_member(const struct harness_schedules *schedules,
                                                  const struct harness_schedule *like);
/* Take over what a file of a run holds: schedules, a line "end" behind each one. A last one without
 * it was never used, and is left out. Errors: E_PARSE and E_INVALID (two different ones of a rank
 * for an operation), with the schedule's number; E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedules_read(struct harness_schedules *schedules,
                                               const char *text, struct ddp_err *err);
/* Read every file of a folder and put the sets in order. A missing folder is an empty one.
 * Errors: E_PARSE with the file, E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedules_load(struct harness_schedules *schedules,
                                               struct ddp_files *files, const char *folder,
                                               struct ddp_err *err);
/* Find the order of every complete set: needed before _run and _prove. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedules_order(struct harness_schedules *schedules);
/* The set of an operation of `size` members, borrowed: that of the named algorithm if there is one,
 * else (or with algorithm NULL) that of any. NULL if there is none. */
struct harness_schedule_set *harness_schedules_find(const struct harness_schedules *schedules,
                                                    uint32_t size, enum ddp_coll_kind kind,
                                                    const char *algorithm, size_t elem_count,
                                                    enum ddp_dtype dtype, uint32_t root);

/* Run an ordered set. input, output: one pointer a rank, into host memory; the same pointers may be
 * given twice if the schedules are in place (if not, outputs must be apart). Of a reduce-scatter in
 * place, output is the whole buffer.
 * Errors: E_STATE (not ordered), E_UNSUPPORTED (dtype), E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_set_run(struct harness_schedule_set *set,
                                                 void *const *input, void *const *output);

/* Prove a complete set without values. Nobody waits for ever, even if a message moves only when
 * both ends are ready (HANG.CYCLE); messages agree in length and type (MISMATCH.COUNT, .DTYPE); no
 * two steps of a rank touch the same elements, one writing, unless one depends on the other, where
 * a send reads until it was acknowledged (VALUE.CORRUPTED); no step uses elements that nobody
 * wrote, and every output element holds exactly the contributions that it should (VALUE.LOST,
 * .DUPLICATED, .SHIFTED); nobody leaves a barrier before all have entered it (VALUE.LOST). Ranges
 * outside of their buffer and steps of no elements were refused by the reader. Adds a finding for
 * the first violation of each group. A set that lacks members is not judged. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_set_prove(const struct harness_schedule_set *set,
                                                   struct harness_findings *out);

/* Prove that an engine which runs a round at a time can follow a complete set's round numbers, and
 * that none is larger than it must be: both ends of a message are of one round, what came in a
 * round leaves in a later one, and so on (MISMATCH.ORDER; the first violation). No values depend on
 * rounds, so this is asked only of who claims to keep to them. Nothing is judged of a set that
 * lacks members or hangs. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_set_prove_rounds(const struct harness_schedule_set *set,
                                                          struct harness_findings *out);

#ifdef __cplusplus
}
#endif
#endif
