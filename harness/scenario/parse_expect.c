/* expect, restore, forbid, canary: what a run is judged by. */
#include <string.h>

#include "harness/scenario/parse.h"

static ddp_status parse_culprit(const struct harness_reader *reader,
                                const struct harness_yaml_node *node, const struct harness_job *job,
                                struct harness_expect *expect)
{
    expect->culprits = harness_rank_set_in(reader->keep);
    if (node == NULL) {
        expect->is_culprit_injected = expect->verdict != HARNESS_VERDICT_NONE;
        return DDP_OK;
    }
    if (node->kind == HARNESS_YAML_SCALAR) {
        expect->is_culprit_injected = strcmp(node->text, "injected") == 0;
        expect->is_culprit_all = strcmp(node->text, "all") == 0;
        return DDP_OK;
    }
    for (size_t i = 0; i < node->count; i++) {
        uint32_t rank;

        DDP_TRY(harness_parse_rank(reader, node->items[i], job->ranks, &rank));
        harness_rank_set_add(&expect->culprits, rank);
    }
    return expect->culprits.ranks.is_failed ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status parse_also(const struct harness_reader *reader,
                             const struct harness_yaml_node *list, struct harness_expect *expect)
{
    size_t count_max = sizeof(expect->also) / sizeof(expect->also[0]);

    if (list == NULL) {
        return DDP_OK;
    }
    if (list->count > count_max) {
        return harness_yaml_fail(list, reader->err, DDP_E_INVALID,
                                 "also has %zu entries; at most %zu may stand beside a verdict",
                                 list->count, count_max);
    }
    for (size_t i = 0; i < list->count; i++) {
        size_t index;

        DDP_TRY(harness_names_find(reader, list->items[i], HARNESS_NAMES_VERDICTS, &index));
        expect->also[i] = (enum harness_verdict)index;
    }
    expect->also_count = (uint32_t)list->count;
    return DDP_OK;
}

static ddp_status parse_op(const struct harness_reader *reader, const struct harness_yaml_node *map,
                           struct harness_expect *expect)
{
    expect->op.is_set = map != NULL;
    expect->op.bucket = harness_schema_optional(map, HARNESS_ROW_OP_bucket);
    expect->op.seq = harness_schema_optional(map, HARNESS_ROW_OP_seq);
    if (map != NULL && map->count == 0) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "op states nothing; give bucket, seq or params, or remove it");
    }
    return harness_parse_texts(reader, harness_schema_node(map, HARNESS_ROW_OP_params),
                               &expect->op.params, &expect->op.param_count);
}

static void parse_survivors(const struct harness_yaml_node *map, struct harness_expect *expect)
{
    if (map == NULL) {
        return;
    }
    expect->survivors.is_set = true;
    DDP_ASSERT(ddp_status_parse(harness_schema_text(map, HARNESS_ROW_SURVIVORS_status),
                                &expect->survivors.status) == DDP_OK);
    if (harness_schema_node(map, HARNESS_ROW_SURVIVORS_within_ms) != NULL) {
        expect->survivors.within_ms =
            (uint64_t)harness_schema_int(map, HARNESS_ROW_SURVIVORS_within_ms);
    }
}

static ddp_status parse_expect_restore(const struct harness_reader *reader,
                                       const struct harness_yaml_node *map,
                                       const struct harness_job *job, struct harness_expect *expect)
{
    const struct harness_yaml_node *from =
        harness_schema_node(map, HARNESS_ROW_EXPECT_RESTORE_from_step);

    expect->restore.from_step = harness_schema_optional(map, HARNESS_ROW_EXPECT_RESTORE_from_step);
    if (map == NULL) {
        return DDP_OK;
    }
    expect->restore.is_set = true;
    expect->restore.equals_uninterrupted =
        harness_schema_node(map, HARNESS_ROW_EXPECT_RESTORE_equals) != NULL;
    expect->restore.refused =
        (enum harness_verdict)harness_schema_name(reader, map, HARNESS_ROW_EXPECT_RESTORE_refused);
    if (from != NULL && job->checkpoint_every > 0 &&
        (expect->restore.from_step % job->checkpoint_every != 0 ||
         expect->restore.from_step > job->steps)) {
        return harness_yaml_fail(from, reader->err, DDP_E_INVALID,
                                 "no checkpoint is written after %s steps: there is one every %u, "
                                 "up to %u",
                                 from->text, job->checkpoint_every, job->steps);
    }
    if (expect->restore.equals_uninterrupted && expect->restore.refused != HARNESS_VERDICT_NONE) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "a refused checkpoint equals nothing; keep equals or refused");
    }
    return DDP_OK;
}

/* A checkpoint edit and the key that it needs, or must not have. */
static ddp_status check_edit(const struct harness_reader *reader,
                             const struct harness_yaml_node *map,
                             const struct harness_restore *restore)
{
    bool needs_key = restore->edit == HARNESS_EDIT_DROP_KEY ||
                     restore->edit == HARNESS_EDIT_EXTRA_KEY ||
                     restore->edit == HARNESS_EDIT_FLIP_BYTE;

    if (needs_key && restore->key == NULL) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "edit: %s needs key, the name of a tensor",
                                 harness_edit_name(restore->edit));
    }
    if (!needs_key && restore->key != NULL) {
        return harness_yaml_fail(harness_schema_node(map, HARNESS_ROW_RESTORE_key), reader->err,
                                 DDP_E_INVALID, "key means nothing to edit: %s; remove it",
                                 harness_edit_name(restore->edit));
    }
    return DDP_OK;
}

