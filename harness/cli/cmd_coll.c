/* ddprove coll: what can be said of an algorithm without running it. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/cli/template.h"
#include "harness/coll/render.h"
#include "harness/plugin/plugin.h"
#include "harness/report/report.h"

enum {
    BUDGET_S = 60,
    SHOWN_WORLD = 4,
    SHOWN_WORLD_MAX = 64,
    SHOWN_COUNT_MAX = 4096,
    FOLDER_BYTES = 64
};

static int error_code(void)
{
    return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
}

static int write_junit(const char *path, const struct harness_coll_report *report)
{
    json_t *verdicts = harness_coll_verdicts(report);
    struct ddp_text text;
    int code;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_junit(verdicts, &text);
    code = cli_write_text("coll", path, &text);
    ddp_text_fini(&text);
    json_decref(verdicts);
    return code;
}

/* --- check ------------------------------------------------------------------------------------ */

static void show_progress(void *context, size_t done, size_t total)
{
    (void)context;
    (void)fprintf(stderr, "\r%zu/%zu cases\033[K", done, total);
    (void)fflush(stderr);
}

static int write_files(const struct cli_options *options, struct harness_coll_source *source,
                       const struct harness_coll_report *report)
{
    struct ddp_err err = {{0}};
    struct ddp_text text;
    int code = 0;

    if (options->json != NULL) {
        code = cli_write_json("coll", options->json, harness_coll_json(report));
    }
    if (code == 0 && options->junit != NULL) {
        code = write_junit(options->junit, report);
    }
    ddp_text_init(&text, ddp_mem_system());
    if (code == 0 && options->svg != NULL) {
        if (harness_coll_print_failure(source, report, true, &text, &err) != DDP_OK) {
            (void)cli_usage_error("coll: %s", err.text);
            code = error_code();
        } else if (text.size_bytes > 0) {
            code = cli_write_text("coll", options->svg, &text);
        }
    }
    ddp_text_fini(&text);
    return code;
}

static struct harness_coll_range range_of(const struct cli_range *range, bool is_given)
{
    return (struct harness_coll_range){range->first, range->last, is_given};
}

