/* Ranks of drawn programs, one of which goes wrong: whatever is said, no innocent rank is named. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "harness/diagnose/internal.h"
#include "tests/ct.h"

enum { CALLS_MAX = 64, RANKS_MAX = 6, JOBS = 4000 };

enum fault { LEFT_OUT, TWICE, SWAPPED, OTHER_COUNT, STOPPED, FAULT_COUNT };

/* What each rank posts; sizes stand for calls. */
struct job {
    uint32_t ranks, culprit;
    enum fault fault;
    int calls[RANKS_MAX][CALLS_MAX + 1];
    int count[RANKS_MAX];
    int meets; /* so many calls all have posted alike: these are done */
};

static uint32_t draw(struct ddp_prng *prng, uint32_t below)
{
    return (uint32_t)ddp_prng_below(prng, below);
}

/* Steps of the same few calls, as training has, and what one rank does instead. Ranks get as far as
 * the first call that not all have posted alike, and up to two calls further, as work that is
 * enqueued does. */
static void draw_job(struct ddp_prng *prng, struct job *job)
{
    int step = 2 + (int)draw(prng, 5);
    int steps = 3 + (int)draw(prng, 6);
    int sizes[8];
    int at = step * (2 + (int)draw(prng, (uint32_t)(steps - 2))) + (int)draw(prng, (uint32_t)step);
    int meets = CALLS_MAX;

    memset(job, 0, sizeof *job);
    job->ranks = 2 + draw(prng, RANKS_MAX - 1);
    job->culprit = draw(prng, job->ranks);
    job->fault = (enum fault)draw(prng, FAULT_COUNT);
    for (int i = 0; i < step; i++) {
        sizes[i] = 10 * (1 + (int)draw(prng, 3));
    }
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        int *calls = job->calls[rank];
        int count = 0;

        for (int i = 0; i < steps * step && count < CALLS_MAX; i++) {
            bool is_here = rank == job->culprit && i == at;

            if (is_here && job->fault == STOPPED) {
                break;
            }
            if (is_here && job->fault == LEFT_OUT) {
                continue;
            }
            calls[count++] = is_here && job->fault == OTHER_COUNT ? 7 : sizes[i % step];
            if (is_here && job->fault == TWICE && count < CALLS_MAX) {
                calls[count++] = sizes[i % step];
            }
        }
        if (rank == job->culprit && job->fault == SWAPPED && at + 1 < count) {
            int other = calls[at];

            calls[at] = calls[at + 1];
            calls[at + 1] = other;
        }
        job->count[rank] = count;
    }
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        int same = 0;

        while (same < job->count[rank] && same < job->count[0] &&
               job->calls[rank][same] == job->calls[0][same]) {
            same++;
        }
        if (same < job->count[0] || same < job->count[rank]) {
            meets = same < meets ? same : meets;
        }
    }
    job->meets = meets;
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        int end = meets + 1 + (int)draw(prng, 3);

        job->count[rank] = job->count[rank] < end ? job->count[rank] : end;
    }
}

static void show(struct harness_diag_evidence *evidence, const struct job *job, uint32_t absent)
{
    evidence->world = job->ranks;
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        char name[32];
        struct harness_diag_record *record;
        struct harness_diag_part *part;

        if (rank == absent) {
            continue;
        }
        (void)snprintf(name, sizeof name, "dump_rank_%u", rank);
        record = harness_diag_record_add(evidence, rank, name);
        part = harness_diag_record_part(evidence, record, harness_diag_group(evidence, "", ""));
        for (int i = 0; i < job->count[rank]; i++) {
            struct harness_diag_call call = {.seq = i + 1,
                                             .order = i,
                                             .kind = "all_reduce",
                                             .peer = -1,
                                             .root = -1,
                                             .redop = "",
                                             .dtype = "Float",
                                             .state = i < job->meets ? HARNESS_DIAG_UNKNOWN
                                                                     : HARNESS_DIAG_STARTED,
                                             .site = "",
                                             .place = {record->file, 0, i}};

            call.counts = harness_diag_keep_format(evidence, "%d", job->calls[rank][i]);
            harness_diag_call_add(evidence, part, &call);
        }
    }
}

