/* A sum that is not the expected one: what it lacks, or has twice, is said of the rank whose it is.
 */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

enum { STEP = 2, BUCKET = 1, ELEMS_MAX = 65536 };

/* What the two ranks put into the bucket's sum, and how often rank 1 has each in what it gets. */
static struct {
    float data[ORACLE_JOB_RANKS][ELEMS_MAX];
    float times[ORACLE_JOB_RANKS];
    size_t elem_count; /* of what comes out, so many are added so */
} sum;

static void keep_input(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t count)
{
    if (step == STEP && bucket == BUCKET && count <= ELEMS_MAX) {
        memcpy(sum.data[rank], data, count * sizeof(float));
    }
}

static void add_otherwise(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t count)
{
    const bool is_it = rank == 1 && step == STEP && bucket == BUCKET;

    for (size_t i = 0; is_it && i < count && i < sum.elem_count; i++) {
        data[i] = sum.data[0][i] * sum.times[0] + sum.data[1][i] * sum.times[1];
    }
}

static void check(float times_0, float times_1, size_t elem_count, enum harness_verdict verdict,
                  const char *says)
{
    struct oracle_job job;
    const struct harness_finding *finding;

    sum.times[0] = times_0;
    sum.times[1] = times_1;
    sum.elem_count = elem_count;
    CT_REQUIRE(oracle_job_open(&job, false));
    job.hook.input = keep_input;
    job.hook.output = add_otherwise;
    job.is_keeping = true;
    CT_REQUIRE(oracle_job_run(&job));
    CT_REQUIRE(oracle_job_check(&job));
    finding = oracle_job_finding(&job, HARNESS_ORACLE_REDUCTION);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_STR(harness_verdict_name(finding->verdict), harness_verdict_name(verdict));
    CT_CHECK(strstr(finding->text, says) != NULL);
    oracle_job_close(&job);
}

CT_TEST(oracle_sum, a_rank_is_missing)
{
    check(0, 1, SIZE_MAX, HARNESS_VERDICT_VALUE_LOST, "the contribution of rank 0 not at all");
    check(1, 0, SIZE_MAX, HARNESS_VERDICT_VALUE_LOST, "the contribution of rank 1 not at all");
}

CT_TEST(oracle_sum, a_rank_is_in_it_twice)
{
    check(2, 1, SIZE_MAX, HARNESS_VERDICT_VALUE_DUPLICATED, "the contribution of rank 0 twice");
    check(1, 2, SIZE_MAX, HARNESS_VERDICT_VALUE_DUPLICATED, "the contribution of rank 1 twice");
}

CT_TEST(oracle_sum, a_part_of_it)
{
    check(0, 1, 7, HARNESS_VERDICT_VALUE_LOST,
          "rank 0 not at all, in elements 0 to 6 of the bucket");
    check(1, 2, 1, HARNESS_VERDICT_VALUE_DUPLICATED,
          "rank 1 twice, in elements 0 to 0 of the bucket");
}

/* What neither is, is said element by element. */
CT_TEST(oracle_sum, of_something_else)
{
    check(1.25f, 1, SIZE_MAX, HARNESS_VERDICT_VALUE_CORRUPTED, "fc0.bias differs in ");
}
