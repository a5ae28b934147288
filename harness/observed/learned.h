/* The learned program: which collectives a healthy run posted, communicator by communicator and
 * step by step, as text that people read, compare and edit.
 *
 *     ddprove-guest-program 1 world=4 steps=30
 *     comm 0 nth=0 ranks=0,1,2,3 text=world
 *     steps 0-0 calls=2
 *     call kind=broadcast dtype=f32 redop=none root=0 count=64 bucket=0
 *     call kind=all_reduce dtype=f32 redop=sum root=0 count=32 bucket=1
 *     steps 1-29 calls=1
 *     call kind=all_reduce dtype=f32 redop=sum root=0 count=* bucket=1
 *
 * nth tells communicators of the same name and ranks apart, in the order in which they were made. A
 * count that the data decide is written as * by hand. bucket: number + 1, 0 = none. */
#ifndef HARNESS_OBSERVED_LEARNED_H
#define HARNESS_OBSERVED_LEARNED_H

#include "harness/record/account.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_LEARNED_FILE "program.txt"
#define HARNESS_LEARNED_ANY  UINT64_MAX

struct harness_learned_call {
    uint64_t op;         /* guest_op_pack */
    uint64_t elem_count; /* HARNESS_LEARNED_ANY: any */
    uint64_t bucket;
};

/* Steps that are alike, from the first to the last. Steps in which nothing is posted are left out.
 */
struct harness_learned_steps {
    uint32_t first, last;
    struct harness_learned_call *calls;
    size_t count, capacity;
};

struct harness_learned_comm {
    char name[GUEST_NAME_BYTES];
    uint32_t nth, rank_count;
    uint32_t *ranks; /* rising */
    struct harness_learned_steps *steps;
    size_t count, capacity;
    uint32_t period; /* behind the run's last step, steps repeat those of so many before; 0: who
                        knows */
};

struct harness_learned {
    struct ddp_mem *mem; /* a pool */
    uint32_t world_size;
    uint32_t step_count; /* of the run */
    struct harness_learned_comm *comms;
    size_t count, capacity;
};

/* learned.c */
/* Append the text. */
void harness_learned_print(const struct harness_learned *learned, struct ddp_text *out);
/* mem: a pool; it keeps everything. Errors: E_PARSE with line and column, E_NOMEM. */
DDP_MUST_USE ddp_status harness_learned_parse(struct ddp_mem *mem, const char *text,
                                              size_t size_bytes, struct harness_learned *out,
                                              struct ddp_err *err);
/* What a step posts; NULL: the record does not say. *out_count: how many calls. A step in which
 * nothing is posted has none, and is no NULL. */
const struct harness_learned_call *harness_learned_step(const struct harness_learned *learned,
                                                        const struct harness_learned_comm *comm,
                                                        uint32_t step, size_t *out_count);
/* The same call, with any count where the record says so. */
bool harness_learned_is_alike(const struct harness_learned_call *learned,
                              const struct harness_watch_call *call);

/* learn.c: of a running job. Call it at each look at the job, and at its end. */
struct harness_learner;
DDP_MUST_USE ddp_status harness_learner_create(struct ddp_mem *mem,
                                               const struct harness_watch *watch,
                                               struct harness_learner **out);
/* Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_learner_look(struct harness_learner *learner);
/* NULL: nothing was posted, or what was is not known in full. */
const struct harness_learned *harness_learner_end(struct harness_learner *learner);

/* against.c: a running job is compared with it. Call it before anything else judges what was posted
 * (analyse.h). */
struct harness_against;
DDP_MUST_USE ddp_status harness_against_create(struct ddp_mem *mem, struct harness_watch *watch,
                                               const struct harness_learned *learned,
                                               struct harness_against **out);
/* Add the first deviation of each communicator. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_against_judge(struct harness_against *against,
                                              struct harness_findings *out);
/* Calls that are as recorded, and that the record says nothing of. */
void harness_against_account(const struct harness_against *against,
                             struct harness_watch_accounts *out);

#ifdef __cplusplus
}
#endif
#endif
