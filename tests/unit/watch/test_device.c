/* Calls that a device makes: a post is not the rank's coming, a launch not the device's. */
#include <signal.h>
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/record/record.h"
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000, STREAM = 7 };

static void check_only(const struct fake_job *job, enum harness_verdict verdict, uint32_t culprit,
                       const char *words)
{
    CT_CHECK_EQ_U64(job->findings.count, 1);
    if (job->findings.count > 0) {
        const struct harness_finding *finding = &job->findings.items[0];

        CT_CHECK_STR(harness_verdict_name(finding->verdict), harness_verdict_name(verdict));
        CT_CHECK(harness_rank_set_has(&finding->culprits, culprit));
        CT_CHECK(strstr(finding->text, words) != NULL);
    }
}

/* Communicators 0 and 1 of all ranks, whose calls devices make, on lanes 0 and 1 of one stream. */
static void begin_devices(struct fake_job *job, uint32_t world_size)
{
    fake_job_open(job, world_size, 1024);
    for (uint32_t r = 0; r < world_size; r++) {
        fake_attach(job, r);
        for (uint32_t c = 0; c < 2; c++) {
            fake_comm_of(job, r, c, 1 + c, r, world_size, GUEST_COMM_DEVICE);
            fake_lane(job, r, c, c, STREAM);
        }
    }
}

/* A call goes to a device, which comes to it. */
static uint64_t run(struct fake_job *job, uint32_t rank, uint32_t place)
{
    const uint64_t seq = fake_post(job, rank, place, 10, 0);

    fake_launch(job, rank, place, seq, seq, place + 1);
    fake_reach(job, rank, place, seq, seq - 1);
    return seq;
}

CT_TEST(watch_device, healthy)
{
    struct fake_job job;

    begin_devices(&job, 3);
    for (uint32_t i = 0; i < 5; i++) {
        for (uint32_t r = 0; r < 3; r++) {
            uint64_t seq = run(&job, r, 0);

            CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
            fake_reach(&job, r, 0, seq, seq);
        }
    }
    CT_CHECK_EQ_U64(fake_look(&job, 4 * job.limits.silent_ns), 0);
    for (uint32_t r = 0; r < 3; r++) {
        fake_state(&job, r, HARNESS_WATCH_EXITED, 0);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 10 * HARNESS_WATCH_STOP_HOLD_NS), 0);
    fake_job_close(&job);
}

/* Nobody's thread waits: streams do. */
CT_TEST(watch_device, dead_while_streams_wait)
{
    struct fake_job job;

    begin_devices(&job, 3);
    run(&job, 0, 0);
    run(&job, 2, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGKILL);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, 1, "before posting all_reduce 1");
    CT_CHECK_EQ_U64(harness_rank_set_count(&job.findings.items[0].victims), 2);
    fake_job_close(&job);
}

/* Rings are read before lanes: a launch whose post came in between does not tell what is owed. */
CT_TEST(watch_device, a_launch_whose_post_was_not_read)
{
    struct fake_job job;

    begin_devices(&job, 3);
    fake_reach(&job, 0, 1, 1, 0);
    fake_reach(&job, 2, 1, 1, 0);
    fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGKILL);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, 1, "SIGKILL, step 0");
    CT_CHECK(job.findings.count == 1 && !job.findings.items[0].op.is_set); /* named at the end */
    fake_job_close(&job);
}

/* Rank 1 ends with its part under way. */
CT_TEST(watch_device, ended_inside_a_call)
{
    struct fake_job job;

    begin_devices(&job, 2);
    run(&job, 0, 0);
    run(&job, 1, 0);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, HARNESS_WATCH_STOP_HOLD_NS);
    check_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, 1, "inside all_reduce 1");
    fake_job_close(&job);
}

/* Its part is done, and others still have theirs under way. */
CT_TEST(watch_device, a_good_end)
{
    struct fake_job job;

    begin_devices(&job, 2);
    run(&job, 0, 0);
    fake_reach(&job, 1, 0, run(&job, 1, 0), 1);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, 10 * HARNESS_WATCH_STOP_HOLD_NS), 0);
    fake_job_close(&job);
}