static bool is_fault_seen(const struct job *job)
{
    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        int shorter = job->count[rank] < job->count[0] ? job->count[rank] : job->count[0];

        if (job->count[rank] != job->count[0] ||
            memcmp(job->calls[rank], job->calls[0], (size_t)shorter * sizeof(int)) != 0) {
            return true;
        }
    }
    return false;
}

/* Two ranks, one of which stands one call behind the other: whether the one is late or the other
 * has posted one too many, such records do not tell. It must be said so. */
static bool is_said_to_be_open(const struct harness_diag_finding *finding)
{
    for (size_t i = 0; i < finding->alternative_count; i++) {
        if (finding->alternatives[i] == HARNESS_VERDICT_MISMATCH_EXTRA) {
            return finding->sure != HARNESS_DIAG_CERTAIN;
        }
    }
    return false;
}

/* Returns whether the culprit is named. absent: this rank left no record; RANKS_MAX: all did. */
static bool judge(unsigned number, const struct job *job, uint32_t absent)
{
    struct harness_diagnosis *diagnosis = NULL;
    enum harness_outcome outcome;
    bool is_named = false;

    if (harness_diagnosis_create(&diagnosis) != DDP_OK) {
        return false;
    }
    show(&diagnosis->evidence, job, absent);
    outcome = harness_diagnosis_conclude(diagnosis);
    CT_CHECK(outcome != HARNESS_OUTCOME_ERROR);
    CT_CHECK(outcome != HARNESS_OUTCOME_PASS || (!is_fault_seen(job) && absent == RANKS_MAX));
    for (size_t k = 0; k < diagnosis->answer.finding_count; k++) {
        const struct harness_diag_finding *finding = &diagnosis->answer.findings[k];

        for (uint32_t r = 0; r < harness_rank_set_count(&finding->culprits); r++) {
            uint32_t rank = harness_rank_set_at(&finding->culprits, r);
            bool is_open = job->fault == TWICE && is_said_to_be_open(finding) &&
                           (job->ranks == 2 || absent != RANKS_MAX);

            is_named = is_named || rank == job->culprit;
            if (rank != job->culprit && !is_open) {
                CT_FAIL("job %u: fault %d of rank %u of %u, %u absent: rank %u is named: %s",
                        number, (int)job->fault, job->culprit, job->ranks, absent, rank,
                        finding->what);
            }
        }
    }
    harness_diagnosis_destroy(diagnosis);
    return is_named;
}

CT_TEST(diagnose_compare, names_no_innocent_rank_of_drawn_jobs)
{
    struct ddp_prng prng = ddp_prng_make(1, "diagnose");
    unsigned seen = 0;
    unsigned named = 0;
    unsigned named_without = 0;

    for (unsigned i = 0; i < JOBS; i++) {
        struct job job;

        draw_job(&prng, &job);
        seen += is_fault_seen(&job);
        named += judge(i, &job, RANKS_MAX);
        named_without += judge(i, &job, draw(&prng, job.ranks));
    }
    printf(
        "%u of %u faults show in the records; in %u their rank is named, with one record less in "
        "%u\n",
        seen, JOBS, named, named_without);
    CT_CHECK(100 * named > 95 * seen);
    CT_CHECK(2 * named_without > seen);
}

/* A rank that left only a log has left no record of another source's groups. */
CT_TEST(diagnose_settle, a_log_is_no_record_of_other_groups)
{
    struct harness_diagnosis *diagnosis = NULL;
    struct harness_diag_evidence *evidence;
    struct harness_diag_record *record;
    const struct harness_diag_member *member;

    CT_REQUIRE(harness_diagnosis_create(&diagnosis) == DDP_OK);
    evidence = &diagnosis->evidence;
    record = harness_diag_record_add(evidence, 0, "dump_rank_0");
    (void)harness_diag_record_part(evidence, record, harness_diag_group(evidence, "", ""));
    record = harness_diag_record_add(evidence, 1, "console.log");
    record->is_log = true;
    (void)harness_diag_record_part(evidence, record,
                                   harness_diag_group(evidence, "watchdog's 0", ""));
    harness_diag_settle(evidence);
    member = harness_diag_member_of(&evidence->groups[0], 1);
    CT_CHECK(member != NULL && !member->has_record);
    harness_diagnosis_destroy(diagnosis);
}

