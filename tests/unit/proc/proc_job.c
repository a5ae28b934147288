/* A small job for tests of the proc driver. */
#include "tests/unit/proc/proc_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/proc/proc.h"
#include "tests/ct.h"

void proc_test_init(struct proc_test *test, uint32_t ranks)
{
    struct harness_plan *plan = &test->job.plan;

    sim_job_init(&test->job, ranks);
    (void)snprintf(test->dir, sizeof(test->dir), "/tmp/ddprove-proc-XXXXXX");
    CT_REQUIRE(mkdtemp(test->dir) != NULL);
    test->job.config.rank.run_dir = test->dir;
    test->job.config.rank.checkpoint_path = NULL;
    test->job.config.self_path = PROC_RANK_PATH;
    test->job.config.plan_path = sim_job_path(&test->job, test->dir, "plan.yaml");
    /* The ranks read the plan as text, so it must be a whole one. */
    plan->purpose = "a job of real processes";
    plan->is_driver[HARNESS_DRIVER_SIM] = true;
    plan->is_driver[HARNESS_DRIVER_PROC] = true;
    plan->expect.step = -1;
    plan->expect.phase = -1;
}

static ddp_status write_plan(struct proc_test *test)
{
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, test->job.mem);
    harness_plan_print(&test->job.plan, &text);
    status = ddp_files_write_atomic(ddp_files_system(), test->job.config.plan_path,
                                    ddp_text_str(&text), text.size_bytes, &test->job.err);
    ddp_text_fini(&text);
    return status;
}

ddp_status proc_test_run(struct proc_test *test)
{
    struct sim_job *job = &test->job;
    struct ref_model_tables tables;
    struct harness_tables model;
    struct ref_job ref;

    DDP_TRY(write_plan(test));
    DDP_TRY(harness_rank_job(&job->plan, &ref, &job->err));
    DDP_TRY(ref_model_describe(job->mem, &ref.model, &tables, &job->err));
    job->params = tables.params;
    job->param_count = tables.param_count;
    model = (struct harness_tables){
        tables.params, tables.param_count, tables.buffers,         tables.buffer_count, NULL,
        NULL,          tables.batch_norms, tables.batch_norm_count};
    DDP_TRY(harness_program_build(job->mem, &job->plan, &model, NULL, &job->program));
    job->is_run = true;
    return harness_proc_driver()->run(job->mem, &job->config, &job->trace, &job->err);
}

void proc_test_fini(struct proc_test *test)
{
    CT_CHECK_OK(ddp_files_remove_tree(test->dir, NULL));
    sim_job_fini(&test->job);
}

const struct harness_finding *proc_test_only(const struct proc_test *test,
                                             enum harness_verdict verdict)
{
    const struct harness_findings *said = &test->job.trace.diagnoses;

    for (size_t i = 0; said->count != 1 && i < said->count; i++) {
        CT_FAIL("%s: %s", harness_verdict_name(said->items[i].verdict), said->items[i].text);
    }
    CT_CHECK_EQ_U64(said->count, 1);
    if (said->count != 1) {
        return NULL;
    }
    CT_CHECK_STR(harness_verdict_name(said->items[0].verdict), harness_verdict_name(verdict));
    return &said->items[0];
}

void proc_test_check_clean(const struct proc_test *test)
{
    const struct harness_trace *trace = &test->job.trace;

    CT_CHECK_STR(trace->leak_text, "");
    CT_CHECK(!trace->leak_process && !trace->leak_shm && !trace->leak_fd);
    CT_CHECK_EQ_U64(trace->lost_count, 0);
}
