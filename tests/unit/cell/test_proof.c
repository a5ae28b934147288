/* A proof.json as findings and accounts of a guest's record: what it says is taken whole, and a
 * file of which something is missing or altered is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cell/stage.h"
#include "tests/ct.h"

static const char healthy[] =
    "{\"schema\": 1, \"world\": 2, \"outcome\": \"PASS\", \"verdict\": \"NONE\", \"steps\": [3],"
    " \"judged\": {\"gradient\": 8, \"reduction\": 4, \"update\": 4, \"replicas\": 4, \"loss\": 2},"
    " \"not_judged\": [], \"notes\": [], \"lacking\": [], \"findings\": [], \"table\": []}";

/* The second finding follows from the first. */
static const char failing[] =
    "{\"schema\": 1, \"world\": 2, \"outcome\": \"FAIL\", \"verdict\": \"VALUE.SCALED\","
    " \"steps\": [3], \"judged\": {\"gradient\": 8, \"reduction\": 4, \"update\": 4, \"replicas\": "
    "4},"
    " \"not_judged\": [{\"oracle\": \"loss\", \"steps\": [3], \"ranks\": [0], \"why\": \"a "
    "hook\"}],"
    " \"notes\": [], \"lacking\": [], \"findings\": ["
    "{\"oracle\": \"reduction\", \"verdict\": \"VALUE.SCALED\", \"ranks\": [1], \"step\": 3,"
    " \"steps\": [3], \"parameters\": [\"fc.weight\"], \"explained_by\": null,"
    " \"text\": \"twice\\nas much\"},"
    "{\"oracle\": \"replicas\", \"verdict\": \"VALUE.DIVERGED\", \"ranks\": [1], \"step\": 4,"
    " \"steps\": [4], \"parameters\": [\"fc.weight\"], \"explained_by\": 0, \"text\": \"differ\"}],"
    " \"table\": []}";

struct fixture {
    struct ddp_mem_pool *pool;
    struct ddp_files_memory *memory;
    struct harness_cell cell;
    struct harness_watch_record record;
    size_t steps[1];
};

static void fixture_open(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    CT_REQUIRE_OK(ddp_mem_pool_create(&f->pool));
    CT_REQUIRE_OK(ddp_files_memory_create(&f->memory));
    f->steps[0] = 3;
    f->cell.mem = ddp_mem_pool_mem(f->pool);
    f->cell.config.memory = f->memory;
    f->cell.run_dir = "run";
    f->cell.plan.job.guest.prove.items = f->steps;
    f->cell.plan.job.guest.prove.count = 1;
    f->record.watch.mem = f->cell.mem;
    f->record.watch.world_size = 2;
    harness_findings_init(&f->record.findings, f->cell.mem);
}

static void fixture_close(struct fixture *f)
{
    harness_findings_fini(&f->record.findings);
    ddp_files_memory_destroy(f->memory);
    ddp_mem_pool_destroy(f->pool);
}

static ddp_status add(struct fixture *f, const char *text, struct ddp_err *err)
{
    DDP_TRY(ddp_files_write_atomic(ddp_files_memory_files(f->memory), "run/proof/proof.json", text,
                                   strlen(text), err));
    return harness_stage_add_proof(&f->cell, &f->record, err);
}

CT_TEST(cell_proof, counts_what_was_judged)
{
    struct fixture f;
    struct ddp_err err = {{0}};

    fixture_open(&f);
    CT_CHECK_OK(add(&f, healthy, &err));
    CT_CHECK_EQ_U64(f.record.findings.count, 0);
    /* The loss is a part of the gradient's oracle. */
    CT_CHECK_EQ_U64(f.record.accounts.of[HARNESS_ORACLE_GRADIENT].bitwise, 10);
    CT_CHECK_EQ_U64(f.record.accounts.of[HARNESS_ORACLE_REPLICAS].judged, 4);
    harness_stage_ask_for_proof(&f.cell.plan, &f.record.accounts, &f.record.findings);
    CT_CHECK(!f.record.findings.is_evidence_lost);
    fixture_close(&f);
}

