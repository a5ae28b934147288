/* Prefix rules: every relation between a dict's keys and a model's, and what resolving does. */
#include <string.h>

#include "ddpcore/checkpoint/state_dict.h"
#include "tests/ct.h"

#define KEYS_MAX 4

struct prefix_case {
    const char *keys[KEYS_MAX];
    const char *expected[KEYS_MAX];
    enum ddp_prefix_relation relation;
    uint32_t depth;
    size_t matched_count;
    ddp_status exact, automatic;
};

#define SAME      DDP_PREFIX_SAME
#define STRIP     DDP_PREFIX_STRIP
#define ADD       DDP_PREFIX_ADD
#define MIXED     DDP_PREFIX_MIXED
#define AMBIGUOUS DDP_PREFIX_AMBIGUOUS
#define UNRELATED DDP_PREFIX_UNRELATED
#define M         "module."

static const struct prefix_case cases[] = {
    {{"a", "b"}, {"b", "a"}, SAME, 0, 2, DDP_OK, DDP_OK},
    {{NULL}, {NULL}, SAME, 0, 0, DDP_OK, DDP_OK},
    /* wrapped file into a bare model, and the other way round */
    {{M "a", M "b"}, {"a", "b"}, STRIP, 1, 2, DDP_E_PREFIX, DDP_OK},
    {{"a", "b"}, {M "a", M "b"}, ADD, 1, 2, DDP_E_PREFIX, DDP_OK},
    /* wrapped twice */
    {{M M "a", M M "b"}, {"a", "b"}, STRIP, 2, 2, DDP_E_PREFIX, DDP_OK},
    {{"a"}, {M M "a"}, ADD, 2, 1, DDP_E_PREFIX, DDP_OK},
    {{M M "a"}, {M "a"}, STRIP, 1, 1, DDP_E_PREFIX, DDP_OK},
    /* a real child called "module" */
    {{M "fc0.weight", "x"}, {M "fc0.weight", "x"}, SAME, 0, 2, DDP_OK, DDP_OK},
    {{M "fc0.weight"}, {M "fc0.weight"}, SAME, 0, 1, DDP_OK, DDP_OK},
    {{M M "fc0.weight", M "x"}, {M "fc0.weight", "x"}, STRIP, 1, 2, DDP_E_PREFIX, DDP_OK},
    {{M "fc0.weight", "x"}, {M M "fc0.weight", M "x"}, ADD, 1, 2, DDP_E_PREFIX, DDP_OK},
    {{M "w", "w"}, {M "w", "w"}, SAME, 0, 2, DDP_OK, DDP_OK},
    /* some keys with, some without */
    {{M "a", "b"}, {"a", "b"}, MIXED, 0, 1, DDP_E_PREFIX, DDP_E_PREFIX},
    {{M "a", "b"}, {M "a", M "b"}, MIXED, 0, 1, DDP_E_PREFIX, DDP_E_PREFIX},
    {{M M "a", M "b"}, {"a", "b"}, MIXED, 1, 1, DDP_E_PREFIX, DDP_E_PREFIX},
    /* two keys for one parameter */
    {{M "w", "w"}, {"w"}, AMBIGUOUS, 0, 1, DDP_E_PREFIX, DDP_E_PREFIX},
    {{M "w", "w", "b"}, {M "w", "b"}, AMBIGUOUS, 0, 2, DDP_E_PREFIX, DDP_E_PREFIX},
    /* two readings match equally many */
    {{M "w"}, {"w", M "w"}, AMBIGUOUS, 0, 1, DDP_E_PREFIX, DDP_E_PREFIX},
    /* missing, unexpected, nothing in common */
    {{"a"}, {"a", "b"}, UNRELATED, 0, 1, DDP_E_KEYS, DDP_E_KEYS},
    {{"a", "b", "c"}, {"a", "b"}, UNRELATED, 0, 2, DDP_E_KEYS, DDP_E_KEYS},
    {{M "a", M "c"}, {"a", "b"}, UNRELATED, 1, 1, DDP_E_KEYS, DDP_E_KEYS},
    {{NULL}, {"a"}, UNRELATED, 0, 0, DDP_E_KEYS, DDP_E_KEYS},
    {{"a"}, {NULL}, UNRELATED, 0, 0, DDP_E_KEYS, DDP_E_KEYS},
    {{"modulex.a"}, {"x.a"}, UNRELATED, 0, 0, DDP_E_KEYS, DDP_E_KEYS},
    {{M}, {"a"}, UNRELATED, 0, 0, DDP_E_KEYS, DDP_E_KEYS},
};

