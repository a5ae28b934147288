/* Datasets in files: MNIST's idx and CSV. Inside reference/. Parsers of bytes in memory. */
#ifndef REFERENCE_DATA_FILE_H
#define REFERENCE_DATA_FILE_H

#include "reference/data.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ref_bytes {
    const unsigned char *data;
    size_t size_bytes;
};

/* What both say: how large the data is. With out_features and out_labels (both or none), arrays for
 * the first sizes->sample_count samples of sizes as they were said, the data itself.
 *
 * idx: images (u8, two dimensions or more: sample, then pixels, which become 0..1) and labels (u8,
 * one dimension), as http://yann.lecun.com/exdb/mnist describes them. Errors: E_CORRUPT. */
DDP_MUST_USE ddp_status ref_data_read_idx(const struct ref_bytes *images,
                                          const struct ref_bytes *labels,
                                          struct ref_data_sizes *sizes, float *out_features,
                                          int32_t *out_labels, struct ddp_err *err);
/* CSV: a line a sample, numbers with commas between them, the last one the label: 0, 1, 2, ... A
 * first line that begins with no number is a heading. Errors: E_CORRUPT, with the line. */
DDP_MUST_USE ddp_status ref_data_read_csv(const struct ref_bytes *text,
                                          struct ref_data_sizes *sizes, float *out_features,
                                          int32_t *out_labels, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
