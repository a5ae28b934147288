/* Oracles that a scenario switches off, to show what they alone find. */
#include "harness/record/account.h"

/* The monitor compares calls and follows processes: each is an oracle's work. */
static enum harness_oracle_id oracle_of(const struct harness_finding *finding)
{
    if (finding->oracle != HARNESS_ORACLE_MONITOR) {
        return finding->oracle;
    }
    return harness_verdict_family(finding->verdict) == HARNESS_FAMILY_MISMATCH
               ? HARNESS_ORACLE_PROGRAM
               : HARNESS_ORACLE_LIVENESS;
}

static bool is_without(const bool *without, const struct harness_finding *finding)
{
    return without != NULL && without[oracle_of(finding)];
}

bool harness_watch_leave_out(struct harness_findings *findings, const bool *without)
{
    bool is_of_end = false;
    size_t kept = 0;

    for (size_t i = 0; i < findings->count; i++) {
        if (is_without(without, &findings->items[i])) {
            is_of_end = is_of_end || oracle_of(&findings->items[i]) == HARNESS_ORACLE_LIVENESS;
        } else {
            findings->items[kept++] = findings->items[i];
        }
    }
    findings->count = kept;
    return is_of_end;
}

static void forget_lacks(struct harness_watch_accounts *accounts, enum harness_oracle_id oracle)
{
    size_t kept = 0;

    for (size_t i = 0; i < accounts->lack_count; i++) {
        if (accounts->lacks[i].oracle != oracle) {
            accounts->lacks[kept++] = accounts->lacks[i];
        }
    }
    accounts->lack_count = kept;
}

void harness_watch_account_without(struct harness_watch_accounts *accounts, const bool *without)
{
    for (int i = 0; without != NULL && i < HARNESS_ORACLE_COUNT; i++) {
        if (without[i]) {
            accounts->of[i] = (struct harness_watch_account){0};
            forget_lacks(accounts, (enum harness_oracle_id)i);
            harness_watch_add_lack(accounts, (enum harness_oracle_id)i, 0,
                                   "switched off by the scenario (job.guest.without)");
        }
    }
}
