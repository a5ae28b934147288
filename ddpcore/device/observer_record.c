/* The observing device's record: which memory is observed, and the events that it writes. */
#include <string.h>

#include "ddpcore/device/observer_state.h"

void ddp_observer_record(const struct ddp_observer *self, enum ddp_event event, uint64_t a0,
                         uint64_t a1, uint64_t a2)
{
    if (self->is_recording) {
        ddp_recorder_event(self->env->recorder, event, a0, a1, a2, 0, 0);
    }
}

/* Index of the first range that ends after address. */
static size_t range_after(const struct ddp_observer *self, uintptr_t address)
{
    size_t low = 0;
    size_t high = self->range_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (self->ranges[middle].end <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct ddp_observed_range *ddp_observer_range_at(const struct ddp_observer *self,
                                                       const void *data)
{
    const uintptr_t address = (uintptr_t)data;
    size_t index = range_after(self, address);

    return index < self->range_count && self->ranges[index].first <= address ? &self->ranges[index]
                                                                             : NULL;
}

ddp_status ddp_observer_reserve_range(struct ddp_observer *self)
{
    struct ddp_observed_range *ranges = ddp_mem_grow(
        self->env->mem, self->ranges, self->range_count, &self->range_capacity, sizeof(*ranges));

    if (ranges == NULL) {
        return DDP_E_NOMEM;
    }
    self->ranges = ranges;
    return DDP_OK;
}

static void remove_ranges(struct ddp_observer *self, size_t first, size_t count)
{
    self->range_count -= count;
    memmove(self->ranges + first, self->ranges + first + count,
            (self->range_count - first) * sizeof(*self->ranges));
}

const struct ddp_observed_range *ddp_observer_add_range(struct ddp_observer *self, const void *data,
                                                        size_t size_bytes, enum ddp_space space)
{
    const uintptr_t first = (uintptr_t)data;
    const uintptr_t end = first + size_bytes;
    const uint64_t allocation = self->allocation_count++;
    size_t index = range_after(self, first);
    size_t stale = 0;

    DDP_ASSERT(self->is_recording && first < end);
    DDP_ASSERT(self->range_count < self->range_capacity); /* reserve_range came first */
    /* Memory from elsewhere that was named is given back without telling the device. */
    while (index + stale < self->range_count && self->ranges[index + stale].first < end) {
        stale++;
    }
    remove_ranges(self, index, stale);
    memmove(self->ranges + index + 1, self->ranges + index,
            (self->range_count - index) * sizeof(*self->ranges));
    self->ranges[index] = (struct ddp_observed_range){first, end, allocation};
    self->range_count++;
    DDP_ASSERT(index + 1 == self->range_count || end <= self->ranges[index + 1].first);
    ddp_observer_record(self, DDP_EVENT_DEVICE_ALLOC, allocation, size_bytes, space);
    return &self->ranges[index];
}

void ddp_observer_remove_range(struct ddp_observer *self, const struct ddp_observed_range *range)
{
    DDP_ASSERT(range >= self->ranges && range < self->ranges + self->range_count);
    ddp_observer_record(self, DDP_EVENT_DEVICE_FREE, range->allocation, 0, 0);
    remove_ranges(self, (size_t)(range - self->ranges), 1);
}

void ddp_observer_work(struct ddp_observer *self, const struct ddp_stream *stream,
                       const struct ddp_operand *operands, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct ddp_observed_range *range;

        if (operands[i].data == NULL || operands[i].size_bytes == 0) {
            continue;
        }
        range = ddp_observer_range_at(self, operands[i].data);
        if (range != NULL) {
            const uintptr_t first = (uintptr_t)operands[i].data;

            /* Whoever reaches beyond an allocation uses memory that is not its own. */
            DDP_ASSERT(operands[i].size_bytes <= range->end - first);
            ddp_recorder_event(self->env->recorder, DDP_EVENT_DEVICE_ACCESS,
                               ddp_observer_stream_number(stream), range->allocation,
                               first - range->first, operands[i].size_bytes, operands[i].access);
        }
    }
}
