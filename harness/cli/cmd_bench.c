/* ddprove coll bench: how long collectives take here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/schedule/algorithm.h"
#include "harness/cli/cli.h"
#include "harness/lab/bench.h"

/* nccl-tests has 32 MiB for both sizes; here small ones count as much. */
enum { RANKS = 2, MIN_BYTES = 1024, MAX_BYTES = 4 << 20, FACTOR = 4, ITERS = 20, WARMUP = 5 };

static void show_progress(void *context, const char *name, size_t done, size_t total)
{
    (void)context;
    (void)fprintf(stderr, "\r%zu/%zu %s\033[K", done, total, name);
    (void)fflush(stderr);
}

/* Without names: every all-reduce, and what it is compared with. */
static size_t choose_names(const struct cli_options *options, const char **names)
{
    size_t total;
    size_t count = 0;
    const struct ddp_algorithm *table = ddp_algorithm_table(&total);

    for (int i = 1; i < options->path_count && count < HARNESS_BENCH_SUBJECTS_MAX; i++) {
        names[count++] = options->paths[i];
    }
    if (count > 0) {
        return count;
    }
    for (size_t i = 0; i < total; i++) {
        if (table[i].kind == DDP_COLL_ALL_REDUCE) {
            names[count++] = table[i].name;
        }
    }
    names[count++] = "zero_copy";
    names[count++] = "copy";
    return count;
}

static int write_files(const struct cli_options *options, const struct harness_bench_report *report)
{
    struct ddp_text text;
    int code = 0;

    if (options->json != NULL) {
        code = cli_write_json("coll bench", options->json, harness_bench_json(report));
    }
    ddp_text_init(&text, ddp_mem_system());
    if (code == 0 && options->svg != NULL) {
        harness_bench_svg(report, &text);
        code = cli_write_text("coll bench", options->svg, &text);
    }
    ddp_text_fini(&text);
    return code;
}

int cli_coll_bench(const struct cli_options *options)
{
    const char *names[HARNESS_BENCH_SUBJECTS_MAX];
    const bool is_live = isatty(STDERR_FILENO) != 0;
    const struct cli_bench *given = &options->bench;
    const struct harness_bench_options asked = {
        .ranks = options->ranks > 0 ? (uint32_t)options->ranks : (uint32_t)RANKS,
        .min_bytes = given->min_bytes > 0 ? (size_t)given->min_bytes : (size_t)MIN_BYTES,
        .max_bytes = given->max_bytes > 0   ? (size_t)given->max_bytes
                     : given->min_bytes > 0 ? (size_t)given->min_bytes
                                            : (size_t)MAX_BYTES,
        .factor = given->factor > 0 ? (double)given->factor : (double)FACTOR,
        .iters = given->iters > 0 ? (uint32_t)given->iters : (uint32_t)ITERS,
        .warmup = given->has_warmup ? (uint32_t)given->warmup : (uint32_t)WARMUP,
        .is_checked = !given->is_unchecked,
        .segment_bytes = (size_t)options->segment,
        .names = names,
        .name_count = choose_names(options, names),
        .program = "/proc/self/exe",
        .progress = is_live ? show_progress : NULL};
    struct harness_bench_report report;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    ddp_status status = harness_bench_run(&asked, &report, &err);
    int code;

    if (is_live) {
        (void)fputs("\r\033[K", stderr);
    }
    if (status != DDP_OK) {
        code = cli_usage_error("coll bench: %s", err.text);
        harness_bench_fini(&report);
        return status == DDP_E_INVALID || status == DDP_E_NOT_FOUND
                   ? code
                   : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_bench_print(&report, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    code = write_files(options, &report);
    if (code == 0) {
        code = harness_outcome_exit_code(harness_bench_outcome(&report));
    }
    harness_bench_fini(&report);
    return code;
}
