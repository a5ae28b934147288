/* Campaigns draw from all that a plan may say: every key, fault point, action and name is drawn, or
 * is in a list that says why not, and then it is not drawn. */
#include <signal.h>
#include <string.h>

#include "harness/grammar/grammar.h"
#include "harness/scenario/scenario.h"
#include "tests/ct.h"

enum { FAULTY = 8000, HEALTHY = 2500, RARE = 2000, NAMES_MAX = 128 };

/* Names that were seen, by their place in the list. */
struct drawn {
    uint32_t points[DDP_FAULT_POINT_COUNT];
    uint32_t actions[HARNESS_ACTION_KIND_COUNT];
    uint32_t corrupts[HARNESS_CORRUPT_KIND_COUNT];
    uint32_t args[HARNESS_ARG_FIELD_COUNT];
    uint32_t calls[HARNESS_IO_CALL_COUNT];
    uint32_t variables[HARNESS_VARIABLE_COUNT];
    uint32_t edits[HARNESS_EDIT_KIND_COUNT];
    uint32_t names[HARNESS_ROW_COUNT][NAMES_MAX]; /* of the job's keys that are one of a list */
    uint32_t late, slow_checked, left_optimizer;
};

struct left {
    int value;
    const char *why;
};

static const struct left points_left[] = {
    {DDP_FAULT_POINT_DATA_RESUME, "only behind a checkpoint of another number of ranks"},
    {DDP_FAULT_POINT_MODEL_STATISTICS, "a mistake of its own, of mixed precision"},
    {DDP_FAULT_POINT_DATA_EPOCH, "only where data are used more than once"},
    {DDP_FAULT_POINT_DATA_WORKER, "threads are of real processes"},
    {DDP_FAULT_POINT_PROBE_SUM, "of NCCL and MPI"},
    {DDP_FAULT_POINT_COLLECTIVE_SCHEDULE, "where one is compiled depends on what was before"},
    {DDP_FAULT_POINT_COLLECTIVE_LAUNCH, "of NCCL and MPI"},
    {DDP_FAULT_POINT_TRAINER, "its numbers are mistakes of their own, each with its scenario"},
    {DDP_FAULT_POINT_RECOVERY_AGREE, "behind a loss, which is the one fault there"},
    {DDP_FAULT_POINT_RECOVERY_MEMBERS, "behind a loss, which is the one fault there"},
    {DDP_FAULT_POINT_RECOVERY_STATE, "behind a loss, which is the one fault there"},
    {DDP_FAULT_POINT_DEVICE_ALLOC, "of a card"},
    {DDP_FAULT_POINT_DEVICE_EVENT_WAIT, "of a card"},
    {DDP_FAULT_POINT_NCCL_ASYNC_ERROR, "of NCCL"},
};
static const struct left actions_left[] = {
    {HARNESS_ACTION_UNTIL, "of a guest"},
    {HARNESS_ACTION_OVERTAKEN, "what the next message is depends on the schedule"},
    {HARNESS_ACTION_SPIN, "a kernel: wants a card"},
    {HARNESS_ACTION_TRAP, "a kernel: wants a card"},
    {HARNESS_ACTION_EDIT, "of a guest"},
};
static const struct left args_left[] = {{HARNESS_ARG_ROOT, "a reduction for all has none"}};
static const struct left edits_left[] = {
    {HARNESS_EDIT_HEADER_SIZE, "wants to know the file's header"},
    {HARNESS_EDIT_HEADER, "wants to know the file's header"},
};

static void count_fault(const struct harness_fault *fault, struct drawn *drawn)
{
    drawn->points[fault->point]++;
    drawn->actions[fault->action.kind]++;
    if (fault->action.kind == HARNESS_ACTION_CORRUPT) {
        drawn->corrupts[fault->action.corrupt]++;
    } else if (fault->action.kind == HARNESS_ACTION_ARG) {
        drawn->args[fault->action.arg]++;
    } else if (fault->action.kind == HARNESS_ACTION_IO) {
        drawn->calls[fault->action.io.call]++;
    } else if (fault->action.kind == HARNESS_ACTION_ENV) {
        drawn->variables[fault->action.env]++;
    }
}

