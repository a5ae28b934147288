/* Cards that CTest lends become the cards that CUDA shows; what a rank's environment becomes. */
#include <stdlib.h>
#include <string.h>

#include "harness/launch/card.h"
#include "tests/ct.h"

/* Each argument may be NULL: not set. */
static void set_environment(const char *visible, const char *first, const char *second)
{
    static const char *const names[] = {"CUDA_VISIBLE_DEVICES", "CTEST_RESOURCE_GROUP_0_GPUS",
                                        "CTEST_RESOURCE_GROUP_1_GPUS"};
    const char *const values[] = {visible, first, second};

    CT_REQUIRE(setenv("CTEST_RESOURCE_GROUP_COUNT", "2", 1) == 0);
    for (int i = 0; i < 3; i++) {
        CT_REQUIRE((values[i] != NULL ? setenv(names[i], values[i], 1) : unsetenv(names[i])) == 0);
    }
}

static void check_lent(const char *visible, const char *first, const char *second,
                       const char *expected)
{
    struct ddp_err err = {{0}};
    const char *chosen;

    set_environment(visible, first, second);
    CT_CHECK_OK(harness_cards_from_ctest(&err));
    chosen = getenv("CUDA_VISIBLE_DEVICES");
    CT_CHECK_STR(chosen != NULL ? chosen : "not set", expected);
    /* A second call, as in a child process, changes nothing. */
    CT_CHECK_OK(harness_cards_from_ctest(&err));
    chosen = getenv("CUDA_VISIBLE_DEVICES");
    CT_CHECK_STR(chosen != NULL ? chosen : "not set", expected);
}

CT_TEST(card, lent_cards_are_the_visible_ones)
{
    check_lent(NULL, "id:1,slots:1", NULL, "1");
    check_lent(NULL, "id:1,slots:1;id:3,slots:1", "id:0,slots:1", "1,3,0");
    check_lent(NULL, NULL, NULL, "not set");
    check_lent(NULL, "id:absent,slots:1", "id:absent,slots:1", "not set"); /* there is no card */
}

/* The specification counts the cards that are visible, as CUDA does. */
CT_TEST(card, lent_cards_are_among_those_already_chosen)
{
    check_lent("2,3", "id:0,slots:1", NULL, "2");
    check_lent("2,3", "id:1,slots:1", "id:0,slots:1", "3,2");
    check_lent("GPU-1f,GPU-2e", "id:1,slots:1", NULL, "GPU-2e");
    check_lent("2,3", NULL, NULL, "2,3");
}

static void check_refused(const char *visible, const char *lent, const char *why)
{
    struct ddp_err err = {{0}};

    set_environment(visible, lent, NULL);
    CT_CHECK_STATUS(harness_cards_from_ctest(&err), DDP_E_PARSE);
    CT_CHECK(strstr(err.text, why) != NULL);
}

CT_TEST(card, what_cannot_be_lent_is_refused)
{
    check_refused(NULL, "card:1", "is not CTest's id:<card>,slots:<n>");
    check_refused(NULL, "id:,slots:1", "is not CTest's");
    check_refused("2,3", "id:2,slots:1", "CUDA_VISIBLE_DEVICES=2,3 hides");
    check_refused("2,3", "id:a,slots:1", "hides");
    check_refused("", "id:0,slots:1", "hides");
}

static void check_variable(const char *name, const char *expected)
{
    const char *value = getenv(name);

    CT_CHECK_STR(value != NULL ? value : "not set", expected);
}

static void prepare(enum harness_device device)
{
    struct harness_plan plan;
    struct ddp_rendezvous rendezvous;
    struct harness_rank_options options;
    struct ddp_err err = {{0}};

    memset(&plan, 0, sizeof(plan));
    memset(&rendezvous, 0, sizeof(rendezvous));
    memset(&options, 0, sizeof(options));
    plan.job.device = device;
    rendezvous.local_rank = 3;
    CT_CHECK_OK(harness_card_prepare(&plan, &rendezvous, &options, &err));
    CT_CHECK_EQ_U64(options.card, device == HARNESS_DEVICE_CUDA ? 3 : 0);
}

CT_TEST(card, ranks_sum_in_an_order_that_can_be_measured)
{
    CT_REQUIRE(unsetenv("NCCL_NVLS_ENABLE") == 0 && setenv("NCCL_COMM_BLOCKING", "1", 1) == 0);
    prepare(HARNESS_DEVICE_CPU);
    check_variable("NCCL_NVLS_ENABLE", "not set");
    check_variable("NCCL_COMM_BLOCKING", "1");
    prepare(HARNESS_DEVICE_CUDA);
    check_variable("NCCL_NVLS_ENABLE", "0");
    /* The user's NCCL_COMM_BLOCKING is replaced, the user's NCCL_NVLS_ENABLE is kept. */
    check_variable("NCCL_COMM_BLOCKING", "0");
    CT_REQUIRE(setenv("NCCL_NVLS_ENABLE", "1", 1) == 0);
    prepare(HARNESS_DEVICE_CUDA);
    check_variable("NCCL_NVLS_ENABLE", "1");
}
