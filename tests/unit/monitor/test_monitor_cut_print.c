/* Printed cuts: what a person reads after a hang. */
#include <string.h>

#include "tests/ct.h"
#include "tests/rank_mask.h"
#include "tests/unit/monitor/monitor_cut.h"

#define BUCKET_0 "(bucket 0: fc1.bias, fc1.weight)"
#define BUCKET_1 "(bucket 1: fc0.bias, fc0.weight)"

/* The text of a cut whose culprits are the bits of mask; free with ddp_text_fini. */
static void explain(const struct cut_job *job, uint64_t mask, struct ddp_text *out)
{
    const struct harness_rank_set culprits = rank_set_of_mask(ddp_mem_pool_mem(job->pool), mask);

    ddp_text_init(out, ddp_mem_system());
    harness_cut_print(&job->plan, &job->program, &job->cut, &culprits, out);
    CT_CHECK(!out->is_failed);
}

static void check_whole(struct cut_job *job, uint64_t mask, const char *expected)
{
    struct ddp_text text;

    explain(job, mask, &text);
    CT_CHECK_STR(ddp_text_str(&text), expected);
    ddp_text_fini(&text);
    cut_fini(job);
}

static void check_has(const struct cut_job *job, uint64_t mask, const char *line)
{
    struct ddp_text text;

    explain(job, mask, &text);
    if (strstr(ddp_text_str(&text), line) == NULL) {
        CT_FAIL("no \"%s\" in\n%s", line, ddp_text_str(&text));
    }
    ddp_text_fini(&text);
}

