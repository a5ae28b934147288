/* Properties that hold for any progress words, checked on thousands of random cuts. */
#include <string.h>

#include "ddpcore/base/prng.h"
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { WORLD = 4, CUTS = 5000 };

static void random_rank(struct cut_job *job, uint32_t rank, struct ddp_prng *prng)
{
    static const enum ddp_mark marks[] = {DDP_MARK_IDLE, DDP_MARK_IDLE,    DDP_MARK_IDLE,
                                          DDP_MARK_IDLE, DDP_MARK_FORWARD, DDP_MARK_BACKWARD};
    static const enum cut_comm comms[] = {CUT_COMM_INSIDE, CUT_COMM_OPEN, CUT_COMM_BEFORE,
                                          CUT_COMM_ENDED};
    uint64_t seq = cut_seq(1, 1) - (ddp_prng_below(prng, 8) == 0 ? 1 : 0);
    uint64_t launched = seq - (ddp_prng_below(prng, 8) == 0 ? 1 : 0);

    cut_post(job, rank, seq);
    cut_wait(job, rank, seq, -1);
    if (ddp_prng_below(prng, 8) == 0) {
        job->pages[rank].seq_done = seq;
        cut_host(job, rank, DDP_PHASE_OPTIMIZER, 1);
    } else if (ddp_prng_below(prng, 8) == 0) {
        cut_host(job, rank, DDP_PHASE_BACKWARD, 1);
    }
    cut_compute(job, rank, marks[ddp_prng_below(prng, 6)], 1, ddp_prng_below(prng, 8) == 0);
    cut_comm(job, rank, launched, comms[ddp_prng_below(prng, 4)]);
    cut_still(job, rank, ddp_prng_below(prng, 8) == 0 ? 10 : CUT_LATE_MS);
    job->progress[rank].is_mapped = ddp_prng_below(prng, 8) != 0;
    if (ddp_prng_below(prng, 32) == 0) {
        cut_process(job, rank, HARNESS_PROCESS_STOPPED, 19, CUT_LATE_MS);
    }
}

static bool is_of_device(enum harness_verdict verdict)
{
    return verdict == HARNESS_VERDICT_HANG_DEVICE_COMPUTE ||
           verdict == HARNESS_VERDICT_HANG_DEVICE_COMM ||
           verdict == HARNESS_VERDICT_HANG_NOT_LAUNCHED;
}

/* The finding about devices, or NULL. */
static const struct harness_finding *find_device(const struct cut_job *job)
{
    for (size_t i = 0; i < job->findings.count; i++) {
        if (is_of_device(job->findings.items[i].verdict)) {
            return &job->findings.items[i];
        }
    }
    return NULL;
}

/* The ranks take each other's places in a circle. */
static void renumber(struct cut_job *job)
{
    struct cut_job before = *job;

    for (uint32_t r = 0; r < WORLD; r++) {
        uint32_t from = (r + WORLD - 1) % WORLD;

        job->pages[r] = before.pages[from];
        job->processes[r] = before.processes[from];
        job->progress[r] = before.progress[from];
        job->progress_ns[r] = before.progress_ns[from];
    }
}

static void check_finding(const struct cut_job *job, const struct harness_finding *finding)
{
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
    CT_CHECK(!harness_rank_set_is_empty(&finding->culprits));
    for (uint32_t r = 0; r < WORLD; r++) {
        bool is_culprit = harness_rank_set_has(&finding->culprits, r);

        CT_CHECK(!is_culprit || !harness_rank_set_has(&finding->victims, r));
        CT_CHECK(!is_culprit || job->processes[r].state == HARNESS_PROCESS_RUNNING);
        /* Nobody is blamed who, or whose device, was just seen to do something. */
        CT_CHECK(!is_culprit || job->progress_ns[r] < CUT_NOW_NS - CUT_LATE_MS * CUT_MS + CUT_MS);
    }
    for (size_t i = 0; i < job->findings.count; i++) {
        const struct harness_finding *other = &job->findings.items[i];

        /* No rank is blamed twice. */
        for (uint32_t r = 0; other != finding && r < WORLD; r++) {
            CT_CHECK(!harness_rank_set_has(&finding->culprits, r) ||
                     !harness_rank_set_has(&other->culprits, r));
        }
    }
}

