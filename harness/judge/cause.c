/* Cause and consequence between findings.
 *
 * One table of classes says which class may cause which. Within the value class the stages of a
 * step (oracle.def) give the order. A cause in a later step never explains a consequence in an
 * earlier one. */
#include "harness/judge/cause.h"

enum finding_class {
    CLASS_CRASH,
    CLASS_STOPPED_WORK, /* a rank ended early or ran out of data */
    CLASS_USAGE,
    CLASS_UNORDERED, /* device work raced: its values may be wrong, its messages are right */
    CLASS_MISMATCH,
    CLASS_HANG,
    CLASS_VALUE,
    CLASS_CHECKPOINT,
    CLASS_DATA,
    CLASS_OTHER,
    CLASS_COUNT
};

static enum finding_class class_of(const struct harness_finding *finding)
{
    switch (finding->verdict) {
    case HARNESS_VERDICT_CRASH_FINISHED_EARLY:
    case HARNESS_VERDICT_DATA_UNEVEN:
        return CLASS_STOPPED_WORK;
    case HARNESS_VERDICT_USAGE_UNORDERED:
        return CLASS_UNORDERED;
    default:
        break;
    }
    switch (harness_verdict_family(finding->verdict)) {
    case HARNESS_FAMILY_CRASH:
        return CLASS_CRASH;
    case HARNESS_FAMILY_USAGE:
        return CLASS_USAGE;
    case HARNESS_FAMILY_MISMATCH:
        return CLASS_MISMATCH;
    case HARNESS_FAMILY_HANG:
        return CLASS_HANG;
    case HARNESS_FAMILY_VALUE:
        return CLASS_VALUE;
    case HARNESS_FAMILY_CHECKPOINT:
        return CLASS_CHECKPOINT;
    case HARNESS_FAMILY_DATA:
        return CLASS_DATA;
    case HARNESS_FAMILY_NONE:
    case HARNESS_FAMILY_SLOW:
    case HARNESS_FAMILY_LAUNCH:
    case HARNESS_FAMILY_RESOURCE:
        break;
    }
    return CLASS_OTHER;
}

/* causes[a][b]: a finding of class a may be the cause of one of class b. */
static const bool causes[CLASS_COUNT][CLASS_COUNT] = {
    [CLASS_CRASH] = {[CLASS_STOPPED_WORK] = true, [CLASS_HANG] = true},
    [CLASS_STOPPED_WORK] = {[CLASS_MISMATCH] = true, [CLASS_HANG] = true, [CLASS_DATA] = true},
    [CLASS_USAGE] = {[CLASS_STOPPED_WORK] = true,
                     [CLASS_MISMATCH] = true,
                     [CLASS_HANG] = true,
                     [CLASS_VALUE] = true},
    [CLASS_UNORDERED] = {[CLASS_VALUE] = true},
    [CLASS_MISMATCH] = {[CLASS_HANG] = true, [CLASS_VALUE] = true},
    [CLASS_DATA] = {[CLASS_VALUE] = true},
};

/* The order in which device hangs cause each other, from 1; 0: no hang of a device. Compute that
 * does not end keeps its rank's collectives from starting, a collective that does not start keeps
 * its peers inside it, and those keep hosts waiting. */
static int device_depth(enum harness_verdict verdict)
{
    switch (verdict) {
    case HARNESS_VERDICT_HANG_DEVICE_COMPUTE:
        return 1;
    case HARNESS_VERDICT_HANG_NOT_LAUNCHED:
        return 2;
    case HARNESS_VERDICT_HANG_DEVICE_COMM:
        return 3;
    case HARNESS_VERDICT_HANG_CYCLE:
    case HARNESS_VERDICT_HANG_RECOVERY:
        return 4;
    default:
        return 0;
    }
}

/* The monitor's own findings of hangs: a device explains what it makes other ranks wait for. */
static bool device_explains(const struct harness_finding *a, const struct harness_finding *b)
{
    int depth_a = device_depth(a->verdict);
    int depth_b = device_depth(b->verdict);

    DDP_ASSERT(a->oracle == HARNESS_ORACLE_MONITOR && b->oracle == HARNESS_ORACLE_MONITOR);
    return depth_a > 0 && depth_a < depth_b &&
           !harness_rank_set_is_subset(&b->culprits, &a->culprits) &&
           (a->step < 0 || b->step < 0 || a->step <= b->step);
}

