/* The table of options: what options.c and options_parse.c share. */
#ifndef HARNESS_CLI_OPTIONS_H
#define HARNESS_CLI_OPTIONS_H

#include "harness/cli/cli.h"

enum { CLI_OPTIONS_MAX = 96 };

struct cli_option {
    const char *name;                                          /* "--name"; NULL: none */
    const char *argument;                                      /* NULL: it takes none */
    char letter;                                               /* "-l"; 0: none */
    unsigned commands;                                         /* whose help shows it */
    int (*set)(struct cli_options *options, const char *text); /* returns 0, or an exit code */
    const char *help; /* a line break starts a new line of help */
};
extern const struct cli_option cli_option_table[];
extern const size_t cli_option_count; /* at most CLI_OPTIONS_MAX */

/* options_coll.c: setters of the lab's options. They return 0, or an exit code; the error was
 * printed. */
int cli_set_worlds(struct cli_options *options, const char *text);
int cli_set_counts(struct cli_options *options, const char *text);
int cli_set_transport(struct cli_options *options, const char *text);
int cli_set_segment(struct cli_options *options, const char *text);
int cli_set_min_bytes(struct cli_options *options, const char *text);
int cli_set_max_bytes(struct cli_options *options, const char *text);
int cli_set_factor(struct cli_options *options, const char *text);
int cli_set_iters(struct cli_options *options, const char *text);
int cli_set_warmup(struct cli_options *options, const char *text);
int cli_set_checked(struct cli_options *options, const char *text);

/* Adds the override "<prefix><text>". Returns 0, or an exit code; its error was printed. */
int cli_options_add_set(struct cli_options *options, const char *prefix, const char *text);

#endif