/* One finding about devices at most; the same after renumbering; none without words. */
CT_TEST(monitor_device_property, holds_of_any_cut)
{
    struct ddp_prng prng = ddp_prng_make(1, "monitor_device");
    uint32_t seen[HARNESS_VERDICT_COUNT] = {0};

    for (int i = 0; i < CUTS; i++) {
        struct cut_job job;
        struct harness_finding found = {.verdict = HARNESS_VERDICT_NONE};
        struct harness_rank_set moved;
        const struct harness_finding *finding;

        cut_init(&job, WORLD);
        cut_map(&job);
        for (uint32_t r = 0; r < WORLD; r++) {
            random_rank(&job, r, &prng);
        }
        cut_analyse(&job);
        finding = find_device(&job);
        if (finding != NULL) {
            found = *finding;
            check_finding(&job, finding);
        }
        seen[found.verdict]++;
        renumber(&job);
        cut_analyse(&job);
        moved = harness_rank_set_in(ddp_mem_pool_mem(job.pool));
        for (uint32_t r = 0; r < WORLD; r++) {
            if (harness_rank_set_has(&found.culprits, (r + WORLD - 1) % WORLD)) {
                harness_rank_set_add(&moved, r);
            }
        }
        finding = find_device(&job);
        CT_CHECK((finding != NULL) == (found.verdict != HARNESS_VERDICT_NONE));
        if (finding != NULL) {
            CT_CHECK_EQ_U64(finding->verdict, found.verdict);
            CT_CHECK(harness_rank_set_is_equal(&finding->culprits, &moved));
        }
        job.cut.progress = NULL;
        cut_analyse(&job);
        CT_CHECK(find_device(&job) == NULL);
        cut_fini(&job);
    }
    /* Each was met often enough to mean something. */
    CT_CHECK(seen[HARNESS_VERDICT_NONE] > CUTS / 200);
    CT_CHECK(seen[HARNESS_VERDICT_HANG_DEVICE_COMPUTE] > CUTS / 200);
    CT_CHECK(seen[HARNESS_VERDICT_HANG_NOT_LAUNCHED] > CUTS / 200);
    CT_CHECK(seen[HARNESS_VERDICT_HANG_DEVICE_COMM] > CUTS / 200);
}

/* Words that no right program writes are survived. */
CT_TEST(monitor_device_property, survives_any_words)
{
    struct ddp_prng prng = ddp_prng_make(2, "monitor_device");

    for (int i = 0; i < CUTS; i++) {
        const struct harness_rank_set nobody = {.ranks = {.count = 0}};
        struct cut_job job;
        struct ddp_text text;

        cut_open_device(&job, WORLD);
        for (uint32_t r = 0; r < WORLD; r++) {
            for (int stream = 0; stream < DDP_PROGRESS_STREAM_COUNT; stream++) {
                uint64_t mask = UINT64_MAX >> ddp_prng_below(&prng, 64);

                job.progress[r].stream[stream].reached = ddp_prng_u64(&prng) & mask;
                job.progress[r].stream[stream].enqueued = ddp_prng_u64(&prng) & mask;
            }
            job.pages[r].seq_posted = ddp_prng_u64(&prng) >> ddp_prng_below(&prng, 64);
            job.pages[r].seq_done = ddp_prng_u64(&prng) >> ddp_prng_below(&prng, 64);
        }
        cut_analyse(&job);
        ddp_text_init(&text, ddp_mem_system());
        harness_cut_print(&job.plan, &job.program, &job.cut, &nobody, &text);
        CT_CHECK(strstr(ddp_text_str(&text), "r3 device: ") != NULL);
        ddp_text_fini(&text);
        cut_fini(&job);
    }
}
