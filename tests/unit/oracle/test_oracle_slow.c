/* How a slow rank is called: hand-made records of how long each step took. */
#include "harness/oracle/subject.h"
#include "tests/ct.h"

enum { RANKS = 3, STEPS = 8, SLOW_RANK = 1, EVENTS = 2 * STEPS + 1 };

/* What rank 1's forward pass of a step was, in ms. */
struct pass {
    uint64_t took, starved;
};

static void record(struct harness_trace *trace, uint32_t rank, const struct pass *passes)
{
    struct ddp_event_entry ring[EVENTS];
    uint64_t now_ns = 0;
    uint64_t starved_ns = 0;

    for (uint32_t i = 0; i < EVENTS; i++) {
        const uint32_t step = i / 2;
        const bool is_forward = i % 2 == 1;
        const bool is_slow = rank == SLOW_RANK && is_forward;

        ring[i] = (struct ddp_event_entry){
            .index = i + 1,
            .time_ns = now_ns,
            .step = step,
            .phase = is_forward ? DDP_PHASE_FORWARD : DDP_PHASE_DATA,
            .event = DDP_EVENT_PHASE,
            .arg = {is_forward ? DDP_PHASE_FORWARD : DDP_PHASE_DATA, 0, starved_ns}};
        now_ns += (is_slow ? passes[step].took : 1) * DDP_NS_PER_MS;
        starved_ns += is_slow ? passes[step].starved * DDP_NS_PER_MS : 0;
    }
    CT_REQUIRE_OK(harness_trace_add_ring(trace, rank, ring, EVENTS, EVENTS));
}

/* The verdict of the only finding, with its step; NONE: there is none. */
static enum harness_verdict judge(const struct pass *passes, int32_t *out_step)
{
    struct harness_plan plan = {.job = {.ranks = RANKS, .steps = STEPS, .slow_after_ms = 20}};
    struct ddp_mem_pool *pool;
    struct harness_trace trace;
    struct harness_emulation_input input = {.plan = &plan, .trace = &trace};
    struct harness_emulation e = {.input = &input, .world = RANKS};
    struct harness_findings findings;
    enum harness_verdict verdict = HARNESS_VERDICT_NONE;

    CT_CHECK_OK(ddp_mem_pool_create(&pool));
    e.mem = ddp_mem_pool_mem(pool);
    harness_trace_init(&trace, e.mem, RANKS, "proc");
    for (uint32_t r = 0; r < RANKS; r++) {
        record(&trace, r, passes);
    }
    CT_CHECK_OK(harness_index_build(e.mem, &trace, &e.index));
    harness_findings_init(&findings, e.mem);
    CT_CHECK_OK(harness_check_slow(&e, &findings, NULL));
    CT_CHECK(findings.count <= 1);
    *out_step = -1;
    if (findings.count == 1) {
        verdict = findings.items[0].verdict;
        *out_step = findings.items[0].step;
        CT_CHECK(harness_rank_set_has(&findings.items[0].culprits, SLOW_RANK));
    }
    ddp_mem_pool_destroy(pool);
    return verdict;
}

CT_TEST(oracle_slow, each_step)
{
    const struct pass passes[STEPS] = {{60, 0}, {60, 0}, {60, 0}, {60, 0},
                                       {60, 0}, {60, 0}, {60, 0}, {60, 0}};
    int32_t step;

    CT_CHECK_EQ_U64(judge(passes, &step), HARNESS_VERDICT_SLOW_COMPUTE);
    CT_CHECK_EQ_I64(step, 1);
}

/* Without a CPU for most of a step, nothing is known of it. */
CT_TEST(oracle_slow, a_step_without_a_cpu_breaks_no_pattern)
{
    const struct pass passes[STEPS] = {{60, 0}, {60, 0}, {60, 59}, {60, 0},
                                       {60, 0}, {60, 0}, {60, 59}, {60, 0}};
    int32_t step;

    CT_CHECK_EQ_U64(judge(passes, &step), HARNESS_VERDICT_SLOW_COMPUTE);
    CT_CHECK_EQ_I64(step, 1);
}

/* A step that was not slow does. */
CT_TEST(oracle_slow, a_fast_step_makes_jitter)
{
    const struct pass passes[STEPS] = {{60, 0}, {60, 0}, {1, 0},  {60, 0},
                                       {60, 0}, {60, 0}, {60, 0}, {60, 0}};
    int32_t step;

    CT_CHECK_EQ_U64(judge(passes, &step), HARNESS_VERDICT_SLOW_JITTER);
    CT_CHECK_EQ_I64(step, 1);
}

/* Nobody is blamed for the time in which there was no CPU. */
CT_TEST(oracle_slow, no_cpu_is_not_slow)
{
    const struct pass passes[STEPS] = {{60, 59}, {60, 59}, {60, 59}, {60, 59},
                                       {60, 59}, {60, 59}, {60, 59}, {60, 59}};
    int32_t step;

    CT_CHECK_EQ_U64(judge(passes, &step), HARNESS_VERDICT_NONE);
}
