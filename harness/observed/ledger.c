/* Purpose: samples used against samples due, epoch by epoch.
 * Idea: who used a sample last is kept for every sample, so that one that is used again is found at
 * once, beyond those that pad the last batches. What was never used shows when the epoch has ended
 * on all ranks. Where the program says which samples a rank takes, each one is compared with that.
 */
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
static void end_share(struct harness_observed *observed, uint32_t rank)
{
    const size_t index = observed->epoch_of[rank];

    if (index > 0) {
        observed->epochs[index - 1].shares[rank].is_over = true;
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
    end_share(observed, rank);
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
        end_share(observed, rank);
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

static void free_epoch(const struct harness_observed *observed, struct observed_epoch *epoch)
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
        free_epoch(observed, &observed->epochs[e]);
    }
    ddp_mem_free(observed->mem, observed->epochs);
}

/* --- an epoch
 * -----------------------------------------------------------------------------------------------------
 */

static void begin(const struct observed_epoch *epoch, enum harness_verdict verdict, uint32_t step,
                  struct harness_findings *out, struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_LEDGER, HARNESS_MODE_LEDGER);
    finding->step = (int32_t)step;
    finding->phase = DDP_PHASE_DATA;
    harness_watch_say(finding, "epoch %llu: ", (unsigned long long)epoch->number);
}

static unsigned long long wide(uint64_t number)
{
    return number;
}

/* Which sample a rank takes was said. One that is another rank's is used twice. */
static void add_stray(const struct harness_observed *observed, struct observed_epoch *epoch,
                      struct harness_findings *out)
{
    const struct observed_stray *stray = &epoch->stray;
    const uint64_t told = observed->watch->ranks[stray->rank].world_size;
    const uint64_t world_size = told > 0 ? told : observed->watch->world_size;
    const bool is_own = stray->sample % world_size == stray->rank;
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    begin(epoch, is_own ? HARNESS_VERDICT_DATA_ORDER : HARNESS_VERDICT_DATA_DUPLICATED, stray->step,
          out, &finding);
    harness_rank_set_add_all(&finding.culprits, &stray->ranks);
    harness_watch_say(&finding,
                      "rank %s did not use the samples that it was due in step %u; rank "
                      "%u used sample %llu, where %llu was due, %s",
                      harness_rank_set_text(&stray->ranks, ranks), stray->step, stray->rank,
                      wide(stray->sample), wide(stray->wanted),
                      is_own ? "which is its own, out of order" : "which is another rank's");
    harness_findings_add(out, &finding);
    epoch->is_wrong = true;
}

static void add_twice(struct observed_epoch *epoch, struct harness_findings *out)
{
    struct harness_finding finding;

    begin(epoch, HARNESS_VERDICT_DATA_DUPLICATED, epoch->twice_step, out, &finding);
    harness_rank_set_add_all(&finding.culprits, &epoch->twice);
    harness_watch_say(&finding, "rank %u used sample %llu in step %u, after rank %u had",
                      epoch->twice_rank, wide(epoch->twice_sample), epoch->twice_step,
                      epoch->twice_before);
    if (epoch->again > 1) {
        harness_watch_say(&finding, "; %llu samples were used again", wide(epoch->again));
    }
    harness_watch_say(&finding, ", where %llu may be", wide(epoch->padded));
    harness_findings_add(out, &finding);
    epoch->is_wrong = true;
}

/* All ranks have come past this batch, or come no more: who else is wrong in it is known. */
static bool is_past(const struct harness_observed *observed, const struct observed_epoch *epoch,
                    size_t batch)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct harness_watch_rank *rank = &observed->watch->ranks[r];
        const struct observed_share *share = &epoch->shares[r];

        if (rank->is_attached && !rank->is_detached && !share->is_over && share->count <= batch &&
            rank->state == HARNESS_WATCH_RUNNING) {
            return false;
        }
    }
    return true;
}

struct batch_of {
    const struct observed_epoch *epoch;
    size_t at;
};

static bool has_same_size(const void *context, uint32_t a, uint32_t b)
{
    const struct batch_of *the = context;

    return the->epoch->shares[a].batches[the->at].size ==
           the->epoch->shares[b].batches[the->at].size;
}

static bool has_same_count(const void *context, uint32_t a, uint32_t b)
{
    const struct batch_of *the = context;

    return the->epoch->shares[a].count == the->epoch->shares[b].count;
}

