/* Purpose: measured orders of sums are consistent, and the same before the first step and after the
 * last.
 * Idea: a measured order holds for the steps in between only if the same probes give it again after
 * the last one. A contradiction is a finding; a measurement that is missing is lost evidence. */
#include <stdio.h>

#include "harness/oracle/subject.h"

static bool is_finished(const struct harness_emulation *e)
{
    for (uint32_t r = 0; r < e->world; r++) {
        if (!harness_index_is_ended_ok(&e->index, r)) {
            return false;
        }
    }
    return true;
}

static const char *when(const struct harness_tree_map *map)
{
    return map->is_last ? "after the last step" : "before the first step";
}

/* The buckets of that size, with their parameters. */
static void name_buckets(const struct harness_emulation *e, const struct harness_tree_map *map,
                         struct harness_finding *finding)
{
    const struct harness_buckets *buckets = &e->input->program->first;

    for (size_t b = buckets->count; b-- > 0;) {
        if (buckets->items[b].elem_count == map->elem_count) {
            harness_subject_set_bucket(e, (uint32_t)b, finding);
        }
    }
}

static void report_inconsistent(const struct harness_emulation *e,
                                const struct harness_tree_map *map, struct harness_findings *out)
{
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem, map->verdict, HARNESS_ORACLE_TREE, HARNESS_MODE_PROBE);
    finding.culprits = map->ranks;
    name_buckets(e, map, &finding);
    (void)snprintf(finding.text, sizeof(finding.text), "probes of %zu elements of %s %s: %s",
                   map->elem_count, ddp_dtype_name(map->dtype), when(map), map->text);
    harness_findings_add(out, &finding);
}

static void report_changed(const struct harness_emulation *e, const struct harness_tree_map *first,
                           const struct harness_tree_map *last, size_t elem,
                           struct harness_findings *out)
{
    struct harness_finding finding;
    char before[160];
    char after[160];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_REORDERED, HARNESS_ORACLE_TREE,
                         HARNESS_MODE_PROBE);
    name_buckets(e, first, &finding);
    harness_tree_print(first, elem, before, sizeof(before));
    harness_tree_print(last, elem, after, sizeof(after));
    (void)snprintf(finding.text, sizeof(finding.text),
                   "element %zu of %zu of %s was summed as %s before the first step, as %s after "
                   "the last",
                   elem, first->elem_count, ddp_dtype_name(first->dtype), before, after);
    harness_findings_add(out, &finding);
}

static void lose(const struct harness_tree_map *map, const char *what, struct harness_findings *out)
{
    if (out->is_evidence_lost) {
        return;
    }
    out->is_evidence_lost = true;
    (void)snprintf(out->lost_text, sizeof(out->lost_text),
                   "the order of sums of %zu elements of %s %s", map->elem_count,
                   ddp_dtype_name(map->dtype), what);
}

/* The other round found the same. */
static bool is_same_finding(const struct harness_tree_map *map,
                            const struct harness_tree_map *other)
{
    return other != NULL && other->verdict == map->verdict &&
           harness_rank_set_is_equal(&other->ranks, &map->ranks);
}

/* A map of one round, with the other round's. */
static void check_map(const struct harness_emulation *e, const struct harness_tree_map *map,
                      struct harness_findings *out)
{
    const struct harness_tree_map *other =
        harness_trees_find(&e->trees, map->elem_count, map->dtype, !map->is_last);

    if (map->verdict != HARNESS_VERDICT_NONE && !(map->is_last && is_same_finding(map, other))) {
        report_inconsistent(e, map, out);
    }
    if (other == NULL && (map->is_last || is_finished(e))) {
        lose(map,
             map->is_last ? "was not measured before the first step"
                          : "was not measured again after the last step",
             out);
    }
    if (other == NULL || map->is_last || !map->is_measured) {
        return;
    }
    if (!other->is_measured) {
        if (other->verdict == HARNESS_VERDICT_NONE) {
            lose(map, "could not be measured again after the last step", out);
        }
        return;
    }
    if (harness_tree_compare(map, other) < map->elem_count) {
        report_changed(e, map, other, harness_tree_compare(map, other), out);
    }
}

ddp_status harness_check_tree(const struct harness_emulation *e, struct harness_findings *out,
                              struct ddp_err *err)
{
    (void)err;
    for (size_t i = 0; i < e->trees.map_count; i++) {
        check_map(e, &e->trees.maps[i], out);
    }
    return DDP_OK;
}
