/* The first gap is kept: it names what to look at. */
#include <stdarg.h>
#include <stdio.h>

#include "harness/evidence/internal.h"

void harness_gap_set(struct harness_gap *gap, const char *format, ...)
{
    va_list args;

    if (gap->is_set) {
        return;
    }
    gap->is_set = true;
    va_start(args, format);
    (void)vsnprintf(gap->text, sizeof(gap->text), format, args);
    va_end(args);
}
