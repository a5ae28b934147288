/* Purpose: the samples of each batch by the sampler's rules, written down anew, and the first
 * recorded batch that breaks them. Idea: an epoch is a list of all samples (a permutation, or
 * 0..N-1), continued from its start until the world divides its length; rank r takes entries r, r +
 * world, ... or, with drop_last, the list is cut instead. A run of another world goes on behind the
 * entries that the one before it used. With given shard sizes the list is cut into consecutive
 * shards instead. A batch is the next few entries of a rank. The permutation is the reference's,
 * and not that of the sampler under test. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/internal.h"
#include "harness/trace/taken.h"
#include "reference/permutation.h"

enum { EPOCHS_KEPT = 4 };

/* The samples of an epoch in order. */
struct epoch_list {
    uint32_t *samples; /* [sample_count] */
    uint64_t epoch;
    bool is_listed; /* samples are those of `epoch` */
};

/* The batch that was worked out last. Ranks go through the same epochs one after the other, so
 * a few lists are kept. */
struct expected_batch {
    struct epoch_list epochs[EPOCHS_KEPT];
    uint32_t *samples; /* [rows_max] */
    size_t rows;
};

/* Of an epoch that begins behind its first `used` entries. */
static uint64_t entries_of(const struct ref_shard_config *shard, uint32_t rank, uint64_t used)
{
    uint64_t each = (shard->sample_count - used) / shard->world_size;

    if (shard->shard_size != NULL) {
        return shard->shard_size[rank];
    }
    return shard->drop_last || each * shard->world_size + used == shard->sample_count ? each
                                                                                      : each + 1;
}

static uint64_t batches_of(const struct ref_shard_config *shard, uint32_t rank, uint64_t used)
{
    uint64_t rows = shard->batch_rows[rank];

    DDP_ASSERT(rows > 0);
    return (entries_of(shard, rank, used) + rows - 1) / rows;
}

/* Where a batch stands: the number of its epoch, and within that. */
struct standing {
    uint64_t epoch, number;
    uint64_t used; /* entries of the list before the epoch's first batch of this run */
};

static struct standing standing_of(const struct ref_shard_config *shard, uint32_t rank,
                                   uint64_t index)
{
    const uint64_t whole = batches_of(shard, rank, 0);
    uint64_t behind, rest;

    DDP_ASSERT(whole > 0);
    if (shard->start.index == 0 || index < shard->start.index) {
        return (struct standing){index / whole, index % whole, 0};
    }
    behind = index - shard->start.index;
    rest = batches_of(shard, rank, shard->start.used);
    if (behind < rest) {
        return (struct standing){shard->start.epoch, behind, shard->start.used};
    }
    behind -= rest;
    return (struct standing){shard->start.epoch + 1 + behind / whole, behind % whole, 0};
}

uint64_t harness_emulation_batch_count(const struct harness_emulation *e, uint32_t rank)
{
    return e->shard.is_one_epoch ? batches_of(&e->shard, rank, 0) : UINT64_MAX;
}

uint64_t harness_emulation_due(const struct harness_emulation *e, uint32_t rank)
{
    uint64_t planned = (uint64_t)e->input->plan->job.steps * e->input->job->micro_batches;
    uint64_t own = harness_emulation_batch_count(e, rank);

    return own < planned ? own : planned;
}

ddp_status harness_emulation_count_batches(struct harness_emulation *e)
{
    uint64_t micro_batches = e->input->job->micro_batches;

    e->taken = harness_emulation_alloc(e, e->world, sizeof(*e->taken));
    e->next_own = harness_emulation_alloc(e, e->world, sizeof(*e->next_own));
    for (uint32_t r = 0; e->taken != NULL && r < e->world; r++) {
        e->taken[r] = harness_taken_count(&e->index, r, e->input->restored_step * micro_batches,
                                          micro_batches, harness_emulation_due(e, r));
    }
    return e->next_own != NULL ? DDP_OK : DDP_E_NOMEM;
}

