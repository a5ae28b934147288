/* Models with more parameters than a word has bits. */
#include <stdlib.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/ddp/ddp_world.h"

enum { PARAM_COUNT = 150 };

struct many {
    struct ddp_param params[PARAM_COUNT];
    float data[PARAM_COUNT], grad[PARAM_COUNT];
    struct ddp *ddp;
};

static struct many *create(struct world_rank *rank, bool find_unused)
{
    const struct ddp_config config = {.bucket_cap_bytes = 40,
                                      .find_unused_parameters = find_unused};
    struct many *job = calloc(1, sizeof(*job));
    struct ddp_err err = {""};

    for (size_t i = 0; i < PARAM_COUNT; i++) {
        job->params[i] = (struct ddp_param){.name = "p",
                                            .data = &job->data[i],
                                            .grad = &job->grad[i],
                                            .elem_count = 1,
                                            .ndim = 1,
                                            .shape = {1}};
    }
    CT_CHECK_OK(ddp_create(&rank->group, rank->device,
                           &(struct ddp_model){job->params, PARAM_COUNT, NULL, 0}, &config,
                           &job->ddp, &err));
    return job;
}

static ddp_status backward(struct many *job, const bool *is_used)
{
    DDP_TRY(ddp_forward_begin(job->ddp));
    DDP_TRY(ddp_backward_begin(job->ddp, is_used));
    for (size_t i = PARAM_COUNT; i-- > 0;) {
        if (is_used[i]) {
            job->grad[i] = (float)i;
            DDP_TRY(ddp_grad_ready(job->ddp, i));
        }
    }
    return ddp_backward_end(job->ddp);
}

static bool is_forgotten(uint32_t rank, size_t param)
{
    return rank == 1 && (param == 63 || param == 64 || param == 149);
}

/* Parameters that the rank's events name with an error, in order. */
static size_t named(const struct world_rank *rank, size_t out[PARAM_COUNT])
{
    struct ddp_event_entry entry;
    size_t count = 0;

    for (uint64_t i = 1; ddp_ring_read(rank->recorder.ring, WORLD_RING_COUNT, i, &entry) == DDP_OK;
         i++) {
        if (entry.event == DDP_EVENT_PARAM_ERROR) {
            CT_CHECK_EQ_I64((int64_t)entry.arg[1], DDP_E_UNUSED_PARAMETER);
            out[count++] = (size_t)entry.arg[0];
        }
    }
    return count;
}

static void forgets(struct world_rank *rank)
{
    const bool is_strict = rank->group.semantics == DDP_SEMANTICS_STRICT;
    struct many *job = create(rank, false);
    bool is_used[PARAM_COUNT];
    size_t out[PARAM_COUNT], count;

    for (size_t i = 0; i < PARAM_COUNT; i++) {
        is_used[i] = !is_forgotten(rank->rank, i);
    }
    if (is_strict) {
        CT_CHECK_STATUS(backward(job, is_used), DDP_E_UNUSED_PARAMETER);
        CT_CHECK_EQ_I64(rank->group.failure.rank, 1);
        CT_CHECK_EQ_U64(rank->group.failure.detail, 63);
    } else if (rank->rank == 1) {
        CT_CHECK_OK(backward(job, is_used));
        CT_CHECK_STATUS(ddp_forward_begin(job->ddp), DDP_E_UNUSED_PARAMETER);
    }
    count = named(rank, out);
    CT_CHECK_EQ_U64(count, rank->rank == 1 ? 3 : 0);
    for (size_t i = 0, k = 0; i < PARAM_COUNT; i++) {
        CT_CHECK(ddp_unready_params(job->ddp)[i] == !is_used[i]);
        if (!is_used[i] && k < count) {
            CT_CHECK_EQ_U64(out[k++], i);
        }
    }
    ddp_destroy(job->ddp);
    free(job);
}

/* A rank's events name exactly the parameters that it forgot, whatever their index: at once in
 * strict semantics, where every rank hears of the first, in the next forward pass in PyTorch's. */
CT_TEST(ddp_many, every_forgotten_parameter_is_named)
{
    world_run(&(struct world_config){3, DDP_SEMANTICS_STRICT, 0, forgets, NULL, false});
    world_run(&(struct world_config){3, DDP_SEMANTICS_PYTORCH, DDP_NS_PER_S, forgets, NULL, false});
}

static void finds(struct world_rank *rank)
{
    struct many *job = create(rank, true);
    bool is_used[PARAM_COUNT];

    for (size_t i = 0; i < PARAM_COUNT; i++) {
        is_used[i] = i % 3 != rank->rank % 2;
    }
    CT_CHECK_OK(backward(job, is_used));
    for (size_t i = 0; i < PARAM_COUNT; i++) {
        const uint32_t users = (i % 3 != 0 ? 1u : 0u) + (i % 3 != 1 ? 1u : 0u);

        CT_CHECK(job->params[i].is_grad_defined);
        CT_CHECK(job->grad[i] == (float)i * (float)users / 2);
    }
    ddp_destroy(job->ddp);
    free(job);
}

/* The used map has a place for each of them. */
CT_TEST(ddp_many, used_map_holds_them_all)
{
    world_run(&(struct world_config){2, DDP_SEMANTICS_STRICT, 0, finds, NULL, true});
}