/* Batches of all ranks differ in size, or epochs in their number of batches. */
static void add_uneven(const struct harness_observed *observed, struct observed_epoch *epoch,
                       const struct observed_camps *camps, enum harness_verdict verdict,
                       const size_t *at, struct harness_findings *out)
{
    struct harness_finding finding;
    bool is_said = false;

    begin(epoch, verdict, 0, out, &finding);
    observed_blame(observed, camps, &finding);
    for (uint32_t c = 0; c < camps->count; c++) {
        uint32_t r = 0;

        while (camps->camp_of[r] != c) {
            r++;
        }
        if (at != NULL) {
            const struct observed_batch *batch = &epoch->shares[r].batches[*at];

            finding.step = (int32_t)batch->step;
            harness_watch_say(&finding, "%srank %u used %llu samples in step %u",
                              is_said ? ", " : "", r, wide(batch->size), batch->step);
        } else {
            const struct observed_share *share = &epoch->shares[r];

            finding.step = share->count > 0 && (!is_said || share->batches[share->count - 1].step <
                                                                (uint32_t)finding.step)
                               ? (int32_t)share->batches[share->count - 1].step
                               : finding.step;
            harness_watch_say(&finding, "%srank %u used %zu batches", is_said ? ", " : "", r,
                              share->count);
        }
        is_said = true;
    }
    harness_findings_add(out, &finding);
    epoch->is_wrong = true;
}

/* Of batches before this one. */
static void compare_sizes(struct harness_observed *observed, struct observed_epoch *epoch,
                          size_t limit, struct harness_findings *out)
{
    size_t least = limit;
    bool is_some = false;

    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        if (observed->watch->ranks[r].is_attached) {
            least = epoch->shares[r].count < least ? epoch->shares[r].count : least;
            is_some = true;
        }
    }
    for (; is_some && epoch->checked < least && !epoch->is_wrong && !observed->is_failed;
         epoch->checked++) {
        const struct batch_of the = {epoch, epoch->checked};
        struct observed_camps camps;

        if (!epoch->is_uneven) {
            observed->is_failed = !observed_find_camps(observed, has_same_size, &the, &camps);
            if (camps.count > 1) {
                add_uneven(observed, epoch, &camps, HARNESS_VERDICT_DATA_BATCH, &the.at, out);
            }
            observed_free_camps(observed, &camps);
        }
        observed->ledger.judged++;
    }
}

static void add_unused(struct harness_observed *observed, struct observed_epoch *epoch,
                       struct harness_findings *out)
{
    struct harness_finding finding;
    uint64_t first = 0;
    uint32_t step = 0;

    while (epoch->owner[first] != 0) {
        first++;
    }
    begin(epoch, HARNESS_VERDICT_DATA_MISSING, 0, out, &finding);
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        const struct observed_share *share = &epoch->shares[r];

        if (observed->watch->ranks[r].is_attached) {
            harness_rank_set_add(&finding.culprits, r);
        }
        if (share->count > 0 && share->batches[share->count - 1].step > step) {
            step = share->batches[share->count - 1].step;
        }
    }
    finding.step = (int32_t)step;
    harness_watch_say(&finding,
                      "%llu of %llu samples were used by no rank, where %llu may be left "
                      "out; the first one is %llu",
                      wide(epoch->unused), wide(epoch->sample_count), wide(epoch->dropped),
                      wide(first));
    harness_findings_add(out, &finding);
    epoch->is_wrong = true;
}

/* All ranks have left the epoch, each by itself. */
static bool has_ended(const struct harness_observed *observed, const struct observed_epoch *epoch)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        if (observed->watch->ranks[r].is_attached && !epoch->shares[r].is_over) {
            return false;
        }
    }
    return observed_is_complete(observed);
}

static void conclude(struct harness_observed *observed, struct observed_epoch *epoch,
                     struct harness_findings *out)
{
    const struct batch_of the = {epoch, 0};
    struct observed_camps camps;

    if (!epoch->is_uneven) {
        observed->is_failed = !observed_find_camps(observed, has_same_count, &the, &camps);
        if (camps.count > 1) {
            add_uneven(observed, epoch, &camps, HARNESS_VERDICT_DATA_UNEVEN, NULL, out);
        }
        observed_free_camps(observed, &camps);
    }
    if (!epoch->is_wrong && epoch->unused > epoch->dropped) {
        add_unused(observed, epoch, out);
    }
    epoch->is_over = !epoch->is_wrong;
    free_epoch(observed, epoch);
}

static void judge_epoch(struct harness_observed *observed, struct observed_epoch *epoch,
                        struct harness_findings *out)
{
    const bool is_stray = epoch->stray.is_there;
    const bool is_twice = epoch->again > epoch->padded;
    const size_t limit = is_stray ? epoch->stray.batch : is_twice ? epoch->twice_batch : SIZE_MAX;

    /* A batch that is too short shifts those behind it. */
    compare_sizes(observed, epoch, limit, out);
    if (epoch->is_wrong) {
        return;
    }
    if (is_stray || is_twice) {
        if (is_past(observed, epoch, limit)) {
            if (is_stray) {
                add_stray(observed, epoch, out);
            } else {
                add_twice(epoch, out);
            }
        }
    } else if (has_ended(observed, epoch)) {
        conclude(observed, epoch, out);
    }
}

void observed_judge_ledger(struct harness_observed *observed, struct harness_findings *out)
{
    for (size_t e = 0; e < observed->epoch_count; e++) {
        struct observed_epoch *epoch = &observed->epochs[e];

        if (!epoch->is_wrong && !epoch->is_over && !observed->is_failed &&
            !observed->is_ledger_strange) {
            judge_epoch(observed, epoch, out);
        }
    }
}
