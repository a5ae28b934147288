/* safetensors files: every fault is said, with its place; what ddpcore accepts is accepted here. */
#include <math.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "tests/unit/ckpt/ckpt_bytes.h"

static const float values[6] = {1, 2, 3, 4, 5, 6};

/* The only fault of a file of 24 data bytes. */
static void check_fault(const char *header, const char *expected)
{
    struct harness_ckpt ckpt;

    if (ckpt_read(&ckpt, header, values, sizeof values)) {
        CT_CHECK_EQ_U64(ckpt.faults.count, 1);
        CT_CHECK_STR(ckpt_fault(&ckpt, 0), expected);
        CT_CHECK(!ckpt.is_whole);
        harness_ckpt_fini(&ckpt);
    }
}

CT_TEST(ckpt_file, reads_what_is_sound)
{
    struct harness_ckpt ckpt;

    CT_REQUIRE(ckpt_read(&ckpt,
                         "{\"__metadata__\":{\"format\":\"pt\"},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]},"
                         "\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
                         "\"c\":{\"dtype\":\"BOOL\",\"shape\":[6,1],\"data_offsets\":[2,8]},"
                         "\"d\":{\"dtype\":\"I16\",\"shape\":[0],\"data_offsets\":[24,24]}}",
                         values, sizeof values));
    CT_CHECK_EQ_U64(ckpt.faults.count, 0);
    CT_CHECK(ckpt.is_whole);
    CT_CHECK_EQ_I64((int)ckpt.checksum, HARNESS_CKPT_CHECKSUM_NONE);
    CT_CHECK_EQ_U64(ckpt.tensor_count, 4);
    CT_CHECK_STR(ckpt.tensors[0].name, "b");
    CT_CHECK_EQ_U64(ckpt.tensors[0].elem_count, 4);
    CT_CHECK_BYTES(ckpt.tensors[0].data, (const uint8_t *)values + 8, 16);
    CT_CHECK_EQ_U64(ckpt.tensors[1].elem_count, 1);
    CT_CHECK_STR(ckpt.meta[0].value, "pt");
    CT_CHECK(ckpt_find(&ckpt, "c") == &ckpt.tensors[2]);
    CT_CHECK(ckpt_find(&ckpt, "e") == NULL);
    harness_ckpt_fini(&ckpt);
}

CT_TEST(ckpt_file, says_each_fault_of_the_header)
{
    check_fault("[", "header: line 1:1: ']' expected near end of file");
    check_fault("[]", "header: not a JSON object");
    check_fault("{}", "24 bytes follow the last tensor, which ends at data byte 0");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[6]}}",
                "header: tensor \"a\": needs exactly dtype, shape and data_offsets");
    check_fault("{\"a\":{\"dtype\":32,\"shape\":[6],\"data_offsets\":[0,24]}}",
                "header: tensor \"a\": no dtype string");
    check_fault("{\"a\":{\"dtype\":\"F4\",\"shape\":[6],\"data_offsets\":[0,24]}}",
                "header: tensor \"a\": dtype \"F4\" is not known");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":6,\"data_offsets\":[0,24]}}",
                "header: tensor \"a\": no shape array");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,-6],\"data_offsets\":[0,24]}}",
                "header: tensor \"a\": dimension 1 is not a size");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0]}}",
                "header: tensor \"a\": data_offsets is not a pair of offsets");
    check_fault("{\"\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}}",
                "header: a tensor without name");
    check_fault("{\"__metadata__\":[],\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":"
                "[0,24]}}",
                "header: __metadata__ is not an object");
    check_fault("{\"__metadata__\":{\"x\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[6],"
                "\"data_offsets\":[0,24]}}",
                "header: metadata \"x\" is not a string");
}

CT_TEST(ckpt_file, says_each_fault_of_offsets)
{
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[7],\"data_offsets\":[0,28]}}",
                "tensor \"a\": offsets 0..28 lie outside the 24 data bytes (truncated file?)");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[24,0]}}",
                "tensor \"a\": offsets 24..0 lie outside the 24 data bytes (truncated file?)");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,24]}}",
                "tensor \"a\": offsets 0..24 hold 24 bytes, its shape needs 20");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":"
                "[0,24]}}",
                "tensor \"a\": its shape overflows");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]},"
                "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[16,24]}}",
                "tensor \"b\": begins at data byte 16, leaving a gap after byte 12");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
                "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}}",
                "tensor \"b\": begins at data byte 12, overlapping the one before it up to byte "
                "16");
    check_fault("{\"a\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]}}",
                "4 bytes follow the last tensor, which ends at data byte 20");
}

