/* Causes while reduction trees are measured: ranks that disagree about construction meet there. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/judge/cause_bench.h"

struct probe_row {
    const char *name;
    struct cause_spec a, b;
    int32_t phase_a, phase_b;
    uint32_t measuring; /* bits: ranks that have begun to measure */
    const char *words;  /* NULL: b does not follow from a */
};

#define APART                                                                        \
    {                                                                                \
        FOUND(MISMATCH_MISSING, PROGRAM), .ranks = BIT(2), .step = -1, BUCKET(11, 1) \
    }
#define CIRCLE(r)                                             \
    {                                                         \
        MONITOR(HANG_CYCLE), .ranks = BIT(2) | (r), .step = 0 \
    }
#define OTHER_BUCKETS                                            \
    {                                                            \
        FOUND(MISMATCH_MODEL, MODEL), .ranks = BIT(1), .step = 0 \
    }

static const struct probe_row rows[] = {
    {"one measures, the other waits in what it left out", APART, CIRCLE(BIT(1)), DDP_PHASE_INIT,
     DDP_PHASE_PROBE, BIT(2), "measure trees"},
    {"both measure", APART, CIRCLE(BIT(3)), DDP_PHASE_INIT, DDP_PHASE_PROBE, BIT(2) | BIT(3),
     "measure trees"},
    {"a time-out of all behind the last barrier",
     APART,
     {REPORTED(HANG_NOT_JOINED), .victims = BIT(1) | BIT(2), .step = 4},
     DDP_PHASE_TEARDOWN,
     DDP_PHASE_PROBE,
     BIT(2),
     "measure trees"},
    {"a time-out of others",
     APART,
     {REPORTED(HANG_NOT_JOINED), .victims = BIT(0) | BIT(1), .step = 4},
     DDP_PHASE_TEARDOWN,
     DDP_PHASE_PROBE,
     BIT(0),
     NULL},
    {"nobody measures", APART, CIRCLE(BIT(1)), DDP_PHASE_INIT, DDP_PHASE_PROBE, 0, NULL},
    {"the other has completed all", APART, CIRCLE(BIT(3)), DDP_PHASE_INIT, DDP_PHASE_PROBE, BIT(2),
     NULL},
    {"left out later than construction", APART, CIRCLE(BIT(1)), DDP_PHASE_BACKWARD, DDP_PHASE_PROBE,
     BIT(2), NULL},
    {"other ranks",
     APART,
     {MONITOR(HANG_CYCLE), .ranks = BIT(0) | BIT(1)},
     DDP_PHASE_INIT,
     DDP_PHASE_PROBE,
     BIT(0),
     NULL},
    {"other buckets, a failure of another rank",
     OTHER_BUCKETS,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .status = DDP_E_IO},
     DDP_PHASE_INIT,
     DDP_PHASE_PROBE,
     0,
     "other sums"},
    {"other buckets, a failure later",
     OTHER_BUCKETS,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .status = DDP_E_IO},
     DDP_PHASE_INIT,
     DDP_PHASE_BACKWARD,
     0,
     NULL},
    {"other buckets, another rank's own failure",
     OTHER_BUCKETS,
     {REPORTED(CRASH_EXITED), .ranks = BIT(0), .status = DDP_E_INJECTED},
     DDP_PHASE_INIT,
     DDP_PHASE_PROBE,
     0,
     NULL},
};

static void begin_measuring(struct cause_bench *f, uint32_t ranks)
{
    harness_paths_close(&f->paths);
    for (uint32_t r = 0; r < WORLD; r++) {
        if ((ranks & BIT(r)) != 0) {
            struct harness_trace_event *out = &f->events[f->trace.event_count++];

            CT_REQUIRE(f->trace.event_count <= EVENT_MAX);
            out->rank = r;
            out->entry.event = DDP_EVENT_PHASE;
            out->entry.arg[0] = DDP_PHASE_PROBE;
        }
    }
    CT_REQUIRE_OK(harness_paths_open(f->mem, &f->plan, &f->program, &f->trace, &f->paths));
}

CT_TEST(cause, ranks_that_measure_trees)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct cause_bench f;
        struct harness_finding a;
        struct harness_finding b;
        const char *words;

        cause_bench_init(&f);
        begin_measuring(&f, rows[i].measuring);
        a = cause_bench_make(&f, &rows[i].a);
        b = cause_bench_make(&f, &rows[i].b);
        a.phase = rows[i].phase_a;
        b.phase = rows[i].phase_b;
        words = harness_cause_of(&f.paths, &a, &b);
        if ((words == NULL) != (rows[i].words == NULL) ||
            (words != NULL && strstr(words, rows[i].words) == NULL)) {
            CT_FAIL("%s: %s", rows[i].name, words == NULL ? "no cause" : words);
        }
        cause_bench_fini(&f);
    }
}
