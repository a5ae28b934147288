/* Algorithms that tests make up: an emit function of ddpcore's language as a source of the lab. */
#ifndef TESTS_UNIT_COLL_MADE_SOURCE_H
#define TESTS_UNIT_COLL_MADE_SOURCE_H

#include "ddpcore/schedule/schedule.h"
#include "harness/coll/coll.h"

struct made_source {
    struct harness_coll_source base;
    void (*emit)(struct ddp_schedule *schedule);
};

/* No _destroy is needed. */
static inline ddp_status made_source_emit(struct harness_coll_source *source,
                                          const struct harness_coll_case *test, uint32_t rank,
                                          struct ddp_text *out, struct ddp_err *err)
{
    struct made_source *made = (struct made_source *)source;
    const struct ddp_schedule_params params = {.kind = source->kind,
                                               .dtype = test->dtype,
                                               .rank = rank,
                                               .size = test->world,
                                               .elem_count = test->elem_count,
                                               .root = test->root,
                                               .segment_elem_count = test->segment_elem_count,
                                               .is_in_place = test->is_in_place};
    struct ddp_schedule schedule;
    ddp_status status;

    ddp_schedule_init(&schedule, out->mem, "made", &params);
    made->emit(&schedule);
    ddp_schedule_print(&schedule, out);
    status = schedule.status == DDP_OK ? DDP_OK : ddp_err_set(err, schedule.status, "emission");
    ddp_schedule_fini(&schedule);
    return status;
}

static const struct harness_coll_source_ops made_source_ops = {made_source_emit, NULL, NULL};

static inline struct made_source made_source_of(void (*emit)(struct ddp_schedule *schedule))
{
    return (struct made_source){.base = {.ops = &made_source_ops,
                                         .name = "made",
                                         .kind = DDP_COLL_ALL_REDUCE,
                                         .claims = HARNESS_COLL_CLAIM_RANKS},
                                .emit = emit};
}

#endif
