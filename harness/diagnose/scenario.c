/* A scenario of ddpcore's own ranks that goes wrong in the same way: as many ranks as the group had
 * members, and the fault on the rank that stands in the culprit's place. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "harness/diagnose/internal.h"

enum { RANKS_MAX = 1024 };

/* The faults that bring a verdict about, for one rank. */
static const struct recipe {
    enum harness_verdict verdict;
    const char *at, *point, *act;
    const char *job; /* what the job says beside the common keys */
} recipes[] = {
    {HARNESS_VERDICT_HANG_NOT_JOINED, "step: 2, bucket: 1", "bucket/launch", "{hang: true}",
     ", phase_budget_ms: {backward: 500}"},
    {HARNESS_VERDICT_HANG_DATA, "step: 2", "data/next", "{hang: true}",
     ", phase_budget_ms: {data: 500}"},
    {HARNESS_VERDICT_MISMATCH_MISSING, "step: 2, bucket: 1", "collective/pre", "{skip: true}", ""},
    {HARNESS_VERDICT_MISMATCH_EXTRA, "step: 2, bucket: 1", "collective/pre", "{dup: true}", ""},
    {HARNESS_VERDICT_MISMATCH_ORDER, "step: 2, bucket: 1", "collective/pre",
     "{arg: index, value: 2}", ""},
    {HARNESS_VERDICT_MISMATCH_ORDER, "step: 2, bucket: 2", "collective/pre",
     "{arg: index, value: 1}", ""},
    {HARNESS_VERDICT_MISMATCH_OP, "step: 2, bucket: 1", "collective/pre",
     "{arg: kind, value: broadcast}", ""},
    {HARNESS_VERDICT_MISMATCH_COUNT, "step: 2, bucket: 1", "collective/pre",
     "{arg: count, value: 100}", ""},
    {HARNESS_VERDICT_MISMATCH_DTYPE, "step: 2, bucket: 1", "collective/pre",
     "{arg: dtype, value: i32}", ""},
    {HARNESS_VERDICT_MISMATCH_REDUCTION, "step: 2, bucket: 1", "collective/pre",
     "{arg: redop, value: max}", ""},
    {HARNESS_VERDICT_MISMATCH_ROOT, "step: 2, phase: buffer", "collective/pre",
     "{arg: root, value: 1}", ", branch: both"},
    {HARNESS_VERDICT_CRASH_SIGNALED, "step: 2, bucket: 1", "collective/enqueue", "{kill: SIGKILL}",
     ""},
    {HARNESS_VERDICT_CRASH_EXITED, "step: 2", "loss", "{exit: 1}", ""},
    {HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, NULL, NULL, NULL, ", branch: rank_skips"},
};
enum { RECIPE_COUNT = sizeof recipes / sizeof recipes[0] };

static const struct recipe *find(enum harness_verdict verdict)
{
    for (size_t i = 0; i < RECIPE_COUNT; i++) {
        if (recipes[i].verdict == verdict) {
            return &recipes[i];
        }
    }
    return NULL;
}

/* "scenarios/hang/monday.yaml" is hang.monday; names without a folder get one. */
static void print_id(const char *path, struct ddp_text *out)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *family = slash;
    const char *dot = strrchr(name, '.');
    size_t size = dot != NULL ? (size_t)(dot - name) : strlen(name);

    while (family != NULL && family > path &&
           (isalnum((unsigned char)family[-1]) != 0 || family[-1] == '_')) {
        family--;
    }
    if (slash == NULL || family == slash) {
        ddp_text_add(out, "id: diagnosed.%.*s\n", (int)size, name);
    } else {
        ddp_text_add(out, "id: %.*s.%.*s\n", (int)(slash - family), family, (int)size, name);
    }
}

/* The culprit's place among the group's members; the rank itself without a group. */
static uint32_t place_of(const struct harness_diag_group *group, uint32_t rank)
{
    if (group == NULL || group->is_local) {
        return rank;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&group->ranks); i++) {
        if (harness_rank_set_at(&group->ranks, i) == rank) {
            return i;
        }
    }
    return rank;
}

static uint32_t count_ranks(const struct harness_diag_evidence *evidence,
                            const struct harness_diag_group *group,
                            const struct harness_diag_finding *finding)
{
    uint32_t count = group != NULL ? harness_rank_set_count(&group->ranks) : evidence->world;
    uint32_t named = harness_rank_set_count(&evidence->named);

    if (group == NULL && named > 0 && harness_rank_set_at(&evidence->named, named - 1) >= count) {
        count = harness_rank_set_at(&evidence->named, named - 1) + 1;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&finding->culprits); i++) {
        uint32_t place = place_of(group, harness_rank_set_at(&finding->culprits, i));

        count = place >= count ? place + 1 : count;
    }
    return count > 2 ? count : 2;
}

