/* The order in which the steps of a set are said to run is one in which they can; and schedules
 * that are not read from text are those that the text says. */
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "tests/ct.h"
#include "tests/unit/coll/made_source.h"

enum { WORLD_MAX = 13, STEPS_MAX = 4096 };

/* What has run so far; of each pair and direction the last message. */
struct replay {
    bool is_done[WORLD_MAX][STEPS_MAX];
    int64_t last[WORLD_MAX][WORLD_MAX][2];
};

static void run_step(struct replay *replay, const struct harness_schedule_set *set, uint32_t rank,
                     uint32_t index)
{
    const struct harness_schedule_step *step = &set->member[rank]->steps[index];

    CT_REQUIRE(set->member[rank]->step_count <= STEPS_MAX);
    CT_CHECK(!replay->is_done[rank][index]);
    replay->is_done[rank][index] = true;
    for (uint32_t d = 0; d < step->dep_count; d++) {
        CT_CHECK(replay->is_done[rank][step->dep[d]]);
    }
    if (step->peer != UINT32_MAX) {
        int64_t *last = &replay->last[rank][step->peer][step->kind == HARNESS_STEP_SEND];

        CT_CHECK(*last < (int64_t)index);
        *last = index;
    }
}

static void replay_set(const struct harness_schedule_set *set)
{
    static struct replay replay;
    size_t steps = 0;
    size_t ran = 0;

    memset(&replay, 0, sizeof replay);
    memset(replay.last, -1, sizeof replay.last);
    for (size_t e = 0; e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];
        bool is_message = event->from_rank != HARNESS_NO_RANK;

        run_step(&replay, set, event->rank, event->step);
        if (is_message) {
            const struct harness_schedule_step *taken =
                &set->member[event->rank]->steps[event->step];
            const struct harness_schedule_step *sent =
                &set->member[event->from_rank]->steps[event->from_step];

            CT_CHECK(sent->kind == HARNESS_STEP_SEND && sent->peer == event->rank);
            CT_CHECK(taken->peer == event->from_rank);
            run_step(&replay, set, event->from_rank, event->from_step);
        }
        ran += is_message ? 2 : 1;
    }
    for (uint32_t r = 0; r < set->size; r++) {
        steps += set->member[r]->step_count;
    }
    CT_CHECK(set->is_ordered);
    CT_CHECK_EQ_U64(ran, steps);
}

static ddp_status emit_case(struct harness_coll_source *source, uint32_t world,
                            struct harness_schedules *schedules, struct ddp_err *err)
{
    const struct harness_coll_case test = {
        .world = world, .elem_count = 2 * (size_t)world + 3, .root = world / 2};
    uint32_t rank = 0;

    return harness_coll_emit(source, &test, schedules, &rank, err);
}

CT_TEST(sweep, runs_each_step_when_it_can)
{
    size_t count = 0;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    for (size_t i = 0; i < count; i++) {
        for (uint32_t world = 1; world <= WORLD_MAX; world++) {
            struct harness_coll_source *source = NULL;
            struct harness_schedules schedules;
            struct ddp_err err = {""};

            CT_REQUIRE_OK(harness_coll_builtin_open(table[i].name, &source, &err));
            harness_schedules_init(&schedules, ddp_mem_system());
            CT_REQUIRE_OK(emit_case(source, world, &schedules, &err));
            replay_set(&schedules.sets[0]);
            harness_schedules_fini(&schedules);
            harness_coll_source_close(source);
        }
    }
}

/* Rank 0 sends to all others. */
static void emit_star(struct ddp_schedule *schedule)
{
    const struct ddp_range range = {DDP_BUFFER_INPUT, 0, 0, schedule->params.elem_count};

    for (uint32_t r = 1; r < schedule->params.size; r++) {
        const struct ddp_step send = {.kind = DDP_STEP_SEND, .peer = r, .src = range};
        struct ddp_step recv = {.kind = DDP_STEP_RECV, .peer = 0, .dst = range};

        recv.dst.buffer = DDP_BUFFER_OUTPUT;
        if (schedule->params.rank == 0 || schedule->params.rank == r) {
            (void)ddp_schedule_add(schedule, schedule->params.rank == 0 ? &send : &recv);
        }
    }
}

