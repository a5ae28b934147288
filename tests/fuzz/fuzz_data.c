/* Files of the user's data: idx (images, and behind them the labels), CSV, initial weights. */
#include "reference/data_file.h"
#include "reference/initial.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void read_twice(const struct ref_bytes *images, const struct ref_bytes *labels)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct ref_data_sizes sizes;
    struct ddp_err err;
    ddp_status status = labels != NULL ? ref_data_read_idx(images, labels, &sizes, NULL, NULL, &err)
                                       : ref_data_read_csv(images, &sizes, NULL, NULL, &err);
    float *features;
    int32_t *out_labels;

    if (status != DDP_OK || sizes.sample_count * sizes.feature_count > (size_t)1 << 20) {
        return;
    }
    features = ddp_mem_array(mem, sizes.sample_count * sizes.feature_count, sizeof(*features));
    out_labels = ddp_mem_array(mem, sizes.sample_count, sizeof(*out_labels));
    status = labels != NULL ? ref_data_read_idx(images, labels, &sizes, features, out_labels, &err)
                            : ref_data_read_csv(images, &sizes, features, out_labels, &err);
    DDP_ASSERT(status == DDP_OK);
    for (size_t i = 0; i < sizes.sample_count; i++) {
        DDP_ASSERT(out_labels[i] >= 0 && (size_t)out_labels[i] < sizes.class_count);
    }
    ddp_mem_free(mem, features);
    ddp_mem_free(mem, out_labels);
}

/* The first byte says where the labels begin, in 256ths. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct ref_initial *initial = NULL;
    const size_t shape[2] = {2, 3};
    const void *found;
    struct ddp_err err;

    if (size_bytes == 0) {
        return 0;
    }
    const size_t split = (size_bytes - 1) * data[0] / 256;
    const struct ref_bytes all = {data + 1, size_bytes - 1};
    const struct ref_bytes images = {data + 1, split};
    const struct ref_bytes labels = {data + 1 + split, size_bytes - 1 - split};

    read_twice(&images, &labels);
    read_twice(&all, NULL);
    if (ref_initial_parse(ddp_mem_system(), all.data, all.size_bytes, &initial, &err) == DDP_OK) {
        if (ref_initial_find(initial, "a", DDP_DTYPE_F32, 2, shape, &found, &err) == DDP_OK) {
            DDP_ASSERT((const uint8_t *)found >= data &&
                       (const uint8_t *)found + 24 <= data + size_bytes);
        }
        ref_initial_close(initial);
    }
    return 0;
}
