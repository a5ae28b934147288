/* The prefix taken away: from every key, or from none. */
#include "ddpcore/checkpoint/safetensors.h"
#include "tests/unit/ckpt/ckpt_bytes.h"

static const uint8_t bytes_of_data[4] = {1, 2, 3, 4};

/* A file of two tensors, of one byte and of three. */
static bool read_two(struct harness_ckpt *out, const char *first, const char *second)
{
    char header[256];

    (void)snprintf(header, sizeof header,
                   "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]},"
                   "\"%s\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}",
                   first, second);
    return ckpt_read(out, header, bytes_of_data, sizeof bytes_of_data);
}

static void check_refused(const char *first, const char *second, const char *expected)
{
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};

    if (read_two(&ckpt, first, second)) {
        CT_CHECK_STATUS(harness_ckpt_strip(&ckpt, &err), DDP_E_PREFIX);
        CT_CHECK_STR(err.text, expected);
        CT_CHECK_STR(ckpt.tensors[0].name, first);
        CT_CHECK_STR(ckpt.tensors[1].name, second);
        harness_ckpt_fini(&ckpt);
    }
}

CT_TEST(ckpt_strip, takes_one_from_each)
{
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};
    struct harness_ckpt_prefix prefix;

    CT_REQUIRE(read_two(&ckpt, "module.b", "module.module.a"));
    CT_CHECK_OK(harness_ckpt_strip(&ckpt, &err));
    CT_CHECK_STR(ckpt.tensors[0].name, "b");
    CT_CHECK_STR(ckpt.tensors[1].name, "module.a");
    harness_ckpt_prefix_of(&ckpt, &prefix);
    CT_CHECK_EQ_U64(prefix.with_count, 1);
    harness_ckpt_fini(&ckpt);
}

CT_TEST(ckpt_strip, refuses_what_is_not_one_prefix)
{
    check_refused("a", "b",
                  "none of 2 keys begins with \"module.\": there is nothing to take away, load the "
                  "file as it is");
    check_refused("module.a", "b",
                  "1 of 2 keys begin with \"module.\" (\"module.a\" does, \"b\" does not); save "
                  "the state_dict() of one model, model.module's if it is wrapped");
    check_refused("module.a", "a",
                  "keys \"module.a\" and \"a\" would become one; remove one of them");
    check_refused("module.a", "module.",
                  "key \"module.\" is nothing but the prefix; rename it "
                  "first");
    check_refused("module.a\x7f", "a\x7f",
                  "keys \"module.a?\" and \"a?\" would become one; remove one of them");
    check_refused("module.__metadata__", "module.a",
                  "key \"module.__metadata__\" would become \"__metadata__\", which the format "
                  "reserves; rename it first");
}

/* Of a file of ddprove's own, the optimizer's keys stay, and may be in the way. */
CT_TEST(ckpt_strip, leaves_the_optimizer)
{
    static const char header[] =
        "{\"__metadata__\":{\"steps_done\":\"1\"},"
        "\"optim.step.a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]},"
        "\"module.a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};

    CT_REQUIRE(ckpt_read(&ckpt, header, bytes_of_data, sizeof bytes_of_data));
    CT_CHECK_OK(harness_ckpt_strip(&ckpt, &err));
    CT_CHECK_STR(ckpt.tensors[0].name, "optim.step.a");
    CT_CHECK_STR(ckpt.tensors[1].name, "a");
    harness_ckpt_fini(&ckpt);
}

