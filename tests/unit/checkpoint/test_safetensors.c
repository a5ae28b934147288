/* safetensors: round trips, every kind of damage, atomic replacement, fault points. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/checkpoint/safetensors.h"
#include "tests/ct.h"

static const float weights[6] = {1.5F, -2, 3, 4, 5, 6};
static const uint8_t flags[3] = {7, 8, 9};

struct fixture {
    struct ddp_files_memory *memory;
    struct ddp_env env;
    struct ddp_state_dict dict;
    struct ddp_state_dict loaded;
    struct ddp_err err;
};

static void setup(struct fixture *fixture)
{
    const uint64_t shape[2] = {2, 3};
    const uint64_t flag_shape[1] = {3};
    const uint64_t empty_shape[2] = {0, 5};

    memset(fixture, 0, sizeof(*fixture));
    CT_REQUIRE_OK(ddp_files_memory_create(&fixture->memory));
    fixture->env.world_size = 1;
    fixture->env.mem = ddp_mem_system();
    fixture->env.files = ddp_files_memory_files(fixture->memory);
    ddp_state_dict_init(&fixture->dict, ddp_mem_system());
    ddp_state_dict_init(&fixture->loaded, ddp_mem_system());
    CT_REQUIRE_OK(
        ddp_state_dict_add(&fixture->dict, "fc0.weight", DDP_DTYPE_F32, 2, shape, weights));
    CT_REQUIRE_OK(
        ddp_state_dict_add(&fixture->dict, "nothing", DDP_DTYPE_F32, 2, empty_shape, weights));
    CT_REQUIRE_OK(ddp_state_dict_add(&fixture->dict, "odd \"\\\n\x01 \xc3\xa9 name", DDP_DTYPE_U8,
                                     1, flag_shape, flags));
    CT_REQUIRE_OK(ddp_state_dict_add(&fixture->dict, "scalar", DDP_DTYPE_F32, 0, NULL, weights));
    CT_REQUIRE_OK(ddp_state_dict_set_meta(&fixture->dict, "steps_done", "4"));
}

static void teardown(struct fixture *fixture)
{
    ddp_state_dict_fini(&fixture->dict);
    ddp_state_dict_fini(&fixture->loaded);
    ddp_files_memory_destroy(fixture->memory);
}

static ddp_status save(struct fixture *fixture)
{
    return ddp_safetensors_save(&fixture->env, "c/x.safetensors", &fixture->dict, &fixture->err);
}

static ddp_status load(struct fixture *fixture)
{
    ddp_state_dict_fini(&fixture->loaded);
    return ddp_safetensors_load(fixture->env.files, "c/x.safetensors", &fixture->loaded,
                                &fixture->err);
}

/* What was saved comes back: names, order, types, shapes, bytes, metadata; saving it again gives
 * the same file. */
CT_TEST(safetensors, round_trip)
{
    struct fixture fixture;
    void *first = NULL, *second = NULL;
    size_t first_size = 0, second_size = 0;

    setup(&fixture);
    CT_REQUIRE_OK(save(&fixture));
    CT_REQUIRE_OK(load(&fixture));
    CT_CHECK_EQ_U64(fixture.loaded.entry_count, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct ddp_tensor_entry *a = &fixture.dict.entries[i];
        const struct ddp_tensor_entry *b = &fixture.loaded.entries[i];

        CT_CHECK_STR(a->name, b->name);
        CT_CHECK_EQ_U64(a->dtype, b->dtype);
        CT_CHECK_EQ_U64(a->ndim, b->ndim);
        CT_CHECK_BYTES(a->shape, b->shape, sizeof(a->shape));
        CT_CHECK_EQ_U64(a->size_bytes, b->size_bytes);
        CT_CHECK_BYTES(a->data, b->data, a->size_bytes);
    }
    CT_CHECK_EQ_U64(fixture.loaded.meta_count, 1);
    CT_CHECK_STR(ddp_state_dict_meta(&fixture.loaded, "steps_done"), "4");
    CT_REQUIRE_OK(ddp_safetensors_save(&fixture.env, "again", &fixture.loaded, &fixture.err));
    CT_REQUIRE_OK(fixture.env.files->ops->read_all(fixture.env.files, "c/x.safetensors",
                                                   ddp_mem_system(), &first, &first_size, NULL));
    CT_REQUIRE_OK(fixture.env.files->ops->read_all(fixture.env.files, "again", ddp_mem_system(),
                                                   &second, &second_size, NULL));
    CT_CHECK_EQ_U64(first_size, second_size);
    CT_CHECK_BYTES(first, second, first_size);
    CT_CHECK_EQ_U64((first_size - 4 * 7 - 3) % 8, 0);
    ddp_mem_free(ddp_mem_system(), first);
    ddp_mem_free(ddp_mem_system(), second);
    teardown(&fixture);
}

