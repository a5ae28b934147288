/* Parameters without a gradient, and keys of checkpoints, as ranks report them. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/observed/fake_report.h"

static void tell(struct fake_report *fake, uint32_t rank, const char *const *names, uint32_t count,
                 uint32_t first)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t arg[GUEST_ARG_COUNT] = {first + i};

        CT_REQUIRE(strlen(names[i]) < GUEST_NAME_BYTES);
        memcpy(&arg[1], names[i], strlen(names[i]));
        fake_report(&fake->job, rank, GUEST_EVENT_NAME, arg);
    }
}

static void pass(struct fake_report *fake, uint32_t rank, const char *const *names, uint32_t count,
                 bool is_allowed)
{
    tell(fake, rank, names, count, 0);
    fake_report(&fake->job, rank, GUEST_EVENT_UNUSED,
                (const uint64_t[GUEST_ARG_COUNT]){0, count, is_allowed});
}

static const char *const two[] = {"fc1.bias", "fc1.weight"};

/* --- gradients --- */

CT_TEST(usage, a_good_pass)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    for (uint32_t r = 0; r < 2; r++) {
        pass(&fake, r, NULL, 0, false);
        pass(&fake, r, two, 2, true);
    }
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_USAGE, 4, "");
    fake_close(&fake);
}

/* Who waits for the rank is not waited for. */
CT_TEST(usage, one_rank_gets_no_gradient)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    for (uint32_t r = 0; r < 2; r++) {
        pass(&fake, r, NULL, 0, false);
        fake_step(&fake.job, r, 3);
    }
    pass(&fake, 1, two, 2, false);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0); /* rank 0 may come to the same */
    fake_post(&fake.job, 0, 0, 10, 1);
    fake_wait(&fake.job, 0, 0, 0, 1);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_expect(&fake, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, "1", 3,
                "no gradient for fc1.bias and 1 more, and find_unused_parameters is off");
    CT_CHECK_EQ_U64(fake.job.findings.items[0].params.count, 2);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1); /* once */
    fake_close(&fake);
}

/* The same on all ranks is one finding. */
CT_TEST(usage, no_rank_gets_a_gradient)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    fake_step(&fake.job, 0, 5);
    fake_step(&fake.job, 1, 5);
    pass(&fake, 0, two, 2, false);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    pass(&fake, 1, two, 2, false);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_expect(&fake, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, "0,1", 5, "rank 0,1: no gradient");
    fake_close(&fake);
}

/* A rank that has ended reports nothing more. */
CT_TEST(usage, a_rank_that_is_gone_is_not_waited_for)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    pass(&fake, 0, two, 1, false);
    fake_state(&fake.job, 1, HARNESS_WATCH_EXITED, 1);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_expect(&fake, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, "0", 0, "no gradient for fc1.bias,");
    fake_close(&fake);
}

/* Nor is one that waits behind a call which the ranks posted differently. */
CT_TEST(usage, who_is_led_astray_is_not_waited_for)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    pass(&fake, 1, two, 2, false);
    fake_post(&fake.job, 1, 0, 8, 0); /* in place of the bucket */
    fake_wait(&fake.job, 0, 0, 0, fake_post(&fake.job, 0, 0, 10, 1));
    fake_look(&fake.job, 0);
    fake.job.findings.count = 0;
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_close(&fake);
}

CT_TEST(usage, names_that_are_lost_are_not_judged)
{
    struct fake_report fake;

    fake_open(&fake, 1);
    tell(&fake, 0, two, 1, 0);
    fake_report(&fake.job, 0, GUEST_EVENT_UNUSED, (const uint64_t[GUEST_ARG_COUNT]){0, 2, 0});
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_USAGE, 0,
                 "the names of parameters were overwritten before they were read");
    fake_close(&fake);
}

/* --- keys --- */

static const char *const bare[] = {"fc.weight", "fc.bias", "bn.mean"};
static const char *const wrapped[] = {"module.fc.bias", "module.fc.weight", "module.bn.mean"};
static const char *const doubled[] = {"module.module.fc.bias", "module.module.fc.weight",
                                      "module.module.bn.mean"};
static const char *const fewer[] = {"fc.weight", "fc.bias"};
static const char *const others[] = {"fc.weight", "fc.bias", "bn.mean", "head.weight"};
static const char *const foreign[] = {"a", "b", "c"};

