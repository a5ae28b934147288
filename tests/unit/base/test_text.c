/* Text building, strict numbers, nearest names. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "tests/ct.h"

/* Appends grow the text through several reallocations and keep it terminated. */
CT_TEST(text, grows)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    CT_CHECK_STR(ddp_text_str(&text), "");
    for (int i = 0; i < 1000; i++) {
        ddp_text_add(&text, "%03d", i);
    }
    ddp_text_add_bytes(&text, "end\0", 4);
    CT_CHECK(!text.is_failed);
    CT_CHECK_EQ_U64(text.size_bytes, 3004);
    CT_CHECK(strncmp(ddp_text_str(&text), "000001002", 9) == 0);
    CT_CHECK_STR(ddp_text_str(&text) + 3000, "end");
    ddp_text_fini(&text);
    CT_CHECK_STR(ddp_text_str(&text), "");
}

/* What is formatted without printf is what printf makes of it. */
CT_TEST(text, formats_as_printf)
{
    struct ddp_text text;
    char expected[256];

    ddp_text_init(&text, ddp_mem_system());
    ddp_text_add(&text, "%s|%u|%d|%d|%d|%zu|%llu|%s|%d%s", "", UINT32_MAX, 0, INT32_MIN, INT32_MAX,
                 SIZE_MAX, ULLONG_MAX, "end", -1, "x");
    (void)snprintf(expected, sizeof expected, "%s|%u|%d|%d|%d|%zu|%llu|%s|%d%s", "", UINT32_MAX, 0,
                   INT32_MIN, INT32_MAX, SIZE_MAX, ULLONG_MAX, "end", -1, "x");
    CT_CHECK_STR(ddp_text_str(&text), expected);
    ddp_text_add(&text, "%s %u%% of %5d%c", "half:", 50U, 7, '.'); /* begins as the others do */
    CT_CHECK_STR(ddp_text_str(&text) + strlen(expected), "half: 50% of     7.");
    ddp_text_fini(&text);
}

/* When memory ends, the text keeps what it had, says so, and takes nothing more. */
CT_TEST(text, failure_sticks)
{
    struct ddp_mem_pool *pool;
    struct ddp_text text;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    ddp_text_init(&text, ddp_mem_pool_mem(pool));
    ddp_text_add(&text, "kept");
    ddp_mem_pool_fail_after(pool, 0, 1);
    ddp_text_add(&text, "%200s", "lost");
    CT_CHECK(text.is_failed);
    ddp_text_add(&text, "!");
    CT_CHECK_STR(ddp_text_str(&text), "kept");
    ddp_text_fini(&text);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    ddp_mem_pool_destroy(pool);
}

/* In fixed storage an append that does not fit is left out whole, and the last byte is the NUL's.
 */
CT_TEST(text, stays_in_fixed_storage)
{
    char storage[8] = "xxxxxxx";
    struct ddp_text text;

    ddp_text_init_fixed(&text, storage, sizeof storage);
    CT_CHECK_STR(ddp_text_str(&text), "");
    ddp_text_add(&text, "%s", "1234567");
    CT_CHECK(!text.is_failed);
    CT_CHECK_STR(storage, "1234567");
    ddp_text_init_fixed(&text, storage, sizeof storage);
    ddp_text_add(&text, "%s", "123");
    ddp_text_add(&text, "%s", "45678");
    CT_CHECK(text.is_failed);
    ddp_text_add_bytes(&text, "4", 1);
    CT_CHECK_STR(storage, "123");
    CT_CHECK_EQ_U64(text.size_bytes, 3);
}

/* Integers: the whole string, the whole range, nothing else. */
CT_TEST(text, parses_integers_strictly)
{
    static const char *const wrong[] = {"", " 1", "1 ", "+1", "0x1", "1.0", "-", "--1", "1e3"};
    uint64_t u;
    int64_t i;

    CT_CHECK_OK(ddp_text_parse_u64("18446744073709551615", &u));
    CT_CHECK_EQ_U64(u, UINT64_MAX);
    CT_CHECK_STATUS(ddp_text_parse_u64("18446744073709551616", &u), DDP_E_OVERFLOW);
    CT_CHECK_STATUS(ddp_text_parse_u64("99999999999999999999x", &u), DDP_E_PARSE);
    CT_CHECK_STATUS(ddp_text_parse_u64("-1", &u), DDP_E_PARSE);
    CT_CHECK_OK(ddp_text_parse_i64("-9223372036854775808", &i));
    CT_CHECK_EQ_I64(i, INT64_MIN);
    CT_CHECK_OK(ddp_text_parse_i64("9223372036854775807", &i));
    CT_CHECK_EQ_I64(i, INT64_MAX);
    CT_CHECK_OK(ddp_text_parse_i64("-0", &i));
    CT_CHECK_EQ_I64(i, 0);
    CT_CHECK_STATUS(ddp_text_parse_i64("9223372036854775808", &i), DDP_E_OVERFLOW);
    CT_CHECK_STATUS(ddp_text_parse_i64("-9223372036854775809", &i), DDP_E_OVERFLOW);
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
        CT_CHECK_STATUS(ddp_text_parse_u64(wrong[k], &u), DDP_E_PARSE);
        CT_CHECK_STATUS(ddp_text_parse_i64(wrong[k], &i), DDP_E_PARSE);
    }
}

