/* Ranks that were not started as the job needs them. */
#include "harness/watch/analyse.h"

static void begin(enum harness_verdict verdict, enum harness_mode mode,
                  struct harness_findings *out, struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_MONITOR, mode);
}

/* A process was started as one rank and says that it is another one. */
static void find_claims(const struct harness_watch *watch, struct harness_findings *out)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const uint64_t claim = watch->ranks[r].claim;
        struct harness_finding finding;

        if (claim == 0) {
            continue;
        }
        begin(HARNESS_VERDICT_LAUNCH_ENVIRONMENT, HARNESS_MODE_PROVABLE, out, &finding);
        harness_rank_set_add(&finding.culprits, r);
        harness_watch_say(&finding,
                          "the process that was started as rank %u says that it is rank %llu%s", r,
                          (unsigned long long)(claim - 1),
                          claim - 1 < watch->world_size ? "" : ", which the job has not");
        harness_findings_add(out, &finding);
    }
}

/* Several processes say that they are the same rank: copies of a command that starts ranks. */
static void find_rivals(const struct harness_watch *watch, struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    begin(HARNESS_VERDICT_LAUNCH_ENVIRONMENT, HARNESS_MODE_PROVABLE, out, &finding);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (watch->ranks[r].has_rival) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    if (!harness_rank_set_is_empty(&finding.culprits)) {
        harness_watch_say(&finding,
                          "two processes say that they are rank %s, so there are two jobs; if the "
                          "command starts the ranks itself, leave --ranks out",
                          harness_rank_set_text(&finding.culprits, ranks));
        harness_findings_add(out, &finding);
    }
}

/* Of ranks that are told how many there are: how many say that it is so many. */
static uint32_t count_told(const struct harness_watch *watch, uint64_t size)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        count += watch->ranks[r].is_attached && watch->ranks[r].world_size == size;
    }
    return count;
}

/* The number that the job has, or that most ranks were told; 0: there is no telling. */
static uint64_t right_size(const struct harness_watch *watch)
{
    uint32_t told = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        told += watch->ranks[r].is_attached && watch->ranks[r].world_size != 0;
    }
    if (watch->stated_size != 0) {
        return watch->stated_size;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const uint64_t size = watch->ranks[r].is_attached ? watch->ranks[r].world_size : 0;

        if (size != 0 && 2 * count_told(watch, size) > told) {
            return size;
        }
    }
    return 0;
}

static void find_wrong_size(const struct harness_watch *watch, uint64_t size,
                            struct harness_findings *out)
{
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    uint64_t told = 0;

    begin(HARNESS_VERDICT_LAUNCH_ENVIRONMENT, HARNESS_MODE_PROVABLE, out, &finding);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];

        if (self->is_attached && self->world_size != 0 && self->world_size != size) {
            harness_rank_set_add(&finding.culprits, r);
            told = self->world_size;
        }
    }
    if (!harness_rank_set_is_empty(&finding.culprits)) {
        harness_watch_say(&finding, "rank %s was told that there are %llu ranks; there are %llu",
                          harness_rank_set_text(&finding.culprits, ranks), (unsigned long long)told,
                          (unsigned long long)size);
        harness_findings_add(out, &finding);
    }
}

/* Some rank has posted a call: the job has begun, and who is missing is missed there. */
static bool has_begun(const struct harness_watch *watch)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        for (uint32_t r = 0; r < watch->world_size; r++) {
            if (watch->groups[g].members[r].posted > 0) {
                return true;
            }
        }
    }
    return false;
}

/* It has not shown itself, and nothing else is wrong with its process, if it has one. */
static bool is_absent(const struct harness_watch_rank *rank)
{
    return !rank->is_attached &&
           (rank->state == HARNESS_WATCH_UNKNOWN || rank->state == HARNESS_WATCH_RUNNING ||
            (rank->state == HARNESS_WATCH_EXITED && rank->code == 0));
}

/* Ranks wait for others to come before any of them makes a call, in code of their own. */
void harness_watch_find_absent(const struct harness_watch *watch,
                               const struct harness_watch_limits *limits,
                               struct harness_findings *out)
{
    const uint64_t right = right_size(watch);
    const uint32_t size = right < watch->world_size ? (uint32_t)right : watch->world_size;
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    uint32_t seen = 0;
    uint32_t lost = 0;

    if (watch->change_ns == 0 || harness_watch_unchanged_ns(watch) <= limits->attach_ns ||
        has_begun(watch)) {
        return;
    }
    begin(HARNESS_VERDICT_LAUNCH_MISSING_RANK, HARNESS_MODE_BUDGET, out, &finding);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];

        seen += self->is_attached && !self->is_detached && !harness_watch_is_gone(watch, r);
        lost += r < size && is_absent(self) && self->state != HARNESS_WATCH_RUNNING;
    }
    /* A process that runs may be waiting for one that does not. */
    for (uint32_t r = 0; r < size; r++) {
        if (is_absent(&watch->ranks[r]) &&
            (lost == 0 || watch->ranks[r].state != HARNESS_WATCH_RUNNING)) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    if (seen > 0 && !harness_rank_set_is_empty(&finding.culprits)) {
        harness_watch_say(&finding,
                          "rank %s has not shown itself, and for %.1f s no other rank has come to "
                          "its first call",
                          harness_rank_set_text(&finding.culprits, ranks),
                          (double)(watch->now_ns - watch->change_ns) / 1e9);
        harness_findings_add(out, &finding);
    }
}

void harness_watch_find_launch(const struct harness_watch *watch, struct harness_findings *out)
{
    const size_t before = out->count;

    find_claims(watch, out);
    if (out->count == before) {
        find_rivals(watch, out);
    }
    if (out->count == before && watch->stated_size != 0) {
        find_wrong_size(watch, watch->stated_size, out);
    }
}

uint64_t harness_watch_waited_for_ns(const struct harness_watch *watch, uint32_t rank)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < watch->waiter_count; i++) {
        const uint32_t r = watch->waiters[i];
        struct harness_watch_wait wait;

        if (!harness_watch_is_gone(watch, r) && harness_watch_needs(watch, r, rank, &wait) &&
            watch->now_ns > wait.enter_ns && watch->now_ns - wait.enter_ns > longest_ns) {
            longest_ns = watch->now_ns - wait.enter_ns;
        }
    }
    return longest_ns;
}

bool harness_watch_is_overdue(const struct harness_watch *watch,
                              const struct harness_watch_limits *limits, uint32_t rank)
{
    const uint64_t limit_ns =
        watch->ranks[rank].is_attached ? limits->silent_ns : limits->attach_ns;

    return !harness_watch_is_gone(watch, rank) && !harness_watch_is_kept(watch, rank) &&
           harness_watch_waited_for_ns(watch, rank) > limit_ns &&
           harness_watch_waited_for_ns(watch, rank) - limit_ns > watch->ranks[rank].starved_ns;
}

bool harness_watch_is_before_start(const struct harness_watch *watch,
                                   const struct harness_watch_limits *limits, uint32_t rank)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        if (watch->groups[g].members[rank].posted > 0) {
            return false;
        }
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (r != rank && !watch->ranks[r].is_attached && !harness_watch_is_gone(watch, r) &&
            harness_watch_waited_for_ns(watch, r) > limits->attach_ns &&
            (watch->ranks[rank].is_attached || (watch->ranks[rank].state == HARNESS_WATCH_RUNNING &&
                                                watch->ranks[r].state == HARNESS_WATCH_UNKNOWN))) {
            return true;
        }
    }
    return false;
}