CT_TEST(cell_proof, keeps_the_first_finding_of_a_chain)
{
    struct fixture f;
    struct ddp_err err = {{0}};
    const struct harness_finding *finding;

    fixture_open(&f);
    CT_CHECK_OK(add(&f, failing, &err));
    CT_REQUIRE(f.record.findings.count == 1);
    finding = &f.record.findings.items[0];
    CT_CHECK_EQ_U64(finding->verdict, HARNESS_VERDICT_VALUE_SCALED);
    CT_CHECK_EQ_U64(finding->oracle, HARNESS_ORACLE_REDUCTION);
    CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
    CT_CHECK(!harness_rank_set_has(&finding->culprits, 0));
    CT_CHECK_EQ_I64(finding->step, 3);
    CT_CHECK_STR(finding->text, "twice as much");
    /* The loss was not judged, so the gradient is not proved. */
    harness_stage_ask_for_proof(&f.cell.plan, &f.record.accounts, &f.record.findings);
    CT_CHECK(f.record.findings.is_evidence_lost);
    CT_CHECK_STR(f.record.findings.lost_text, "the kept steps are not proved (gradient): a hook");
    fixture_close(&f);
}

CT_TEST(cell_proof, what_judged_nothing_is_no_proof)
{
    struct fixture f;
    struct ddp_err err = {{0}};

    fixture_open(&f);
    CT_CHECK_OK(
        add(&f,
            "{\"schema\": 1, \"world\": 2, \"outcome\": \"PASS\", \"verdict\": \"NONE\","
            " \"steps\": [], \"judged\": {\"gradient\": 8, \"reduction\": 4, \"update\": 4},"
            " \"not_judged\": [], \"notes\": [], \"lacking\": [], \"findings\": [],"
            " \"table\": []}",
            &err));
    harness_stage_ask_for_proof(&f.cell.plan, &f.record.accounts, &f.record.findings);
    CT_CHECK(f.record.findings.is_evidence_lost);
    CT_CHECK_STR(f.record.findings.lost_text,
                 "the kept steps are not proved (replicas): it judged nothing");
    fixture_close(&f);
}

CT_TEST(cell_proof, one_that_is_not_there_is_missed)
{
    struct fixture f;
    struct ddp_err err = {{0}};

    fixture_open(&f);
    CT_CHECK_OK(harness_stage_add_proof(&f.cell, &f.record, &err));
    harness_stage_ask_for_proof(&f.cell.plan, &f.record.accounts, &f.record.findings);
    CT_CHECK(f.record.findings.is_evidence_lost);
    fixture_close(&f);
}

/* As `failing` with the first `from` replaced. */
static void refuses(const char *from, const char *to)
{
    struct fixture f;
    struct ddp_err err = {{0}};
    struct ddp_text text;
    const char *at = strstr(failing, from);

    fixture_open(&f);
    ddp_text_init(&text, f.cell.mem);
    CT_REQUIRE(at != NULL);
    ddp_text_add(&text, "%.*s%s%s", (int)(at - failing), failing, to, at + strlen(from));
    if (add(&f, ddp_text_str(&text), &err) != DDP_E_PARSE) {
        CT_FAIL("taken with \"%s\" for \"%s\"", to, from);
    }
    CT_CHECK(strstr(err.text, "run/proof/proof.json: this is no proof") != NULL);
    ddp_text_fini(&text);
    fixture_close(&f);
}