static void check_has_not(const struct cut_job *job, const char *part)
{
    struct ddp_text text;

    explain(job, 0, &text);
    CT_CHECK(strstr(ddp_text_str(&text), part) == NULL);
    ddp_text_fini(&text);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

/* A rank in host code: its place, what it posted and has not posted, its budget; who waits for it.
 */
CT_TEST(monitor_explain, shows_a_rank_in_host_code)
{
    struct cut_job job;

    cut_init(&job, 3);
    cut_post(&job, 1, cut_seq(1, 0));
    cut_host(&job, 1, DDP_PHASE_BACKWARD, 2001);
    check_whole(&job, 2,
                "r0 running, in step 1, backward; posted all_reduce seq 6 " BUCKET_1
                ", done seq 5; waiting for 1.0 ms\n"
                "r1 (culprit) running, in step 1, backward; posted all_reduce seq 5 " BUCKET_0
                ", done seq 4; has not posted all_reduce seq 6 " BUCKET_1
                "; silent in host code for 2001.0 ms (budget 2000 ms)\n"
                "r2 running, in step 1, backward; posted all_reduce seq 6 " BUCKET_1
                ", done seq 5; waiting for 1.0 ms\n"
                "r0 waits for r1: all_reduce seq 6 " BUCKET_1 "\n"
                "r2 waits for r1: all_reduce seq 6 " BUCKET_1 "\n"
                "r0 waits for r2: all_reduce seq 6 " BUCKET_1 "\n");
}

/* Every state of a process; a micro-batch where there are several; a rank that is only late has not
 * posted nothing. */
CT_TEST(monitor_explain, shows_how_processes_are)
{
    struct cut_job job;

    cut_init(&job, 6);
    job.plan.job.micro_batches = 2;
    cut_process(&job, 1, HARNESS_PROCESS_STOPPED, 0, 92);
    cut_process(&job, 2, HARNESS_PROCESS_SIGNALED, 9, 3);
    cut_process(&job, 3, HARNESS_PROCESS_EXITED, 7, 4);
    job.is_page_valid[4] = false;
    memset(&job.pages[4], 0, sizeof(job.pages[4]));
    cut_process(&job, 4, HARNESS_PROCESS_NOT_STARTED, 0, 0);
    cut_post(&job, 5, 0);
    cut_host(&job, 5, DDP_PHASE_RENDEZVOUS, 3);
    check_has(&job, 0,
              "\nr1 (others wait for it) stopped for 92.0 ms, in step 1, micro-batch 0, backward; "
              "posted ");
    check_has(&job, 4,
              "\nr2 (culprit) ended by signal 9 (SIGKILL), 3.0 ms ago, last seen in step 1");
    check_has(&job, 0,
              "\nr3 (others wait for it) exited with code 7, 4.0 ms ago, last seen in step 1");
    check_has(&job, 0, "\nr4 (others wait for it) not started, has recorded nothing yet\n");
    check_has(&job, 0,
              "\nr5 (others wait for it) running, in rendezvous; nothing posted; has not posted "
              "all_gather seq 1 (verify); silent in host code for 3.0 ms (budget ");
    cut_post(&job, 0, cut_seq(1, 0));
    cut_wait(&job, 0, cut_seq(1, 0), 2);
    check_has(&job, 0,
              "r0 running, in step 1, micro-batch 0, backward; posted all_reduce seq "
              "5 " BUCKET_0 ", done seq 4; waiting for 1.0 ms\n");
    cut_fini(&job);
}

/* Time without a CPU is not part of the rank's silence, and is printed. */
CT_TEST(monitor_explain, tells_starved_from_silent)
{
    const uint64_t starved_ns[2] = {0, 4 * CUT_MS};
    struct cut_job job;

    cut_init(&job, 2);
    job.cut.starved_ns = starved_ns;
    cut_host(&job, 1, DDP_PHASE_BACKWARD, 7);
    check_has(&job, 2,
              "; silent in host code for 3.0 ms (budget 2000 ms); kept from a CPU for "
              "4.0 ms\n");
    cut_fini(&job);
}

/* For an operation that differs from the program, the difference is printed; for a rank that ended,
 * how it ended. */
CT_TEST(monitor_explain, shows_a_mismatch)
{
    struct cut_job job;

    cut_init(&job, 2);
    job.pages[1].posted_count = 55;
    cut_end(&job, 1, DDP_E_MISMATCH);
    job.pages[1].revoke_rank = 2;
    check_has(&job, 2,
              "r1 (culprit) running, in step 1, end; posted all_reduce seq 6 " BUCKET_1
              ", not the program's (MISMATCH.COUNT), done seq 5; ended with MISMATCH; "
              "saw r1 revoke the group\n");
    cut_fini(&job);
}

/* A wait names the operation as the waiting rank posted it. */
CT_TEST(monitor_explain, names_what_was_posted)
{
    struct cut_job job;

    cut_init(&job, 2);
    job.pages[0].posted_op = ddp_event_op_pack(
        &(struct ddp_event_op){.kind = DDP_COLL_BROADCAST, .role = DDP_ROLE_USER});
    cut_host(&job, 1, DDP_PHASE_FORWARD, 1);
    check_has(&job, 2, "\nr0 waits for r1: broadcast seq 6 (user)\n");
    cut_fini(&job);
}

/* Waits for no rank in particular, at the store and inside what all have posted. */
CT_TEST(monitor_explain, shows_waits_for_nobody_known)
{
    struct cut_job job;

    cut_init(&job, 2);
    job.pages[0].wait_peer = 0;
    job.pages[1].wait_peer = 0;
    check_has(&job, 0, "\nr1 waits for an unknown rank: all_reduce seq 6 " BUCKET_1 "\n");
    job.pages[0].wait_kind = DDP_WAIT_STORE;
    job.pages[1].wait_kind = DDP_WAIT_STORE;
    check_has(&job, 0, "\nr0 waits for an unknown rank: a key of the store\n");
    cut_fini(&job);
}

/* Circles are printed with their ranks in order; one inside a single collective is marked. */
CT_TEST(monitor_explain, shows_circles)
{
    struct cut_job job;

    cut_init(&job, 5);
    check_has(&job, 0,
              "\ncircle of waits for messages of one collective: "
              "r0 → r4 → r3 → r2 → r1 → r0\n");
    job.pages[0].comm = 1;
    cut_wait(&job, 0, cut_seq(1, 1), 1);
    cut_wait(&job, 4, cut_seq(1, 1), 3);
    cut_wait(&job, 3, cut_seq(1, 1), 4);
    check_has(&job, 0, "\ncircle of waits: r0 → r1 → r0\n");
    check_has(&job, 0, "\ncircle of waits for messages of one collective: r3 → r4 → r3\n");
    cut_host(&job, 0, DDP_PHASE_FORWARD, 1);
    cut_host(&job, 4, DDP_PHASE_FORWARD, 1);
    check_has_not(&job, "circle");
    cut_fini(&job);
}

/* Where each device is: a kernel that does not end, a collective that does not start, one that does
 * not end. A device that shows no words has no line. */
CT_TEST(monitor_explain, shows_devices)
{
    struct cut_job job;

    cut_open_device(&job, 4);
    cut_compute(&job, 0, DDP_MARK_FORWARD, 2, 4);
    cut_comm(&job, 0, cut_seq(1, 1), CUT_COMM_BEFORE);
    cut_compute(&job, 1, DDP_MARK_BACKWARD, 0, 0);
    cut_compute(&job, 2, DDP_MARK_IDLE, 0, 1);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_ENDED);
    cut_comm(&job, 3, cut_seq(1, 1), CUT_COMM_OPEN);
    check_has(&job, 1,
              "waiting for 2001.0 ms\n"
              "r0 device: compute in forward layer 2 (mark 37 of 41): started, not ended; comm "
              "before all_reduce seq 6 " BUCKET_1
              ": enqueued, not started; no mark for 2001.0 ms\nr1 ");
    check_has(&job, 1,
              "\nr1 device: compute in backward or behind it (mark 37, the last); comm in "
              "all_reduce seq 6 " BUCKET_1 ": started, not ended; no mark for 2001.0 ms\nr2 ");
    check_has(&job, 1,
              "\nr2 device: compute before idle (mark 37 of 38): not ended; comm idle; "
              "no mark for 2001.0 ms\nr3 ");
    check_has(&job, 1,
              "\nr3 device: compute idle (mark 37); comm in all_reduce seq 6 " BUCKET_1
              ": started, its end not yet marked; no mark for 2001.0 ms\n");
    job.progress[3].rounds_left = 2;
    check_has(&job, 1, ", its end not yet marked, 2 of its rounds not enqueued; no mark for ");
    job.progress[3].is_mapped = 0;
    check_has_not(&job, "r3 device");
    cut_fini(&job);
}

