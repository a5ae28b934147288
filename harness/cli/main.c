/* ddprove: the command line. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/cli/cli.h"
#include "harness/proc/proc.h"

static const struct cli_command commands[] = {
    {"run", "SCENARIO|DIR...", "run scenarios and judge them", cli_run},
    {"plan", "SCENARIO", "print the resolved plan of every cell, as YAML", cli_plan},
    {"check", "RUN_DIR...", "judge a recorded run again", cli_check},
    {"explain", "RUN_DIR", "how the verdict follows: findings, wait-for graph, timeline",
     cli_explain},
    {"list", "WHAT [DIR]", "what ddprove knows; WHAT: scenarios, faults, actions, points, models,",
     cli_list},
    {"lint", "SCENARIO|DIR...", "check scenario files without running them", cli_lint},
    {"doctor", "", "what this machine offers, and what will be skipped", cli_doctor},
    {"train", "SCENARIO", "run without checks, for timing", cli_train},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

int cli_usage_error(const char *format, ...)
{
    va_list args;

    (void)fputs("ddprove: ", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    return CLI_EXIT_USAGE;
}

static void print_help(FILE *out)
{
    (void)fputs("usage: ddprove COMMAND [ARGUMENTS] [OPTIONS]\n\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)fprintf(out, "  %-8s %-18s %s\n", commands[i].name, commands[i].arguments,
                      commands[i].summary);
        if (commands[i].run == cli_list) {
            (void)fprintf(
                out, "  %-27s data, collectives, oracles, verdicts, keys, schema, resources\n", "");
        }
    }
    (void)fputs("\noptions:\n"
                "  --driver sim|proc     default: every driver a scenario allows\n"
                "  --launcher own|mpirun who starts the processes of proc (implies --driver proc)\n"
                "  --device cpu|cuda     same as --set job.device=NAME; cuda implies --collective\n"
                "                        nccl unless one is given\n"
                "  --ranks-per-gpu N     ranks that share a card (default 1)\n"
                "  --set KEY=VALUE       override a scenario's key, e.g. job.ranks=4\n"
                "  --collective NAME     same as --set job.collective=NAME\n"
                "  --seed N              of the simulator's scheduler (default 0)\n"
                "  --seeds N             sim: run every cell under N seeds, from --seed on\n"
                "  -j N                  cells at a time (default: as many as cores)\n"
                "  --out DIR             run folders (default runs/<time>)\n"
                "  --json FILE  --junit FILE\n"
                "  --enforce-time        judge within_ms on real time too\n"
                "  --fast                train on cuda: TF32 and whatever kernels are fastest\n"
                "  -v                    one line a cell\n"
                "exit: 0 PASS, 1 FAIL, 2 usage or bad scenario, 3 ERROR, 4 INCONCLUSIVE, 77 SKIP,\n"
                "      128+N interrupted by signal N\n",
                out);
}

enum option_id {
    OPTION_DRIVER = 256,
    OPTION_LAUNCHER,
    OPTION_DEVICE,
    OPTION_RANKS_PER_GPU,
    OPTION_SET,
    OPTION_COLLECTIVE,
    OPTION_SEED,
    OPTION_SEEDS,
    OPTION_OUT,
    OPTION_JSON,
    OPTION_JUNIT,
    OPTION_ENFORCE_TIME,
    OPTION_FAST,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"driver", required_argument, NULL, OPTION_DRIVER},
    {"launcher", required_argument, NULL, OPTION_LAUNCHER},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"ranks-per-gpu", required_argument, NULL, OPTION_RANKS_PER_GPU},
    {"set", required_argument, NULL, OPTION_SET},
    {"collective", required_argument, NULL, OPTION_COLLECTIVE},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"seeds", required_argument, NULL, OPTION_SEEDS},
    {"out", required_argument, NULL, OPTION_OUT},
    {"json", required_argument, NULL, OPTION_JSON},
    {"junit", required_argument, NULL, OPTION_JUNIT},
    {"enforce-time", no_argument, NULL, OPTION_ENFORCE_TIME},
    {"fast", no_argument, NULL, OPTION_FAST},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static int parse_number(const char *option, const char *text, uint64_t min, uint64_t max,
                        uint64_t *out)
{
    if (ddp_text_parse_u64(text, out) != DDP_OK || *out < min || *out > max) {
        return cli_usage_error("%s: \"%s\" is not a number from %llu to %llu", option, text,
                               (unsigned long long)min, (unsigned long long)max);
    }
    return 0;
}

static int add_set(struct cli_options *options, const char *prefix, const char *text)
{
    size_t size = strlen(prefix) + strlen(text) + 1;
    char *copy;

    if (options->set_count == CLI_SETS_MAX) {
        return cli_usage_error("--set: at most %d overrides", CLI_SETS_MAX);
    }
    if (prefix[0] == '\0' && strchr(text, '=') == NULL) {
        return cli_usage_error("--set: \"%s\" is not KEY=VALUE; e.g. --set job.ranks=4", text);
    }
    copy = ddp_mem_array(ddp_mem_system(), size, 1);
    if (copy == NULL) {
        return cli_usage_error("out of memory");
    }
    (void)snprintf(copy, size, "%s%s", prefix, text);
    options->sets[options->set_count++] = copy;
    return 0;
}

static int parse_driver(struct cli_options *options, const char *text)
{
    for (unsigned i = 0; i < HARNESS_DRIVER_COUNT; i++) {
        if (strcmp(text, harness_driver_name((enum harness_driver)i)) == 0) {
            options->driver = (enum harness_driver)i;
            options->has_driver = true;
            return 0;
        }
    }
    return cli_usage_error("--driver: unknown driver \"%s\"; known: sim, proc", text);
}

static int parse_launcher(struct cli_options *options, const char *text)
{
    for (unsigned i = 0; i < HARNESS_LAUNCHER_COUNT; i++) {
        if (strcmp(text, harness_launcher_name((enum harness_launcher)i)) == 0) {
            options->launcher = (enum harness_launcher)i;
            options->has_launcher = true;
            return 0;
        }
    }
    return cli_usage_error("--launcher: unknown launcher \"%s\"; known: own, mpirun", text);
}

/* What the options mean together. */
static int check_options(struct cli_options *options)
{
    if (!options->has_launcher) {
        return 0;
    }
    if (options->has_driver && options->driver == HARNESS_DRIVER_SIM) {
        return cli_usage_error("--launcher: the simulator starts no processes; leave out --driver "
                               "sim or --launcher");
    }
    options->has_driver = true;
    options->driver = HARNESS_DRIVER_PROC;
    return 0;
}

