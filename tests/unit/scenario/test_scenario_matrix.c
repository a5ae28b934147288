/* Overrides and the matrix. */
#include "harness/plan/names.h"
#include "tests/unit/scenario/scenario_testing.h"

static void check_cells(const char *matrix, const char *const *sets, size_t set_count,
                        const char *expected)
{
    struct harness_scenario scenario;
    struct ddp_text text;
    struct ddp_text cells;
    struct ddp_err err = {{0}};

    ddp_text_init(&text, ddp_mem_system());
    ddp_text_init(&cells, ddp_mem_system());
    ddp_text_add(&text, "%smatrix: %s\n", SCENARIO_SMALL, matrix);
    if (scenario_parse(ddp_text_str(&text), sets, set_count, &scenario, &err) != DDP_OK) {
        ddp_text_add(&cells, "%s", err.text);
    } else {
        for (size_t i = 0; i < scenario.plan_count; i++) {
            ddp_text_add(&cells, "%s%s", i == 0 ? "" : " ", scenario.plans[i].cell);
        }
        harness_scenario_fini(&scenario);
    }
    CT_CHECK_STR(ddp_text_str(&cells), expected);
    ddp_text_fini(&text);
    ddp_text_fini(&cells);
}

/* Cells come in the order of the axes, the first one outermost. */
CT_TEST(matrix, orders_cells)
{
    check_cells("{job.ranks: [2, 3], job.steps: [1, 2]}", NULL, 0,
                "job.ranks=2,job.steps=1 job.ranks=2,job.steps=2 job.ranks=3,job.steps=1 "
                "job.ranks=3,job.steps=2");
}

/* Of equal cells the first one stays, even if its values are written differently. */
CT_TEST(matrix, drops_equal_cells)
{
    check_cells("{job.optimizer.lr: [0.1, 1e-1, 0.2]}", NULL, 0,
                "job.optimizer.lr=0.1 job.optimizer.lr=0.2");
}

/* Selectors are resolved against the cell's own number of ranks. */
CT_TEST(matrix, resolves_selectors_in_each_cell)
{
    check_cells("{expect.culprit: [[first], [middle], [last]], job.ranks: [1, 2]}", NULL, 0,
                "expect.culprit=[first],job.ranks=1 expect.culprit=[first],job.ranks=2 "
                "expect.culprit=[middle],job.ranks=2");
}

/* The cells of an axis over a table, as the table says. */
static void check_table(enum harness_axis axis, const char *const *sets, size_t set_count)
{
    struct ddp_text expected;
    struct ddp_text matrix;
    const char *name;

    ddp_text_init(&expected, ddp_mem_system());
    ddp_text_init(&matrix, ddp_mem_system());
    for (size_t i = 0; (name = harness_axis_at(axis, i)) != NULL; i++) {
        ddp_text_add(&expected, "%sjob.collective=%s", i == 0 ? "" : " ", name);
    }
    ddp_text_add(&matrix, "{job.collective: %s}", harness_axis_word(axis));
    check_cells(ddp_text_str(&matrix), sets, set_count, ddp_text_str(&expected));
    ddp_text_fini(&matrix);
    ddp_text_fini(&expected);
}

/* A table of names stands for the list of them, so that a new algorithm runs without an edit. */
CT_TEST(matrix, expands_tables)
{
    static const char *const cuda[] = {"job.device=cuda"};

    CT_CHECK_STR(harness_axis_at(HARNESS_AXIS_SCHEDULES, 0), "ring");
    CT_CHECK_STR(harness_axis_at(HARNESS_AXIS_CUDA_COLLECTIVES, 0), "nccl");
    CT_CHECK_STR(harness_axis_at(HARNESS_AXIS_CUDA_COLLECTIVES, 1), "nccl/ring");
    check_table(HARNESS_AXIS_SCHEDULES, NULL, 0);
    check_table(HARNESS_AXIS_CUDA_COLLECTIVES, cuda, 1);
    check_cells(
        "{job.collective: schedules}", cuda, 1,
        "x.yaml:5:26: device cuda needs collective nccl or nccl/<algorithm>, not ring (cell "
        "job.collective=ring)");
}