/* The struct that keeps a section's keys; NULL: of none that is drawn as a name. */
static const void *kept_of(const struct harness_plan *plan, enum harness_section section)
{
    return section == HARNESS_SECTION_JOB         ? (const void *)&plan->job
           : section == HARNESS_SECTION_OPTIMIZER ? (const void *)&plan->job.optimizer
           : section == HARNESS_SECTION_MIXED     ? (const void *)&plan->job.mixed_precision
           : section == HARNESS_SECTION_RESTORE   ? (const void *)&plan->restore
                                                  : NULL;
}

static bool is_name(enum harness_row row)
{
    const struct harness_key *key = harness_key(row);

    return key->type == HARNESS_KEY_NAME && key->size_bytes == sizeof(int);
}

static void count_names(const struct harness_plan *plan, struct drawn *drawn)
{
    for (unsigned row = 0; row < HARNESS_ROW_COUNT; row++) {
        const struct harness_key *key = harness_key((enum harness_row)row);
        const void *kept = kept_of(plan, key->section);
        int value = 0;

        if (kept != NULL && is_name((enum harness_row)row)) {
            memcpy(&value, (const char *)kept + key->offset, sizeof value);
            drawn->names[row][value >= 0 && value < NAMES_MAX ? value : 0]++;
        }
    }
}

static void count_plan(const struct harness_plan *plan, struct drawn *drawn)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        count_fault(&plan->faults[i], drawn);
    }
    count_names(plan, drawn);
    drawn->edits[plan->restore.edit] += plan->restore.is_set;
    drawn->left_optimizer += plan->restore.is_set && plan->restore.skip_optimizer_state;
    drawn->late += harness_verdict_family(plan->expect.verdict) == HARNESS_FAMILY_SLOW;
    drawn->slow_checked += plan->job.slow_after_ms > 0 && plan->fault_count == 0;
}

/* row: is drawn in each job beside checkpoints; HARNESS_ROW_COUNT: as it comes. */
static void draw_all(uint32_t fault_count, uint64_t cases, enum harness_row row,
                     struct drawn *drawn)
{
    struct harness_grammar_options options;

    harness_grammar_init(&options, "x");
    options.fault_min = options.fault_max = fault_count;
    if (row < HARNESS_ROW_COUNT) {
        options.odds[row] = options.odds[HARNESS_ROW_JOB_checkpoint_every] = 100;
    }
    for (uint64_t i = 0; i < cases; i++) {
        struct harness_scenario scenario;
        struct ddp_text text;
        struct ddp_err err = {""};

        ddp_text_init(&text, ddp_mem_system());
        CT_REQUIRE(harness_grammar_draw(&options, 17, i, &text, &err) == DDP_OK);
        CT_REQUIRE(harness_scenario_parse(ddp_text_str(&text), text.size_bytes, "x.yaml", NULL, 0,
                                          &scenario, &err) == DDP_OK);
        count_plan(&scenario.plans[0], drawn);
        harness_scenario_fini(&scenario);
        ddp_text_fini(&text);
    }
}

/* Each entry was drawn, or is left; none that is left was drawn. name: of an entry. */
static void check(const char *what, const uint32_t *counts, size_t count, const struct left *left,
                  size_t left_count, const char *(*name)(int value))
{
    for (size_t i = 0; i < count; i++) {
        bool is_left = false;

        for (size_t k = 0; k < left_count; k++) {
            is_left = is_left || left[k].value == (int)i;
        }
        if (!is_left && counts[i] == 0) {
            CT_FAIL("no case has the %s %s", what, name((int)i));
        }
        if (is_left && counts[i] > 0) {
            CT_FAIL("the %s %s is drawn: it is left out no more", what, name((int)i));
        }
    }
}

