/* Pieces of a line: what is one, what is none, and what is left. */
#include "harness/dumps/scan.h"
#include "tests/ct.h"

CT_TEST(diagnose_scan, a_space_is_any_white_space)
{
    const char *at = "rank\t  : 2";

    CT_CHECK(harness_scan_text(&at, "rank : "));
    CT_CHECK_STR(at, "2");
    at = "rank:2";
    CT_CHECK(harness_scan_text(&at, "rank : "));
    CT_CHECK_STR(at, "2");
    at = "rang : 2";
    CT_CHECK(!harness_scan_text(&at, "rank : "));
    at = "ra";
    CT_CHECK(!harness_scan_text(&at, "rank"));
}

CT_TEST(diagnose_scan, a_number_that_does_not_fit_is_none)
{
    static const struct {
        const char *text;
        bool is_signed, is_unsigned;
        int64_t value;
    } all[] = {{" 12)", true, true, 12},
               {"-9 ", true, false, -9},
               {"9223372036854775807", true, true, INT64_MAX},
               {"-9223372036854775808", true, false, INT64_MIN},
               {"-9223372036854775809", false, false, 0},
               {"99999999999999999999", false, false, 0},
               {"", false, false, 0},
               {"-", false, false, 0},
               {"x1", false, false, 0}};

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const char *at = all[i].text;
        int64_t number = 0;
        uint64_t count = 0;

        CT_CHECK_EQ_I64(harness_scan_i64(&at, &number), all[i].is_signed);
        CT_CHECK_EQ_I64(number, all[i].value);
        at = all[i].text;
        CT_CHECK_EQ_I64(harness_scan_u64(&at, &count), all[i].is_unsigned);
        CT_CHECK_EQ_U64(count, all[i].is_unsigned ? (uint64_t)all[i].value : 0);
    }
}

CT_TEST(diagnose_scan, a_pointer_is_hexadecimal)
{
    const char *at = "55d0 rank";
    uint64_t number = 0;

    CT_CHECK(harness_scan_hex(&at, &number));
    CT_CHECK_EQ_U64(number, 0x55d0);
    CT_CHECK_STR(at, " rank");
    at = "ffffffffffffffff";
    CT_CHECK(harness_scan_hex(&at, &number));
    CT_CHECK_EQ_U64(number, UINT64_MAX);
    at = "10000000000000000";
    CT_CHECK(!harness_scan_hex(&at, &number));
    at = "-1";
    CT_CHECK(!harness_scan_hex(&at, &number));
    at = " 1";
    CT_CHECK(!harness_scan_hex(&at, &number));
    at = "";
    CT_CHECK(!harness_scan_hex(&at, &number));
}

CT_TEST(diagnose_scan, a_piece_fits_or_is_none)
{
    const char *at = "send 1->2";
    char text[5];

    CT_CHECK(harness_scan_of(&at, "dens", text, sizeof text));
    CT_CHECK_STR(text, "send");
    CT_CHECK_STR(at, " 1->2");
    at = "sends 1->2";
    CT_CHECK(!harness_scan_of(&at, "dens", text, sizeof text));
    at = "Send";
    CT_CHECK(!harness_scan_of(&at, "dens", text, sizeof text));
    at = "x.py:12)";
    CT_CHECK(harness_scan_until(&at, ":)", text, sizeof text));
    CT_CHECK_STR(text, "x.py");
    CT_CHECK_STR(at, ":12)");
    at = ":12)";
    CT_CHECK(!harness_scan_until(&at, ":)", text, sizeof text));
    at = "end";
    CT_CHECK(harness_scan_until(&at, ":)", text, sizeof text));
    CT_CHECK_STR(at, "");
    at = " 0x7f recvbuff";
    CT_CHECK(harness_scan_skip_word(&at));
    CT_CHECK_STR(at, " recvbuff");
    at = "  ";
    CT_CHECK(!harness_scan_skip_word(&at));
}
