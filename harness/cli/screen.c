/* Progress and verdicts. stdout and stderr may be the same terminal, so the progress line is erased
 * before anything else is written, and drawn again afterwards. */
#include "harness/cli/screen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/report/report.h"

void cli_screen_init(struct cli_screen *screen, size_t total_count)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    bool is_dumb = term != NULL && strcmp(term, "dumb") == 0;
    bool is_plain = is_dumb || (no_color != NULL && no_color[0] != '\0');

    memset(screen, 0, sizeof *screen);
    screen->is_color = isatty(STDOUT_FILENO) != 0 && !is_plain;
    screen->is_live = isatty(STDERR_FILENO) != 0 && !is_dumb;
    screen->total_count = total_count;
    screen->start_ns = ddp_clock_now_ns(ddp_clock_monotonic());
}

static void draw(const struct cli_screen *screen)
{
    double seconds =
        (double)(ddp_clock_now_ns(ddp_clock_monotonic()) - screen->start_ns) / (double)DDP_NS_PER_S;
    double rate = seconds > 0 ? (double)screen->done_count / seconds : 0;

    if (!screen->is_live || screen->done_count == screen->total_count) {
        return;
    }
    (void)fprintf(stderr, "\r%zu/%zu cells", screen->done_count, screen->total_count);
    if (rate > 0) {
        (void)fprintf(stderr, ", %.1f/s, %.0f s left", rate,
                      (double)(screen->total_count - screen->done_count) / rate);
    }
    (void)fputs(screen->slow, stderr);
    (void)fputs("\033[K", stderr);
    (void)fflush(stderr);
}

void cli_screen_slow(struct cli_screen *screen, const char *id, const char *driver,
                     uint64_t elapsed_ns)
{
    (void)snprintf(screen->slow, sizeof screen->slow, "; %.200s.%s since %.0f s", id, driver,
                   (double)elapsed_ns / (double)DDP_NS_PER_S);
    draw(screen);
}

void cli_screen_clear(const struct cli_screen *screen)
{
    if (screen->is_live) {
        (void)fputs("\r\033[K", stderr);
        (void)fflush(stderr);
    }
}

void cli_screen_advance(struct cli_screen *screen)
{
    screen->done_count++;
    screen->slow[0] = '\0';
    if (screen->done_count == screen->total_count) {
        cli_screen_clear(screen);
    }
    draw(screen);
}

void cli_screen_verdict(const struct cli_screen *screen, const json_t *verdict, unsigned cells)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, cells, screen->is_color, &text);
    if (screen->is_verbose) {
        harness_report_judged(verdict, &text);
    }
    cli_screen_clear(screen);
    (void)fputs(ddp_text_str(&text), stdout);
    (void)fflush(stdout);
    draw(screen);
    ddp_text_fini(&text);
}
