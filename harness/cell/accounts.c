/* What a guest's verdict stands on: which oracles ran, and what was not judged. */
#include <stdio.h>

#include "harness/cell/stage.h"

json_t *harness_stage_judged(const struct harness_watch_accounts *accounts)
{
    json_t *list = accounts != NULL ? json_array() : json_null();

    for (int i = 0; accounts != NULL && i < HARNESS_ORACLE_COUNT; i++) {
        const struct harness_watch_account *account = &accounts->of[i];

        if (account->judged > 0) {
            (void)json_array_append_new(
                list, json_pack("{s:s, s:I, s:I, s:I}", "oracle",
                                harness_oracle_name((enum harness_oracle_id)i), "count",
                                (json_int_t)account->judged, "bitwise",
                                (json_int_t)account->bitwise, "bound", (json_int_t)account->bound));
        }
    }
    return list;
}

json_t *harness_stage_not_judged(const struct harness_watch_accounts *accounts)
{
    json_t *list = accounts != NULL ? json_array() : json_null();

    for (size_t i = 0; accounts != NULL && i < accounts->lack_count; i++) {
        const struct harness_watch_lack *lack = &accounts->lacks[i];

        (void)json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "oracle",
                                                    harness_oracle_name(lack->oracle), "count",
                                                    (json_int_t)lack->count, "why", lack->why));
    }
    return list;
}

void harness_stage_ask_for_oracles(const struct harness_plan *plan,
                                   const struct harness_watch_accounts *accounts,
                                   struct harness_findings *findings)
{
    for (int i = 0; i < HARNESS_ORACLE_COUNT && !findings->is_evidence_lost; i++) {
        const enum harness_oracle_id oracle = (enum harness_oracle_id)i;

        if (plan->expect.is_judged[i] && accounts->of[i].judged == 0) {
            findings->is_evidence_lost = true;
            (void)snprintf(findings->lost_text, sizeof findings->lost_text,
                           "the oracle %s judged nothing: %s", harness_oracle_name(oracle),
                           harness_watch_lack_of(accounts, oracle));
        }
    }
}