CT_TEST(ckpt_file, goes_on_after_a_fault)
{
    struct harness_ckpt ckpt;

    CT_REQUIRE(ckpt_read(&ckpt,
                         "{\"a\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
                         "\"c\":{\"dtype\":\"F32\",\"shape\":[9],\"data_offsets\":[8,24]}}",
                         values, sizeof values));
    CT_CHECK_EQ_U64(ckpt.faults.count, 2);
    CT_CHECK(strstr(ckpt_fault(&ckpt, 0), "\"a\"") != NULL);
    CT_CHECK(strstr(ckpt_fault(&ckpt, 1), "\"c\"") != NULL);
    CT_CHECK_EQ_U64(ckpt.tensor_count, 1);
    harness_ckpt_fini(&ckpt);
}

CT_TEST(ckpt_file, says_that_a_file_is_short)
{
    struct harness_ckpt ckpt;
    struct ddp_err err;

    CT_REQUIRE_OK(harness_ckpt_parse("\x07\0\0", 3, NULL, &ckpt, &err));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "header length: the file has only 3 bytes");
    harness_ckpt_fini(&ckpt);
    CT_REQUIRE_OK(harness_ckpt_parse("\x07\0\0\0\0\0\0\0{}", 10, NULL, &ckpt, &err));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "header length: 7 bytes claimed, the file has 2 and the "
                                       "format allows 100000000");
    harness_ckpt_fini(&ckpt);
}

CT_TEST(ckpt_file, finds_values_that_are_not_finite)
{
    const float odd[6] = {1, 2, NAN, 4, -INFINITY, 6};
    struct harness_ckpt ckpt;

    CT_REQUIRE(ckpt_read(&ckpt,
                         "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]}}",
                         odd, sizeof odd));
    CT_CHECK(ckpt.is_whole);
    CT_CHECK_EQ_U64(ckpt.faults.count, 1);
    CT_CHECK_STR(ckpt_fault(&ckpt, 0),
                 "tensor \"b\": 2 of 4 values are not finite, the first at [0,0], nan");
    harness_ckpt_fini(&ckpt);
}

CT_TEST(ckpt_file, finds_mixed_keys)
{
    struct harness_ckpt ckpt;

    CT_REQUIRE(ckpt_read(&ckpt,
                         "{\"module.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                         "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
                         values, sizeof values));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0),
                 "keys: 1 of 2 begin with \"module.\" (\"module.a\" does, \"b\" does not); save "
                 "the state_dict() of one model");
    harness_ckpt_fini(&ckpt);
}

/* Only in a file of ddprove's own are keys of an optimizer apart. */
CT_TEST(ckpt_file, keys_of_the_optimizer_stay_bare)
{
    struct harness_ckpt ckpt;

    CT_REQUIRE(
        ckpt_read(&ckpt,
                  "{\"__metadata__\":{\"steps_done\":\"3\"},"
                  "\"module.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                  "\"optim.step.a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
                  values, sizeof values));
    CT_CHECK_EQ_U64(ckpt.faults.count, 0);
    harness_ckpt_fini(&ckpt);
    CT_REQUIRE(
        ckpt_read(&ckpt,
                  "{\"module.a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                  "\"optim.step.a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}",
                  values, sizeof values));
    CT_CHECK_EQ_U64(ckpt.faults.count, 1);
    harness_ckpt_fini(&ckpt);
}

/* A file as ddpcore writes it; the caller frees it. */
static void *saved(size_t *out_bytes)
{
    const uint64_t two[1] = {2}, empty[1] = {0};
    struct ddp_files_memory *memory = NULL;
    struct ddp_env env = {.world_size = 1, .mem = ddp_mem_system()};
    struct ddp_state_dict dict;
    struct ddp_err err = {{0}};
    void *bytes = NULL;

    *out_bytes = 0;
    ddp_state_dict_init(&dict, ddp_mem_system());
    CT_CHECK_OK(ddp_files_memory_create(&memory));
    env.files = ddp_files_memory_files(memory);
    CT_CHECK_OK(ddp_state_dict_add(&dict, "a", DDP_DTYPE_F32, 1, two, values));
    CT_CHECK_OK(ddp_state_dict_add(&dict, "b", DDP_DTYPE_F32, 1, two, values + 2));
    CT_CHECK_OK(ddp_state_dict_add(&dict, "none", DDP_DTYPE_I64, 1, empty, values));
    CT_CHECK_OK(ddp_state_dict_set_meta(&dict, "steps_done", "1"));
    CT_CHECK_OK(ddp_safetensors_save(&env, "x", &dict, &err));
    CT_CHECK_OK(
        env.files->ops->read_all(env.files, "x", ddp_mem_system(), &bytes, out_bytes, &err));
    ddp_state_dict_fini(&dict);
    ddp_files_memory_destroy(memory);
    return bytes;
}

