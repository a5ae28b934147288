/* Writing and judging a history. */
#include "tests/unit/order/order_history.h"

#include <string.h>

#include "tests/ct.h"

void order_history_add(struct order_history *history, enum ddp_event event, uint64_t a0,
                       uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
    const uint64_t args[5] = {a0, a1, a2, a3, a4};
    struct harness_trace_event *added = &history->events[history->count];

    DDP_ASSERT(history->count < HISTORY_EVENTS_MAX);
    memset(added, 0, sizeof *added);
    added->entry.index = history->count + 1;
    added->entry.event = (uint8_t)event;
    added->entry.step = history->step;
    added->entry.phase = history->phase;
    memcpy(added->entry.arg, args, sizeof args);
    history->list[history->count++] = added;
}

void order_history_use(struct order_history *history, uint64_t stream, uint64_t allocation,
                       uint64_t first, uint64_t end, enum ddp_access access)
{
    order_history_add(history, DDP_EVENT_DEVICE_ACCESS, stream, allocation, first, end - first,
                      (uint64_t)access);
}

void order_history_record(struct order_history *history, uint64_t event, uint64_t stream)
{
    order_history_add(history, DDP_EVENT_EVENT_RECORD, event, stream, 0, 0, 0);
}

void order_history_wait(struct order_history *history, uint64_t event, uint64_t stream)
{
    order_history_add(history, DDP_EVENT_EVENT_WAIT, event, stream, 0, 0, 0);
}

void order_history_done(struct order_history *history, uint64_t event)
{
    order_history_add(history, DDP_EVENT_EVENT_DONE, event, 0, 0, 0, 0);
}

void order_history_queued(struct order_history *history, uint64_t seq)
{
    order_history_add(history, DDP_EVENT_COLL_QUEUED, seq, 0, 0, 0, 0);
}

void order_history_waited(struct order_history *history, uint64_t seq)
{
    order_history_add(history, DDP_EVENT_COLL_WAITED, seq, 0, 0, 0, 0);
}

static uint64_t bucket_op(uint32_t bucket)
{
    const struct ddp_event_op op = {DDP_COLL_ALL_REDUCE, DDP_REDOP_SUM, DDP_DTYPE_F32,
                                    DDP_ROLE_BUCKET,     bucket,        0};

    return ddp_event_op_pack(&op);
}

void order_history_post(struct order_history *history, uint64_t seq, uint32_t bucket)
{
    order_history_add(history, DDP_EVENT_COLL_POST, seq, bucket_op(bucket), 16, 1, 0);
}

void order_history_complete(struct order_history *history, uint64_t seq, uint32_t bucket)
{
    order_history_add(history, DDP_EVENT_COLL_DONE, seq, bucket_op(bucket), 16, DDP_OK, 0);
}

bool order_history_is_ordered(struct order_history *history)
{
    static const struct ddp_param params[] = {
        {.name = "fc0.weight"}, {.name = "fc0.bias"}, {.name = "fc1.weight"}, {.name = "fc1.bias"}};
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {{0}};
    ddp_status status;

    CT_CHECK_OK(ddp_mem_pool_create(&pool));
    status = harness_order_check(history->list, history->count, params, 4, ddp_mem_pool_mem(pool),
                                 &history->facts, &err);
    if (status != DDP_OK) {
        CT_FAIL("%s: %s", ddp_status_name(status), err.text);
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    ddp_mem_pool_destroy(pool);
    return status == DDP_OK && !history->facts.disorder.is_set;
}
