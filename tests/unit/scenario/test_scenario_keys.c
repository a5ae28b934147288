/* Every key of the table, one at a time: a legal value that is not its default reaches the plan, is
 * printed, and reads back as the same plan. */
#include <stdio.h>

#include "harness/plan/key.h"
#include "tests/unit/scenario/scenario_testing.h"

enum { SETS_MAX = 4, SET_BYTES = 128 };

/* Every section has a place in it, or can be made by a set. */
static const char base[] = "# Every key has its turn.\nid: control.keys\n"
                           "job: {ranks: 4, steps: 8, model: mlp, batch_per_rank: 8, "
                           "checkpoint_every: 2, optimizer: {kind: sgd}}\n"
                           "faults: [{at: {rank: 0}, point: collective/pre, do: {none: true}}]\n"
                           "expect: {verdict: NONE}\n";

/* The same for keys of guests. */
static const char guest_base[] =
    "# Every key has its turn.\nid: control.keys\n"
    "job: {guest: {}, ranks: 4, steps: 8}\n"
    "faults: [{at: {rank: 0}, point: collective/pre, do: {none: true}}]\n"
    "expect: {verdict: NONE}\n";

static const char guest_of_two[] =
    "# A fault waits for another one.\nid: control.keys\n"
    "job: {guest: {}, ranks: 4, steps: 8}\n"
    "faults: [{at: {rank: 0}, point: collective/pre, do: {none: true}},\n"
    "         {at: {rank: 1}, point: collective/pre, do: {none: true}}]\n"
    "expect: {verdict: NONE}\n";

static const char *const section_path[HARNESS_SECTION_COUNT] = {
    [HARNESS_SECTION_TOP] = "",
    [HARNESS_SECTION_JOB] = "job.",
    [HARNESS_SECTION_GUEST] = "job.guest.",
    [HARNESS_SECTION_OPTIMIZER] = "job.optimizer.",
    [HARNESS_SECTION_JOIN] = "job.join.",
    [HARNESS_SECTION_MIXED] = "job.mixed_precision.",
    [HARNESS_SECTION_FAULT] = "faults.0.",
    [HARNESS_SECTION_AT] = "faults.0.at.",
    [HARNESS_SECTION_DO] = "faults.0.do.",
    [HARNESS_SECTION_IO] = "faults.0.do.io.",
    [HARNESS_SECTION_RESTORE] = "restore.",
    [HARNESS_SECTION_EXPECT] = "expect.",
    [HARNESS_SECTION_FINDING] = "expect.findings.0.",
    [HARNESS_SECTION_OP] = "expect.op.",
    [HARNESS_SECTION_SURVIVORS] = "expect.survivors.",
    [HARNESS_SECTION_EXPECT_RESTORE] = "expect.restore.",
    [HARNESS_SECTION_FORBID] = "forbid.",
    [HARNESS_SECTION_CANARY] = "canary.",
};

#define FINDINGS      "[{verdict: VALUE.LOST, culprit: none}]"
#define WITH_IO       "faults.0.do={io: {call: write, errno: ENOSPC, short: true}}"
#define WITH_FINDINGS "expect={verdict: VALUE.LOST, findings: " FINDINGS "}"
#define DATA          DDPROVE_SOURCE_DIR "/scenarios/models/data"

