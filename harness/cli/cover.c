/* Covers matrices by few of their cells. Values first: of each scenario the cell that has most
 * values which no chosen one has, until none is missing; so no more cells than the sum of the axes'
 * sizes. Of equals, one that brings a new pair of collective and ranks. Then the first cell of each
 * pair that is still missing. */
#include <stdlib.h>
#include <string.h>

#include "harness/cli/cells.h"

/* What a family has been seen to run. */
struct pair {
    const char *id; /* of a scenario of the family */
    enum harness_driver driver;
    const char *collective;
    uint32_t ranks;
};

struct cover {
    struct cli_cells *cells;
    bool *is_chosen; /* [task_count] */
    struct pair *pairs;
    size_t pair_count; /* at most task_count */
};

static bool is_candidate(const struct cover *cover, size_t task)
{
    return cover->cells->tasks[task].verdict == NULL && !cover->is_chosen[task];
}

static struct pair pair_of(const struct cli_task *task)
{
    const struct harness_plan *plan = task->plan;

    return (struct pair){plan->id, task->config.driver,
                         harness_collective_name(plan->job.collective), plan->job.ranks};
}

static bool is_same_family(const char *a, const char *b)
{
    size_t size = strcspn(a, ".");

    return strncmp(a, b, size) == 0 && (b[size] == '.' || b[size] == '\0');
}

static bool has_pair(const struct cover *cover, struct pair pair)
{
    for (size_t i = 0; i < cover->pair_count; i++) {
        const struct pair *other = &cover->pairs[i];

        if (other->driver == pair.driver && other->ranks == pair.ranks &&
            strcmp(other->collective, pair.collective) == 0 && is_same_family(other->id, pair.id)) {
            return true;
        }
    }
    return false;
}

static void choose(struct cover *cover, size_t task)
{
    struct pair pair = pair_of(&cover->cells->tasks[task]);

    cover->is_chosen[task] = true;
    if (!has_pair(cover, pair)) {
        cover->pairs[cover->pair_count++] = pair;
    }
}

/* The values that a plan has of its scenario's axes; was_seen: all axes' values in a row. Counts
 * those that are new; is_taken: they are not from now on. */
static size_t count_new(const struct harness_scenario *scenario, size_t plan, bool *was_seen,
                        bool is_taken)
{
    size_t count = 0;

    for (size_t axis = 0; axis < scenario->axis_count; axis++) {
        bool *value = &was_seen[harness_scenario_value(scenario, plan, axis)];

        count += !*value;
        *value = *value || is_taken;
        was_seen += scenario->axis_sizes[axis];
    }
    return count;
}

static size_t plan_at(const struct cover *cover, const struct harness_scenario *scenario,
                      size_t task)
{
    return (size_t)(cover->cells->tasks[task].plan - scenario->plans);
}

/* The tasks of a scenario on one driver, from `first` on and before `end`: each value once at
 * least. */
static ddp_status cover_values(struct cover *cover, const struct harness_scenario *scenario,
                               enum harness_driver driver, size_t first, size_t end)
{
    size_t value_count = 1;
    bool is_empty = true;
    bool *was_seen;

    for (size_t axis = 0; axis < scenario->axis_count; axis++) {
        value_count += scenario->axis_sizes[axis];
    }
    was_seen = calloc(value_count, sizeof *was_seen);
    if (was_seen == NULL) {
        return DDP_E_NOMEM;
    }
    for (;;) {
        size_t best = end;
        size_t best_score = 0;

        for (size_t i = first; i < end; i++) {
            const struct cli_task *task = &cover->cells->tasks[i];
            size_t score;

            if (task->config.driver != driver || !is_candidate(cover, i)) {
                continue;
            }
            score = 2 * count_new(scenario, plan_at(cover, scenario, i), was_seen, false);
            score += is_empty ? 2 : 0; /* one, though there may be no axes */
            score += score > 0 && !has_pair(cover, pair_of(task));
            if (score > best_score) {
                best = i;
                best_score = score;
            }
        }
        if (best == end) {
            break;
        }
        (void)count_new(scenario, plan_at(cover, scenario, best), was_seen, true);
        choose(cover, best);
        is_empty = false;
    }
    free(was_seen);
    return DDP_OK;
}

static ddp_status choose_all(struct cover *cover)
{
    const struct cli_cells *cells = cover->cells;
    size_t first = 0;

    for (size_t i = 0; i < cells->files.count; i++) {
        const struct harness_scenario *scenario = &cells->scenarios[i];
        size_t end = first;

        for (size_t k = 0; k < scenario->plan_count; k++) {
            while (end < cells->task_count && cells->tasks[end].plan == &scenario->plans[k]) {
                end++;
            }
        }
        for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
            DDP_TRY(cover_values(cover, scenario, (enum harness_driver)d, first, end));
        }
        first = end;
    }
    DDP_ASSERT(first == cells->task_count); /* tasks are in the order of files */
    for (size_t i = 0; i < cells->task_count; i++) {
        if (is_candidate(cover, i) && !has_pair(cover, pair_of(&cells->tasks[i]))) {
            choose(cover, i);
        }
    }
    return DDP_OK;
}

/* Whether a plan was chosen on this driver, with any of the seeds that it is to run with. */
static bool is_kept(const struct cover *cover, size_t task)
{
    const struct cli_task *tasks = cover->cells->tasks;
    size_t i = task;

    while (i > 0 && tasks[i - 1].plan == tasks[task].plan) {
        i--;
    }
    for (; i < cover->cells->task_count && tasks[i].plan == tasks[task].plan; i++) {
        if (cover->is_chosen[i] && tasks[i].config.driver == tasks[task].config.driver) {
            return true;
        }
    }
    return tasks[task].verdict != NULL;
}

static void drop_rest(struct cover *cover)
{
    struct cli_cells *cells = cover->cells;
    size_t kept = 0;

    /* All are looked at before the first one moves. */
    for (size_t i = 0; i < cells->task_count; i++) {
        cover->is_chosen[i] = is_kept(cover, i);
    }
    for (size_t i = 0; i < cells->task_count; i++) {
        if (cover->is_chosen[i]) {
            cells->tasks[kept++] = cells->tasks[i];
        } else {
            free(cells->tasks[i].run_dir);
        }
    }
    cells->left_out_count = cells->task_count - kept;
    cells->task_count = kept;
}

ddp_status cli_cells_cover(struct cli_cells *cells)
{
    struct cover cover = {.cells = cells};
    ddp_status status = DDP_E_NOMEM;

    if (cells->task_count == 0) {
        return DDP_OK;
    }
    cover.is_chosen = calloc(cells->task_count, sizeof *cover.is_chosen);
    cover.pairs = calloc(cells->task_count, sizeof *cover.pairs);
    if (cover.is_chosen != NULL && cover.pairs != NULL) {
        status = choose_all(&cover);
    }
    if (status == DDP_OK) {
        drop_rest(&cover);
    }
    free(cover.is_chosen);
    free(cover.pairs);
    return status;
}
