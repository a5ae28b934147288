/* What ranks tell by names: which parameters a bucket holds, as they told it before a call. */
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

/* A name in parts of 32 bytes, as the guest library writes it. */
static void tell(struct fake_job *job, uint32_t rank, uint32_t index, const char *name)
{
    const size_t size = strlen(name);

    for (size_t at = 0; at == 0 || at < size; at += GUEST_NAME_BYTES) {
        uint64_t arg[GUEST_ARG_COUNT] = {index | (uint64_t)(at / GUEST_NAME_BYTES) << 32};

        memcpy(&arg[1], name + at, size - at < GUEST_NAME_BYTES ? size - at : GUEST_NAME_BYTES);
        fake_report(job, rank, GUEST_EVENT_NAME, arg);
    }
}

static void hold(struct fake_job *job, uint32_t rank, uint32_t model, uint32_t bucket,
                 uint64_t count)
{
    fake_report(job, rank, GUEST_EVENT_BUCKET,
                (const uint64_t[GUEST_ARG_COUNT]){model, bucket, count});
}

/* What a call's bucket holds, "a b"; "-": that is not known. */
static const char *held(struct fake_job *job, uint32_t rank, uint64_t seq)
{
    const struct harness_watch_call *call =
        harness_watch_call_at(&job->watch.groups[0].members[rank], seq);
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_pool_mem(job->pool));
    if (call == NULL || call->list == NULL) {
        return "-";
    }
    for (uint32_t i = 0; i < call->list->count; i++) {
        ddp_text_add(&text, "%s%s", i > 0 ? " " : "", call->list->texts[i]);
        CT_CHECK_STR(call->list->texts[i], job->watch.names.items[call->list->params[i]]);
    }
    return ddp_text_str(&text);
}

CT_TEST(buckets, are_named_as_they_were_told_before_the_call)
{
    static const char long_name[] = "transformer.h.11.attn.c_attn.weight_of_a_long_name"
                                    "_that_goes_on_for_more_than_two_parts";
    struct fake_job job;
    char both[128];

    fake_job_begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_post(&job, r, 0, 10, 1);
        tell(&job, r, 0, "fc1.weight");
        tell(&job, r, 1, long_name);
        hold(&job, r, 0, 0, 2);
        fake_post(&job, r, 0, 10, 1);
        fake_post(&job, r, 0, 10, 2);                     /* another bucket */
        fake_post(&job, r, 0, 10, 1 | UINT64_C(3) << 32); /* of another model */
        tell(&job, r, 0, "fc2.weight");                   /* rebuilt */
        hold(&job, r, 0, 0, 1);
        fake_post(&job, r, 0, 10, 1);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    (void)snprintf(both, sizeof both, "fc1.weight %s", long_name);
    for (uint32_t r = 0; r < 2; r++) {
        CT_CHECK_STR(held(&job, r, 1), "-");
        CT_CHECK_STR(held(&job, r, 2), both);
        CT_CHECK_STR(held(&job, r, 3), "-");
        CT_CHECK_STR(held(&job, r, 4), "-");
        CT_CHECK_STR(held(&job, r, 5), "fc2.weight");
    }
    CT_CHECK_EQ_U64(job.watch.names.count, 3);
    fake_job_close(&job);
}

/* Of a finding about the call, they are the parameters. */
CT_TEST(buckets, a_finding_names_them)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 2; r++) {
        tell(&job, r, 0, "fc.bias");
        tell(&job, r, 1, "fc.weight");
        tell(&job, r, 2, "a name that is too long for the sentence to hold beside the others");
        hold(&job, r, 0, 2, 3);
        fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 3));
    }
    fake_look(&job, MS);
    fake_look(&job, MS);
    finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "2");
    CT_CHECK_STR(
        finding->text,
        "rank 2 has not posted all_reduce 1 of world (10 f32, sum, bucket 2 of fc.bias and "
        "fc.weight and 1 more), of which others have the result");
    CT_CHECK_EQ_U64(finding->params.count, 3);
    fake_job_close(&job);
}

