/* Campaigns: their files, shards that are killed and resumed, and merging. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/campaign/campaign.h"
#include "harness/campaign/lines.h"
#include "tests/ct.h"

static const char small[] = "# Small jobs.\n"
                            "campaign: small\n"
                            "cases: 24\n"
                            "ranks_max: 3\n"
                            "steps_max: 2\n";

static ddp_status parse(const char *text, struct harness_campaign *out, struct ddp_err *err)
{
    return harness_campaign_parse(text, strlen(text), "c.yaml", out, err);
}

CT_TEST(campaign, file)
{
    struct harness_campaign campaign;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(parse("# One.\n# Two.\ncampaign: a\ncases: 5\nseed: 9\ndrivers: [proc]\n"
                        "faults: [1, 2]\nodds: {job.join: 7, restore: 8}\n",
                        &campaign, &err));
    CT_CHECK_STR(campaign.purpose, "One. Two.");
    CT_CHECK_STR(campaign.name, "a");
    CT_CHECK_EQ_U64(campaign.case_count, 5);
    CT_CHECK_EQ_U64(campaign.seed, 9);
    CT_CHECK(campaign.is_driver[HARNESS_DRIVER_PROC] && !campaign.is_driver[HARNESS_DRIVER_SIM]);
    CT_CHECK_EQ_U64(campaign.options.fault_min, 1);
    CT_CHECK_EQ_U64(campaign.options.fault_max, 2);
    CT_CHECK_EQ_U64(campaign.options.odds[HARNESS_ROW_JOB_join], 7);
    CT_CHECK_EQ_U64(campaign.options.odds[HARNESS_ROW_TOP_restore], 8);
}

CT_TEST(campaign, bad_files)
{
    static const struct {
        const char *text, *says;
    } files[] = {
        {"campaign: a\ncases: 5\n", "starts with no comment"},
        {"# A.\ncases: 5\n", "needs campaign and cases"},
        {"# A.\ncampaign: a\ncases: 5\nfoo: 1\n", "unknown key"},
        {"# A.\ncampaign: A b\ncases: 5\n", "short name"},
        {"# A.\ncampaign: a\ncases: x\n", "whole number"},
        {"# A.\ncampaign: a\ncases: 5\nfaults: [2, 1]\n", "the least comes first"},
        {"# A.\ncampaign: a\ncases: 5\ndrivers: [gpu]\n", "unknown driver"},
        {"# A.\ncampaign: a\ncases: 5\nodds: {job.device: 5}\n", "no key that campaigns draw"},
    };

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct harness_campaign campaign;
        struct ddp_err err = {""};

        CT_CHECK(parse(files[i].text, &campaign, &err) != DDP_OK);
        CT_CHECK(strstr(err.text, files[i].says) != NULL);
    }
}

enum { TEXT_MAX = 16384 };

/* out: TEXT_MAX bytes. */
static void read_text(const char *folder, const char *name, char *out)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "r");
    CT_REQUIRE(file != NULL);
    out[fread(out, 1, TEXT_MAX - 1, file)] = '\0';
    (void)fclose(file);
}

static void write_text(const char *folder, const char *name, const char *text, size_t size_bytes)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    CT_CHECK_OK(ddp_files_write_whole(ddp_files_system(), path, text, size_bytes, NULL));
}

static ddp_status run(const struct harness_campaign *campaign, const char *out_dir, uint32_t shard,
                      uint32_t shard_count, bool is_resumed, struct ddp_err *err)
{
    struct harness_campaign_config config = {.campaign = campaign,
                                             .shard = shard,
                                             .shard_count = shard_count,
                                             .jobs = 2,
                                             .out_dir = out_dir,
                                             .self_path = "",
                                             .is_resumed = is_resumed};
    int signal_number = 0;

    return harness_campaign_run(&config, &signal_number, err);
}

