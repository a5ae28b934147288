/* The sampler on ranks that a test plays: what it copies, when a cut is stable, and what it
 * concludes. Reading while others write is tested in proc/test_proc_threads.c. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "harness/monitor/sampler.h"
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 3, RING_ENTRIES = 64 };
/* A hang that lasts is reported by the second sample that shows it. */
#define SETTLE_NS (2 * HARNESS_CONCLUSIONS_SETTLE_NS)

struct played {
    struct cut_job job; /* plan and program */
    struct ddp_clock_virtual clock;
    void *storage[RANKS];
    struct ddp_recorder recorders[RANKS];
    struct harness_process processes[RANKS];
    uint64_t starved_ns;
    uint32_t starved_calls;
    struct harness_sampler sampler;
};

static const void *recorder_of(void *context, uint32_t rank)
{
    return ((struct played *)context)->storage[rank];
}

static struct harness_process process_of(void *context, uint32_t rank)
{
    return ((struct played *)context)->processes[rank];
}

static uint64_t starved_ns_of(void *context, uint32_t rank, uint64_t alive_ns, uint64_t now_ns)
{
    struct played *played = context;

    CT_CHECK(played->processes[rank].state == HARNESS_PROCESS_RUNNING && alive_ns <= now_ns);
    played->starved_calls++;
    return played->starved_ns;
}

static const struct harness_sampler_source starving = {
    .recorder = recorder_of, .process = process_of, .starved_ns = starved_ns_of};
static const struct harness_sampler_source simulated = {.recorder = recorder_of,
                                                        .process = process_of};

/* All ranks run, are in step 1, backward, have posted its second bucket and wait for rank - 1. */
static void played_open(struct played *played, const struct harness_sampler_source *source)
{
    struct harness_sampler_config config = {.mem = ddp_mem_system(),
                                            .world_size = RANKS,
                                            .ring_entry_count = RING_ENTRIES,
                                            .source = source,
                                            .source_context = played};

    memset(played, 0, sizeof(*played));
    cut_init(&played->job, RANKS);
    ddp_clock_virtual_init(&played->clock, CUT_NOW_NS);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct ddp_page *planned = &played->job.pages[r];
        size_t size_bytes = ddp_recorder_size_bytes(RING_ENTRIES);

        played->storage[r] = aligned_alloc(4096, size_bytes);
        DDP_ASSERT(played->storage[r] != NULL);
        memset(played->storage[r], 0, size_bytes);
        ddp_recorder_init(&played->recorders[r], played->storage[r], RING_ENTRIES,
                          &played->clock.base, r, RANKS, 100 + r);
        ddp_recorder_step(&played->recorders[r], 1, 0);
        ddp_recorder_phase(&played->recorders[r], DDP_PHASE_BACKWARD);
        ddp_recorder_collective_posted(&played->recorders[r], 0, planned->seq_posted,
                                       planned->posted_op, planned->posted_count);
        ddp_recorder_wait_begin(&played->recorders[r], DDP_WAIT_COLLECTIVE, planned->seq_posted);
        ddp_recorder_wait_peer(&played->recorders[r], (int32_t)((r + RANKS - 1) % RANKS));
        played->processes[r] =
            (struct harness_process){.state = HARNESS_PROCESS_RUNNING, .since_ns = CUT_NOW_NS};
    }
    config.plan = &played->job.plan;
    config.program = &played->job.program;
    CT_REQUIRE_OK(harness_sampler_init(&played->sampler, &config));
}

static void played_close(struct played *played)
{
    harness_sampler_fini(&played->sampler);
    cut_fini(&played->job);
    for (uint32_t r = 0; r < RANKS; r++) {
        free(played->storage[r]);
    }
}

static void sample(struct played *played, uint64_t after_ns, bool is_settled)
{
    harness_sampler_take(&played->sampler, CUT_NOW_NS + after_ns, is_settled);
}

static size_t reported(const struct played *played)
{
    return played->sampler.conclusions.reported.count;
}