/* A device inside a collective waits for those that have not started it, whatever their hosts do.
 */
CT_TEST(monitor_explain, shows_waits_of_devices)
{
    struct cut_job job;

    cut_open_device(&job, 4);
    check_has(&job, 15, "\nr0 waits for its device: all_reduce seq 6 " BUCKET_1 "\n");
    check_has_not(&job, " device waits for ");
    cut_comm(&job, 1, cut_seq(1, 1), CUT_COMM_BEFORE);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_ENDED);
    cut_post(&job, 3, cut_seq(1, 0));
    cut_comm(&job, 3, cut_seq(1, 0), CUT_COMM_ENDED);
    cut_host(&job, 3, DDP_PHASE_BACKWARD, 10);
    check_has(&job, 2, "\nr1 (culprit) running, ");
    check_has(&job, 2, "\nr0 device waits for r1 device: all_reduce seq 6 " BUCKET_1 "\n");
    check_has(&job, 2, "\nr0 waits for r3: all_reduce seq 6 " BUCKET_1 "\n");
    check_has(&job, 2, "\nr3 (others wait for it) running, ");
    check_has_not(&job, "r0 device waits for r2");
    check_has_not(&job, "r0 device waits for r3");
    job.pages[1].comm = 1;
    check_has_not(&job, "r0 device waits for r1");
    cut_fini(&job);
}

