/* Names, the injected set, buckets. */
#include <signal.h>

#include "harness/plan/bucket.h"
#include "harness/plan/names.h"
#include "harness/plan/yaml_text.h"
#include "tests/unit/plan/plan_testing.h"

/* Only ranks whose fault does something are injected. */
CT_TEST(plan, injected_leaves_out_dummies)
{
    struct harness_fault faults[3];
    struct harness_plan plan = make_plan(4, 1, 1);
    struct ddp_mem_pool *pool = NULL;
    struct harness_rank_set set;

    memset(faults, 0, sizeof(faults));
    faults[0].at.rank = 1;
    faults[0].action.kind = HARNESS_ACTION_KILL;
    faults[1].at.rank = 2;
    faults[1].action.kind = HARNESS_ACTION_NONE;
    faults[2].at.rank = 3;
    faults[2].action.kind = HARNESS_ACTION_DELAY;
    plan.faults = faults;
    plan.fault_count = 3;
    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    set = harness_rank_set_in(ddp_mem_pool_mem(pool));
    harness_plan_injected(&plan, HARNESS_RUN_FIRST, &set);
    CT_CHECK_EQ_U64(harness_rank_set_count(&set), 2);
    CT_CHECK(harness_rank_set_has(&set, 1) && harness_rank_set_has(&set, 3));
    ddp_mem_pool_destroy(pool);
}

/* Names are those of the scenario format. */
CT_TEST(plan, names_what_scenarios_write)
{
    CT_CHECK_STR(harness_driver_name(HARNESS_DRIVER_PROC), "proc");
    CT_CHECK_STR(harness_action_name(HARNESS_ACTION_CORRUPT), "corrupt");
    CT_CHECK_STR(harness_names_of(HARNESS_NAMES_CORRUPTS, HARNESS_CORRUPT_FLIP), "flip");
    CT_CHECK_STR(harness_names_of(HARNESS_NAMES_ARGS, HARNESS_ARG_REDOP), "redop");
    CT_CHECK_STR(harness_names_of(HARNESS_NAMES_EDITS, HARNESS_EDIT_TRUNCATE), "truncate");
    CT_CHECK_STR(harness_names_of(HARNESS_NAMES_SIGNALS, SIGSEGV), "SIGSEGV");
    CT_CHECK(harness_names_of(HARNESS_NAMES_SIGNALS, SIGSTOP) == NULL);
    CT_CHECK_STR(harness_names_of(HARNESS_NAMES_STATUSES, DDP_E_PEER_DIED), "PEER_DIED");
}

/* Each name of each list means one value, and the value has that name. */
CT_TEST(plan, names_and_values_go_both_ways)
{
    for (unsigned i = 1; i < HARNESS_NAMES_COUNT; i++) {
        enum harness_names list = (enum harness_names)i;
        const char *name;
        int value;

        CT_CHECK(harness_names_what(list)[0] != '\0');
        CT_CHECK(harness_names_at(list, 0, NULL) != NULL);
        for (size_t k = 0; (name = harness_names_at(list, k, &value)) != NULL; k++) {
            CT_CHECK_STR(harness_names_of(list, value), name);
        }
    }
}

/* A collective is an engine and, unless that chooses, an algorithm; its name says both. */
CT_TEST(plan, collectives_are_named_by_engine_and_algorithm)
{
    const struct harness_collective ring = {HARNESS_ENGINE_SCHEDULE, DDP_ALGORITHM_RING, NULL};
    const struct harness_collective over_nccl = {HARNESS_ENGINE_NCCL_SCHEDULE, DDP_ALGORITHM_RING,
                                                 NULL};
    const struct harness_collective nccl = {HARNESS_ENGINE_NCCL, DDP_ALGORITHM_NONE, NULL};
    const struct harness_collective mine = {HARNESS_ENGINE_SCHEDULE, DDP_ALGORITHM_NONE,
                                            "./mine.so"};
    struct harness_plan plan = make_plan(2, 1, 1);

    CT_CHECK_STR(harness_collective_name(mine), "./mine.so");
    CT_CHECK_STR(harness_collective_name(ring), "ring");
    CT_CHECK_STR(harness_collective_name(over_nccl), "nccl/ring");
    CT_CHECK_STR(harness_collective_name(nccl), "nccl");
    plan.job.collective = over_nccl;
    CT_CHECK_STR(harness_plan_algorithm(&plan), "ring");
    CT_CHECK(!harness_plan_is_opaque(&plan) && !harness_plan_is_mpi(&plan));
    plan.job.collective = nccl;
    CT_CHECK(harness_plan_algorithm(&plan) == NULL && harness_plan_is_opaque(&plan));
}

