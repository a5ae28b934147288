/* Measured trees as the judge reads them: every line is checked, sums are rounded as the tree says,
 * and a run is judged bitwise with them where no schedule was left. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "harness/sums/residual.h"
#include "harness/sums/tree.h"
#include "tests/ct.h"
#include "tests/rank_mask.h"
#include "tests/unit/oracle/oracle_job.h"

#define HEAD(dtype, count, members, round)                                           \
    "ddprove tree 1\nkind all_reduce\nredop sum\ndtype " dtype "\nelem_count " count \
    "\nmembers " members "\nround " round "\n"
#define FIRST4 HEAD("f32", "10", "4", "first")

static ddp_status parse(const char *text, struct harness_tree_map *out, struct ddp_err *err)
{
    *err = (struct ddp_err){""};
    return harness_tree_parse(ddp_mem_system(), text, out, err);
}

/* A whole file is read, and prints as it stood there. */
CT_TEST(tree, file_is_read)
{
    struct harness_tree_map map;
    struct ddp_err err;
    char text[64];

    CT_REQUIRE_OK(
        parse(FIRST4 "result measured\n0 4 ((0 1) (2 3))\n4 6 ([0 3] {1 2})\n", &map, &err));
    CT_CHECK_EQ_U64(map.elem_count, 10);
    CT_CHECK_EQ_U64(map.member_count, 4);
    CT_CHECK(!map.is_last && map.is_measured);
    CT_CHECK_EQ_U64(map.range_count, 2);
    harness_tree_print(&map, 3, text, sizeof(text));
    CT_CHECK_STR(text, "((0 1) (2 3))");
    harness_tree_print(&map, 9, text, sizeof(text));
    CT_CHECK_STR(text, "([0 3] {1 2})");
    harness_tree_print(&map, 9, text, 12);
    CT_CHECK(strlen(text) < 12);
    harness_tree_fini(&map);
}

/* Results other than a measurement are kept with their reason. */
CT_TEST(tree, other_results_are_read)
{
    struct harness_tree_map map;
    struct ddp_err err;
    char why[64];

    CT_REQUIRE_OK(parse(FIRST4 "result unknown too far\a out\n", &map, &err));
    CT_CHECK(!harness_tree_is_known(&map, why, sizeof(why)));
    CT_CHECK_STR(why, "too far? out");
    CT_CHECK_STR(harness_verdict_name(map.verdict), "NONE");
    harness_tree_fini(&map);
    CT_REQUIRE_OK(parse(
        HEAD("f16", "3", "900", "last") "result inconsistent lost members=1,899 x\n", &map, &err));
    CT_CHECK_STR(harness_verdict_name(map.verdict), "VALUE.LOST");
    CT_CHECK(map.is_last && harness_rank_set_has(&map.ranks, 1));
    CT_CHECK(harness_rank_set_has(&map.ranks, 899));
    CT_CHECK_EQ_U64(harness_rank_set_count(&map.ranks), 2);
    harness_tree_fini(&map);
}

