/* Who differs from whom, and what explains it. */
#include <stdint.h>

#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

enum { SAID_MAX = 4 };

/* first, size: [world_size], by camp: its first rank, and how many it has. */
static void divide(const struct harness_observed *observed,
                   bool (*is_alike)(const void *context, uint32_t a, uint32_t b),
                   const void *context, uint32_t *first, uint32_t *size, struct observed_camps *out)
{
    uint32_t largest = 0;
    uint32_t rivals = 0;

    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        uint32_t c = 0;

        out->camp_of[r] = UINT32_MAX;
        if (!observed->watch->ranks[r].is_attached) {
            continue;
        }
        while (c < out->count && !is_alike(context, first[c], r)) {
            c++;
        }
        if (c == out->count) {
            first[out->count++] = r;
        }
        out->camp_of[r] = c;
        size[c]++;
    }
    for (uint32_t c = 1; c < out->count; c++) {
        largest = size[c] > size[largest] ? c : largest;
    }
    for (uint32_t c = 0; c < out->count; c++) {
        rivals += size[c] == size[largest];
    }
    out->right = rivals == 1 ? largest : out->count;
}

bool observed_find_camps(const struct harness_observed *observed,
                         bool (*is_alike)(const void *context, uint32_t a, uint32_t b),
                         const void *context, struct observed_camps *out)
{
    const uint32_t world_size = observed->watch->world_size;
    uint32_t *first = ddp_mem_array(observed->mem, world_size, sizeof *first);
    uint32_t *size = ddp_mem_array(observed->mem, world_size, sizeof *size);
    bool is_good;

    *out = (struct observed_camps){
        .camp_of = ddp_mem_array(observed->mem, world_size, sizeof *out->camp_of)};
    is_good = first != NULL && size != NULL && out->camp_of != NULL;
    if (is_good) {
        divide(observed, is_alike, context, first, size, out);
    }
    ddp_mem_free(observed->mem, first);
    ddp_mem_free(observed->mem, size);
    return is_good;
}

void observed_free_camps(const struct harness_observed *observed, struct observed_camps *camps)
{
    ddp_mem_free(observed->mem, camps->camp_of);
    camps->camp_of = NULL;
}

void observed_blame(const struct harness_observed *observed, const struct observed_camps *camps,
                    struct harness_finding *finding)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        if (camps->camp_of[r] != UINT32_MAX &&
            (camps->right == camps->count || camps->camp_of[r] != camps->right)) {
            harness_rank_set_add(&finding->culprits, r);
        }
    }
}

void observed_say_camps(const struct harness_observed *observed, const struct observed_camps *camps,
                        struct harness_finding *finding)
{
    for (uint32_t c = 0; c < camps->count && c < SAID_MAX; c++) {
        struct harness_rank_set ranks = harness_rank_set_in(finding->culprits.ranks.mem);
        char text[HARNESS_RANKS_TEXT_BYTES];

        for (uint32_t r = 0; r < observed->watch->world_size; r++) {
            if (camps->camp_of[r] == c) {
                harness_rank_set_add(&ranks, r);
            }
        }
        harness_watch_say(finding, "%s%s %s", c == 0 ? "" : " and of ",
                          harness_rank_set_count(&ranks) == 1 ? "rank" : "ranks",
                          harness_rank_set_text(&ranks, text));
    }
}

void observed_add_param(const struct harness_observed *observed, const char *name,
                        struct harness_finding *finding)
{
    uint32_t param = 0;

    if (name[0] != '\0' && harness_watch_name(observed->watch, name, &param)) {
        harness_finding_add_param(finding, param);
    }
}

bool observed_is_complete(const struct harness_observed *observed)
{
    const struct harness_watch *watch = observed->watch;
    uint64_t told = 0;
    uint64_t attached = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        attached += watch->ranks[r].is_attached;
        told = watch->ranks[r].world_size > told ? watch->ranks[r].world_size : told;
    }
    return attached > 0 && attached >= (told > 0 ? told : watch->world_size);
}

bool observed_has_lost(const struct harness_observed *observed)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        if (observed->watch->ranks[r].lost_count > 0) {
            return true;
        }
    }
    return false;
}

bool observed_is_explained(const struct harness_findings *findings, uint32_t step)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_finding *finding = &findings->items[i];
        const bool is_cause = finding->verdict == HARNESS_VERDICT_VALUE_DIVERGED ||
                              finding->verdict == HARNESS_VERDICT_VALUE_NONFINITE ||
                              finding->oracle == HARNESS_ORACLE_UPDATE ||
                              harness_verdict_family(finding->verdict) == HARNESS_FAMILY_MISMATCH;

        if (is_cause && finding->step >= 0 && (uint32_t)finding->step <= step) {
            return true;
        }
    }
    return false;
}
