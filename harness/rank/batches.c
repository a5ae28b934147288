/* The judge derives the same batches from the plan, with code of its own. */
#include "harness/rank/batches.h"

/* The share of an epoch, of which an earlier run used `first` entries. share has room for more. */
static ddp_status deal(struct harness_batches *batches, uint64_t epoch, size_t first)
{
    batches->is_order_old = batches->is_order_old && batches->epoch == epoch;
    batches->epoch = epoch;
    epoch = batches->is_order_old ? batches->order : epoch;
    if (batches->is_dealt && batches->sampler.first == first &&
        (batches->order == epoch || !batches->sampler.is_shuffled)) {
        return DDP_OK;
    }
    batches->sampler.first = first;
    batches->share_count = ddp_sampler_count(&batches->sampler);
    DDP_ASSERT(batches->share_count <= batches->whole_count);
    DDP_TRY(ddp_sampler_deal(&batches->sampler, epoch, batches->list, batches->share));
    batches->order = epoch;
    batches->is_dealt = true;
    return DDP_OK;
}

ddp_status harness_batches_init(struct harness_batches *batches, struct ddp_mem *mem,
                                const struct ddp_sampler_config *sampler, size_t row_count,
                                bool is_one_epoch)
{
    *batches = (struct harness_batches){
        .mem = mem, .sampler = *sampler, .row_count = row_count, .is_one_epoch = is_one_epoch};
    if (row_count == 0 || sampler->rank >= sampler->world_size) {
        return DDP_E_INVALID;
    }
    batches->whole_count = ddp_sampler_count(sampler);
    batches->share = ddp_mem_array(mem, batches->whole_count, sizeof batches->share[0]);
    batches->list =
        ddp_mem_array(mem, sampler->is_shuffled ? sampler->sample_count : 0, sizeof *batches->list);
    return batches->share == NULL || batches->list == NULL ? DDP_E_NOMEM : deal(batches, 0, 0);
}

void harness_batches_fini(struct harness_batches *batches)
{
    if (batches->mem != NULL) {
        ddp_mem_free(batches->mem, batches->share);
        ddp_mem_free(batches->mem, batches->list);
    }
    *batches = (struct harness_batches){0};
}

ddp_status harness_batches_go_on(struct harness_batches *batches, uint64_t index,
                                 const struct ddp_sampler_state *state)
{
    if (state->used >= batches->sampler.sample_count || batches->sampler.shard_size != NULL) {
        return DDP_E_INVALID;
    }
    batches->start_index = index;
    batches->start = *state;
    return DDP_OK;
}

static size_t batches_of(const struct harness_batches *batches, size_t sample_count)
{
    return (sample_count + batches->row_count - 1) / batches->row_count;
}

/* Where a micro-batch stands. */
struct place {
    uint64_t epoch, number; /* in that epoch, of those that this run has of it */
    size_t used;            /* entries of the epoch's list that an earlier run used */
};

/* An epoch has a batch. */
static struct place place_of(const struct harness_batches *batches, uint64_t index)
{
    const bool is_going_on = batches->start_index > 0 && index >= batches->start_index;
    const size_t whole = batches_of(batches, batches->whole_count);
    struct ddp_sampler_config sampler = batches->sampler;
    size_t rest;

    DDP_ASSERT(whole > 0);
    if (!is_going_on) {
        return (struct place){.epoch = index / whole, .number = index % whole};
    }
    index -= batches->start_index;
    sampler.first = batches->start.used;
    rest = batches_of(batches, ddp_sampler_count(&sampler));
    if (index < rest) {
        return (struct place){batches->start.epoch, index, batches->start.used};
    }
    return (struct place){.epoch = batches->start.epoch + 1 + (index - rest) / whole,
                          .number = (index - rest) % whole};
}

struct ddp_sampler_state harness_batches_state(const struct harness_batches *batches,
                                               uint64_t index)
{
    struct ddp_sampler_config sampler = batches->sampler;
    struct place place;

    if (batches->whole_count == 0) {
        return (struct ddp_sampler_state){0};
    }
    place = place_of(batches, index);
    sampler.first = place.used;
    return ddp_sampler_state(&sampler, place.epoch, place.number * batches->row_count);
}

bool harness_batches_standing(const struct harness_batches *batches, uint64_t index,
                              struct ddp_sampler_state *out_begin, uint64_t *out_number)
{
    struct place place;

    if (batches->whole_count == 0) {
        return false;
    }
    place = place_of(batches, index);
    if (batches->is_one_epoch && place.epoch > 0) { /* it has ended: nothing is left to read */
        return false;
    }
    *out_begin = (struct ddp_sampler_state){place.epoch, place.used};
    *out_number = place.number;
    return true;
}

bool harness_batches_begins_epoch(const struct harness_batches *batches, uint64_t index)
{
    return batches->whole_count > 0 && !batches->is_one_epoch &&
           place_of(batches, index).epoch != batches->epoch;
}

void harness_batches_keep_order(struct harness_batches *batches, uint64_t index)
{
    DDP_ASSERT(harness_batches_begins_epoch(batches, index) && batches->is_dealt);
    batches->epoch = place_of(batches, index).epoch;
    batches->is_order_old = true;
}

ddp_status harness_batches_take(struct harness_batches *batches, uint64_t index,
                                uint32_t **out_samples, size_t *out_rows)
{
    const size_t rows = batches->row_count;
    struct place place;
    size_t first;

    *out_samples = batches->share;
    *out_rows = 0;
    if (batches->whole_count == 0 ||
        (batches->is_one_epoch && index >= batches_of(batches, batches->whole_count))) {
        return DDP_OK;
    }
    place = place_of(batches, index);
    DDP_TRY(deal(batches, place.epoch, place.used));
    first = (size_t)place.number * rows;
    if (first >= batches->share_count) {
        return DDP_OK;
    }
    *out_samples = batches->share + first;
    *out_rows = batches->share_count - first < rows ? batches->share_count - first : rows;
    return DDP_OK;
}
