/* A campaign: many cases that the grammar draws, each run and compared with what the model of its
 * plan says. Case number k depends on the campaign's file, its seed and k alone. */
#ifndef HARNESS_CAMPAIGN_CAMPAIGN_H
#define HARNESS_CAMPAIGN_CAMPAIGN_H

#include "harness/grammar/grammar.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a campaign's file says. */
struct harness_campaign {
    char name[64];
    char purpose[512];
    uint64_t case_count, seed;
    bool is_driver[HARNESS_DRIVER_COUNT];
    struct harness_grammar_options options;
    char sets[16][96]; /* as --set takes them */
    size_t set_count;
    uint64_t hash; /* of the file's text */
};

/* A campaign's file:
 *   campaign: NAME          in the ids of its cases
 *   cases: N                how many
 *   seed: N                 (0)
 *   drivers: [sim, proc]    each case runs on all of these ([sim])
 *   faults: [LEAST, MOST]   in each case ([0, 0])
 *   ranks_max, steps_max: N (the grammar's)
 *   odds: {job.join: 50}    percent of the cases that draw a key, instead of grammar.def's
 *   set: [job.ranks=4]     keys that are no choice in this campaign
 * It begins with a comment that says what it is for. path: for messages. Errors: E_PARSE,
 * E_INVALID with "path:line:col: what", E_NOMEM. */
DDP_MUST_USE ddp_status harness_campaign_parse(const char *text, size_t size_bytes,
                                               const char *path, struct harness_campaign *out,
                                               struct ddp_err *err);

/* One answer of one case, as a line of a results file. */
struct harness_campaign_result {
    uint64_t number;
    enum harness_driver driver;
    uint64_t plan_hash;
    enum harness_outcome outcome;
    char text[400]; /* of a PASS what was found; else the signature: what was wrong, without what
                     * differs from case to case */
};

/* Neither right nor left out: what the campaign sets does not fit every plan (SKIP). */
static inline bool harness_campaign_is_wrong(const struct harness_campaign_result *result)
{
    return result->outcome != HARNESS_OUTCOME_PASS && result->outcome != HARNESS_OUTCOME_SKIP;
}

/* Run one case. work_dir: a folder of its own for a driver that needs one. failed_dir: where a case
 * that does not pass leaves plan.yaml and signature.txt; NULL: nowhere. */
void harness_campaign_run_case(const struct harness_campaign *campaign, uint64_t number,
                               enum harness_driver driver, const char *self_path,
                               const char *work_dir, const char *failed_dir,
                               struct harness_campaign_result *out);

/* How a campaign, or a shard of it, is run. */
struct harness_campaign_progress {
    uint64_t done, total, failed; /* answers */
    uint64_t resumed;             /* of those done, before this run */
    uint64_t started_ns;
};
struct harness_campaign_config {
    const struct harness_campaign *campaign;
    uint64_t budget_ns; /* no case is begun later than that; 0: all */
    uint32_t shard, shard_count;
    unsigned jobs;
    const char *out_dir, *self_path;
    bool is_fail_fast; /* begin no other case once one was wrong */
    bool is_resumed;   /* go on with what out_dir has; else it must have nothing of this shard */
    void *context;
    void (*progress)(void *context, const struct harness_campaign_progress *progress);
};
/* Run what is left of the shard, then merge out_dir with itself. *out_signal: the signal that
 * ended it early, or 0. Errors: E_STATE (the shard is there and is not to be resumed, or is
 * another campaign's), E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_campaign_run(const struct harness_campaign_config *config,
                                             int *out_signal, struct ddp_err *err);

/* Put the results of shards together (out_dir NULL: only to count them, and what is missing of
 * those that are there): every "shard.*.txt" of the folders, in order of cases, into
 * out_dir/results.txt, and the plans of failed cases into out_dir/failed. Doing it again changes
 * nothing. summary: counts, signatures with their first cases, missing shards and cases. */
struct harness_campaign_summary {
    uint64_t counts[HARNESS_OUTCOME_SKIP + 1];
    uint64_t case_count, missing_count;
    enum harness_outcome outcome;
};
DDP_MUST_USE ddp_status harness_campaign_merge(const char *const *dirs, size_t dir_count,
                                               const char *out_dir,
                                               struct harness_campaign_summary *out_summary,
                                               struct ddp_text *summary, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