/* A whole map can be an axis value, and keys on the way are made. */
CT_TEST(matrix, takes_maps_as_values)
{
    check_cells("{job.join: [{}, {throw_on_early_termination: true}], job.optimizer.kind: [adamw]}",
                NULL, 0,
                "job.join={},job.optimizer.kind=adamw "
                "job.join={throw_on_early_termination: true},job.optimizer.kind=adamw");
}

/* An override on an axis pins it; one on a map above it does too. */
CT_TEST(matrix, is_pinned_by_overrides)
{
    static const char *const on_axis[] = {"job.ranks=4"};
    static const char *const above[] = {"job={ranks: 1, steps: 1, model: mlp, batch_per_rank: 1}"};

    check_cells("{job.ranks: [2, 3], job.steps: [1, 2]}", on_axis, 1, "job.steps=1 job.steps=2");
    check_cells("{job.ranks: [2, 3], job.steps: [1, 2]}", above, 1, "");
}

/* Overrides are applied in order, the last one wins. */
CT_TEST(matrix, applies_overrides_in_order)
{
    static const char *const sets[] = {"job.ranks=4", "job.ranks=8", "job.seed=9"};
    struct harness_scenario scenario;

    CT_REQUIRE_OK(scenario_parse(SCENARIO_SMALL, sets, 3, &scenario, NULL));
    CT_CHECK_EQ_U64(scenario.plans[0].job.ranks, 8);
    CT_CHECK_EQ_U64(scenario.plans[0].job.seed, 9);
    harness_scenario_fini(&scenario);
}

/* Errors of overrides name the override, errors of cells the cell. */
CT_TEST(matrix, says_where_an_error_is)
{
    static const char *const bad_value[] = {"job.ranks=many"};
    static const char *const bad_key[] = {"job.rank=4"};
    static const char *const bad_form[] = {"job.ranks"};
    static const char *const bad_index[] = {"faults.0.at.rank=1"};
    static const char *const bad_yaml[] = {"job.ranks=[1"};

    check_cells("{job.steps: [1]}", bad_value, 1,
                "--set job.ranks=many: ranks wants a whole number from 1 to 1024, not \"many\" "
                "(cell job.steps=1)");
    check_cells("{job.steps: [1]}", bad_key, 1,
                "--set job.rank=4: unknown key \"rank\" in job; did you mean \"ranks\"? "
                "(cell job.steps=1)");
    check_cells("{job.steps: [1]}", bad_form, 1,
                "--set job.ranks: an override is dotted.key=value, as in job.ranks=4");
    check_cells(
        "{job.steps: [1]}", bad_index, 1,
        "--set faults.0.at.rank=1: \"faults.0.at.rank\" names entry 0 of a list that is not there");
    check_cells("{job.steps: [1]}", bad_yaml, 1,
                "--set job.ranks=[1: not YAML: flow sequence without a closing bracket");
    check_cells("{job.steps: [1, 0]}", NULL, 0,
                "x.yaml:5:25: steps wants a whole number from 1 to 1000000, not \"0\" "
                "(cell job.steps=0)");
}

/* A matrix that is too large is refused before any cell is made. */
CT_TEST(matrix, counts_cells_before_making_them)
{
    struct ddp_text matrix;

    ddp_text_init(&matrix, ddp_mem_system());
    ddp_text_add(&matrix, "{job.seed: [0");
    for (int i = 1; i < 100; i++) {
        ddp_text_add(&matrix, ", %d", i);
    }
    ddp_text_add(&matrix, "], job.steps: [1");
    for (int i = 2; i < 42; i++) {
        ddp_text_add(&matrix, ", %d", i);
    }
    ddp_text_add(&matrix, "]}");
    check_cells(ddp_text_str(&matrix), NULL, 0,
                "x.yaml:5:423: the matrix has more than 4096 cells; split the scenario");
    ddp_text_fini(&matrix);
}