/* A sequence number beyond 65535 is read from its lower half and the page. */
CT_TEST(monitor_explain, reads_long_sequence_numbers)
{
    struct cut_job job;

    cut_open_device(&job, 2);
    job.pages[0].seq_posted = 0x2fffe;
    job.pages[0].seq_done = 0x2fffd;
    cut_comm(&job, 0, 0x2fffe, CUT_COMM_INSIDE);
    job.pages[1].seq_posted = 0x30001;
    job.pages[1].seq_done = 0x2fffc;
    cut_comm(&job, 1, 0x2fffe, CUT_COMM_BEFORE);
    check_has(&job, 0, "r0 device: compute idle (mark 37); comm in seq 196606 (not planned): ");
    check_has(&job, 0, "comm before seq 196606 (not planned): enqueued, not started; ");
    cut_fini(&job);
}

/* Of a bucket with many parameters some are left out, and counted. */
CT_TEST(monitor_explain, counts_parameters_that_it_leaves_out)
{
    struct cut_job job;
    uint32_t members[11] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 99, 2};

    cut_init(&job, 2);
    cut_host(&job, 1, DDP_PHASE_FORWARD, 1);
    job.buckets[1].params = members;
    job.buckets[1].param_count = 8;
    check_has(&job, 2, "fc0.weight, fc0.bias, fc1.weight, fc1.bias)\n");
    job.buckets[1].param_count = 11;
    check_has(&job, 2, "fc0.weight, fc0.bias, fc1.weight, fc1.bias and 3 more)\n");
    cut_fini(&job);
}

/* The largest job: a bounded text, which has the culprit and the waits for it. */
CT_TEST(monitor_explain, is_bounded)
{
    enum { WORLD = HARNESS_JOB_RANKS_MAX, CULPRIT = 1000 };
    static struct ddp_page pages[WORLD];
    static struct harness_process processes[WORLD];
    static bool is_page_valid[WORLD];
    struct harness_rank_set culprits;
    struct cut_job job;
    struct ddp_text text;

    cut_init(&job, 1);
    culprits = harness_rank_set_in(ddp_mem_pool_mem(job.pool));
    for (uint32_t r = 0; r < WORLD; r++) {
        pages[r] = job.pages[0];
        pages[r].wait_peer = r == CULPRIT ? 0 : CULPRIT + 1;
        processes[r] = job.processes[0];
        is_page_valid[r] = true;
    }
    processes[CULPRIT].state = HARNESS_PROCESS_STOPPED;
    harness_rank_set_add(&culprits, CULPRIT);
    job.cut.world_size = WORLD;
    job.cut.pages = pages;
    job.cut.processes = processes;
    job.cut.is_page_valid = is_page_valid;
    ddp_text_init(&text, ddp_mem_system());
    harness_cut_print(&job.plan, &job.program, &job.cut, &culprits, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "\nr1000 (culprit) stopped for 500.0 ms") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "\nr62 running") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "\nr63 running") == NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "\n... 960 more ranks left out, 960 of them waiting\n") !=
             NULL);
    CT_CHECK_EQ_U64(count_of(ddp_text_str(&text), " waits for r1000: "), 64);
    CT_CHECK(strstr(ddp_text_str(&text), "\n... 959 more waits left out\n") != NULL);
    CT_CHECK_EQ_U64(count_of(ddp_text_str(&text), "\n"), 64 + 1 + 64 + 1);
    ddp_text_fini(&text);
    /* Nobody is known to be waited for. */
    for (uint32_t r = 0; r < WORLD; r++) {
        pages[r].wait_peer = 0;
        processes[r].state = HARNESS_PROCESS_RUNNING;
    }
    harness_cut_print(&job.plan, &job.program, &job.cut, &culprits, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "\n... 960 more waits for unknown ranks left out\n") !=
             NULL);
    CT_CHECK_EQ_U64(count_of(ddp_text_str(&text), "\n"), 64 + 1 + 64 + 1);
    ddp_text_fini(&text);
    /* One circle through all. */
    for (uint32_t r = 0; r < WORLD; r++) {
        pages[r].wait_peer = (r + 1) % WORLD + 1;
    }
    harness_cut_print(&job.plan, &job.program, &job.cut, &culprits, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "r14 → r15 → ... → r0 (1024 ranks)\n") != NULL);
    ddp_text_fini(&text);
    cut_fini(&job);
}