static size_t key_count(const char *const *keys)
{
    size_t count = 0;

    while (count < KEYS_MAX && keys[count] != NULL) {
        count++;
    }
    return count;
}

static void fill(struct ddp_state_dict *dict, const char *const *keys)
{
    const uint64_t shape[1] = {0};

    ddp_state_dict_init(dict, ddp_mem_system());
    for (size_t i = 0; i < key_count(keys); i++) {
        CT_REQUIRE_OK(ddp_state_dict_add(dict, keys[i], DDP_DTYPE_F32, 1, shape, NULL));
    }
}

static void check_resolve(const struct prefix_case *row, size_t number,
                          enum ddp_prefix_policy policy, ddp_status expected_status)
{
    struct ddp_state_dict dict;
    struct ddp_err err = {""};
    ddp_status status;

    fill(&dict, row->keys);
    status = ddp_state_dict_resolve(&dict, row->expected, key_count(row->expected), policy, &err);
    if (status != expected_status) {
        CT_FAIL("case %zu: %s, not %s", number, ddp_status_name(status),
                ddp_status_name(expected_status));
    }
    CT_CHECK((status == DDP_OK) == (err.text[0] == '\0'));
    for (size_t i = 0; i < dict.entry_count; i++) {
        if (status == DDP_OK) {
            CT_CHECK(ddp_state_dict_find(&dict, row->expected[i]) != NULL);
        } else {
            CT_CHECK_STR(dict.entries[i].name, row->keys[i]);
        }
    }
    ddp_state_dict_fini(&dict);
}

/* Each case is classified as its row says, and resolving renames all keys or changes nothing. */
CT_TEST(prefix, table)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct prefix_case *row = &cases[i];
        struct ddp_prefix_finding finding;
        struct ddp_state_dict dict;

        fill(&dict, row->keys);
        ddp_prefix_analyse(&dict, row->expected, key_count(row->expected), &finding);
        if (finding.relation != row->relation || finding.depth != row->depth ||
            finding.matched_count != row->matched_count) {
            CT_FAIL("case %zu: relation %d depth %u matched %zu", i, (int)finding.relation,
                    finding.depth, finding.matched_count);
        }
        CT_CHECK_EQ_U64(finding.matched_count + finding.missing_count, key_count(row->expected));
        CT_CHECK_EQ_U64(finding.matched_count + finding.unexpected_count, key_count(row->keys));
        ddp_state_dict_fini(&dict);
        check_resolve(row, i, DDP_PREFIX_POLICY_EXACT, row->exact);
        check_resolve(row, i, DDP_PREFIX_POLICY_AUTO, row->automatic);
    }
}

/* The error says what a strip would achieve, and names missing and unexpected keys. */
CT_TEST(prefix, errors_say_what_would_help)
{
    const char *const wrapped[KEYS_MAX] = {M "a", M "b"};
    const char *const expected[] = {"a", "b"};
    const char *const longer[] = {"a", "c"};
    struct ddp_state_dict dict;
    struct ddp_err err = {""};

    fill(&dict, wrapped);
    CT_CHECK_STATUS(ddp_state_dict_resolve(&dict, expected, 2, DDP_PREFIX_POLICY_EXACT, &err),
                    DDP_E_PREFIX);
    CT_CHECK(strstr(err.text, "stripping \"module.\" 1 time would match 2/2") != NULL);
    CT_CHECK_STATUS(ddp_state_dict_resolve(&dict, longer, 2, DDP_PREFIX_POLICY_AUTO, &err),
                    DDP_E_KEYS);
    CT_CHECK(strstr(err.text, "1 missing \"c\"") != NULL);
    CT_CHECK(strstr(err.text, "1 unexpected \"module.b\"") != NULL);
    ddp_state_dict_fini(&dict);
}

/* Adding the prefix and resolving gives the original names back, in order. */
CT_TEST(prefix, round_trip)
{
    const char *const keys[KEYS_MAX] = {"fc0.weight", "fc0.bias", "module.x"};
    struct ddp_state_dict dict;
    struct ddp_err err = {""};

    fill(&dict, keys);
    CT_REQUIRE_OK(ddp_state_dict_add_prefix(&dict, "module."));
    CT_CHECK_STR(dict.entries[0].name, "module.fc0.weight");
    CT_REQUIRE_OK(ddp_state_dict_resolve(&dict, keys, 3, DDP_PREFIX_POLICY_AUTO, &err));
    for (size_t i = 0; i < 3; i++) {
        CT_CHECK_STR(dict.entries[i].name, keys[i]);
    }
    ddp_state_dict_fini(&dict);
}
