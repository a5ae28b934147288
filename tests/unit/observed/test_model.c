/* Models that ranks report, compared. */
#include "tests/ct.h"
#include "tests/unit/observed/fake_report.h"

enum { TABLE = 3 };

static void open_with_tables(struct fake_report *fake, uint32_t world_size)
{
    fake_open(fake, world_size);
    for (uint32_t r = 0; r < world_size; r++) {
        fake_table(fake, r, TABLE);
    }
}

/* All ranks report an update, alike. */
static void update_all(struct fake_report *fake, uint32_t world_size, uint32_t step)
{
    for (uint32_t r = 0; r < world_size; r++) {
        fake_update(fake, r, step, step);
    }
}

CT_TEST(replicas, that_are_equal)
{
    struct fake_report fake;

    open_with_tables(&fake, 3);
    for (uint32_t s = 0; s < 5; s++) {
        update_all(&fake, 3, s);
        CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    }
    fake_account(&fake, HARNESS_ORACLE_REPLICAS, 5, "");
    fake_account(&fake, HARNESS_ORACLE_UPDATE, 0, "no update's data were kept");
    fake_close(&fake);
}

CT_TEST(replicas, nobody_reports_a_model)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_REPLICAS, 0, "the program reports no parameters");
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 0, "the program reports no samples");
    fake_close(&fake);
}

/* Said once; the updates behind it would only repeat it. */
CT_TEST(replicas, one_differs)
{
    struct fake_report fake;

    open_with_tables(&fake, 3);
    update_all(&fake, 3, 0);
    fake_update(&fake, 0, 1, 8);
    fake_update(&fake, 1, 1, 9);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0); /* rank 2 is to come */
    fake_update(&fake, 2, 1, 8);
    update_all(&fake, 3, 2);
    (void)fake_judge(&fake);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_VALUE_DIVERGED, "1", 1,
                "after update 2, in step 1, t1 of ranks 0,2 and of rank 1 are not the same");
    fake_account(&fake, HARNESS_ORACLE_REPLICAS, 2,
                 "updates not reported by all ranks, or behind an error");
    fake_close(&fake);
}

CT_TEST(replicas, of_two_camps_both_are_named)
{
    struct fake_report fake;

    open_with_tables(&fake, 4);
    update_all(&fake, 4, 0);
    for (uint32_t r = 0; r < 4; r++) {
        fake_update(&fake, r, 1, r % 2);
    }
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_VALUE_DIVERGED, "0,1,2,3", 1, "who is right cannot be told");
    fake_close(&fake);
}

/* What one rank posted before another one's report may be read after it: what differs is said in
 * the next look, or when there is none. */
CT_TEST(replicas, that_differ_are_looked_at_again)
{
    for (int is_ended = 0; is_ended < 2; is_ended++) {
        struct fake_report fake;

        open_with_tables(&fake, 3);
        for (uint32_t r = 0; r < 3; r++) {
            fake_update(&fake, r, 0, r == 2);
        }
        CT_CHECK_EQ_U64(fake_judge_once(&fake), 0);
        if (is_ended) {
            harness_observed_end(fake.observed);
        }
        CT_CHECK_EQ_U64(fake_judge_once(&fake), 1);
        fake_close(&fake);
    }
}

/* As long as it is not known who of the ranks has posted a wrong call, what came of it waits. */
CT_TEST(replicas, that_differ_behind_an_open_question)
{
    for (int is_ended = 0; is_ended < 2; is_ended++) {
        struct fake_report fake;

        open_with_tables(&fake, 2);
        update_all(&fake, 2, 0);
        CT_CHECK_EQ_U64(fake_judge(&fake), 0);
        fake_update(&fake, 0, 1, 1);
        fake_update(&fake, 1, 1, 2);
        fake.job.watch.groups[0].differs_ns = fake.job.now_ns;
        CT_CHECK_EQ_U64(fake_judge(&fake), 0);
        if (is_ended) {
            harness_observed_end(fake.observed);
        } else {
            fake.job.watch.groups[0].is_wrong = true; /* it is known */
        }
        CT_CHECK_EQ_U64(fake_judge_once(&fake), 1);
        fake_account(&fake, HARNESS_ORACLE_REPLICAS, 2, "");
        fake_close(&fake);
    }
}

