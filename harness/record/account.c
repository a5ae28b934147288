#include "harness/record/account.h"

#include <stdio.h>
#include <string.h>

void harness_watch_add_lack(struct harness_watch_accounts *accounts, enum harness_oracle_id oracle,
                            uint64_t count, const char *why)
{
    if (accounts->lack_count < HARNESS_WATCH_LACKS_MAX) {
        struct harness_watch_lack *lack = &accounts->lacks[accounts->lack_count++];

        lack->oracle = oracle;
        lack->count = count;
        (void)snprintf(lack->why, sizeof lack->why, "%s", why);
    }
}

const char *harness_watch_lack_of(const struct harness_watch_accounts *accounts,
                                  enum harness_oracle_id oracle)
{
    for (size_t i = 0; i < accounts->lack_count; i++) {
        if (accounts->lacks[i].oracle == oracle) {
            return accounts->lacks[i].why;
        }
    }
    return "";
}

enum harness_mode harness_watch_mode_of(const struct harness_watch_accounts *accounts)
{
    bool is_bitwise = false;

    for (unsigned i = 0; i < HARNESS_ORACLE_COUNT; i++) {
        if (accounts->of[i].bound > 0) {
            return HARNESS_MODE_BOUND;
        }
        is_bitwise = is_bitwise || accounts->of[i].bitwise > 0;
    }
    return is_bitwise ? HARNESS_MODE_BITWISE : HARNESS_MODE_PROVABLE;
}

/* --- calls
 * --------------------------------------------------------------------------------------------------------
 */

/* Compared are the calls of communicators of several members. */
static void account_program(const struct harness_watch *watch, struct harness_watch_accounts *out)
{
    uint64_t left = 0;
    uint64_t alone = 0;

    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];
        uint64_t posted = 0;

        for (uint32_t r = 0; r < watch->world_size; r++) {
            posted = group->members[r].posted > posted ? group->members[r].posted : posted;
        }
        if (group->size < 2) {
            alone += posted;
        } else {
            out->of[HARNESS_ORACLE_PROGRAM].judged += group->checked_seq;
            left += posted - group->checked_seq;
        }
    }
    if (left > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_PROGRAM, left,
                               "not posted by all members, or behind such a call");
    }
    if (alone > 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_PROGRAM, alone,
                               "of communicators with one member");
    }
    if (out->of[HARNESS_ORACLE_PROGRAM].judged == 0 && left == 0 && alone == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_PROGRAM, 0, "no rank posted a collective");
    }
}

static void account_results(const struct harness_watch_tally *tally,
                            struct harness_watch_accounts *out)
{
    static const char *const reasons[HARNESS_WATCH_UNJUDGED_COUNT] = {
#define X(id, words) words,
        HARNESS_WATCH_UNJUDGED_TABLE(X)
#undef X
    };
    struct harness_watch_account *sums = &out->of[HARNESS_ORACLE_REDUCTION];
    struct harness_watch_account *casts = &out->of[HARNESS_ORACLE_BROADCAST];
    uint64_t lacking = 0;

    casts->judged = casts->bitwise = tally->broadcasts;
    sums->judged = tally->judged - tally->broadcasts;
    sums->bound = tally->bounded;
    sums->bitwise = sums->judged - tally->bounded - tally->compared;
    for (int i = 0; i < HARNESS_WATCH_UNJUDGED_COUNT; i++) {
        if (tally->unjudged[i] > 0) {
            harness_watch_add_lack(out, HARNESS_ORACLE_REDUCTION, tally->unjudged[i], reasons[i]);
        }
        lacking += tally->unjudged[i];
    }
    if (sums->judged == 0 && lacking == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_REDUCTION, 0, "no call brought data");
    }
    if (casts->judged == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_BROADCAST, 0, "no result of one was judged");
    }
}

void harness_watch_account(const struct harness_watch *watch, struct harness_watch_accounts *out)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        out->of[HARNESS_ORACLE_LIVENESS].judged += watch->ranks[r].is_attached;
    }
    if (out->of[HARNESS_ORACLE_LIVENESS].judged == 0) {
        harness_watch_add_lack(out, HARNESS_ORACLE_LIVENESS, 0, "no rank has shown itself");
    }
    account_program(watch, out);
    account_results(&watch->tally, out);
    harness_watch_add_lack(out, HARNESS_ORACLE_GRADIENT, 0,
                           "no step is played again (job.guest.prove)");
}