/* Every defect is refused with its line. */
CT_TEST(tree, defects_are_refused)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "line 1: expected 'ddprove tree 1'"},
        {"ddprove tree 2\n", "line 1: expected 'ddprove tree 1'"},
        {"ddprove tree 1\nkind broadcast\n", "line 2: kind 'broadcast' is not 'all_reduce'"},
        {"ddprove tree 1\nkind all_reduce\nredop max\n", "line 3: redop 'max' is not 'sum'"},
        {"ddprove tree 1\nkind all_reduce\nredop sum\ndtype f8\n", "line 4: no such dtype"},
        {"ddprove tree 1\nkind all_reduce\nredop sum\nelems 4\n",
         "line 4: expected 'dtype', not 'elems'"},
        {HEAD("f32", "-1", "4", "first"), "line 5: not a number in range"},
        {HEAD("f32", "10", "1048577", "first"), "line 6: not a number in range"},
        {HEAD("f32", "10", "4", "middle"), "line 7: a round is 'first' or 'last'"},
        {FIRST4, "line 8: expected 'result'"},
        {FIRST4 "result fine\n", "line 8: a result is 'measured', 'unknown' or 'inconsistent'"},
        {FIRST4 "result inconsistent odd members= x\n", "line 8: no such inconsistency"},
        {FIRST4 "result inconsistent lost members=4 x\n", "line 8: there is no such member"},
        {FIRST4 "result inconsistent lost x\n", "line 8: expected 'members='"},
        {FIRST4 "result measured\n", "line 9: expected a number"},
        {FIRST4 "result measured\n1 9 ((0 1) (2 3))\n",
         "line 9: ranges follow each other and end with the last element"},
        {FIRST4 "result measured\n0 11 ((0 1) (2 3))\n",
         "line 9: ranges follow each other and end with the last element"},
        {FIRST4 "result measured\n0 0 ((0 1) (2 3))\n",
         "line 9: ranges follow each other and end with the last element"},
        {FIRST4 "result measured\n0 4 ((0 1) (2 3))\n", "line 10: expected a number"},
        {FIRST4 "result measured\n0 10 ((0 1) (2 3))\nmore\n", "line 10: nothing more is expected"},
        {FIRST4 "result measured\n0 10 ((0 1) 2)\n", "line 9: a tree holds every member once"},
        {FIRST4 "result measured\n0 10 ((0 1) (2 2))\n", "line 9: a tree holds every member once"},
        {FIRST4 "result measured\n0 10 ((0 1) (2 4))\n", "line 9: a tree holds every member once"},
        {FIRST4 "result measured\n0 10 0\n", "line 9: a tree holds every member once"},
        {FIRST4 "result measured\n0 10 ((0 1) (2) 3)\n", "line 9: a sum has two operands or more"},
        {FIRST4 "result measured\n0 10 ((0 1] (2 3))\n",
         "line 9: expected another operand or the bracket's end"},
        {FIRST4 "result measured\n0 10 ((0 1) (2 3)",
         "line 9: expected another operand or the bracket's end"},
        {FIRST4 "result measured\n0 10 ((0 1) (2 3)) \n", "line 9: expected the end of the line"},
        {FIRST4 "result measured\n0 99999999999999999999 (0 1)\n",
         "line 9: the number is too large"},
        {HEAD("i32", "10", "2", "first") "result measured\n0 10 (0 1)\n",
         "line 9: sums of 2 to 64 members in f32, f16 or bf16 can be measured"},
        {HEAD("f32", "10", "65", "first") "result measured\n",
         "line 9: sums of 2 to 64 members in f32, f16 or bf16 can be measured"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct harness_tree_map map;
        struct ddp_err err;

        CT_CHECK_STATUS(parse(cases[i].text, &map, &err), DDP_E_PARSE);
        CT_CHECK_STR(err.text, cases[i].error);
        CT_CHECK(map.ranges == NULL && map.ops == NULL);
    }
}

/* Any number of opening brackets is refused; the reader's stack does not overflow. */
CT_TEST(tree, deep_nesting_is_refused)
{
    struct harness_tree_map map;
    struct ddp_err err;
    char text[600];
    int used = snprintf(text, sizeof(text), "%sresult measured\n0 10 ", FIRST4);

    memset(text + used, '(', 200);
    text[used + 200] = '\0';
    CT_CHECK_STATUS(parse(text, &map, &err), DDP_E_PARSE);
    CT_CHECK_STR(err.text, "line 9: too many brackets");
}

/* --- sums ------------------------------------------------------------------------------------- */