static const char *point_name(int value)
{
    return ddp_fault_point_name((enum ddp_fault_point)value);
}
static const char *action_name(int value)
{
    return harness_names_of(HARNESS_NAMES_ACTIONS, value);
}
static const char *corrupt_name(int value)
{
    return harness_names_of(HARNESS_NAMES_CORRUPTS, value);
}
static const char *arg_name(int value)
{
    return harness_names_of(HARNESS_NAMES_ARGS, value);
}
static const char *edit_name(int value)
{
    return harness_names_of(HARNESS_NAMES_EDITS, value);
}

CT_TEST(drawn, faults)
{
    static struct drawn drawn;

    draw_all(1, FAULTY, HARNESS_ROW_COUNT, &drawn);
    draw_all(1, RARE, HARNESS_ROW_JOB_hook, &drawn); /* hook/state */
#define CHECK_LIST(what, counts, left, name)                                      \
    check(what, drawn.counts, sizeof drawn.counts / sizeof drawn.counts[0], left, \
          sizeof(left) / sizeof((left)[0]), name)
    CHECK_LIST("point", points, points_left, point_name);
    CHECK_LIST("action", actions, actions_left, action_name);
    CHECK_LIST("argument", args, args_left, arg_name);
    check("corruption", drawn.corrupts, HARNESS_CORRUPT_KIND_COUNT, NULL, 0, corrupt_name);
    CT_CHECK(drawn.late > 0); /* and some are stragglers */
    CT_CHECK(drawn.calls[HARNESS_IO_OPEN] > 0 && drawn.calls[HARNESS_IO_CLOSE] > 0);
    CT_CHECK(drawn.variables[HARNESS_VARIABLE_RANK] > 0);
}

CT_TEST(drawn, jobs)
{
    static const struct harness_plan any;
    static struct drawn drawn;

    draw_all(0, HEALTHY, HARNESS_ROW_COUNT, &drawn);
    CHECK_LIST("edit", edits, edits_left, edit_name);
    CT_CHECK(drawn.left_optimizer > 0);
    CT_CHECK(drawn.slow_checked > 0);
    for (unsigned row = 0; row < HARNESS_ROW_COUNT; row++) {
        const struct harness_key *key = harness_key((enum harness_row)row);
        const char *name;
        int value = 0;

        for (size_t i = 0;
             row != HARNESS_ROW_RESTORE_edit && harness_grammar_is_drawn((enum harness_row)row) &&
             kept_of(&any, key->section) != NULL && is_name((enum harness_row)row) &&
             (name = harness_names_at((enum harness_names)key->of, i, &value)) != NULL;
             i++) {
            /* Faults at layers would not fire where a rank uses none. */
            if (value >= 0 && value < NAMES_MAX && drawn.names[row][value] == 0 &&
                strcmp(name, "rank_uses_none") != 0) {
                CT_FAIL("no job has %s: %s", key->key, name);
            }
        }
    }
}

/* Of each key the grammar says how it is drawn, or why it is not. What is expected is worked out.
 */
CT_TEST(drawn, keys)
{
    static const struct {
        enum harness_row row;
        const char *why;
    } said[] = {
#define DRAWN(section, key, odds) {HARNESS_ROW_##section##_##key, "drawn"},
#define WITH(section, key, row)   {HARNESS_ROW_##section##_##key, "drawn"},
#define LEFT(section, key, why)   {HARNESS_ROW_##section##_##key, why},
#include "harness/grammar/grammar.def"
    };

    for (unsigned row = 0; row < HARNESS_ROW_COUNT; row++) {
        const struct harness_key *key = harness_key((enum harness_row)row);
        bool is_said = harness_grammar_is_drawn((enum harness_row)row) ||
                       key->section >= HARNESS_SECTION_EXPECT ||
                       key->section == HARNESS_SECTION_GUEST;

        for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
            is_said = is_said || (said[i].row == (enum harness_row)row && said[i].why[0] != '\0');
        }
        if (!is_said) {
            CT_FAIL("%s of %s: neither drawn nor left out for a reason", key->key,
                    harness_section_title(key->section));
        }
    }
}
