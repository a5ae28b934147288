/* Messages that were sent and never taken, as the links of two pages show them. */
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 4, FROM = 1, TO = 2 };

static const uint64_t comm = UINT64_C(0x123456789);

/* All ranks wait in a ring inside the same collective, for ms. Rank FROM has sent `sent` messages
 * to rank TO, to which message number `due` is due. */
static void open_ring(struct cut_job *job, uint64_t ms, uint64_t sent, uint64_t due)
{
    cut_init(job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        const uint32_t before = (r + RANKS - 1) % RANKS;

        cut_host(job, r, DDP_PHASE_BACKWARD, ms);
        cut_wait(job, r, cut_seq(1, 1), (int32_t)before);
        ddp_links_await(&job->pages[r].links, ddp_links_key(comm, before), due);
        ddp_links_send(&job->pages[r].links, ddp_links_key(comm, (r + 1) % RANKS),
                       r == FROM ? sent : due);
    }
}

/* Of a circle the two ends of the link are named on which one more was sent than was taken. */
CT_TEST(monitor_links, lost_message_names_its_two_ends)
{
    struct cut_job job;
    const struct harness_finding *finding;

    open_ring(&job, CUT_LATE_MS, 8, 7);
    finding = cut_only(&job, HARNESS_VERDICT_MISMATCH_MESSAGE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
    CT_CHECK(harness_rank_set_has(&finding->culprits, FROM));
    CT_CHECK(harness_rank_set_has(&finding->culprits, TO));
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), 2);
    CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
    cut_fini(&job);
}

/* What was sent in another group, or is shown by a wait that is over, proves nothing. */
CT_TEST(monitor_links, other_groups_and_waits_prove_nothing)
{
    struct cut_job job;

    open_ring(&job, CUT_LATE_MS, 7, 7);
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_CYCLE) != NULL);
    cut_fini(&job);
    open_ring(&job, CUT_LATE_MS, 8, 7);
    ddp_links_clear(&job.pages[FROM].links);
    ddp_links_send(&job.pages[FROM].links, ddp_links_key(comm + 1, TO), 8);
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_CYCLE) != NULL);
    cut_fini(&job);
    open_ring(&job, CUT_LATE_MS, 8, 7);
    ddp_links_await(&job.pages[TO].links, ddp_links_key(comm, 3), 7);
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_CYCLE) != NULL);
    cut_fini(&job);
}

/* Within the budget it may be under way, also where the waits are for different things. */
CT_TEST(monitor_links, message_may_be_under_way)
{
    struct cut_job job;

    open_ring(&job, 1600, 8, 7);
    cut_check_silent(&job, "a message that was just sent");
    job.pages[0].comm = 9;
    cut_check_silent(&job, "a message that was just sent, and a circle through two groups");
    ddp_links_clear(&job.pages[FROM].links);
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_CYCLE) != NULL);
    cut_fini(&job);
}

/* Receivers beyond those that are remembered are forgotten, the oldest first; ranks of a key can be
 * exchanged. */
CT_TEST(monitor_links, remembers_the_last_receivers)
{
    struct ddp_links links = {.due = 0};

    for (uint32_t r = 0; r <= DDP_LINKS_SENT_COUNT; r++) {
        ddp_links_send(&links, ddp_links_key(comm, r), r + 1);
    }
    ddp_links_send(&links, ddp_links_key(comm, 3), 40);
    CT_CHECK_EQ_U64(ddp_links_sent_to(&links, ddp_links_key(comm, 0)), 0);
    CT_CHECK_EQ_U64(ddp_links_sent_to(&links, ddp_links_key(comm, 3)), 40);
    for (uint32_t r = 1; r <= DDP_LINKS_SENT_COUNT; r++) {
        CT_CHECK_EQ_U64(ddp_links_sent_to(&links, ddp_links_key(comm, r)), r == 3 ? 40 : r + 1);
    }
    CT_CHECK_EQ_U64(ddp_links_rank_plus_1(ddp_links_key(comm, 5)), 6);
    CT_CHECK_EQ_U64(ddp_links_key_with(ddp_links_key(comm, 5), 8), ddp_links_key(comm, 7));
    CT_CHECK_EQ_U64(ddp_links_key_with(ddp_links_key(comm, 5), 0), 0);
    ddp_links_clear(&links);
    CT_CHECK_EQ_U64(ddp_links_sent_to(&links, ddp_links_key(comm, 3)), 0);
}
