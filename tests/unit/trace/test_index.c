/* The index: events of a rank by kind, by step and by sequence number. */
#include "harness/trace/index.h"
#include "tests/ct.h"

static void add_event(struct harness_trace *trace, uint32_t rank, enum ddp_event event,
                      uint32_t step, uint64_t subject)
{
    struct ddp_event_entry ring[1] = {{.index = 1,
                                       .time_ns = trace->event_count + 1,
                                       .step = step,
                                       .event = (uint8_t)event,
                                       .arg = {subject}}};

    CT_CHECK_OK(harness_trace_add_ring(trace, rank, ring, 1, 1));
}

/* Steps 1, 1, 3 of rank 0; rank 1 in between must not be found for rank 0. */
CT_TEST(index, finds_the_events_of_a_step)
{
    struct harness_trace trace;
    struct harness_index index;
    const struct harness_trace_event *const *list;
    size_t count = 9;

    harness_trace_init(&trace, ddp_mem_system(), 2, "sim");
    add_event(&trace, 0, DDP_EVENT_LOSS, 1, 10);
    add_event(&trace, 0, DDP_EVENT_LOSS, 1, 11);
    add_event(&trace, 1, DDP_EVENT_LOSS, 2, 20);
    add_event(&trace, 0, DDP_EVENT_LOSS, 3, 30);
    CT_REQUIRE_OK(harness_index_build(ddp_mem_system(), &trace, &index));
    list = harness_index_in_step(&index, 0, DDP_EVENT_LOSS, 1, &count);
    CT_CHECK_EQ_U64(count, 2);
    CT_CHECK(list[0]->entry.arg[0] == 10 && list[1]->entry.arg[0] == 11);
    (void)harness_index_in_step(&index, 0, DDP_EVENT_LOSS, 0, &count);
    CT_CHECK_EQ_U64(count, 0);
    (void)harness_index_in_step(&index, 0, DDP_EVENT_LOSS, 2, &count);
    CT_CHECK_EQ_U64(count, 0);
    list = harness_index_in_step(&index, 0, DDP_EVENT_LOSS, 3, &count);
    CT_CHECK(count == 1 && list[0]->entry.arg[0] == 30);
    (void)harness_index_in_step(&index, 0, DDP_EVENT_LOSS, UINT32_MAX, &count);
    CT_CHECK_EQ_U64(count, 0);
    harness_index_fini(&index);
    harness_trace_fini(&trace);
}

CT_TEST(index, finds_a_collective_by_its_number)
{
    static const uint64_t seqs[] = {5, 6, 1, 2}; /* as a rank looked for their ends */
    struct harness_trace trace;
    struct harness_index index;

    harness_trace_init(&trace, ddp_mem_system(), 1, "sim");
    for (size_t i = 0; i < 4; i++) {
        add_event(&trace, 0, DDP_EVENT_COLL_DONE, 0, seqs[i]);
    }
    CT_REQUIRE_OK(harness_index_build(ddp_mem_system(), &trace, &index));
    for (size_t i = 0; i < 4; i++) {
        const struct harness_trace_event *found =
            harness_index_with_seq(&index, 0, DDP_EVENT_COLL_DONE, seqs[i]);

        CT_REQUIRE(found != NULL);
        CT_CHECK_EQ_U64(found->entry.arg[0], seqs[i]);
    }
    CT_CHECK(harness_index_with_seq(&index, 0, DDP_EVENT_COLL_DONE, 0) == NULL);
    CT_CHECK(harness_index_with_seq(&index, 0, DDP_EVENT_COLL_DONE, 3) == NULL);
    CT_CHECK(harness_index_with_seq(&index, 0, DDP_EVENT_COLL_DONE, 7) == NULL);
    CT_CHECK(harness_index_with_seq(&index, 0, DDP_EVENT_COLL_POST, 1) == NULL);
    harness_index_fini(&index);
    harness_trace_fini(&trace);
}