static void keys(struct fake_report *fake, uint32_t rank, enum ddprove_guest_keys_of what,
                 const char *const *held, uint32_t held_count, const char *const *wanted,
                 uint32_t wanted_count)
{
    tell(fake, rank, held, held_count, 0);
    tell(fake, rank, wanted, wanted_count, held_count);
    fake_report(&fake->job, rank, GUEST_EVENT_KEYS,
                (const uint64_t[GUEST_ARG_COUNT]){what, held_count, wanted_count});
}

/* The model's keys, with the wrapper's prefix or without. */
CT_TEST(keys, good_ones)
{
    struct fake_report fake;

    fake_open(&fake, 1);
    keys(&fake, 0, DDPROVE_GUEST_SAVED, bare, 3, bare, 3);
    keys(&fake, 0, DDPROVE_GUEST_SAVED, wrapped, 3, bare, 3);
    keys(&fake, 0, DDPROVE_GUEST_LOADED, bare, 3, bare, 3);
    keys(&fake, 0, DDPROVE_GUEST_LOADED, wrapped, 3, wrapped, 3);
    keys(&fake, 0, DDPROVE_GUEST_LOADED_PART, fewer, 2, bare, 3);
    /* A model whose only part is called module. */
    keys(&fake, 0, DDPROVE_GUEST_SAVED, wrapped, 3, wrapped, 3);
    keys(&fake, 0, DDPROVE_GUEST_SAVED, doubled, 3, wrapped, 3);
    keys(&fake, 0, DDPROVE_GUEST_LOADED, doubled, 3, doubled, 3);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_CHECKPOINT, 8, "");
    keys(&fake, 0, DDPROVE_GUEST_SAVED, foreign, 3, bare, 3);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_CHECKPOINT, 8,
                 "the keys of a state dict are not the model's, or were not read");
    fake_close(&fake);
}

struct bad_keys {
    enum ddprove_guest_keys_of what;
    const char *const *held;
    uint32_t held_count;
    const char *const *wanted;
    enum harness_verdict verdict;
    const char *words;
};

CT_TEST(keys, bad_ones)
{
    static const struct bad_keys rows[] = {
        {DDPROVE_GUEST_SAVED, doubled, 3, bare, HARNESS_VERDICT_CHECKPOINT_PREFIX,
         "rank 1 saves keys with module.module. in front of the model's names"},
        {DDPROVE_GUEST_SAVED, bare, 3, wrapped, HARNESS_VERDICT_CHECKPOINT_PREFIX,
         "rank 1 saves keys with no prefix"},
        {DDPROVE_GUEST_LOADED, bare, 3, wrapped, HARNESS_VERDICT_CHECKPOINT_PREFIX,
         "with no prefix in front of the model's names, and the module that they are loaded into "
         "has them with module."},
        {DDPROVE_GUEST_LOADED_PART, wrapped, 3, bare, HARNESS_VERDICT_CHECKPOINT_PREFIX,
         "loads keys with module. in front"},
        {DDPROVE_GUEST_SAVED, fewer, 2, bare, HARNESS_VERDICT_CHECKPOINT_KEYS,
         "bn.mean is missing"},
        {DDPROVE_GUEST_LOADED, fewer, 2, bare, HARNESS_VERDICT_CHECKPOINT_KEYS,
         "bn.mean is missing"},
        {DDPROVE_GUEST_SAVED, others, 4, bare, HARNESS_VERDICT_CHECKPOINT_KEYS,
         "head.weight is none of it"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fake_report fake;

        fake_open(&fake, 2);
        fake_step(&fake.job, 1, 7);
        keys(&fake, 1, rows[i].what, rows[i].held, rows[i].held_count, rows[i].wanted, 3);
        CT_CHECK_EQ_U64(fake_judge(&fake), rows[i].what == DDPROVE_GUEST_SAVED);
        fake.job.now_ns += UINT64_C(4000000000); /* rank 0 does not come to it */
        CT_CHECK_EQ_U64(fake_judge(&fake), 1);
        fake_expect(&fake, rows[i].verdict, "1", 7, rows[i].words);
        fake_close(&fake);
    }
}

/* All ranks load the same, one after the other: one finding. */
CT_TEST(keys, of_several_ranks)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    keys(&fake, 1, DDPROVE_GUEST_LOADED, bare, 3, wrapped, 3);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    keys(&fake, 0, DDPROVE_GUEST_LOADED, bare, 3, wrapped, 3);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_expect(&fake, HARNESS_VERDICT_CHECKPOINT_PREFIX, "0,1", 0, "no prefix");
    fake_close(&fake);
}