bool harness_emulation_has_batch(const struct harness_emulation *e, uint32_t rank, uint64_t pass)
{
    uint64_t first = (uint64_t)e->input->restored_step * e->input->job->micro_batches;

    return pass < (pass < first ? harness_emulation_due(e, rank) : e->taken[rank]);
}

bool harness_emulation_is_active(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    return harness_emulation_has_batch(e, rank,
                                       ((uint64_t)step + 1) * e->input->job->micro_batches - 1);
}

int64_t harness_emulation_last_active(const struct harness_emulation *e, uint64_t pass)
{
    for (uint32_t r = e->world; r-- > 0;) {
        if (harness_emulation_has_batch(e, r, pass)) {
            return r;
        }
    }
    return -1;
}

enum harness_took harness_emulation_took(const struct harness_emulation *e, uint32_t rank,
                                         uint32_t step)
{
    uint64_t end = ((uint64_t)step + 1) * e->input->job->micro_batches;
    enum harness_took took;

    if (!e->is_judging || step < e->start_step || step >= e->end_step) {
        return HARNESS_TOOK_OWN;
    }
    took = (enum harness_took)e->took[(step - e->start_step) * (size_t)e->world + rank];
    return took == HARNESS_TOOK_OWN && e->taken[rank] < end &&
                   e->taken[rank] < harness_emulation_due(e, rank)
               ? HARNESS_TOOK_OTHER /* fewer */
               : took;
}

static const uint32_t *list_epoch(const struct ref_shard_config *shard, uint64_t epoch,
                                  struct expected_batch *expected)
{
    struct epoch_list *list = &expected->epochs[epoch % EPOCHS_KEPT];

    if (list->is_listed && list->epoch == epoch) {
        return list->samples;
    }
    for (size_t i = 0; i < shard->sample_count; i++) {
        list->samples[i] = (uint32_t)i;
    }
    if (shard->is_shuffled) {
        ref_permutation(shard->seed + epoch, list->samples, shard->sample_count);
    }
    list->epoch = epoch;
    list->is_listed = true;
    return list->samples;
}

/* Batch number `index` of a rank; rows 0 once the data has ended. */
static void expect(const struct ref_shard_config *shard, uint32_t rank, uint64_t index,
                   struct expected_batch *expected)
{
    const uint32_t *list;
    struct standing standing;
    uint64_t first;
    uint64_t start = 0;

    expected->rows = 0;
    if (batches_of(shard, rank, 0) == 0 ||
        (shard->is_one_epoch && index >= batches_of(shard, rank, 0))) {
        return;
    }
    standing = standing_of(shard, rank, index);
    list = list_epoch(shard, standing.epoch, expected);
    for (uint32_t r = 0; shard->shard_size != NULL && r < rank; r++) {
        start += shard->shard_size[r];
    }
    first = standing.number * shard->batch_rows[rank];
    for (uint64_t i = first;
         i < entries_of(shard, rank, standing.used) && expected->rows < shard->batch_rows[rank];
         i++) {
        uint64_t at = shard->shard_size != NULL
                          ? start + i
                          : (i * shard->world_size + rank + standing.used) % shard->sample_count;

        expected->samples[expected->rows++] = list[at];
    }
}

/* A rank's samples of one micro-batch, as recorded. */
struct observed {
    uint32_t step, micro;
    uint32_t *samples;
    size_t rows;
};

static void sort_u32(uint32_t *values, size_t count)
{
    for (size_t i = 1; i < count; i++) { /* a batch is short */
        uint32_t value = values[i];
        size_t j = i;

        for (; j > 0 && values[j - 1] > value; j--) {
            values[j] = values[j - 1];
        }
        values[j] = value;
    }
}

static bool is_same(const uint32_t *a, size_t a_rows, const uint32_t *b, size_t b_rows)
{
    return a_rows == b_rows && (a_rows == 0 || memcmp(a, b, a_rows * sizeof(*a)) == 0);
}

