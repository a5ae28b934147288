/* What only the end of a job shows. */
#include <stdarg.h>
#include <stdio.h>

#include "harness/record/record.h"
#include "harness/watch/analyse.h"

static void lose(struct harness_watch_record *record, const char *format, ...) DDP_PRINTF(2, 3);

/* Evidence is missing; the first reason is the one that is told. */
static void lose(struct harness_watch_record *record, const char *format, ...)
{
    struct harness_findings *findings = &record->findings;
    va_list args;

    if (findings->is_evidence_lost) {
        return;
    }
    findings->is_evidence_lost = true;
    va_start(args, format);
    (void)vsnprintf(findings->lost_text, sizeof findings->lost_text, format, args);
    va_end(args);
}

static void begin(struct harness_watch_record *record, enum harness_verdict verdict,
                  struct harness_finding *finding)
{
    harness_finding_init(finding, record->findings.mem, verdict, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
}

static void find_missing_ranks(struct harness_watch_record *record, uint32_t ranks)
{
    struct harness_finding finding;
    char names[HARNESS_RANKS_TEXT_BYTES];

    begin(record, HARNESS_VERDICT_LAUNCH_MISSING_RANK, &finding);
    for (uint32_t r = 0; r < ranks && r < record->watch.world_size; r++) {
        if (!record->watch.ranks[r].is_attached) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    if (!harness_rank_set_is_empty(&finding.culprits)) {
        harness_watch_say(&finding, "rank %s never showed itself",
                          harness_rank_set_text(&finding.culprits, names));
        harness_findings_add(&record->findings, &finding);
    }
}

/* The most calls that any member has posted. */
static uint64_t posted_most(const struct harness_watch *watch,
                            const struct harness_watch_group *group)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        most = group->members[r].posted > most ? group->members[r].posted : most;
    }
    return most;
}

/* Whoever lacks a call that others have posted: nobody waited for it, as nobody waits for those who
 * read what a root sends. */
static void find_missing_calls(struct harness_watch_record *record,
                               const struct harness_watch_group *group)
{
    const struct harness_watch *watch = &record->watch;
    const uint64_t most = posted_most(watch, group);
    const struct harness_watch_call *call;
    struct harness_finding finding;
    char names[HARNESS_RANKS_TEXT_BYTES];
    struct ddp_text text;
    uint64_t least = most;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &group->members[r];

        least = member->is_there && member->posted < least ? member->posted : least;
    }
    if (least == most) {
        return;
    }
    begin(record, HARNESS_VERDICT_MISMATCH_MISSING, &finding);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted == least) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    call = harness_watch_any_call(watch, group, least + 1);
    ddp_text_init(&text, record->findings.mem);
    harness_watch_print_call(group, least + 1, call, &text);
    harness_watch_set_op(group, least + 1, call, &finding);
    harness_watch_say(&finding, "rank %s never posted %s",
                      harness_rank_set_text(&finding.culprits, names), ddp_text_str(&text));
    harness_findings_add(&record->findings, &finding);
}

static void find_missing_steps(struct harness_watch_record *record, uint32_t steps)
{
    struct harness_finding finding;
    char names[HARNESS_RANKS_TEXT_BYTES];
    uint64_t least = steps;

    begin(record, HARNESS_VERDICT_CRASH_FINISHED_EARLY, &finding);
    for (uint32_t r = 0; r < record->watch.world_size; r++) {
        const struct harness_watch_rank *rank = &record->watch.ranks[r];

        if (rank->is_attached && rank->lost_count == 0 && rank->step_count < steps) {
            harness_rank_set_add(&finding.culprits, r);
            least = rank->step_count < least ? rank->step_count : least;
        }
    }
    if (!harness_rank_set_is_empty(&finding.culprits)) {
        finding.step = (int32_t)least;
        harness_watch_say(&finding, "rank %s ended after %llu of %u steps",
                          harness_rank_set_text(&finding.culprits, names),
                          (unsigned long long)least, steps);
        harness_findings_add(&record->findings, &finding);
    }
}

