/* What was judged of a guest, and what was not: an oracle that saw nothing has proved nothing. */
#ifndef HARNESS_RECORD_ACCOUNT_H
#define HARNESS_RECORD_ACCOUNT_H

#include "harness/watch/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HARNESS_WATCH_LACKS_MAX = 48, HARNESS_WATCH_WHY_BYTES = 96 };

/* What an oracle judged. It says itself what it counts (calls, tensors, batches, ranks). */
struct harness_watch_account {
    uint64_t judged;
    uint64_t bitwise; /* of these, bit for bit */
    uint64_t bound;   /* of these, within a derived bound */
};

/* What it did not. count 0: it had nothing to look at. */
struct harness_watch_lack {
    enum harness_oracle_id oracle;
    uint64_t count;
    char why[HARNESS_WATCH_WHY_BYTES];
};

struct harness_watch_accounts {
    struct harness_watch_account of[HARNESS_ORACLE_COUNT];
    struct harness_watch_lack lacks[HARNESS_WATCH_LACKS_MAX];
    size_t lack_count;
};

/* Add what was not judged; what there is no room for is left out. */
void harness_watch_add_lack(struct harness_watch_accounts *accounts, enum harness_oracle_id oracle,
                            uint64_t count, const char *why);
/* The first reason for which an oracle judged nothing; "" if none is known. */
const char *harness_watch_lack_of(const struct harness_watch_accounts *accounts,
                                  enum harness_oracle_id oracle);
/* The weakest way in which values were judged; PROVABLE if none were. */
enum harness_mode harness_watch_mode_of(const struct harness_watch_accounts *accounts);
/* Oracles that were switched off (without: [HARNESS_ORACLE_COUNT]; NULL: none is) have judged
 * nothing. What is told while ranks run belongs to the oracles of the program and of liveness. */
void harness_watch_account_without(struct harness_watch_accounts *accounts, const bool *without);
/* Take out what they found. Returns whether a rank that is gone or does not go on was among it. */
bool harness_watch_leave_out(struct harness_findings *findings, const bool *without);
/* Of calls and their results, ranks, and what nobody sees in a guest. The tally is finished. */
void harness_watch_account(const struct harness_watch *watch, struct harness_watch_accounts *out);

#ifdef __cplusplus
}
#endif
#endif