static void merge(const char *dir, const char *out_dir, uint64_t missing, const char *says)
{
    struct harness_campaign_summary summary;
    struct ddp_text text;
    struct ddp_err err = {""};

    ddp_text_init(&text, ddp_mem_system());
    CT_CHECK_OK(harness_campaign_merge(&dir, 1, out_dir, &summary, &text, &err));
    CT_CHECK_EQ_U64(summary.missing_count, missing);
    CT_CHECK_EQ_U64(summary.case_count, 24 - missing);
    CT_CHECK(strstr(ddp_text_str(&text), says) != NULL);
    ddp_text_fini(&text);
}

/* Of the shards that are there nothing is missing. */
static void count(const char *dir, uint64_t answers)
{
    struct harness_campaign_summary summary;
    struct ddp_text text;
    struct ddp_err err = {""};

    ddp_text_init(&text, ddp_mem_system());
    CT_CHECK_OK(harness_campaign_merge(&dir, 1, NULL, &summary, &text, &err));
    CT_CHECK_EQ_U64(summary.missing_count, 0);
    CT_CHECK_EQ_U64(summary.case_count, answers);
    CT_CHECK(strstr(ddp_text_str(&text), "missing") == NULL);
    ddp_text_fini(&text);
}

/* Three shards, one of them killed in the middle of a line and resumed, come to the same bytes as
 * one campaign that was not sharded; merging twice changes nothing. */
CT_TEST(campaign, shards_come_to_the_same)
{
    char whole[] = "ddprove_campaign_XXXXXX";
    char parts[] = "ddprove_campaign_XXXXXX";
    struct harness_campaign campaign;
    struct ddp_err err = {""};
    char one[TEXT_MAX], other[TEXT_MAX];

    CT_REQUIRE(mkdtemp(whole) != NULL && mkdtemp(parts) != NULL);
    CT_REQUIRE_OK(parse(small, &campaign, &err));
    CT_REQUIRE_OK(run(&campaign, whole, 0, 1, false, &err));
    merge(whole, whole, 0, "");
    CT_REQUIRE_OK(run(&campaign, parts, 0, 3, false, &err));
    CT_REQUIRE_OK(run(&campaign, parts, 2, 3, false, &err));
    merge(parts, parts, 8, "shard 1/3 is missing");
    count(parts, 16);
    CT_REQUIRE_OK(run(&campaign, parts, 1, 3, false, &err));
    read_text(parts, "shard.1of3.txt", one);
    write_text(parts, "shard.1of3.txt", one, strlen(one) - 70);
    CT_CHECK_STATUS(run(&campaign, parts, 1, 3, false, &err), DDP_E_STATE);
    CT_CHECK(strstr(err.text, "--resume") != NULL);
    CT_REQUIRE_OK(run(&campaign, parts, 1, 3, true, &err));
    merge(parts, parts, 0, "");
    merge(parts, parts, 0, "");
    read_text(whole, "results.txt", one);
    read_text(parts, "results.txt", other);
    CT_CHECK_STR(one, other);
    CT_CHECK_OK(ddp_files_remove_tree(whole, NULL));
    CT_CHECK_OK(ddp_files_remove_tree(parts, NULL));
}

/* A line that was changed is refused, and so is another campaign's file. */
CT_TEST(campaign, damage)
{
    char dir[] = "ddprove_campaign_XXXXXX";
    const char *const dirs[] = {dir};
    struct harness_campaign_summary summary;
    struct harness_campaign campaign;
    struct ddp_text text;
    struct ddp_err err = {""};
    char lines[TEXT_MAX];
    char *outcome;

    CT_REQUIRE(mkdtemp(dir) != NULL);
    CT_REQUIRE_OK(parse(small, &campaign, &err));
    campaign.case_count = 3;
    CT_REQUIRE_OK(run(&campaign, dir, 0, 1, false, &err));
    campaign.seed = 77;
    CT_CHECK_STATUS(run(&campaign, dir, 0, 1, true, &err), DDP_E_STATE);
    CT_CHECK(strstr(err.text, "of another campaign") != NULL);
    read_text(dir, "shard.0of1.txt", lines);
    outcome = strstr(lines, "PASS");
    CT_REQUIRE(outcome != NULL);
    outcome[0] = 'M';
    write_text(dir, "shard.0of1.txt", lines, strlen(lines));
    ddp_text_init(&text, ddp_mem_system());
    CT_CHECK_STATUS(harness_campaign_merge(dirs, 1, dir, &summary, &text, &err), DDP_E_PARSE);
    CT_CHECK(strstr(err.text, "damaged") != NULL);
    ddp_text_fini(&text);
    CT_CHECK_OK(ddp_files_remove_tree(dir, NULL));
}

