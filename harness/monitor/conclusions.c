/* Conclusions over time. A finding is identified by its verdict and its culprits: text and victims
 * may differ from cut to cut. */
#include "harness/monitor/conclusions.h"

#include <string.h>

void harness_conclusions_init(struct harness_conclusions *conclusions, struct ddp_mem *mem)
{
    *conclusions = (struct harness_conclusions){.mem = mem};
}

static void free_list(struct ddp_mem *mem, struct harness_conclusion_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        harness_finding_free(&list->items[i].finding);
    }
    ddp_mem_free(mem, list->items);
}

void harness_conclusions_fini(struct harness_conclusions *conclusions)
{
    free_list(conclusions->mem, &conclusions->reported);
    free_list(conclusions->mem, &conclusions->candidates);
    *conclusions = (struct harness_conclusions){.mem = conclusions->mem};
}

/* A zeroed conclusion at the end of a list. */
static struct harness_conclusion *append(struct harness_conclusions *conclusions,
                                         struct harness_conclusion_list *list)
{
    struct harness_conclusion *items =
        ddp_mem_grow(conclusions->mem, list->items, list->count, &list->capacity, sizeof(*items));

    if (items == NULL) {
        conclusions->is_failed = true;
        return NULL;
    }
    list->items = items;
    list->items[list->count] = (struct harness_conclusion){.time_ns = 0};
    return &list->items[list->count++];
}

static void keep(struct harness_conclusions *conclusions, struct harness_conclusion *place,
                 const struct harness_finding *finding, uint64_t time_ns)
{
    harness_finding_free(&place->finding);
    place->finding = harness_finding_copy(finding, conclusions->mem);
    place->time_ns = time_ns;
    conclusions->is_failed |= harness_finding_is_failed(&place->finding);
}

static bool is_hang(enum harness_verdict verdict)
{
    return harness_verdict_family(verdict) == HARNESS_FAMILY_HANG;
}

/* A rank's host code is silent beyond its budget, for which it was watched. What devices show says
 * more when it is seen again: their words move one by one. */
static bool is_silence(const struct harness_finding *finding)
{
    return finding->mode == HARNESS_MODE_BUDGET && !harness_verdict_is_of_device(finding->verdict);
}

/* A reported finding has this one in it: the same verdict about these ranks and perhaps others. Of
 * a hang, any verdict about them: what they do after they were named is a consequence. */
static bool is_covered(const struct harness_conclusions *conclusions,
                       const struct harness_finding *finding)
{
    for (size_t i = 0; i < conclusions->reported.count; i++) {
        const struct harness_finding *reported = &conclusions->reported.items[i].finding;

        if ((reported->verdict == finding->verdict || is_hang(finding->verdict)) &&
            harness_rank_set_is_subset(&finding->culprits, &reported->culprits) &&
            !(reported->verdict != finding->verdict &&
              harness_rank_set_is_empty(&finding->culprits))) {
            return true;
        }
    }
    return false;
}

const struct harness_finding *
harness_conclusions_decisive(const struct harness_conclusions *conclusions)
{
    for (size_t i = 0; i < conclusions->reported.count; i++) {
        const struct harness_finding *finding = &conclusions->reported.items[i].finding;

        if (harness_verdict_family(finding->verdict) != HARNESS_FAMILY_SLOW &&
            finding->verdict != HARNESS_VERDICT_HANG_DETECTOR) {
            return finding;
        }
    }
    return NULL;
}

bool harness_conclusions_report(struct harness_conclusions *conclusions,
                                const struct harness_finding *finding, uint64_t time_ns)
{
    struct harness_conclusion *place = NULL;

    DDP_ASSERT(finding->verdict != HARNESS_VERDICT_NONE);
    if (is_covered(conclusions, finding)) {
        return false;
    }
    for (size_t i = 0; i < conclusions->reported.count && place == NULL; i++) {
        struct harness_finding *reported = &conclusions->reported.items[i].finding;

        if (reported->verdict == finding->verdict &&
            harness_rank_set_is_subset(&reported->culprits, &finding->culprits)) {
            place = &conclusions->reported.items[i];
        }
    }
    if (place == NULL) {
        place = append(conclusions, &conclusions->reported);
    }
    if (place == NULL) {
        return false;
    }
    keep(conclusions, place, finding, time_ns);
    if (conclusions->on_report != NULL) {
        conclusions->on_report(conclusions->report_context, time_ns, finding);
    }
    return true;
}

bool harness_conclusions_is_named(const struct harness_conclusions *conclusions, uint32_t rank)
{
    for (size_t i = 0; i < conclusions->reported.count; i++) {
        const struct harness_finding *finding = &conclusions->reported.items[i].finding;

        if (is_hang(finding->verdict) && harness_rank_set_has(&finding->culprits, rank)) {
            return true;
        }
    }
    return false;
}

static struct harness_conclusion *candidate_of(struct harness_conclusions *conclusions,
                                               const struct harness_finding *finding)
{
    for (size_t i = 0; i < conclusions->candidates.count; i++) {
        struct harness_conclusion *candidate = &conclusions->candidates.items[i];

        if (candidate->finding.verdict == finding->verdict &&
            harness_rank_set_is_equal(&candidate->finding.culprits, &finding->culprits)) {
            return candidate;
        }
    }
    return NULL;
}

static void note_hang(struct harness_conclusions *conclusions,
                      const struct harness_finding *finding, uint64_t now_ns)
{
    struct harness_conclusion *candidate = candidate_of(conclusions, finding);

    DDP_ASSERT(is_hang(finding->verdict) && !is_silence(finding));
    if (candidate == NULL) {
        candidate = append(conclusions, &conclusions->candidates);
        if (candidate != NULL) {
            keep(conclusions, candidate, finding, now_ns);
            candidate->is_seen = true;
        }
        return;
    }
    DDP_ASSERT(candidate->time_ns <= now_ns);
    candidate->is_seen = true;
    if (now_ns - candidate->time_ns >= HARNESS_CONCLUSIONS_SETTLE_NS) {
        (void)harness_conclusions_report(conclusions, finding, now_ns);
    }
}

void harness_conclusions_note(struct harness_conclusions *conclusions,
                              const struct harness_findings *findings, uint64_t now_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < conclusions->candidates.count; i++) {
        conclusions->candidates.items[i].is_seen = false;
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (is_covered(conclusions, &findings->items[i])) {
            continue;
        }
        if (is_hang(findings->items[i].verdict) && !is_silence(&findings->items[i])) {
            note_hang(conclusions, &findings->items[i], now_ns);
        } else {
            (void)harness_conclusions_report(conclusions, &findings->items[i], now_ns);
        }
    }
    /* A hang that this cut does not show was none. */
    for (size_t i = 0; i < conclusions->candidates.count; i++) {
        if (conclusions->candidates.items[i].is_seen) {
            conclusions->candidates.items[kept++] = conclusions->candidates.items[i];
        } else {
            harness_finding_free(&conclusions->candidates.items[i].finding);
        }
    }
    conclusions->candidates.count = kept;
}
