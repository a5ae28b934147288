/* train --scaling: the table and the picture. */
#include "harness/cli/pace.h"

enum {
    LEFT = 70,
    TOP = 40,
    WIDTH = 480,
    HEIGHT = 280,
    SHARE_TOP = TOP + HEIGHT + 80,
    SHARE_HEIGHT = 100
};

static double rate(const struct cli_pace *pace)
{
    return pace->rows * 1000.0 / pace->step_ms;
}

void cli_pace_print_table(const struct cli_pace *paces, unsigned count, struct ddp_text *out)
{
    ddp_text_add(
        out,
        "ranks  steps/s  samples/s  of perfect  in all-reduce  only waiting  not needed by "
        "%u rank%s\n",
        paces[0].ranks, paces[0].ranks == 1 ? "" : "s");
    for (unsigned i = 0; i < count; i++) {
        const double perfect = rate(&paces[0]) / paces[0].ranks * paces[i].ranks;
        const double extra = 1 - paces[0].step_ms / paces[i].step_ms;

        ddp_text_add(out, "%5u %8.1f %10.0f %10.0f%% %13.0f%% %12.0f%% %20.0f%%\n", paces[i].ranks,
                     1000.0 / paces[i].step_ms, rate(&paces[i]), 100 * rate(&paces[i]) / perfect,
                     100 * paces[i].reduce_share, 100 * paces[i].wait_share,
                     100 * (extra > 0 ? extra : 0));
    }
}

static double most_rate(const struct cli_pace *paces, unsigned count)
{
    double most = 0;

    for (unsigned i = 0; i < count; i++) {
        const double perfect = rate(&paces[0]) / paces[0].ranks * paces[i].ranks;

        most = rate(&paces[i]) > most ? rate(&paces[i]) : most;
        most = perfect > most ? perfect : most;
    }
    return most;
}

static unsigned most_ranks(const struct cli_pace *paces, unsigned count)
{
    unsigned most = 1;

    for (unsigned i = 0; i < count; i++) {
        most = paces[i].ranks > most ? paces[i].ranks : most;
    }
    return most;
}

/* A bar for each number of ranks: all of it sums under way, the dark part nothing but waiting. */
static void draw_shares(const struct cli_pace *paces, unsigned count, unsigned ranks,
                        struct ddp_text *out)
{
    ddp_text_add(out, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#000\"/>\n", LEFT, SHARE_TOP,
                 SHARE_TOP + SHARE_HEIGHT, LEFT + WIDTH);
    for (unsigned i = 0; i < count; i++) {
        const double shares[2] = {paces[i].reduce_share, paces[i].wait_share};
        const double x = LEFT + WIDTH * (double)paces[i].ranks / ranks;

        for (unsigned k = 0; k < 2; k++) {
            const double share = shares[k] < 1 ? shares[k] : 1;

            ddp_text_add(out,
                         "<rect x=\"%.1f\" y=\"%.1f\" width=\"16\" height=\"%.1f\" "
                         "fill=\"%s\"/>\n",
                         x - 8, SHARE_TOP + SHARE_HEIGHT * (1 - share), SHARE_HEIGHT * share,
                         k == 0 ? "#9cf" : "#036");
        }
        ddp_text_add(out, "<text x=\"%.1f\" y=\"%.1f\">%.0f%%</text>\n", x + 10,
                     SHARE_TOP + SHARE_HEIGHT * (1 - shares[0]) + 4, 100 * shares[0]);
    }
    ddp_text_add(out,
                 "<text x=\"%d\" y=\"%d\">of a step, sums are under way; dark: nothing but waiting "
                 "for them</text>\n",
                 LEFT - 60, SHARE_TOP - 14);
}

void cli_pace_draw(const struct cli_pace *paces, unsigned count, const char *title,
                   struct ddp_text *out)
{
    const double top = most_rate(paces, count);
    const unsigned ranks = most_ranks(paces, count);
    const double perfect = rate(&paces[0]) / paces[0].ranks * ranks;

    ddp_text_add(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                 "font-family=\"monospace\" font-size=\"12\">\n<title>",
                 LEFT + WIDTH + 60, SHARE_TOP + SHARE_HEIGHT + 20);
    for (const char *at = title; *at != '\0'; at++) { /* a name that an XML reader takes */
        ddp_text_add(out, "%c", *at == '<' || *at == '&' ? '_' : *at);
    }
    ddp_text_add(out, "</title>\n");
    ddp_text_add(out, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#000\"/>\n", LEFT, TOP,
                 TOP + HEIGHT, LEFT + WIDTH);
    ddp_text_add(out, "<path d=\"M%d %dL%d %.1f\" stroke=\"#999\" stroke-dasharray=\"4\"/>\n", LEFT,
                 TOP + HEIGHT, LEFT + WIDTH, TOP + HEIGHT * (1 - perfect / top));
    ddp_text_add(out, "<path d=\"");
    for (unsigned i = 0; i < count; i++) {
        ddp_text_add(out, "%s%.1f %.1f", i == 0 ? "M" : "L",
                     LEFT + WIDTH * (double)paces[i].ranks / ranks,
                     TOP + HEIGHT * (1 - rate(&paces[i]) / top));
    }
    ddp_text_add(out, "\" fill=\"none\" stroke=\"#06c\" stroke-width=\"2\"/>\n");
    for (unsigned i = 0; i < count; i++) {
        const double x = LEFT + WIDTH * (double)paces[i].ranks / ranks;
        const double y = TOP + HEIGHT * (1 - rate(&paces[i]) / top);

        ddp_text_add(out,
                     "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#06c\"/>\n"
                     "<text x=\"%.1f\" y=\"%.1f\">%.0f</text>\n"
                     "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n",
                     x, y, x + 6, y - 6, rate(&paces[i]), x, TOP + HEIGHT + 18, paces[i].ranks);
    }
    ddp_text_add(out,
                 "<text x=\"%d\" y=\"%d\">samples/s</text>\n"
                 "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">ranks; dashed: perfect</text>\n",
                 LEFT - 60, TOP - 14, LEFT + WIDTH, TOP + HEIGHT + 40);
    draw_shares(paces, count, ranks, out);
    ddp_text_add(out, "</svg>\n");
}