/* Gloo writes all groups down under one name, with ranks counted within them. */
CT_TEST(diagnose_settle, the_default_group_has_every_rank)
{
    static const uint32_t ranks[] = {0, 1, 3};
    struct harness_diagnosis *diagnosis = NULL;
    struct harness_diag_evidence *evidence;

    CT_REQUIRE(harness_diagnosis_create(&diagnosis) == DDP_OK);
    evidence = &diagnosis->evidence;
    evidence->world = 2; /* the last group's size */
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        struct harness_diag_record *record = harness_diag_record_add(evidence, ranks[i], "dump");

        (void)harness_diag_record_part(evidence, record, harness_diag_group(evidence, "0", ""));
    }
    harness_diag_settle(evidence);
    CT_CHECK_EQ_U64(evidence->groups[0].member_count, 4);
    CT_CHECK(!harness_diag_member_of(&evidence->groups[0], 2)->has_record);
    harness_diagnosis_destroy(diagnosis);
}

/* Numbers that no job reaches are damage, and nothing is counted from them. */
CT_TEST(diagnose_settle, numbers_beyond_reason_are_not_used)
{
    struct harness_diagnosis *diagnosis = NULL;
    struct harness_diag_record *record;
    struct harness_diag_part *part;
    struct harness_diag_call call = {.seq = INT64_MAX, .kind = "all_reduce", .counts = ""};

    CT_REQUIRE(harness_diagnosis_create(&diagnosis) == DDP_OK);
    record = harness_diag_record_add(&diagnosis->evidence, 0, "dump_rank_0");
    part = harness_diag_record_part(&diagnosis->evidence, record,
                                    harness_diag_group(&diagnosis->evidence, "", ""));
    part->posted = INT64_MAX;
    part->done = INT64_MAX;
    harness_diag_call_add(&diagnosis->evidence, part, &call);
    harness_diag_settle(&diagnosis->evidence);
    CT_CHECK_EQ_U64(part->count, 0);
    CT_CHECK_EQ_I64(diagnosis->evidence.groups[0].members[0].posted, 0);
    CT_CHECK_EQ_I64(diagnosis->evidence.groups[0].members[0].done, -1);
    harness_diagnosis_destroy(diagnosis);
}

/* The comparison costs what was recorded, not the distance between the records. */
CT_TEST(diagnose_compare, records_that_lie_far_apart_are_compared_at_once)
{
    struct harness_diagnosis *diagnosis = NULL;
    struct harness_diag_evidence *evidence;
    struct harness_diag_finding finding;

    CT_REQUIRE(harness_diagnosis_create(&diagnosis) == DDP_OK);
    evidence = &diagnosis->evidence;
    evidence->world = 2;
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct harness_diag_record *record =
            harness_diag_record_add(evidence, rank, rank == 0 ? "dump_rank_0" : "dump_rank_1");
        struct harness_diag_part *part =
            harness_diag_record_part(evidence, record, harness_diag_group(evidence, "", ""));
        const struct harness_diag_call call = {.seq = rank == 0 ? 1 : HARNESS_DIAG_SEQ_MAX,
                                               .kind = "all_reduce",
                                               .peer = -1,
                                               .root = -1,
                                               .redop = "",
                                               .counts = rank == 0 ? "10" : "20",
                                               .dtype = "Float",
                                               .site = "",
                                               .place = {record->file, 0, 0}};

        harness_diag_call_add(evidence, part, &call);
    }
    harness_diag_settle(evidence);
    CT_CHECK(!harness_diag_compare(evidence, 0, &finding));
    harness_diagnosis_destroy(diagnosis);
}
