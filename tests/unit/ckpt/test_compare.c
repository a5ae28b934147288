/* Two files side by side. */
#include <math.h>

#include "tests/unit/ckpt/ckpt_bytes.h"

/* Two files of one tensor "<name>", f32 [2,2] each, and what differs; the text is checked. */
static void check_values(const float *left, const float *right, const char *expected)
{
    static const char header[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}";
    struct harness_ckpt a, b;
    struct harness_ckpt_diff diff;
    struct ddp_text text;

    CT_REQUIRE(ckpt_read(&a, header, left, 16));
    CT_REQUIRE(ckpt_read(&b, header, right, 16));
    CT_CHECK_OK(harness_ckpt_compare(&a, &b, &diff));
    ddp_text_init(&text, ddp_mem_system());
    harness_ckpt_print_diff(&diff, "A", "B", &text);
    CT_CHECK_STR(ddp_text_str(&text), expected);
    ddp_text_fini(&text);
    harness_ckpt_fini(&a);
    harness_ckpt_fini(&b);
}

CT_TEST(ckpt_compare, values)
{
    const float base[4] = {1, NAN, -2, 0}, same[4] = {1, NAN, -2, 0};
    float other[4] = {1, NAN, -2, 0};

    check_values(base, same, "A and B: equal bit for bit, 1 tensor\n");
    other[2] = nextafterf(-2, 0);
    check_values(base, other,
                 "A and B: 1 of 1 tensors differ\n  \"w\": 1 of 4 elements differ, by up to "
                 "1.19209e-07 and 1 ulp; first at [1,0]: -2, and -1.99999988\n");
    other[3] = -0.0F; /* as a number it is the same, its bits are not */
    other[0] = 1.5F;
    check_values(base, other,
                 "A and B: 1 of 1 tensors differ\n  \"w\": 3 of 4 elements differ, by up to 0.5 "
                 "and 4194304 ulps; first at [0,0]: 1, and 1.5\n");
    other[0] = 1;
    other[2] = -2;
    other[3] = INFINITY;
    check_values(base, other,
                 "A and B: 1 of 1 tensors differ\n  \"w\": 1 of 4 elements differ, in 1 pair one "
                 "is not finite; first at [1,1]: 0, and inf\n");
}

/* A NaN of other bits is another value. */
CT_TEST(ckpt_compare, bits_of_nan_count)
{
    uint32_t left[4] = {0x7fc00000, 0, 0, 0}, right[4] = {0x7fc00001, 0, 0, 0};
    float a[4], b[4];

    memcpy(a, left, sizeof a);
    memcpy(b, right, sizeof b);
    check_values(a, b,
                 "A and B: 1 of 1 tensors differ\n  \"w\": 1 of 4 elements differ, in 1 pair one "
                 "is not finite; first at [0,0]: nan, and nan\n");
}