/* Whatever single byte changes: sound here means that the core loads it, and what the core loads is
 * whole here. */
CT_TEST(ckpt_file, agrees_with_the_core_on_every_changed_byte)
{
    size_t size_bytes = 0;
    uint8_t *bytes = saved(&size_bytes);

    for (size_t i = 0; bytes != NULL && i < size_bytes; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            struct harness_ckpt ckpt;
            struct ddp_state_dict dict;
            struct ddp_err err = {{0}};
            bool is_loaded, is_sound;

            bytes[i] ^= (uint8_t)(1U << bit);
            ddp_state_dict_init(&dict, ddp_mem_system());
            is_loaded = ddp_safetensors_parse(bytes, size_bytes, &dict, &err) == DDP_OK;
            CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
            is_sound = ckpt.faults.count == 0;
            CT_CHECK(!is_sound || is_loaded || strstr(err.text, "is not supported") != NULL);
            CT_CHECK(!is_loaded || ckpt.is_whole);
            harness_ckpt_fini(&ckpt);
            ddp_state_dict_fini(&dict);
            bytes[i] ^= (uint8_t)(1U << bit);
        }
    }
    ddp_mem_free(ddp_mem_system(), bytes);
}

CT_TEST(ckpt_file, holds_data_to_their_checksums)
{
    size_t size_bytes = 0;
    uint8_t *bytes = saved(&size_bytes);
    struct harness_ckpt ckpt;
    struct ddp_err err;

    CT_REQUIRE(bytes != NULL);
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
    CT_CHECK_EQ_U64(ckpt.faults.count, 0);
    CT_CHECK_EQ_I64((int)ckpt.checksum, HARNESS_CKPT_CHECKSUM_HOLDS);
    harness_ckpt_fini(&ckpt);
    bytes[size_bytes - 1] ^= 1;
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "checksum: tensor \"b\", data bytes 8..16, are damaged");
    CT_CHECK(ckpt.is_whole);
    CT_CHECK_EQ_I64((int)ckpt.checksum, HARNESS_CKPT_CHECKSUM_BROKEN);
    harness_ckpt_fini(&ckpt);
    ddp_mem_free(ddp_mem_system(), bytes);
}

/* Another program has written the header in another order, and kept the checksums. */
CT_TEST(ckpt_file, finds_checksums_by_the_order_of_data)
{
    static const char a[] = "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}";
    static const char b[] = "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}";
    size_t size_bytes = 0;
    uint8_t *bytes = saved(&size_bytes);
    char *first;
    struct harness_ckpt ckpt;
    struct ddp_err err;

    CT_REQUIRE(bytes != NULL);
    first = strstr((char *)bytes + 8, a);
    CT_REQUIRE(first != NULL);
    (void)memcpy(first, b, sizeof b - 1);
    first[sizeof b - 1] = ',';
    (void)memcpy(first + sizeof b, a, sizeof a - 1);
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
    CT_CHECK_STR(ckpt.tensors[0].name, "b");
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "");
    harness_ckpt_fini(&ckpt);
    bytes[size_bytes - 1] ^= 1;
    CT_REQUIRE_OK(harness_ckpt_parse(bytes, size_bytes, NULL, &ckpt, &err));
    CT_CHECK_EQ_U64(ckpt.faults.count, 1);
    CT_CHECK_STR(ckpt_fault(&ckpt, 0), "checksum: tensor \"b\", data bytes 8..16, are damaged");
    harness_ckpt_fini(&ckpt);
    ddp_mem_free(ddp_mem_system(), bytes);
}

/* A name may hold anything, and a fault stays one line. */
CT_TEST(ckpt_file, keeps_lines_whole)
{
    struct harness_ckpt ckpt;
    struct ddp_text text;

    CT_REQUIRE(ckpt_read(&ckpt,
                         "{\"a\\nPASS\":{\"dtype\":\"F4\",\"shape\":[1],\"data_offsets\":[0,4]},"
                         "\"b\\u001b[2J\":{\"dtype\":\"F32\",\"shape\":[6],\"data_offsets\":[0,24]}"
                         "}",
                         values, sizeof values));
    ddp_text_init(&text, ddp_mem_system());
    harness_ckpt_print(&ckpt, "x", &text);
    harness_ckpt_print_verdict(&ckpt, "x", &text);
    CT_CHECK(strstr(ddp_text_str(&text), "\nPASS") == NULL);
    CT_CHECK(strchr(ddp_text_str(&text), '\x1b') == NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "a?PASS") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "b?[2J") != NULL);
    ddp_text_fini(&text);
    harness_ckpt_fini(&ckpt);
}
