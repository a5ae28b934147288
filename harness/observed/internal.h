/* Internal to harness/observed. */
#ifndef HARNESS_OBSERVED_INTERNAL_H
#define HARNESS_OBSERVED_INTERNAL_H

#include "harness/observed/observed.h"
#include "harness/observed/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* More tensors than this are not taken for a model, and samples for numbers of a data set. */
#define OBSERVED_TENSORS_MAX 65536u
#define OBSERVED_SAMPLES_MAX (UINT64_C(1) << 26)

enum { OBSERVED_PARTS = 2 * GUEST_PART_COUNT };

/* --- the model --- */

struct observed_tensor {
    uint64_t role, dtype, elem_count;
    char name[GUEST_TEXT_BYTES];
};

struct observed_table {
    struct observed_table *next; /* of all that were shown */
    uint32_t count;
    struct observed_tensor *tensors;
};

struct observed_part {
    bool is_there;
    uint64_t hash;
};

/* A rank's report of one update. */
struct observed_update {
    bool is_closed;
    uint32_t step;
    const struct observed_table *table;
    struct observed_part *parts;      /* [table->count * OBSERVED_PARTS] */
    struct observed_options *options; /* [table->count] */
};

struct observed_model {
    struct observed_table *table; /* the present one; NULL: none was shown */
    uint64_t first;               /* number of updates[0] */
    struct observed_update *updates;
    size_t count, capacity;
    struct observed_update before; /* the one before updates[0], judged; its table NULL: none was */
};

/* --- the samples --- */

struct observed_batch {
    uint32_t step;
    uint64_t size;
};

/* A rank's part in an epoch. */
struct observed_share {
    bool is_there, is_over;
    bool is_broken; /* off, before its end */
    uint64_t taken; /* samples so far */
    struct observed_batch *batches;
    size_t count, capacity;
};

/* The first sample that was not the one that was due. */
struct observed_stray {
    bool is_there;
    bool is_batch; /* these are numbers of batches */
    uint32_t rank, step;
    uint64_t sample, wanted;
    size_t batch;                  /* of this number on that rank */
    struct harness_rank_set ranks; /* all that strayed in that batch */
};

struct observed_epoch {
    uint64_t number, sample_count, padded, dropped;
    uint32_t sampler;
    bool is_uneven;
    uint32_t *owner;        /* [sample_count]: 1 + the rank that used it last; 0: nobody has */
    uint64_t again, unused; /* used more than once; not used yet */
    size_t checked;         /* batches of all ranks that were compared */
    struct observed_share *shares; /* [world_size] */
    struct observed_stray stray;
    struct harness_rank_set twice; /* ranks that used a sample that somebody had used */
    uint64_t twice_sample;         /* the first one that is too many, */
    size_t twice_batch;            /* in this batch of its rank, */
    uint32_t twice_step;           /* in this step, */
    uint32_t twice_rank;           /* by this rank, */
    uint32_t twice_before;         /* after this one */
    bool is_wrong, is_over;        /* a finding was made of it; it was judged as a whole */
};

/* --- what else is told --- */

/* Ranks that load a checkpoint get so long to come to it: what is wrong with it is said once. */
#define OBSERVED_KEYS_HOLD_NS UINT64_C(3000000000)

/* A rank's backward passes. */
struct observed_passes {
    uint64_t count;
    const struct harness_watch_list *wrong; /* without a gradient, in the first pass that must not
                                               have any; NULL: none is */
    uint64_t wrong_pass;                    /* that pass, from 1 */
    uint32_t wrong_step;
    bool is_said;
};