/* A file whose head is not whole, or whose numbers are none, is nobody's results. */
CT_TEST(campaign, bad_heads)
{
#define HEAD "# ddprove campaign 1 name small file "
    static const char *const wrong[] = {
        "",
        HEAD "00000000000000ff seed 7 cases 3 drivers sim",
        HEAD "00000000000000ff seed 7 cases 3 drivers sim shard 0",
        HEAD "00000000000000ff seed 7 cases 3 drivers sim shard 1/1",
        HEAD "00000000000000ff seed 7 cases 3 drivers sim shard 0/4294967296",
        HEAD "00000000000000ff seed 7 cases 3 drivers sim shard 0/1 more",
        HEAD "00000000000000ff seed -7 cases 3 drivers sim shard 0/1",
        HEAD "00000000000000ff seed 7 cases 18446744073709551616 drivers sim shard 0/1",
        HEAD "00000000000000ff seed 7 drivers sim shard 0/1",
        HEAD "ff seed 7 cases 3 drivers sim shard 0/1",
        HEAD "00000000000000ff seed 7 cases 3 drivers a_list_of_drivers shard 0/1",
        "# ddprove campaign 2 name small file 00000000000000ff seed 7 cases 3 drivers sim shard "
        "0/1"};
#undef HEAD
    char dir[] = "ddprove_campaign_XXXXXX";
    const char *const dirs[] = {dir};
    struct harness_campaign_summary summary;
    struct ddp_text text;
    struct ddp_err err = {""};
    char line[256];

    CT_REQUIRE(mkdtemp(dir) != NULL);
    ddp_text_init(&text, ddp_mem_system());
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(line, sizeof line, "%s\n", wrong[i]);
        write_text(dir, "shard.0of1.txt", line, strlen(line));
        CT_CHECK_STATUS(harness_campaign_merge(dirs, 1, dir, &summary, &text, &err), DDP_E_PARSE);
        CT_CHECK(strstr(err.text, "not a campaign's results") != NULL);
    }
    ddp_text_fini(&text);
    CT_CHECK_OK(ddp_files_remove_tree(dir, NULL));
}

/* Two right answers to one case that are not the same: the drivers differ. */
CT_TEST(campaign, drivers_differ)
{
    struct harness_campaign_head head = {
        .name = "a", .case_count = 1, .drivers = "sim+proc", .shard_count = 1};
    struct harness_campaign_result result = {.outcome = HARNESS_OUTCOME_PASS,
                                             .text = "NONE ranks -"};
    char dir[] = "ddprove_campaign_XXXXXX";
    const char *const dirs[] = {dir};
    struct harness_campaign_summary summary;
    struct ddp_text text, summary_text;
    struct ddp_err err = {""};

    CT_REQUIRE(mkdtemp(dir) != NULL);
    ddp_text_init(&text, ddp_mem_system());
    ddp_text_init(&summary_text, ddp_mem_system());
    harness_campaign_head_print(&head, &text);
    harness_campaign_line_print(&result, &text);
    result.driver = HARNESS_DRIVER_PROC;
    (void)snprintf(result.text, sizeof result.text, "VALUE.LOST ranks 1");
    harness_campaign_line_print(&result, &text);
    write_text(dir, "shard.0of1.txt", ddp_text_str(&text), text.size_bytes);
    CT_CHECK_OK(harness_campaign_merge(dirs, 1, NULL, &summary, &summary_text, &err));
    CT_CHECK(summary.outcome == HARNESS_OUTCOME_FAIL);
    CT_CHECK(strstr(ddp_text_str(&summary_text), "case 0 differs") != NULL);
    ddp_text_fini(&summary_text);
    ddp_text_fini(&text);
    CT_CHECK_OK(ddp_files_remove_tree(dir, NULL));
}