/* What a key needs beside it. before: also set in the plan that it is compared with. */
static const struct special {
    enum harness_row row;
    const char *value; /* NULL: as its type says */
    const char *before;
    const char *with;
} specials[] = {
    {HARNESS_ROW_TOP_covers, "[K12]", NULL, NULL},
    {HARNESS_ROW_JOB_device, "cuda", NULL, "job.collective=nccl"},
    {HARNESS_ROW_OPTIMIZER_nesterov, NULL, "job.optimizer.momentum=0.9", NULL},
    {HARNESS_ROW_OPTIMIZER_beta1, NULL, "job.optimizer.kind=adamw", NULL},
    {HARNESS_ROW_OPTIMIZER_beta2, NULL, "job.optimizer.kind=adamw", NULL},
    {HARNESS_ROW_OPTIMIZER_eps, NULL, "job.optimizer.kind=adamw", NULL},
    {HARNESS_ROW_OPTIMIZER_scale_growth, "4", NULL, NULL},
    {HARNESS_ROW_AT_micro, NULL, "job.micro_batches=3", NULL},
    {HARNESS_ROW_AT_run, NULL, "restore={}", NULL},
    {HARNESS_ROW_IO_call, "read", WITH_IO, NULL},
    {HARNESS_ROW_IO_errno, NULL, WITH_IO, NULL},
    {HARNESS_ROW_IO_after, NULL, WITH_IO, NULL},
    {HARNESS_ROW_IO_short, "false", WITH_IO, NULL},
    {HARNESS_ROW_IO_times, NULL, WITH_IO, NULL},
    {HARNESS_ROW_IO_bytes, NULL, "faults.0.do={io: {call: send, short: true}}", NULL},
    {HARNESS_ROW_IO_flip, NULL, "faults.0.do={io: {call: recv, flip: 1}}", NULL},
    {HARNESS_ROW_IO_stranger, NULL, "faults.0.do={io: {call: accept, stranger: silent}}", NULL},
    {HARNESS_ROW_RESTORE_edit, "truncate", NULL, NULL},
    {HARNESS_ROW_RESTORE_key, NULL, NULL, "restore.edit=drop_key"},
    {HARNESS_ROW_RESTORE_bytes, "7", "restore.edit=head", NULL},
    {HARNESS_ROW_RESTORE_find, NULL, "restore={edit: header, find: a, put: b}", NULL},
    {HARNESS_ROW_RESTORE_put, NULL, "restore={edit: header, find: a, put: b}", NULL},
    {HARNESS_ROW_RESTORE_everywhere, NULL, "restore={edit: header, find: a, put: b}", NULL},
    {HARNESS_ROW_GUEST_bitwise_steps, "[3, 7]", NULL, NULL},
    {HARNESS_ROW_GUEST_without, "[update, ledger]", NULL, NULL},
    {HARNESS_ROW_GUEST_prove, "[0, 3, 7]", NULL, "job.guest.adapter=torch"},
    {HARNESS_ROW_AT_tensor, NULL,
     "faults.0={at: {rank: 0}, point: optimizer/updated, do: {corrupt: zero}}", NULL},
    {HARNESS_ROW_EXPECT_judged, "[replicas, update]", NULL, NULL},
    {HARNESS_ROW_EXPECT_op, "{seq: 4}", NULL, NULL},
    {HARNESS_ROW_EXPECT_survivors, "{status: TIMEOUT}", NULL, NULL},
    {HARNESS_ROW_TOP_canary, "{outcome: FAIL}", NULL, NULL},
    {HARNESS_ROW_EXPECT_findings, FINDINGS, "expect.verdict=VALUE.LOST", NULL},
    {HARNESS_ROW_FINDING_verdict, "VALUE.SCALED", WITH_FINDINGS, "expect.verdict=VALUE.SCALED"},
    {HARNESS_ROW_FINDING_culprit, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_victims, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_detect_within_ms, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_op, "{seq: 4}", WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_step, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_phase, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_oracle, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_FINDING_mode, NULL, WITH_FINDINGS, NULL},
    {HARNESS_ROW_SURVIVORS_within_ms, NULL, "expect.survivors.status=TIMEOUT", NULL},
    {HARNESS_ROW_SURVIVORS_from_step, NULL, "expect.survivors.status=OK", NULL},
    {HARNESS_ROW_JOB_features, NULL, "job.data=synthetic", NULL},
    {HARNESS_ROW_JOB_data_file, DATA "/README.md",
     "job={ranks: 4, steps: 8, model: gpt, data: text, batch_per_rank: 8, samples: 1}", NULL},
    {HARNESS_ROW_JOB_sync_batchnorm, NULL,
     "job={ranks: 4, steps: 8, model: convnet, data: digits, batch_per_rank: 8, "
     "checkpoint_every: 2}",
     NULL},
    {HARNESS_ROW_JOB_label_file, DATA "/digits-labels-idx1-ubyte", NULL,
     "job={ranks: 4, steps: 8, model: mlp, data: idx, data_file: " DATA
     "/digits-images-idx3-ubyte, "
     "label_file: " DATA "/digits-labels-idx1-ubyte, batch_per_rank: 8, checkpoint_every: 2}"},
    {HARNESS_ROW_JOB_initial, DATA "/convnet.safetensors", NULL, NULL},
    {HARNESS_ROW_EXPECT_RESTORE_from_step, "4", NULL, NULL},
    {HARNESS_ROW_CANARY_outcome, "ERROR", NULL, NULL},
    {HARNESS_ROW_CANARY_verdict, NULL, "canary.outcome=FAIL", NULL},
    {HARNESS_ROW_CANARY_reason, NULL, "canary.outcome=FAIL", NULL},
};

