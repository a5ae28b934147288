/* Purpose: measure every subject at every size, one team of ranks a subject.
 * Idea: all teams share one mapping, so all get the same inputs. What a size should leave is worked
 * out between two sizes, while the ranks wait; of a subject without schedules it is not known, and
 * its sums are held against what any order of additions allows. */
#include "harness/lab/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/lab/data.h"
#include "harness/lab/team.h"
#include "harness/plugin/plugin.h"

enum { ELEM_BYTES = 4 };
#define TUNED "tuned" /* the name of what was learned */

struct bench {
    const struct harness_bench_options *options;
    struct harness_bench_report *report;
    struct harness_lab_team team;
    struct harness_coll_source *source; /* of the subject; NULL: it has no schedules */
    const char *mpirun;
    struct ddp_err *err;
};

/* --- what is measured ------------------------------------------------------------------------- */

static const struct {
    const char *name;
    enum harness_lab_engine_kind engine;
} yardsticks[] = {{"zero_copy", HARNESS_LAB_ZERO_COPY}, {"copy", HARNESS_LAB_COPY}};

/* What a plug-in with its own engine says of itself is read in a process of its own, as all of it:
 * E_NOT_FOUND: it is none. */
static ddp_status open_plugin(struct bench *bench, const char *path,
                              struct harness_lab_request *request,
                              struct harness_bench_subject *subject)
{
    struct harness_plugin_about about;
    ddp_status status = harness_plugin_describe(bench->options->program, path, &about, bench->err);

    if (status != DDP_OK) {
        return status;
    }
    (void)snprintf(subject->name, sizeof subject->name, "%s", about.name);
    (void)snprintf(request->path, sizeof request->path, "%s", path);
    subject->kind = (enum ddp_coll_kind)about.kind;
    if (about.is_opaque) {
        request->engine = HARNESS_LAB_OPAQUE;
        bench->mpirun = (about.needs & DDPROVE_COLL_BY_MPIRUN) != 0 ? "mpirun" : NULL;
        return DDP_OK;
    }
    if (subject->kind != DDP_COLL_ALL_REDUCE) {
        return ddp_err_set(bench->err, DDP_E_UNSUPPORTED,
                           "of schedules from plug-ins only all-reduces can be run, this is: %s",
                           ddp_coll_kind_name(subject->kind));
    }
    request->engine = HARNESS_LAB_SCHEDULE;
    return harness_coll_plugin_open(bench->options->program, path, &bench->source, bench->err);
}

static ddp_status open_subject(struct bench *bench, const char *name,
                               struct harness_lab_request *request,
                               struct harness_bench_subject *subject)
{
    (void)snprintf(subject->name, sizeof subject->name, "%s", name);
    for (size_t i = 0; i < sizeof yardsticks / sizeof yardsticks[0]; i++) {
        if (strcmp(name, yardsticks[i].name) == 0) {
            request->engine = yardsticks[i].engine;
            subject->kind = DDP_COLL_ALL_REDUCE;
            return DDP_OK;
        }
    }
    if (strcmp(name, TUNED) == 0) {
        request->engine = HARNESS_LAB_SCHEDULE;
        subject->kind = DDP_COLL_ALL_REDUCE;
        request->choice_count = bench->options->tuned->choice_count;
        memcpy(request->choice, bench->options->tuned->choice, sizeof request->choice);
        return DDP_OK;
    }
    if (strchr(name, '/') != NULL) {
        return open_plugin(bench, name, request, subject);
    }
    request->engine = HARNESS_LAB_SCHEDULE;
    DDP_TRY(harness_coll_builtin_open(name, &bench->source, bench->err));
    subject->kind = bench->source->kind;
    return ddp_algorithm_parse(name, subject->kind, &request->algorithm);
}

/* --- sizes ------------------------------------------------------------------------------------ */

static size_t blocks_of(enum ddp_coll_kind kind, uint32_t ranks)
{
    uint32_t in_blocks = ddp_coll_input_blocks(kind, ranks);
    uint32_t out_blocks = ddp_coll_output_blocks(kind, ranks, true);

    return in_blocks > out_blocks ? in_blocks : out_blocks;
}

