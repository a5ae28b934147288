/* Datasets, and which samples each rank trains on.
 *
 * "digits": 1,797 handwritten 8x8 digits (UCI Optical Recognition of Handwritten Digits), features
 * scaled to 0..1 by 1/16: exact in float. "dyadic": small dyadic rationals for exact_linear.
 * "synthetic": class blobs of any width, for timing models wider than 64 inputs. "text": a text of
 * bytes, the embedded one or any file; a sample is a window of feature_count bytes, its label after
 * each byte is the next one. "idx": MNIST's files. "csv": lines of numbers, the last one the label.
 */
#ifndef REFERENCE_DATA_H
#define REFERENCE_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ref_data {
    const char *name;
    size_t sample_count, feature_count, class_count, target_count;
    size_t label_count; /* of a sample: 1, or feature_count if each token has one */
    float *features;    /* float[sample_count][feature_count], host memory */
    int32_t *labels;    /* int32[sample_count][label_count]; NULL for regression */
    float *targets;     /* float[sample_count][target_count]; NULL for classification */
    struct ddp_mem *mem;
};
struct ref_data_config {
    const char *name;
    size_t sample_count;    /* 0 = all (digits), else the first so many */
    size_t feature_count;   /* synthetic, text; 0 = the default */
    const char *path;       /* text, idx, csv: of a file; text: NULL = the embedded one */
    const char *label_path; /* idx: of its labels */
    uint64_t seed;          /* synthetic, dyadic */
};
/* What a sample has to learn from. */
enum ref_data_learned {
    REF_DATA_LABELS,  /* a label for each sample */
    REF_DATA_TARGETS, /* numbers */
    REF_DATA_TOKENS,  /* features are tokens, and each one has a label */
    REF_DATA_LEARNED_COUNT
};
const char *const *ref_data_names(void);
/* What is learned from the dataset that is so many-th of the names. */
enum ref_data_learned ref_data_learned(size_t index);
/* How large a dataset is, without keeping it. Errors: E_NOT_FOUND (no such dataset or file),
 * E_INVALID (it has not so many samples, or is no such data), E_IO. */
struct ref_data_sizes {
    size_t sample_count, feature_count;
    size_t class_count, target_count; /* one of them is 0 */
    size_t label_count;               /* as struct ref_data */
    enum ref_data_learned learned;
};
DDP_MUST_USE ddp_status ref_data_describe(const struct ref_data_config *config,
                                          struct ref_data_sizes *out, struct ddp_err *err);
DDP_MUST_USE ddp_status ref_data_open(struct ddp_mem *mem, const struct ref_data_config *config,
                                      struct ref_data *out, struct ddp_err *err);
void ref_data_close(struct ref_data *data);

/* One batch. Pointers are into the caller's storage, host memory. */
struct ref_batch {
    uint32_t rank, step, micro;
    size_t rows;
    const uint32_t *samples; /* uint32[rows], indices into the dataset */
    const float *features;   /* float[rows][feature_count] */
    const int32_t *labels;   /* int32[rows][label_count] or NULL */
    const float *targets;    /* float[rows][target_count] or NULL */
};

/* Where a run begins that goes on from another one's checkpoint, with another number of ranks: its
 * micro-batches are numbered from `index` on, and the first ones are of what `used` entries of the
 * epoch's list have left. Micro-batches before that are as without it. Zeros: of no other run. */
struct ref_shard_start {
    uint64_t index, epoch;
    size_t used;
};

/* Who trains on what. Without shard sizes: the rules of torch.utils.data.DistributedSampler. A list
 * that the world does not divide is padded from its head, or cut (drop_last). With shard sizes:
 * rank r owns the next shard_size[r] entries of the epoch's list. The list of an epoch is
 * torch.randperm of the seed plus the epoch's number, or 0..N-1 if not shuffled. A rank's
 * micro-batch number k (counted over the whole run) takes the next batch_rows[rank] entries; an
 * epoch's last batch may be smaller; a new epoch starts when the rank's list is used up, unless
 * is_one_epoch. */
struct ref_shard_config {
    size_t sample_count;
    uint32_t world_size;
    bool is_shuffled, is_one_epoch, drop_last;
    uint64_t seed;
    struct ref_shard_start start; /* without shard sizes */
    const size_t *batch_rows;     /* size_t[world_size] */
    const size_t *shard_size;     /* size_t[world_size] or NULL */
};
/* Reads micro-batches; keeps the epoch's list between calls. config is borrowed. Zero-initialised
 * is a valid, empty cursor for _fini. */
struct ref_shard_cursor {
    const struct ref_shard_config *config;
    struct ddp_mem *mem;
    uint32_t *list; /* uint32[sample_count]: the list of `epoch` */
    uint64_t epoch;
    bool is_list_valid;
};
DDP_MUST_USE ddp_status ref_shard_cursor_init(struct ref_shard_cursor *cursor,
                                              const struct ref_shard_config *config,
                                              struct ddp_mem *mem);
void ref_shard_cursor_fini(struct ref_shard_cursor *cursor);
/* Samples of micro-batch number `index` (from 0) of a rank: uint32[batch_rows[rank]] at most.
 * *out_rows = 0 once the data has ended (is_one_epoch). Never allocates. */
DDP_MUST_USE ddp_status ref_shard_cursor_batch(struct ref_shard_cursor *cursor, uint32_t rank,
                                               uint64_t index, uint32_t *out_samples,
                                               size_t *out_rows);
/* Rows of that micro-batch, without its samples; 0 once the data has ended. */
size_t ref_shard_batch_rows(const struct ref_shard_config *config, uint32_t rank, uint64_t index);
/* Micro-batches a rank has in total (is_one_epoch), or SIZE_MAX. */
size_t ref_shard_batch_count(const struct ref_shard_config *config, uint32_t rank);

/* Copy a batch's rows out of the dataset. features/labels/targets: caller's arrays for rows rows.
 */
void ref_data_gather(const struct ref_data *data, const uint32_t *samples, size_t rows,
                     float *features, int32_t *labels, float *targets);

#ifdef __cplusplus
}
#endif
#endif