/* Ranks were not started as the job needs them, so not all of them are seen. */
static bool is_of_launch(const struct harness_watch_record *record)
{
    for (size_t i = 0; i < record->findings.count; i++) {
        if (harness_verdict_family(record->findings.items[i].verdict) == HARNESS_FAMILY_LAUNCH) {
            return true;
        }
    }
    return false;
}

/* A PASS stands on what was seen. */
static void ask_for_evidence(struct harness_watch_record *record)
{
    const struct harness_watch *watch = &record->watch;
    uint64_t posted = 0;

    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];
        uint64_t members = 0;

        for (uint32_t r = 0; r < watch->world_size; r++) {
            members += group->members[r].is_there;
        }
        if (members < group->size && !record->is_ended && !is_of_launch(record)) {
            lose(record, "of the %llu members of %s only %llu were seen",
                 (unsigned long long)group->size, group->name, (unsigned long long)members);
        }
        posted += posted_most(watch, group);
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (watch->ranks[r].lost_count > 0) {
            lose(record, "rank %u reported faster than it could be read: %llu entries are lost", r,
                 (unsigned long long)watch->ranks[r].lost_count);
        }
        if (watch->ranks[r].lost_comms > 0) {
            lose(record, "rank %u has more communicators than can be watched: %llu were not", r,
                 (unsigned long long)watch->ranks[r].lost_comms);
        }
    }
    if (posted == 0 && record->findings.count == 0) {
        lose(record, "no rank posted a collective: nothing was judged");
    }
}

/* The first call that the rank owes: others have posted it. NULL: none. */
static const struct harness_watch_group *first_owed(const struct harness_watch *watch,
                                                    uint32_t rank, uint64_t *out_seq)
{
    const struct harness_watch_group *found = NULL;
    uint64_t first_ns = 0;

    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];
        const struct harness_watch_member *member = &group->members[rank];
        const uint64_t time_ns =
            member->is_there ? harness_watch_first_posted_ns(watch, group, member->posted + 1) : 0;

        if (time_ns != 0 && (found == NULL || time_ns < first_ns)) {
            found = group;
            first_ns = time_ns;
            *out_seq = member->posted + 1;
        }
    }
    return found;
}

/* When it was reported, nobody may have come to wait yet. */
static void name_call(const struct harness_watch *watch, struct harness_finding *finding)
{
    uint64_t seq = 0;
    const struct harness_watch_group *group =
        first_owed(watch, harness_rank_set_at(&finding->culprits, 0), &seq);

    if (group != NULL) {
        const struct harness_watch_call *call = harness_watch_any_call(watch, group, seq);

        harness_watch_say(finding, ", before posting ");
        harness_watch_say_call(watch, group, seq, call, finding);
        harness_watch_set_op(group, seq, call, finding);
    }
}

/* Ranks that end in the same way in the same step are one finding: the first death is reported at
 * once, and the next one when it comes. */
static void join_crashes(struct harness_findings *findings)
{
    size_t kept = 0;

    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_finding *finding = &findings->items[i];
        struct harness_finding *same = NULL;

        for (size_t k = 0; k < kept && same == NULL; k++) {
            struct harness_finding *earlier = &findings->items[k];

            if (earlier->verdict == finding->verdict && earlier->step == finding->step &&
                harness_verdict_family(finding->verdict) == HARNESS_FAMILY_CRASH) {
                same = earlier;
            }
        }
        if (same != NULL) {
            harness_rank_set_add_all(&same->culprits, &finding->culprits);
            harness_watch_say(same, "; %s", finding->text);
        } else {
            findings->items[kept++] = *finding;
        }
    }
    findings->count = kept;
}

