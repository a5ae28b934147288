/* Options of the command line: one table, from which getopt_long, the help of each command and the
 * nearest names come. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/cli/cli.h"

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

static int set_driver(struct cli_options *options, const char *text)
{
    options->is_on_both = strcmp(text, "both") == 0;
    if (options->is_on_both) {
        return 0;
    }
    options->has_driver = harness_driver_parse(text, &options->driver) == DDP_OK;
    if (options->has_driver) {
        return 0;
    }
    return cli_usage_error("--driver: unknown driver \"%s\"; known: sim, proc", text);
}

static int set_launcher(struct cli_options *options, const char *text)
{
    options->has_launcher = harness_launcher_parse(text, &options->launcher) == DDP_OK;
    options->has_guest_launcher =
        harness_guest_launcher_parse(text, &options->guest_launcher) == DDP_OK;
    options->launcher_text = text; /* which of them it may be, the command says: settle */
    return 0;
}

static int set_device(struct cli_options *options, const char *text)
{
    options->is_on_cuda = strcmp(text, "cuda") == 0;
    if (!options->is_on_cuda && strcmp(text, "cpu") != 0) {
        return cli_usage_error("--device: unknown device \"%s\"; known: cpu, cuda", text);
    }
    return add_set(options, "job.device=", text);
}

static int set_require(struct cli_options *options, const char *text)
{
    bool is_cuda = strcmp(text, "cuda") == 0;

    if (!is_cuda && strcmp(text, "mpi") != 0) {
        return cli_usage_error("--require: \"%s\" is not known; known: cuda, mpi", text);
    }
    options->requires_cuda = options->requires_cuda || is_cuda;
    options->requires_mpi = options->requires_mpi || !is_cuda;
    return 0;
}

static int set_ranks_per_gpu(struct cli_options *options, const char *text)
{
    return add_set(options, "job.ranks_per_gpu=", text);
}

static int set_key(struct cli_options *options, const char *text)
{
    return add_set(options, "", text);
}

static int set_collective(struct cli_options *options, const char *text)
{
    options->has_collective = true;
    options->collective_set = options->set_count;
    return add_set(options, "job.collective=", text);
}

static int set_seed(struct cli_options *options, const char *text)
{
    options->has_seed = true;
    return cli_parse_number("--seed", text, 0, UINT64_MAX, &options->seed);
}

static int set_seeds(struct cli_options *options, const char *text)
{
    return cli_parse_number("--seeds", text, 1, 100000, &options->seed_count);
}

static int set_jobs(struct cli_options *options, const char *text)
{
    uint64_t number = 0;
    int code = cli_parse_number("-j", text, 1, 256, &number);

    options->jobs = (unsigned)number;
    return code;
}

static int set_cases(struct cli_options *options, const char *text)
{
    return cli_parse_number("--cases", text, 1, 1000000000, &options->case_count);
}

static int set_ranks(struct cli_options *options, const char *text)
{
    return cli_parse_number("--ranks", text, 1, 1024, &options->ranks);
}

static int set_adapter(struct cli_options *options, const char *text)
{
    return harness_guest_adapter_parse(text, &options->adapter) == DDP_OK
               ? 0
               : cli_usage_error("--adapter is none, mpi, nccl or torch, not \"%s\"", text);
}

static int set_steps(struct cli_options *options, const char *text)
{
    options->steps = text;
    return 0;
}

static int set_prove(struct cli_options *options, const char *text)
{
    options->is_proving = strcmp(text, "sums") == 0;
    options->is_equivalence = strcmp(text, "equivalence") == 0;
    return options->is_proving || options->is_equivalence
               ? 0
               : cli_usage_error("--prove is sums or equivalence, not \"%s\"", text);
}

static int set_record(struct cli_options *options, const char *text)
{
    options->record_dir = text;
    return 0;
}

static int set_against(struct cli_options *options, const char *text)
{
    options->against_dir = text;
    return 0;
}

static int set_limit(struct cli_options *options, const char *text)
{
    return cli_parse_number("--limit", text, 1, 1000000, &options->limit_s);
}

static int set_on_failure(struct cli_options *options, const char *text)
{
    options->is_left = strcmp(text, "leave") == 0;
    if (options->is_left || strcmp(text, "end") == 0) {
        return 0;
    }
    return cli_usage_error("--on-failure is end or leave, not \"%s\"", text);
}

