/* exec: somebody else's program, watched. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
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
static int find_adapter(const char *name, char *path, size_t size_bytes)
{
    char self[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;

    self[size > 0 ? size : 0] = '\0';
    for (int i = 0; i < 2 && (slash = strrchr(self, '/')) != NULL; i++) {
        *slash = '\0';
    }
    if (snprintf(path, size_bytes, "%s/lib/libddprove_guest_%s.so", self, name) >=
        (int)size_bytes) {
        return cli_usage_error("--adapter %s: the path of this program is too long", name);
    }
    if (access(path, R_OK) != 0) {
        return cli_usage_error("--adapter %s: %s: %s%s", name, path, strerror(errno),
                               strcmp(name, "mpi") == 0 ? "; it is built where an mpi.h is found"
                                                        : "");
    }
    return 0;
}

static int exit_code_of(const struct harness_exec_result *result)
{
    if (result->interrupt != 0) {
        return 128 + result->interrupt;
    }
    if (result->findings.count > 0) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_FAIL);
    }
    return result->exit_code;
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
    if (options->adapter != NULL) {
        code = find_adapter(options->adapter, adapter, sizeof adapter);
        if (code != 0) {
            return code;
        }
        config.preload = adapter;
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
        code = exit_code_of(&result);
        if (result.seen_count == 0) {
            (void)fprintf(stderr, "ddprove: no rank has shown itself: the program does not use the "
                                  "guest library, or an "
                                  "adapter that does; nothing was judged\n");
        } else if (result.lost_comm_count > 0) {
            (void)fprintf(
                stderr,
                "ddprove: %llu communicators could not be shown (too many, or one process "
                "drives several ranks); their calls were not judged\n",
                (unsigned long long)result.lost_comm_count);
        }
    }
    ddp_mem_pool_destroy(pool);
    return code;
}