/* What crashes and hangs take along: the ranks that nothing blames and that did not come to their
 * own end. When it was reported, not all of them had come to wait. */
static void name_victims(struct harness_watch_record *record)
{
    struct harness_findings *findings = &record->findings;
    struct harness_rank_set victims = harness_rank_set_in(findings->mem);

    for (uint32_t r = 0; r < record->watch.world_size; r++) {
        const struct harness_watch_rank *rank = &record->watch.ranks[r];
        bool is_blamed = false;

        for (size_t i = 0; i < findings->count; i++) {
            is_blamed = is_blamed || harness_rank_set_has(&findings->items[i].culprits, r);
        }
        if (rank->is_attached && !rank->is_detached && !is_blamed) {
            harness_rank_set_add(&victims, r);
        }
    }
    for (size_t i = 0; i < findings->count; i++) {
        struct harness_finding *finding = &findings->items[i];
        const enum harness_family family = harness_verdict_family(finding->verdict);

        if (family != HARNESS_FAMILY_CRASH && family != HARNESS_FAMILY_HANG) {
            continue;
        }
        finding->victims = victims;
        if (!finding->op.is_set && harness_rank_set_count(&finding->culprits) == 1) {
            name_call(&record->watch, finding);
        }
    }
}

const char *harness_watch_record_unable(const struct harness_watch_record *record, uint32_t fault)
{
    static const char *const reasons[GUEST_UNABLE_COUNT] = {
#define X(id, words) [GUEST_UNABLE_##id] = words,
        GUEST_UNABLE_TABLE(X)
#undef X
    };
    const char *reason = NULL;

    for (uint32_t r = 0; r < record->watch.world_size; r++) {
        const struct harness_watch_rank *rank = &record->watch.ranks[r];

        if (rank->fired[fault] > 0) {
            return NULL;
        }
        reason = rank->unable[fault] != GUEST_UNABLE_NOT ? reasons[rank->unable[fault]] : reason;
    }
    return reason;
}

/* Nothing was found in a job that would have gone on: ranks that outlived their launcher are named.
 */
static void lose_rest(struct harness_watch_record *record)
{
    const struct harness_watch *watch = &record->watch;
    struct harness_rank_set alive = harness_rank_set_in(record->findings.mem);
    char names[HARNESS_RANKS_TEXT_BYTES];

    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (watch->ranks[r].is_attached && !watch->ranks[r].is_detached &&
            !harness_watch_is_gone(watch, r)) {
            harness_rank_set_add(&alive, r);
        }
    }
    if (harness_rank_set_is_empty(&alive)) {
        lose(record, "the job was ended from outside");
    } else {
        lose(record, "the job was ended from outside: rank %s had not ended by then",
             harness_rank_set_text(&alive, names));
    }
}

static bool is_without(const struct harness_watch_record *record, enum harness_oracle_id oracle)
{
    return record->without != NULL && record->without[oracle];
}

void harness_watch_record_conclude(struct harness_watch_record *record, uint32_t ranks,
                                   uint32_t steps)
{
    ask_for_evidence(record);
    if (record->findings.count > 0) {
        join_crashes(&record->findings);
        name_victims(record);
        return;
    }
    if (record->is_ended) {
        lose_rest(record);
        return;
    }
    if (!is_without(record, HARNESS_ORACLE_LIVENESS)) {
        find_missing_ranks(record, ranks);
    }
    for (size_t g = 0; g < record->watch.group_count && record->findings.count == 0 &&
                       !is_without(record, HARNESS_ORACLE_PROGRAM);
         g++) {
        find_missing_calls(record, &record->watch.groups[g]);
    }
    if (record->findings.count == 0 && !is_without(record, HARNESS_ORACLE_LIVENESS)) {
        find_missing_steps(record, steps);
    }
    if (record->findings.count == 0 && record->exit_code != 0) {
        lose(record, "the command ended with code %d, and no rank did", record->exit_code);
    }
}
