/* A record that is cut at a loss: what the lost group did, and what the new one did. */
#include <stdio.h>
#include <string.h>

#include "harness/trace/part.h"
#include "tests/ct.h"

enum { RANKS = 4 };

struct job {
    struct ddp_mem_pool *pool;
    struct harness_trace trace;
    struct harness_parting parting;
    uint64_t time_ns;
};

static void note(struct job *job, uint32_t rank, enum ddp_event event, uint64_t a0, uint64_t a1,
                 uint64_t a2, uint64_t a3)
{
    struct ddp_event_entry ring[1] = {{.index = 1,
                                       .time_ns = ++job->time_ns,
                                       .step = 5,
                                       .phase = DDP_PHASE_BACKWARD,
                                       .event = (uint8_t)event,
                                       .arg = {a0, a1, a2, a3}}};

    CT_CHECK_OK(harness_trace_add_ring(&job->trace, rank, ring, 1, 1));
}

/* Rank 1 dies in step 5; the others lose their group. Rank 2 had done five steps, the others six.
 */
static void job_open(struct job *job)
{
    memset(job, 0, sizeof(*job));
    CT_REQUIRE_OK(ddp_mem_pool_create(&job->pool));
    harness_trace_init(&job->trace, ddp_mem_pool_mem(job->pool), RANKS, "sim");
    for (uint32_t r = 0; r < RANKS; r++) {
        note(job, r, DDP_EVENT_RANK_BEGIN, 100 + r, RANKS, 7, 0);
        note(job, r, DDP_EVENT_RANK_HOLDS, 3, 0, 0, 0);
        note(job, r, DDP_EVENT_COLL_POST, 1, 0, 0, 0);
    }
    job->trace.ends[1] = (struct harness_rank_end){
        .how = HARNESS_END_SIGNALED, .code = 9, .time_ns = ++job->time_ns};
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != 1) {
            note(job, r, DDP_EVENT_GROUP_LOST, (uint64_t)(uint32_t)DDP_E_PEER_DIED, 1,
                 r == 2 ? 5 : 6, 10 + r);
        }
    }
}

/* What a rank makes of it. */
static void announce(struct job *job, uint32_t rank, const uint32_t *list, uint32_t count)
{
    for (uint32_t m = 0; m < count; m++) {
        note(job, rank, DDP_EVENT_GROUP_MEMBER, m, list[m], 6, 0);
    }
    note(job, rank, DDP_EVENT_GROUP_CHANGED, 0, count, 6, 0);
    note(job, rank, DDP_EVENT_COLL_POST, 1, 0, 0, 0);
    note(job, rank, DDP_EVENT_RANK_END, 0, 8, 30, 0);
    job->trace.ends[rank] =
        (struct harness_rank_end){.how = HARNESS_END_EXITED, .time_ns = 1000000};
}

static void find(struct job *job)
{
    harness_trace_merge(&job->trace);
    CT_REQUIRE_OK(harness_parting_find(ddp_mem_pool_mem(job->pool), &job->trace, &job->parting));
}

static void job_close(struct job *job)
{
    harness_parting_fini(&job->parting);
    harness_trace_fini(&job->trace);
    ddp_mem_pool_destroy(job->pool);
}

static const uint32_t right[] = {0, 2, 3};

CT_TEST(part, a_job_that_lost_nobody_is_one)
{
    struct job job;

    memset(&job, 0, sizeof(job));
    CT_REQUIRE_OK(ddp_mem_pool_create(&job.pool));
    harness_trace_init(&job.trace, ddp_mem_pool_mem(job.pool), RANKS, "sim");
    note(&job, 0, DDP_EVENT_LOSS, 0, 0, 0, 0);
    find(&job);
    CT_CHECK(!job.parting.is_lost && !job.parting.is_set);
    job_close(&job);
}

