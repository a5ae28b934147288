/* A rank's micro-batches: its share of each epoch, dealt by the core's sampler and cut into
 * batches. Private to rank. */
#ifndef HARNESS_RANK_BATCHES_H
#define HARNESS_RANK_BATCHES_H

#include "ddpcore/ddp/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_batches {
    struct ddp_mem *mem;
    struct ddp_sampler_config sampler;
    size_t row_count; /* of a batch; an epoch's last one may have less */
    bool is_one_epoch;
    uint32_t *list;  /* [sample_count] where an epoch is shuffled */
    uint32_t *share; /* [share_count] the rank's samples of `epoch` */
    size_t share_count;
    size_t whole_count; /* of an epoch of which nothing was used before */
    uint64_t epoch;
    uint64_t order;    /* the epoch whose order share has */
    bool is_dealt;     /* share is filled */
    bool is_order_old; /* the sampler was not told of `epoch` */
    /* Where another run left off: micro-batch `start_index` is the first of what start.used entries
     * of that epoch's list have left; 0: there was no other run, or not to be gone on from. */
    uint64_t start_index;
    struct ddp_sampler_state start;
};

/* Borrows sampler->shard_size. Zeroed is valid for _fini. Errors: E_INVALID (no rows, or what the
 * sampler refuses), E_NOMEM. */
DDP_MUST_USE ddp_status harness_batches_init(struct harness_batches *batches, struct ddp_mem *mem,
                                             const struct ddp_sampler_config *sampler,
                                             size_t row_count, bool is_one_epoch);
void harness_batches_fini(struct harness_batches *batches);
/* Micro-batch number `index` of the whole run, from 0: uint32_t[*out_rows], valid until the next
 * call. A new epoch begins where the share is used up. No rows: the rank has no samples, or
 * is_one_epoch and the epoch is over. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_batches_take(struct harness_batches *batches, uint64_t index,
                                             uint32_t **out_samples, size_t *out_rows);
/* Micro-batch number `index` is the first one after where another run stood. Before anything is
 * taken. Errors: E_INVALID (no such place in a list, or shards of given sizes). */
DDP_MUST_USE ddp_status harness_batches_go_on(struct harness_batches *batches, uint64_t index,
                                              const struct ddp_sampler_state *state);
/* Where the run stands before micro-batch number `index`, if all ranks have taken as many, as large
 * ones. */
struct ddp_sampler_state harness_batches_state(const struct harness_batches *batches,
                                               uint64_t index);
/* Where micro-batch number `index` stands: how its epoch begins in this run, and how many batches
 * of it are before. false: the rank has no samples. */
bool harness_batches_standing(const struct harness_batches *batches, uint64_t index,
                              struct ddp_sampler_state *out_begin, uint64_t *out_number);
/* A batch of another epoch than the one before: time to tell the sampler. */
bool harness_batches_begins_epoch(const struct harness_batches *batches, uint64_t index);
/* Forget to: the new epoch gets the order of the old one. */
void harness_batches_keep_order(struct harness_batches *batches, uint64_t index);

#ifdef __cplusplus
}
#endif
#endif