/* An empty dict is a valid file. */
CT_TEST(safetensors, empty_dict)
{
    struct fixture fixture;

    setup(&fixture);
    ddp_state_dict_fini(&fixture.dict);
    CT_REQUIRE_OK(save(&fixture));
    CT_REQUIRE_OK(load(&fixture));
    CT_CHECK_EQ_U64(fixture.loaded.entry_count, 0);
    teardown(&fixture);
}

/* Any flipped byte and any truncation of a saved file is refused; damage to tensor bytes names the
 * tensor. */
CT_TEST(safetensors, every_damaged_byte_is_noticed)
{
    struct fixture fixture;
    struct ddp_state_dict dict;
    void *image = NULL;
    uint8_t *bytes;
    size_t size = 0;

    setup(&fixture);
    CT_REQUIRE_OK(save(&fixture));
    CT_REQUIRE_OK(fixture.env.files->ops->read_all(fixture.env.files, "c/x.safetensors",
                                                   ddp_mem_system(), &image, &size, NULL));
    bytes = image;
    ddp_state_dict_init(&dict, ddp_mem_system());
    for (size_t i = size - 31; i < size; i++) {
        bytes[i] ^= 0x10;
        CT_CHECK_STATUS(ddp_safetensors_parse(bytes, size, &dict, &fixture.err), DDP_E_CORRUPT);
        CT_CHECK(strstr(fixture.err.text, i < size - 7   ? "tensor \"fc0.weight\""
                                          : i < size - 4 ? "tensor \"odd"
                                                         : "tensor \"scalar\"") != NULL);
        bytes[i] ^= 0x10;
    }
    for (size_t i = 0; i < size; i++) {
        CT_CHECK_STATUS(ddp_safetensors_parse(bytes, i, &dict, &fixture.err), DDP_E_CORRUPT);
        CT_CHECK_EQ_U64(dict.entry_count, 0);
    }
    CT_CHECK_OK(ddp_safetensors_parse(bytes, size, &dict, &fixture.err));
    ddp_state_dict_fini(&dict);
    ddp_mem_free(ddp_mem_system(), image);
    teardown(&fixture);
}

struct bad_header {
    const char *json;
    size_t data_size_bytes;
    ddp_status status;
    const char *says;
};

#define T(dtype, shape, first, last) \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" first "," last "]}"

