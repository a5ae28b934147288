/* What the monitor makes of progress words: each rule with the first, a middle and the last rank as
 * the culprit. Moments next to these: test_monitor_device_healthy.c. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

/* LATE: just beyond the budget of every phase that these cases use; LAST: just within. */
enum { RANKS = CUT_RANKS, LATE_MS = CUT_LATE_MS, LAST_MS = CUT_LATE_MS - 1 };

/* A forward kernel hangs while its host has run ahead into the wait for a bucket: named with the
 * layer, and with the collective that it holds back; the others only wait. */
CT_TEST(monitor_device, names_a_stuck_kernel_behind_a_wait)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        cut_compute(&job, rank, DDP_MARK_FORWARD, 2, 4);
        cut_comm(&job, rank, cut_seq(1, 1), CUT_COMM_BEFORE);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_FORWARD);
        CT_CHECK_EQ_I64(finding->step, 1);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
        CT_CHECK_EQ_U64(finding->params.count, 2);
        CT_CHECK(strstr(finding->text, "GPU kernel of forward layer 2 on rank ") != NULL);
        CT_CHECK(strstr(finding->text, "started, not ended in step 1, forward") != NULL);
        CT_CHECK(strstr(finding->text, "; enqueued, not started: all_reduce seq 6 "
                                       "(bucket 1: fc0.bias, fc0.weight)") != NULL);
        CT_CHECK(strstr(finding->text, "host in backward") != NULL);
    }
}

/* The same kernel, and a host that asks for its output: it has not posted what the others wait for,
 * and is not called a rank that never joined. */
CT_TEST(monitor_device, tells_a_stuck_kernel_from_not_joined)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        cut_post(&job, rank, cut_seq(1, 0));
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_ENDED);
        cut_host(&job, rank, DDP_PHASE_LOSS, LATE_MS);
        cut_compute(&job, rank, DDP_MARK_FORWARD, 2, 1);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_FORWARD);
        CT_CHECK(strstr(finding->text, "; not yet posted: all_reduce seq 6 (bucket 1") != NULL);
        /* If its device is drained, the host is the culprit, as without words. */
        cut_compute(&job, rank, DDP_MARK_IDLE, 0, 0);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        /* Nor does a mark that it has passed while enqueueing excuse the host. */
        cut_compute(&job, rank, DDP_MARK_FORWARD, 2, 0);
        CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED) != NULL);
    }
}

/* Several stuck kernels are one finding, with all of them named. */
CT_TEST(monitor_device, names_all_stuck_kernels)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    for (uint32_t r = 1; r < 3; r++) {
        cut_compute(&job, r, r == 1 ? DDP_MARK_BACKWARD : DDP_MARK_OPTIMIZER, 0, 2);
        cut_comm(&job, r, cut_seq(1, 1), CUT_COMM_BEFORE);
    }
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), 2);
    CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_BACKWARD);
    CT_CHECK(strstr(finding->text, "kernel of backward on rank 1") != NULL);
    CT_CHECK(strstr(finding->text, "kernel of optimizer on rank 2") != NULL);
    /* It speaks of the one that has been still for longest. */
    cut_still(&job, 2, LATE_MS + 1);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_OPTIMIZER);
    cut_fini(&job);
}

/* The host may be a step ahead of its device: the place is the device's. */
CT_TEST(monitor_device, places_a_kernel_that_the_host_has_left_behind)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    cut_host(&job, 2, DDP_PHASE_DATA, LATE_MS);
    cut_compute(&job, 2, DDP_MARK_OPTIMIZER, 0, 1);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_ENDED);
    job.pages[2].step = 2;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 2);
    CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_OPTIMIZER);
    CT_CHECK_EQ_I64(finding->step, 1);
    cut_compute(&job, 2, DDP_MARK_BACKWARD, 0, 1);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK(finding->phase == DDP_PHASE_BACKWARD && finding->step == 1 && finding->micro == -1);
    job.pages[2].micro = 3;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK(finding->phase == DDP_PHASE_BACKWARD && finding->step == 2 && finding->micro == 2);
    cut_fini(&job);
}

