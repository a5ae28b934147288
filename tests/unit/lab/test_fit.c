/* alpha, beta and gamma from times. */
#include <math.h>
#include <string.h>

#include "harness/lab/bench.h"
#include "tests/ct.h"

enum { ROWS = 6, ELEMS_PER_MIB = (1 << 20) / 4 };

/* Times that the model explains: of a ring of 4 ranks, and of recursive doubling. */
static void fill(struct harness_bench_report *report, struct harness_bench_subject *subjects,
                 double alpha, double beta, double gamma)
{
    memset(subjects, 0, 2 * sizeof *subjects);
    *report = (struct harness_bench_report){.ranks = 4, .subjects = subjects, .subject_count = 2};
    for (int s = 0; s < 2; s++) {
        subjects[s].kind = DDP_COLL_ALL_REDUCE;
        subjects[s].is_schedule = true;
        subjects[s].row_count = ROWS;
        for (int k = 0; k < ROWS; k++) {
            double n = 256 * pow(8, k);
            struct harness_bench_terms *terms = &subjects[s].terms[k];

            *terms = s == 0 ? (struct harness_bench_terms){6, 1.5 * n, 0.75 * n}
                            : (struct harness_bench_terms){2, 2 * n, 2 * n};
            subjects[s].row[k].time[HARNESS_BENCH_APART].median_us =
                alpha * terms->rounds + beta * terms->transfers + gamma * terms->additions;
        }
    }
}

static void check_near(double value, double expected)
{
    CT_CHECK(fabs(value - expected) <= 1e-6 * expected);
}

CT_TEST(fit, what_made_the_times_is_found)
{
    static struct harness_bench_subject subjects[2];
    struct harness_bench_report report;

    fill(&report, subjects, 0.5, 3e-4, 1e-4);
    harness_bench_fit(&report);
    CT_REQUIRE(report.fit.is_known);
    check_near(report.fit.alpha_us, 0.5);
    check_near(report.fit.beta_us_per_mib, 3e-4 * ELEMS_PER_MIB);
    check_near(report.fit.gamma_us_per_mib, 1e-4 * ELEMS_PER_MIB);
    CT_CHECK(report.fit.error < 1e-6);
    check_near(subjects[1].row[3].predicted_us,
               subjects[1].row[3].time[HARNESS_BENCH_APART].median_us);
}

CT_TEST(fit, nothing_is_negative)
{
    static struct harness_bench_subject subjects[2];
    struct harness_bench_report report;

    fill(&report, subjects, 0.5, 3e-4, 0);
    /* The one that adds more is faster than its messages alone: gamma would have to be negative. */
    for (int k = 0; k < ROWS; k++) {
        subjects[1].row[k].time[HARNESS_BENCH_APART].median_us *= 0.5;
    }
    harness_bench_fit(&report);
    CT_REQUIRE(report.fit.is_known);
    CT_CHECK(report.fit.alpha_us >= 0 && report.fit.beta_us_per_mib >= 0 &&
             report.fit.gamma_us_per_mib >= 0);
    CT_CHECK(report.fit.error > 0.01);
}

CT_TEST(fit, too_little_says_nothing)
{
    static struct harness_bench_subject subjects[2];
    struct harness_bench_report report;

    fill(&report, subjects, 0.5, 3e-4, 1e-4);
    report.subject_count = 1;
    subjects[0].row_count = 3;
    harness_bench_fit(&report);
    CT_CHECK(!report.fit.is_known);
    CT_CHECK(!(subjects[0].row[0].predicted_us > 0));
}

CT_TEST(fit, what_has_no_schedules_is_left_out)
{
    static struct harness_bench_subject subjects[2];
    struct harness_bench_report report;

    fill(&report, subjects, 0.5, 3e-4, 1e-4);
    subjects[1].is_schedule = false;
    memset(subjects[1].terms, 0, sizeof subjects[1].terms);
    harness_bench_fit(&report);
    CT_REQUIRE(report.fit.is_known);
    CT_CHECK(!(subjects[1].row[0].predicted_us > 0));
    CT_CHECK(report.fit.error < 1e-6);
}