static void check_buckets(size_t first_cap_bytes, size_t cap_bytes, const char *expected)
{
    struct ddp_param params[MLP_PARAM_COUNT];
    struct harness_bucket *buckets = NULL;
    struct ddp_text text;
    size_t count = 0;

    make_mlp(params);
    CT_REQUIRE_OK(harness_bucket_assign(ddp_mem_system(), params, MLP_PARAM_COUNT, first_cap_bytes,
                                        cap_bytes, &buckets, &count));
    ddp_text_init(&text, ddp_mem_system());
    for (size_t b = 0; b < count; b++) {
        ddp_text_add(&text, "%s%zu:", b == 0 ? "" : " ", buckets[b].elem_count);
        for (uint32_t i = 0; i < buckets[b].param_count; i++) {
            ddp_text_add(&text, "%s%u@%zu", i == 0 ? "" : ",", buckets[b].params[i],
                         buckets[b].offsets[i]);
        }
    }
    CT_CHECK_STR(ddp_text_str(&text), expected);
    ddp_text_fini(&text);
    harness_bucket_free(ddp_mem_system(), buckets, count);
}

/* Parameters are walked backwards, and a bucket closes once its bytes reach its cap. */
CT_TEST(bucket, closes_at_its_cap)
{
    /* Bytes from the last: 40, 1280, 128, 8192. */
    check_buckets(1, 1, "10:3@0 320:2@0 32:1@0 2048:0@0");
    check_buckets(40, 1408, "10:3@0 352:2@0,1@320 2048:0@0");
    check_buckets(41, 1409, "330:3@0,2@10 2080:1@0,0@32");
    check_buckets(40, 1409, "10:3@0 2400:2@0,1@320,0@352");
    check_buckets(1u << 20, 25u << 20, "2410:3@0,2@10,1@330,0@362");
}

/* A user's cap holds for the first bucket too; without one the defaults are 1 and 25 MiB. */
CT_TEST(bucket, takes_caps_from_the_job)
{
    struct harness_plan plan = make_plan(1, 1, 1);
    size_t first_bytes;
    size_t bytes;

    harness_bucket_caps(&plan.job, &first_bytes, &bytes);
    CT_CHECK_EQ_U64(first_bytes, 1048576);
    CT_CHECK_EQ_U64(bytes, 26214400);
    plan.job.bucket_cap_bytes = 65536;
    harness_bucket_caps(&plan.job, &first_bytes, &bytes);
    CT_CHECK_EQ_U64(first_bytes, 65536);
    CT_CHECK_EQ_U64(bytes, 65536);
    plan.job.first_bucket_cap_bytes = 100;
    harness_bucket_caps(&plan.job, &first_bytes, &bytes);
    CT_CHECK_EQ_U64(first_bytes, 100);
    CT_CHECK_EQ_U64(bytes, 65536);
}

/* Text is written plain only if it reads back as the same text. */
CT_TEST(plan, quotes_text_that_needs_it)
{
    static const char *const pairs[][2] = {{"fc1.bias", "fc1.bias"},
                                           {"true", "\"true\""},
                                           {"1e3", "\"1e3\""},
                                           {"a: b", "\"a: b\""},
                                           {"", "\"\""},
                                           {"a\"\\\n", "\"a\\\"\\\\\\x0a\""},
                                           {"a b", "a b"},
                                           {"-x", "\"-x\""},
                                           {"backward/x", "backward/x"},
                                           {"~", "\"~\""},
                                           {"trailing ", "\"trailing \""}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        struct ddp_text text;

        ddp_text_init(&text, ddp_mem_system());
        harness_plan_print_text(pairs[i][0], &text);
        CT_CHECK_STR(ddp_text_str(&text), pairs[i][1]);
        ddp_text_fini(&text);
    }
}
