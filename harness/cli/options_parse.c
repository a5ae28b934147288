/* From the table of options: getopt_long, the help of each command, the nearest names. */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/cli/options.h"

enum { NAME_COLUMNS = 22, LONG_ONLY = 256 };

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
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *option = &cli_option_table[i];
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
    const char *names[CLI_OPTIONS_MAX];
    const char *nearest;
    char name[64];
    size_t count = 0;

    if (problem == ':') {
        return cli_usage_error("%s needs a value; see ddprove --help", word);
    }
    for (size_t i = 0; i < cli_option_count; i++) {
        if (cli_option_table[i].name != NULL) {
            names[count++] = cli_option_table[i].name;
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
    for (size_t i = 0; i < cli_option_count; i++) {
        if (cli_option_table[i].name != NULL) {
            out[count++] = (struct option){cli_option_table[i].name,
                                           cli_option_table[i].argument != NULL ? required_argument
                                                                                : no_argument,
                                           NULL, LONG_ONLY + (int)i};
        }
        if (cli_option_table[i].letter != 0) {
            *letters++ = cli_option_table[i].letter;
        }
        if (cli_option_table[i].letter != 0 && cli_option_table[i].argument != NULL) {
            *letters++ = ':';
        }
    }
    out[count] = (struct option){NULL, 0, NULL, 0};
    *letters = '\0';
}

static const struct cli_option *find(int number)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        if (number == LONG_ONLY + (int)i || (number != 0 && number == cli_option_table[i].letter)) {
            return &cli_option_table[i];
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
               ? cli_options_add_set(options, "job.collective=", "nccl")
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
    struct option long_options[CLI_OPTIONS_MAX + 1];
    char letters[2 * CLI_OPTIONS_MAX + 2];
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
