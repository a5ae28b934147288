/* The logging data: one line of JSON with DDPLogger's names. */
#include <string.h>

#include "ddpcore/ddp/logging.h"
#include "tests/ct.h"
#include "tests/unit/ddp/ddp_job.h"

static void log_program(struct world_rank *rank)
{
    struct job job;
    struct ddp_config config = job_config();
    struct ddp_model model = {.params = job.params, .param_count = JOB_PARAM_COUNT};
    struct ddp_text text;

    job_init(&job, rank->rank);
    config.find_unused_parameters = true;
    CT_REQUIRE(ddp_create(&rank->group, rank->device, &model, &config, &job.ddp, NULL) == DDP_OK);
    rank->group.step = 7;
    CT_CHECK_STATUS(job_step(&job, rank->rank, 0, (const bool[]){true, true, false, true, true}),
                    DDP_OK);
    ddp_text_init(&text, ddp_mem_system());
    ddp_logging_data(job.ddp, &text);
    if (rank->rank == 1) {
        CT_CHECK_STR(ddp_text_str(&text),
                     "{\"world_size\":2,\"rank\":1,\"iteration\":7,\"num_parameter_tensors\":5,"
                     "\"total_parameter_size_bytes\":88,\"unused_parameter_size\":24,"
                     "\"bucket_sizes\":\"20, 36, 32\",\"dtypes\":\"f32\","
                     "\"gradient_as_bucket_view\":0,\"comm_hook\":\"\",\"bucket_cap_bytes\":32,"
                     "\"broadcast_buffers\":0,\"find_unused_parameters\":1,\"static_graph\":0,"
                     "\"join_uneven_inputs\":0,\"has_error\":0,\"error\":\"\"}");
    }
    ddp_text_fini(&text);
    CT_CHECK(ddp_group_revoke(&rank->group, DDP_E_STATE, 0) < DDP_OK);
    ddp_text_init(&text, ddp_mem_system());
    ddp_logging_data(job.ddp, &text);
    CT_CHECK(strstr(ddp_text_str(&text), "\"has_error\":1,\"error\":\"STATE: ") != NULL);
    ddp_text_fini(&text);
    ddp_destroy(job.ddp);
}

CT_TEST(logging, one_line_of_json)
{
    const struct world_config config = {
        .world_size = 2, .program = log_program, .timeout_ns = DDP_NS_PER_S};

    world_run(&config);
}