/* Hexadecimal: as many digits as were printed, nothing else. */
CT_TEST(text, parses_hex_strictly)
{
    static const char *const wrong[] = {"",         "0123456",  "012345678", "0123456g", "0123456F",
                                        "0x123456", " 1234567", "-1234567",  "1234567 "};
    uint64_t u;

    CT_CHECK_OK(ddp_text_parse_hex("0000beef", 8, &u));
    CT_CHECK_EQ_U64(u, 0xbeef);
    CT_CHECK_OK(ddp_text_parse_hex("ffffffffffffffff", 16, &u));
    CT_CHECK_EQ_U64(u, UINT64_MAX);
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
        CT_CHECK_STATUS(ddp_text_parse_hex(wrong[k], 8, &u), DDP_E_PARSE);
    }
}

/* Numbers: decimal and hexadecimal floats, no names, no spaces, no overflow. */
CT_TEST(text, parses_numbers_strictly)
{
    static const char *const wrong[] = {"",    " 1",   "1 ", "+1",  "nan",
                                        "inf", "-inf", "1e", "1,5", "."};
    double value;

    CT_CHECK_OK(ddp_text_parse_f64("1e-3", &value));
    CT_CHECK(value == 1e-3);
    CT_CHECK_OK(ddp_text_parse_f64("-0x1.8p1", &value));
    CT_CHECK(value == -3.0);
    CT_CHECK_STATUS(ddp_text_parse_f64("1e999", &value), DDP_E_OVERFLOW);
    for (size_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
        CT_CHECK_STATUS(ddp_text_parse_f64(wrong[k], &value), DDP_E_PARSE);
    }
}

/* A slip of the finger finds its name; nonsense finds none. */
CT_TEST(text, finds_nearest_name)
{
    static const char *const names[] = {"ranks", "steps", "bucket_cap_kb", "model"};

    CT_CHECK_STR(ddp_text_nearest("rnaks", names, 4), "ranks");
    CT_CHECK_STR(ddp_text_nearest("buckt_cap_kb", names, 4), "bucket_cap_kb");
    CT_CHECK_STR(ddp_text_nearest("modell", names, 4), "model");
    CT_CHECK(ddp_text_nearest("zzzzz", names, 4) == NULL);
    CT_CHECK(ddp_text_nearest("", names, 4) == NULL);
    CT_CHECK(ddp_text_nearest("ranks", names, 0) == NULL);
}

/* The direct forms print what printf would. */
CT_TEST(text, adds_without_a_format)
{
    static const uint64_t values[] = {0, 9, 10, 99, 100, 12345678901, UINT64_MAX};
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        for (size_t width = 0; width < 25; width += 6) {
            char expected[128];
            size_t start = text.size_bytes;

            (void)snprintf(expected, sizeof(expected), "%*llu %016llx %-*s.", (int)width,
                           (unsigned long long)values[i], (unsigned long long)values[i], (int)width,
                           "forward");
            ddp_text_add_u64(&text, values[i], width);
            ddp_text_add_str(&text, " ", 0);
            ddp_text_add_hex(&text, values[i]);
            ddp_text_add_str(&text, " ", 0);
            ddp_text_add_str(&text, "forward", width);
            ddp_text_add_str(&text, ".", 0);
            CT_CHECK_STR(ddp_text_str(&text) + start, expected);
        }
    }
    ddp_text_fini(&text);
}

/* What does not fit a fixed text is left out whole, whoever adds it. */
CT_TEST(text, direct_forms_respect_a_fixed_text)
{
    char data[8];
    struct ddp_text text;

    ddp_text_init_fixed(&text, data, sizeof(data));
    ddp_text_add(&text, "%s", "1234");
    ddp_text_add_u64(&text, 5678, 0);
    CT_CHECK(text.is_failed);
    CT_CHECK_STR(ddp_text_str(&text), "1234");
    ddp_text_init_fixed(&text, data, sizeof(data));
    ddp_text_add(&text, "%s", "1234567890");
    CT_CHECK(text.is_failed);
    CT_CHECK_STR(ddp_text_str(&text), "");
}
