/* Purpose: one tensor of a collective that is no bucket's plain all-reduce, against what a rank
 * recorded of it.
 * Idea: as for buckets: what differs is noted, and judging goes on from what was recorded. */
#include "harness/emulation/round.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"

/* The rank's post of that round; NULL: none. */
static const struct harness_trace_event *find_post(const struct harness_emulation *e,
                                                   const struct harness_round *round, uint32_t rank)
{
    size_t count = 0;
    uint32_t number = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_COLL_POST, round->step, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_op op = ddp_event_op_unpack(list[i]->entry.arg[1]);

        if (op.role == round->role && op.index == round->index && number++ == round->number) {
            /* Another shape than the planned one is a finding of the program oracle. */
            return op.kind == round->kind && op.dtype == round->dtype &&
                           list[i]->entry.arg[2] == round->elem_count
                       ? list[i]
                       : NULL;
        }
    }
    return NULL;
}

/* Its hash; 0: there is none. */
static uint64_t recorded_hash(const struct harness_emulation *e, uint32_t rank,
                              const struct harness_trace_event *post, enum ddp_event event)
{
    const struct harness_trace_event *done;

    if (event == DDP_EVENT_COLL_POST) {
        return post->entry.arg[4];
    }
    done = harness_index_with_seq(&e->index, rank, event, post->entry.arg[0]);
    return done != NULL && done->entry.arg[1] == post->entry.arg[1] &&
                   harness_index_status(done->entry.arg[3]) == DDP_OK
               ? done->entry.arg[4]
               : 0;
}

ddp_status harness_round_rebase(struct harness_emulation *e, const struct harness_round *round,
                                uint32_t rank, enum ddp_event event,
                                const struct harness_tensor *tensor, bool *inout_known)
{
    const struct harness_trace_event *post =
        e->is_judging && harness_emulation_has_model(e, rank) ? find_post(e, round, rank) : NULL;
    struct harness_deviation deviation = {
        .rank = rank, .bucket = round->bucket, .param = round->param, .slot = -1};
    const void *found;
    uint64_t salt;
    char name[48];

    deviation.got = post != NULL ? recorded_hash(e, rank, post, event) : 0;
    if (deviation.got == 0) {
        return DDP_OK;
    }
    (void)snprintf(name, sizeof(name), "%s/%u", ddp_coll_role_name(round->role), round->index);
    salt = ddp_hash_text(name);
    deviation.seq = post->entry.arg[0];
    deviation.expected = ddp_hash_tensor(tensor->data, tensor->size_bytes, salt, NULL);
    if (deviation.got == deviation.expected) {
        *inout_known = true;
        return DDP_OK;
    }
    found = harness_kept_find(e->input->kept, deviation.got, tensor->size_bytes, salt);
    if (found == NULL) {
        harness_hashes_add(&e->wanted, deviation.got);
        e->unknown_from = e->unknown_from < 0 ? (int64_t)round->step : e->unknown_from;
    } else if (*inout_known) {
        DDP_TRY(round->describe(e, round, rank, tensor, found, &deviation.what));
    }
    if (*inout_known && !deviation.what.is_same) {
        harness_compare_note(e, &deviation);
    }
    if (found != NULL) {
        memcpy(tensor->data, found, tensor->size_bytes);
    }
    *inout_known = found != NULL;
    return DDP_OK;
}