/* Every size is a whole number of elements for each rank's block; none is met twice. */
static void choose_sizes(const struct harness_bench_options *options, enum ddp_coll_kind kind,
                         struct harness_lab_request *request, struct harness_bench_subject *subject)
{
    size_t blocks = blocks_of(kind, options->ranks);
    double bytes = (double)options->min_bytes;

    if (kind == DDP_COLL_BARRIER) {
        subject->row[subject->row_count++] = (struct harness_bench_row){0};
        request->size_count = 1;
        return;
    }
    while (bytes <= (double)options->max_bytes * (1 + 1e-9) &&
           subject->row_count < HARNESS_BENCH_SIZES_MAX) {
        size_t elems = (size_t)bytes / (size_t)ELEM_BYTES / blocks;
        size_t count = subject->row_count;

        if (elems > 0 && (count == 0 || subject->row[count - 1].elem_count < elems)) {
            subject->row[count].elem_count = elems;
            subject->row[count].size_bytes = elems * blocks * ELEM_BYTES;
            request->elem_count[subject->row_count++] = elems;
        }
        bytes *= options->factor;
    }
    request->size_count = subject->row_count;
}

/* --- times ------------------------------------------------------------------------------------ */

static int compare_u64(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* What all ranks together move through a link, by size and time: nccl-tests, PERFORMANCE.md. */
static double bus_factor(enum ddp_coll_kind kind, uint32_t ranks)
{
    double n = ranks;

    switch (kind) {
    case DDP_COLL_ALL_REDUCE:
        return 2 * (n - 1) / n;
    case DDP_COLL_ALL_GATHER:
    case DDP_COLL_REDUCE_SCATTER:
    case DDP_COLL_ALL_TO_ALL:
        return (n - 1) / n;
    default:
        return 1;
    }
}

static void take_times(const struct bench *bench, struct harness_bench_subject *subject,
                       size_t index, unsigned mode)
{
    static uint64_t slowest[HARNESS_LAB_ITERS_MAX];
    const struct harness_lab_shared *shared = bench->team.shared;
    struct harness_bench_row *row = &subject->row[index];
    struct harness_bench_time *time = &row->time[mode];
    uint32_t iters = shared->request.iters;
    uint32_t middle = iters / 2;
    double sum = 0;

    for (uint32_t i = 0; i < iters; i++) {
        slowest[i] = 0;
        for (uint32_t r = 0; r < shared->request.ranks; r++) {
            uint64_t ns = shared->slot[r].ns[mode][i];

            slowest[i] = ns > slowest[i] ? ns : slowest[i];
        }
        sum += (double)slowest[i];
    }
    qsort(slowest, iters, sizeof slowest[0], compare_u64);
    time->least_us = (double)slowest[0] / 1e3;
    time->median_us = (double)slowest[middle] / 1e3;
    time->mean_us = sum / iters / 1e3;
    time->alg_gbps = (double)row->size_bytes / time->median_us / 1e3;
    time->bus_gbps = time->alg_gbps * bus_factor(subject->kind, shared->request.ranks);
    for (uint32_t r = shared->request.ranks; r-- > 0;) {
        uint64_t wrong = shared->slot[r].wrong[index][mode];

        if (wrong > 0) {
            time->wrong_rank = r;
            time->wrong_elem = shared->slot[r].first_wrong[index][mode];
        }
        time->wrong += wrong;
    }
}

/* --- measure ---------------------------------------------------------------------------------- */

/* What was learned is another algorithm for another size. */
static ddp_status change_source(struct bench *bench, struct harness_bench_row *row)
{
    const struct harness_lab_request *request = &bench->team.shared->request;

    if (request->choice_count == 0) {
        return DDP_OK;
    }
    harness_coll_source_close(bench->source);
    bench->source = NULL;
    row->choice = harness_lab_choice(request, row->elem_count);
    return harness_coll_builtin_open(ddp_algorithm_name(row->choice.algorithm), &bench->source,
                                     bench->err);
}

static ddp_status measure_sizes(struct bench *bench, struct harness_bench_subject *subject)
{
    struct harness_lab_shared *shared = bench->team.shared;

    for (size_t index = 0; index < subject->row_count; index++) {
        DDP_TRY(change_source(bench, &subject->row[index]));
        for (unsigned mode = 0; mode < HARNESS_LAB_MODES; mode++) {
            uint32_t part = (uint32_t)(2 * index + mode + 1);

            if (shared->request.is_bitwise) {
                DDP_TRY(harness_lab_expect(shared, bench->source, subject->row[index].elem_count,
                                           mode == HARNESS_LAB_IN_PLACE, bench->err));
            }
            __atomic_store_n(&shared->ready, part, __ATOMIC_RELEASE);
            DDP_TRY(harness_lab_team_wait(&bench->team, part, bench->err));
            take_times(bench, subject, index, mode);
        }
    }
    return harness_lab_team_join(&bench->team, bench->err);
}

/* Of each size: what its schedules cost, in units of the model. */
static ddp_status weigh(struct bench *bench, struct harness_bench_subject *subject)
{
    for (size_t i = 0; i < subject->row_count; i++) {
        const struct harness_coll_case test =
            harness_lab_case(&bench->team.shared->request, subject->row[i].elem_count, false);
        struct harness_coll_cost cost;

        DDP_TRY(change_source(bench, &subject->row[i]));
        DDP_TRY(harness_coll_cost_at(bench->source, &test, &cost, bench->err));
        subject->terms[i] =
            (struct harness_bench_terms){cost.rounds, cost.transfers, cost.additions};
    }
    return DDP_OK;
}

static ddp_status measure_subject(struct bench *bench, const char *name,
                                  struct harness_bench_subject *subject)
{
    const struct harness_bench_options *options = bench->options;
    struct harness_lab_request *request = &bench->team.shared->request;
    ddp_status status;

    memset(request, 0, sizeof *request);
    bench->source = NULL;
    bench->mpirun = NULL;
    bench->err->text[0] = '\0';
    status = open_subject(bench, name, request, subject);
    if (status == DDP_OK) {
        subject->is_schedule = request->engine == HARNESS_LAB_SCHEDULE;
        request->kind = subject->kind;
        request->ranks = options->ranks;
        request->iters = options->iters;
        request->warmup = options->warmup;
        request->segment_bytes = options->segment_bytes;
        request->transport = options->is_tcp ? HARNESS_LAB_TCP : HARNESS_LAB_SHM;
        request->is_checked = options->is_checked;
        request->is_bitwise =
            options->is_checked && subject->is_schedule && subject->kind != DDP_COLL_BARRIER;
        subject->is_bitwise = request->is_bitwise;
        choose_sizes(options, subject->kind, request, subject);
        status = harness_lab_team_start(&bench->team, bench->mpirun, bench->err);
    }
    if (status == DDP_OK) {
        status = measure_sizes(bench, subject);
        harness_lab_team_end(&bench->team);
    }
    if (status == DDP_OK && subject->is_schedule && subject->kind != DDP_COLL_BARRIER) {
        status = weigh(bench, subject);
    }
    harness_coll_source_close(bench->source);
    if (status != DDP_OK && status != DDP_E_NOMEM) {
        (void)snprintf(subject->text, sizeof subject->text, "%.250s",
                       bench->err->text[0] != '\0' ? bench->err->text : ddp_status_text(status));
        subject->row_count = 0;
        return DDP_OK;
    }
    return status;
}

static ddp_status judge_options(const struct harness_bench_options *options, struct ddp_err *err)
{
    if (options->ranks < 1 || options->ranks > HARNESS_LAB_RANKS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "--ranks: 1 to %u can be measured",
                           HARNESS_LAB_RANKS_MAX);
    }
    if (options->min_bytes < ELEM_BYTES || options->min_bytes > options->max_bytes) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "-b is %zu and -e is %zu bytes; it must be 4 <= b <= e",
                           options->min_bytes, options->max_bytes);
    }
    if (options->iters < 1 || options->iters > HARNESS_LAB_ITERS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "-n: 1 to %u iterations can be measured",
                           HARNESS_LAB_ITERS_MAX);
    }
    return options->name_count <= HARNESS_BENCH_SUBJECTS_MAX
               ? DDP_OK
               : ddp_err_set(err, DDP_E_INVALID, "at most %u algorithms can be measured at once",
                             HARNESS_BENCH_SUBJECTS_MAX);
}

