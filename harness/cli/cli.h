/* The command line: one function a command, shared option parsing and file collection. Only this
 * folder prints, exits and reads the environment. */
#ifndef HARNESS_CLI_CLI_H
#define HARNESS_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "harness/launch/launch.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"

#define CLI_EXIT_USAGE 2
#define CLI_SETS_MAX   64

struct cli_options {
    char **paths; /* operands */
    int path_count;
    bool has_driver;
    enum harness_driver driver;
    bool has_launcher;
    enum harness_launcher launcher;
    const char *device; /* NULL: the scenario's */
    bool has_collective;
    uint64_t seed;
    uint64_t seed_count; /* --seeds: scheduler seeds 0..n-1, sim only */
    unsigned jobs;       /* 0 = choose */
    const char *out_dir, *junit, *json;
    char *sets[CLI_SETS_MAX]; /* owned */
    size_t set_count;
    bool is_verbose, is_time_enforced, is_fast;
};

struct cli_command {
    const char *name;
    const char *arguments;
    const char *summary;
    int (*run)(const struct cli_options *options);
};

int cli_run(const struct cli_options *options);
int cli_plan(const struct cli_options *options);
int cli_check(const struct cli_options *options);
int cli_explain(const struct cli_options *options);
int cli_list(const struct cli_options *options);
int cli_lint(const struct cli_options *options);
int cli_doctor(const struct cli_options *options);
int cli_train(const struct cli_options *options);

/* One line on stderr: "ddprove: ...". Returns CLI_EXIT_USAGE. */
int cli_usage_error(const char *format, ...) DDP_PRINTF(1, 2);

/* Scenario files of the operands: files as given, folders searched for *.yaml, sorted. */
struct cli_files {
    char **path;
    size_t count;
};
DDP_MUST_USE ddp_status cli_files_collect(char *const *operands, int operand_count,
                                          struct cli_files *out, struct ddp_err *err);
void cli_files_fini(struct cli_files *files);
/* Read and parse one file with the options' overrides. Prints its error and returns false. */
bool cli_scenario_load(const char *path, const struct cli_options *options,
                       struct harness_scenario *out);
/* This executable's path. */
const char *cli_self_path(void);

#endif
