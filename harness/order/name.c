/* Purpose: tell which bucket, gradient, parameter or buffer lies at some bytes. */
#include "harness/order/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for " and 4294967296 more)". */
enum { TAIL_BYTES = 24 };

static int compare_ranges(const void *left, const void *right)
{
    const struct harness_named_range *a = left;
    const struct harness_named_range *b = right;

    if (a->allocation != b->allocation) {
        return a->allocation < b->allocation ? -1 : 1;
    }
    return a->first < b->first ? -1 : a->first > b->first;
}

static int compare_map(const void *left, const void *right)
{
    const struct harness_bucket_param *a = left;
    const struct harness_bucket_param *b = right;

    if (a->param != b->param) {
        return a->param < b->param ? -1 : 1;
    }
    return a->place < b->place ? -1 : a->place > b->place;
}

static int compare_buckets(const void *left, const void *right)
{
    const struct harness_bucket_index *a = left;
    const struct harness_bucket_index *b = right;

    if (a->index != b->index) {
        return a->index < b->index ? -1 : 1;
    }
    return a->range < b->range ? -1 : a->range > b->range;
}

static void add_range(struct harness_order_names *names, const uint64_t arg[5])
{
    struct harness_named_range range = {arg[2], arg[3], arg[3] + arg[4], arg[1]};

    if (arg[0] < DDP_RANGE_COUNT && range.end > range.first) {
        names->ranges[arg[0]][names->range_count[arg[0]]++] = range;
    }
}

static void collect(struct harness_order_names *names,
                    const struct harness_trace_event *const *events, size_t event_count)
{
    size_t kept = 0;

    for (size_t i = 0; i < event_count; i++) {
        const struct ddp_event_entry *entry = &events[i]->entry;

        if (entry->event == DDP_EVENT_DEVICE_NAME) {
            add_range(names, entry->arg);
        } else if (entry->event == DDP_EVENT_BUCKET_PARAM) {
            names->map[names->map_count++] =
                (struct harness_bucket_param){entry->arg[1], entry->arg[0], i};
        }
    }
    for (unsigned kind = 0; kind < DDP_RANGE_COUNT; kind++) {
        qsort(names->ranges[kind], names->range_count[kind], sizeof(*names->ranges[kind]),
              compare_ranges);
    }
    for (size_t b = 0; b < names->range_count[DDP_RANGE_BUCKET]; b++) {
        names->buckets[b] =
            (struct harness_bucket_index){names->ranges[DDP_RANGE_BUCKET][b].index, b};
    }
    qsort(names->buckets, names->range_count[DDP_RANGE_BUCKET], sizeof(*names->buckets),
          compare_buckets);
    qsort(names->map, names->map_count, sizeof(*names->map), compare_map);
    for (size_t i = 0; i < names->map_count; i++) {
        kept -= kept > 0 && names->map[kept - 1].param == names->map[i].param ? 1 : 0;
        names->map[kept++] = names->map[i];
    }
    DDP_ASSERT(kept <= names->map_count);
    names->map_count = kept;
}

ddp_status harness_order_names_init(struct harness_order_names *names, struct ddp_mem *mem,
                                    const struct harness_trace_event *const *events,
                                    size_t event_count, const struct ddp_param *params,
                                    size_t param_count)
{
    size_t count[DDP_RANGE_COUNT] = {0};
    size_t map_count = 0;
    bool is_failed = false;

    *names = (struct harness_order_names){
        .mem = mem, .params = params, .param_count = params != NULL ? param_count : 0};
    for (size_t i = 0; i < event_count; i++) {
        const struct ddp_event_entry *entry = &events[i]->entry;

        if (entry->event == DDP_EVENT_DEVICE_NAME && entry->arg[0] < DDP_RANGE_COUNT) {
            count[entry->arg[0]]++;
        }
        map_count += entry->event == DDP_EVENT_BUCKET_PARAM;
    }
    for (unsigned kind = 0; kind < DDP_RANGE_COUNT; kind++) {
        names->ranges[kind] = ddp_mem_array(mem, count[kind], sizeof(*names->ranges[kind]));
        is_failed = is_failed || names->ranges[kind] == NULL;
    }
    names->buckets = ddp_mem_array(mem, count[DDP_RANGE_BUCKET], sizeof(*names->buckets));
    names->map = ddp_mem_array(mem, map_count, sizeof(*names->map));
    if (is_failed || names->buckets == NULL || names->map == NULL) {
        harness_order_names_fini(names);
        return DDP_E_NOMEM;
    }
    collect(names, events, event_count);
    return DDP_OK;
}

