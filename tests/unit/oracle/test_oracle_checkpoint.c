/* The judge's own safetensors reader, on hand-made bytes. */
#include <string.h>

#include "harness/tensor/checkpoint_file.h"
#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

struct fixture {
    struct ddp_mem_pool *pool;
    struct harness_checkpoint file;
};

static bool open_bytes(struct fixture *f, const char *header, const void *data, size_t data_bytes,
                       size_t cut_bytes)
{
    size_t length = strlen(header);
    size_t total = 8 + length + data_bytes - cut_bytes;
    unsigned char whole[1024] = {0};
    unsigned char *bytes;

    if (ddp_mem_pool_create(&f->pool) != DDP_OK) {
        return false;
    }
    for (int i = 0; i < 8; i++) {
        whole[i] = (unsigned char)((uint64_t)length >> (8 * i));
    }
    memcpy(whole + 8, header, length);
    memcpy(whole + 8 + length, data, data_bytes);
    bytes = ddp_mem_array(ddp_mem_pool_mem(f->pool), total, 1);
    if (bytes == NULL) {
        return false;
    }
    memcpy(bytes, whole, total);
    return harness_checkpoint_parse(ddp_mem_pool_mem(f->pool), bytes, total, &f->file) == DDP_OK;
}

static const unsigned char data[12] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00,
                                       0x00, 0x40, 0x05, 0x01, 0x00, 0x00};
static const char good[] = "{\"__metadata__\":{\"steps_done\":\"6\"},"
                           "\"b\":{\"dtype\":\"I32\",\"shape\":[1],\"data_offsets\":[8,12]},"
                           "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";

static const char *damage_of(const char *header, size_t cut_bytes)
{
    struct fixture f;
    const char *name;

    if (!open_bytes(&f, header, data, sizeof(data), cut_bytes)) {
        return "not opened";
    }
    name = harness_verdict_name(f.file.damage);
    ddp_mem_pool_destroy(f.pool);
    return name;
}

static uint32_t read_u32(const struct harness_checkpoint_tensor *tensor, size_t elem)
{
    uint32_t value = 0;

    harness_checkpoint_read(tensor, elem, &value);
    return value;
}

/* A right file gives its tensors, values in little-endian order, and its step. */
CT_TEST(oracle_checkpoint, right_file_is_read)
{
    struct fixture f;
    const struct harness_checkpoint_tensor *a;
    const struct harness_checkpoint_tensor *b;

    CT_REQUIRE(open_bytes(&f, good, data, sizeof(data), 0));
    CT_CHECK_STR(harness_verdict_name(f.file.damage), "NONE");
    CT_CHECK_EQ_I64(f.file.steps_done, 6);
    CT_CHECK_EQ_U64(f.file.tensor_count, 2);
    a = harness_checkpoint_find(&f.file, "a");
    b = harness_checkpoint_find(&f.file, "b");
    CT_REQUIRE(a != NULL && b != NULL);
    CT_CHECK_EQ_U64(read_u32(a, 0), 0x3f800000u);
    CT_CHECK_EQ_U64(read_u32(a, 1), 0x40000000u);
    CT_CHECK_EQ_U64(read_u32(b, 0), 0x105u);
    CT_CHECK_EQ_U64(a->ndim, 2);
    CT_CHECK(harness_checkpoint_find(&f.file, "c") == NULL);
    ddp_mem_pool_destroy(f.pool);
}

/* A file that ends before its tensors do is torn. */
CT_TEST(oracle_checkpoint, short_file_is_torn)
{
    CT_CHECK_STR(damage_of(good, 1), "CHECKPOINT.TORN");
    CT_CHECK_STR(damage_of(good, sizeof(data)), "CHECKPOINT.TORN");
    CT_CHECK_STR(damage_of(good, sizeof(data) + 20), "CHECKPOINT.TORN");
}

/* Contradictions are corruption: overlaps, gaps, sizes, JSON, duplicate keys. */
CT_TEST(oracle_checkpoint, contradictions_are_corruption)
{
    static const char *const headers[] = {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-3],\"data_offsets\":[0,12]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,0]}}",
        "[1, 2]",
        "{\"a\":",
    };

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        CT_CHECK_STR(damage_of(headers[i], 0), "CHECKPOINT.CORRUPTED");
    }
    CT_CHECK_STR(damage_of("{\"a\":{\"dtype\":\"Q7\",\"shape\":[3],\"data_offsets\":[0,12]}}", 0),
                 "CHECKPOINT.DTYPE");
}

/* One element of any size, in the host's order; the bytes may be unaligned. */
CT_TEST(oracle_checkpoint, elements_of_any_size_are_read)
{
    static const unsigned char bytes[17] = {0xff, 1,  2,  3,  4,  5,  6,  7, 8,
                                            9,    10, 11, 12, 13, 14, 15, 16};
    struct harness_checkpoint_tensor tensor = {.dtype = DDP_DTYPE_I64, .data = bytes + 1};
    uint64_t wide = 0;
    uint32_t word = 0;
    uint16_t half = 0;
    uint8_t byte = 0;

    harness_checkpoint_read(&tensor, 1, &wide);
    CT_CHECK_EQ_U64(wide, UINT64_C(0x100f0e0d0c0b0a09));
    tensor.dtype = DDP_DTYPE_F32;
    harness_checkpoint_read(&tensor, 1, &word);
    CT_CHECK_EQ_U64(word, 0x08070605u);
    tensor.dtype = DDP_DTYPE_BF16;
    harness_checkpoint_read(&tensor, 1, &half);
    CT_CHECK_EQ_U64(half, 0x0403u);
    tensor.dtype = DDP_DTYPE_U8;
    harness_checkpoint_read(&tensor, 1, &byte);
    CT_CHECK_EQ_U64(byte, 2);
}

/* One checkpoint has one writer; that its file is not there is another finding. */
CT_TEST(oracle_checkpoint, two_writers_are_named)
{
    struct oracle_job job;
    const struct harness_finding *clobbered = NULL;
    const uint64_t save[5] = {4, 1, 100, 0, 0};

    CT_REQUIRE(oracle_job_open(&job, false) && oracle_job_run(&job));
    oracle_job_add_event(&job, 0, DDP_EVENT_CHECKPOINT_SAVED, ORACLE_JOB_STEPS, save);
    oracle_job_add_event(&job, 1, DDP_EVENT_CHECKPOINT_SAVED, ORACLE_JOB_STEPS, save);
    CT_REQUIRE(oracle_job_check(&job));
    for (size_t i = 0; i < job.findings.count; i++) {
        if (job.findings.items[i].verdict == HARNESS_VERDICT_CHECKPOINT_CLOBBERED) {
            clobbered = &job.findings.items[i];
        }
    }
    CT_REQUIRE(clobbered != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&clobbered->culprits), 2);
    CT_CHECK_STR(clobbered->text, "2 ranks wrote the same checkpoint");
    oracle_job_close(&job);
}