/* A file of three tensors, of the named keys and one byte each. */
static bool read_three(struct harness_ckpt *out, const char *meta, const char *first,
                       const char *second, const char *third)
{
    char header[512];

    (void)snprintf(header, sizeof header,
                   "{%s\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                   "\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
                   "\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                   meta, first, second, third);
    return ckpt_read(out, header, "\x01\x02\x03", 3);
}

static void check_keys(struct harness_ckpt *a, struct harness_ckpt *b, size_t changes,
                       int32_t shift, const char *expected)
{
    struct harness_ckpt_diff diff;
    struct ddp_text text;

    CT_CHECK_OK(harness_ckpt_compare(a, b, &diff));
    CT_CHECK_EQ_U64(diff.change_count, changes);
    CT_CHECK_EQ_I64(diff.shift, shift);
    ddp_text_init(&text, ddp_mem_system());
    harness_ckpt_print_diff(&diff, "A", "B", &text);
    CT_CHECK_STR(ddp_text_str(&text), expected);
    ddp_text_fini(&text);
    harness_ckpt_fini(a);
    harness_ckpt_fini(b);
}

CT_TEST(ckpt_compare, a_prefix_is_said_once)
{
    struct harness_ckpt a, b;

    CT_REQUIRE(read_three(&a, "", "module.x", "module.y", "module.z"));
    CT_REQUIRE(read_three(&b, "", "x", "y", "z"));
    check_keys(&a, &b, 0, 1,
               "A and B: equal bit for bit, 3 tensors\n"
               "  prefix    every key of A begins with \"module.\" more; compared without it\n");
    CT_REQUIRE(read_three(&a, "", "x", "y", "other"));
    CT_REQUIRE(read_three(&b, "", "module.module.x", "module.module.y", "module.module.z"));
    check_keys(&a, &b, 2, -2,
               "A and B: 2 of 4 tensors differ\n"
               "  prefix    every key of B begins with \"module.\" 2 times more; compared without "
               "it\n"
               "  \"other\" only in A: u8 [1]\n"
               "  \"module.module.z\" only in B: u8 [1]\n");
}

/* Not all keys have it: then it is a part of the names. */
CT_TEST(ckpt_compare, mixed_keys_are_other_keys)
{
    struct harness_ckpt a, b;

    CT_REQUIRE(read_three(&a, "", "module.x", "y", "module.z"));
    CT_REQUIRE(read_three(&b, "", "x", "y", "z"));
    check_keys(&a, &b, 4, 0,
               "A and B: 4 of 5 tensors differ\n"
               "  \"module.x\" only in A: u8 [1]\n"
               "  \"module.z\" only in A: u8 [1]\n"
               "  \"x\" only in B: u8 [1]\n"
               "  \"z\" only in B: u8 [1]\n");
    CT_REQUIRE(read_three(&a, "", "module.", "module.y", "module.z"));
    CT_REQUIRE(read_three(&b, "", "x", "y", "z"));
    check_keys(&a, &b, 6, 0,
               "A and B: 6 of 6 tensors differ\n"
               "  \"module.\" only in A: u8 [1]\n"
               "  \"module.y\" only in A: u8 [1]\n"
               "  \"module.z\" only in A: u8 [1]\n"
               "  \"x\" only in B: u8 [1]\n"
               "  \"y\" only in B: u8 [1]\n"
               "  \"z\" only in B: u8 [1]\n");
}

CT_TEST(ckpt_compare, the_optimizers_keys_have_no_prefix)
{
    struct harness_ckpt a, b;

    CT_REQUIRE(read_three(&a, "\"__metadata__\":{\"steps_done\":\"1\"},", "module.x", "module.y",
                          "optim.step.x"));
    CT_REQUIRE(read_three(&b, "\"__metadata__\":{\"steps_done\":\"2\",\"seed\":\"7\"},", "x", "y",
                          "optim.step.x"));
    check_keys(&a, &b, 0, 1,
               "A and B: equal bit for bit, 3 tensors\n"
               "  prefix    every key of A begins with \"module.\" more; compared without it\n"
               "  metadata  steps_done = 1, and 2\n"
               "  metadata  seed = 7 only in the second\n");
}

CT_TEST(ckpt_compare, forms)
{
    struct harness_ckpt a, b;

    CT_REQUIRE(ckpt_read(&a,
                         "{\"x\":{\"dtype\":\"U8\",\"shape\":[2,1],\"data_offsets\":[0,2]},"
                         "\"y\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[2,4]},"
                         "\"z\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
                         "\0\0\0\0\x80", 5));
    CT_REQUIRE(ckpt_read(&b,
                         "{\"x\":{\"dtype\":\"U8\",\"shape\":[1,2],\"data_offsets\":[0,2]},"
                         "\"y\":{\"dtype\":\"BF16\",\"shape\":[1],\"data_offsets\":[2,4]},"
                         "\"z\":{\"dtype\":\"I8\",\"shape\":[1],\"data_offsets\":[4,5]}}",
                         "\0\0\0\0\x7f", 5));
    check_keys(&a, &b, 3, 0,
               "A and B: 3 of 3 tensors differ\n"
               "  \"x\" is u8 [2,1], and u8 [1,2]\n"
               "  \"y\" is f16 [1], and bf16 [1]\n"
               "  \"z\": 1 of 1 elements differ, by up to 255; first at [0]: -128, and 127\n");
}
