/* ddprove: the commands, and their help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/cli/cli.h"
#include "harness/lab/bench.h"
#include "harness/plugin/plugin.h"
#include "harness/proc/proc.h"

static const struct command {
    const char *name;
    const char *arguments;
    unsigned id;                                   /* enum cli_command */
    int (*run)(const struct cli_options *options); /* returns the exit code */
    const char *summary;                           /* a line break starts a new line of help */
} commands[] = {
    {"run", "SCENARIO|DIR...", CLI_RUN, cli_run, "run scenarios and judge them"},
    {"plan", "SCENARIO", CLI_PLAN, cli_plan, "print the resolved plan of every cell, as YAML"},
    {"check", "[DIR...]", CLI_CHECK, cli_check,
     "judge recorded runs again; DIR: a run's folder, or one of runs\n(default: the latest in "
     "runs/)"},
    {"explain", "[DIR...]", CLI_EXPLAIN, cli_explain,
     "how a verdict follows: findings, wait-for graph, next step;\nof several runs those that did "
     "not pass"},
    {"list", "WHAT [DIR]", CLI_LIST, cli_list,
     "what ddprove knows; WHAT: scenarios, faults, actions, points, models,\n"
     "data, collectives, oracles, verdicts, keys, schema, resources,\ntests"},
    {"lint", "SCENARIO|DIR...", CLI_LINT, cli_lint,
     "check scenario files, and that their faults can occur"},
    {"doctor", "", CLI_DOCTOR, cli_doctor, "what this machine offers, and what will be skipped"},
    {"campaign", "FILE | merge DIR...", CLI_CAMPAIGN, cli_campaign,
     "run random plans and compare what is found with what they should be found\n"
     "to do; merge: put the results of shards together"},
    {"shrink", "RUN_DIR|PLAN", CLI_SHRINK, cli_shrink,
     "the smallest scenario with the same failure, written into --out"},
    {"exec", "[SCENARIO...] -- COMMAND...", CLI_EXEC, cli_exec,
     "run somebody else's program, and say what is wrong as soon as it is"},
    {"diagnose", "PATH...", CLI_DIAGNOSE, cli_diagnose,
     "what a hang's dumps and logs say: who held up whom, and where; of PyTorch's\n"
     "Flight Recorder, watchdog and torchrun, py-spy, NCCL's RAS and NCCL_DEBUG"},
    {"ckpt", "WHAT FILE...", CLI_CKPT, cli_ckpt,
     "of a checkpoint, safetensors or what torch.save wrote; inspect FILE: what is\nin it; verify "
     "FILE: read and prove all of it; strip IN -o OUT: take one\nmodule. from every key; convert "
     "IN -o OUT: from torch.save to safetensors,\nwithout running anything; diff A B: keys, "
     "shapes, "
     "values that differ"},
    {"coll", "WHAT NAME", CLI_COLL, cli_coll,
     "of an algorithm, one of list collectives or the path of a plug-in; check:\nprove it for many "
     "worlds and counts, without running it; conform: run it,\nand judge values, buffers, types, "
     "orders and failures (so does check of a\nplug-in without schedules); show: draw its steps; "
     "bench: how long it takes\n(of several, or all); tune: learn the right one for each size; "
     "new: write\na plug-in to start from"},
    {"new", "WHAT NAME", CLI_NEW, cli_new,
     "something to start from; scenario FAMILY.NAME: a file below ./scenarios (or\n--out), which "
     "runs as it is; guest FOLDER: a project, with a trainer that\nis shown to ddprove, a CMake "
     "file, and scenarios that break it"},
    {"export", "SCENARIO", CLI_EXPORT, cli_export,
     "what its job starts from, and what one device makes of it, into --out: for "
     "other\nframeworks"},
    {"train", "SCENARIO", CLI_TRAIN, cli_train, "run without checks, for timing"},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_command(const struct command *command, FILE *out)
{
    const char *line = command->summary;
    size_t size = strcspn(line, "\n");

    (void)fprintf(out, "  %-8s %-18s %.*s\n", command->name, command->arguments, (int)size, line);
    while (line[size] == '\n') {
        line += size + 1;
        size = strcspn(line, "\n");
        (void)fprintf(out, "  %-27s %.*s\n", "", (int)size, line);
    }
}

static void print_exit_codes(FILE *out)
{
    (void)fputs("exit: 0 PASS, 1 FAIL, 2 usage or bad scenario, 3 ERROR, 4 INCONCLUSIVE, 77 SKIP,\n"
                "      128+N interrupted by signal N\n",
                out);
}

static void print_help(FILE *out)
{
    (void)fputs("usage: ddprove COMMAND [ARGUMENTS] [OPTIONS]\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        print_command(&commands[i], out);
    }
    (void)fputs("\noptions:\n", out);
    cli_options_print_help(CLI_EVERY_COMMAND, out);
    print_exit_codes(out);
    (void)fputs("ddprove help COMMAND: more about one of them\n", out);
}

static void print_command_help(const struct command *command)
{
    (void)printf("usage: ddprove %s%s%s [OPTIONS]\n\n", command->name,
                 command->arguments[0] != '\0' ? " " : "", command->arguments);
    (void)printf("%s\n\noptions:\n", command->summary);
    cli_options_print_help(command->id, stdout);
    print_exit_codes(stdout);
}

/* What was to be printed is part of the answer. */
static int close_stdout(int code)
{
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        (void)cli_usage_error("stdout cannot be written; what it lacks is not reported");
        code = code == 0 ? harness_outcome_exit_code(HARNESS_OUTCOME_ERROR) : code;
    }
    return code;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    struct cli_options options;
    int code = cli_options_parse(argc, argv, command->id, &options);

    if (code == 0 && options.is_help) {
        print_command_help(command);
    } else if (code == 0) {
        code = command->run(&options);
    }
    code = close_stdout(code);
    cli_options_fini(&options);
    return code;
}

