/* Purpose: what the hook powersgd keeps from pass to pass, of each rank; and what a checkpoint
 * holds of it: the errors of all ranks, which rank 0 gathers, and rank 0's Q. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/lossy.h"

float *harness_powersgd_error(const struct harness_emulation *e, uint32_t rank, size_t param)
{
    return harness_layout_at(&e->params, e->powersgd.error, rank, param).data;
}

float *harness_powersgd_q(const struct harness_emulation *e, uint32_t rank, size_t param)
{
    return e->powersgd.q + rank * e->powersgd.q_count + e->powersgd.q_first[param];
}

static size_t q_count_of(const struct harness_emulation *e, size_t param)
{
    size_t rows;
    size_t columns;
    const size_t rank =
        harness_hook_matrix(&e->input->plan->job, &e->input->params[param], &rows, &columns);

    return columns * rank;
}

ddp_status harness_powersgd_create(struct harness_emulation *e)
{
    struct harness_powersgd *state = &e->powersgd;

    if (e->input->plan->job.hook != HARNESS_HOOK_POWERSGD) {
        return DDP_OK;
    }
    state->q_first = harness_emulation_alloc(e, e->params.count + 1, sizeof(*state->q_first));
    for (size_t p = 0; state->q_first != NULL && p < e->params.count; p++) {
        state->q_first[p] = state->q_count;
        state->q_count += q_count_of(e, p);
    }
    state->error = harness_emulation_alloc(e, e->world, e->params.size_bytes);
    state->q = harness_emulation_alloc(e, e->world * state->q_count + 1, sizeof(*state->q));
    state->is_unknown = harness_emulation_alloc(e, e->world * e->params.count, sizeof(bool));
    state->gathered = harness_emulation_alloc(e, e->world, e->params.size_bytes);
    state->saved_error = harness_emulation_alloc(e, e->world, e->params.size_bytes);
    state->saved_q = harness_emulation_alloc(e, state->q_count + 1, sizeof(*state->q));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

/* All ranks' error of a parameter, in a block of such. */
static struct harness_tensor errors_at(const struct harness_emulation *e, float *block,
                                       size_t param)
{
    struct harness_tensor out = harness_layout_at(&e->params, block, 0, param);

    out.data = (char *)block + e->world * (size_t)((char *)out.data - (char *)block);
    out.elem_count *= e->world;
    out.size_bytes *= e->world;
    return out;
}

/* What each rank sends, into its place in `gathered`; whether all of it is known. */
static ddp_status send_errors(struct harness_emulation *e, const struct harness_round *round,
                              bool *out_is_known)
{
    const size_t param = (size_t)round->param;
    char *place = errors_at(e, e->powersgd.gathered, param).data;

    *out_is_known = true;
    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_tensor own =
            harness_layout_at(&e->params, e->powersgd.error, r, param);
        const struct harness_tensor sent = {own.dtype, own.elem_count, own.size_bytes,
                                            place + r * own.size_bytes};
        bool is_known = !e->powersgd.is_unknown[r * e->params.count + param];

        memcpy(sent.data, own.data, own.size_bytes);
        DDP_TRY(harness_round_rebase(e, round, r, DDP_EVENT_COLL_POST, &sent, &is_known));
        *out_is_known = *out_is_known && is_known;
    }
    return DDP_OK;
}

/* Each rank gets the same; what rank 0 got is what its checkpoint holds. */
static ddp_status get_errors(struct harness_emulation *e, const struct harness_round *round,
                             bool is_sent, void *got)
{
    const struct harness_tensor all = errors_at(e, e->powersgd.gathered, (size_t)round->param);
    const struct harness_tensor own = {all.dtype, all.elem_count, all.size_bytes, got};

    for (uint32_t r = e->world; r-- > 0;) {
        bool is_known = is_sent;

        memcpy(got, all.data, all.size_bytes);
        DDP_TRY(harness_round_rebase(e, round, r, DDP_EVENT_COLL_DONE, &own, &is_known));
    }
    memcpy(all.data, got, all.size_bytes);
    return DDP_OK;
}

ddp_status harness_powersgd_gather(struct harness_emulation *e, uint32_t step)
{
    void *got = NULL;
    ddp_status status = DDP_OK;

    if (!harness_program_is_hook_gathered(&e->input->plan->job, (uint64_t)step + 1)) {
        return DDP_OK;
    }
    got = ddp_mem_array(e->mem, e->world * e->params.size_bytes + 1, 1);
    if (got == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t p = 0; status == DDP_OK && p < e->params.count; p++) {
        const struct harness_hook_round planned = {DDP_COLL_ALL_GATHER, DDP_DTYPE_F32,
                                                   e->params.items[p].elem_count};
        struct harness_round round =
            harness_lossy_round(step, e->bucket_of[p], 0, &planned, "the error that it keeps");
        bool is_sent;

        round.role = DDP_ROLE_HOOK_STATE;
        round.index = (uint32_t)(1 + 2 * p);
        round.param = (int32_t)p;
        status = send_errors(e, &round, &is_sent);
        harness_compare_close(e, HARNESS_STAGE_INPUT, step);
        if (status == DDP_OK) {
            status = get_errors(e, &round, is_sent, got);
        }
        harness_compare_close(e, HARNESS_STAGE_OUTPUT, step);
    }
    ddp_mem_free(e->mem, got);
    return status;
}

void harness_powersgd_snapshot(struct harness_emulation *e)
{
    struct harness_powersgd *state = &e->powersgd;

    if (state->error != NULL) {
        memcpy(state->saved_error, state->gathered, e->world * e->params.size_bytes);
        memcpy(state->saved_q, state->q, state->q_count * sizeof(*state->q));
    }
}

size_t harness_emulation_hook_state_count(const struct harness_emulation *e)
{
    const struct harness_job *job = &e->input->plan->job;

    return job->hook == HARNESS_HOOK_LOCAL_SGD  ? 1
           : job->hook == HARNESS_HOOK_POWERSGD ? 1 + 2 * e->params.count
                                                : 0;
}

void harness_emulation_hook_state(const struct harness_emulation *e, size_t i, char *key,
                                  size_t key_bytes, struct harness_tensor *out)
{
    const size_t param = (i - 1) / 2;
    size_t count;

    DDP_ASSERT(i < harness_emulation_hook_state_count(e));
    if (i == 0) {
        const bool is_local = e->input->plan->job.hook == HARNESS_HOOK_LOCAL_SGD;

        (void)snprintf(key, key_bytes, "hook.%s.iteration", is_local ? "local_sgd" : "powersgd");
        *out = (struct harness_tensor){DDP_DTYPE_I64, 1, sizeof(uint64_t),
                                       (void *)(uintptr_t)&e->snapshot.passes};
        return;
    }
    (void)snprintf(key, key_bytes, "hook.powersgd.%s.%s", i % 2 == 1 ? "error" : "q",
                   e->params.items[param].name);
    if (i % 2 == 1) {
        *out = e->input->plan->job.powersgd_error_feedback
                   ? errors_at(e, e->powersgd.saved_error, param)
                   : harness_layout_at(&e->params, e->powersgd.saved_error, 0, param);
        return;
    }
    count = q_count_of(e, param);
    *out = (struct harness_tensor){DDP_DTYPE_F32, count, count * sizeof(float),
                                   e->powersgd.saved_q + e->powersgd.q_first[param]};
}
