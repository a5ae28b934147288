/* What `ddprove train` measures, as a table and as a picture. */
#ifndef HARNESS_CLI_PACE_H
#define HARNESS_CLI_PACE_H

#include "ddpcore/base/text.h"

enum { CLI_PACES_MAX = 16 };

struct cli_pace {
    unsigned ranks;
    double step_ms;
    double rows; /* of a step, on all ranks */
    /* Of rank 0's steps: how much of them sums were under way in, and it only waited for them in.
     */
    double reduce_share, wait_share;
};

/* Samples a second, against so many times the first line's; the shares; and how much of a step is
 * what the first one does not need: sums that nothing hides, and processors that ranks share. */
void cli_pace_print_table(const struct cli_pace *paces, unsigned count, struct ddp_text *out);
/* Samples a second over ranks, with the line of a perfect scaling, and below it the shares of a
 * step, as SVG. */
void cli_pace_draw(const struct cli_pace *paces, unsigned count, const char *title,
                   struct ddp_text *out);

#endif
