/* Purpose: what the hook powersgd keeps from pass to pass, of each rank; and of rank 0 as a
 * checkpoint holds it. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/lossy.h"

/* Elements of the Q of all matrices in the buckets before `bucket`. */
static size_t q_before(const struct harness_emulation *e, const struct harness_bucket *assigned,
                       size_t bucket)
{
    size_t count = 0;

    for (size_t b = 0; b < bucket; b++) {
        count += harness_powersgd_q_count(e, &assigned[b]);
    }
    return count;
}

size_t harness_powersgd_q_count(const struct harness_emulation *e,
                                const struct harness_bucket *bucket)
{
    size_t count = 0;

    for (uint32_t i = 0; i < bucket->param_count; i++) {
        size_t rows;
        size_t columns;
        const size_t rank = harness_hook_matrix(
            &e->input->plan->job, &e->input->params[bucket->params[i]], &rows, &columns);

        count += columns * rank;
    }
    return count;
}

float *harness_powersgd_q(const struct harness_emulation *e, float *blocks, uint32_t rank,
                          size_t bucket)
{
    return blocks + rank * e->powersgd.q_count + q_before(e, e->assigned, bucket);
}

ddp_status harness_powersgd_create(struct harness_emulation *e)
{
    struct harness_powersgd *state = &e->powersgd;
    const size_t bucket_bytes = harness_emulation_bucket_bytes(e);

    if (e->input->plan->job.hook != HARNESS_HOOK_POWERSGD) {
        return DDP_OK;
    }
    /* The same matrices, however they are divided into buckets. */
    state->q_count = q_before(e, e->assigned, e->buckets.count);
    state->bucket_max = harness_program_bucket_max(e->input->program);
    state->error = harness_emulation_alloc(e, e->world, bucket_bytes);
    state->q = harness_emulation_alloc(e, e->world * state->q_count + 1, sizeof(*state->q));
    state->is_unknown = harness_emulation_alloc(e, e->world * state->bucket_max, sizeof(bool));
    state->saved_error = harness_emulation_alloc(e, 1, bucket_bytes);
    state->saved_q = harness_emulation_alloc(e, state->q_count + 1, sizeof(*state->q));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

void harness_powersgd_snapshot(struct harness_emulation *e)
{
    struct harness_powersgd *state = &e->powersgd;

    if (state->error != NULL) {
        memcpy(state->saved_error, state->error, e->buckets.size_bytes);
        memcpy(state->saved_q, state->q, state->q_count * sizeof(*state->q));
    }
}

size_t harness_emulation_hook_state_count(const struct harness_emulation *e)
{
    const struct harness_job *job = &e->input->plan->job;
    const int32_t last = (int32_t)e->snapshot.steps_done - 1;

    return job->hook == HARNESS_HOOK_LOCAL_SGD ? 1
           : job->hook == HARNESS_HOOK_POWERSGD
               ? 1 + 2 * harness_program_buckets(e->input->program, last)->count
               : 0;
}

void harness_emulation_hook_state(const struct harness_emulation *e, size_t i, char *key,
                                  size_t key_bytes, struct harness_tensor *out)
{
    const struct harness_bucketing *buckets =
        harness_emulation_bucketing(e, (int32_t)e->snapshot.steps_done - 1);
    const size_t bucket = (i - 1) / 2;
    size_t count;

    DDP_ASSERT(i < harness_emulation_hook_state_count(e));
    if (i == 0) {
        const bool is_local = e->input->plan->job.hook == HARNESS_HOOK_LOCAL_SGD;

        (void)snprintf(key, key_bytes, "hook.%s",
                       is_local ? "local_sgd.iteration" : "powersgd.iteration.0");
        *out = (struct harness_tensor){DDP_DTYPE_I64, 1, sizeof(uint64_t),
                                       (void *)(uintptr_t)&e->snapshot.passes};
        return;
    }
    (void)snprintf(key, key_bytes, "hook.powersgd.%s.%zu", i % 2 == 1 ? "error" : "q", bucket);
    if (i % 2 == 1) {
        *out = harness_layout_at(&buckets->buckets, e->powersgd.saved_error, 0, bucket);
        return;
    }
    count = harness_powersgd_q_count(e, &buckets->assigned[bucket]);
    *out = (struct harness_tensor){DDP_DTYPE_F32, count, count * sizeof(float),
                                   e->powersgd.saved_q + q_before(e, buckets->assigned, bucket)};
}