static void check_f32(const char *tree, const float *values, uint32_t count, float expected)
{
    struct harness_tree_map map;
    struct ddp_err err;
    char text[300];
    float result[4];
    void *input[4];
    void *output[4];

    (void)snprintf(text, sizeof(text),
                   "ddprove tree 1\nkind all_reduce\nredop sum\ndtype f32\nelem_count 1\nmembers "
                   "%u\nround first\nresult measured\n0 1 %s\n",
                   count, tree);
    CT_REQUIRE_OK(parse(text, &map, &err));
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&result[i], &values[i], sizeof(float));
        input[i] = &result[i];
    }
    {
        float sums[4];

        for (uint32_t i = 0; i < count; i++) {
            output[i] = &sums[i];
        }
        CT_CHECK_OK(harness_tree_run(&map, input, output));
        for (uint32_t i = 0; i < count; i++) {
            CT_CHECK_BYTES(&sums[i], &expected, sizeof(expected));
        }
    }
    harness_tree_fini(&map);
}

/* Order and rounding: 2^24 + 1 + 1 is 2^24 if added one after the other, 2^24 + 2 otherwise. */
CT_TEST(tree, fp32_sums_are_rounded_as_written)
{
    static const float values[] = {0x1p24f, 1.0f, 1.0f};
    static const float tie[] = {0x1p24f, 1.0f, 0x1p-60f};
    static const float tie_down[] = {0x1p24f, 3.0f, -0x1p-60f};
    static const float negative[] = {-0x1p24f, -1.0f, -0x1p-60f};
    static const float zeros[] = {-0.0f, -0.0f, -0.0f};

    check_f32("((0 1) 2)", values, 3, 0x1p24f);
    check_f32("(0 (1 2))", values, 3, 0x1p24f + 2.0f);
    check_f32("([0 1] 2)", values, 3, 0x1p24f + 2.0f);
    check_f32("(0 1 2)", values, 3, 0x1p24f + 2.0f);
    /* Half way between two values but for a tiny third operand: only the exact sum rounds right. */
    check_f32("([0 1] 2)", tie, 3, 0x1p24f);
    check_f32("(0 1 2)", tie, 3, 0x1p24f + 2.0f);
    check_f32("(0 1 2)", tie_down, 3, 0x1p24f + 2.0f);
    check_f32("([0 1] 2)", tie_down, 3, 0x1p24f + 4.0f);
    check_f32("(0 1 2)", negative, 3, -0x1p24f - 2.0f);
    check_f32("(0 1 2)", zeros, 3, -0.0f);
}

/* 16-bit types: 256 + 1 is 256 in bf16, 2048 + 1 is 2048 in fp16. */
CT_TEST(tree, half_sums_are_rounded_as_written)
{
    static const struct {
        const char *dtype, *tree;
        float values[3], expected;
    } cases[] = {
        {"bf16", "((0 1) 2)", {256.0f, 1.0f, 1.0f}, 256.0f},
        {"bf16", "([0 1] 2)", {256.0f, 1.0f, 1.0f}, 258.0f},
        {"bf16", "(0 1 2)", {256.0f, 1.0f, 1.0f}, 258.0f},
        {"bf16", "(0 1 2)", {256.0f, 1.0f, 0x1p-60f}, 258.0f},
        {"bf16", "([0 1] 2)", {256.0f, 1.0f, 0x1p-60f}, 256.0f},
        {"f16", "((0 1) 2)", {2048.0f, 1.0f, 1.0f}, 2048.0f},
        {"f16", "([0 1] 2)", {2048.0f, 1.0f, 1.0f}, 2050.0f},
        {"f16", "(0 1 2)", {2048.0f, 1.0f, 0x1p-24f}, 2050.0f},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool is_f16 = strcmp(cases[i].dtype, "f16") == 0;
        struct harness_tree_map map;
        struct ddp_err err;
        char text[300];
        uint16_t in[3];
        uint16_t out[3];
        void *input[3] = {&in[0], &in[1], &in[2]};
        void *output[3] = {&out[0], &out[1], &out[2]};

        (void)snprintf(text, sizeof(text),
                       "ddprove tree 1\nkind all_reduce\nredop sum\ndtype %s\nelem_count "
                       "1\nmembers 3\nround first\nresult measured\n0 1 %s\n",
                       cases[i].dtype, cases[i].tree);
        CT_REQUIRE_OK(parse(text, &map, &err));
        for (size_t k = 0; k < 3; k++) {
            in[k] = is_f16 ? ddp_f16_from_f32(cases[i].values[k])
                           : ddp_bf16_from_f32(cases[i].values[k]);
        }
        CT_CHECK_OK(harness_tree_run(&map, input, output));
        CT_CHECK(cases[i].expected == (is_f16 ? ddp_f16_to_f32(out[2]) : ddp_bf16_to_f32(out[2])));
        harness_tree_fini(&map);
    }
}

