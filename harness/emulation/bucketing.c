/* Purpose: the program's buckets as tensors, before and after they are rebuilt.
 * Idea: values of buckets are only ever those of the present step, so the tables are changed where
 * the program's buckets change, and one piece of memory holds either. */
#include <stdio.h>
#include <string.h>

#include "harness/emulation/internal.h"

static ddp_status make(struct harness_emulation *e, const struct harness_buckets *from,
                       struct harness_bucketing *out)
{
    out->assigned = from->items;
    out->bucket_of = harness_emulation_alloc(e, e->params.count, sizeof(*out->bucket_of));
    out->buckets.items = harness_emulation_alloc(e, from->count, sizeof(*out->buckets.items));
    for (size_t b = 0; b < from->count; b++) {
        const struct harness_bucket *bucket = &from->items[b];
        char *name = harness_emulation_alloc(e, 32, 1);

        if (e->is_out_of_memory) {
            return DDP_E_NOMEM;
        }
        DDP_ASSERT(bucket->param_count > 0);
        (void)snprintf(name, 32, "%s/%zu", ddp_coll_role_name(DDP_ROLE_BUCKET), b);
        harness_layout_add(&out->buckets, name,
                           harness_program_wire(&e->input->plan->job, bucket->dtype),
                           bucket->elem_count);
        for (uint32_t i = 0; i < bucket->param_count; i++) {
            out->bucket_of[bucket->params[i]] = (uint32_t)b;
        }
    }
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

ddp_status harness_emulation_make_bucketings(struct harness_emulation *e)
{
    const struct harness_program *program = e->input->program;

    DDP_TRY(make(e, &program->first, &e->bucketings[0]));
    e->bucketing_count = 1;
    if (program->rebuilt.count > 0) {
        DDP_TRY(make(e, &program->rebuilt, &e->bucketings[1]));
        e->bucketing_count = 2;
    }
    harness_emulation_use_bucketing(e, -1);
    return DDP_OK;
}

size_t harness_emulation_bucket_bytes(const struct harness_emulation *e)
{
    size_t most = 0;

    for (size_t i = 0; i < e->bucketing_count; i++) {
        const size_t own = e->bucketings[i].buckets.size_bytes;

        most = own > most ? own : most;
    }
    return most;
}

const struct harness_bucketing *harness_emulation_bucketing(const struct harness_emulation *e,
                                                            int32_t step)
{
    const struct harness_program *program = e->input->program;

    return &e->bucketings[harness_program_buckets(program, step) == &program->rebuilt ? 1 : 0];
}

/* The run that left the checkpoint rebuilt its buckets, too: after its first step. A restarted run
 * begins with the first ones again, and so rounds sums of one step otherwise than a run that was
 * not interrupted. That is how PyTorch's buckets are, and no state that was lost. */
static const struct harness_bucketing *bucketing_of(const struct harness_emulation *e, int32_t step)
{
    if (e->input->first_trace != NULL && e->bucketing_count > 1 &&
        step < (int32_t)e->input->restored_step) {
        return &e->bucketings[step > 0 ? 1 : 0];
    }
    return harness_emulation_bucketing(e, step);
}

void harness_emulation_use_bucketing(struct harness_emulation *e, int32_t step)
{
    const struct harness_bucketing *bucketing = bucketing_of(e, step);

    if (e->now.bucket_out != NULL && e->assigned != bucketing->assigned) {
        /* Outputs are compared whole: what lies between the new buckets is no value of the old. */
        memset(e->now.bucket_out, 0, e->world * harness_emulation_bucket_bytes(e));
        memset(e->now.expected_out, 0, harness_emulation_bucket_bytes(e));
    }
    e->buckets = bucketing->buckets;
    e->assigned = bucketing->assigned;
    e->bucket_of = bucketing->bucket_of;
}