/* Sums over buckets that hold other parameters, or the same in another order, are nobody's. */
CT_TEST(buckets, of_other_parameters_are_not_the_same)
{
    static const char *const names[][2] = {{"fc1.weight", "fc2.weight"},
                                           {"fc2.weight", "fc1.weight"}};
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 4);
    for (uint32_t r = 0; r < 4; r++) {
        for (uint32_t i = 0; i < 2 && r != 3; i++) { /* rank 3 tells nothing, and is like both */
            tell(&job, r, i, names[r == 1][i]);
        }
        hold(&job, r, 0, 0, 2);
        fake_post(&job, r, 0, 10, 1);
    }
    fake_look(&job, MS);
    finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_MODEL, "1");
    CT_CHECK_STR(finding->text,
                 "rank 1 posted all_reduce 1 of world (10 f32, sum, bucket 0 of fc2.weight and "
                 "fc1.weight) in step 0, where the others posted all_reduce 1 of world (10 f32, "
                 "sum, bucket 0 of fc1.weight and fc2.weight); parameter 0 of the bucket is "
                 "fc2.weight, not fc1.weight");
    fake_job_close(&job);
}

CT_TEST(buckets, of_which_one_differs_are_found)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        tell(&job, r, 0, r == 1 ? "a" : "b");
        hold(&job, r, 0, 0, 1);
        fake_post(&job, r, 0, 10, 1);
    }
    CT_CHECK(fake_look(&job, MS) == 1);
    fake_job_close(&job);
}

CT_TEST(buckets, of_more_parameters_are_not_the_same)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        tell(&job, r, 0, "a");
        tell(&job, r, 1, "b");
        hold(&job, r, 0, 0, r == 2 ? 2 : 1);
        if (r != 2) { /* one name too many is no list */
            tell(&job, r, 0, "a");
            hold(&job, r, 0, 0, 1);
        }
        fake_post(&job, r, 0, 10, 1);
    }
    fake_look(&job, MS);
    finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_MODEL, "2");
    CT_CHECK_STR(strstr(finding->text, "; the bucket"), "; the bucket holds 2 parameters, not 1");
    fake_job_close(&job);
}

/* A list of which a name is missing is none, and neither is one that was told before. */
CT_TEST(buckets, what_is_not_whole_is_not_believed)
{
    struct fake_job job;

    fake_job_begin(&job, 1);
    tell(&job, 0, 0, "a");
    hold(&job, 0, 0, 0, 1);
    tell(&job, 0, 0, "b");
    hold(&job, 0, 0, 0, 2); /* one is missing */
    fake_post(&job, 0, 0, 10, 1);
    tell(&job, 0, 1, "c"); /* the first one is missing */
    hold(&job, 0, 0, 0, 1);
    fake_post(&job, 0, 0, 10, 1);
    hold(&job, 0, UINT32_MAX, 0, 0); /* no such number of models */
    hold(&job, 0, 0, 1, 0);          /* holds nothing */
    fake_post(&job, 0, 0, 10, 2);
    fake_look(&job, MS);
    CT_CHECK_STR(held(&job, 0, 1), "-");
    CT_CHECK_STR(held(&job, 0, 2), "-");
    CT_CHECK_STR(held(&job, 0, 3), "");
    fake_job_close(&job);
}

/* Where entries are lost, what a bucket holds may have changed unseen. */
CT_TEST(buckets, are_forgotten_with_lost_entries)
{
    struct fake_job job;
    const uint64_t nothing[GUEST_ARG_COUNT] = {0};

    fake_job_open(&job, 1, 16);
    fake_attach(&job, 0);
    fake_comm(&job, 0, 0, 1, 0, 1);
    tell(&job, 0, 0, "a");
    hold(&job, 0, 0, 0, 1);
    fake_post(&job, 0, 0, 10, 1);
    fake_look(&job, MS);
    CT_CHECK_STR(held(&job, 0, 1), "a");
    for (int i = 0; i < 20; i++) {
        fake_report(&job, 0, GUEST_EVENT_STEP, nothing);
    }
    fake_post(&job, 0, 0, 10, 1);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(job.watch.ranks[0].lost_count, 5);
    CT_CHECK(harness_watch_call_at(&job.watch.groups[0].members[0], 2) != NULL);
    CT_CHECK_STR(held(&job, 0, 2), "-");
    fake_job_close(&job);
}

/* Many names find each other again. */
CT_TEST(buckets, names_are_kept_once)
{
    struct fake_job job;
    char name[32];
    uint32_t number = 0;

    fake_job_begin(&job, 1);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 3000; i++) {
            (void)snprintf(name, sizeof name, "layer%u.weight", i);
            CT_REQUIRE(harness_watch_name(&job.watch, name, &number));
            CT_CHECK_EQ_U64(number, i);
        }
    }
    CT_CHECK_STR(job.watch.names.items[2999], "layer2999.weight");
    fake_job_close(&job);
}
