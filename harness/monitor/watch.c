/* Conclusions over time. A finding is identified by its verdict and its culprits: text and victims
 * may differ from cut to cut. */
#include "harness/monitor/watch.h"

#include <string.h>

void harness_watch_init(struct harness_watch *watch, struct ddp_mem *mem)
{
    *watch = (struct harness_watch){.mem = mem};
}

void harness_watch_fini(struct harness_watch *watch)
{
    ddp_mem_free(watch->mem, watch->said.items);
    ddp_mem_free(watch->mem, watch->candidates.items);
    *watch = (struct harness_watch){.mem = watch->mem};
}

static struct harness_sighting *append(struct harness_watch *watch, struct harness_sightings *list)
{
    struct harness_sighting *items =
        ddp_mem_grow(watch->mem, list->items, list->count, &list->capacity, sizeof(*items));

    if (items == NULL) {
        watch->is_failed = true;
        return NULL;
    }
    list->items = items;
    return &list->items[list->count++];
}

static bool is_hang(enum harness_verdict verdict)
{
    return harness_verdict_family(verdict) == HARNESS_FAMILY_HANG;
}

/* What was said already says this too: the same of these ranks and perhaps others; or, of a hang,
 * anything about these ranks, since what they do after they were named is a consequence. */
static bool is_covered(const struct harness_watch *watch, const struct harness_finding *finding)
{
    for (size_t i = 0; i < watch->said.count; i++) {
        const struct harness_finding *said = &watch->said.items[i].finding;

        if ((said->verdict == finding->verdict || is_hang(finding->verdict)) &&
            harness_rank_set_is_subset(&finding->culprits, &said->culprits) &&
            !(said->verdict != finding->verdict && harness_rank_set_is_empty(&finding->culprits))) {
            return true;
        }
    }
    return false;
}

bool harness_watch_say(struct harness_watch *watch, const struct harness_finding *finding,
                       uint64_t time_ns)
{
    struct harness_sighting *place = NULL;

    if (is_covered(watch, finding)) {
        return false;
    }
    for (size_t i = 0; i < watch->said.count && place == NULL; i++) {
        struct harness_finding *said = &watch->said.items[i].finding;

        if (said->verdict == finding->verdict &&
            harness_rank_set_is_subset(&said->culprits, &finding->culprits)) {
            place = &watch->said.items[i];
        }
    }
    if (place == NULL) {
        place = append(watch, &watch->said);
    }
    if (place == NULL) {
        return false;
    }
    place->finding = *finding;
    place->time_ns = time_ns;
    if (watch->tell != NULL) {
        watch->tell(watch->tell_context, time_ns, finding);
    }
    return true;
}

static struct harness_sighting *candidate_of(struct harness_watch *watch,
                                             const struct harness_finding *finding)
{
    for (size_t i = 0; i < watch->candidates.count; i++) {
        struct harness_sighting *candidate = &watch->candidates.items[i];

        if (candidate->finding.verdict == finding->verdict &&
            harness_rank_set_is_equal(&candidate->finding.culprits, &finding->culprits)) {
            return candidate;
        }
    }
    return NULL;
}

static void note_hang(struct harness_watch *watch, const struct harness_finding *finding,
                      uint64_t now_ns)
{
    struct harness_sighting *candidate = candidate_of(watch, finding);

    if (candidate == NULL) {
        candidate = append(watch, &watch->candidates);
        if (candidate == NULL) {
            return;
        }
        *candidate = (struct harness_sighting){*finding, now_ns, true};
        return;
    }
    candidate->is_seen = true;
    if (now_ns - candidate->time_ns >= HARNESS_WATCH_SETTLE_NS) {
        (void)harness_watch_say(watch, finding, now_ns);
    }
}

void harness_watch_note(struct harness_watch *watch, const struct harness_findings *findings,
                        uint64_t now_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < watch->candidates.count; i++) {
        watch->candidates.items[i].is_seen = false;
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (is_covered(watch, &findings->items[i])) {
            continue;
        }
        if (is_hang(findings->items[i].verdict)) {
            note_hang(watch, &findings->items[i], now_ns);
        } else {
            (void)harness_watch_say(watch, &findings->items[i], now_ns);
        }
    }
    /* A hang that is not there any more was none. */
    for (size_t i = 0; i < watch->candidates.count; i++) {
        if (watch->candidates.items[i].is_seen) {
            watch->candidates.items[kept++] = watch->candidates.items[i];
        }
    }
    watch->candidates.count = kept;
}