static const struct special *special_of(enum harness_row row)
{
    static const struct special none = {HARNESS_ROW_COUNT, NULL, NULL, NULL};

    for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
        if (specials[i].row == row) {
            return &specials[i];
        }
    }
    return &none;
}

/* The last name of the row's list that is not its default. */
static const char *other_name(const struct harness_key *key)
{
    enum harness_names list = (enum harness_names)key->of;
    const char *found = NULL;
    const char *name;

    for (size_t i = 0; (name = harness_names_at(list, i, NULL)) != NULL; i++) {
        if (key->fallback == NULL || strcmp(name, key->fallback) != 0) {
            found = name;
        }
    }
    return found;
}

/* Texts of a form, and names that the model has. NULL: any will do. */
static const char *text_of_form(const char *key)
{
    return strcmp(key, "posts") == 0     ? "[\"barrier\", reduce f32 3 root 1]"
           : strcmp(key, "groups") == 0  ? "[\"low 0 1\", odd 1]"
           : strcmp(key, "delayed") == 0 ? "[\"fc0.weight\", fc1.bias]"
                                         : NULL;
}

/* A legal value that is not the default. */
static void other_value(const struct harness_key *key, char *out)
{
    static const char *const fixed[HARNESS_KEY_TYPE_COUNT] = {
        [HARNESS_KEY_TEXT] = "other",
        [HARNESS_KEY_MODEL] = "branchy",
        [HARNESS_KEY_DATASET] = "synthetic",
        [HARNESS_KEY_COLLECTIVE] = "recursive_doubling",
        [HARNESS_KEY_U64] = "18446744073709551615",
        [HARNESS_KEY_NUMBER] = "0.25",
        [HARNESS_KEY_KIB] = "0.5",
        [HARNESS_KEY_MS] = "7",
        [HARNESS_KEY_TRUE] = "true",
        [HARNESS_KEY_RANK] = "last",
        [HARNESS_KEY_FOREVER] = "30",
        [HARNESS_KEY_VALUE] = "3",
        [HARNESS_KEY_TEXTS] = "[\"true\", \"1e3\", \"a b\", \"~\"]",
        [HARNESS_KEY_SIZES] = "[64, 32, 10]",
        [HARNESS_KEY_PER_RANK] = "[5, 1, 7, 8]",
        [HARNESS_KEY_CULPRIT] = "[first, 2, last]",
        [HARNESS_KEY_VICTIMS] = "[first, 2, last]",
        [HARNESS_KEY_BUDGETS] = "{data: 7, end: 1}",
        [HARNESS_KEY_OPTION] = "{}",
        [HARNESS_KEY_FAULTS] = "[]",
    };
    char number[32];

    if (key->type == HARNESS_KEY_TEXTS && text_of_form(key->key) != NULL) {
        (void)snprintf(out, SET_BYTES, "%s", text_of_form(key->key));
    } else if (fixed[key->type] != NULL) {
        (void)snprintf(out, SET_BYTES, "%s", fixed[key->type]);
    } else if (key->type == HARNESS_KEY_BOOL) {
        (void)snprintf(out, SET_BYTES, "%s", strcmp(key->fallback, "true") == 0 ? "false" : "true");
    } else if (key->type == HARNESS_KEY_NAME) {
        (void)snprintf(out, SET_BYTES, "%s", other_name(key));
    } else if (key->type == HARNESS_KEY_SET || key->type == HARNESS_KEY_NAMES) {
        (void)snprintf(out, SET_BYTES, "[%s]", other_name(key));
    } else {
        CT_CHECK(key->type == HARNESS_KEY_INT || key->type == HARNESS_KEY_INDEX);
        (void)snprintf(number, sizeof(number), "%.0f", key->lo);
        if (key->fallback != NULL && strcmp(number, key->fallback) == 0) {
            (void)snprintf(number, sizeof(number), "%.0f", key->lo + 1);
        }
        (void)snprintf(out, SET_BYTES, "%s", number);
    }
}

