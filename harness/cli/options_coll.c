/* Options of the lab of collectives: ranges, sizes, how often. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "harness/cli/options.h"

/* "A" or "A-B". */
static int parse_range(const char *option, const char *text, uint64_t min, uint64_t max,
                       struct cli_range *out)
{
    const char *dash = strchr(text, '-');
    char first[24];
    int code;

    (void)snprintf(first, sizeof first, "%.*s", dash != NULL ? (int)(dash - text) : 23, text);
    code = cli_parse_number(option, first, min, max, &out->first);
    out->last = out->first;
    if (code == 0 && dash != NULL) {
        code = cli_parse_number(option, dash + 1, out->first, max, &out->last);
    }
    return code;
}

int cli_set_worlds(struct cli_options *options, const char *text)
{
    options->has_worlds = true;
    return parse_range("--worlds", text, 1, 1024, &options->worlds);
}

int cli_set_counts(struct cli_options *options, const char *text)
{
    options->has_counts = true;
    return parse_range("--counts", text, 0, 1000000, &options->counts);
}

int cli_set_transport(struct cli_options *options, const char *text)
{
    options->is_tcp = strcmp(text, "tcp") == 0;
    return options->is_tcp || strcmp(text, "shm") == 0
               ? 0
               : cli_usage_error("--transport is shm or tcp, not \"%s\"", text);
}

int cli_set_segment(struct cli_options *options, const char *text)
{
    return cli_parse_number("--segment", text, 1, 1000000, &options->segment);
}

/* "8", "32K", "4M", "1G": bytes, as nccl-tests takes them. */
static int parse_size(const char *option, const char *text, uint64_t *out)
{
    static const char units[] = "KMG";
    size_t length = strlen(text);
    const char *unit = length > 1 ? strchr(units, text[length - 1] & ~0x20) : NULL;
    unsigned shift = unit != NULL && *unit != '\0' ? 10 * (unsigned)(unit - units + 1) : 0;
    char number[24];

    (void)snprintf(number, sizeof number, "%.*s", (int)(length - (shift > 0 ? 1 : 0)), text);
    if (ddp_text_parse_u64(number, out) != DDP_OK || *out < 1 || *out > UINT64_MAX >> 32) {
        return cli_usage_error("%s: \"%s\" is no size: bytes, as 512, 32K, 4M or 1G", option, text);
    }
    *out <<= shift;
    return 0;
}

int cli_set_min_bytes(struct cli_options *options, const char *text)
{
    return parse_size("-b", text, &options->bench.min_bytes);
}

int cli_set_max_bytes(struct cli_options *options, const char *text)
{
    return parse_size("-e", text, &options->bench.max_bytes);
}

int cli_set_factor(struct cli_options *options, const char *text)
{
    return cli_parse_number("-f", text, 2, 1024, &options->bench.factor);
}

int cli_set_iters(struct cli_options *options, const char *text)
{
    return cli_parse_number("-n", text, 1, 4096, &options->bench.iters);
}

int cli_set_warmup(struct cli_options *options, const char *text)
{
    options->bench.has_warmup = true;
    return cli_parse_number("-w", text, 0, 4096, &options->bench.warmup);
}

int cli_set_checked(struct cli_options *options, const char *text)
{
    uint64_t number = 1;
    int code = cli_parse_number("-c", text, 0, 1, &number);

    options->bench.is_unchecked = number == 0;
    return code;
}