/* Within one class: the earlier step, then the earlier stage or the more certain source. */
static bool explains_within_class(const struct harness_finding *a, const struct harness_finding *b,
                                  enum finding_class class)
{
    int stage_a = harness_oracle_stage(a->oracle);
    int stage_b = harness_oracle_stage(b->oracle);
    bool is_monitor_a = a->oracle == HARNESS_ORACLE_MONITOR;
    bool is_monitor_b = b->oracle == HARNESS_ORACLE_MONITOR;

    DDP_ASSERT(class < CLASS_COUNT && class_of(a) == class && class_of(b) == class);
    switch (class) {
    case CLASS_VALUE:
        if (a->step != b->step) {
            return a->step >= 0 && (b->step < 0 || a->step < b->step);
        }
        DDP_ASSERT(stage_a >= 0 && stage_b >= 0);
        return stage_a != 0 && stage_a < stage_b;
    case CLASS_MISMATCH:
        /* The comparison with the program names the difference; a rank's own status only says that
         * there is one. What is posted after the first difference follows from it. */
        if (a->mode == HARNESS_MODE_STATUS) {
            return false;
        }
        return b->mode == HARNESS_MODE_STATUS || (a->op.seq != 0 && b->op.seq > a->op.seq) ||
               (a->op.seq == b->op.seq && is_monitor_a && !is_monitor_b &&
                a->verdict == b->verdict);
    case CLASS_HANG:
        if (is_monitor_a && is_monitor_b) {
            return device_explains(a, b);
        }
        return is_monitor_a;
    case CLASS_CRASH:
    case CLASS_STOPPED_WORK:
        return is_monitor_a && !is_monitor_b;
    case CLASS_CHECKPOINT:
        /* What a reader reports about the file explains what loading it led to. */
        return a->mode == HARNESS_MODE_STATUS && b->mode != HARNESS_MODE_STATUS;
    case CLASS_USAGE:
    case CLASS_UNORDERED:
    case CLASS_DATA:
    case CLASS_OTHER:
    case CLASS_COUNT:
        break;
    }
    return false;
}

/* Ranks reported that operations differ, and no comparison shows which. A rank that recorded an
 * operation without taking part in it causes that, and its wrong values name it. */
static bool is_self_reported(const struct harness_finding *finding, enum finding_class class)
{
    return class == CLASS_MISMATCH && finding->mode == HARNESS_MODE_STATUS;
}

/* An extra collective works on a buffer while its rank goes on using it. */
static bool is_extra_work(const struct harness_finding *a, const struct harness_finding *b)
{
    return a->verdict == HARNESS_VERDICT_MISMATCH_EXTRA &&
           b->verdict == HARNESS_VERDICT_USAGE_UNORDERED && a->step == b->step &&
           a->op.bucket == b->op.bucket && harness_rank_set_is_subset(&b->culprits, &a->culprits);
}

/* Gradients that were not reduced are used while buckets are being reduced. PyTorch reports that
 * one pass late. */
static bool is_unfinished_pass(const struct harness_finding *a, const struct harness_finding *b)
{
    return a->verdict == HARNESS_VERDICT_USAGE_UNUSED_PARAMETER &&
           b->verdict == HARNESS_VERDICT_USAGE_UNORDERED &&
           (a->step < 0 || b->step < 0 || a->step <= b->step + 1);
}

static bool explains(const struct harness_finding *a, const struct harness_finding *b)
{
    enum finding_class class_a = class_of(a);
    enum finding_class class_b = class_of(b);

    if (is_unfinished_pass(a, b) || is_extra_work(a, b)) {
        return true;
    }
    if (class_a == class_b) {
        return explains_within_class(a, b, class_a);
    }
    if (is_self_reported(a, class_a) != is_self_reported(b, class_b) &&
        (class_a == CLASS_VALUE || class_b == CLASS_VALUE)) {
        return class_a == CLASS_VALUE && !harness_rank_set_is_empty(&a->culprits) &&
               (a->step < 0 || b->step < 0 || a->step <= b->step);
    }
    if (!causes[class_a][class_b]) {
        return false;
    }
    return a->step < 0 || b->step < 0 || a->step <= b->step;
}

bool harness_finding_explains(const struct harness_finding *a, const struct harness_finding *b)
{
    bool is_cause = a != b && explains(a, b);

    DDP_ASSERT(a->verdict != HARNESS_VERDICT_NONE && b->verdict != HARNESS_VERDICT_NONE);
    DDP_ASSERT(!is_cause || !explains(b, a)); /* else both would count as explained */
    return is_cause;
}