static const struct bad_header bad_headers[] = {
    {"{\"a\":" T("F32", "1", "0", "4") "}", 4, DDP_OK, ""},
    {"{}", 0, DDP_OK, ""},
    {"", 0, DDP_E_CORRUPT, "header: line"},
    {"[]", 0, DDP_E_CORRUPT, "not a JSON object"},
    {"{\"a\":1}", 0, DDP_E_CORRUPT, "tensor \"a\""},
    {"{\"a\":" T("F32", "1", "0", "4") ",\"a\":" T("F32", "1", "4", "8") "}", 8, DDP_E_CORRUPT,
     "duplicate"},
    {"{\"a\":" T("F32", "1", "0", "4") ",\"b\":" T("F32", "1", "0", "4") "}", 4, DDP_E_CORRUPT,
     "overlapping"},
    {"{\"a\":" T("F32", "1", "0", "4") ",\"b\":" T("F32", "1", "8", "12") "}", 12, DDP_E_CORRUPT,
     "gap"},
    {"{\"a\":" T("F32", "1", "4", "8") "}", 8, DDP_E_CORRUPT, "gap"},
    {"{\"a\":" T("F32", "1", "0", "4") "}", 5, DDP_E_CORRUPT, "1 bytes follow"},
    {"{\"a\":" T("F32", "1", "0", "4") "}", 3, DDP_E_CORRUPT, "outside"},
    {"{\"a\":" T("F32", "1", "4", "0") "}", 4, DDP_E_CORRUPT, "outside"},
    {"{\"a\":" T("F32", "2", "0", "4") "}", 4, DDP_E_CORRUPT, "needs 8"},
    {"{\"a\":" T("F32", "-1", "0", "4") "}", 4, DDP_E_CORRUPT, "not a size"},
    {"{\"a\":" T("F32", "1.0", "0", "4") "}", 4, DDP_E_CORRUPT, "not a size"},
    {"{\"a\":" T("F32", "4611686018427387904,16", "0", "4") "}", 4, DDP_E_CORRUPT, "overflows"},
    {"{\"a\":" T("F32", "1", "0", "4.0") "}", 4, DDP_E_CORRUPT, "pair of offsets"},
    {"{\"a\":" T("Q99", "1", "0", "4") "}", 4, DDP_E_SHAPE, "Q99"},
    {"{\"a\":" T("U8", "1,1,1,1,1,1,1,1,1", "0", "1") "}", 1, DDP_E_SHAPE, "9 dimensions"},
    {"{\"\":" T("F32", "1", "0", "4") "}", 4, DDP_E_CORRUPT, "without name"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", 1, DDP_E_CORRUPT,
     "exactly"},
    {"{\"__metadata__\":[]}", 0, DDP_E_CORRUPT, "not an object"},
    {"{\"__metadata__\":{\"k\":1}}", 0, DDP_E_CORRUPT, "\"k\" is not a string"},
    {"{\"__metadata__\":{\"ddprove.xxh3\":\"0\"},\"a\":" T("U8", "1", "0", "1") "}", 1,
     DDP_E_CORRUPT, "checksum"},
    {"{\"a\":" T("F32", "1", "0", "4") "} x", 4, DDP_E_CORRUPT, "header: line"},
};

/* Each malformed header is refused for its own reason, and leaves the dict empty. */
CT_TEST(safetensors, malformed_headers)
{
    for (size_t i = 0; i < sizeof(bad_headers) / sizeof(bad_headers[0]); i++) {
        const struct bad_header *row = &bad_headers[i];
        const size_t length = strlen(row->json);
        struct ddp_state_dict dict;
        struct ddp_err err = {""};
        uint8_t image[512] = {0};
        ddp_status status;

        image[0] = (uint8_t)(length & 0xff);
        image[1] = (uint8_t)(length >> 8);
        memcpy(image + 8, row->json, length);
        ddp_state_dict_init(&dict, ddp_mem_system());
        status = ddp_safetensors_parse(image, 8 + length + row->data_size_bytes, &dict, &err);
        if (status != row->status || strstr(err.text, row->says) == NULL) {
            CT_FAIL("header %zu: %s: %s", i, ddp_status_name(status), err.text);
        }
        ddp_state_dict_fini(&dict);
    }
}

