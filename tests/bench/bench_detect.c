/* How fast real processes start, and how fast a fault in one of four is named: milliseconds from
 * the firing of the fault (recorded by the rank itself) to the monitor's conclusion. Prints median
 * and worst of N runs, in each of which another rank is the culprit; a run that names the wrong
 * rank or the wrong verdict is a failure.
 *
 *     bench_detect RANK_PROGRAM [RUNS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/proc/proc.h"
#include "harness/scenario/scenario.h"

enum { RANKS = 4, RUNS_MAX = 1000 };

struct bench_row {
    const char *name;
    const char *fault; /* YAML, rank %u */
    enum harness_verdict verdict;
    double target_ms;
};

static const struct bench_row rows[] = {
    {"start-up to first step", NULL, HARNESS_VERDICT_NONE, 30},
    {"dead rank named",
     "{at: {rank: %u, step: 5, bucket: 1}, point: collective/enqueue, do: {kill: SIGKILL}}",
     HARNESS_VERDICT_CRASH_SIGNALED, 5},
    {"stopped rank named",
     "{at: {rank: %u, step: 5, bucket: 1}, point: collective/enqueue, do: {stop: forever}}",
     HARNESS_VERDICT_HANG_STOPPED, 100},
    {"skipped collective named",
     "{at: {rank: %u, step: 5, bucket: 1}, point: collective/pre, do: {skip: true}}",
     HARNESS_VERDICT_MISMATCH_MISSING, 100},
    {"wrong count named",
     "{at: {rank: %u, step: 5, bucket: 1}, point: collective/pre, do: {arg: count, value: 8}}",
     HARNESS_VERDICT_MISMATCH_COUNT, 100}};

static const char plan_text[] =
    "# Detection latency.\n"
    "id: bench.detect\n"
    "job: {ranks: 4, steps: 8, model: mlp, widths: [64, 32, 32, 10], data: digits, "
    "batch_per_rank: 8, bucket_cap_kb: 1, bucket_order: reverse, optimizer: {kind: sgd, lr: 0.05}, "
    "seed: 7, semantics: strict}\n"
    "%s%s\n"
    "expect: {verdict: NONE}\n";

struct bench {
    struct ddp_mem *mem;
    const char *rank_program;
    char dir[64], plan_path[96];
    struct ddp_err err;
};

static void make_text(const struct bench_row *row, uint32_t rank, char *out, size_t size)
{
    char fault[256] = "";

    if (row->fault != NULL) {
        /* The rows are literals of this file; %u is the culprit. */
        const char *at = strstr(row->fault, "%u");

        (void)snprintf(fault, sizeof(fault), "%.*s%u%s", (int)(at - row->fault), row->fault, rank,
                       at + 2);
    }
    (void)snprintf(out, size, plan_text, row->fault != NULL ? "faults:\n  - " : "", fault);
}

static uint64_t first_step_ns(const struct harness_trace *trace)
{
    size_t cursor = 0;
    const struct harness_trace_event *event;

    while ((event = harness_trace_next(trace, &cursor, -1, DDP_EVENT_PHASE)) != NULL) {
        if (event->entry.arg[0] == DDP_PHASE_DATA) {
            return event->entry.time_ns;
        }
    }
    return UINT64_MAX;
}

/* Milliseconds, or -1 with a message if the run did not go as the row says. */
static double judge(const struct bench_row *row, uint32_t rank, const struct harness_trace *trace)
{
    const struct harness_finding *first = trace->diagnoses.items;
    uint32_t count;

    if (row->verdict == HARNESS_VERDICT_NONE && trace->diagnoses.count == 0) {
        return (double)(first_step_ns(trace) - trace->start_ns) / 1e6;
    }
    if (trace->diagnoses.count == 0 || first->verdict != row->verdict ||
        !harness_rank_set_has(&first->culprits, rank) ||
        harness_rank_set_count(&first->culprits) != 1) {
        (void)printf("%s, rank %u: %s\n", row->name, rank,
                     trace->diagnoses.count == 0 ? "nothing was found" : first->text);
        return -1.0;
    }
    return (double)(trace->diagnosis_time_ns[0] - harness_trace_fired_ns(trace, 0, &count)) / 1e6;
}