/* Each case takes some MiB and gives them back: a quarter of the time went to asking the kernel. */
static void keep_memory(void)
{
    enum { KEPT_BYTES = 256 << 20 };

    (void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
}

static int check(const struct cli_options *options, struct harness_coll_source *source)
{
    const bool is_live = isatty(STDERR_FILENO) != 0;
    uint64_t budget_s =
        options->budget_s > 0 || options->is_full ? options->budget_s : (uint64_t)BUDGET_S;
    const struct harness_coll_options asked = {
        .worlds = range_of(&options->worlds, options->has_worlds),
        .counts = range_of(&options->counts, options->has_counts),
        .is_full = options->is_full,
        .clock = ddp_clock_monotonic(),
        .budget_ns = budget_s * DDP_NS_PER_S,
        .progress = is_live ? show_progress : NULL};
    struct harness_coll_report report;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    ddp_status status;
    int code;

    keep_memory();
    status = harness_coll_check(source, &asked, &report, &err);
    if (is_live) {
        (void)fputs("\r\033[K", stderr);
    }
    ddp_text_init(&text, ddp_mem_system());
    if (status == DDP_OK) {
        harness_coll_print(&report, &text);
        status = harness_coll_print_failure(source, &report, false, &text, &err);
    }
    if (status != DDP_OK) {
        (void)cli_usage_error("coll: %s", err.text);
        ddp_text_fini(&text);
        return error_code();
    }
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    code = write_files(options, source, &report);
    return code != 0 ? code : harness_outcome_exit_code(harness_coll_outcome(&report));
}

/* --- show ------------------------------------------------------------------------------------- */

static int show(const struct cli_options *options, struct harness_coll_source *source)
{
    struct harness_coll_case test = {.world = SHOWN_WORLD,
                                     .segment_elem_count = (size_t)options->segment,
                                     .is_in_place = options->is_in_place};
    struct ddp_err err = {{0}};
    struct ddp_text text;
    int code = 0;

    if (options->has_worlds) {
        test.world = (uint32_t)options->worlds.first;
    }
    test.elem_count = options->has_counts ? (size_t)options->counts.first : test.world;
    if (test.world > SHOWN_WORLD_MAX || test.elem_count > SHOWN_COUNT_MAX) {
        return cli_usage_error("coll: a picture of at most %d ranks and %d elements can be shown",
                               SHOWN_WORLD_MAX, SHOWN_COUNT_MAX);
    }
    ddp_text_init(&text, ddp_mem_system());
    if (harness_coll_print_picture(source, &test, options->svg != NULL, &text, &err) != DDP_OK) {
        (void)cli_usage_error("coll: %s", err.text);
        code = error_code();
    } else if (options->svg != NULL) {
        code = cli_write_text("coll", options->svg, &text);
    } else {
        (void)printf("%s %s (+<1: add what rank 1 sends; =<1: take it)\n",
                     ddp_coll_kind_name(source->kind), source->name);
        (void)fputs(ddp_text_str(&text), stdout);
    }
    ddp_text_fini(&text);
    return code;
}

/* A path has a slash. */
static ddp_status open_source(const char *name, struct harness_coll_source **out,
                              struct ddp_err *err)
{
    return strchr(name, '/') != NULL ? harness_coll_plugin_open("/proc/self/exe", name, out, err)
                                     : harness_coll_builtin_open(name, out, err);
}

/* --- new -------------------------------------------------------------------------------------- */

/* The template with its name in it. Returns 0, or an exit code; its error was printed. */
static int write_template(const char *name, const struct cli_template *file)
{
    char path[FOLDER_BYTES + 40];
    struct stat there;

    (void)snprintf(path, sizeof path, "%s/%s%s", name,
                   strcmp(file->path, "algorithm.c") == 0 ? name : file->path,
                   strcmp(file->path, "algorithm.c") == 0 ? ".c" : "");
    if (stat(path, &there) == 0) {
        return cli_usage_error("coll: %s is there already; choose another name", path);
    }
    return cli_write_template("coll", path, name, file);
}

static int begin(const char *name, bool is_opaque)
{
    const struct cli_template *files = is_opaque ? cli_coll_opaque_templates : cli_coll_templates;
    struct ddp_err err = {{0}};
    size_t length = strlen(name);
    int code = 0;

    if (length == 0 || length > 31 ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length) {
        return cli_usage_error("coll: \"%s\" is no name for an algorithm: 1 to 31 small letters, "
                               "digits and _",
                               name);
    }
    if (ddp_files_make_dirs(name, &err) != DDP_OK) {
        return cli_usage_error("coll: %s", err.text);
    }
    for (const struct cli_template *file = files; code == 0 && file->path != NULL; file++) {
        code = write_template(name, file);
    }
    if (code == 0) {
        (void)printf(
            "next: cc -shared -fPIC -o %s/%s.so %s/%s.c && ddprove coll check ./%s/%s.so\n", name,
            name, name, name, name, name);
    }
    return code;
}

/* Whether `check` is asked of a plug-in that has no schedules, so that it can only be run. */
static bool is_opaque(const struct cli_options *options)
{
    struct harness_plugin_about about;
    struct ddp_err err;

    return strcmp(options->paths[0], "check") == 0 && strchr(options->paths[1], '/') != NULL &&
           harness_plugin_describe("/proc/self/exe", options->paths[1], &about, &err) == DDP_OK &&
           about.is_opaque;
}

int cli_coll(const struct cli_options *options)
{
    static const struct {
        const char *name;
        int (*run)(const struct cli_options *options, struct harness_coll_source *source);
    } actions[] = {{"check", check}, {"show", show}};
    struct harness_coll_source *source = NULL;
    struct ddp_err err = {{0}};
    int code = -1;

    if (options->path_count > 0 && strcmp(options->paths[0], "bench") == 0) {
        return cli_coll_bench(options);
    }
    if (options->path_count > 0 && strcmp(options->paths[0], "tune") == 0) {
        return cli_coll_tune(options);
    }
    if (options->path_count != 2) {
        return cli_usage_error(
            "coll: say what to do with which algorithm: ddprove coll check "
            "ring or ./mine.so, coll show ring, coll bench ring, coll new mine; ddprove list "
            "collectives has the built-in ones");
    }
    if (strcmp(options->paths[0], "conform") == 0 || is_opaque(options)) {
        return cli_coll_conform(options, options->paths[1]);
    }
    if (strcmp(options->paths[0], "new") == 0) {
        return begin(options->paths[1], options->is_opaque);
    }
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(options->paths[0], actions[i].name) != 0) {
            continue;
        }
        if (open_source(options->paths[1], &source, &err) != DDP_OK) {
            return cli_usage_error("coll: %s", err.text);
        }
        code = actions[i].run(options, source);
        harness_coll_source_close(source);
        return code;
    }
    return cli_usage_error("coll: \"%s\" is not known; known: check, conform, show, "
                           "bench, tune, new",
                           options->paths[0]);
}