/* A header length beyond the file, or beyond the format's limit, is refused. */
CT_TEST(safetensors, header_length)
{
    uint8_t image[16] = {9, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    struct ddp_state_dict dict;
    struct ddp_err err = {""};

    ddp_state_dict_init(&dict, ddp_mem_system());
    CT_CHECK_STATUS(ddp_safetensors_parse(image, 16, &dict, &err), DDP_E_CORRUPT);
    CT_CHECK(strstr(err.text, "header length") != NULL);
    memset(image, 0xff, 8);
    CT_CHECK_STATUS(ddp_safetensors_parse(image, 16, &dict, &err), DDP_E_CORRUPT);
    CT_CHECK_STATUS(ddp_safetensors_parse(image, 0, &dict, &err), DDP_E_CORRUPT);
}

/* Names that the format or the checksum reserves, and text that is not UTF-8, are not written. */
CT_TEST(safetensors, refuses_unwritable_names)
{
    const char *const bad[] = {"\xff", "\xc3", "\xed\xa0\x80", "\xc0\xaf", "\xf5\x80\x80\x80"};
    const uint64_t shape[1] = {1};
    struct fixture fixture;

    setup(&fixture);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ddp_state_dict_fini(&fixture.dict);
        CT_REQUIRE_OK(ddp_state_dict_add(&fixture.dict, bad[i], DDP_DTYPE_F32, 1, shape, weights));
        CT_CHECK_STATUS(save(&fixture), DDP_E_INVALID);
    }
    ddp_state_dict_fini(&fixture.dict);
    CT_REQUIRE_OK(
        ddp_state_dict_add(&fixture.dict, "__metadata__", DDP_DTYPE_F32, 1, shape, weights));
    CT_CHECK_STATUS(save(&fixture), DDP_E_KEYS);
    ddp_state_dict_fini(&fixture.dict);
    CT_REQUIRE_OK(ddp_state_dict_set_meta(&fixture.dict, "ddprove.xxh3", "x"));
    CT_CHECK_STATUS(save(&fixture), DDP_E_KEYS);
    teardown(&fixture);
}

/* A missing file is NOT_FOUND and named. */
CT_TEST(safetensors, missing_file)
{
    struct fixture fixture;

    setup(&fixture);
    CT_CHECK_STATUS(load(&fixture), DDP_E_NOT_FOUND);
    CT_CHECK(strstr(fixture.err.text, "c/x.safetensors") != NULL);
    teardown(&fixture);
}

struct one_point {
    struct ddp_fault_hook hook;
    enum ddp_fault_action action;
};

static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    (void)point;
    (void)context;
    return ((struct one_point *)hook)->action;
}

/* A save that fails at any point leaves the previous file as it was and no temporary; a skipped
 * half is a torn file that the loader refuses. */
CT_TEST(safetensors, faults_while_saving)
{
    const enum ddp_fault_point points[] = {DDP_FAULT_POINT_CHECKPOINT_WRITE,
                                           DDP_FAULT_POINT_CHECKPOINT_FSYNC,
                                           DDP_FAULT_POINT_CHECKPOINT_RENAME};
    struct one_point one = {{0, fire}, DDP_FAULT_FAIL};
    struct fixture fixture;
    void *data = NULL;
    size_t size = 0;

    setup(&fixture);
    CT_REQUIRE_OK(save(&fixture));
    CT_REQUIRE_OK(ddp_state_dict_set_meta(&fixture.dict, "steps_done", "6"));
    fixture.env.faults = &one.hook;
    for (size_t i = 0; i < 3; i++) {
        one.hook.armed = UINT64_C(1) << points[i];
        CT_CHECK_STATUS(save(&fixture), DDP_E_INJECTED);
        CT_REQUIRE_OK(load(&fixture));
        CT_CHECK_STR(ddp_state_dict_meta(&fixture.loaded, "steps_done"), "4");
        CT_CHECK_STATUS(fixture.env.files->ops->read_all(fixture.env.files, "c/x.safetensors.tmp",
                                                         ddp_mem_system(), &data, &size, NULL),
                        DDP_E_NOT_FOUND);
    }
    one.action = DDP_FAULT_SKIP;
    CT_CHECK_OK(save(&fixture)); /* rename left out: the old file stays */
    CT_REQUIRE_OK(load(&fixture));
    CT_CHECK_STR(ddp_state_dict_meta(&fixture.loaded, "steps_done"), "4");
    one.hook.armed = UINT64_C(1) << DDP_FAULT_POINT_CHECKPOINT_WRITE;
    CT_CHECK_OK(save(&fixture));
    CT_CHECK_STATUS(load(&fixture), DDP_E_CORRUPT);
    CT_CHECK(strstr(fixture.err.text, "c/x.safetensors: ") != NULL);
    one.hook.armed = 0;
    CT_CHECK_OK(save(&fixture));
    CT_REQUIRE_OK(load(&fixture));
    CT_CHECK_STR(ddp_state_dict_meta(&fixture.loaded, "steps_done"), "6");
    teardown(&fixture);
}