struct harness_observed {
    struct harness_watch *watch;
    struct ddp_mem *mem;
    struct ddp_mem_pool *pool;
    bool is_failed;
    /* the model */
    struct observed_model *models; /* [world_size] */
    struct observed_table *tables;
    uint64_t next_update;  /* the next one to be judged */
    uint64_t seen_update;  /* up to this one, without it, all were reported at the last look */
    bool is_ended;         /* nothing more comes */
    bool is_model_wrong;   /* a finding was made of it, or of what leads to it: not compared more */
    bool is_model_strange; /* what was reported of it makes no sense */
    struct harness_watch_account replicas, update;
    uint64_t unseen; /* updates after which some rank did not show all of its tensors */
    uint64_t hidden, blind, unknown; /* updates of parameters that were not judged, and why */
    /* the samples */
    struct observed_epoch *epochs;
    size_t epoch_count, epoch_capacity;
    size_t *epoch_of; /* [world_size]: 1 + index of the rank's epoch; 0: none has begun */
    bool is_ledger_strange;
    struct harness_watch_account ledger;
    /* gradients that came, and keys */
    struct observed_passes *passes;  /* [world_size] */
    uint64_t unnamed;                /* reports whose names are lost */
    uint64_t foreign_keys;           /* state dicts that are not the model's */
    struct harness_findings of_keys; /* not said yet */
    uint64_t keys_ns;                /* since then; 0: there are none */
    bool are_loaded;                 /* some of them are of a load, to which others may come */
    struct harness_watch_account usage, checkpoint;
};

/* camps.c */
/* Ranks that are alike in something. */
struct observed_camps {
    uint32_t *camp_of; /* [world_size], by rank; UINT32_MAX: it takes no part */
    uint32_t count;
    uint32_t right; /* the largest camp; count: several are */
};
/* is_alike(context, a, b) of ranks that have attached. False: out of memory. */
bool observed_find_camps(const struct harness_observed *observed,
                         bool (*is_alike)(const void *context, uint32_t a, uint32_t b),
                         const void *context, struct observed_camps *out);
void observed_free_camps(const struct harness_observed *observed, struct observed_camps *camps);
/* Everybody who is not in the right camp; all, if nobody can say which that is. */
void observed_blame(const struct harness_observed *observed, const struct observed_camps *camps,
                    struct harness_finding *finding);
/* "ranks 0,2,3 and of rank 1" */
void observed_say_camps(const struct harness_observed *observed, const struct observed_camps *camps,
                        struct harness_finding *finding);

/* Calls that were not the same on all ranks, and results that were not, make models differ from
 * that step on. */
bool observed_is_explained(const struct harness_findings *findings, uint32_t step);

/* The finding is about a parameter or buffer of this name; "": it has none. */
void observed_add_param(const struct harness_observed *observed, const char *name,
                        struct harness_finding *finding);
/* Every rank of the job has shown itself. */
bool observed_is_complete(const struct harness_observed *observed);
/* Some entries of some rank are lost. */
bool observed_has_lost(const struct harness_observed *observed);

/* model_report.c */
void observed_take_model(struct harness_observed *observed, uint32_t rank,
                         const struct guest_entry *entry);
/* Of all ranks, as it has been judged. */
void observed_forget_update(struct harness_observed *observed, uint64_t number);
void observed_free_model(struct harness_observed *observed);

/* model.c */
void observed_judge_model(struct harness_observed *observed, const struct harness_findings *earlier,
                          struct harness_findings *out);
/* What a rank reported of an update that is not judged yet; NULL: nothing. */
static inline const struct observed_update *
observed_update_of(const struct harness_observed *observed, uint32_t rank, uint64_t number)
{
    const struct observed_model *model = &observed->models[rank];

    return number >= model->first && number - model->first < model->count
               ? &model->updates[number - model->first]
               : NULL;
}

/* update.c */
/* Work the update out again, where its data were kept. Returns whether a finding was added. */
bool observed_judge_update(struct harness_observed *observed, uint64_t number,
                           struct harness_findings *out);

/* usage.c */
void observed_take_unused(struct harness_observed *observed, uint32_t rank,
                          const struct guest_entry *entry);
void observed_judge_usage(struct harness_observed *observed, struct harness_findings *out);

/* keys.c */
void observed_take_keys(struct harness_observed *observed, uint32_t rank,
                        const struct guest_entry *entry);
void observed_judge_keys(struct harness_observed *observed, struct harness_findings *out);

/* ledger.c */
void observed_take_ledger(struct harness_observed *observed, uint32_t rank,
                          const struct guest_entry *entry);
void observed_free_ledger(struct harness_observed *observed);
/* What is needed of it no more. */
void observed_free_epoch(const struct harness_observed *observed, struct observed_epoch *epoch);

/* epoch.c */
void observed_judge_ledger(struct harness_observed *observed, struct harness_findings *out);

#ifdef __cplusplus
}
#endif
#endif