/* A failed peer: this rank's call failed, or it gave the communicator up, before it ended. */
CT_TEST(watch_device, failed_after_a_death)
{
    for (int is_refused = 0; is_refused < 2; is_refused++) {
        struct fake_job job;

        begin_devices(&job, 3);
        for (uint32_t r = 0; r < 3; r += 2) {
            if (is_refused) {
                fake_launch(&job, r, 0, fake_post(&job, r, 0, 10, 0), 1, GUEST_LAUNCH_FAILED);
            } else {
                run(&job, r, 0);
                fake_reach(&job, r, 0, 1, 1);
                fake_comm_free(&job, r, 0, true);
            }
            fake_state(&job, r, HARNESS_WATCH_EXITED, 1);
        }
        fake_state(&job, 1, HARNESS_WATCH_SIGNALED, SIGKILL);
        fake_look(&job, MS);
        check_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, 1, "SIGKILL");
        fake_job_close(&job);
    }
}

/* Of a group of calls that rank 0 has launched together, rank 1 has posted one and launched none.
 */
CT_TEST(watch_device, posted_and_not_launched)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (int i = 0; i < 3; i++) {
        fake_post(&job, 0, 0, 10, 0);
    }
    fake_launch(&job, 0, 0, 1, 3, 1);
    fake_reach(&job, 0, 0, 3, 0);
    fake_post(&job, 1, 0, 10, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns), 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, 1, "before posting all_reduce 2");
    fake_job_close(&job);
}

/* The device of rank 1 is in a kernel of the program's own. */
CT_TEST(watch_device, launched_and_not_begun)
{
    struct fake_job job;

    begin_devices(&job, 2);
    run(&job, 0, 0);
    fake_launch(&job, 1, 0, fake_post(&job, 1, 0, 10, 0), 1, 1);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - MS), 0);
    fake_look(&job, 2 * MS);
    check_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, 1, "before its device came to all_reduce 1");
    fake_job_close(&job);
}

/* Two communicators in opposite order on one stream each: certain, whatever the threads do. */
CT_TEST(watch_device, circle_of_streams)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        run(&job, r, r);
        fake_launch(&job, r, 1 - r, fake_post(&job, r, 1 - r, 10, 0), 1, 2 - r);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS - MS), 0);
    fake_look(&job, MS);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 0, "ranks 0,1 wait for each other");
    CT_CHECK(job.findings.items[0].mode == HARNESS_MODE_PROVABLE);
    fake_job_close(&job);
}

/* The same on two streams each: the device comes to both calls. */
CT_TEST(watch_device, two_streams_are_no_circle)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_lane(&job, r, 1, 1, STREAM + 1);
        run(&job, r, r);
        fake_launch(&job, r, 1 - r, fake_post(&job, r, 1 - r, 10, 0), 1, 2 - r);
    }
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 2 * HARNESS_WATCH_CYCLE_HOLD_NS), 0);
    fake_job_close(&job);
}

/* In opposite order, each with a thread that waits for the stream before it posts the other call:
 * that is not seen, so it takes the limit of time, however long or short that is. */
CT_TEST(watch_device, circle_of_presumed_threads)
{
    static const uint64_t limits[] = {100 * MS, 2 * HARNESS_WATCH_CYCLE_HOLD_NS};

    for (size_t i = 0; i < 2; i++) {
        struct fake_job job;

        begin_devices(&job, 2);
        job.limits.silent_ns = limits[i];
        run(&job, 0, 0);
        run(&job, 1, 1);
        fake_look(&job, MS);
        CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns), 0);
        fake_look(&job, MS);
        check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 1, "wait for each other");
        CT_CHECK(job.findings.items[0].mode == HARNESS_MODE_BUDGET);
        fake_job_close(&job);
    }
}

/* Rank 1 waits in two calls that it launched together; nobody is missing from the second, which
 * ends with the first. */
CT_TEST(watch_device, launched_together)
{
    struct fake_job job;

    begin_devices(&job, 2);
    fake_comm_of(&job, 1, 2, 3, 0, 1, GUEST_COMM_DEVICE);
    fake_lane(&job, 1, 2, 2, STREAM);
    run(&job, 0, 0);
    run(&job, 1, 1);
    fake_launch(&job, 1, 2, fake_post(&job, 1, 2, 10, 0), 1, 3);
    fake_reach(&job, 1, 2, 1, 0);
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns + MS);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 1, "wait for each other");
    fake_job_close(&job);
}