/* Seconds, with or without the unit. */
static int set_budget(struct cli_options *options, const char *text)
{
    char number[24];
    size_t size = strlen(text);

    size -= size > 0 && text[size - 1] == 's';
    (void)snprintf(number, sizeof number, "%.*s", (int)(size < 23 ? size : 23), text);
    return cli_parse_number("--budget", number, 1, 1000000, &options->budget_s);
}

static int set_shard(struct cli_options *options, const char *text)
{
    const char *slash = strchr(text, '/');
    char number[24];
    uint64_t shard = 0;
    uint64_t count = 0;
    int code;

    if (slash == NULL || slash - text > 20) {
        return cli_usage_error("--shard: \"%s\" is not i/n, as in 0/4", text);
    }
    (void)snprintf(number, sizeof number, "%.*s", (int)(slash - text), text);
    code = cli_parse_number("--shard", slash + 1, 1, 1000000, &count);
    code = code == 0 ? cli_parse_number("--shard", number, 0, count - 1, &shard) : code;
    options->shard = (uint32_t)shard;
    options->shard_count = (uint32_t)count;
    return code;
}

static int set_out(struct cli_options *options, const char *text)
{
    options->out_dir = text;
    return 0;
}

static int set_json(struct cli_options *options, const char *text)
{
    options->json = text;
    return 0;
}

static int set_junit(struct cli_options *options, const char *text)
{
    options->junit = text;
    return 0;
}

static int set_scenario(struct cli_options *options, const char *text)
{
    options->scenario = text;
    return 0;
}

static int set_keep(struct cli_options *options, const char *text)
{
    if (strcmp(text, "all") != 0 && strcmp(text, "failed") != 0) {
        return cli_usage_error("--keep is all or failed, not \"%s\"", text);
    }
    options->is_kept_failed = strcmp(text, "failed") == 0;
    return 0;
}

/* Options without an argument. */
#define FLAG(name, member)                                         \
    static int name(struct cli_options *options, const char *text) \
    {                                                              \
        (void)text;                                                \
        options->member = true;                                    \
        return 0;                                                  \
    }
FLAG(set_resumed, is_resumed)
FLAG(set_time_enforced, is_time_enforced)
FLAG(set_events, has_events)
FLAG(set_fail_fast, is_fail_fast)
FLAG(set_fast, is_fast)
FLAG(set_verbose, is_verbose)
FLAG(set_help, is_help)
#undef FLAG

#define LOADS (CLI_RUN | CLI_TRAIN | CLI_PLAN | CLI_LINT | CLI_LIST) /* they load scenarios */
#define RUNS  (CLI_RUN | CLI_TRAIN)