static bool print_plan(const char *from, const char *const *sets, size_t set_count,
                       struct ddp_text *out)
{
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};

    if (scenario_parse(from, sets, set_count, &scenario, &err) != DDP_OK) {
        CT_FAIL("%s: %s", set_count > 0 ? sets[set_count - 1] : "base", err.text);
        return false;
    }
    CT_CHECK_EQ_U64(scenario.plan_count, 1);
    harness_plan_print(&scenario.plans[0], out);
    harness_scenario_fini(&scenario);
    return true;
}

static void check_reads_back(const char *text, const char *what)
{
    struct harness_scenario scenario;
    struct ddp_text again;
    struct ddp_err err = {{0}};

    if (scenario_parse(text, NULL, 0, &scenario, &err) != DDP_OK) {
        CT_FAIL("%s: %s\n%s", what, err.text, text);
        return;
    }
    ddp_text_init(&again, ddp_mem_system());
    harness_plan_print(&scenario.plans[0], &again);
    CT_CHECK_STR(ddp_text_str(&again), text);
    ddp_text_fini(&again);
    harness_scenario_fini(&scenario);
}

/* The plan with all sets differs from the one with the first so many, and reads back. */
static void check_change_of(const char *from, const char *const *sets, size_t before_count,
                            size_t set_count)
{
    struct ddp_text before;
    struct ddp_text after;

    ddp_text_init(&before, ddp_mem_system());
    ddp_text_init(&after, ddp_mem_system());
    if (print_plan(from, sets, before_count, &before) &&
        print_plan(from, sets, set_count, &after)) {
        if (strcmp(ddp_text_str(&before), ddp_text_str(&after)) == 0) {
            CT_FAIL("%s changes nothing", sets[set_count - 1]);
        }
        check_reads_back(ddp_text_str(&after), sets[set_count - 1]);
    }
    ddp_text_fini(&before);
    ddp_text_fini(&after);
}

/* Keys that only guests have. */
static bool is_guests(enum harness_row row)
{
    return harness_key(row)->section == HARNESS_SECTION_GUEST || row == HARNESS_ROW_AT_comm ||
           row == HARNESS_ROW_AT_kind || row == HARNESS_ROW_AT_elems ||
           row == HARNESS_ROW_AT_tensor || row == HARNESS_ROW_OP_comm ||
           row == HARNESS_ROW_OP_kind || row == HARNESS_ROW_EXPECT_judged ||
           row == HARNESS_ROW_DO_later || row == HARNESS_ROW_DO_ago || row == HARNESS_ROW_DO_stays;
}

