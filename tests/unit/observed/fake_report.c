#include "tests/unit/observed/fake_report.h"

#include <stdio.h>
#include <string.h>

#include "tests/ct.h"

enum { TENSORS = 3 };

void fake_open(struct fake_report *fake, uint32_t world_size)
{
    memset(fake, 0, sizeof *fake);
    fake_job_begin(&fake->job, world_size);
    for (uint32_t r = 0; r < world_size; r++) {
        guest_arena_page(fake->job.arena.head, r)->world_size = world_size;
    }
    CT_REQUIRE_OK(harness_observed_create(&fake->job.watch, &fake->observed));
    harness_findings_init(&fake->earlier, ddp_mem_pool_mem(fake->job.pool));
}

void fake_close(struct fake_report *fake)
{
    harness_observed_destroy(fake->observed);
    fake_job_close(&fake->job);
}

static void report(struct fake_report *fake, uint32_t rank, enum guest_event event, uint64_t a,
                   uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
    fake_report(&fake->job, rank, event, (const uint64_t[GUEST_ARG_COUNT]){a, b, c, d, e});
}

void fake_table(struct fake_report *fake, uint32_t rank, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t words[GUEST_NAME_BYTES / 8] = {0};

        (void)snprintf((char *)words, sizeof words, "t%u", i);
        report(fake, rank, GUEST_EVENT_TENSOR, i, DDPROVE_GUEST_PARAMETER, DDPROVE_GUEST_F32, 10,
               count);
        report(fake, rank, GUEST_EVENT_TENSOR_NAME, i, words[0], words[1], words[2], words[3]);
    }
}

void fake_update(struct fake_report *fake, uint32_t rank, uint32_t step, uint64_t hash)
{
    struct guest_page *page = guest_arena_page(fake->job.arena.head, rank);

    fake_step(&fake->job, rank, step);
    for (uint32_t i = 0; i < TENSORS; i++) {
        report(fake, rank, GUEST_EVENT_STATE, i, GUEST_PART_DATA, i == 1 ? hash : 100 + i, 0, 0);
    }
    report(fake, rank, GUEST_EVENT_UPDATED, ++page->update_count, TENSORS, 0, 0, 0);
}

void fake_epoch(struct fake_report *fake, uint32_t rank, uint64_t number, uint64_t samples,
                uint64_t padded, uint64_t dropped, uint64_t rule)
{
    report(fake, rank, GUEST_EVENT_EPOCH, number, samples, padded, dropped, rule);
}

void fake_epoch_end(struct fake_report *fake, uint32_t rank)
{
    report(fake, rank, GUEST_EVENT_EPOCH_END, 0, 0, 0, 0, 0);
}

void fake_batch(struct fake_report *fake, uint32_t rank, uint32_t step, uint64_t first,
                uint64_t stride, uint64_t count)
{
    fake_step(&fake->job, rank, step);
    for (uint64_t i = 0; i < count; i++) {
        report(fake, rank, GUEST_EVENT_SAMPLES, 1, first + i * stride, 0, 0, 0);
    }
    report(fake, rank, GUEST_EVENT_BATCH, count, 0, 0, 0, 0);
}

size_t fake_judge(struct fake_report *fake)
{
    (void)fake_judge_once(fake); /* what ranks report of their models is judged in the next look */
    return fake_judge_once(fake);
}

size_t fake_judge_once(struct fake_report *fake)
{
    fake->job.now_ns += 1000;
    harness_watch_read(&fake->job.watch, fake->job.now_ns);
    harness_observed_judge(fake->observed, &fake->earlier, &fake->job.findings);
    CT_CHECK(!harness_observed_is_failed(fake->observed));
    return fake->job.findings.count;
}

void fake_expect(struct fake_report *fake, enum harness_verdict verdict, const char *ranks,
                 int32_t step, const char *words)
{
    const struct harness_finding *finding = fake->job.findings.items;
    char text[HARNESS_RANKS_TEXT_BYTES];

    CT_REQUIRE(fake->job.findings.count == 1);
    CT_CHECK_STR(harness_verdict_name(finding->verdict), harness_verdict_name(verdict));
    CT_CHECK_STR(harness_rank_set_text(&finding->culprits, text), ranks);
    CT_CHECK_EQ_I64(finding->step, step);
    if (strstr(finding->text, words) == NULL) {
        CT_FAIL("\"%s\" is not in \"%s\"", words, finding->text);
    }
}

void fake_account(struct fake_report *fake, enum harness_oracle_id oracle, uint64_t judged,
                  const char *why)
{
    struct harness_watch_accounts accounts;

    memset(&accounts, 0, sizeof accounts);
    harness_observed_account(fake->observed, &accounts);
    CT_CHECK_EQ_U64(accounts.of[oracle].judged, judged);
    CT_CHECK_STR(harness_watch_lack_of(&accounts, oracle), why);
}