/* Compute is done and the collective does not start: not a stuck kernel, not the peers' fault. */
CT_TEST(monitor_device, names_a_collective_that_never_starts)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        cut_comm(&job, rank, cut_seq(1, 1), CUT_COMM_BEFORE);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_LAUNCHED);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
        CT_CHECK(strstr(finding->text,
                        " enqueued a collective that does not start in step 1, backward") != NULL);
        /* Posted, the others inside it, and not even enqueued. */
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_ENDED);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_LAUNCHED);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
        CT_CHECK(strstr(finding->text, " posted a collective and never enqueued it") != NULL);
        /* Not while it waits for another rank to agree to it. */
        cut_wait(&job, rank, cut_seq(1, 1), (int32_t)((rank + 1) % RANKS));
        cut_analyse(&job);
        for (size_t i = 0; i < job.findings.count; i++) {
            CT_CHECK(job.findings.items[i].verdict != HARNESS_VERDICT_HANG_NOT_LAUNCHED);
        }
    }
}

/* A host that waits with the work behind its last mark unmarked: whether compute has drained is not
 * known, so the collective is not said to be at fault. */
CT_TEST(monitor_device, does_not_call_compute_drained_without_a_mark)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    cut_compute(&job, 1, DDP_MARK_BACKWARD, 0, 0);
    cut_comm(&job, 1, cut_seq(1, 1), CUT_COMM_BEFORE);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 1);
    CT_CHECK(strstr(finding->text, "(no mark behind it)") != NULL);
    cut_fini(&job);
}

/* Two collectives are enqueued: the first that did not start is named, not the last. */
CT_TEST(monitor_device, names_the_first_of_several_collectives)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct ddp_progress_words *words = &job.progress[r].stream[DDP_PROGRESS_COMM];

        job.pages[r].seq_done = cut_seq(0, 1);
        cut_wait(&job, r, cut_seq(1, 0), -1);
        cut_comm(&job, r, cut_seq(1, 0), r == 3 ? CUT_COMM_BEFORE : CUT_COMM_INSIDE);
        words->enqueued = ddp_mark_pack(2 * cut_seq(1, 1), DDP_MARK_COLL_END, cut_seq(1, 1));
    }
    finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_LAUNCHED);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 3);
    CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 0));
    cut_fini(&job);
}

/* All have started and none ends: no rank can be named, and the finding says so. */
CT_TEST(monitor_device, blames_all_for_a_collective_that_does_not_end)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
    CT_CHECK(harness_rank_set_is_empty(&finding->victims));
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
    CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
    CT_CHECK(strstr(finding->text, "started and does not end on ranks 0, 1, 2 and 3") != NULL);
    CT_CHECK(strstr(finding->text, "which rank or link holds it up is not known") != NULL);
    cut_fini(&job);
}

/* Where it has ended it is not stuck. */
CT_TEST(monitor_device, names_the_only_rank_that_does_not_finish)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        for (uint32_t r = 0; r < RANKS; r++) {
            if (r != rank) {
                cut_comm(&job, r, cut_seq(1, 1), CUT_COMM_ENDED);
                job.pages[r].seq_done = cut_seq(1, 1);
                cut_host(&job, r, DDP_PHASE_OPTIMIZER, 5);
            }
        }
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK(strstr(finding->text, ", ended on ranks ") != NULL);
        CT_CHECK(strstr(finding->text, "not known") == NULL);
        /* Their hosts have not looked yet. */
        for (uint32_t r = 0; r < RANKS; r++) {
            job.pages[r].seq_done = cut_seq(1, 0);
            cut_wait(&job, r, cut_seq(1, 1), -1);
            cut_still(&job, r, LATE_MS);
        }
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        /* Their devices are inside the next one already. */
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_INSIDE);
        for (uint32_t r = 0; r < RANKS; r++) {
            job.pages[r].seq_done = cut_seq(0, 1);
            if (r != rank) {
                cut_comm(&job, r, cut_seq(1, 1), CUT_COMM_INSIDE);
            }
        }
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 0));
    }
}

/* All inside, and one rank's compute does not end: it has to, whatever the collective does. If all
 * ranks' compute stands still, the collective is the simpler reason. */