/* A rank that waits is stopped; samples 10 ms apart, until it has been for long enough. */
static void stop_rank(struct played *played, uint32_t rank, bool is_settled)
{
    ddp_recorder_wait_end(&played->recorders[rank]);
    played->processes[rank].state = HARNESS_PROCESS_STOPPED;
    sample(played, HARNESS_MONITOR_STOP_HOLD_NS, is_settled);
    sample(played, HARNESS_MONITOR_STOP_HOLD_NS + SETTLE_NS, is_settled);
}

/* As the core does: into the page and into the ring. */
static void post(struct played *played, uint32_t rank, uint64_t seq, uint64_t op,
                 uint64_t elem_count)
{
    ddp_recorder_event(&played->recorders[rank], DDP_EVENT_COLL_POST, seq, op, elem_count, 0, 0);
    ddp_recorder_collective_posted(&played->recorders[rank], 0, seq, op, elem_count);
}

/* A page is copied while its rank runs; the copy that is made after the rank's end is final. */
CT_TEST(monitor_sampler, page_of_an_ended_rank_is_final)
{
    struct played played;

    played_open(&played, &simulated);
    sample(&played, 0, true);
    CT_CHECK(!played.sampler.ranks[0].is_final);
    CT_CHECK_EQ_U64(played.sampler.pages[0].step, 1);
    ddp_recorder_step(&played.recorders[0], 2, 0);
    played.processes[0] = (struct harness_process){
        .state = HARNESS_PROCESS_SIGNALED, .code = SIGKILL, .since_ns = CUT_NOW_NS};
    sample(&played, 1, true);
    CT_CHECK(played.sampler.ranks[0].is_final && !played.sampler.ranks[1].is_final);
    CT_CHECK_EQ_U64(played.sampler.pages[0].step, 2);
    CT_REQUIRE(reported(&played) == 1);
    CT_CHECK_EQ_U64(played.sampler.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_CRASH_SIGNALED);
    ddp_recorder_step(&played.recorders[0], 3, 0); /* another process with the same memory */
    sample(&played, 2, true);
    CT_CHECK_EQ_U64(played.sampler.pages[0].step, 2);
    CT_CHECK(played.sampler.change_ns == CUT_NOW_NS + 1);
    played_close(&played);
}

/* The page of a rank that was killed in the middle of a write is copied as it is. */
CT_TEST(monitor_sampler, half_written_page_of_a_dead_rank_counts)
{
    struct played played;

    played_open(&played, &simulated);
    played.recorders[1].page->change++;
    sample(&played, 0, true);
    CT_CHECK(!played.sampler.is_page_valid[1] && played.sampler.is_page_valid[0]);
    played.processes[1] = (struct harness_process){
        .state = HARNESS_PROCESS_EXITED, .code = 3, .since_ns = CUT_NOW_NS};
    sample(&played, 1, true);
    CT_CHECK(played.sampler.is_page_valid[1] && played.sampler.ranks[1].is_final);
    CT_CHECK_EQ_U64(played.sampler.pages[1].change % 2, 1);
    played_close(&played);
}

/* A hang needs stable cuts: a page that is being written, or a caller that knows of messages under
 * way, rules them out. */
CT_TEST(monitor_sampler, hang_needs_stable_cuts)
{
    struct played played;

    played_open(&played, &simulated);
    stop_rank(&played, 2, true);
    CT_REQUIRE(reported(&played) == 1);
    CT_CHECK_EQ_U64(played.sampler.conclusions.reported.items[0].finding.verdict,
                    HARNESS_VERDICT_HANG_STOPPED);
    played_close(&played);
    played_open(&played, &simulated);
    stop_rank(&played, 2, false);
    CT_CHECK_EQ_U64(reported(&played), 0);
    played_close(&played);
    played_open(&played, &simulated);
    played.recorders[0].page->change++;
    stop_rank(&played, 2, true);
    CT_CHECK_EQ_U64(reported(&played), 0);
    played_close(&played);
}

/* A rank's silence in host code counts less the time for which it had no CPU. Ranks that do not run
 * are not asked for that time. */