static void check_key(enum harness_row row)
{
    const struct harness_key *key = harness_key(row);
    const struct special *special = special_of(row);
    const char *sets[SETS_MAX];
    char value[SET_BYTES];
    char set[2 * SET_BYTES];
    size_t before_count, count = 0;

    if (special->value != NULL) {
        (void)snprintf(value, sizeof(value), "%s", special->value);
    } else {
        other_value(key, value);
    }
    (void)snprintf(set, sizeof(set), "%s%s=%s", section_path[key->section], key->key, value);
    if (special->before != NULL) {
        sets[count++] = special->before;
    }
    before_count = count;
    if (special->with != NULL) {
        sets[count++] = special->with;
    }
    sets[count++] = set;
    check_change_of(is_guests(row) ? guest_base : base, sets, before_count, count);
}

/* Set to something else, each key shows, and survives. */
CT_TEST(keys, each_survives_print_and_parse)
{
    size_t count = 0;

    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);
        bool has_other = key->type != HARNESS_KEY_NAME || other_name(key) != NULL;

        if (i == HARNESS_ROW_JOB_guest) {
            /* it takes the place of most of the job's keys */
            check_change_of(base, (const char *const[]){"job={guest: {command: [a]}, ranks: 4}"}, 0,
                            1);
        } else if (key->section != HARNESS_SECTION_DO && key->type != HARNESS_KEY_SECTION &&
                   key->type != HARNESS_KEY_MATRIX && has_other) {
            check_key((enum harness_row)i);
            count++;
        }
    }
    CT_CHECK(count > 60);
}

/* Where an action can be used, and what the job needs for it. */
static size_t place_sets(enum harness_action_place place, const char **sets)
{
    switch (place) {
    case HARNESS_PLACE_DATA:
        sets[0] = "faults.0.point=bucket/launch";
        return 1;
    case HARNESS_PLACE_STREAM:
        sets[0] = "faults.0.point=forward/layer";
        sets[1] = "job={ranks: 4, steps: 8, model: mlp, batch_per_rank: 8, device: cuda, "
                  "collective: nccl}";
        return 2;
    case HARNESS_PLACE_MESSAGE:
        sets[0] = "faults.0={at: {rank: 1}, point: message/recv, do: {hang: true}}";
        return 1;
    case HARNESS_PLACE_LAUNCH:
        sets[0] = "faults.0={at: {rank: 1}, point: launch/spawn, do: {hang: true}}";
        return 1;
    default:
        return 0;
    }
}

/* The row of an action's own key. */
static const struct harness_key *action_key(const char *name)
{
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);

        if (key->section == HARNESS_SECTION_DO && strcmp(key->key, name) == 0) {
            return key;
        }
    }
    return NULL;
}

/* Each action, with the argument that its row asks for. */
CT_TEST(keys, each_action_survives)
{
    size_t count;
    const struct harness_variant *actions = harness_variants(HARNESS_NAMES_ACTIONS, &count);

    CT_CHECK_EQ_U64(count, HARNESS_ACTION_KIND_COUNT);
    for (size_t i = 0; i < count; i++) {
        const struct harness_key *key = action_key(actions[i].name);
        const char *sets[SETS_MAX] = {NULL};
        size_t before = place_sets(harness_action_place((enum harness_action_kind)i), sets);
        char value[SET_BYTES] = "zero"; /* a corruption that takes nothing */
        char set[2 * SET_BYTES];

        CT_REQUIRE(key != NULL);
        if (i == HARNESS_ACTION_IO) {
            (void)snprintf(value, sizeof(value), "{call: open, errno: EMFILE}");
        } else if (i != HARNESS_ACTION_CORRUPT) {
            other_value(key, value);
        }
        (void)snprintf(set, sizeof(set), "faults.0.do={%s: %s%s}", key->key, value,
                       i == HARNESS_ACTION_ARG ? ", value: 3" : "");
        if (i == HARNESS_ACTION_NONE) {
            sets[before++] = "faults.0.do={hang: true}";
        }
        sets[before] = set;
        if (i == HARNESS_ACTION_UNTIL) { /* a guest's, for the other one */
            check_change_of(guest_of_two, (const char *const[]){"faults.0.do={until: 1}"}, 0, 1);
            continue;
        }
        if (i == HARNESS_ACTION_EDIT) { /* a guest's */
            check_change_of(
                guest_base,
                (const char *const[]){
                    "faults.0={at: {rank: 0}, point: checkpoint/key, do: {skip: true}}", set},
                1, 2);
            continue;
        }
        check_change_of(base, sets, before, before + 1);
    }
}