CT_TEST(part, starts_where_most_had_come_to)
{
    struct job job;

    job_open(&job);
    for (uint32_t m = 0; m < 3; m++) {
        announce(&job, right[m], right, 3);
    }
    find(&job);
    CT_CHECK(job.parting.is_lost && job.parting.is_set && job.parting.count == 3);
    CT_CHECK_EQ_U64(job.parting.first_step, 6);
    CT_CHECK_EQ_U64(job.parting.source, 0);
    CT_CHECK_EQ_U64(harness_parting_member(&job.parting, 3), 2);
    CT_CHECK(harness_parting_member(&job.parting, 1) == UINT32_MAX);
    job_close(&job);
}

/* Two of three believe that rank 3 is lost, which came: the third one is right. */
CT_TEST(part, whoever_came_is_in_it)
{
    struct job job;

    job_open(&job);
    announce(&job, 0, right, 2);
    announce(&job, 2, right, 2);
    announce(&job, 3, right, 3);
    find(&job);
    CT_CHECK(job.parting.is_set && job.parting.count == 3);
    CT_CHECK(job.parting.by_rank[0].list_count == 2 && job.parting.by_rank[3].list_count == 3);
    job_close(&job);
}

/* The longer list has the dead rank in it. */
CT_TEST(part, the_dead_are_not)
{
    static const uint32_t with_dead[] = {0, 1, 2, 3};
    struct job job;

    job_open(&job);
    announce(&job, 0, with_dead, 4);
    announce(&job, 2, with_dead, 4);
    announce(&job, 3, right, 3);
    find(&job);
    CT_CHECK(job.parting.is_set && job.parting.count == 3);
    CT_CHECK(memcmp(job.parting.ranks, right, sizeof(right)) == 0);
    job_close(&job);
}

static size_t count_of(const struct harness_trace *trace, uint32_t rank, enum ddp_event event)
{
    size_t cursor = 0;
    size_t count = 0;

    while (harness_trace_next(trace, &cursor, rank, event) != NULL) {
        count++;
    }
    return count;
}

CT_TEST(part, both_halves_are_whole)
{
    struct job job;
    struct harness_trace before, after;
    const struct harness_trace_event *event;
    size_t cursor = 0;

    job_open(&job);
    for (uint32_t m = 0; m < 3; m++) {
        announce(&job, right[m], right, 3);
    }
    find(&job);
    CT_REQUIRE_OK(harness_trace_before(&job.trace, &job.parting, &before));
    CT_REQUIRE_OK(harness_trace_after(&job.trace, &job.parting, 99, &after));
    CT_CHECK(before.world_size == RANKS && after.world_size == 3);
    /* Before: the survivor ends with the error that it had, and what it had done. */
    event = harness_trace_next(&before, &cursor, 2, DDP_EVENT_RANK_END);
    CT_REQUIRE(event != NULL);
    CT_CHECK(event->entry.arg[1] == 5 && event->entry.arg[2] == 12);
    CT_CHECK_EQ_U64(event->entry.index, before.ends[2].event_count);
    CT_CHECK(before.ends[2].how == HARNESS_END_EXITED && before.ends[2].code == 1);
    CT_CHECK(before.ends[1].how == HARNESS_END_SIGNALED);
    CT_CHECK_EQ_U64(count_of(&before, 2, DDP_EVENT_COLL_POST), 1);
    CT_CHECK_EQ_U64(count_of(&before, 2, DDP_EVENT_GROUP_CHANGED), 0);
    /* After: member 1 begins anew, and its messages are those since. */
    cursor = 0;
    event = harness_trace_next(&after, &cursor, 1, DDP_EVENT_RANK_BEGIN);
    CT_REQUIRE(event != NULL);
    CT_CHECK(event->entry.index == 1 && event->entry.arg[1] == 3 && event->entry.arg[2] == 99);
    CT_CHECK_EQ_U64(count_of(&after, 1, DDP_EVENT_RANK_HOLDS), 1);
    CT_CHECK_EQ_U64(count_of(&after, 1, DDP_EVENT_COLL_POST), 1);
    cursor = 0;
    event = harness_trace_next(&after, &cursor, 1, DDP_EVENT_RANK_END);
    CT_REQUIRE(event != NULL);
    CT_CHECK_EQ_U64(event->entry.arg[2], 30 - 12);
    CT_CHECK_EQ_U64(event->entry.index, after.ends[1].event_count);
    harness_trace_fini(&before);
    harness_trace_fini(&after);
    job_close(&job);
}