CT_TEST(monitor_sampler, time_without_a_cpu_is_no_silence)
{
    uint64_t budget_ns = ddp_phase_budget_ms(DDP_PHASE_BACKWARD) * CUT_MS;
    struct played played;

    for (int is_starved = 0; is_starved < 2; is_starved++) {
        played_open(&played, &starving);
        played.starved_ns = is_starved ? 3 * SETTLE_NS : 0;
        ddp_recorder_wait_end(&played.recorders[0]);
        played.processes[2].state = HARNESS_PROCESS_STOPPED;
        played.processes[2].is_brief = true;
        sample(&played, budget_ns + 1, true);
        sample(&played, budget_ns + 1 + SETTLE_NS, true);
        CT_CHECK_EQ_U64(played.starved_calls, 2 * (RANKS - 1));
        CT_CHECK_EQ_U64(reported(&played), is_starved ? 0 : 1);
        played_close(&played);
    }
}

/* A rank that looked whether it may go on, and could not, has lost no time before that. */
CT_TEST(monitor_sampler, a_wait_is_silence_also_without_a_cpu)
{
    uint64_t budget_ns = ddp_phase_budget_ms(DDP_PHASE_BACKWARD) * CUT_MS;
    struct played played;

    for (int polls_late = 0; polls_late < 2; polls_late++) {
        struct ddp_idle_polls *polls;

        played_open(&played, &starving);
        polls = &played.recorders[0].page->polls;
        played.starved_ns = budget_ns;
        ddp_recorder_wait_end(&played.recorders[0]);
        polls->started_ns = CUT_NOW_NS + CUT_MS;
        polls->polled_ns = CUT_NOW_NS + (polls_late ? budget_ns + 5 * CUT_MS : 2 * CUT_MS);
        sample(&played, budget_ns + 10 * CUT_MS, true);
        CT_CHECK_EQ_U64(reported(&played), polls_late ? 1 : 0);
        played_close(&played);
    }
}

/* If nothing was sampled for seconds, nothing ran: that is nobody's silence. */
CT_TEST(monitor_sampler, a_pause_is_no_silence)
{
    uint64_t budget_ns = ddp_phase_budget_ms(DDP_PHASE_BACKWARD) * CUT_MS;
    uint64_t now_ns = budget_ns + CUT_MS;
    struct played played;

    played_open(&played, &starving);
    ddp_recorder_wait_end(&played.recorders[0]);
    sample(&played, 0, true);
    sample(&played, now_ns, true);
    CT_CHECK_EQ_U64(reported(&played), 0);
    for (uint64_t spent_ns = 0; spent_ns < budget_ns; spent_ns += HARNESS_SAMPLER_PAUSE_NS / 2) {
        CT_CHECK_EQ_U64(reported(&played), 0);
        now_ns += HARNESS_SAMPLER_PAUSE_NS / 2;
        sample(&played, now_ns, true);
    }
    sample(&played, now_ns + CUT_MS, true);
    CT_CHECK_EQ_U64(reported(&played), 1);
    played_close(&played);
}

/* The first post that differs from the program stays, although the page shows a later one. */
CT_TEST(monitor_sampler, first_wrong_post_stays)
{
    struct ddp_event_op wrong = {.kind = DDP_COLL_BARRIER, .role = DDP_ROLE_BARRIER};
    struct played played;

    played_open(&played, &simulated);
    ddp_recorder_step(&played.recorders[1], 2, 0);
    post(&played, 1, cut_seq(2, 0), ddp_event_op_pack(&wrong), 0);
    post(&played, 1, cut_seq(2, 1), played.job.pages[1].posted_op, 101);
    for (int i = 0; i < 2; i++) {
        sample(&played, (uint64_t)i, true);
        CT_CHECK_EQ_U64(played.sampler.pages[1].seq_posted, cut_seq(2, 0));
        CT_CHECK_EQ_U64(played.sampler.pages[1].posted_op, ddp_event_op_pack(&wrong));
        CT_CHECK_EQ_U64(played.sampler.pages[1].step, 2);
    }
    CT_REQUIRE(reported(&played) == 1);
    CT_CHECK_EQ_U64(
        harness_verdict_family(played.sampler.conclusions.reported.items[0].finding.verdict),
        HARNESS_FAMILY_MISMATCH);
    played_close(&played);
}
