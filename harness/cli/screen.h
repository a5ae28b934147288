/* What `run` shows while it runs: verdicts on stdout, a progress line on stderr if that is a
 * terminal. */
#ifndef HARNESS_CLI_SCREEN_H
#define HARNESS_CLI_SCREEN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_screen {
    bool is_color;   /* stdout is a terminal that may be coloured (NO_COLOR, TERM) */
    bool is_live;    /* stderr is a terminal */
    bool is_verbose; /* what a verdict of a guest stands on is shown too */
    size_t done_count, total_count;
    uint64_t start_ns;
    char slow[300]; /* the cell that takes long, or "" */
};

void cli_screen_init(struct cli_screen *screen, size_t total_count);
/* One more cell has ended. */
void cli_screen_advance(struct cli_screen *screen);
/* A cell takes long: the progress line names it, until another one ends. */
void cli_screen_slow(struct cli_screen *screen, const char *id, const char *driver,
                     uint64_t elapsed_ns);
/* Print a verdict's line. cells: how many it stands for. */
void cli_screen_verdict(const struct cli_screen *screen, const json_t *verdict, unsigned cells);
/* Erase the progress line. */
void cli_screen_clear(const struct cli_screen *screen);

#endif