static const struct cli_option {
    const char *name;                                          /* "--name"; NULL: none */
    const char *argument;                                      /* NULL: it takes none */
    char letter;                                               /* "-l"; 0: none */
    unsigned commands;                                         /* whose help shows it */
    int (*set)(struct cli_options *options, const char *text); /* returns 0, or an exit code */
    const char *help; /* a line break starts a new line of help */
} table[] = {
    {"driver", "sim|proc", 0, RUNS | CLI_CAMPAIGN | CLI_SHRINK, set_driver,
     "default: every driver a scenario allows; of a campaign:\nits own, or both"},
    {"cases", "N", 0, CLI_CAMPAIGN, set_cases, "how many (default: the campaign's)"},
    {"budget", "SECONDS", 0, CLI_CAMPAIGN, set_budget, "begin no case later than that"},
    {"shard", "I/N", 0, CLI_CAMPAIGN, set_shard,
     "the cases k with k mod N = I (default: as Slurm, Open MPI,\nKubernetes or GoogleTest say in "
     "the environment, else 0/1)"},
    {"resume", NULL, 0, CLI_CAMPAIGN, set_resumed, "go on with what --out has of this shard"},
    {"ranks", "N", 0, CLI_EXEC, set_ranks,
     "start N copies, each told who it is as torchrun would\n(default: one, which starts the "
     "ranks)"},
    {"adapter", "none|mpi|nccl|torch", 0, CLI_EXEC, set_adapter,
     "what shows the program's collectives; none: the program itself\n(default); mpi, nccl: a "
     "library that is loaded into it"},
    {"prove", "sums|equivalence", 0, CLI_EXEC, set_prove,
     "sums: judge the result of every collective too;\nequivalence: a PyTorch program computes "
     "what "
     "one device\nwould, bit for bit"},
    {"steps", "A[-B]|A,B,...", 0, CLI_EXEC, set_steps,
     "of --prove sums: these steps bit for bit, their data go to\nthe folder --out names; of "
     "equivalence: these steps only"},
    {"record", "DIR", 0, CLI_EXEC, set_record,
     "if all is well, write down which collectives were posted"},
    {"against", "DIR", 0, CLI_EXEC, set_against, "they must be those that --record wrote there"},
    {"on-failure", "end|leave", 0, CLI_EXEC, set_on_failure,
     "what becomes of the job once something is wrong (default: end)"},
    {"limit", "SECONDS", 0, CLI_EXEC, set_limit,
     "ranks may wait so long for one that is in code of its own\n(default: 60); if it is given, "
     "nothing at all may move for\nten times as long"},
    {"launcher", "NAME", 0, RUNS | CLI_EXEC, set_launcher,
     "own, mpirun: who starts the processes of proc (implies\n--driver proc); of exec also "
     "torchrun, "
     "srun and env (the\ncommand itself): who starts the --ranks copies"},
    {"device", "cpu|cuda", 0, LOADS, set_device,
     "same as --set job.device=NAME; cuda implies --collective\nnccl unless one is given"},
    {"require", "cuda|mpi", 0, CLI_RUN, set_require,
     "a cell that is skipped because this is missing, or too\nfew cards are, is an error; may be "
     "repeated"},
    {"ranks-per-gpu", "N", 0, LOADS, set_ranks_per_gpu, "ranks that share a card (default 1)"},
    {"set", "KEY=VALUE", 0, LOADS | CLI_EXEC, set_key,
     "override a scenario's key, e.g. job.ranks=4"},
    {"collective", "NAME", 0, LOADS, set_collective, "same as --set job.collective=NAME"},
    {"seed", "N", 0, RUNS | CLI_CAMPAIGN | CLI_SHRINK, set_seed,
     "of the simulator's scheduler (default 0), or of a campaign"},
    {"seeds", "N", 0, CLI_RUN, set_seeds, "sim: run every cell under N seeds, from --seed on"},
    {NULL, "N", 'j', CLI_RUN | CLI_CAMPAIGN, set_jobs,
     "cells at a time (default: as many as cores)"},
    {"out", "DIR", 0, RUNS | CLI_CAMPAIGN | CLI_SHRINK | CLI_EXEC, set_out,
     "run folders (default: runs/<time>; train keeps none); of\nexec: for the data of --steps"},
    {"keep", "all|failed", 0, CLI_RUN, set_keep,
     "failed: of a cell that passes in sim only verdict.json is\nwritten (default: all)"},
    {"json", "FILE", 0, CLI_RUN | CLI_EXEC | CLI_DIAGNOSE, set_json,
     "write all verdicts, as one JSON object"},
    {"scenario", "FILE", 0, CLI_DIAGNOSE, set_scenario,
     "write a scenario in which ddprove's own ranks go wrong in the\nsame way"},
    {"junit", "FILE", 0, CLI_RUN | CLI_EXEC, set_junit, "write all verdicts, as JUnit XML"},
    {"enforce-time", NULL, 0, CLI_RUN | CLI_CHECK, set_time_enforced,
     "judge within_ms on real time too"},
    {"events", NULL, 0, CLI_EXPLAIN, set_events,
     "also the faults that fired, what the monitor saw, and the last\nevents of each rank"},
    {"fail-fast", NULL, 0, CLI_RUN | CLI_CAMPAIGN, set_fail_fast,
     "start no other cell or case once one has failed"},
    {"fast", NULL, 0, CLI_TRAIN, set_fast, "on cuda: TF32 and whatever kernels are fastest"},
    {NULL, NULL, 'v', CLI_RUN | CLI_EXEC, set_verbose, "one line a cell"},
    {"help", NULL, 'h', CLI_EVERY_COMMAND, set_help, "show this"},
};

enum { TABLE_COUNT = sizeof table / sizeof table[0], NAME_COLUMNS = 22, LONG_ONLY = 256 };

/* Its first line goes behind the option's name, the others below it. */
static void print_lines(const char *text, FILE *out)
{
    for (;;) {
        size_t size = strcspn(text, "\n");

        (void)fprintf(out, " %.*s\n", (int)size, text);
        if (text[size] == '\0') {
            return;
        }
        text += size + 1;
        (void)fprintf(out, "  %-*s", NAME_COLUMNS, "");
    }
}

void cli_options_print_help(unsigned commands, FILE *out)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        const struct cli_option *option = &table[i];
        char letter[3] = {'-', option->letter, '\0'};
        char name[64];

        if ((option->commands & commands) == 0) {
            continue;
        }
        (void)snprintf(name, sizeof name, "%s%s%s%s%s%s", option->letter != 0 ? letter : "",
                       option->letter != 0 && option->name != NULL ? ", " : "",
                       option->name != NULL ? "--" : "", option->name != NULL ? option->name : "",
                       option->argument != NULL ? " " : "",
                       option->argument != NULL ? option->argument : "");
        (void)fprintf(out, "  %-*s", NAME_COLUMNS, name);
        print_lines(option->help, out);
    }
}