static bool is_no_algorithm(const char *name)
{
    if (strcmp(name, TUNED) == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof yardsticks / sizeof yardsticks[0]; i++) {
        if (strcmp(name, yardsticks[i].name) == 0) {
            return true;
        }
    }
    return false;
}

/* A name that is not known is said before anything is measured. */
static ddp_status judge_names(const struct harness_bench_options *options, struct ddp_err *err)
{
    for (size_t i = 0; i < options->name_count; i++) {
        struct harness_coll_source *source = NULL;

        if (strcmp(options->names[i], TUNED) == 0 && options->tuned == NULL) {
            return ddp_err_set(err, DDP_E_NOT_FOUND,
                               "nothing was learned for %u ranks; ddprove coll tune --ranks %u "
                               "learns it",
                               options->ranks, options->ranks);
        }
        if (strchr(options->names[i], '/') == NULL && !is_no_algorithm(options->names[i])) {
            DDP_TRY(harness_coll_builtin_open(options->names[i], &source, err));
            harness_coll_source_close(source);
        }
    }
    return DDP_OK;
}

ddp_status harness_bench_run(const struct harness_bench_options *options,
                             struct harness_bench_report *out, struct ddp_err *err)
{
    struct bench bench = {.options = options, .report = out, .err = err};
    ddp_status status;

