/* What ranks report of their samples, epoch by epoch: who used each of them last. */
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

/* --- what ranks report
 * --------------------------------------------------------------------------------------------
 */

static struct observed_epoch *find_epoch(struct harness_observed *observed, uint64_t number,
                                         size_t *out_index)
{
    for (size_t e = 0; e < observed->epoch_count; e++) {
        if (observed->epochs[e].number == number) {
            *out_index = e;
            return &observed->epochs[e];
        }
    }
    return NULL;
}

static struct observed_epoch *add_epoch(struct harness_observed *observed,
                                        const struct guest_entry *entry, size_t *out_index)
{
    struct observed_epoch *epochs =
        ddp_mem_grow(observed->mem, observed->epochs, observed->epoch_count,
                     &observed->epoch_capacity, sizeof *epochs);
    struct observed_epoch *epoch;

    if (epochs == NULL) {
        observed->is_failed = true;
        return NULL;
    }
    observed->epochs = epochs;
    *out_index = observed->epoch_count;
    epoch = &epochs[observed->epoch_count++];
    *epoch =
        (struct observed_epoch){.number = entry->arg[0],
                                .sample_count = entry->arg[1],
                                .padded = entry->arg[2],
                                .dropped = entry->arg[3],
                                .sampler = (uint32_t)(entry->arg[4] & 0xff),
                                .is_uneven = entry->arg[4] >> 8 != 0,
                                .unused = entry->arg[1],
                                .twice = harness_rank_set_in(ddp_mem_pool_mem(observed->pool))};
    epoch->owner = ddp_mem_array(observed->mem, epoch->sample_count, sizeof *epoch->owner);
    epoch->shares =
        ddp_mem_array(observed->mem, observed->watch->world_size, sizeof *epoch->shares);
    observed->is_failed = epoch->owner == NULL || epoch->shares == NULL;
    return observed->is_failed ? NULL : epoch;
}

/* The rank's present epoch ends. */
static void end_share(struct harness_observed *observed, uint32_t rank, bool is_broken)
{
    const size_t index = observed->epoch_of[rank];

    if (index > 0) {
        if (observed->epochs[index - 1].shares != NULL) {
            observed->epochs[index - 1].shares[rank].is_over = true;
            observed->epochs[index - 1].shares[rank].is_broken = is_broken;
        }
        observed->epoch_of[rank] = 0;
    }
}

static void take_epoch(struct harness_observed *observed, uint32_t rank,
                       const struct guest_entry *entry)
{
    size_t index = 0;
    struct observed_epoch *epoch;

    if (entry->arg[1] > OBSERVED_SAMPLES_MAX) {
        observed->is_ledger_strange = true;
        return;
    }
    end_share(observed, rank, false);
    epoch = find_epoch(observed, entry->arg[0], &index);
    epoch = epoch != NULL ? epoch : add_epoch(observed, entry, &index);
    if (epoch == NULL) {
        return;
    }
    if (epoch->shares == NULL || epoch->sample_count != entry->arg[1] ||
        epoch->padded != entry->arg[2] || epoch->dropped != entry->arg[3] ||
        epoch->shares[rank].is_there) {
        observed->is_ledger_strange = true;
        return;
    }
    epoch->shares[rank].is_there = true;
    observed->epoch_of[rank] = index + 1;
}

/* Which sample comes next on the rank, if the program says so. False: it does not. */
static bool due(const struct harness_observed *observed, const struct observed_epoch *epoch,
                uint32_t rank, uint64_t *out)
{
    uint64_t world_size = observed->watch->ranks[rank].world_size;

    world_size = world_size > 0 ? world_size : observed->watch->world_size;
    if (epoch->sampler != DDPROVE_GUEST_STRIDED || epoch->sample_count == 0) {
        return false;
    }
    *out = (epoch->shares[rank].taken * world_size + rank) % epoch->sample_count;
    return true;
}

/* The rank used a sample that is not the one that was due. The first batch of all counts: what
 * follows it may only be shifted. */
static void note_stray(struct harness_observed *observed, struct observed_epoch *epoch,
                       uint32_t rank, uint64_t sample, uint64_t wanted, uint32_t step)
{
    const size_t batch = epoch->shares[rank].count;

    if (!epoch->stray.is_there || batch < epoch->stray.batch) {
        epoch->stray =
            (struct observed_stray){.is_there = true,
                                    .rank = rank,
                                    .step = step,
                                    .sample = sample,
                                    .wanted = wanted,
                                    .batch = batch,
                                    .ranks = harness_rank_set_in(ddp_mem_pool_mem(observed->pool))};
    }
    if (epoch->stray.batch == batch) {
        harness_rank_set_add(&epoch->stray.ranks, rank);
    }
}

