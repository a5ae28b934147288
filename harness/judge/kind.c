/* See the header. */
#include "harness/judge/kind.h"

static enum harness_cause_kind kind_of_crash(const struct harness_finding *finding)
{
    DDP_ASSERT(harness_verdict_family(finding->verdict) == HARNESS_FAMILY_CRASH);
    if (finding->verdict == HARNESS_VERDICT_CRASH_FINISHED_EARLY) {
        return KIND_ENDED;
    }
    return finding->oracle == HARNESS_ORACLE_USAGE ? KIND_FAILURE : KIND_DEATH;
}

/* What the monitor calls a hang of a rank has its cause in that rank; a circle of waits, a
 * collective that does not start or end, and what the oracles find later may come from others. */
static enum harness_cause_kind kind_of_hang(const struct harness_finding *finding)
{
    DDP_ASSERT(harness_verdict_family(finding->verdict) == HARNESS_FAMILY_HANG);
    switch (finding->verdict) {
    case HARNESS_VERDICT_HANG_CYCLE:
    case HARNESS_VERDICT_HANG_NOT_LAUNCHED:
    case HARNESS_VERDICT_HANG_DEVICE_COMM:
    case HARNESS_VERDICT_HANG_RECOVERY:
        return KIND_WAIT;
    case HARNESS_VERDICT_HANG_NOT_JOINED:
    case HARNESS_VERDICT_HANG_HOST:
        return finding->oracle == HARNESS_ORACLE_MONITOR ? KIND_HELD : KIND_WAIT;
    default:
        return KIND_HELD;
    }
}

static enum harness_cause_kind kind_of_mismatch(const struct harness_finding *finding)
{
    DDP_ASSERT(harness_verdict_family(finding->verdict) == HARNESS_FAMILY_MISMATCH);
    if (finding->verdict == HARNESS_VERDICT_MISMATCH_MESSAGE) {
        return KIND_FAILURE; /* no operation that ranks post makes it so */
    }
    return finding->mode == HARNESS_MODE_STATUS ? KIND_REPORT : KIND_OPERATION;
}

static enum harness_cause_kind kind_of_launch(const struct harness_finding *finding)
{
    DDP_ASSERT(harness_verdict_family(finding->verdict) == HARNESS_FAMILY_LAUNCH);
    if (finding->verdict == HARNESS_VERDICT_LAUNCH_ENVIRONMENT) {
        return harness_rank_set_is_empty(&finding->culprits) ? KIND_REPORT : KIND_IDENTITY;
    }
    return finding->verdict == HARNESS_VERDICT_LAUNCH_CONNECT ? KIND_FAILURE : KIND_OTHER;
}

/* About a schedule or a tree itself. What a rank made of a schedule is not. */
static bool is_proof(const struct harness_finding *finding)
{
    return finding->oracle == HARNESS_ORACLE_TREE || finding->is_of_algorithm;
}

enum harness_cause_kind harness_cause_kind_of(const struct harness_finding *finding)
{
    if (is_proof(finding)) {
        /* No value and no message depends on the number of a round: nothing follows from it. */
        return finding->verdict == HARNESS_VERDICT_MISMATCH_ORDER ? KIND_OTHER : KIND_ALGORITHM;
    }
    switch (harness_verdict_family(finding->verdict)) {
    case HARNESS_FAMILY_CRASH:
        return kind_of_crash(finding);
    case HARNESS_FAMILY_HANG:
        return kind_of_hang(finding);
    case HARNESS_FAMILY_USAGE:
        return finding->verdict == HARNESS_VERDICT_USAGE_UNORDERED ? KIND_RACE : KIND_MISUSE;
    case HARNESS_FAMILY_MISMATCH:
        return kind_of_mismatch(finding);
    case HARNESS_FAMILY_DATA:
        return finding->verdict == HARNESS_VERDICT_DATA_UNEVEN ? KIND_ENDED : KIND_SAMPLES;
    case HARNESS_FAMILY_VALUE:
        return KIND_VALUE;
    case HARNESS_FAMILY_CHECKPOINT:
        return KIND_FILE;
    case HARNESS_FAMILY_RESOURCE:
        return finding->verdict == HARNESS_VERDICT_RESOURCE_LEAK ? KIND_OTHER : KIND_FAILURE;
    case HARNESS_FAMILY_LAUNCH:
        return kind_of_launch(finding);
    case HARNESS_FAMILY_NONE:
    case HARNESS_FAMILY_SLOW:
        break;
    }
    return KIND_OTHER;
}