/* Many values of one element are added in its tree, not in that of the places where they lie: in
 * the first tree 2^24 + 1 + 1 is 2^24. */
CT_TEST(tree, values_are_added_as_an_element_is)
{
    enum { VALUES = 300 };
    static const char text[] =
        "ddprove tree 1\nkind all_reduce\nredop sum\ndtype f32\nelem_count 8\nmembers 3\nround "
        "first\nresult measured\n0 4 ((0 1) 2)\n4 4 (0 (1 2))\n";
    static const char unknown[] =
        "ddprove tree 1\nkind all_reduce\nredop sum\ndtype f32\nelem_count "
        "8\nmembers 3\nround first\nresult measured\n0 8 {0 1 2}\n";
    static float in[3][VALUES];
    static float out[VALUES];
    void *input[3] = {in[0], in[1], in[2]};
    struct harness_tree_map map;
    struct ddp_err err;

    for (size_t i = 0; i < VALUES; i++) {
        in[0][i] = 0x1p24f;
        in[1][i] = in[2][i] = i % 2 == 0 ? 1.0f : 0.0f;
    }
    CT_REQUIRE_OK(parse(text, &map, &err));
    for (size_t elem = 0; elem < 8; elem++) {
        CT_CHECK_OK(harness_tree_apply(&map, elem, input, VALUES, out));
        for (size_t i = 0; i < VALUES; i++) {
            CT_CHECK(out[i] == 0x1p24f + (elem >= 4 && i % 2 == 0 ? 2.0f : 0.0f));
        }
    }
    harness_tree_fini(&map);
    CT_REQUIRE_OK(parse(unknown, &map, &err));
    CT_CHECK_STATUS(harness_tree_apply(&map, 0, input, VALUES, out), DDP_E_STATE);
    harness_tree_fini(&map);
}

/* The first element whose tree differs, across ranges that do not line up. */
CT_TEST(tree, maps_are_compared_by_element)
{
    static const char a_text[] = FIRST4 "result measured\n0 4 ((0 1) (2 3))\n4 6 (((0 1) 2) 3)\n";
    static const char b_text[] =
        FIRST4 "result measured\n0 2 ((0 1) (2 3))\n2 5 ((0 1) (2 3))\n7 3 (((0 1) 2) 3)\n";
    static const char c_text[] = FIRST4 "result measured\n0 4 ((0 1) (2 3))\n4 6 ([[0 1] 2] 3)\n";
    struct harness_tree_map a, b, c;
    struct ddp_err err;

    CT_REQUIRE_OK(parse(a_text, &a, &err));
    CT_REQUIRE_OK(parse(b_text, &b, &err));
    CT_REQUIRE_OK(parse(c_text, &c, &err));
    CT_CHECK_EQ_U64(harness_tree_compare(&a, &a), 10);
    CT_CHECK_EQ_U64(harness_tree_compare(&a, &b), 4);
    CT_CHECK_EQ_U64(harness_tree_compare(&b, &c), 4);
    CT_CHECK_EQ_U64(harness_tree_compare(&a, &c), 4);
    harness_tree_fini(&a);
    harness_tree_fini(&b);
    harness_tree_fini(&c);
}