    *out = (struct harness_bench_report){.ranks = options->ranks,
                                         .iters = options->iters,
                                         .is_checked = options->is_checked,
                                         .is_tcp = options->is_tcp};
    DDP_TRY(judge_options(options, err));
    DDP_TRY(judge_names(options, err));
    out->subjects =
        ddp_mem_array(ddp_mem_system(), options->name_count + 1, sizeof(*out->subjects));
    if (out->subjects == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory");
    }
    status = harness_lab_team_init(&bench.team, options->ranks, options->max_bytes, err);
    for (uint32_t r = 0; status == DDP_OK && r < options->ranks; r++) {
        harness_lab_fill(r, harness_lab_area(bench.team.shared, r, HARNESS_LAB_INPUT),
                         bench.team.shared->arena_bytes / ELEM_BYTES);
    }
    for (size_t i = 0; status == DDP_OK && i < options->name_count; i++) {
        if (options->progress != NULL) {
            options->progress(options->context, options->names[i], i, options->name_count);
        }
        status = measure_subject(&bench, options->names[i], &out->subjects[i]);
        out->subject_count = i + 1;
    }
    harness_lab_team_fini(&bench.team);
    if (status == DDP_OK) {
        harness_bench_fit(out);
    }
    return status;
}

void harness_bench_fini(struct harness_bench_report *report)
{
    ddp_mem_free(ddp_mem_system(), report->subjects);
    report->subjects = NULL;
}

enum harness_outcome harness_bench_outcome(const struct harness_bench_report *report)
{
    enum harness_outcome outcome = HARNESS_OUTCOME_PASS;

    for (size_t i = 0; i < report->subject_count; i++) {
        const struct harness_bench_subject *subject = &report->subjects[i];

        for (size_t k = 0; k < subject->row_count; k++) {
            for (unsigned mode = 0; mode < HARNESS_BENCH_MODES; mode++) {
                if (subject->row[k].time[mode].wrong > 0) {
                    return HARNESS_OUTCOME_FAIL;
                }
            }
        }
        outcome = subject->text[0] != '\0' ? HARNESS_OUTCOME_ERROR : outcome;
    }
    return outcome;
}
