/* The command line: a function and a file for each command, and what commands share: options
 * (options.c) and scenario files (files.c). Only this folder prints, exits and reads the
 * environment. */
#ifndef HARNESS_CLI_CLI_H
#define HARNESS_CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/text.h"
#include "harness/exec/exec.h"
#include "harness/launch/launch.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"

#define CLI_EXIT_USAGE 2
#define CLI_SETS_MAX   64
#define CLI_RUNS_DIR   "runs" /* without --out: a folder a run in it */

/* Bits, so that an option can say which commands it is for. */
enum cli_command {
    CLI_RUN = 1,
    CLI_PLAN = 2,
    CLI_CHECK = 4,
    CLI_EXPLAIN = 8,
    CLI_LIST = 16,
    CLI_LINT = 32,
    CLI_DOCTOR = 64,
    CLI_TRAIN = 128,
    CLI_CAMPAIGN = 256,
    CLI_SHRINK = 512,
    CLI_EXEC = 1024,
    CLI_NEW = 2048,
    CLI_DIAGNOSE = 4096,
    CLI_COLL = 8192,
    CLI_EXPORT = 16384,
    CLI_CKPT = 32768,
    CLI_EVERY_COMMAND = 65535
};

struct cli_range {
    uint64_t first, last;
};

/* Of coll bench; 0: not given. */
struct cli_bench {
    uint64_t min_bytes, max_bytes, factor, iters, warmup;
    bool has_warmup, is_unchecked;
};

/* What every option of the command line came to; a command reads those it knows. */
struct cli_options {
    char **paths; /* operands */
    int path_count;
    enum harness_driver driver;
    enum harness_launcher launcher;
    enum harness_guest_launcher guest_launcher;
    const char *launcher_text;
    bool has_driver, has_launcher, has_seed;
    bool has_guest_launcher;          /* exec --launcher */
    bool is_on_cuda;                  /* --device cuda */
    bool requires_cuda, requires_mpi; /* a cell that lacks it is an error, not skipped */
    bool has_collective;
    size_t collective_set; /* the override that --collective is, in sets */
    uint64_t seed;
    uint64_t seed_count; /* --seeds, sim only: seed to seed + seed_count - 1 */
    unsigned jobs;       /* 0 = choose */
    const char *out_dir, *junit, *json;
    const char *scenario;                 /* diagnose --scenario; NULL: not given */
    const char *record_dir, *against_dir; /* exec --record, --against; NULL: not given */
    char *sets[CLI_SETS_MAX];             /* owned */
    size_t set_count;
    uint64_t case_count;         /* --cases; 0: the campaign's own */
    uint64_t budget_s;           /* --budget; 0: none */
    uint32_t shard, shard_count; /* --shard i/n; shard_count 0: not given */
    bool is_on_both;             /* --driver both */
    bool is_resumed;
    bool is_verbose, is_time_enforced, is_fast, is_help, is_fail_fast;
    bool has_events;             /* explain --events */
    bool has_worlds, has_counts; /* coll --worlds, --counts */
    bool is_full, is_in_place;   /* coll --full, --in-place */
    bool is_kept_failed;         /* --keep failed */
    bool is_covering;            /* --cells covering */
    char **command;              /* exec: what is behind "--", ends with NULL; NULL: nothing */
    uint64_t ranks;              /* --ranks; 0: not given */
    uint64_t limit_s;            /* --limit; 0: not given */
    enum harness_guest_adapter adapter;
    bool is_left;                    /* --on-failure leave */
    uint64_t sums_every;             /* of --prove sums; 0: not stated */
    bool is_proving;                 /* --prove sums */
    bool is_equivalence;             /* --prove equivalence */
    const char *steps;               /* --steps, as it was written; NULL: not given */
    const char *parallel, *scaling;  /* train; NULL: not given */
    bool is_showing_buckets;         /* train */
    const char *svg;                 /* coll and train; NULL: not given */
    uint64_t segment;                /* coll --segment; 0: not given */
    struct cli_range worlds, counts; /* coll --worlds, --counts */
    struct cli_bench bench;
    bool is_anew;    /* coll tune --anew */
    bool is_opaque;  /* coll new --opaque */
    bool is_tcp;     /* coll --transport tcp */
    const char *map; /* ckpt --key; NULL: not given */
};
/* Returns 0, or an exit code; its error was printed. command: one bit. argv is kept. */
int cli_options_parse(int argc, char **argv, unsigned command, struct cli_options *options);
void cli_options_fini(struct cli_options *options);
/* A line an option that one of these commands takes. */
void cli_options_print_help(unsigned commands, FILE *out);
/* One line on stderr: "ddprove: ...". Returns CLI_EXIT_USAGE. */
int cli_usage_error(const char *format, ...) DDP_PRINTF(1, 2);
/* The value of an option. Returns 0, or an exit code; its error was printed. */
int cli_parse_number(const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *out);