static int parse_one(struct cli_options *options, int id)
{
    uint64_t number = 0;

    switch (id) {
    case OPTION_DRIVER:
        return parse_driver(options, optarg);
    case OPTION_LAUNCHER:
        return parse_launcher(options, optarg);
    case OPTION_DEVICE:
        if (strcmp(optarg, "cpu") != 0 && strcmp(optarg, "cuda") != 0) {
            return cli_usage_error("--device: unknown device \"%s\"; known: cpu, cuda", optarg);
        }
        options->device = optarg;
        return add_set(options, "job.device=", optarg);
    case OPTION_RANKS_PER_GPU:
        return add_set(options, "job.ranks_per_gpu=", optarg);
    case OPTION_SET:
        return add_set(options, "", optarg);
    case OPTION_COLLECTIVE:
        options->has_collective = true;
        return add_set(options, "job.collective=", optarg);
    case OPTION_SEED:
        return parse_number("--seed", optarg, 0, UINT64_MAX, &options->seed);
    case OPTION_SEEDS:
        return parse_number("--seeds", optarg, 1, 100000, &options->seed_count);
    case 'j':
        if (parse_number("-j", optarg, 1, 256, &number) != 0) {
            return CLI_EXIT_USAGE;
        }
        options->jobs = (unsigned)number;
        return 0;
    case OPTION_OUT:
        options->out_dir = optarg;
        return 0;
    case OPTION_JSON:
        options->json = optarg;
        return 0;
    case OPTION_JUNIT:
        options->junit = optarg;
        return 0;
    case OPTION_FAST:
        options->is_fast = true;
        return 0;
    case OPTION_ENFORCE_TIME:
        options->is_time_enforced = true;
        return 0;
    case 'v':
        options->is_verbose = true;
        return 0;
    default:
        break;
    }
    DDP_ASSERT(false); /* every option of the table has its case */
    return CLI_EXIT_USAGE;
}

/* What getopt would not take. problem: '?' unknown or ambiguous, ':' without its argument. */
static int refuse_option(int problem, const char *word)
{
    const char *names[sizeof long_options / sizeof long_options[0]];
    const char *nearest;
    char name[64];
    size_t count = 0;

    if (problem == ':') {
        return cli_usage_error("%s needs a value; see ddprove --help", word);
    }
    while (long_options[count].name != NULL) {
        names[count] = long_options[count].name;
        count++;
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    nearest = ddp_text_nearest(name + strspn(name, "-"), names, count);
    return cli_usage_error("unknown option \"%s\"; %s%s", name,
                           nearest != NULL ? "did you mean --" : "see ddprove --help",
                           nearest != NULL ? nearest : "");
}

static int parse_options(int argc, char **argv, struct cli_options *options)
{
    int id;

    memset(options, 0, sizeof *options);
    options->seed_count = 1;
    opterr = 0;
    while ((id = getopt_long(argc, argv, ":j:vh", long_options, NULL)) != -1) {
        int status;

        if (id == OPTION_HELP || id == 'h') {
            print_help(stdout);
            exit(0);
        }
        status =
            id == '?' || id == ':' ? refuse_option(id, argv[optind - 1]) : parse_one(options, id);
        if (status != 0) {
            return status;
        }
    }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    if (check_options(options) != 0) {
        return CLI_EXIT_USAGE;
    }
    if (options->device != NULL && strcmp(options->device, "cuda") == 0 &&
        !options->has_collective) {
        return add_set(options, "job.collective=", "nccl");
    }
    return 0;
}

static int run_command(const struct cli_command *command, int argc, char **argv)
{
    struct cli_options options;
    int status = parse_options(argc, argv, &options);

    if (status == 0 && options.is_fast && command->run != cli_train) {
        status = cli_usage_error("--fast: its bits do not repeat, so only train takes it");
    }
    status = status == 0 ? command->run(&options) : status;
    if (fflush(stdout) != 0 || ferror(stdout) != 0) {
        (void)cli_usage_error("stdout cannot be written; what it lacks is not reported");
        status = status == 0 ? harness_outcome_exit_code(HARNESS_OUTCOME_ERROR) : status;
    }
    for (size_t i = 0; i < options.set_count; i++) {
        ddp_mem_free(ddp_mem_system(), options.sets[i]);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *names[COMMAND_COUNT];
    const char *nearest;

    if (argc < 2) {
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "rank") == 0) {
        return harness_proc_rank_main();
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("ddprove %s\n", DDPROVE_VERSION);
        return 0;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[1], commands[i].name) == 0) {
            return run_command(&commands[i], argc - 1, argv + 1);
        }
    }
    nearest = ddp_text_nearest(argv[1], names, COMMAND_COUNT);
    return cli_usage_error("unknown command \"%s\"; %s%s", argv[1],
                           nearest != NULL ? "did you mean " : "see ddprove --help",
                           nearest != NULL ? nearest : "");
}
