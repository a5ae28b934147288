/* What keys of `expect` and `canary` mean together. */
#include "harness/scenario/reader.h"

/* What the job never has can't be named. */
static ddp_status check_step(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, enum harness_row row,
                             int64_t step)
{
    const struct harness_job *job = &reader->plan->job;

    if (step < (int64_t)job->steps || harness_plan_is_guest(reader->plan)) {
        return DDP_OK;
    }
    return harness_yaml_fail(harness_reader_node(map, row), reader->err, DDP_E_INVALID,
                             "step %lld cannot be named: the job has %u steps, counted from 0",
                             (long long)step, job->steps);
}

ddp_status harness_scenario_check_expect(const struct harness_reader *reader,
                                         const struct harness_yaml_node *map, void *kept)
{
    /* What each entry of `findings` says by itself. */
    static const enum harness_row single[] = {
        HARNESS_ROW_EXPECT_also,    HARNESS_ROW_EXPECT_culprit,
        HARNESS_ROW_EXPECT_victims, HARNESS_ROW_EXPECT_detect_within_ms,
        HARNESS_ROW_EXPECT_op,      HARNESS_ROW_EXPECT_step,
        HARNESS_ROW_EXPECT_phase,   HARNESS_ROW_EXPECT_oracle,
        HARNESS_ROW_EXPECT_mode,
    };
    struct harness_expect *expect = kept;

    DDP_TRY(harness_scenario_check_guest_judged(reader, map, expect));
    DDP_TRY(check_step(reader, map, HARNESS_ROW_EXPECT_step, expect->step));
    for (size_t i = 0; expect->findings.count > 0 && i < sizeof(single) / sizeof(single[0]); i++) {
        const struct harness_yaml_node *node = harness_reader_node(map, single[i]);

        if (node != NULL) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "%s beside findings; each entry of findings states its own",
                                     harness_key(single[i])->key);
        }
    }
    if (expect->findings.count > 0 && expect->findings.items[0].verdict != expect->verdict) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_EXPECT_verdict), reader->err,
                                 DDP_E_INVALID, "the verdict is not that of the first finding, %s",
                                 harness_verdict_name(expect->findings.items[0].verdict));
    }
    if (harness_reader_node(map, HARNESS_ROW_EXPECT_culprit) == NULL &&
        expect->findings.count == 0) {
        expect->culprit.is_stated = true;
        expect->culprit.is_injected = expect->verdict != HARNESS_VERDICT_NONE;
    }
    return DDP_OK;
}

ddp_status harness_scenario_check_op(const struct harness_reader *reader,
                                     const struct harness_yaml_node *map, void *kept)
{
    (void)kept;
    DDP_TRY(harness_scenario_check_guest_op(reader, map));
    return map == NULL || map->count > 0
               ? DDP_OK
               : harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                   "op states nothing; give bucket, seq or params, or remove it");
}

/* expect.restore */
ddp_status harness_scenario_check_restore(const struct harness_reader *reader,
                                          const struct harness_yaml_node *map, void *kept)
{
    const struct harness_expect_restore *restore = kept;
    const struct harness_job *job = &reader->plan->job;

    if (restore->from_step >= 0 && job->checkpoint_every > 0 &&
        (restore->from_step % job->checkpoint_every != 0 || restore->from_step > job->steps)) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_EXPECT_RESTORE_from_step),
                                 reader->err, DDP_E_INVALID,
                                 "no checkpoint is written after %lld steps: there is one every "
                                 "%u, up to %u",
                                 (long long)restore->from_step, job->checkpoint_every, job->steps);
    }
    if (restore->equals_uninterrupted && restore->refused != HARNESS_VERDICT_NONE) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "a refused checkpoint equals nothing; keep equals or refused");
    }
    return DDP_OK;
}

ddp_status harness_scenario_check_canary(const struct harness_reader *reader,
                                         const struct harness_yaml_node *map, void *kept)
{
    const struct harness_canary *canary = kept;

    if (!canary->is_set) {
        return DDP_OK;
    }
    if (canary->outcome == HARNESS_OUTCOME_PASS || canary->outcome == HARNESS_OUTCOME_SKIP) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_CANARY_outcome), reader->err,
                                 DDP_E_INVALID,
                                 "a canary must fail: its outcome is FAIL, INCONCLUSIVE or ERROR");
    }
    if (canary->outcome != HARNESS_OUTCOME_FAIL && canary->verdict != HARNESS_VERDICT_NONE) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_CANARY_verdict), reader->err,
                                 DDP_E_INVALID, "only outcome: FAIL has a verdict; remove it");
    }
    return DDP_OK;
}
