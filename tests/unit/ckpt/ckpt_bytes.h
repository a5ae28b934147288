/* Files in memory for the tests of checkpoints. */
#ifndef TESTS_UNIT_CKPT_BYTES_H
#define TESTS_UNIT_CKPT_BYTES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/ckpt/ckpt.h"
#include "tests/ct.h"

/* A safetensors file of this header and so many bytes of data; the caller frees it. */
static inline uint8_t *ckpt_bytes(const char *header, const void *data, size_t data_bytes,
                                  size_t *out_bytes)
{
    const size_t length = strlen(header);
    uint8_t *bytes = (uint8_t *)calloc(1, 8 + length + data_bytes + 1);

    if (bytes != NULL) {
        for (unsigned i = 0; i < 8; i++) {
            bytes[i] = (uint8_t)((uint64_t)length >> (8 * i));
        }
        memcpy(bytes + 8, header, length);
        memcpy(bytes + 8 + length, data, data_bytes);
        *out_bytes = 8 + length + data_bytes;
    }
    return bytes;
}

/* Reads such a file, and verifies it. False: that could not be done at all. */
static inline bool ckpt_read(struct harness_ckpt *out, const char *header, const void *data,
                             size_t data_bytes)
{
    size_t size_bytes = 0;
    uint8_t *bytes = ckpt_bytes(header, data, data_bytes, &size_bytes);
    struct ddp_err err = {{0}};
    const bool is_read = bytes != NULL &&
                         harness_ckpt_parse(bytes, size_bytes, NULL, out, &err) == DDP_OK &&
                         harness_ckpt_verify(out) == DDP_OK;

    free(bytes);
    CT_CHECK(is_read);
    return is_read;
}

/* NULL: there is none of that name. */
static inline const struct harness_ckpt_tensor *ckpt_find(const struct harness_ckpt *ckpt,
                                                          const char *name)
{
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        if (strcmp(ckpt->tensors[i].name, name) == 0) {
            return &ckpt->tensors[i];
        }
    }
    return NULL;
}

/* The i-th fault, or "". */
static inline const char *ckpt_fault(const struct harness_ckpt *ckpt, size_t i)
{
    return i < ckpt->faults.count ? ckpt->faults.line[i] : "";
}

#endif
