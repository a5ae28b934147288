/* exec: somebody else's program, watched. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "harness/cli/cli.h"
#include "harness/exec/exec.h"

enum { LIMIT_DEFAULT_S = 60 };

/* One line, at once: what is wrong, and whose fault it is. */
static void print_finding(void *context, const struct harness_finding *finding)
{
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    (void)context;
    (void)fprintf(stderr, "ddprove: %s, rank %s: %s", harness_verdict_name(finding->verdict),
                  harness_rank_set_text(&finding->culprits, ranks), finding->text);
    if (finding->detect_ns >= 0) {
        (void)fprintf(stderr, " [after %.1f ms]", (double)finding->detect_ns / 1e6);
    }
    (void)fputc('\n', stderr);
}

/* Beside the program: ../lib, where the build and an installation have it. Returns 0, or an exit
 * code.
 */
static int find_adapter(char *path, size_t size_bytes)
{
    char self[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;

    self[size > 0 ? size : 0] = '\0';
    for (int i = 0; i < 2 && (slash = strrchr(self, '/')) != NULL; i++) {
        *slash = '\0';
    }
    if (snprintf(path, size_bytes, "%s/lib/libddprove_guest_mpi.so", self) >= (int)size_bytes) {
        return cli_usage_error("--adapter mpi: the path of this program is too long");
    }
    if (access(path, R_OK) != 0) {
        return cli_usage_error("--adapter mpi: %s: %s; it is built where an mpi.h is found", path,
                               strerror(errno));
    }
    return 0;
}

/* How many results were judged, and why others were not. */
static void print_tally(const struct harness_watch_tally *tally)
{
    static const char *const reasons[HARNESS_WATCH_UNJUDGED_COUNT] = {
#define X(id, words) words,
        HARNESS_WATCH_UNJUDGED_TABLE(X)
#undef X
    };

    (void)fprintf(stderr, "ddprove: results of %" PRIu64 " calls judged", tally->judged);
    if (tally->bitwise > 0) {
        (void)fprintf(stderr, ", %" PRIu64 " bit for bit", tally->bitwise);
    }
    if (tally->compared > 0) {
        (void)fprintf(stderr, ", %" PRIu64 " (no sums) only for being the same on all ranks",
                      tally->compared);
    }
    for (int i = 0; i < HARNESS_WATCH_UNJUDGED_COUNT; i++) {
        if (tally->unjudged[i] > 0) {
            (void)fprintf(stderr, "; %" PRIu64 " not judged: %s", tally->unjudged[i], reasons[i]);
        }
    }
    (void)fprintf(stderr, "%s\n", tally->has_lost ? "; some of what ranks reported was lost" : "");
}

static int exit_code_of(const struct harness_exec_result *result, bool is_proving)
{
    if (result->interrupt != 0) {
        return 128 + result->interrupt;
    }
    if (result->findings.count > 0) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_FAIL);
    }
    /* To have proved nothing, or not to know what, is no success. */
    if (result->exit_code == 0 && is_proving &&
        (result->tally.judged == 0 || result->tally.has_lost)) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_INCONCLUSIVE);
    }
    return result->exit_code;
}

/* What --prove, --steps and --out mean together. folder: of PATH_MAX bytes. Returns 0, or an exit
 * code. */
static int set_proof(const struct cli_options *options, struct harness_exec_config *config,
                     char *folder)
{
    struct ddp_err err = {{0}};

    config->is_observed = options->is_proving;
    if (options->end_step == 0) {
        return 0;
    }
    if (!options->is_proving || options->out_dir == NULL) {
        return cli_usage_error("--steps needs --prove sums, and --out, a folder for these steps' "
                               "data");
    }
    if (ddp_files_make_dirs(options->out_dir, &err) != DDP_OK ||
        realpath(options->out_dir, folder) == NULL) {
        return cli_usage_error("--out: %s: %s", options->out_dir,
                               err.text[0] != '\0' ? err.text : strerror(errno));
    }
    config->keep_first = options->first_step;
    config->keep_end = options->end_step;
    config->keep_folder = folder;
    return 0;
}

int cli_exec(const struct cli_options *options)
{
    const uint64_t limit_ns =
        (options->limit_s != 0 ? options->limit_s : LIMIT_DEFAULT_S) * DDP_NS_PER_S;
    struct harness_exec_config config = {.command = options->command,
                                         .ranks = (uint32_t)options->ranks,
                                         .is_left = options->is_left,
                                         .limits = {limit_ns, limit_ns},
                                         .on_finding = print_finding};
    struct harness_exec_result result;
    struct ddp_err err = {{0}};
    struct ddp_mem_pool *pool;
    char adapter[4096];
    char folder[PATH_MAX];
    ddp_status status;
    int code;

    if (options->command == NULL || options->command[0] == NULL) {
        return cli_usage_error(
            "exec: no command; write it behind \"--\": ddprove exec --ranks 4 -- ./train");
    }
    if (options->path_count > 0) {
        return cli_usage_error("exec: \"%s\" is in front of \"--\"; the command comes behind it",
                               options->paths[0]);
    }
    if (options->is_mpi) {
        code = find_adapter(adapter, sizeof adapter);
        if (code != 0) {
            return code;
        }
        config.preload = adapter;
    }
    code = set_proof(options, &config, folder);
    if (code != 0) {
        return code;
    }
    if (ddp_mem_pool_create(&pool) != DDP_OK) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    config.mem = ddp_mem_pool_mem(pool);
    status = harness_exec_run(&config, &result, &err);
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s\n",
                      err.text[0] != '\0' ? err.text : ddp_status_text(status));
        code = harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    } else {
        code = exit_code_of(&result, options->is_proving);
        if (options->is_proving) {
            print_tally(&result.tally);
        }
        if (result.seen_count == 0) {
            (void)fprintf(stderr, "ddprove: no rank has shown itself: the program does not use the "
                                  "guest library, or an "
                                  "adapter that does; nothing was judged\n");
        }
    }
    ddp_mem_pool_destroy(pool);
    return code;
}