static ddp_status parse_restore(const struct harness_reader *reader,
                                const struct harness_yaml_node *top, struct harness_plan *plan)
{
    const struct harness_yaml_node *map = harness_schema_node(top, HARNESS_ROW_TOP_restore);
    const struct harness_yaml_node *expected = harness_schema_node(
        harness_schema_node(top, HARNESS_ROW_TOP_expect), HARNESS_ROW_EXPECT_restore);
    struct harness_restore *restore = &plan->restore;
    int64_t ranks = harness_schema_optional(map, HARNESS_ROW_RESTORE_ranks);

    restore->is_set = map != NULL || expected != NULL;
    if (!restore->is_set) {
        return DDP_OK;
    }
    if (plan->job.checkpoint_every == 0) {
        return harness_yaml_fail(map != NULL ? map : expected, reader->err, DDP_E_INVALID,
                                 "there is no checkpoint to restore; set job.checkpoint_every");
    }
    restore->is_wrapped =
        strcmp(harness_schema_text(map, HARNESS_ROW_RESTORE_into), "wrapped") == 0;
    restore->edit =
        (enum harness_edit_kind)harness_schema_name(reader, map, HARNESS_ROW_RESTORE_edit);
    restore->ranks = ranks < 0 ? 0 : (uint32_t)ranks;
    restore->skip_optimizer_state =
        harness_schema_bool(map, HARNESS_ROW_RESTORE_skip_optimizer_state);
    DDP_TRY(harness_parse_keep(reader, harness_schema_text(map, HARNESS_ROW_RESTORE_prefix),
                               &restore->prefix));
    DDP_TRY(harness_parse_keep(reader, harness_schema_text(map, HARNESS_ROW_RESTORE_key),
                               &restore->key));
    return check_edit(reader, map, restore);
}

static void parse_forbid(const struct harness_yaml_node *map, struct harness_forbid *forbid)
{
    const struct harness_yaml_node *leaks = harness_schema_node(map, HARNESS_ROW_FORBID_leaks);

    forbid->accuse_others =
        strcmp(harness_schema_text(map, HARNESS_ROW_FORBID_accuse), "others") == 0;
    forbid->leak_process = leaks == NULL;
    forbid->leak_shm = leaks == NULL;
    forbid->leak_fd = leaks == NULL;
    for (size_t i = 0; leaks != NULL && i < leaks->count; i++) {
        forbid->leak_process |= strcmp(leaks->items[i]->text, "process") == 0;
        forbid->leak_shm |= strcmp(leaks->items[i]->text, "shm") == 0;
        forbid->leak_fd |= strcmp(leaks->items[i]->text, "fd") == 0;
    }
}

static ddp_status parse_canary(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, struct harness_canary *canary)
{
    if (map == NULL) {
        return DDP_OK;
    }
    canary->is_set = true;
    canary->outcome =
        (enum harness_outcome)harness_schema_name(reader, map, HARNESS_ROW_CANARY_outcome);
    canary->verdict =
        (enum harness_verdict)harness_schema_name(reader, map, HARNESS_ROW_CANARY_verdict);
    if (canary->outcome == HARNESS_OUTCOME_PASS || canary->outcome == HARNESS_OUTCOME_SKIP) {
        return harness_yaml_fail(harness_schema_node(map, HARNESS_ROW_CANARY_outcome), reader->err,
                                 DDP_E_INVALID,
                                 "a canary must fail: its outcome is FAIL, INCONCLUSIVE or ERROR");
    }
    if (canary->outcome != HARNESS_OUTCOME_FAIL && canary->verdict != HARNESS_VERDICT_NONE) {
        return harness_yaml_fail(harness_schema_node(map, HARNESS_ROW_CANARY_verdict), reader->err,
                                 DDP_E_INVALID, "only outcome: FAIL has a verdict; remove it");
    }
    return DDP_OK;
}

ddp_status harness_parse_expect(const struct harness_reader *reader,
                                const struct harness_yaml_node *top, struct harness_plan *plan)
{
    const struct harness_yaml_node *map = harness_schema_node(top, HARNESS_ROW_TOP_expect);
    struct harness_expect *expect = &plan->expect;

    expect->verdict =
        (enum harness_verdict)harness_schema_name(reader, map, HARNESS_ROW_EXPECT_verdict);
    expect->step = harness_schema_optional(map, HARNESS_ROW_EXPECT_step);
    expect->phase = (int32_t)harness_schema_name(reader, map, HARNESS_ROW_EXPECT_phase);
    DDP_TRY(parse_also(reader, harness_schema_node(map, HARNESS_ROW_EXPECT_also), expect));
    DDP_TRY(parse_culprit(reader, harness_schema_node(map, HARNESS_ROW_EXPECT_culprit), &plan->job,
                          expect));
    DDP_TRY(parse_op(reader, harness_schema_node(map, HARNESS_ROW_EXPECT_op), expect));
    /* Their lists leave out NONE; absent is -1. */
    expect->oracle =
        (enum harness_oracle_id)(harness_schema_name(reader, map, HARNESS_ROW_EXPECT_oracle) + 1);
    expect->mode =
        (enum harness_mode)(harness_schema_name(reader, map, HARNESS_ROW_EXPECT_mode) + 1);
    parse_survivors(harness_schema_node(map, HARNESS_ROW_EXPECT_survivors), expect);
    DDP_TRY(parse_restore(reader, top, plan));
    DDP_TRY(parse_expect_restore(reader, harness_schema_node(map, HARNESS_ROW_EXPECT_restore),
                                 &plan->job, expect));
    parse_forbid(harness_schema_node(top, HARNESS_ROW_TOP_forbid), &plan->forbid);
    return parse_canary(reader, harness_schema_node(top, HARNESS_ROW_TOP_canary), &plan->canary);
}
