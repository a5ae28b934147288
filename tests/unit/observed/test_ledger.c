/* Samples that ranks report, counted. */
#include "tests/ct.h"
#include "tests/unit/observed/fake_report.h"

enum { ANY = DDPROVE_GUEST_ANY_SAMPLER, STRIDED = DDPROVE_GUEST_STRIDED, UNEVEN = 1 << 8 };

static void begin(struct fake_report *fake, uint64_t samples, uint64_t padded, uint64_t dropped,
                  uint64_t rule)
{
    fake_open(fake, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_epoch(fake, r, 0, samples, padded, dropped, rule);
    }
}

static void end(struct fake_report *fake)
{
    fake_epoch_end(fake, 0);
    fake_epoch_end(fake, 1);
}

CT_TEST(ledger, a_good_epoch)
{
    struct fake_report fake;

    begin(&fake, 8, 0, 0, STRIDED);
    for (uint32_t s = 0; s < 2; s++) {
        fake_batch(&fake, 0, s, 4 * (uint64_t)s, 2, 2);
        fake_batch(&fake, 1, s, 4 * (uint64_t)s + 1, 2, 2);
        CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    }
    end(&fake);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 2, "");
    fake_close(&fake);
}

/* The last batches are filled up; a sample may be left out. */
CT_TEST(ledger, padded_and_dropped)
{
    struct fake_report fake;

    begin(&fake, 3, 1, 0, STRIDED);
    fake_batch(&fake, 0, 0, 0, 2, 2);
    fake_batch(&fake, 1, 0, 1, 2, 1);
    fake_batch(&fake, 1, 0, 0, 2, 1); /* sample 3 of 3 is the first again */
    end(&fake);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1); /* batches of 2 and 1 */
    fake_close(&fake);

    begin(&fake, 5, 0, 1, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 2);
    fake_batch(&fake, 1, 0, 2, 1, 2);
    end(&fake);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_close(&fake);
}

/* Only who used them is known: both are named. */
CT_TEST(ledger, a_sample_is_used_by_two)
{
    struct fake_report fake;

    begin(&fake, 8, 0, 0, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 2);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_batch(&fake, 1, 0, 1, 1, 2);
    (void)fake_judge(&fake);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_DATA_DUPLICATED, "0,1", 0,
                "epoch 0: rank 1 used sample 1 in step 0, after rank 0 had, where 0 may be");
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 0, "epochs that were broken off, or with an error");
    fake_close(&fake);
}

/* Where the sampler's rule is known, the one who broke it. */
CT_TEST(ledger, another_ranks_sample)
{
    struct fake_report fake;

    begin(&fake, 8, 0, 0, STRIDED);
    fake_batch(&fake, 0, 0, 1, 2, 2);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0); /* rank 1 may be wrong, too */
    fake_batch(&fake, 1, 0, 1, 2, 2);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_DATA_DUPLICATED, "0", 0,
                "rank 0 used sample 1, where 0 was due, which is another rank's");
    fake_close(&fake);
}

CT_TEST(ledger, its_own_sample_out_of_order)
{
    struct fake_report fake;

    begin(&fake, 8, 0, 0, STRIDED);
    fake_batch(&fake, 0, 0, 0, 2, 2);
    fake_batch(&fake, 1, 0, 5, 2, 2);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_DATA_ORDER, "1", 0,
                "rank 1 used sample 5, where 1 was due, which is its own, out of order");
    fake_close(&fake);
}

/* A short batch shifts what follows: it is what is said. */
CT_TEST(ledger, a_short_batch)
{
    struct fake_report fake;

    begin(&fake, 16, 0, 0, STRIDED);
    fake_batch(&fake, 0, 0, 0, 2, 2);
    fake_batch(&fake, 1, 0, 1, 2, 1);
    fake_batch(&fake, 0, 1, 4, 2, 2);
    fake_batch(&fake, 1, 1, 5, 2, 2);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_DATA_BATCH, "0,1", 0,
                "rank 0 used 2 samples in step 0, rank 1 used 1 samples in step 0");
    fake_close(&fake);
}

CT_TEST(ledger, an_early_end)
{
    struct fake_report fake;

    begin(&fake, 8, 0, 8, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 2);
    fake_batch(&fake, 1, 0, 2, 1, 2);
    fake_batch(&fake, 0, 1, 4, 1, 2);
    end(&fake);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_DATA_UNEVEN, "0,1", 0,
                "rank 0 used 2 batches, rank 1 used 1 batches");
    fake_close(&fake);

    begin(&fake, 8, 0, 8, ANY | UNEVEN);
    fake_batch(&fake, 0, 0, 0, 1, 3);
    fake_batch(&fake, 1, 0, 4, 1, 2);
    fake_batch(&fake, 0, 1, 6, 1, 2);
    end(&fake);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_close(&fake);
}