void harness_order_names_fini(struct harness_order_names *names)
{
    if (names->mem != NULL) {
        for (unsigned kind = 0; kind < DDP_RANGE_COUNT; kind++) {
            ddp_mem_free(names->mem, names->ranges[kind]);
        }
        ddp_mem_free(names->mem, names->buckets);
        ddp_mem_free(names->mem, names->map);
    }
    *names = (struct harness_order_names){0};
}

size_t harness_order_names_next(const struct harness_order_names *names, enum ddp_range_kind kind,
                                uint64_t allocation, uint64_t first, uint64_t end, size_t *cursor)
{
    const struct harness_named_range *ranges = names->ranges[kind];
    size_t low = *cursor;
    size_t high = names->range_count[kind];

    DDP_ASSERT(low <= high && first < end);
    while (low < high) { /* the first that ends behind `first` */
        size_t middle = low + (high - low) / 2;

        if (ranges[middle].allocation < allocation ||
            (ranges[middle].allocation == allocation && ranges[middle].end <= first)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *cursor = low;
    if (low == names->range_count[kind] || ranges[low].allocation != allocation ||
        ranges[low].first >= end) {
        return HARNESS_NOT_NAMED;
    }
    *cursor = low + 1;
    return low;
}

size_t harness_order_names_of_bucket(const struct harness_order_names *names, uint64_t bucket,
                                     size_t *cursor)
{
    size_t low = *cursor;
    size_t high = names->range_count[DDP_RANGE_BUCKET];

    DDP_ASSERT(low <= high + 1); /* it may have been left behind the last one */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (names->buckets[middle].index < bucket) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *cursor = low + 1;
    return low < names->range_count[DDP_RANGE_BUCKET] && names->buckets[low].index == bucket
               ? names->buckets[low].range
               : HARNESS_NOT_NAMED;
}

bool harness_order_names_bucket(const struct harness_order_names *names, uint64_t param,
                                uint64_t *out)
{
    size_t low = 0;
    size_t high = names->map_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (names->map[middle].param < param) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == names->map_count || names->map[low].param != param) {
        return false;
    }
    *out = names->map[low].bucket;
    return true;
}

static void param_name(const struct harness_order_names *names, uint64_t param, char *text,
                       size_t size_bytes)
{
    if (param < names->param_count) {
        (void)snprintf(text, size_bytes, "%.100s", names->params[param].name);
    } else {
        (void)snprintf(text, size_bytes, "parameter %llu", (unsigned long long)param);
    }
}

static void describe_bucket(const struct harness_order_names *names, uint64_t bucket, char *text,
                            size_t size_bytes)
{
    size_t used = (size_t)snprintf(text, size_bytes, "bucket %llu", (unsigned long long)bucket);
    size_t shown = 0;
    size_t count = 0;

    for (size_t i = 0; i < names->map_count; i++) {
        char name[128];

        if (names->map[i].bucket != bucket) {
            continue;
        }
        param_name(names, names->map[i].param, name, sizeof(name));
        if (shown == count && used + 2 + strlen(name) + TAIL_BYTES < size_bytes) {
            used += (size_t)snprintf(text + used, size_bytes - used, "%s%s",
                                     shown == 0 ? " (" : ", ", name);
            shown++;
        }
        count++;
    }
    if (count > shown && used < size_bytes) {
        used += (size_t)snprintf(text + used, size_bytes - used, " and %zu more", count - shown);
    }
    if (shown > 0 && used < size_bytes) {
        (void)snprintf(text + used, size_bytes - used, ")");
    }
}

void harness_order_names_describe(const struct harness_order_names *names, enum ddp_range_kind kind,
                                  uint64_t index, char *text, size_t size_bytes)
{
    char name[128];

    param_name(names, index, name, sizeof(name));
    switch (kind) {
    case DDP_RANGE_BUCKET:
        describe_bucket(names, index, text, size_bytes);
        return;
    case DDP_RANGE_GRAD:
        (void)snprintf(text, size_bytes, "the gradient of %s", name);
        return;
    case DDP_RANGE_PARAM:
        (void)snprintf(text, size_bytes, "%s%s", index < names->param_count ? "parameter " : "",
                       name);
        return;
    case DDP_RANGE_BUFFER:
    case DDP_RANGE_COUNT:
        break;
    }
    (void)snprintf(text, size_bytes, "buffer %llu", (unsigned long long)index);
}