static ddp_status run_plan(struct bench *bench, const struct harness_plan *plan,
                           struct harness_trace *trace)
{
    struct harness_launch_config config = {.plan = plan,
                                           .self_path = bench->rank_program,
                                           .plan_path = bench->plan_path,
                                           .linger_ns = 20 * DDP_NS_PER_MS};
    struct harness_program program = {.mem = bench->mem};
    struct ref_model_tables tables;
    struct harness_tables model;
    struct ref_job job;
    ddp_status status;

    DDP_TRY(harness_rank_job(plan, &job, &bench->err));
    DDP_TRY(ref_model_describe(bench->mem, &job.model, &tables, &bench->err));
    model = (struct harness_tables){
        tables.params, tables.param_count, tables.buffers,         tables.buffer_count, NULL,
        NULL,          tables.batch_norms, tables.batch_norm_count};
    status = harness_program_build(bench->mem, plan, &model, NULL, &program);
    config.program = &program;
    config.rank.run_dir = bench->dir;
    config.rank.is_hashing = true;
    if (status == DDP_OK) {
        status = harness_proc_driver()->run(bench->mem, &config, trace, &bench->err);
        harness_program_fini(&program);
    }
    ddp_mem_free(bench->mem, tables.params);
    return status;
}

static double run_once(struct bench *bench, const struct bench_row *row, uint32_t rank)
{
    struct harness_scenario scenario;
    struct harness_trace trace;
    char text[1024];
    double ms = -1.0;

    make_text(row, rank, text, sizeof(text));
    if (ddp_files_write_atomic(ddp_files_system(), bench->plan_path, text, strlen(text),
                               &bench->err) != DDP_OK ||
        harness_scenario_parse(text, strlen(text), bench->plan_path, NULL, 0, &scenario,
                               &bench->err) != DDP_OK) {
        (void)printf("%s\n", bench->err.text);
        return ms;
    }
    if (run_plan(bench, &scenario.plans[0], &trace) == DDP_OK) {
        ms = judge(row, rank, &trace);
    } else {
        (void)printf("%s\n", bench->err.text);
    }
    harness_trace_fini(&trace);
    harness_scenario_fini(&scenario);
    return ms;
}

static int compare(const void *a, const void *b)
{
    const double *x = (const double *)a;
    const double *y = (const double *)b;

    return *x < *y ? -1 : *x > *y;
}

int main(int argc, char **argv)
{
    struct bench bench = {.mem = ddp_mem_system(),
                          .rank_program = argc > 1 ? argv[1] : BENCH_RANK_PATH};
    int runs = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 20;
    int failures = 0;
    static double ms[RUNS_MAX];

    (void)snprintf(bench.dir, sizeof(bench.dir), "/tmp/ddprove-bench-XXXXXX");
    if (runs < 1 || runs > RUNS_MAX || mkdtemp(bench.dir) == NULL) {
        (void)fprintf(stderr, "usage: bench_detect [RANK_PROGRAM [RUNS <= %d]]\n", RUNS_MAX);
        return 2;
    }
    (void)snprintf(bench.plan_path, sizeof(bench.plan_path), "%s/plan.yaml", bench.dir);
    (void)printf("%-26s %10s %10s %10s   ms, %d runs\n", "", "median", "worst", "target", runs);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int good = 0;

        for (int run = 0; run < runs; run++) {
            double once = run_once(&bench, &rows[i], (uint32_t)run % RANKS);

            if (once >= 0) {
                ms[good++] = once;
            }
        }
        failures += runs - good;
        qsort(ms, (size_t)good, sizeof(ms[0]), compare);
        if (good > 0) {
            (void)printf("%-26s %10.3f %10.3f %10.0f\n", rows[i].name, ms[good / 2], ms[good - 1],
                         rows[i].target_ms);
        }
    }
    failures += ddp_files_remove_tree(bench.dir, NULL) == DDP_OK ? 0 : 1;
    return failures == 0 ? 0 : 1;
}
