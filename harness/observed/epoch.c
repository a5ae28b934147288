/* Purpose: samples used against samples due, epoch by epoch (ledger.c keeps both).
 * Idea: who used a sample last is kept for every sample, so that one that is used again is found at
 * once, beyond those that pad the last batches. What was never used shows when the epoch has ended
 * on all ranks. Where the program says which samples a rank takes, each one is compared with that.
 */
#include <string.h>

#include "ddpcore/seam/phase.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/observed/internal.h"
#include "harness/watch/analyse.h"

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

    if (stray->is_batch) {
        begin(epoch, HARNESS_VERDICT_DATA_ORDER, stray->step, out, &finding);
        harness_rank_set_add_all(&finding.culprits, &stray->ranks);
        harness_watch_say(&finding, "rank %u got batch %llu of its share, where %llu was due",
                          stray->rank, wide(stray->sample), wide(stray->wanted));
        harness_findings_add(out, &finding);
        epoch->is_wrong = true;
        return;
    }
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

/* Samples that each rank is due in the whole epoch; 0: not the same number for all. */
static uint64_t due_of_all(const struct harness_observed *observed,
                           const struct observed_epoch *epoch)
{
    const uint64_t all = epoch->sample_count + epoch->padded - epoch->dropped;

    return epoch->dropped <= epoch->sample_count && all % observed->watch->world_size == 0
               ? all / observed->watch->world_size
               : 0;
}

/* Has run out of data, or gone on, otherwise than all are due. */
static bool is_deviating(const struct observed_share *share, uint64_t due)
{
    return share->taken > due || (share->is_over && !share->is_broken && share->taken < due);
}

/* A rank has come to its end of the epoch, and another one has gone on behind that: the others need
 * not come to theirs, since they may wait for that rank. */
static void find_ended_early(struct harness_observed *observed, struct observed_epoch *epoch,
                             struct harness_findings *out)
{
    const uint32_t world_size = observed->watch->world_size;
    const uint64_t due = due_of_all(observed, epoch);
    struct observed_camps camps = {.count = 2, .right = 2};
    size_t least = SIZE_MAX;
    size_t most = 0;
    uint32_t deviating = 0;

    for (uint32_t r = 0; r < world_size; r++) {
        const struct observed_share *share = &epoch->shares[r];

        most = share->count > most ? share->count : most;
        least = share->is_over && !share->is_broken && share->count < least ? share->count : least;
        deviating += is_deviating(share, due);
    }
    if (epoch->is_uneven || least >= most) {
        return;
    }
    camps.camp_of = ddp_mem_array(observed->mem, world_size, sizeof *camps.camp_of);
    observed->is_failed = observed->is_failed || camps.camp_of == NULL;
    if (observed->is_failed) {
        return;
    }
    /* Who is not as all are due is to blame; if nobody or everybody is, all are. */
    camps.right = due > 0 && deviating > 0 && deviating < world_size ? 0 : 2;
    for (uint32_t r = 0; r < world_size; r++) {
        const struct observed_share *share = &epoch->shares[r];

        camps.camp_of[r] = !observed->watch->ranks[r].is_attached ? UINT32_MAX
                           : camps.right == 0 ? (uint32_t)is_deviating(share, due)
                                              : (uint32_t)(share->count > least);
    }
    add_uneven(observed, epoch, &camps, HARNESS_VERDICT_DATA_UNEVEN, NULL, out);
    observed_free_camps(observed, &camps);
}

/* All ranks have left the epoch, each by itself. */
static bool has_ended(const struct harness_observed *observed, const struct observed_epoch *epoch)
{
    for (uint32_t r = 0; r < observed->watch->world_size; r++) {
        if (observed->watch->ranks[r].is_attached &&
            (!epoch->shares[r].is_over || epoch->shares[r].is_broken)) {
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
    observed_free_epoch(observed, epoch);
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
    } else {
        find_ended_early(observed, epoch, out);
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