/* Connections are between processes: rank 2, who is member 1 now, loses rank 3, who is member 2. */
CT_TEST(part, a_connection_that_broke_is_between_members)
{
    struct job job;
    struct harness_trace after;
    const struct harness_trace_event *event;
    size_t cursor = 0;

    job_open(&job);
    for (uint32_t m = 0; m < 3; m++) {
        announce(&job, right[m], right, 3);
    }
    note(&job, 2, DDP_EVENT_LINK_LOST, 3, 0, 0, 0);
    note(&job, 0, DDP_EVENT_LINK_LOST, 1, 0, 0, 0); /* the dead one: nobody's in the new group */
    note(&job, 0, DDP_EVENT_LINK_LOST, UINT64_MAX, 0, 0, 0);
    find(&job);
    CT_REQUIRE_OK(harness_trace_after(&job.trace, &job.parting, 99, &after));
    event = harness_trace_next(&after, &cursor, 1, DDP_EVENT_LINK_LOST);
    CT_REQUIRE(event != NULL);
    CT_CHECK(event->entry.arg[0] == 2);
    cursor = 0;
    event = harness_trace_next(&after, &cursor, 0, DDP_EVENT_LINK_LOST);
    CT_REQUIRE(event != NULL && event->entry.arg[0] == UINT64_MAX);
    harness_trace_fini(&after);
    job_close(&job);
}

/* Who is blamed decides which half a conclusion is about: the dead rank's, however late, is of the
 * first. */
CT_TEST(part, conclusions_go_with_whom_they_blame)
{
    struct job job;
    struct harness_trace before, after;
    struct harness_finding finding;

    job_open(&job);
    for (uint32_t m = 0; m < 3; m++) {
        announce(&job, right[m], right, 3);
    }
    harness_finding_init(&finding, ddp_mem_pool_mem(job.pool), HARNESS_VERDICT_CRASH_SIGNALED,
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 1);
    CT_REQUIRE_OK(harness_trace_add_diagnosis(&job.trace, 500000, &finding));
    harness_finding_init(&finding, ddp_mem_pool_mem(job.pool), HARNESS_VERDICT_HANG_STOPPED,
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 3);
    CT_REQUIRE_OK(harness_trace_add_diagnosis(&job.trace, 500001, &finding));
    find(&job);
    CT_REQUIRE_OK(harness_trace_before(&job.trace, &job.parting, &before));
    CT_REQUIRE_OK(harness_trace_after(&job.trace, &job.parting, 99, &after));
    CT_REQUIRE(before.diagnoses.count == 1 && after.diagnoses.count == 1);
    CT_CHECK(harness_rank_set_has(&before.diagnoses.items[0].culprits, 1));
    CT_CHECK(harness_rank_set_has(&after.diagnoses.items[0].culprits, 2)); /* as a member */
    harness_trace_fini(&before);
    harness_trace_fini(&after);
    job_close(&job);
}

/* A communicator is called as its program likes: its name stays one word of the line. */
CT_TEST(trace_diagnosis, a_name_with_spaces_is_read_again)
{
    static const char name[] = "data parallel\t100 %20\n text=x";
    struct ddp_mem_pool *pool = NULL;
    struct harness_finding finding, again;
    struct ddp_text line;
    struct ddp_err err = {{0}};
    uint64_t time_ns = 0;
    struct ddp_mem *mem;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    mem = ddp_mem_pool_mem(pool);
    harness_finding_init(&finding, mem, HARNESS_VERDICT_MISMATCH_MISSING, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    (void)snprintf(finding.guest.comm, sizeof finding.guest.comm, "%s", name);
    ddp_text_init(&line, mem);
    harness_trace_print_diagnosis(7, &finding, &line);
    CT_REQUIRE(harness_trace_parse_diagnosis(mem, ddp_text_str(&line), line.size_bytes, &time_ns,
                                             &again, &err) == DDP_OK);
    CT_CHECK(time_ns == 7);
    CT_CHECK_STR(again.guest.comm, name);
    ddp_mem_pool_destroy(pool);
}
