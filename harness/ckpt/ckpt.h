/* Checkpoint files of any program, as `ddprove ckpt` shows, proves, changes and compares them:
 * safetensors, and what torch.save writes. Nothing in a file is trusted or run.
 *
 * The loader of ddpcore/checkpoint refuses a file at its first fault, and knows the types that the
 * core trains with. This one goes on after a fault, so that all of them are said, and knows the
 * types of the format; tests hold that both accept the same files. */
#ifndef HARNESS_CKPT_CKPT_H
#define HARNESS_CKPT_CKPT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"
#include "ddpcore/base/text.h"
#include "harness/ckpt/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_CKPT_NDIM_MAX 64 /* torch's own limit */

enum harness_ckpt_kind { HARNESS_CKPT_SAFETENSORS, HARNESS_CKPT_TORCH };

struct harness_ckpt_tensor {
    const char *name;
    enum harness_ckpt_dtype dtype;
    uint32_t ndim;
    const uint64_t *shape;
    size_t elem_count, size_bytes;
    const uint8_t *data; /* little-endian, contiguous, maybe unaligned */
    size_t begin;        /* of safetensors: in the data behind the header */
};

struct harness_ckpt_meta {
    const char *key, *value;
};

/* Lines of text for people. */
struct harness_ckpt_lines {
    char **line;
    size_t count, capacity;
};

enum harness_ckpt_checksum {
    HARNESS_CKPT_CHECKSUM_NONE, /* the file has none */
    HARNESS_CKPT_CHECKSUM_HOLDS,
    HARNESS_CKPT_CHECKSUM_BROKEN
};

/* A file that was read. All memory is that of `pool`. */
struct harness_ckpt {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    enum harness_ckpt_kind kind;
    size_t file_bytes;
    struct harness_ckpt_tensor *tensors; /* in the order of the header, or of the dict */
    size_t tensor_count, tensor_capacity;
    struct harness_ckpt_tensor
        *others; /* of torch: tensors beside the state dict, by their paths */
    size_t other_count, other_capacity;
    struct harness_ckpt_meta *meta; /* without the checksums */
    size_t meta_count, meta_capacity;
    enum harness_ckpt_checksum checksum;
    const char *checksum_text, *tensor_checksums_text; /* of safetensors, as they stand; or NULL */
    const char *taken;    /* of torch: which map is the state dict ("model"); NULL: the whole */
    const char *left_out; /* of torch: what else lies beside it ("epoch, optimizer"), or NULL */
    struct harness_ckpt_lines faults;
    bool is_verified;    /* so that no fault means that there is none */
    bool is_whole;       /* what the file says of its tensors is sound; values may be damaged */
    const uint8_t *data; /* of safetensors: behind the header */
    size_t data_bytes;
};

/* Read a file. key: of torch, which map of the file is meant, as "ema.model"; NULL: the usual names
 * are looked for; a safetensors file has no maps, and it is not looked at. What is wrong with the
 * file is no error, but a line of out->faults.
 * Errors: E_NOT_FOUND, E_IO, E_NOMEM; E_KEYS, if there is no such map; E_UNSUPPORTED, if this build
 * cannot read that kind.
 * out needs _fini after success alone. */
DDP_MUST_USE ddp_status harness_ckpt_load(struct ddp_files *files, const char *path,
                                          const char *key, struct harness_ckpt *out,
                                          struct ddp_err *err);
/* The same of bytes, which are copied. Errors: E_NOMEM, E_KEYS, E_UNSUPPORTED. */
DDP_MUST_USE ddp_status harness_ckpt_parse(const void *data, size_t size_bytes, const char *key,
                                           struct harness_ckpt *out, struct ddp_err *err);
void harness_ckpt_fini(struct harness_ckpt *ckpt);
/* "safetensors", "torch.save". Static storage. */
const char *harness_ckpt_kind_name(enum harness_ckpt_kind kind);
/* Whether archives of torch.save can be read: libzip was there when this was built. */
bool harness_ckpt_reads_torch(void);

/* How the keys stand to the wrapper's "module.". In a file of ddprove's own ranks the state of the
 * optimizer and of a hook ("optim.", "hook.") is saved beside the wrapped model, so its keys are
 * not counted. */
struct harness_ckpt_prefix {
    size_t key_count, with_count; /* keys that count; of them, those that begin with it */
    uint32_t depth_min, depth_max;
    const char *with, *without; /* the first key of either kind, or NULL */
};
void harness_ckpt_prefix_of(const struct harness_ckpt *ckpt, struct harness_ckpt_prefix *out);
/* Whether some keys have it, and some have not. */
bool harness_ckpt_prefix_is_mixed(const struct harness_ckpt_prefix *prefix);
/* Take one "module." from every key that counts. Errors: E_PREFIX, with what is in the way and what
 * would be right; the keys are then as they were. E_NOMEM. */
DDP_MUST_USE ddp_status harness_ckpt_strip(struct harness_ckpt *ckpt, struct ddp_err *err);

/* Adds what only all of the file tells to its faults: values that are not finite, mixed keys.
 * Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_ckpt_verify(struct harness_ckpt *ckpt);

/* Write tensors, metadata and checksums as safetensors, atomically. A file that was safetensors
 * keeps its order, bytes, metadata and checksums, and gets none that it had not; what comes from
 * torch gets both checksums, and large types first, so that data begin on multiples of their sizes.
 * Errors: E_KEYS (a name that the format reserves), E_NOMEM, and those of the files. */
DDP_MUST_USE ddp_status harness_ckpt_write(struct ddp_files *files, const char *path,
                                           const struct harness_ckpt *ckpt, struct ddp_err *err);

/* What differs between two files. */
struct harness_ckpt_change {
    const struct harness_ckpt_tensor *a, *b; /* NULL: the file lacks it */
    bool is_other_form;                      /* dtype or shape differ; values were not compared */
    size_t elem_count;                       /* elements that differ */
    size_t first;                            /* the first one */
    size_t not_finite_count; /* of them, those of which one is not finite: no distance */
    double abs_max;          /* the others' largest difference */
    uint64_t distance_max;   /* floats: in steps of the type; else exactly */
};
struct harness_ckpt_diff {
    const struct harness_ckpt *a, *b;
    int32_t shift; /* so many "module." more has every key of a than those of b (< 0: fewer) */
    struct harness_ckpt_change *changes;
    size_t change_count, change_capacity;
    size_t compared_count, equal_count; /* keys of both files; equal bit for bit */
    struct harness_ckpt_lines meta;     /* how metadata differ; that is not counted */
};
/* Both must be whole. Memory is a's pool's. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_ckpt_compare(const struct harness_ckpt *a,
                                             const struct harness_ckpt *b,
                                             struct harness_ckpt_diff *out);

/* What is said. path: as the user named it. */
void harness_ckpt_print(const struct harness_ckpt *ckpt, const char *path, struct ddp_text *out);
/* PASS or FAIL of what harness_ckpt_verify has found, then a line for each fault. */
void harness_ckpt_print_verdict(const struct harness_ckpt *ckpt, const char *path,
                                struct ddp_text *out);
void harness_ckpt_print_diff(const struct harness_ckpt_diff *diff, const char *path_a,
                             const char *path_b, struct ddp_text *out);
/* The same as JSON ("ddprove.ckpt/1"). NULL: no memory. */
json_t *harness_ckpt_json(const struct harness_ckpt *ckpt, const char *path);
json_t *harness_ckpt_diff_json(const struct harness_ckpt_diff *diff, const char *path_a,
                               const char *path_b);

#ifdef __cplusplus
}
#endif
#endif