/* Rank 1 has a call under way that nobody is missing from, and does not post the next one. */
CT_TEST(watch_device, a_slow_stream_is_no_excuse)
{
    struct fake_job job;

    begin_devices(&job, 2);
    fake_lane(&job, 0, 1, 1, STREAM + 1); /* on one stream the first one would be over */
    run(&job, 0, 0);
    run(&job, 1, 0);
    run(&job, 0, 1);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - MS), 0);
    fake_look(&job, 2 * MS);
    check_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, 1, "before posting all_reduce 1 of group");
    fake_job_close(&job);
}

/* How far the device is with a call is not seen: then its launch is its coming. */
CT_TEST(watch_device, unseen_progress)
{
    struct fake_job job;

    begin_devices(&job, 2);
    run(&job, 0, 0);
    fake_launch(&job, 1, 0, fake_post(&job, 1, 0, 10, 0), 1, 0);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 4 * job.limits.silent_ns), 0);
    fake_job_close(&job);
}

/* A lane goes from one communicator to the next. */
CT_TEST(watch_device, a_lane_changes_hands)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_reach(&job, r, 0, run(&job, r, 0), 1);
        fake_comm_free(&job, r, 0, false);
        fake_comm_of(&job, r, 2, 3, r, 2, GUEST_COMM_DEVICE);
        fake_lane(&job, r, 0, 2, STREAM);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_launch(&job, 0, 2, fake_post(&job, 0, 2, 10, 0), 1, 1);
    fake_reach(&job, 0, 0, 1, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, job.limits.silent_ns + MS);
    check_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, 1, "before posting all_reduce 1");
    fake_job_close(&job);
}

/* A message from rank 0 to rank 1, of so many bytes. */
static void post_message(struct fake_job *job, uint32_t rank, uint64_t size_bytes)
{
    const uint64_t seq = fake_post_op(
        job, rank, 2, guest_op_pack(DDPROVE_GUEST_SEND, DDPROVE_GUEST_BYTES, 0, 0), size_bytes, 0);

    fake_launch(job, rank, 2, seq, seq, 3);
    fake_reach(job, rank, 2, seq, seq - 1);
}

static void begin_pair(struct fake_job *job, uint32_t rank)
{
    fake_comm_of(job, rank, 2, 9, rank, 2, GUEST_COMM_PAIR);
    fake_lane(job, rank, 2, 2, STREAM);
}

/* It is sent in a step and received in another one, as between stages of a pipeline. */
CT_TEST(watch_device, messages_have_no_common_step)
{
    for (uint64_t wrong = 0; wrong < 2; wrong++) {
        struct fake_job job;

        begin_devices(&job, 2);
        begin_pair(&job, 0);
        begin_pair(&job, 1);
        fake_step(&job, 0, 3);
        fake_step(&job, 1, 5);
        post_message(&job, 0, 64);
        post_message(&job, 1, 64 - 32 * wrong);
        CT_CHECK_EQ_U64(fake_look(&job, MS) > 0, wrong);
        if (wrong != 0) {
            CT_CHECK(job.findings.items[0].verdict == HARNESS_VERDICT_MISMATCH_COUNT);
        }
        fake_job_close(&job);
    }
}

/* Rank 1 may be sending where nobody sees it; and rank 0, which waits for that, is not to blame for
 * what stands behind the message on its stream. */
CT_TEST(watch_device, an_unseen_end_of_a_pair)
{
    struct fake_job job;

    begin_devices(&job, 2);
    begin_pair(&job, 0);
    post_message(&job, 0, 64);
    fake_launch(&job, 0, 0, fake_post(&job, 0, 0, 10, 0), 1, 1);
    run(&job, 1, 0);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 4 * job.limits.silent_ns), 0);
    fake_job_close(&job);
}

/* A rank that ended with a call whose progress nobody saw may well have finished it. */
CT_TEST(watch_device, ended_and_unseen)
{
    struct fake_job job;

    begin_devices(&job, 2);
    run(&job, 0, 0);
    fake_launch(&job, 1, 0, fake_post(&job, 1, 0, 10, 0), 1, 0);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, 10 * HARNESS_WATCH_STOP_HOLD_NS), 0);
    fake_job_close(&job);
}

