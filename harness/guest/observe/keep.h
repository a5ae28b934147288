/* The data of calls, in files: a head, then the bytes of a buffer.
 * FOLDER/rank<R>.comm<KEY>.<HANDLE>.seq<N>.in or .out */
#ifndef HARNESS_GUEST_KEEP_H
#define HARNESS_GUEST_KEEP_H

#include "harness/guest/observe/sums.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GUEST_KEPT_MAGIC      UINT64_C(0x3154504b44447064) /* "dpDDKPT1" */
#define GUEST_KEPT_NAME_BYTES 128

/* The numbers are those of the event that reports the same data. */
struct guest_kept_head {
    uint64_t magic;
    uint64_t size_bytes; /* of what follows */
    struct guest_value value;
};

/* printf's format of a name, for rank, key, handle, number and "in" or "out". */
#define GUEST_KEPT_NAME "rank%u.comm%llx.%u.seq%llu.%s"

/* The same of the model: for rank, number of the update, index of the tensor, and the part. */
#define GUEST_KEPT_TENSOR_NAME "rank%u.update%llu.tensor%u.%s"

/* How the parts are called in names of files: [part], [part + GUEST_PART_BEFORE]. */
#define GUEST_KEPT_PARTS                                                                         \
    {                                                                                            \
        "after", "first", "second", "gradient.after", "before", "first.before", "second.before", \
            "gradient"                                                                           \
    }

/* The arena asks for data of the present step. */
int guest_is_kept(const struct guest_page *page);
/* Write a part of a tensor, if the arena asks for this step's. */
void guest_keep_tensor(const struct guest_page *page, uint64_t update, uint32_t index,
                       unsigned part, const void *data, uint64_t size_bytes, uint64_t hash);
/* Write a file, if the arena asks for this step's. It is there whole or not at all. */
void guest_keep(const struct guest_page *page, const struct guest_comm *comm, uint64_t seq,
                const char *suffix, const void *data, uint64_t size_bytes,
                const struct guest_value *value);

#ifdef __cplusplus
}
#endif
#endif