/* The commands. They return the exit code. */
int cli_run(const struct cli_options *options);
int cli_export(const struct cli_options *options);
int cli_plan(const struct cli_options *options);
int cli_check(const struct cli_options *options);
int cli_explain(const struct cli_options *options);
int cli_list(const struct cli_options *options);
int cli_lint(const struct cli_options *options);
int cli_doctor(const struct cli_options *options);
int cli_train(const struct cli_options *options);
int cli_campaign(const struct cli_options *options);
int cli_shrink(const struct cli_options *options);
int cli_new(const struct cli_options *options);
int cli_exec(const struct cli_options *options);
int cli_diagnose(const struct cli_options *options);
int cli_ckpt(const struct cli_options *options);
int cli_coll(const struct cli_options *options);
int cli_coll_bench(const struct cli_options *options);
int cli_coll_tune(const struct cli_options *options);
int cli_coll_conform(const struct cli_options *options, const char *name);

/* write.c: a whole file. Return 0, or an exit code; the error was printed, behind `command`. root:
 * taken over. _template: with the name in its place; its path is printed. */
struct cli_template;
int cli_write_template(const char *command, const char *path, const char *name,
                       const struct cli_template *file);
int cli_write_text(const char *command, const char *path, const struct ddp_text *text);
int cli_write_json(const char *command, const char *path, json_t *root);

/* prove.c: of exec --prove equivalence. */
struct cli_proof {
    char folder[PATH_MAX];
    struct harness_exec_folder made; /* where --out names none */
};
/* Let the job that follows keep its steps. proof: zeroed. Returns 0, or an exit code; its error was
 * printed. */
int cli_prove_begin(const struct cli_options *options, struct cli_proof *proof);
/* Say what was found. A folder that was made stays if that is wrong. job_code: the exit code of the
 * job itself. Returns that of both. */
int cli_prove_conclude(const struct cli_options *options, struct cli_proof *proof, int job_code);

/* Scenario files of the operands: files as given, folders searched for *.yaml, sorted. */
struct cli_files {
    char **path;
    size_t count;
};
DDP_MUST_USE ddp_status cli_files_collect(char *const *operands, int operand_count,
                                          struct cli_files *out, struct ddp_err *err);
void cli_files_fini(struct cli_files *files);
/* Folders of recorded cells (they hold verdict.json): the operands, or what is in them, sorted;
 * without operands those of the latest run in CLI_RUNS_DIR. Errors: E_NOT_FOUND, E_IO. */
DDP_MUST_USE ddp_status cli_records_collect(char *const *operands, int operand_count,
                                            struct cli_files *out, struct ddp_err *err);
/* Dumps and logs: files as given, and all files of folders but hidden ones; sorted, each once.
 * Errors: E_NOT_FOUND, E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status cli_dumps_collect(char *const *operands, int operand_count,
                                          struct cli_files *out, struct ddp_err *err);
/* Read and parse one file with overrides. */
DDP_MUST_USE ddp_status cli_scenario_read(const char *path, char *const *sets, size_t set_count,
                                          struct harness_scenario *out, struct ddp_err *err);
/* The same with the options' overrides. Prints its error and returns false. */
bool cli_scenario_load(const char *path, const struct cli_options *options,
                       struct harness_scenario *out);

#endif