/* All devices have come to a call, and it does not end. */
CT_TEST(watch_device, a_call_that_does_not_end)
{
    struct fake_job job;

    begin_devices(&job, 2);
    run(&job, 0, 0);
    run(&job, 1, 0);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - 1), 0);
    fake_look(&job, 1);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 1, "ranks 0,1 are inside a call");
    CT_CHECK(job.findings.items[0].mode == HARNESS_MODE_BUDGET);
    fake_job_close(&job);
}

/* Threads that wait while they launch a call are no devices that are in it. */
CT_TEST(watch_device, launched_is_not_inside)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        const uint64_t seq = fake_post(&job, r, 0, 10, 0);

        fake_launch(&job, r, 0, seq, seq, 1);
        fake_wait(&job, r, 0, 0, seq);
    }
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 4 * job.limits.silent_ns), 0);
    fake_job_close(&job);
}

/* A communicator is made by threads: they are in it once they have come. */
CT_TEST(watch_device, a_birth_that_does_not_end)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        const uint64_t seq =
            fake_post_op(&job, r, 0, guest_op_pack(DDPROVE_GUEST_COMM_CREATE, 0, 0, 0), 0, 0);

        fake_launch(&job, r, 0, seq, seq, 0);
        fake_wait(&job, r, 0, 0, seq);
    }
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 0, "ranks 0,1 are inside a call");
    fake_job_close(&job);
}

/* Threads that hold each other are not sure at once beside a device: another thread launches its
 * calls, and NCCL has threads too. */
CT_TEST(watch_device, sure_only_without_devices)
{
    struct fake_job job;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        for (uint32_t c = 0; c < 2; c++) {
            fake_comm(&job, r, 4 + c, 20 + c, r, 2);
        }
        fake_wait(&job, r, 0, 4 + r, fake_post(&job, r, 4 + r, 10, 0));
        guest_arena_page(job.arena.head, r)->is_one_thread = 1;
    }
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS - 1), 0);
    fake_look(&job, 1);
    check_only(&job, HARNESS_VERDICT_HANG_CYCLE, 0, "ranks 0,1 wait for each other");
    fake_job_close(&job);
}

/* What a record says of devices' calls is enough to pass: they are not seen to end by a thread. */
CT_TEST(watch_device, a_record_of_a_good_job)
{
    struct fake_job job;
    struct harness_watch_record record;
    struct harness_watch_record read;
    struct ddp_err err = {{0}};
    struct ddp_text text;

    begin_devices(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        const uint64_t seq = run(&job, r, 0);

        fake_reach(&job, r, 0, seq, seq);
        fake_detach(&job, r);
    }
    fake_look(&job, MS);
    for (uint32_t r = 0; r < 2; r++) {
        fake_state(&job, r, HARNESS_WATCH_EXITED, 0);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    record = (struct harness_watch_record){.watch = job.watch, .findings = job.findings};
    ddp_text_init(&text, ddp_mem_pool_mem(job.pool));
    harness_watch_record_print(&record, &text);
    CT_CHECK_OK(harness_watch_record_parse(ddp_mem_pool_mem(job.pool), text.data, text.size_bytes,
                                           &read, &err));
    harness_watch_record_conclude(&read, 2, 0);
    CT_CHECK_EQ_U64(read.findings.count, 0);
    CT_CHECK(!read.findings.is_evidence_lost);
    fake_job_close(&job);
}

/* NCCL refuses a call that others make differently, and the rank ends. */
CT_TEST(watch_device, refused_and_ended)
{
    for (int way = 0; way < 2; way++) {
        struct fake_job job;

        begin_devices(&job, 3);
        for (uint32_t r = 0; r < 3; r++) {
            fake_post(&job, r, 0, r == 1 ? 10 : 20, 0);
        }
        fake_launch(&job, 1, (uint32_t)way, way == 0, way == 0, GUEST_LAUNCH_FAILED);
        fake_state(&job, 1, HARNESS_WATCH_EXITED, 1);
        CT_CHECK_EQ_U64(fake_look(&job, MS), way == 0 ? 1 : 2);
        CT_CHECK(job.findings.items[0].verdict == HARNESS_VERDICT_MISMATCH_COUNT);
        fake_job_close(&job);
    }
}