/* Another order stays within its roundings; a lost contribution does not. */
CT_TEST(tree, reordering_is_told_from_loss)
{
    static const float a[] = {0x1p24f, 1.0f, 3.0f};
    static const float b[] = {1.0f, 0x1p24f, 5.0f};
    static const float c[] = {1.0f, 1.0f, 7.0f};
    static const float expected[] = {0x1p24f, 0x1p24f, 15.0f};
    static const float other[] = {0x1p24f + 2.0f, 0x1p24f + 2.0f, 15.0f};
    static const float lost[] = {0x1p24f + 2.0f, 0x1p24f + 2.0f, 8.0f};
    static const float one[] = {0x1p24f + 2.0f, 0x1p24f, 15.0f};
    const float *const inputs[] = {a, b, c};

    CT_CHECK(harness_residual_is_reordered(inputs, 3, expected, other, 3));
    CT_CHECK(!harness_residual_is_reordered(inputs, 3, expected, lost, 3));
    CT_CHECK(!harness_residual_is_reordered(inputs, 3, expected, one, 3));
}

/* --- a whole run ------------------------------------------------------------------------------ */

/* Trees of every bucket in place of schedules. */
static void write_trees(struct oracle_job *job, const char *round, unsigned members,
                        const char *result)
{
    char path[400];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/trees", job->run_dir);
    (void)mkdir(path, 0700);
    for (size_t b = 0; b < job->program.first.count; b++) {
        size_t count = job->program.first.items[b].elem_count;

        (void)snprintf(path, sizeof(path), "%s/trees/all_reduce.n%zu.f32.%s.txt", job->run_dir,
                       count, round);
        file = fopen(path, "w");
        DDP_ASSERT(file != NULL);
        (void)fprintf(file,
                      "ddprove tree 1\nkind all_reduce\nredop sum\ndtype f32\nelem_count "
                      "%zu\nmembers %u\nround %s\n",
                      count, members, round);
        if (result[0] == '(' || result[0] == '{') {
            (void)fprintf(file, "result measured\n0 %zu %s\n", count, result);
        } else {
            (void)fprintf(file, "result %s\n", result);
        }
        (void)fclose(file);
    }
}

/* A job of two ranks whose library left no schedules. */
static bool run_without_schedules(struct oracle_job *job)
{
    char path[300];
    char moved[300];

    if (!oracle_job_open(job, false) || !oracle_job_run(job)) {
        return false;
    }
    job->plan.job.collective.engine = HARNESS_ENGINE_MPI;
    (void)snprintf(path, sizeof(path), "%s/schedules", job->run_dir);
    (void)snprintf(moved, sizeof(moved), "%s/away", job->run_dir);
    return rename(path, moved) == 0;
}

/* With measured trees, and no schedule, a right run is clean to the last bit. */
CT_TEST(tree, right_run_is_clean)
{
    struct oracle_job job;

    CT_REQUIRE(run_without_schedules(&job));
    write_trees(&job, "first", 2, "(0 1)");
    write_trees(&job, "last", 2, "(0 1)");
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK_EQ_U64(job.findings.count, 0);
    CT_CHECK(!job.findings.is_evidence_lost);
    oracle_job_close(&job);
}

static void spoil_output(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t count)
{
    if (rank == 1 && step == 1 && bucket == 0) {
        data[count - 1] += 1.0f;
    }
}

/* ... and a wrong sum is found with them. */
CT_TEST(tree, wrong_sum_is_found)
{
    struct oracle_job job;

    CT_REQUIRE(oracle_job_open(&job, false));
    job.hook.output = spoil_output;
    CT_REQUIRE(oracle_job_run(&job));
    write_trees(&job, "first", 2, "(0 1)");
    write_trees(&job, "last", 2, "(0 1)");
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(oracle_job_finding(&job, HARNESS_ORACLE_REDUCTION) != NULL);
    CT_CHECK(oracle_job_finding(&job, HARNESS_ORACLE_TREE) == NULL);
    oracle_job_close(&job);
}

/* Neither schedule nor a tree that can be followed: nothing is judged, nothing passes, and the
 * reason is given. */