CT_TEST(monitor_device, blames_compute_that_stands_out)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    cut_compute(&job, 2, DDP_MARK_BACKWARD, 0, 1);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    cut_check_others_wait(finding, 2);
    CT_CHECK(strstr(finding->text, "; started: all_reduce seq 6") != NULL);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_compute(&job, r, DDP_MARK_BACKWARD, 0, 1);
    }
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM) != NULL);
    /* Work behind the last mark is not seen to be there at all. */
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_compute(&job, r, r == 2 ? DDP_MARK_BACKWARD : DDP_MARK_IDLE, 0, 0);
    }
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
    cut_fini(&job);
}

/* A rank without words that waits like the others may be the cause: it is among the culprits, and
 * listed as unknown. */
CT_TEST(monitor_device, lists_ranks_without_words)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        job.progress[rank].is_mapped = 0;
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
        CT_REQUIRE(finding != NULL);
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
        CT_CHECK(strstr(finding->text, ", unknown on rank ") != NULL);
        /* Stuck words that are not mapped mean nothing. */
        cut_compute(&job, rank, DDP_MARK_FORWARD, 0, 1);
        CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM) != NULL);
        /* Another rank's words are enough to blame that one. */
        cut_comm(&job, 1, cut_seq(1, 1), CUT_COMM_BEFORE);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_LAUNCHED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, 1);
    }
}

/* A rank that has not posted is found as without words, and the collective is not suspected. */
CT_TEST(monitor_device, does_not_mask_a_rank_that_never_posted)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        cut_post(&job, rank, cut_seq(1, 0));
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_ENDED);
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LAST_MS);
        cut_check_silent(&job, "it may still post");
    }
}

/* A host that is stuck in its own code after it posted and before it enqueued anything: the device
 * is not involved, with or without words. */
CT_TEST(monitor_device, does_not_mask_a_stuck_host)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_ENDED);
        for (uint64_t is_mapped = 0; is_mapped < 2; is_mapped++) {
            job.progress[rank].is_mapped = is_mapped;
            finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
            CT_REQUIRE(finding != NULL);
            cut_check_culprit(finding, rank);
        }
    }
}

/* A host that launched a collective, and then got stuck before it marked the end: the others are
 * through, so it is the host that stands out. One that waits would have marked it: there NCCL's own
 * call does not end. Nor is it known what the host hangs in while others are inside as well. */
CT_TEST(monitor_device, blames_a_host_that_never_marked_the_end)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        for (uint32_t r = 0; r < RANKS; r++) {
            cut_post(&job, r, cut_seq(1, 1));
            cut_comm(&job, r, cut_seq(1, 0), CUT_COMM_ENDED);
        }
        cut_post(&job, rank, cut_seq(1, 0));
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_OPEN);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
        cut_wait(&job, rank, cut_seq(1, 0), -1);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_post(&job, 1, cut_seq(1, 0));
        cut_wait(&job, 1, cut_seq(1, 0), -1);
        cut_comm(&job, 1, cut_seq(1, 0), CUT_COMM_INSIDE);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
        CT_REQUIRE(finding != NULL);
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
        CT_CHECK(strstr(finding->text, ", its end not marked on rank ") != NULL);
    }
}

/* A rank that waits for an earlier collective has not been seen to launch or join this one. */
CT_TEST(monitor_device, does_not_suspect_before_all_have_posted)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        cut_post(&job, rank, cut_seq(1, 0));
        cut_wait(&job, rank, cut_seq(1, 0), -1);
        cut_still(&job, rank, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_ENDED);
        for (uint64_t is_mapped = 0; is_mapped < 2; is_mapped++) {
            job.progress[rank].is_mapped = is_mapped;
            cut_analyse(&job);
            for (size_t i = 0; i < job.findings.count; i++) {
                CT_CHECK(job.findings.items[i].verdict < HARNESS_VERDICT_HANG_DEVICE_COMPUTE ||
                         job.findings.items[i].verdict > HARNESS_VERDICT_HANG_NOT_LAUNCHED);
            }
        }
    }
}