static void set_text(struct harness_batch_difference *out, enum harness_verdict verdict,
                     const char *what)
{
    out->verdict = verdict;
    (void)snprintf(out->text, sizeof(out->text), "rank %u, step %u, micro-batch %u: %s", out->rank,
                   out->step, out->micro, what);
}

/* True if what was seen is another batch than number `here`: of any rank, up to two before or
 * after. */
static bool explain_by_batch(const struct harness_emulation *e, uint64_t here,
                             const struct observed *seen, struct expected_batch *expected,
                             struct harness_batch_difference *out)
{
    char what[128];

    for (uint64_t near = here < 2 ? 0 : here - 2; near <= here + 2; near++) {
        for (uint32_t r = 0; r < e->world; r++) {
            expect(&e->shard, r, near, expected);
            if (!is_same(expected->samples, expected->rows, seen->samples, seen->rows)) {
                continue;
            }
            if (r == out->rank && near > here) {
                (void)snprintf(what, sizeof(what), "batch %llu was left out",
                               (unsigned long long)here);
                set_text(out, HARNESS_VERDICT_DATA_MISSING, what);
            } else {
                (void)snprintf(what, sizeof(what), "batch %llu of rank %u was used again",
                               (unsigned long long)near, r);
                set_text(out, HARNESS_VERDICT_DATA_DUPLICATED, what);
            }
            return true;
        }
    }
    return false;
}

/* True if what was seen is the batch at the same place of an earlier epoch. */
static bool explain_by_epoch(const struct harness_emulation *e, const struct observed *seen,
                             struct expected_batch *expected, struct harness_batch_difference *out)
{
    uint64_t here = (uint64_t)seen->step * e->input->job->micro_batches + seen->micro;
    uint64_t per_epoch = batches_of(&e->shard, out->rank, 0);
    uint64_t epoch;
    char what[128];

    if (e->shard.is_one_epoch || per_epoch == 0) {
        return false;
    }
    epoch = standing_of(&e->shard, out->rank, here).epoch;
    for (uint64_t old = 1; old * per_epoch <= here && old <= epoch; old++) {
        expect(&e->shard, out->rank, here - old * per_epoch, expected);
        if (is_same(expected->samples, expected->rows, seen->samples, seen->rows)) {
            (void)snprintf(what, sizeof(what),
                           "epoch %llu has the order of epoch %llu: the sampler was not told of it",
                           (unsigned long long)epoch, (unsigned long long)(epoch - old));
            set_text(out, HARNESS_VERDICT_DATA_ORDER, what);
            return true;
        }
    }
    return false;
}

static void explain(const struct harness_emulation *e, uint64_t here, struct observed *seen,
                    struct expected_batch *expected, struct harness_batch_difference *out)
{
    if (explain_by_epoch(e, seen, expected, out) ||
        explain_by_batch(e, here, seen, expected, out)) {
        return;
    }
    expect(&e->shard, out->rank, here, expected);
    if (seen->rows != expected->rows) {
        set_text(out, HARNESS_VERDICT_DATA_BATCH, "another number of samples");
        return;
    }
    sort_u32(seen->samples, seen->rows);
    sort_u32(expected->samples, expected->rows);
    if (is_same(expected->samples, expected->rows, seen->samples, seen->rows)) {
        set_text(out, HARNESS_VERDICT_DATA_ORDER, "the right samples in another order");
        return;
    }
    for (size_t i = 1; i < seen->rows; i++) {
        if (seen->samples[i] == seen->samples[i - 1]) {
            set_text(out, HARNESS_VERDICT_DATA_DUPLICATED, "a sample was used twice in a batch");
            return;
        }
    }
    set_text(out, HARNESS_VERDICT_DATA_MISSING, "other samples than the rank's own");
}

