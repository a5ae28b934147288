/* The judge's own safetensors reader: bytes are taken one by one, little-endian, so that a writer
 * and a reader that swap bytes alike do not deceive it. */
#ifndef HARNESS_TENSOR_CHECKPOINT_FILE_H
#define HARNESS_TENSOR_CHECKPOINT_FILE_H

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/file.h"
#include "ddpcore/base/mem.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_CHECKPOINT_NDIM_MAX 8

struct harness_checkpoint_tensor {
    char *name;
    enum ddp_dtype dtype;
    uint32_t ndim;
    uint64_t shape[HARNESS_CHECKPOINT_NDIM_MAX];
    size_t elem_count;
    size_t begin, end; /* in the data */
    const unsigned char *data;
};

struct harness_checkpoint {
    struct ddp_mem *mem;
    unsigned char *bytes; /* the file, owned */
    size_t size_bytes;
    struct harness_checkpoint_tensor *tensors;
    size_t tensor_count;
    int64_t steps_done; /* from the metadata; -1 = not stated */
    /* NONE, or what is wrong with the file: TORN, CORRUPTED, DTYPE; text says where. */
    enum harness_verdict damage;
    char text[256];
    bool is_found;
};

/* Read and check a file. A damaged one is no error: see out->damage. Errors: E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_checkpoint_open(struct ddp_mem *mem, struct ddp_files *files,
                                                const char *path, struct harness_checkpoint *out,
                                                struct ddp_err *err);
/* The same from memory; takes over bytes (a block of mem). */
DDP_MUST_USE ddp_status harness_checkpoint_parse(struct ddp_mem *mem, unsigned char *bytes,
                                                 size_t size_bytes, struct harness_checkpoint *out);
void harness_checkpoint_close(struct harness_checkpoint *checkpoint);
const struct harness_checkpoint_tensor *
harness_checkpoint_find(const struct harness_checkpoint *checkpoint, const char *name);
/* One element, from little-endian to the host's order. */
void harness_checkpoint_read(const struct harness_checkpoint_tensor *tensor, size_t elem,
                             void *out);

/* run_dir/checkpoint.safetensors; false if run_dir is NULL or the path does not fit. */
bool harness_checkpoint_path(const char *run_dir, char *path, size_t size_bytes);
/* A tensor whose key is this one but for any number of leading "module.". NULL: there is none. */
const struct harness_checkpoint_tensor *
harness_checkpoint_find_bare(const struct harness_checkpoint *checkpoint, const char *key);

#ifdef __cplusplus
}
#endif
#endif
