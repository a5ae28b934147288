/* ddprove coll bench: how long collectives take here. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "ddpcore/collective/tuned.h"
#include "ddpcore/schedule/algorithm.h"
#include "harness/cli/cli.h"
#include "harness/lab/bench.h"

/* nccl-tests has 32 MiB for both sizes; here small ones count as much. */
enum {
    RANKS = 2,
    MIN_BYTES = 1024,
    MAX_BYTES = 4 << 20,
    TUNED_BYTES = 16 << 20,
    FACTOR = 4,
    ITERS = 20,
    WARMUP = 5
};

static void show_progress(void *context, const char *name, size_t done, size_t total)
{
    (void)context;
    (void)fprintf(stderr, "\r%zu/%zu %s\033[K", done, total, name);
    (void)fflush(stderr);
}

/* --- what was learned ------------------------------------------------------------------------- */

/* Where it is kept; of PATH_MAX bytes, "": nobody says where. Returns 0, or an exit code; its error
 * was printed. */
static int find_place(const struct cli_options *options, bool is_needed, char *out)
{
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int size = 0;

    if (options->out_dir != NULL) {
        size = snprintf(out, PATH_MAX, "%s/collectives.txt", options->out_dir);
    } else if (cache != NULL && cache[0] == '/') {
        size = snprintf(out, PATH_MAX, "%s/ddprove/collectives.txt", cache);
    } else if (home != NULL && home[0] == '/') {
        size = snprintf(out, PATH_MAX, "%s/.cache/ddprove/collectives.txt", home);
    } else if (!is_needed) {
        out[0] = '\0';
    } else {
        return cli_usage_error("coll: neither XDG_CACHE_HOME nor HOME says where to keep what is "
                               "learned; --out DIR does");
    }
    return size < PATH_MAX ? 0 : cli_usage_error("coll: the path for what is learned is too long");
}

static ddp_status read_tuned(const char *path, struct ddp_tuned *out, struct ddp_err *err)
{
    char machine[sizeof out->machine];

    ddp_tuned_machine(machine, sizeof machine);
    return ddp_tuned_read(ddp_files_system(), path, machine, out, err);
}

static int write_tuned(const char *path, const struct ddp_tuned *tuned)
{
    char folder[PATH_MAX];
    struct ddp_err err = {{0}};
    struct ddp_text text;
    int code;

    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (ddp_files_make_dirs(folder, &err) != DDP_OK) {
        (void)cli_usage_error("coll tune: %s", err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    ddp_text_init(&text, ddp_mem_system());
    ddp_tuned_print(tuned, &text);
    code = cli_write_text("coll tune", path, &text);
    if (code == 0) {
        (void)printf("%s\n%s", path, ddp_text_str(&text));
    }
    ddp_text_fini(&text);
    return code;
}

/* --- names ------------------------------------------------------------------------------------ */

/* Without names: every all-reduce, and what it is compared with. */
static size_t choose_names(const struct cli_options *options, bool is_tuned, const char **names)
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
    if (is_tuned) {
        names[count++] = "tuned";
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

static struct harness_bench_options ask(const struct cli_options *options, uint32_t max_bytes)
{
    const struct cli_bench *given = &options->bench;
    size_t most = given->min_bytes > 0 ? (size_t)given->min_bytes : max_bytes;

    return (struct harness_bench_options){
        .ranks = options->ranks > 0 ? (uint32_t)options->ranks : (uint32_t)RANKS,
        .min_bytes = given->min_bytes > 0 ? (size_t)given->min_bytes : (size_t)MIN_BYTES,
        .max_bytes = given->max_bytes > 0 ? (size_t)given->max_bytes : most,
        .factor = given->factor > 0 ? (double)given->factor : (double)FACTOR,
        .iters = given->iters > 0 ? (uint32_t)given->iters : (uint32_t)ITERS,
        .warmup = given->has_warmup ? (uint32_t)given->warmup : (uint32_t)WARMUP,
        .is_checked = !given->is_unchecked,
        .segment_bytes = (size_t)options->segment,
        .is_tcp = options->is_tcp,
        .program = "/proc/self/exe",
        .progress = isatty(STDERR_FILENO) != 0 ? show_progress : NULL};
}

/* Returns the exit code of a call that failed, which is said. */
static int refuse(const char *command, ddp_status status, const struct ddp_err *err)
{
    int code = cli_usage_error("%s: %s", command, err->text);

    return status == DDP_E_INVALID || status == DDP_E_NOT_FOUND
               ? code
               : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
}

static void end_progress(const struct harness_bench_options *asked)
{
    if (asked->progress != NULL) {
        (void)fputs("\r\033[K", stderr);
    }
}

int cli_coll_bench(const struct cli_options *options)
{
    static struct ddp_tuned tuned;
    const char *names[HARNESS_BENCH_SUBJECTS_MAX];
    struct harness_bench_options asked = ask(options, MAX_BYTES);
    struct harness_bench_report report;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    char path[PATH_MAX];
    ddp_status status;
    bool is_named = false;
    int code;

    for (int i = 1; i < options->path_count; i++) {
        is_named = is_named || strcmp(options->paths[i], "tuned") == 0;
    }
    code = find_place(options, is_named, path);
    if (code != 0) {
        return code;
    }
    status = read_tuned(path, &tuned, &err);
    if (status == DDP_OK) {
        asked.tuned = ddp_tuned_find(&tuned, asked.ranks);
    }
    asked.names = names;
    asked.name_count = choose_names(options, asked.tuned != NULL, names);
    if (status != DDP_OK && is_named) {
        return refuse("coll bench", DDP_E_NOT_FOUND, &err);
    }
    status = harness_bench_run(&asked, &report, &err);
    end_progress(&asked);
    if (status != DDP_OK) {
        harness_bench_fini(&report);
        return refuse("coll bench", status, &err);
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

int cli_coll_tune(const struct cli_options *options)
{
    static struct ddp_tuned tuned;
    const struct harness_bench_options asked = ask(options, TUNED_BYTES);
    struct ddp_tuned_world world;
    struct ddp_err err = {{0}};
    char path[PATH_MAX];
    ddp_status status;
    int code = options->path_count == 1
                   ? find_place(options, true, path)
                   : cli_usage_error("coll: tune takes no name: it measures every all-reduce");

    if (code != 0) {
        return code;
    }
    status = read_tuned(path, &tuned, &err);
    if (status != DDP_OK && status != DDP_E_NOT_FOUND && !options->is_anew) {
        return refuse("coll tune", DDP_E_INVALID, &err);
    }
    if (status != DDP_OK || options->is_anew) {
        memset(&tuned, 0, sizeof tuned);
        ddp_tuned_machine(tuned.machine, sizeof tuned.machine);
    }
    status = harness_tuned_learn(&asked, &world, &err);
    end_progress(&asked);
    if (status == DDP_OK) {
        status = ddp_tuned_put(&tuned, &world);
        if (status != DDP_OK) {
            (void)ddp_err_set(&err, status, "%s is full; --anew begins again", path);
        }
    }
    return status == DDP_OK ? write_tuned(path, &tuned) : refuse("coll tune", status, &err);
}
