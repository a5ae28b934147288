/* What is recorded in two places and is not the same there is no evidence. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

static void check_lost(struct oracle_job *job, const char *says)
{
    CT_REQUIRE(oracle_job_check(job));
    CT_CHECK(job->findings.is_evidence_lost);
    CT_CHECK_STR(job->findings.lost_text, says);
}

CT_TEST(oracle, errors_of_nothing_are_lost_evidence)
{
    static const struct {
        enum ddp_event event;
        uint64_t arg[5];
        const char *says;
    } cases[] = {
        {DDP_EVENT_RANK_ERROR,
         {(uint32_t)DDP_E_PEER_DIED, 1, (uint32_t)DDP_E_PEER_DIED, 1, 0},
         "rank 0 ended by a death that it did not record"},
        {DDP_EVENT_PEER_DIED, {0}, "rank 0 recorded the death of rank 0, and another error"},
        {DDP_EVENT_PEER_DIED, {1}, "rank 0 recorded the death of rank 1, and another error"},
        {DDP_EVENT_REVOKE,
         {1, (uint64_t)DDP_E_TIMEOUT, 3, 0, 0},
         "rank 0 saw a revocation by rank 1 that nobody sent"},
        {DDP_EVENT_RANK_ERROR,
         {(uint32_t)DDP_E_TIMEOUT, 1, (uint32_t)DDP_E_REVOKED, 1, 0},
         "rank 0 ended by a revocation that it did not record"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oracle_job job;

        CT_REQUIRE(oracle_job_open(&job, false));
        CT_REQUIRE(oracle_job_run(&job));
        oracle_job_add_event(&job, 0, cases[i].event, ORACLE_JOB_STEPS, cases[i].arg);
        check_lost(&job, cases[i].says);
        oracle_job_close(&job);
    }
}

/* Whoever ends because of a peer that has done all its steps and ended well is wrong. */
CT_TEST(oracle, who_ended_well_is_not_dead)
{
    struct oracle_job job;
    const uint64_t error[5] = {(uint32_t)DDP_E_PEER_DIED, 1, (uint32_t)DDP_E_PEER_DIED, 1, 0};
    const uint64_t death[5] = {1};

    CT_REQUIRE(oracle_job_open(&job, false));
    CT_REQUIRE(oracle_job_run(&job));
    for (size_t i = 0; i < job.trace.event_count; i++) {
        struct harness_trace_event *event = &job.trace.events[i];

        if (event->rank == 0 && event->entry.event == DDP_EVENT_RANK_END) {
            event->entry.arg[0] = (uint32_t)DDP_E_PEER_DIED;
        }
    }
    oracle_job_add_event(&job, 0, DDP_EVENT_PEER_DIED, ORACLE_JOB_STEPS, death);
    oracle_job_add_event(&job, 0, DDP_EVENT_RANK_ERROR, ORACLE_JOB_STEPS, error);
    CT_REQUIRE(oracle_job_check(&job));
    CT_REQUIRE(job.findings.count == 1);
    CT_CHECK(job.findings.items[0].verdict == HARNESS_VERDICT_CRASH_EXITED);
    CT_CHECK(harness_rank_set_has(&job.findings.items[0].culprits, 0));
    CT_CHECK(!harness_rank_set_has(&job.findings.items[0].culprits, 1));
    CT_CHECK(strstr(job.findings.items[0].text, "had died, and it had ended well") != NULL);
    oracle_job_close(&job);
}

/* A number that is no status, which a rank ended with, is an error of its own; the record keeps it.
 */
CT_TEST(oracle, what_is_no_status_ends_no_rank)
{
    static const int32_t numbers[] = {DDP_PENDING, 1774786928, -1774786928};

    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
        struct oracle_job job;

        CT_REQUIRE(oracle_job_open(&job, false));
        CT_REQUIRE(oracle_job_run(&job));
        for (size_t i = 0; i < job.trace.event_count; i++) {
            struct harness_trace_event *event = &job.trace.events[i];

            if (event->rank == 1 && event->entry.event == DDP_EVENT_RANK_END) {
                event->entry.arg[0] = (uint32_t)numbers[k];
            }
        }
        CT_REQUIRE(oracle_job_check(&job));
        CT_REQUIRE(job.findings.count == 1);
        CT_CHECK(job.findings.items[0].verdict == HARNESS_VERDICT_CRASH_EXITED);
        CT_CHECK(harness_rank_set_has(&job.findings.items[0].culprits, 1));
        CT_CHECK(!harness_rank_set_has(&job.findings.items[0].culprits, 0));
        oracle_job_close(&job);
    }
}

