/* Purpose: alpha, beta and gamma of this machine, from the times of all algorithms and sizes.
 * Idea: a time is rounds * alpha + transfers * beta + additions * gamma. Least squares of the
 * relative errors, so that small sizes count as much as large ones; none of the three may be
 * negative, so every subset of them is tried, and the best that is possible is taken. */
#include <math.h>
#include <stdlib.h>

#include "harness/lab/bench.h"

enum { TERMS = 3, ELEMS_PER_MIB = (1 << 20) / 4, ROWS_MIN = 4 };

struct sums {
    double product[TERMS][TERMS];
    double value[TERMS];
    size_t count;
};

static void terms_of(const struct harness_bench_terms *terms, double *out)
{
    out[0] = terms->rounds;
    out[1] = terms->transfers;
    out[2] = terms->additions;
}

static bool is_fitted(const struct harness_bench_subject *subject)
{
    return subject->is_schedule && subject->kind != DDP_COLL_BARRIER;
}

static void add_row(struct sums *sums, const struct harness_bench_terms *terms, double time_us)
{
    double x[TERMS] = {0};

    if (!(time_us > 0)) {
        return;
    }
    terms_of(terms, x);
    for (int i = 0; i < TERMS; i++) {
        for (int k = 0; k < TERMS; k++) {
            sums->product[i][k] += x[i] * x[k] / (time_us * time_us);
        }
        sums->value[i] += x[i] / time_us;
    }
    sums->count++;
}

/* Clears column i of all other rows by the row with the largest number in it, which comes to place
 * i. False: none is larger than `least`. */
static bool eliminate(double a[TERMS][TERMS + 1], int n, int i, double least)
{
    int best = i;

    for (int r = i + 1; r < n; r++) {
        best = fabs(a[r][i]) > fabs(a[best][i]) ? r : best;
    }
    if (!(fabs(a[best][i]) > least)) {
        return false;
    }
    for (int k = 0; k <= n; k++) {
        double swapped = a[i][k];

        a[i][k] = a[best][k];
        a[best][k] = swapped;
    }
    for (int r = 0; r < n; r++) {
        double factor = a[r][i] / a[i][i];

        for (int k = i; r != i && k <= n; k++) {
            a[r][k] -= factor * a[i][k];
        }
    }
    return true;
}

/* Gauss with the largest pivot, of the unknowns in `mask`. False: they cannot be told apart. */
static bool solve(const struct sums *sums, unsigned mask, double *out)
{
    double a[TERMS][TERMS + 1] = {{0}};
    int unknown[TERMS];
    int n = 0;

    for (int i = 0; i < TERMS; i++) {
        out[i] = 0;
        if ((mask >> i & 1u) != 0) {
            unknown[n++] = i;
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < n; k++) {
            a[i][k] = sums->product[unknown[i]][unknown[k]];
        }
        a[i][n] = sums->value[unknown[i]];
    }
    for (int i = 0; i < n; i++) {
        if (!eliminate(a, n, i, 1e-9 * fabs(sums->product[unknown[i]][unknown[i]]))) {
            return false;
        }
    }
    for (int i = 0; i < n; i++) {
        out[unknown[i]] = a[i][n] / a[i][i];
    }
    return true;
}

/* Sum of squares of the relative errors, but for what is the same for all solutions. */
static double misfit(const struct sums *sums, const double *x)
{
    double result = (double)sums->count;

    for (int i = 0; i < TERMS; i++) {
        result -= 2 * x[i] * sums->value[i];
        for (int k = 0; k < TERMS; k++) {
            result += x[i] * x[k] * sums->product[i][k];
        }
    }
    return result;
}

static bool fit(const struct sums *sums, double *best)
{
    double least = HUGE_VAL;

    for (unsigned mask = 1; mask < 1u << TERMS; mask++) {
        double x[TERMS] = {0};

        if (solve(sums, mask, x) && x[0] >= 0 && x[1] >= 0 && x[2] >= 0 &&
            misfit(sums, x) < least) {
            least = misfit(sums, x);
            for (int i = 0; i < TERMS; i++) {
                best[i] = x[i];
            }
        }
    }
    return least < HUGE_VAL;
}

static int compare_f64(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

static void predict(struct harness_bench_report *report, const double *x)
{
    static double error[HARNESS_BENCH_SUBJECTS_MAX * HARNESS_BENCH_SIZES_MAX];
    size_t count = 0;

    for (size_t i = 0; i < report->subject_count; i++) {
        struct harness_bench_subject *subject = &report->subjects[i];

        for (size_t k = 0; is_fitted(subject) && k < subject->row_count; k++) {
            struct harness_bench_row *row = &subject->row[k];
            double terms[TERMS];

            terms_of(&subject->terms[k], terms);
            row->predicted_us = terms[0] * x[0] + terms[1] * x[1] + terms[2] * x[2];
            error[count++] = fabs(row->predicted_us / row->time[HARNESS_BENCH_APART].median_us - 1);
        }
    }
    qsort(error, count, sizeof error[0], compare_f64);
    report->fit.error = count > 0 ? error[count / 2] : 0;
}

void harness_bench_fit(struct harness_bench_report *report)
{
    struct sums sums = {{{0}}, {0}, 0};
    double x[TERMS] = {0};

    for (size_t i = 0; i < report->subject_count; i++) {
        const struct harness_bench_subject *subject = &report->subjects[i];

        for (size_t k = 0; is_fitted(subject) && k < subject->row_count; k++) {
            add_row(&sums, &subject->terms[k], subject->row[k].time[HARNESS_BENCH_APART].median_us);
        }
    }
    if (sums.count < ROWS_MIN || !fit(&sums, x)) {
        return;
    }
    report->fit = (struct harness_bench_fit){.is_known = true,
                                             .alpha_us = x[0],
                                             .beta_us_per_mib = x[1] * ELEMS_PER_MIB,
                                             .gamma_us_per_mib = x[2] * ELEMS_PER_MIB};
    predict(report, x);
}
