/* Pickles: what a Flight Recorder dump has is read, all else refused by name and place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/dumps/pickle.h"
#include "tests/ct.h"

/* The value as JSON, or the error's text; the caller frees it. */
static char *read_text(const char *data, size_t size_bytes, ddp_status *status, bool *is_short)
{
    json_t *root = NULL;
    struct ddp_err err = {{0}};
    char *text;

    *status = harness_diag_pickle_read(data, size_bytes, &root, is_short, &err);
    text = root != NULL ? json_dumps(root, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS)
                        : strdup(err.text);
    json_decref(root);
    return text;
}

/* literal: a pickle without its NUL. */
#define CHECK_PICKLE(literal, expected_status, expected)                          \
    do {                                                                          \
        ddp_status status;                                                        \
        bool is_short = false;                                                    \
        char *text = read_text(literal, sizeof(literal) - 1, &status, &is_short); \
        CT_CHECK_STATUS(status, expected_status);                                 \
        CT_CHECK_STR(text, expected);                                             \
        free(text);                                                               \
    } while (0)

CT_TEST(diagnose_pickle, reads_what_a_dump_has)
{
    CHECK_PICKLE("\x80\x02}q\x01(X\x01\x00\x00\x00"
                 "aK\x05X\x01\x00\x00\x00"
                 "bM\x01\x02u.",
                 DDP_OK, "{\"a\":5,\"b\":513}");
    CHECK_PICKLE("\x80\x02](J\xff\xff\xff\xff\x8a\x02\x00\x80\x8a\x00N\x88\x89"
                 "e.",
                 DDP_OK, "[-1,-32768,0,null,true,false]");
    CHECK_PICKLE("\x80\x02]G\x3f\xf8\x00\x00\x00\x00\x00\x00"
                 "a.",
                 DDP_OK, "[1.5]");
    CHECK_PICKLE("\x80\x02K\x01K\x02\x86q\x00]h\x00"
                 "ah\x00"
                 "a\x86.",
                 DDP_OK, "[[1,2],[[1,2],[1,2]]]");
    CHECK_PICKLE("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94.", DDP_OK, "\"hi\"");
}

CT_TEST(diagnose_pickle, refuses_what_names_or_calls_something)
{
    CHECK_PICKLE("\x80\x02"
                 "cos\nsystem\nX\x02\x00\x00\x00ls\x85R.",
                 DDP_E_UNSUPPORTED,
                 "offset 2: opcode GLOBAL is refused; a Flight Recorder dump has none, and nothing "
                 "in a pickle is run here");
    CHECK_PICKLE("\x80\x02)R.", DDP_E_UNSUPPORTED,
                 "offset 3: opcode REDUCE is refused; a Flight Recorder dump has none, and nothing "
                 "in a pickle is run here");
    CHECK_PICKLE("\x80\x04]\x93.", DDP_E_UNSUPPORTED,
                 "offset 3: opcode STACK_GLOBAL is refused; a Flight Recorder dump has none, and "
                 "nothing in a pickle is run here");
    CHECK_PICKLE("\x80\x02\x01.", DDP_E_PARSE, "offset 2: 0x01 is no opcode of a pickle");
}

CT_TEST(diagnose_pickle, refuses_what_is_no_value)
{
    CHECK_PICKLE("\x80\x02K\x01K\x02.", DDP_E_PARSE,
                 "offset 6: the pickle ends with other than one value");
    CHECK_PICKLE("\x80\x02K\x01K\x02"
                 "a.",
                 DDP_E_PARSE, "offset 6: values are appended to what is no list");
    CHECK_PICKLE("\x80\x02}K\x01K\x02s.", DDP_E_PARSE, "offset 7: a key that is no text");
    CHECK_PICKLE("\x80\x02h\x07.", DDP_E_PARSE, "offset 2: the memo has no such number");
    CHECK_PICKLE("\x80\x02X\x02\x00\x00\x00\xff\xfe.", DDP_E_PARSE,
                 "offset 2: a text that is not UTF-8, or memory is out");
}