CT_TEST(ledger, a_sample_is_never_used)
{
    struct fake_report fake;

    begin(&fake, 5, 0, 0, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 2);
    fake_batch(&fake, 1, 0, 3, 1, 2);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    end(&fake);
    (void)fake_judge(&fake);
    fake_expect(&fake, HARNESS_VERDICT_DATA_MISSING, "0,1", 0,
                "1 of 5 samples were used by no rank, where 0 may be left out; the first one is 2");
    fake_close(&fake);
}

/* A job that ends inside an epoch owes nothing. */
CT_TEST(ledger, an_epoch_that_is_broken_off)
{
    struct fake_report fake;

    begin(&fake, 5, 0, 0, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 2);
    fake_batch(&fake, 1, 0, 3, 1, 2);
    fake_detach(&fake.job, 0);
    fake_detach(&fake.job, 1);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 1, "epochs that were broken off, or with an error");
    fake_close(&fake);
}

CT_TEST(ledger, that_makes_no_sense)
{
    static const char why[] =
        "what the program reports of its samples makes no sense, or they are too many";
    struct fake_report fake;

    begin(&fake, 5, 0, 0, ANY);
    fake_batch(&fake, 0, 0, 4, 1, 2); /* sample 5 of 5 */
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 0, why);
    fake_close(&fake);

    fake_open(&fake, 2);
    fake_batch(&fake, 0, 0, 0, 1, 2); /* of no epoch */
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 0, why);
    fake_close(&fake);

    begin(&fake, UINT64_MAX, 0, 0, ANY);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 0, why);
    fake_close(&fake);

    begin(&fake, 4, 0, 0, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 2);
    fake_batch(&fake, 1, 0, 2, 1, 2);
    end(&fake);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_epoch(&fake, 0, 0, 4, 0, 0, ANY); /* the same one again */
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 1, why);
    fake_close(&fake);
}

/* A rank has come to its end, and the other one goes on: it need not come to its own. */
CT_TEST(ledger, a_rank_ends_early)
{
    struct fake_report fake;

    begin(&fake, 12, 0, 0, ANY);
    for (uint32_t s = 0; s < 2; s++) {
        fake_batch(&fake, 0, s, 2 * (uint64_t)s, 1, 2);
        fake_batch(&fake, 1, s, 6 + 2 * (uint64_t)s, 1, 2);
    }
    fake_epoch_end(&fake, 1);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0); /* so may rank 0 */
    fake_batch(&fake, 0, 2, 4, 1, 2);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_expect(&fake, HARNESS_VERDICT_DATA_UNEVEN, "1", 1, "rank 0 used 3 batches, rank 1 used 2");
    fake_close(&fake);
}

/* One that goes on where all are due to end is the wrong one. */
CT_TEST(ledger, a_rank_ends_late)
{
    struct fake_report fake;

    begin(&fake, 5, 1, 0, ANY);
    fake_batch(&fake, 0, 0, 0, 1, 3);
    fake_batch(&fake, 1, 0, 2, 1, 3);
    fake_epoch_end(&fake, 0);
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_batch(&fake, 1, 1, 2, 1, 0);
    fake_batch(&fake, 1, 2, 2, 1, 0);
    CT_CHECK_EQ_U64(fake_judge(&fake), 1);
    fake_expect(&fake, HARNESS_VERDICT_DATA_UNEVEN, "0,1", 0, "rank 0 used 1 batches");
    fake_close(&fake);
}

/* What is broken off is asked for nothing, on whatever rank. */
CT_TEST(ledger, an_epoch_that_is_said_to_be_broken_off)
{
    struct fake_report fake;

    begin(&fake, 12, 0, 0, ANY);
    for (uint32_t r = 0; r < 2; r++) {
        fake_batch(&fake, r, 0, 6 * (uint64_t)r, 1, 2);
    }
    fake_report(&fake.job, 0, GUEST_EVENT_EPOCH_END, (const uint64_t[GUEST_ARG_COUNT]){1});
    fake_batch(&fake, 1, 1, 8, 1, 2);
    fake_report(&fake.job, 1, GUEST_EVENT_EPOCH_END, (const uint64_t[GUEST_ARG_COUNT]){1});
    CT_CHECK_EQ_U64(fake_judge(&fake), 0);
    fake_account(&fake, HARNESS_ORACLE_LEDGER, 1, "epochs that were broken off, or with an error");
    fake_close(&fake);
}
