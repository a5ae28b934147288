/* Must fail: the run that contains it is expected to exit non-zero and to name the check. */
#include "tests/ct.h"

/* A check that does not hold. */
CT_TEST(meta, fails)
{
    CT_CHECK_EQ_U64(2 + 2, 5);
}