static void save(struct ddp_env *env, const char *path, bool is_wrapped)
{
    static const float values[6] = {1, 2, 3, 4, 5, 6};
    const uint64_t shape[2] = {3, 2}, one[1] = {1};
    struct ddp_state_dict dict;
    struct ddp_err err = {{0}};

    ddp_state_dict_init(&dict, ddp_mem_system());
    CT_CHECK_OK(
        ddp_state_dict_add(&dict, "odd \"\\\n\x01 \xc3\xa9 name", DDP_DTYPE_U8, 1, one, values));
    CT_CHECK_OK(ddp_state_dict_add(&dict, "fc.weight", DDP_DTYPE_F32, 2, shape, values));
    if (is_wrapped) {
        CT_CHECK_OK(ddp_state_dict_add_prefix(&dict, "module."));
    }
    CT_CHECK_OK(ddp_state_dict_add(&dict, "optim.step.fc.weight", DDP_DTYPE_F32, 1, one, values));
    CT_CHECK_OK(ddp_state_dict_set_meta(&dict, "steps_done", "4"));
    CT_CHECK_OK(ddp_state_dict_set_meta(&dict, "model", "\"mlp\""));
    CT_CHECK_OK(ddp_safetensors_save(env, path, &dict, &err));
    ddp_state_dict_fini(&dict);
}

/* Stripped and written, it is the file that was saved without the wrapper, bit for bit. */
CT_TEST(ckpt_strip, is_what_was_saved_without)
{
    struct ddp_files_memory *memory = NULL;
    struct ddp_env env = {.world_size = 1, .mem = ddp_mem_system()};
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};
    void *data[2] = {NULL, NULL};
    size_t size_bytes[2] = {0, 0};

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    env.files = ddp_files_memory_files(memory);
    save(&env, "bare", false);
    save(&env, "wrapped", true);
    CT_REQUIRE_OK(harness_ckpt_load(env.files, "wrapped", NULL, &ckpt, &err));
    CT_CHECK_OK(harness_ckpt_strip(&ckpt, &err));
    CT_CHECK_OK(harness_ckpt_write(env.files, "wrapped", &ckpt, &err)); /* in its own place */
    harness_ckpt_fini(&ckpt);
    CT_CHECK_OK(env.files->ops->read_all(env.files, "bare", ddp_mem_system(), &data[0],
                                         &size_bytes[0], &err));
    CT_CHECK_OK(env.files->ops->read_all(env.files, "wrapped", ddp_mem_system(), &data[1],
                                         &size_bytes[1], &err));
    CT_CHECK_EQ_U64(size_bytes[0], size_bytes[1]);
    CT_CHECK_BYTES(data[0], data[1], size_bytes[0] < size_bytes[1] ? size_bytes[0] : size_bytes[1]);
    ddp_mem_free(ddp_mem_system(), data[0]);
    ddp_mem_free(ddp_mem_system(), data[1]);
    ddp_files_memory_destroy(memory);
}

/* Another program's file: the order of the header is not that of the data, there is no checksum,
 * and none is made. */
CT_TEST(ckpt_strip, keeps_another_programs_order)
{
    static const char expected[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]},"
                                   "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}";
    struct ddp_files_memory *memory = NULL;
    struct ddp_files *files;
    struct harness_ckpt ckpt;
    struct ddp_err err = {{0}};
    void *data = NULL;
    size_t size_bytes = 0;

    CT_REQUIRE_OK(ddp_files_memory_create(&memory));
    files = ddp_files_memory_files(memory);
    CT_REQUIRE(read_two(&ckpt, "module.b", "module.a"));
    CT_CHECK_OK(harness_ckpt_strip(&ckpt, &err));
    CT_CHECK_OK(harness_ckpt_write(files, "x", &ckpt, &err));
    harness_ckpt_fini(&ckpt);
    CT_REQUIRE_OK(files->ops->read_all(files, "x", ddp_mem_system(), &data, &size_bytes, &err));
    CT_REQUIRE(size_bytes > 8 + sizeof expected);
    CT_CHECK_BYTES((const uint8_t *)data + 8, expected, sizeof expected - 1);
    CT_CHECK_BYTES((const uint8_t *)data + size_bytes - 4, bytes_of_data, 4);
    CT_CHECK_EQ_U64(size_bytes % 8, 4);
    ddp_mem_free(ddp_mem_system(), data);
    ddp_files_memory_destroy(memory);
}