/* What getopt did not take. problem: '?' unknown or ambiguous, ':' without its argument. */
static int refuse_option(int problem, const char *word)
{
    const char *names[TABLE_COUNT];
    const char *nearest;
    char name[64];
    size_t count = 0;

    if (problem == ':') {
        return cli_usage_error("%s needs a value; see ddprove --help", word);
    }
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (table[i].name != NULL) {
            names[count++] = table[i].name;
        }
    }
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    nearest = ddp_text_nearest(name + strspn(name, "-"), names, count);
    return cli_usage_error("unknown option \"%s\"; %s%s", name,
                           nearest != NULL ? "did you mean --" : "see ddprove --help",
                           nearest != NULL ? nearest : "");
}

/* The table as getopt_long takes it. A row's number is LONG_ONLY + its index, or its letter. */
static void describe(struct option *out, char *letters)
{
    size_t count = 0;

    *letters++ =
        ':'; /* getopt then returns ':' for a missing argument, '?' for an unknown option */
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (table[i].name != NULL) {
            out[count++] = (struct option){
                table[i].name, table[i].argument != NULL ? required_argument : no_argument, NULL,
                LONG_ONLY + (int)i};
        }
        if (table[i].letter != 0) {
            *letters++ = table[i].letter;
        }
        if (table[i].letter != 0 && table[i].argument != NULL) {
            *letters++ = ':';
        }
    }
    out[count] = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

static const struct cli_option *find(int number)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        if (number == LONG_ONLY + (int)i || (number != 0 && number == table[i].letter)) {
            return &table[i];
        }
    }
    return NULL;
}

/* What the options mean together. */
static int settle(struct cli_options *options, unsigned command)
{
    if (options->is_on_both && command != CLI_CAMPAIGN) {
        return cli_usage_error("--driver: both is for campaigns; leave it out to run on both");
    }
    if (options->is_fast && command != CLI_TRAIN) {
        return cli_usage_error("--fast: its bits do not repeat, so only train takes it");
    }
    if (command == CLI_EXEC) {
        options->has_launcher = false;
        return options->launcher_text == NULL || options->has_guest_launcher
                   ? 0
                   : cli_usage_error("--launcher is own, mpirun, torchrun, srun or env, not \"%s\"",
                                     options->launcher_text);
    }
    if (options->launcher_text != NULL && !options->has_launcher) {
        return cli_usage_error("--launcher: unknown launcher \"%s\"; known: own, mpirun",
                               options->launcher_text);
    }
    if (options->has_launcher) {
        if (options->has_driver && options->driver == HARNESS_DRIVER_SIM) {
            return cli_usage_error("--launcher: the simulator starts no processes; leave out "
                                   "--driver sim or --launcher");
        }
        options->has_driver = true;
        options->driver = HARNESS_DRIVER_PROC;
    }
    return options->is_on_cuda && !options->has_collective
               ? add_set(options, "job.collective=", "nccl")
               : 0;
}

/* What is behind "--" is somebody else's command. Returns how many words are before it. */
static int cut_command(int argc, char **argv, struct cli_options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            options->command = argv + i + 1;
            return i;
        }
    }
    return argc;
}

int cli_options_parse(int argc, char **argv, unsigned command, struct cli_options *options)
{
    struct option long_options[TABLE_COUNT + 1];
    char letters[2 * TABLE_COUNT + 2];
    int number;

    memset(options, 0, sizeof *options);
    if (command == CLI_EXEC) {
        argc = cut_command(argc, argv, options);
    }
    options->seed_count = 1;
    opterr = 0;
    describe(long_options, letters);
    while (!options->is_help &&
           (number = getopt_long(argc, argv, letters, long_options, NULL)) != -1) {
        const struct cli_option *option = find(number);
        int code =
            option != NULL ? option->set(options, optarg) : refuse_option(number, argv[optind - 1]);

        if (code != 0) {
            return code;
        }
    }
    options->paths = argv + optind;
    options->path_count = argc - optind;
    return options->is_help ? 0 : settle(options, command);
}

void cli_options_fini(struct cli_options *options)
{
    for (size_t i = 0; i < options->set_count; i++) {
        ddp_mem_free(ddp_mem_system(), options->sets[i]);
    }
}