static void take_sample(struct harness_observed *observed, struct observed_epoch *epoch,
                        uint32_t rank, uint64_t sample, uint32_t step)
{
    uint64_t wanted = 0;

    if (sample >= epoch->sample_count) {
        observed->is_ledger_strange = true;
        return;
    }
    if (due(observed, epoch, rank, &wanted) && wanted != sample) {
        note_stray(observed, epoch, rank, sample, wanted, step);
    }
    epoch->shares[rank].taken++;
    if (epoch->owner[sample] == 0) {
        epoch->unused--;
        epoch->owner[sample] = rank + 1;
        return;
    }
    epoch->again++;
    harness_rank_set_add(&epoch->twice, rank);
    harness_rank_set_add(&epoch->twice, epoch->owner[sample] - 1);
    if (epoch->again == epoch->padded + 1) {
        epoch->twice_batch = epoch->shares[rank].count;
        epoch->twice_step = step;
        epoch->twice_rank = rank;
        epoch->twice_before = epoch->owner[sample] - 1;
        epoch->twice_sample = sample;
    }
    epoch->owner[sample] = rank + 1;
}

static void take_batch(struct harness_observed *observed, struct observed_epoch *epoch,
                       uint32_t rank, const struct guest_entry *entry)
{
    struct observed_share *share = &epoch->shares[rank];
    struct observed_batch *batches = ddp_mem_grow(observed->mem, share->batches, share->count,
                                                  &share->capacity, sizeof *batches);

    if (batches == NULL) {
        observed->is_failed = true;
        return;
    }
    /* One that comes again is found by its samples. */
    if (entry->arg[1] > share->count + 1 && (!epoch->stray.is_there || epoch->stray.is_batch)) {
        note_stray(observed, epoch, rank, entry->arg[1] - 1, share->count, (uint32_t)entry->place);
        epoch->stray.is_batch = true;
    }
    share->batches = batches;
    batches[share->count++] = (struct observed_batch){(uint32_t)entry->place, entry->arg[0]};
}

void observed_take_ledger(struct harness_observed *observed, uint32_t rank,
                          const struct guest_entry *entry)
{
    const enum guest_event event = (enum guest_event)(entry->place >> 56);
    struct observed_epoch *epoch;

    if (observed->is_failed || observed->is_ledger_strange) {
        return;
    }
    if (event == GUEST_EVENT_EPOCH) {
        take_epoch(observed, rank, entry);
        return;
    }
    if (event == GUEST_EVENT_EPOCH_END) {
        end_share(observed, rank, entry->arg[0] != 0);
        return;
    }
    if (observed->epoch_of[rank] == 0) {
        observed->is_ledger_strange = true; /* samples of no epoch */
        return;
    }
    epoch = &observed->epochs[observed->epoch_of[rank] - 1];
    if (epoch->shares == NULL) {
        observed->is_ledger_strange = true; /* it had ended */
        return;
    }
    if (event == GUEST_EVENT_BATCH) {
        take_batch(observed, epoch, rank, entry);
        return;
    }
    for (uint64_t i = 0; i < entry->arg[0] && i < GUEST_SAMPLES_MAX; i++) {
        if (!observed->is_ledger_strange) {
            take_sample(observed, epoch, rank, entry->arg[1 + i], (uint32_t)entry->place);
        }
    }
}

void observed_free_epoch(const struct harness_observed *observed, struct observed_epoch *epoch)
{
    for (uint32_t r = 0; epoch->shares != NULL && r < observed->watch->world_size; r++) {
        ddp_mem_free(observed->mem, epoch->shares[r].batches);
    }
    ddp_mem_free(observed->mem, epoch->shares);
    ddp_mem_free(observed->mem, epoch->owner);
    epoch->shares = NULL;
    epoch->owner = NULL;
}

void observed_free_ledger(struct harness_observed *observed)
{
    for (size_t e = 0; e < observed->epoch_count; e++) {
        observed_free_epoch(observed, &observed->epochs[e]);
    }
    ddp_mem_free(observed->mem, observed->epochs);
}