CT_TEST(cell_proof, refuses_what_was_damaged)
{
    static const char *const changes[][2] = {
        {"\"schema\": 1", "\"schema\": 2"},
        {"\"world\": 2", "\"world\": 3"},
        {"\"world\": 2", "\"world\": \"2\""},
        {"\"outcome\": \"FAIL\"", "\"outcome\": \"PASS\""},
        {"\"outcome\": \"FAIL\"", "\"outcome\": \"GOOD\""},
        {"\"steps\": [3], \"judged\"", "\"judged\""},
        {"\"gradient\": 8", "\"gradient\": -8"},
        {"\"gradient\": 8", "\"gradient\": \"8\""},
        {"\"gradient\": 8", "\"gradients\": 8"},
        {"{\"oracle\": \"loss\"", "{\"oracle\": \"losses\""},
        {"\"why\": \"a hook\"", "\"why\": null"},
        {"{\"oracle\": \"reduction\"", "{\"oracle\": \"reductions\""},
        {"\"verdict\": \"VALUE.SCALED\", \"ranks\"", "\"verdict\": \"VALUE.MORE\", \"ranks\""},
        {"\"verdict\": \"VALUE.SCALED\", \"ranks\"", "\"verdict\": \"NONE\", \"ranks\""},
        {"\"ranks\": [1], \"step\": 3", "\"ranks\": [2], \"step\": 3"},
        {"\"ranks\": [1], \"step\": 3", "\"ranks\": [-1], \"step\": 3"},
        {"\"ranks\": [1], \"step\": 3", "\"ranks\": 1, \"step\": 3"},
        {"\"step\": 3", "\"step\": -1"},
        {"[\"fc.weight\"]", "[\"\"]"},
        {"[\"fc.weight\"]", "[7]"},
        {"\"explained_by\": null", "\"explained_by\": 0"}, /* by itself */
        {"\"explained_by\": null", "\"explained_by\": 1"}, /* by what follows from it */
        {"\"explained_by\": null", "\"explained_by\": true"},
        {"\"explained_by\": 0", "\"explained_by\": 7"},
        {"\"explained_by\": 0", "\"explained_by\": -1"},
        {"\"text\": \"differ\"", "\"texts\": \"differ\""},
        {", \"table\": []}", ""},
    };

    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        refuses(changes[i][0], changes[i][1]);
    }
    /* Its findings were taken out, and it still says that it failed. */
    {
        struct fixture f;
        struct ddp_err err = {{0}};

        fixture_open(&f);
        CT_CHECK(add(&f,
                     "{\"schema\": 1, \"world\": 2, \"outcome\": \"FAIL\", \"verdict\":"
                     " \"VALUE.SCALED\", \"steps\": [3], \"judged\": {}, \"not_judged\": [],"
                     " \"notes\": [], \"lacking\": [], \"findings\": [], \"table\": []}",
                     &err) == DDP_E_PARSE);
        fixture_close(&f);
    }
}

static void put_file(const char *folder, const char *name)
{
    char path[128];
    struct ddp_files *files = ddp_files_system();

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    CT_REQUIRE_OK(ddp_files_write_whole(files, path, "x", 1, NULL));
}

/* What an earlier run has kept for its proof is no part of the next one's. */
CT_TEST(proof, of_an_earlier_run)
{
    char folder[] = "/tmp/ddprove-cell-XXXXXX";
    char proof[64], rank[96], notes[64];

    CT_REQUIRE(mkdtemp(folder) != NULL);
    (void)snprintf(proof, sizeof proof, "%s/" HARNESS_STAGE_PROOF, folder);
    (void)snprintf(rank, sizeof rank, "%s/rank1", proof);
    (void)snprintf(notes, sizeof notes, "%s/notes", folder);
    CT_REQUIRE_OK(ddp_files_make_dirs(rank, NULL));
    put_file(proof, "proof.json");
    put_file(rank, "end");
    put_file(folder, "notes");
    CT_REQUIRE_OK(harness_cell_clear(folder, NULL));
    CT_CHECK(access(proof, F_OK) != 0);
    CT_CHECK(access(notes, F_OK) == 0);
    CT_REQUIRE_OK(ddp_files_remove_tree(folder, NULL));
}
