/* Which cases a check goes through. Internal. */
#ifndef HARNESS_COLL_CASES_H
#define HARNESS_COLL_CASES_H

#include "harness/coll/coll.h"

#define HARNESS_COLL_REPEATED_MAX 4u    /* worlds up to this are asked everything twice */
#define HARNESS_COLL_LONG_COUNT   1003u /* the first of the long counts */

/* Calls visit for each case, smaller worlds and counts first, until it says no. test's nodes are
 * borrowed for the call. Returns false if it was stopped. Errors of visit are its own. */
bool harness_coll_cases(enum ddp_coll_kind kind, const struct harness_coll_options *options,
                        bool (*visit)(void *context, const struct harness_coll_case *test),
                        void *context);

#endif
