/* Collectives that the plan has a rank post beside those of the DDP core (job.posts). */
#include "harness/plan/posted.h"

#include <stdio.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"
#include "harness/rank/session.h"

static ddp_status post(struct harness_session *session, const struct harness_posted *posted,
                       uint32_t index, void *input, void *output)
{
    const struct ddp_coll_args args = {.kind = posted->kind,
                                       .redop = posted->redop,
                                       .dtype = posted->dtype,
                                       .role = DDP_ROLE_USER,
                                       .index = index,
                                       .root = posted->root,
                                       .input = input,
                                       .output = output,
                                       .elem_count = posted->elem_count};

    return ddp_group_run(&session->group, &args);
}

/* What the rank has now is what a trainer would go on with, whatever came out. */
static void record_taken(const struct harness_session *session, const struct harness_posted *posted,
                         uint32_t index, const void *output)
{
    const uint32_t rank = session->env->rank;
    const size_t size_bytes =
        posted->elem_count * ddp_dtype_size_bytes(posted->dtype) *
        ddp_coll_output_blocks(posted->kind, session->plan->job.ranks, rank == posted->root);
    char salt[32];

    if (!session->options->is_hashing || session->group.run_work.seq == 0 || size_bytes == 0 ||
        posted->kind == DDP_COLL_BARRIER) {
        return;
    }
    (void)snprintf(salt, sizeof salt, "%s/%u", ddp_coll_role_name(DDP_ROLE_USER), index);
    ddp_recorder_event(
        session->env->recorder, DDP_EVENT_COLL_TAKEN, session->group.run_work.seq,
        ddp_recorder_hash(session->env->recorder, output, size_bytes, ddp_hash_text(salt)), 0, 0,
        0);
}

/* Says who has not come, all of them. */
static ddp_status run_monitored(struct harness_session *session)
{
    const uint32_t ranks = session->plan->job.ranks;
    bool *is_missing = ddp_mem_array(session->env->mem, ranks, sizeof is_missing[0]);
    struct ddp_text text;
    ddp_status status;
    bool is_any = false;

    if (is_missing == NULL) {
        return DDP_E_NOMEM;
    }
    status =
        ddp_group_monitored_barrier(&session->group, session->plan->job.timeout_ns, is_missing);
    if (status < DDP_OK) {
        ddp_text_init(&text, session->env->mem);
        for (uint32_t r = 0; r < ranks; r++) {
            if (is_missing[r]) {
                ddp_text_add(&text, "%s%u", is_any ? ", " : "", r);
                is_any = true;
            }
        }
        (void)ddp_err_set(session->err, status, "monitored barrier: %s; not there: ranks %s",
                          ddp_status_text(status), ddp_text_str(&text));
        ddp_text_fini(&text);
    }
    ddp_mem_free(session->env->mem, is_missing);
    return status;
}

/* A broadcast has one buffer; all other kinds are not in place. */
static ddp_status run_one(struct harness_session *session, uint32_t step, uint32_t index)
{
    struct ddp_mem *mem = session->env->mem;
    const uint32_t ranks = session->plan->job.ranks, rank = session->env->rank;
    struct harness_posted posted;
    size_t elem_bytes, input_count, output_count;
    void *input, *output;
    ddp_status status;

    DDP_TRY(harness_posted_parse(session->plan->job.posts.items[index], &posted, session->err));
    if (posted.is_monitored) {
        return run_monitored(session);
    }
    if (posted.kind == DDP_COLL_BARRIER) {
        return post(session, &posted, index, NULL, NULL);
    }
    elem_bytes = ddp_dtype_size_bytes(posted.dtype);
    input_count = posted.elem_count * ddp_coll_input_blocks(posted.kind, ranks);
    /* As much as of the root, which a fault may make it. */
    output_count = posted.elem_count * ddp_coll_output_blocks(posted.kind, ranks, true);
    input = ddp_mem_array(mem, input_count, elem_bytes);
    output =
        posted.kind == DDP_COLL_BROADCAST ? input : ddp_mem_array(mem, output_count, elem_bytes);
    status = input == NULL || output == NULL ? DDP_E_NOMEM : DDP_OK;
    if (status == DDP_OK && (posted.kind != DDP_COLL_BROADCAST || rank == posted.root)) {
        harness_posted_fill(&posted, session->plan->job.seed, step, index, rank, input_count,
                            input);
    }
    if (status == DDP_OK) {
        status = post(session, &posted, index, input, output);
    }
    if (status == DDP_OK) {
        record_taken(session, &posted, index, output);
    }
    if (output != input) {
        ddp_mem_free(mem, output);
    }
    ddp_mem_free(mem, input);
    return status;
}

ddp_status harness_session_post(struct harness_session *session, uint32_t step)
{
    if (session->plan->job.posts.count > 0) {
        harness_session_phase(session, DDP_PHASE_REDUCE);
    }
    for (uint32_t i = 0; i < session->plan->job.posts.count; i++) {
        DDP_TRY(run_one(session, step, i));
    }
    return DDP_OK;
}