static void print_faults(const struct harness_diag_group *group,
                         const struct harness_diag_finding *finding, struct ddp_text *out)
{
    ddp_text_add(out, "faults:\n");
    for (uint32_t i = 0; i < harness_rank_set_count(&finding->culprits); i++) {
        uint32_t rank = place_of(group, harness_rank_set_at(&finding->culprits, i));

        for (size_t r = 0; r < RECIPE_COUNT; r++) {
            if (recipes[r].verdict == finding->verdict && recipes[r].at != NULL) {
                ddp_text_add(out, "  - {at: {rank: %u, %s}, point: %s, do: %s}\n", rank,
                             recipes[r].at, recipes[r].point, recipes[r].act);
            }
        }
    }
}

/* What was diagnosed, as the purpose that every scenario states; no line of it ends the comment. */
static void print_purpose(const struct harness_diag_group *group,
                          const struct harness_diag_finding *finding, struct ddp_text *out)
{
    ddp_text_add(out, "# ");
    for (const char *at = finding->what; *at != '\0'; at++) {
        ddp_text_add(out, "%c", *at >= ' ' && *at < 127 ? *at : '?');
    }
    ddp_text_add(out, ".\n");
    for (uint32_t i = 0; i < harness_rank_set_count(&finding->culprits); i++) {
        uint32_t rank = harness_rank_set_at(&finding->culprits, i);

        if (place_of(group, rank) != rank) {
            ddp_text_add(out, "# Rank %u of the job is rank %u here.\n", rank,
                         place_of(group, rank));
        }
    }
}

static void print_job(const struct recipe *recipe, const struct harness_diag_finding *finding,
                      uint32_t ranks, struct ddp_text *out)
{
    bool is_branchy = strstr(recipe->job, "branch") != NULL;
    bool is_order = finding->verdict == HARNESS_VERDICT_MISMATCH_ORDER;
    const char *model = is_branchy ? "model: branchy"
                        : is_order ? "model: mlp, widths: [64, 16, 16, 16, 16, 10]"
                                   : "model: mlp, widths: [64, 32, 32, 10]";
    /* Ranks that compare what they post may be ended by the first of two faults. */
    const char *semantics = is_order ? "pytorch" : "strict";

    ddp_text_add(out,
                 "job: {ranks: %u, steps: 6, %s, data: digits, batch_per_rank: 4, bucket_cap_kb: "
                 "1, bucket_order: reverse, optimizer: {kind: sgd, lr: 0.05}, seed: 7, semantics: "
                 "%s%s",
                 ranks, model, semantics, recipe->job);
}

ddp_status harness_diagnosis_scenario(const struct harness_diagnosis *diagnosis, const char *path,
                                      struct ddp_text *out, struct ddp_err *err)
{
    const struct harness_diag_answer *answer = &diagnosis->answer;
    const struct harness_diag_finding *finding =
        answer->finding_count > 0 ? &answer->findings[0] : NULL;
    const struct harness_diag_group *group;
    const struct recipe *recipe;
    uint32_t ranks;

    if (finding == NULL || harness_rank_set_is_empty(&finding->culprits)) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "%s: not written: no culprit is named, so there is nothing to reproduce",
                           path);
    }
    recipe = find(finding->verdict);
    if (recipe == NULL) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "%s: not written: ddpcore has one group and a device of its own, so %s "
                           "has no like there",
                           path, harness_verdict_name(finding->verdict));
    }
    group = finding->group != SIZE_MAX ? &diagnosis->evidence.groups[finding->group] : NULL;
    ranks = count_ranks(&diagnosis->evidence, group, finding);
    if (ranks > RANKS_MAX) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "%s: not written: %u ranks; at most %d run here",
                           path, ranks, RANKS_MAX);
    }
    print_purpose(group, finding, out);
    print_id(path, out);
    print_job(recipe, finding, ranks, out);
    if (recipe->at == NULL) {
        uint32_t rank = place_of(group, harness_rank_set_at(&finding->culprits, 0));

        ddp_text_add(out, ", skip_rank: %u}\nexpect:\n  verdict: %s\n  culprit: [%u]\n", rank,
                     harness_verdict_name(finding->verdict), rank);
    } else {
        ddp_text_add(out, "}\n");
        print_faults(group, finding, out);
        ddp_text_add(out, "expect:\n  verdict: %s\n  culprit: injected\n",
                     harness_verdict_name(finding->verdict));
    }
    ddp_text_add(out, "forbid: {accuse: others, leaks: [process, shm, fd]}\n");
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}