/* As its text says, but for the round of the first step. */
static ddp_status make_other(struct harness_coll_source *source,
                             const struct harness_coll_case *test, uint32_t rank,
                             struct ddp_mem *mem, struct harness_schedule *out, struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, mem);
    status = source->ops->emit(source, test, rank, &text, err);
    if (status == DDP_OK) {
        status = harness_schedule_parse(mem, ddp_text_str(&text), out, err);
    }
    if (status == DDP_OK && out->step_count > 0) {
        out->steps[0].round++;
    }
    ddp_text_fini(&text);
    return status;
}

CT_TEST(sweep, printed_otherwise_than_emitted)
{
    static const struct harness_coll_source_ops ops = {made_source_emit, NULL, make_other};
    struct made_source made = made_source_of(emit_star);
    struct harness_schedules schedules;
    struct ddp_err err = {""};

    made.base.ops = &ops;
    harness_schedules_init(&schedules, ddp_mem_system());
    CT_CHECK(emit_case(&made.base, 3, &schedules, &err) == DDP_E_INVALID);
    CT_CHECK(strstr(err.text, "printed otherwise than it was emitted") != NULL);
    harness_schedules_fini(&schedules);
    harness_schedules_init(&schedules, ddp_mem_system());
    CT_CHECK_OK(emit_case(&made.base, HARNESS_COLL_READ_MAX + 1, &schedules, &err));
    harness_schedules_fini(&schedules);
}

CT_TEST(sweep, what_is_put_together_is_checked)
{
    static const struct {
        struct harness_schedule_step step;
        const char *words; /* NULL: it is right */
    } cases[] = {
        {{.kind = HARNESS_STEP_SEND, .peer = 1, .src = {0, 0, 4}}, NULL},
        {{.kind = HARNESS_STEP_SEND, .peer = 1, .src = {0, 1, 4}}, "outside of its buffer"},
        {{.kind = HARNESS_STEP_SEND, .peer = 1, .src = {0, SIZE_MAX, 2}}, "outside of its buffer"},
        {{.kind = HARNESS_STEP_SEND, .peer = 1, .src = {2, 0, 1}}, "outside of its buffer"},
        {{.kind = HARNESS_STEP_SEND, .peer = 0, .src = {0, 0, 4}}, "no other member"},
        {{.kind = HARNESS_STEP_SEND, .peer = 2, .src = {0, 0, 4}}, "no other member"},
        {{.kind = HARNESS_STEP_SEND, .peer = UINT32_MAX, .src = {0, 0, 4}}, "missing"},
        {{.kind = HARNESS_STEP_COPY, .peer = UINT32_MAX, .src = {0, 0, 4}, .dst = {1, 0, 3}},
         "differ in length"},
        {{.kind = HARNESS_STEP_SEND, .peer = 1, .src = {0, 0, 4}, .dep_count = 1, .dep = {3}},
         "later step"},
        {{.kind = HARNESS_STEP_KIND_COUNT, .peer = 1, .src = {0, 0, 4}}, "unknown step"}};
    const struct harness_schedule head = {.kind = DDP_COLL_ALL_REDUCE,
                                          .algorithm = "made",
                                          .size = 2,
                                          .elem_count = 4,
                                          .dtype = DDP_DTYPE_F32,
                                          .buffer_count = 2};
    struct harness_schedule schedule;
    struct ddp_err err = {""};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        CT_REQUIRE_OK(harness_schedule_make(ddp_mem_system(), &head, 1, &schedule, &err));
        err.text[0] = '\0';
        CT_CHECK((harness_schedule_add_step(&schedule, &cases[i].step, &err) == DDP_OK) ==
                 (cases[i].words == NULL));
        CT_CHECK(cases[i].words == NULL || strstr(err.text, cases[i].words) != NULL);
        harness_schedule_fini(&schedule);
    }
}