/* Each argument of a collective, by number and by name. */
CT_TEST(keys, each_argument_survives)
{
    static const char *const sets[][1] = {
        {"faults.0.do={arg: count, value: 10}"},   {"faults.0.do={arg: kind, value: broadcast}"},
        {"faults.0.do={arg: dtype, value: bf16}"}, {"faults.0.do={arg: redop, value: max}"},
        {"faults.0.do={arg: root, value: 3}"},     {"faults.0.do={arg: index, value: 1}"},
    };

    CT_CHECK_EQ_U64(sizeof(sets) / sizeof(sets[0]), HARNESS_ARG_FIELD_COUNT);
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
        check_change_of(base, sets[i], 0, 1);
    }
}

/* What a corruption takes: its smallest legal form, then each key in turn. */
static void check_corruption(const struct harness_variant *corrupt)
{
    bool has_value = strstr(corrupt->keys, "value") != NULL;
    char least[SET_BYTES];

    (void)snprintf(least, sizeof(least), "faults.0.do={corrupt: %s%s}", corrupt->name,
                   has_value ? ", value: 2" : "");
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);
        const char *sets[] = {"faults.0.point=bucket/launch", least, NULL};
        char value[SET_BYTES];
        char set[2 * SET_BYTES];

        if (key->section != HARNESS_SECTION_DO || strstr(corrupt->keys, key->key) == NULL ||
            is_guests((enum harness_row)i) ||
            (strcmp(key->key, "bit") == 0 && strcmp(corrupt->name, "flip") != 0)) {
            continue;
        }
        other_value(key, value);
        (void)snprintf(set, sizeof(set), "faults.0.do.%s=%s", key->key, value);
        sets[2] = set;
        check_change_of(base, sets, 2, 3);
    }
}

/* Each key of each corruption. */
CT_TEST(keys, each_corruption_survives)
{
    size_t count;
    const struct harness_variant *corrupts = harness_variants(HARNESS_NAMES_CORRUPTS, &count);

    CT_CHECK_EQ_U64(count, HARNESS_CORRUPT_KIND_COUNT);
    for (size_t i = 0; i < count; i++) {
        check_corruption(&corrupts[i]);
    }
}

/* A default, written out, changes nothing. */
CT_TEST(keys, defaults_mean_what_absence_means)
{
    struct ddp_text absent, written;

    ddp_text_init(&absent, ddp_mem_system());
    CT_REQUIRE(print_plan(base, NULL, 0, &absent));
    for (unsigned i = 0; i < HARNESS_ROW_COUNT; i++) {
        const struct harness_key *key = harness_key((enum harness_row)i);
        char set[2 * SET_BYTES];

        if (key->section != HARNESS_SECTION_JOB || key->fallback == NULL ||
            key->fallback[0] == '\0' || strcmp(key->key, "checkpoint_every") == 0) {
            continue;
        }
        (void)snprintf(set, sizeof(set), "job.%s=%s", key->key, key->fallback);
        ddp_text_init(&written, ddp_mem_system());
        if (print_plan(base, (const char *[]){set}, 1, &written)) {
            CT_CHECK_STR(ddp_text_str(&written), ddp_text_str(&absent));
        }
        ddp_text_fini(&written);
    }
    ddp_text_fini(&absent);
}