/* A list that is put into itself would have no end. */
CT_TEST(diagnose_pickle, refuses_circles)
{
    CHECK_PICKLE("\x80\x02]q\x00h\x00"
                 "a.",
                 DDP_E_UNSUPPORTED, "offset 7: a list or map within itself is refused");
    CHECK_PICKLE("\x80\x02]q\x00]h\x00"
                 "aa.",
                 DDP_E_UNSUPPORTED, "offset 9: a list or map within itself is refused");
    CHECK_PICKLE("\x80\x02}q\x00(X\x01\x00\x00\x00"
                 "kh\x00u.",
                 DDP_E_UNSUPPORTED, "offset 14: a list or map within itself is refused");
}

/* PyTorch remembers a frame once it is whole, and has it again in the same stack trace. */
CT_TEST(diagnose_pickle, reads_what_comes_again_beside_itself)
{
    CHECK_PICKLE("\x80\x02](}(X\x01\x00\x00\x00"
                 "kK\x05uq\x01h\x01]K\x07"
                 "aq\x02h\x01h\x02"
                 "eq\x03.",
                 DDP_OK, "[{\"k\":5},{\"k\":5},[7],{\"k\":5},[7]]");
    CHECK_PICKLE("\x80\x02]q\x00h\x00K\x01"
                 "a.",
                 DDP_E_PARSE, "offset 9: values are appended to what is no list");
}

CT_TEST(diagnose_pickle, refuses_depth)
{
    char data[256] = "\x80\x02";
    struct ddp_err err = {{0}};
    json_t *root = NULL;
    bool is_short = false;

    memset(data + 2, ']', 60);
    memset(data + 62, 'a', 59);
    data[121] = '.';
    CT_CHECK_STATUS(harness_diag_pickle_read(data, 122, &root, &is_short, &err), DDP_E_PARSE);
    CT_CHECK(root == NULL);
    CT_CHECK(strstr(err.text, "nested too deeply") != NULL);
}

/* Each tuple holds the one before twice: twenty bytes would stand for a million values. */
CT_TEST(diagnose_pickle, refuses_what_unfolds_without_end)
{
    char data[1024] = "\x80\x02K\x01";
    size_t size = 4;
    struct ddp_err err = {{0}};
    json_t *root = NULL;
    bool is_short = false;

    for (int i = 0; i < 24; i++) {
        memcpy(data + size, (char[]){'q', (char)i, 'h', (char)i, (char)0x86}, 5);
        size += 5;
    }
    data[size++] = '.';
    CT_CHECK_STATUS(harness_diag_pickle_read(data, size, &root, &is_short, &err),
                    DDP_E_UNSUPPORTED);
    CT_CHECK(strstr(err.text, "many times its size") != NULL);
}

CT_TEST(diagnose_pickle, keeps_what_was_written_before_a_cut)
{
    static const char whole[] = "\x80\x02}(X\x01\x00\x00\x00"
                                "aK\x05X\x01\x00\x00\x00"
                                "b](K\x01K\x02"
                                "eu.";
    ddp_status status;
    bool is_short = false;
    char *text = read_text(whole, 24, &status, &is_short);

    CT_CHECK_STATUS(status, DDP_OK);
    CT_CHECK(is_short);
    CT_CHECK_STR(text, "{\"a\":5,\"b\":[1,2]}");
    free(text);
}

/* However a dump is cut, it is either read in part or refused in words, and nothing is read twice.
 */
CT_TEST(diagnose_pickle, every_cut_is_survived)
{
    static const char whole[] = "\x80\x02}(X\x01\x00\x00\x00"
                                "a]q\x01(}(X\x01\x00\x00\x00"
                                "bK\x01K\x02\x86q\x02X\x01\x00\x00\x00"
                                "ch\x02ueu.";

    for (size_t size = 2; size < sizeof whole - 1; size++) {
        ddp_status status;
        bool is_short = false;
        char *text = read_text(whole, size, &status, &is_short);

        CT_CHECK(is_short);
        CT_CHECK(status == DDP_OK || status == DDP_E_PARSE);
        CT_CHECK(text != NULL && text[0] != '\0');
        free(text);
    }
}
