/* What sort of thing a finding is, when one asks what it may have caused. Internal.
 *
 * The kinds are in the order of cause and effect. */
#ifndef HARNESS_JUDGE_KIND_H
#define HARNESS_JUDGE_KIND_H

#include "harness/verdict/verdict.h"

enum harness_cause_kind {
    KIND_IDENTITY,  /* a rank was told to be somebody else, or nobody */
    KIND_DEATH,     /* a rank's process is gone */
    KIND_HELD,      /* a rank does not go on by itself: stopped, or busy for too long */
    KIND_ENDED,     /* a rank ended early or ran out of data */
    KIND_SAMPLES,   /* a rank trained on other samples, or on too few */
    KIND_OPERATION, /* a rank posted something else than planned */
    KIND_MISUSE,    /* the core was used wrongly */
    KIND_ALGORITHM, /* a collective's schedule or tree is wrong, whoever runs it */
    KIND_RACE,      /* device work without an order: values may be wrong, messages are right */
    KIND_VALUE,     /* a value differs */
    KIND_REPORT,    /* ranks reported that operations or models differ */
    KIND_FAILURE,   /* a rank reported that something failed */
    KIND_WAIT,      /* ranks wait for others */
    KIND_FILE,      /* a checkpoint */
    KIND_OTHER
};

enum harness_cause_kind harness_cause_kind_of(const struct harness_finding *finding);

#endif
