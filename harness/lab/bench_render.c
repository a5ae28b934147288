/* Purpose: a report as text, JSON and a picture.
 * Idea: the table is that of nccl-tests, so that what reads one reads the other; behind it stands
 * what is not there: what the times come to by the cost model, and which algorithm is ahead where.
 */
#include <math.h>
#include <string.h>

#include "harness/lab/bench.h"

/* --- table ------------------------------------------------------------------------------------ */

/* A barrier leaves nothing behind. */
static bool is_compared(const struct harness_bench_report *report,
                        const struct harness_bench_subject *subject)
{
    return report->is_checked && subject->kind != DDP_COLL_BARRIER;
}

static void print_time(bool is_compared, const struct harness_bench_time *time,
                       struct ddp_text *out)
{
    ddp_text_add(out, " %9.2f %7.2f %7.2f ", time->median_us, time->alg_gbps, time->bus_gbps);
    if (is_compared) {
        ddp_text_add(out, "%7llu", (unsigned long long)time->wrong);
    } else {
        ddp_text_add(out, "%7s", "N/A");
    }
}

static const char *root_of(enum ddp_coll_kind kind)
{
    return ddp_coll_kind_has_root(kind) ? "0" : "-1";
}

static void print_rows(const struct harness_bench_report *report,
                       const struct harness_bench_subject *subject, struct ddp_text *out)
{
    for (size_t k = 0; k < subject->row_count; k++) {
        const struct harness_bench_row *row = &subject->row[k];

        ddp_text_add(out, "%12zu %12zu %8s %6s %5s", row->size_bytes, row->elem_count, "float",
                     ddp_coll_kind_is_sum(subject->kind) ? "sum" : "none", root_of(subject->kind));
        print_time(is_compared(report, subject), &row->time[HARNESS_BENCH_APART], out);
        print_time(is_compared(report, subject), &row->time[HARNESS_BENCH_IN_PLACE], out);
        if (row->choice.algorithm != DDP_ALGORITHM_NONE) {
            ddp_text_add(out, "  # %s", ddp_algorithm_name(row->choice.algorithm));
        }
        if (row->choice.segment_bytes > 0) {
            ddp_text_add(out, " in messages of %zu", row->choice.segment_bytes);
        }
        ddp_text_add(out, "\n");
    }
}

static void print_wrong(const struct harness_bench_subject *subject, struct ddp_text *out)
{
    for (size_t k = 0; k < subject->row_count; k++) {
        for (unsigned mode = 0; mode < HARNESS_BENCH_MODES; mode++) {
            const struct harness_bench_time *time = &subject->row[k].time[mode];

            if (time->wrong > 0) {
                ddp_text_add(out, "# wrong: %zu bytes%s, rank %u from element %llu on\n",
                             subject->row[k].size_bytes,
                             mode == HARNESS_BENCH_IN_PLACE ? " in place" : "", time->wrong_rank,
                             (unsigned long long)time->wrong_elem);
                return;
            }
        }
    }
}

static void print_subject(const struct harness_bench_report *report,
                          const struct harness_bench_subject *subject, struct ddp_text *out)
{
    double bus = 0;
    uint64_t wrong = 0;

    ddp_text_add(out, "# %s (%s)%s\n", subject->name, ddp_coll_kind_name(subject->kind),
                 !is_compared(report, subject) ? ""
                 : subject->is_bitwise         ? ", every bit of every iteration compared"
                                               : ", every iteration within what rounding allows");
    if (subject->text[0] != '\0') {
        ddp_text_add(out, "# not measured: %s\n", subject->text);
        return;
    }
    ddp_text_add(out, "#%11s %12s %8s %6s %5s %9s %7s %7s %8s %9s %7s %7s %7s\n", "size", "count",
                 "type", "redop", "root", "time", "algbw", "busbw", "#wrong ", "time", "algbw",
                 "busbw", "#wrong");
    ddp_text_add(out, "#%11s %12s %8s %6s %5s %9s %7s %7s %8s %9s %7s %7s\n", "(B)", "(elements)",
                 "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)");
    print_rows(report, subject, out);
    print_wrong(subject, out);
    for (size_t k = 0; k < subject->row_count; k++) {
        for (unsigned mode = 0; mode < HARNESS_BENCH_MODES; mode++) {
            bus += subject->row[k].time[mode].bus_gbps;
            wrong += subject->row[k].time[mode].wrong;
        }
    }
    if (is_compared(report, subject)) {
        ddp_text_add(out, "# Out of bounds values : %llu %s\n", (unsigned long long)wrong,
                     wrong == 0 ? "OK" : "FAILED");
    }
    if (subject->row_count > 0) {
        ddp_text_add(out, "# Avg bus bandwidth    : %g\n",
                     bus / (double)(HARNESS_BENCH_MODES * subject->row_count));
    }
}