/* Samples of the batch event's micro-batch; *cursor walks the rank's sample events. */
static void collect(const struct harness_trace_event *const *list, size_t count, size_t *cursor,
                    struct observed *seen, size_t rows_max)
{
    seen->rows = 0;
    while (*cursor < count && list[*cursor]->entry.step == seen->step &&
           list[*cursor]->entry.micro == seen->micro) {
        if (seen->rows < rows_max) {
            seen->samples[seen->rows++] = (uint32_t)list[*cursor]->entry.arg[0];
        }
        (*cursor)++;
    }
}

/* Recorded batches of one rank, and how they are expected to go on. */
struct walk {
    uint32_t rank;
    size_t rows_max;
    struct observed seen;
    struct expected_batch expected;
    int64_t shift; /* batches that the rank left out (or took again) before */
};

static bool is_expected(const struct harness_emulation *e, struct walk *walk,
                        const struct ddp_event_entry *entry, uint64_t index, bool is_listed)
{
    struct expected_batch *expected = &walk->expected;

    expect(&e->shard, walk->rank, index, expected);
    return entry->arg[0] == expected->rows &&
           entry->arg[1] ==
               ddp_hash_bytes(expected->samples, expected->rows * sizeof(uint32_t), 0) &&
           (!is_listed ||
            is_same(expected->samples, expected->rows, walk->seen.samples, walk->seen.rows));
}

/* Where in the rank's own sequence the batch stands that was seen: places from `here` on; 0: it is
 * not one of those near it. */
static int64_t find_places(const struct harness_emulation *e, struct walk *walk, uint64_t here)
{
    for (int64_t places = -2; places <= 2; places++) {
        if (places == 0 || (places < 0 && here < (uint64_t)-places)) {
            continue;
        }
        expect(&e->shard, walk->rank, here + (uint64_t)places, &walk->expected);
        if (walk->seen.rows > 0 && is_same(walk->expected.samples, walk->expected.rows,
                                           walk->seen.samples, walk->seen.rows)) {
            return places;
        }
    }
    return 0;
}

/* Adds it, unless it goes on with what was wrong with the rank's batch before: batches of another
 * size move all that follow, whatever their own size is. is_left: it was the rank's own, and the
 * rank left some out or took some again: each time is one of its own. */
static ddp_status note_batch(struct harness_emulation *e,
                             const struct harness_batch_difference *new, bool is_left)
{
    struct harness_batch_difference *grown;
    struct harness_batch_difference *last =
        e->batch_count > 0 ? &e->batches[e->batch_count - 1] : NULL;

    if (last != NULL && last->rank == new->rank &&
        ((last->verdict == new->verdict && !is_left) ||
         last->verdict == HARNESS_VERDICT_DATA_BATCH) &&
        new->step <= last->last_step + 1) {
        last->last_step = new->step;
        return DDP_OK;
    }
    grown =
        ddp_mem_grow(e->mem, e->batches, e->batch_count, &e->batch_capacity, sizeof(*e->batches));
    if (grown == NULL) {
        return DDP_E_NOMEM;
    }
    e->batches = grown;
    e->batches[e->batch_count++] = *new;
    return DDP_OK;
}

/* What the rank took in this step was not the sampler's. */
static void mark(struct harness_emulation *e, const struct walk *walk,
                 const struct ddp_event_entry *entry)
{
    const struct observed *seen = &walk->seen;
    bool is_listed =
        seen->rows == entry->arg[0] && seen->rows < walk->rows_max &&
        ddp_hash_bytes(seen->samples, seen->rows * sizeof(uint32_t), 0) == entry->arg[1];
    uint8_t *took;

    for (size_t i = 0; i < seen->rows; i++) {
        is_listed = is_listed && seen->samples[i] < e->shard.sample_count;
    }
    if (entry->step < e->start_step || entry->step >= e->end_step) {
        return;
    }
    took = &e->took[(entry->step - e->start_step) * (size_t)e->world + walk->rank];
    if (*took != HARNESS_TOOK_UNKNOWN) {
        *took = is_listed ? HARNESS_TOOK_OTHER : HARNESS_TOOK_UNKNOWN;
    }
}

