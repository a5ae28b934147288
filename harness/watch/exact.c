#include "harness/watch/sums.h"
enum harness_sums_exact harness_sums_judge_exact(const struct harness_sums_case *the,
                                                 struct harness_findings *out)
{
    (void)the;
    (void)out;
    return HARNESS_SUMS_NOT_KEPT;
}