/* NULL: there is no such command, which was said. */
static const struct command *find_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    const char *nearest;

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strcmp(name, commands[i].name) == 0) {
            return &commands[i];
        }
    }
    nearest = ddp_text_nearest(name, names, COMMAND_COUNT);
    (void)cli_usage_error("unknown command \"%s\"; %s%s", name,
                          nearest != NULL ? "did you mean " : "see ddprove --help",
                          nearest != NULL ? nearest : "");
    return NULL;
}

static int help_on(const char *name)
{
    const struct command *command = find_command(name);

    if (command == NULL) {
        return CLI_EXIT_USAGE;
    }
    print_command_help(command);
    return close_stdout(0);
}

/* A rank of coll bench that mpirun has started: it says which one. */
static int run_lab(const char *path)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    uint64_t rank = 0;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);

        if (text != NULL && ddp_text_parse_u64(text, &rank) == DDP_OK && rank <= UINT32_MAX) {
            return harness_lab_main(path, (uint32_t)rank);
        }
    }
    return cli_usage_error("lab: neither mpirun nor mpiexec has started this");
}

int main(int argc, char **argv)
{
    const struct command *command;

    if (argc < 2) {
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "rank") == 0) {
        return harness_proc_rank_main();
    }
    if (strcmp(argv[1], "lab") == 0 && argc == 3) {
        return run_lab(argv[2]);
    }
    if (strcmp(argv[1], "plugin") == 0 && argc == 3) {
        return harness_plugin_main(argv[2]);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        (strcmp(argv[1], "help") == 0 && argc == 2)) {
        print_help(stdout);
        return close_stdout(0);
    }
    if (strcmp(argv[1], "help") == 0) {
        return help_on(argv[2]);
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("ddprove %s\n", DDPROVE_VERSION);
        return close_stdout(0);
    }
    command = find_command(argv[1]);
    return command != NULL ? run_command(command, argc - 1, argv + 1) : CLI_EXIT_USAGE;
}
