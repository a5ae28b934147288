/* Conclusions over time: which findings of successive cuts are reported, and when. Crashes and
 * mismatches are reported at once, and so is host code that is silent beyond its budget, for which
 * it was watched. Other hangs are reported once a second cut at least HARNESS_CONCLUSIONS_SETTLE_NS
 * later agrees, so that a cut that happens to be taken between two steps of a healthy rank accuses
 * no rank. */
#ifndef HARNESS_MONITOR_CONCLUSIONS_H
#define HARNESS_MONITOR_CONCLUSIONS_H

#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two cuts that show the same hang must lie this far apart. */
#define HARNESS_CONCLUSIONS_SETTLE_NS UINT64_C(10000000)

struct harness_conclusion {
    struct harness_finding finding; /* its sets are its own, in the conclusions' memory */
    uint64_t time_ns;               /* reported: when; candidates: first seen */
    bool is_seen;                   /* candidates: in the present cut */
};

struct harness_conclusion_list {
    struct harness_conclusion *items;
    size_t count, capacity;
};

struct harness_conclusions {
    struct ddp_mem *mem;
    /* In order of time; a finding that names more ranks replaces one that names some of them. */
    struct harness_conclusion_list reported;
    struct harness_conclusion_list candidates; /* hangs that were seen, and not yet reported */
    bool is_failed;                            /* out of memory: something may be missing */
    /* Called with each new conclusion. May be NULL. */
    void (*on_report)(void *context, uint64_t time_ns, const struct harness_finding *finding);
    void *report_context;
};

void harness_conclusions_init(struct harness_conclusions *conclusions, struct ddp_mem *mem);
void harness_conclusions_fini(struct harness_conclusions *conclusions);
/* The findings of the cut taken at now_ns. */
void harness_conclusions_note(struct harness_conclusions *conclusions,
                              const struct harness_findings *findings, uint64_t now_ns);
/* Report a finding at once, unless it adds nothing to what was reported. A reported finding of the
 * same verdict about some of the same ranks is replaced by it. Returns whether it was reported. */
bool harness_conclusions_report(struct harness_conclusions *conclusions,
                                const struct harness_finding *finding, uint64_t time_ns);
/* The first reported finding that will not go away, or NULL: slowness may pass, and a monitor that
 * failed is replaced. */
const struct harness_finding *
harness_conclusions_decisive(const struct harness_conclusions *conclusions);

/* A reported hang has this rank among its culprits. */
bool harness_conclusions_is_named(const struct harness_conclusions *conclusions, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