/* --- who is ahead ----------------------------------------------------------------------------- */

static bool is_rival(const struct harness_bench_subject *subject)
{
    return subject->kind == DDP_COLL_ALL_REDUCE && subject->row_count > 0 &&
           strcmp(subject->name, "copy") != 0 && strcmp(subject->name, "zero_copy") != 0;
}

/* By prediction or by measurement; NULL: nobody has that row. */
static const struct harness_bench_subject *ahead(const struct harness_bench_report *report,
                                                 size_t row, bool is_predicted)
{
    const struct harness_bench_subject *best = NULL;
    double least = HUGE_VAL;

    for (size_t i = 0; i < report->subject_count; i++) {
        const struct harness_bench_subject *subject = &report->subjects[i];
        double time;

        if (!is_rival(subject) || row >= subject->row_count) {
            continue;
        }
        time = is_predicted ? subject->row[row].predicted_us
                            : subject->row[row].time[HARNESS_BENCH_APART].median_us;
        if (time > 0 && time < least) {
            least = time;
            best = subject;
        }
    }
    return best;
}

static void print_ahead(const struct harness_bench_report *report, bool is_predicted,
                        struct ddp_text *out)
{
    const struct harness_bench_subject *before = NULL;
    size_t rows = 0;

    for (size_t i = 0; i < report->subject_count; i++) {
        rows = report->subjects[i].row_count > rows ? report->subjects[i].row_count : rows;
    }
    ddp_text_add(out, "# ahead, %-10s:", is_predicted ? "predicted" : "measured");
    for (size_t row = 0; row < rows; row++) {
        const struct harness_bench_subject *best = ahead(report, row, is_predicted);

        if (best != NULL && best != before) {
            ddp_text_add(out, "%s %s from %zu", before == NULL ? "" : ",", best->name,
                         best->row[row].size_bytes);
            before = best;
        }
    }
    ddp_text_add(out, "\n");
}

static void print_fit(const struct harness_bench_report *report, struct ddp_text *out)
{
    const struct harness_bench_fit *fit = &report->fit;
    size_t rivals = 0;

    for (size_t i = 0; i < report->subject_count; i++) {
        rivals += is_rival(&report->subjects[i]) ? 1 : 0;
    }
    if (fit->is_known) {
        ddp_text_add(out,
                     "# fit of all: a message takes alpha = %.2f us, a MiB sent beta = %.1f us, a "
                     "MiB added gamma = %.1f us; off by %.0f %% in the middle\n",
                     fit->alpha_us, fit->beta_us_per_mib, fit->gamma_us_per_mib, 100 * fit->error);
    }
    if (rivals > 1) {
        print_ahead(report, false, out);
        if (fit->is_known) {
            print_ahead(report, true, out);
        }
    }
}

