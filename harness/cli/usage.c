/* What is wrong with a command line, and numbers in it. */
#include <stdarg.h>
#include <stdio.h>

#include "ddpcore/base/text.h"
#include "harness/cli/cli.h"

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

int cli_parse_number(const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *out)
{
    if (ddp_text_parse_u64(text, out) != DDP_OK || *out < min || *out > max) {
        return cli_usage_error("%s: \"%s\" is not a number from %llu to %llu", option, text,
                               (unsigned long long)min, (unsigned long long)max);
    }
    return 0;
}
