/* Results that are made of the right data in the wrong place. */
#include <stdlib.h>

#include "ddpcore/base/file.h"
#include "tests/ct.h"
#include "tests/unit/guest/results.h"

/* One element further is seen in what is looked at in every call; more is not. */
CT_TEST(results, a_contribution_that_has_moved)
{
    for (size_t i = 0; i < 4; i++) {
        struct trial trial =
            results_trial(i < 2 ? DDPROVE_GUEST_ALL_REDUCE : DDPROVE_GUEST_REDUCE,
                          i % 2 == 0 ? DDPROVE_GUEST_F32 : DDPROVE_GUEST_F64, 4, 1000);

        trial.who = 2;
        trial.shift = 1;
        results_expect(&trial, HARNESS_VERDICT_VALUE_SHIFTED, 1 << 2,
                       "rank 2's contribution lay one element further up");
        trial.shift = -1;
        results_expect(&trial, HARNESS_VERDICT_VALUE_SHIFTED, 1 << 2, "one element further down");
        trial.shift = 2;
        results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                       "do not tell the ranks apart");
        trial.shift = -1;
        trial.redop = DDPROVE_GUEST_AVG;
        trial.count = 20;
        results_expect(&trial, HARNESS_VERDICT_VALUE_SHIFTED, 1 << 2, "one element further down");
        trial.count = 2; /* in the middle of two there is none */
        results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                       "do not tell the ranks apart");
        trial.dtype = DDPROVE_GUEST_I32; /* a few small numbers say nothing */
        trial.redop = DDPROVE_GUEST_SUM;
        trial.count = 20;
        results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                       "do not tell the ranks apart");
    }
}

/* The first quarter of the sum is wrong in no way that anything explains. */
static void spoil_quarter(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    for (uint64_t i = 0; i < out_count / 4; i++) {
        results_put(trial->dtype, out, i,
                    results_get(trial->dtype, out, i) + 0.3 * (double)(i % 7 + 1));
    }
}

/* By how much a contribution has moved; not, where its movement changes nothing. */
CT_TEST(results, kept_and_moved)
{
    char folder[] = "/tmp/ddprove_results.XXXXXX";
    struct ddp_err err = {{0}};
    struct trial trial = results_sum(4);

    CT_REQUIRE(mkdtemp(folder) != NULL);
    trial.folder = folder;
    trial.who = 1;
    trial.shift = 7;
    results_expect(&trial, HARNESS_VERDICT_VALUE_SHIFTED, 1 << 1,
                   "rank 1's contribution 7 elements further up");
    trial.shift = -250; /* a quarter */
    trial.dtype = DDPROVE_GUEST_F64;
    results_expect(&trial, HARNESS_VERDICT_VALUE_SHIFTED, 1 << 1, "250 elements further down");
    trial.shift = 251;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL, "");
    trial.shift = 0;
    trial.is_constant = true;
    trial.tamper = spoil_quarter;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                   "do not tell the ranks apart");
    CT_CHECK(ddp_files_remove_tree(folder, &err) == DDP_OK);
}