/* All three parameters, as they are told. */
static void show(struct fake_report *fake, uint32_t rank, uint32_t step, uint64_t a, uint64_t b,
                 uint64_t c)
{
    struct guest_page *page = guest_arena_page(fake->job.arena.head, rank);
    const uint64_t hashes[TABLE] = {a, b, c};

    fake_step(&fake->job, rank, step);
    for (uint32_t i = 0; i < TABLE; i++) {
        fake_report(&fake->job, rank, GUEST_EVENT_STATE,
                    (const uint64_t[GUEST_ARG_COUNT]){i, GUEST_PART_DATA, hashes[i]});
    }
    fake_report(&fake->job, rank, GUEST_EVENT_UPDATED,
                (const uint64_t[GUEST_ARG_COUNT]){++page->update_count, TABLE});
}

/* A rank whose parameters are what they were left the update out, if all of the others' have moved;
 * where some have, or one alone was changed behind an update of nothing, nobody can say that. */
CT_TEST(replicas, of_which_one_stood_still)
{
    static const struct {
        uint64_t of_0[TABLE], of_1[TABLE];
        enum harness_verdict verdict;
        const char *ranks, *words;
    } cases[] = {
        {{11, 12, 13}, {1, 2, 3}, HARNESS_VERDICT_VALUE_STALE, "1", "it left the update out"},
        {{1, 2, 3}, {11, 12, 13}, HARNESS_VERDICT_VALUE_STALE, "0", "in step 1"},
        {{1, 2, 13}, {1, 2, 3}, HARNESS_VERDICT_VALUE_DIVERGED, "0,1", "cannot be told"},
        {{11, 12, 3}, {1, 2, 3}, HARNESS_VERDICT_VALUE_DIVERGED, "0,1", "cannot be told"},
        {{11, 12, 13}, {11, 12, 14}, HARNESS_VERDICT_VALUE_DIVERGED, "0,1", "cannot be told"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake_report fake;

        open_with_tables(&fake, 2);
        for (uint32_t r = 0; r < 2; r++) {
            const uint64_t *then = r == 0 ? cases[i].of_0 : cases[i].of_1;

            show(&fake, r, 0, 1, 2, 3);
            show(&fake, r, 1, then[0], then[1], then[2]);
        }
        (void)fake_judge(&fake);
        fake_expect(&fake, cases[i].verdict, cases[i].ranks, 1, cases[i].words);
        fake_close(&fake);
    }
}

CT_TEST(replicas, that_begin_differently)
{
    struct fake_report fake;

    open_with_tables(&fake, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_update(&fake, r, 0, r == 2);
    }
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_MISMATCH_MODEL, "2", 0, "t1 of ranks 0,1 and of rank 2");
    fake_close(&fake);
}

CT_TEST(replicas, of_other_tensors)
{
    struct fake_report fake;

    fake_open(&fake, 3);
    for (uint32_t r = 0; r < 3; r++) {
        struct guest_page *page = guest_arena_page(fake.job.arena.head, r);

        fake_table(&fake, r, r == 1 ? 2 : TABLE);
        fake_report(&fake.job, r, GUEST_EVENT_UPDATED,
                    (const uint64_t[GUEST_ARG_COUNT]){++page->update_count, r == 1 ? 2 : TABLE});
    }
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_MISMATCH_MODEL, "1", 0,
                "rank 1's model has 2 tensors; rank 0's has 3, number 2 is t2 of 10 elements");
    fake_close(&fake);
}

CT_TEST(replicas, an_update_is_left_out)
{
    struct fake_report fake;

    open_with_tables(&fake, 3);
    update_all(&fake, 3, 0);
    fake_update(&fake, 0, 1, 1);
    fake_update(&fake, 1, 2, 2);
    fake_update(&fake, 2, 1, 1);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_VALUE_STALE, "1", 1, "rank 1 left one out");
    fake_close(&fake);
}

CT_TEST(replicas, an_update_too_many)
{
    struct fake_report fake;

    open_with_tables(&fake, 3);
    update_all(&fake, 3, 0);
    fake_update(&fake, 2, 0, 0);
    fake_update(&fake, 0, 1, 1);
    fake_update(&fake, 1, 1, 1);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_VALUE_DUPLICATED, "2", 0, "rank 2 made one too many");
    fake_close(&fake);
}