CT_TEST(tree, unknown_order_loses_evidence)
{
    static const struct {
        const char *tree, *why;
    } cases[] = {
        {NULL, "no complete schedule of it was left"},
        {"unknown far out", "far out"},
        {"{0 1}", "how {0 1} rounds is not known (elements from 0)"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct oracle_job job;

        CT_REQUIRE(run_without_schedules(&job));
        if (cases[i].tree != NULL) {
            write_trees(&job, "first", 2, cases[i].tree);
            write_trees(&job, "last", 2, cases[i].tree);
        }
        CT_REQUIRE(oracle_job_check(&job));
        CT_CHECK_EQ_U64(job.findings.count, 0);
        CT_CHECK(job.findings.is_evidence_lost);
        CT_CHECK(strstr(job.findings.lost_text, cases[i].why) != NULL);
        oracle_job_close(&job);
    }
}

/* What contradicts itself is a finding. */
CT_TEST(tree, inconsistent_probes_are_found)
{
    static const struct {
        const char *first, *last, *verdict;
        uint64_t culprits;
    } cases[] = {
        {"inconsistent lost members=1 x", "inconsistent lost members=1 x", "VALUE.LOST", 2},
        {"(0 1)", "inconsistent members members=0 x", "VALUE.DIVERGED", 1},
        {"(0 1)", "inconsistent order members= x", "VALUE.REORDERED", 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct harness_finding *finding;
        struct oracle_job job;

        CT_REQUIRE(run_without_schedules(&job));
        write_trees(&job, "first", 2, cases[i].first);
        write_trees(&job, "last", 2, cases[i].last);
        CT_REQUIRE(oracle_job_check(&job));
        /* One of each size of bucket, however often it was measured. */
        CT_CHECK_EQ_U64(job.findings.count, job.program.first.count);
        CT_REQUIRE(job.findings.count > 0);
        finding = &job.findings.items[0];
        CT_CHECK_EQ_U64(finding->oracle, HARNESS_ORACLE_TREE);
        CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_PROBE);
        CT_CHECK_STR(harness_verdict_name(finding->verdict), cases[i].verdict);
        CT_CHECK_EQ_U64(mask_of_rank_set(&finding->culprits), cases[i].culprits);
        oracle_job_close(&job);
    }
}

/* Trees of another world are refused, and so are two of one round: the folder is not this run's. */
CT_TEST(tree, foreign_files_are_refused)
{
    struct harness_trees trees;
    struct ddp_err err = {""};
    struct oracle_job job;
    char folder[300];
    char copy[400];
    FILE *file;

    CT_REQUIRE(run_without_schedules(&job));
    write_trees(&job, "first", 3, "((0 1) 2)");
    (void)snprintf(folder, sizeof(folder), "%s/trees", job.run_dir);
    harness_trees_init(&trees, job.mem);
    CT_CHECK_STATUS(harness_trees_load(&trees, ddp_files_system(), folder, 2, &err), DDP_E_INVALID);
    CT_CHECK(strstr(err.text, "the trees are of 3 members, the run has 2") != NULL);
    harness_trees_fini(&trees);
    (void)snprintf(copy, sizeof(copy), "%s/copy.txt", folder);
    file = fopen(copy, "w");
    CT_REQUIRE(file != NULL);
    (void)fprintf(file, HEAD("f32", "%zu", "3", "first") "result unknown\n",
                  job.program.first.items[0].elem_count);
    (void)fclose(file);
    CT_CHECK_STATUS(harness_trees_load(&trees, ddp_files_system(), folder, 3, &err), DDP_E_INVALID);
    CT_CHECK(strstr(err.text, "are there already") != NULL);
    harness_trees_fini(&trees);
    CT_CHECK_OK(
        harness_trees_load(&trees, ddp_files_system(), "/tmp/ddprove-no-such-folder", 3, &err));
    oracle_job_close(&job);
}