void harness_bench_print(const struct harness_bench_report *report, struct ddp_text *out)
{
    ddp_text_add(out,
                 "# %u ranks, %s, %u iterations a size; time: the median of them, each "
                 "as long as its slowest rank's; out-of-place, then in-place\n",
                 report->ranks, report->is_tcp ? "TCP" : "shared memory", report->iters);
    for (size_t i = 0; i < report->subject_count; i++) {
        print_subject(report, &report->subjects[i], out);
    }
    print_fit(report, out);
}

/* --- JSON ------------------------------------------------------------------------------------- */

static json_t *time_json(bool is_compared, const struct harness_bench_time *time)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:o}", "median_us", time->median_us, "mean_us",
                     time->mean_us, "min_us", time->least_us, "algbw_gbps", time->alg_gbps,
                     "busbw_gbps", time->bus_gbps, "wrong",
                     is_compared ? json_integer((json_int_t)time->wrong) : json_null());
}

static json_t *subject_json(const struct harness_bench_report *report,
                            const struct harness_bench_subject *subject)
{
    json_t *rows = json_array();

    for (size_t k = 0; k < subject->row_count; k++) {
        const struct harness_bench_row *row = &subject->row[k];

        (void)json_array_append_new(
            rows,
            json_pack("{s:I, s:I, s:o, s:o, s:o, s:s, s:I}", "size", (json_int_t)row->size_bytes,
                      "count", (json_int_t)row->elem_count, "out_of_place",
                      time_json(is_compared(report, subject), &row->time[HARNESS_BENCH_APART]),
                      "in_place",
                      time_json(is_compared(report, subject), &row->time[HARNESS_BENCH_IN_PLACE]),
                      "predicted_us",
                      row->predicted_us > 0 ? json_real(row->predicted_us) : json_null(),
                      "algorithm",
                      row->choice.algorithm != DDP_ALGORITHM_NONE
                          ? ddp_algorithm_name(row->choice.algorithm)
                          : subject->name,
                      "segment", (json_int_t)row->choice.segment_bytes));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", subject->name, "kind",
                     ddp_coll_kind_name(subject->kind), "checked",
                     !is_compared(report, subject) ? "no"
                     : subject->is_bitwise         ? "bits"
                                                   : "bound",
                     "error", subject->text, "rows", rows);
}

json_t *harness_bench_json(const struct harness_bench_report *report)
{
    const struct harness_bench_fit *fit = &report->fit;
    json_t *subjects = json_array();
    json_t *fitted = fit->is_known
                         ? json_pack("{s:f, s:f, s:f, s:f}", "alpha_us", fit->alpha_us,
                                     "beta_us_per_mib", fit->beta_us_per_mib, "gamma_us_per_mib",
                                     fit->gamma_us_per_mib, "median_error", fit->error)
                         : json_null();

    for (size_t i = 0; i < report->subject_count; i++) {
        (void)json_array_append_new(subjects, subject_json(report, &report->subjects[i]));
    }
    return json_pack("{s:s, s:s, s:i, s:i, s:s, s:o, s:o}", "schema", "ddprove.coll.bench/1",
                     "outcome", harness_outcome_name(harness_bench_outcome(report)), "ranks",
                     (int)report->ranks, "iterations", (int)report->iters, "transport",
                     report->is_tcp ? "tcp" : "shm", "fit", fitted, "algorithms", subjects);
}

/* --- picture ---------------------------------------------------------------------------------- */

enum { LEFT = 70, TOP = 20, WIDTH = 640, HEIGHT = 400, LEGEND = 180, COLOURS = 8 };

struct scale {
    double least, most; /* log10 */
};

static double along(const struct scale *scale, double value, double length)
{
    double range = scale->most - scale->least;

    return range > 0 ? (log10(value) - scale->least) / range * length : length / 2;
}

static void widen(struct scale *scale, double value)
{
    scale->least = log10(value) < scale->least ? log10(value) : scale->least;
    scale->most = log10(value) > scale->most ? log10(value) : scale->most;
}