/* A batch that is not the one that comes next, which is number `due` of the rank's own. */
static ddp_status compare_other(struct harness_emulation *e, struct walk *walk, uint64_t due,
                                bool is_listed)
{
    struct harness_batch_difference new = {.rank = walk->rank,
                                           .step = walk->seen.step,
                                           .micro = walk->seen.micro,
                                           .last_step = walk->seen.step};
    int64_t places;

    e->next_own[walk->rank] = UINT64_MAX;
    if (!is_listed) {
        set_text(&new, HARNESS_VERDICT_DATA_ORDER, "other samples than the rank's own");
        return note_batch(e, &new, false);
    }
    explain(e, due, &walk->seen, &walk->expected, &new);
    places = new.verdict == HARNESS_VERDICT_DATA_MISSING ||
                     new.verdict == HARNESS_VERDICT_DATA_DUPLICATED
                 ? find_places(e, walk, due)
                 : 0;
    if (places != 0) {
        walk->shift += places;
        e->next_own[walk->rank] = due + (uint64_t)places + 1;
    }
    return note_batch(e, &new, places != 0);
}

static ddp_status compare_rank(struct harness_emulation *e, struct walk *walk)
{
    const struct ref_job *job = e->input->job;
    size_t count = 0;
    size_t sample_count = 0;
    size_t cursor = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, walk->rank, DDP_EVENT_DATA_BATCH, &count);
    const struct harness_trace_event *const *samples =
        harness_index_list(&e->index, walk->rank, DDP_EVENT_DATA_SAMPLE, &sample_count);

    walk->shift = 0;
    e->next_own[walk->rank] = (uint64_t)e->input->restored_step * job->micro_batches;
    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_entry *entry = &list[i]->entry;
        uint64_t here = (uint64_t)entry->step * job->micro_batches + entry->micro;
        uint64_t due =
            walk->shift < 0 && here < (uint64_t)-walk->shift ? 0 : here + (uint64_t)walk->shift;

        walk->seen.step = entry->step;
        walk->seen.micro = entry->micro;
        collect(samples, sample_count, &cursor, &walk->seen, walk->rows_max);
        if (!is_expected(e, walk, entry, here, sample_count > 0)) {
            mark(e, walk, entry);
        }
        /* One batch that was left out moves all that follow. */
        if (is_expected(e, walk, entry, due, sample_count > 0)) {
            e->next_own[walk->rank] = due + 1;
            continue;
        }
        DDP_TRY(compare_other(e, walk, due, sample_count > 0));
    }
    return DDP_OK;
}

ddp_status harness_emulation_compare_batches(struct harness_emulation *e)
{
    const struct ref_shard_config *shard = &e->shard;
    struct walk walk = {.rows_max = 1};
    uint32_t *lists = ddp_mem_array(e->mem, shard->sample_count, EPOCHS_KEPT * sizeof(uint32_t));
    ddp_status status = DDP_E_NOMEM;

    for (uint32_t r = 0; r < e->world; r++) {
        walk.rows_max =
            shard->batch_rows[r] >= walk.rows_max ? shard->batch_rows[r] + 1 : walk.rows_max;
    }
    walk.expected.samples = ddp_mem_array(e->mem, walk.rows_max, sizeof(uint32_t));
    walk.seen.samples = ddp_mem_array(e->mem, walk.rows_max, sizeof(uint32_t));
    if (lists != NULL && walk.expected.samples != NULL && walk.seen.samples != NULL) {
        status = DDP_OK;
    }
    for (size_t i = 0; status == DDP_OK && i < EPOCHS_KEPT; i++) {
        walk.expected.epochs[i].samples = lists + i * shard->sample_count;
    }
    for (walk.rank = 0; status == DDP_OK && walk.rank < e->world; walk.rank++) {
        status = compare_rank(e, &walk);
    }
    ddp_mem_free(e->mem, lists);
    ddp_mem_free(e->mem, walk.expected.samples);
    ddp_mem_free(e->mem, walk.seen.samples);
    return status;
}