CT_TEST(oracle, messages_are_those_of_the_schedules)
{
    struct oracle_job job;
    struct ddp_event_entry *end = NULL;

    CT_REQUIRE(oracle_job_open(&job, false));
    CT_REQUIRE(oracle_job_run(&job));
    for (size_t i = 0; i < job.trace.event_count; i++) {
        struct ddp_event_entry *entry = &job.trace.events[i].entry;

        end = entry->event == DDP_EVENT_RANK_END && job.trace.events[i].rank == 1 ? entry : end;
    }
    CT_REQUIRE(end != NULL && end->arg[2] == 21);
    end->arg[2]--;
    check_lost(&job, "rank 1 sent and received 20 messages, and its schedules have 21");
    oracle_job_close(&job);
}

/* Leaves out the last event of that kind of the rank: in its place it came to its end, as all do.
 */
static void leave_out(struct oracle_job *job, uint32_t rank, enum ddp_event event)
{
    size_t at = job->trace.event_count;

    for (size_t i = 0; i < job->trace.event_count; i++) {
        const struct harness_trace_event *one = &job->trace.events[i];

        at = one->rank == rank && one->entry.event == event ? i : at;
    }
    CT_REQUIRE(at < job->trace.event_count);
    job->trace.events[at].entry.event = DDP_EVENT_PHASE;
    job->trace.events[at].entry.phase = DDP_PHASE_END;
    memset(job->trace.events[at].entry.arg, 0, sizeof job->trace.events[at].entry.arg);
    job->trace.events[at].entry.arg[0] = DDP_PHASE_END;
}

/* The rank waited for it until it was over, or left in good order: it hangs nowhere, and did not
 * crash. */
CT_TEST(oracle, lines_left_out_blame_nobody)
{
    static const struct {
        enum ddp_event event;
        const char *says;
    } cases[] = {
        {DDP_EVENT_COLL_DONE, "rank 1 waited for collective 11, which never completed"},
        {DDP_EVENT_RANK_END, "rank 1 exited with code 0 and recorded no end"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct oracle_job job;

        CT_REQUIRE(oracle_job_open(&job, false));
        CT_REQUIRE(oracle_job_run(&job));
        leave_out(&job, 1, cases[i].event);
        check_lost(&job, cases[i].says);
        CT_CHECK_EQ_U64(job.findings.count, 0);
        oracle_job_close(&job);
    }
}

/* The monitor says that a rank posted something else, and the rank recorded the planned operation.
 */
CT_TEST(oracle, a_diagnosis_that_the_record_contradicts_blames_nobody)
{
    struct oracle_job job;
    struct harness_finding finding;
    const struct harness_op *planned;

    CT_REQUIRE(oracle_job_open(&job, false));
    CT_REQUIRE(oracle_job_run(&job));
    CT_REQUIRE(job.program.op_count > 1);
    planned = &job.program.ops[1];
    harness_finding_init(&finding, job.mem, HARNESS_VERDICT_MISMATCH_OP, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 1);
    finding.op = (struct harness_finding_op){
        true, planned->seq, planned->kind, planned->role, -1, planned->elem_count, planned->index};
    harness_findings_init(&job.findings, job.mem);
    harness_findings_add(&job.findings, &finding);
    CT_REQUIRE(harness_oracle_check_all(&job.input, &job.findings, NULL, NULL) == DDP_OK);
    CT_CHECK_EQ_U64(job.findings.count, 0);
    CT_CHECK(job.findings.is_evidence_lost);
    CT_CHECK(strstr(job.findings.lost_text, "a diagnosis names collective") != NULL);
    oracle_job_close(&job);
}