/* A call that was not the same on all ranks, or a result that was not, is the cause. */
CT_TEST(replicas, differ_for_a_reason)
{
    static const enum harness_verdict causes[] = {HARNESS_VERDICT_MISMATCH_COUNT,
                                                  HARNESS_VERDICT_VALUE_DIVERGED};

    for (size_t i = 0; i < 2; i++) {
        struct fake_report fake;
        struct harness_finding cause;

        open_with_tables(&fake, 3);
        update_all(&fake, 3, 0);
        for (uint32_t r = 0; r < 3; r++) {
            fake_update(&fake, r, 1, r);
        }
        harness_finding_init(&cause, fake.earlier.mem, causes[i], HARNESS_ORACLE_REDUCTION,
                             HARNESS_MODE_BITWISE);
        cause.step = 1;
        harness_findings_add(&fake.earlier, &cause);
        CT_CHECK_EQ_U64(fake_judge(&fake), 0);
        fake_close(&fake);
    }
}

/* What came later, or made equal results wrong, is none. */
CT_TEST(replicas, differ_for_no_reason)
{
    static const struct {
        enum harness_verdict verdict;
        int32_t step;
    } others[] = {{HARNESS_VERDICT_MISMATCH_COUNT, 2}, {HARNESS_VERDICT_VALUE_LOST, 1}};

    for (size_t i = 0; i < 2; i++) {
        struct fake_report fake;
        struct harness_finding other;

        open_with_tables(&fake, 3);
        update_all(&fake, 3, 0);
        for (uint32_t r = 0; r < 3; r++) {
            fake_update(&fake, r, 1, r == 1);
        }
        harness_finding_init(&other, fake.earlier.mem, others[i].verdict, HARNESS_ORACLE_REDUCTION,
                             HARNESS_MODE_BITWISE);
        other.step = others[i].step;
        harness_findings_add(&fake.earlier, &other);
        CT_CHECK_EQ_U64(fake_judge(&fake), 1);
        fake_close(&fake);
    }
}

/* Whatever a program writes there, nothing breaks, and nothing is believed. */
CT_TEST(replicas, that_make_no_sense)
{
    static const uint64_t entries[][1 + GUEST_ARG_COUNT] = {
        {GUEST_EVENT_STATE, 0, 0, 0, 0, 0},           {GUEST_EVENT_UPDATED, 1, 3, 0, 0, 0},
        {GUEST_EVENT_TENSOR, 0, 0, 0, 0, UINT64_MAX}, {GUEST_EVENT_TENSOR, 5, 0, 0, 0, 5},
        {GUEST_EVENT_TENSOR_NAME, 7, 0, 0, 0, 0},     {GUEST_EVENT_OPTION, 0, 0, 0, 0, 0},
    };

    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        struct fake_report fake;

        fake_open(&fake, 2);
        fake_report(&fake.job, 0, (enum guest_event)entries[i][0], &entries[i][1]);
        fake_table(&fake, 0, TABLE);
        fake_table(&fake, 1, TABLE);
        update_all(&fake, 2, 0);
        CT_CHECK_EQ_U64(fake_judge(&fake), 0);
        fake_account(&fake, HARNESS_ORACLE_REPLICAS, 0,
                     "what the program reports of its model makes no sense");
        fake_close(&fake);
    }
}

/* Of a model on a device that shows none of its tensors. */
CT_TEST(replicas, of_no_tensors)
{
    struct fake_report fake;

    fake_open(&fake, 2);
    for (uint64_t update = 1; update <= 3; update++) {
        fake_report(&fake.job, 0, GUEST_EVENT_UPDATED, (const uint64_t[]){update, 0, 0, 0, 0});
        fake_report(&fake.job, 1, GUEST_EVENT_UPDATED, (const uint64_t[]){update, 0, 0, 0, 0});
    }
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_REPLICAS, 0, "the program reports no parameters");
    fake_close(&fake);
}

/* Entries that were overwritten before they were read: nothing is compared. */
CT_TEST(replicas, of_which_reports_are_lost)
{
    struct fake_report fake;

    open_with_tables(&fake, 2);
    update_all(&fake, 2, 0);
    fake_update(&fake, 0, 1, 1);
    fake_update(&fake, 1, 1, 2);
    fake.job.watch.ranks[0].lost_count = 1;
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_close(&fake);
}