static void add_axes(const struct scale *size, const struct scale *time, struct ddp_text *out)
{
    ddp_text_add(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                 "font-family=\"sans-serif\" font-size=\"12\">\n<title>time of a collective by "
                 "size</title>\n<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
                 "stroke=\"#999\"/>\n",
                 LEFT + WIDTH + LEGEND, TOP + HEIGHT + 50, LEFT, TOP, WIDTH, HEIGHT);
    for (int power = (int)floor(time->least); power <= (int)ceil(time->most); power++) {
        double y = TOP + HEIGHT - along(time, pow(10, power), HEIGHT);

        if (y >= TOP - 1 && y <= TOP + HEIGHT + 1) {
            ddp_text_add(out,
                         "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\" stroke=\"#ddd\"/>"
                         "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">%g us</text>\n",
                         LEFT, y, LEFT + WIDTH, y, LEFT - 6, y + 4, pow(10, power));
        }
    }
    for (int power = (int)ceil(size->least / log10(2)); power * log10(2) <= size->most + 1e-9;
         power += 2) {
        double x = LEFT + along(size, pow(2, power), WIDTH);

        ddp_text_add(out, "<text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">2^%d</text>\n", x,
                     TOP + HEIGHT + 18, power);
    }
    ddp_text_add(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">bytes</text>\n",
                 LEFT + WIDTH / 2, TOP + HEIGHT + 38);
}

static void add_line(const struct harness_bench_subject *subject, size_t number,
                     const struct scale *size, const struct scale *time, struct ddp_text *out)
{
    static const char *const colours[COLOURS] = {"#036", "#b30", "#373", "#939",
                                                 "#c80", "#088", "#555", "#06c"};
    const char *colour = colours[number % COLOURS];
    const char *dash = number < COLOURS ? "" : " stroke-dasharray=\"5 3\"";

    ddp_text_add(out, "<polyline fill=\"none\" stroke=\"%s\"%s points=\"", colour, dash);
    for (size_t k = 0; k < subject->row_count; k++) {
        ddp_text_add(out, "%.1f,%.1f ",
                     LEFT + along(size, (double)subject->row[k].size_bytes, WIDTH),
                     TOP + HEIGHT -
                         along(time, subject->row[k].time[HARNESS_BENCH_APART].median_us, HEIGHT));
    }
    ddp_text_add(out,
                 "\"/>\n<line x1=\"%d\" y1=\"%zu\" x2=\"%d\" y2=\"%zu\" stroke=\"%s\"%s/>"
                 "<text x=\"%d\" y=\"%zu\">%s</text>\n",
                 LEFT + WIDTH + 8, TOP + 8 + 16 * number, LEFT + WIDTH + 28, TOP + 8 + 16 * number,
                 colour, dash, LEFT + WIDTH + 34, TOP + 12 + 16 * number, subject->name);
}

void harness_bench_svg(const struct harness_bench_report *report, struct ddp_text *out)
{
    struct scale size = {HUGE_VAL, -HUGE_VAL};
    struct scale time = {HUGE_VAL, -HUGE_VAL};
    size_t number = 0;

    for (size_t i = 0; i < report->subject_count; i++) {
        for (size_t k = 0; k < report->subjects[i].row_count; k++) {
            const struct harness_bench_row *row = &report->subjects[i].row[k];

            if (row->size_bytes > 0 && row->time[HARNESS_BENCH_APART].median_us > 0) {
                widen(&size, (double)row->size_bytes);
                widen(&time, row->time[HARNESS_BENCH_APART].median_us);
            }
        }
    }
    if (size.least > size.most) {
        size = (struct scale){0, 1};
        time = (struct scale){0, 1};
    }
    add_axes(&size, &time, out);
    for (size_t i = 0; i < report->subject_count; i++) {
        const struct harness_bench_subject *subject = &report->subjects[i];

        if (subject->row_count > 0 && subject->kind != DDP_COLL_BARRIER) {
            add_line(subject, number++, &size, &time, out);
        }
    }
    ddp_text_add(out, "</svg>\n");
}
