/* What a scenario says of a fault arrives in the arena as the guest library reads it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "harness/exec/exec.h"
#include "harness/guest/ability.h"
#include "harness/guest/ddprove_guest.h"
#include "harness/scenario/scenario.h"
#include "harness/watch/names.h"
#include "tests/ct.h"

/* The first fault of a plan that states `at`, `point` and `do` so. */
static struct guest_fault armed(const char *at, const char *point, const char *action)
{
    static struct guest_arena arena;
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "# A fault.\nid: control.armed\njob: {guest: {}, ranks: 4, steps: 9}\n"
                   "faults: [{at: {%s}, point: %s, do: {%s}}, "
                   "{at: {rank: 3}, point: step/begin, do: {none: true}}]\n"
                   "expect: {verdict: NONE}\n",
                   at, point, action);
    memset(&arena, 0xff, sizeof arena);
    if (harness_scenario_parse(text, strlen(text), "x.yaml", NULL, 0, &scenario, &err) != DDP_OK) {
        CT_FAIL("%s: %s", text, err.text);
        return (struct guest_fault){0};
    }
    harness_exec_arm(&scenario.plans[0], &arena);
    CT_CHECK_EQ_U64(arena.fault_count, 2);
    CT_CHECK_EQ_U64(arena.faults[1].rank, 4);
    harness_scenario_fini(&scenario);
    return arena.faults[0];
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CT_TEST(arm, each_action)
{
    static const struct {
        const char *action;
        enum guest_action expected;
        uint64_t value;
    } rows[] = {
        {"none: true", GUEST_ACTION_NOTHING, 0},
        {"kill: SIGSEGV", GUEST_ACTION_KILL, SIGSEGV},
        {"exit: 7", GUEST_ACTION_EXIT, 7},
        {"abort: true", GUEST_ACTION_ABORT, 0},
        {"stop: forever", GUEST_ACTION_STOP, 0},
        {"hang: true", GUEST_ACTION_HANG, 0},
        {"delay: 20", GUEST_ACTION_DELAY, 20000000},
        {"until: 1", GUEST_ACTION_UNTIL, 1},
        {"skip: true", GUEST_ACTION_SKIP, 0},
        {"dup: true", GUEST_ACTION_TWICE, 0},
        {"arg: count, value: 31", GUEST_ACTION_ELEMS, 31},
        {"arg: root, value: 2", GUEST_ACTION_ROOT, 2},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct guest_fault fault = armed("rank: 1", "collective/pre", rows[i].action);

        if (fault.action != rows[i].expected || fault.value != rows[i].value || fault.elem != 0) {
            CT_FAIL("%s: action %llu, value %llu", rows[i].action, (unsigned long long)fault.action,
                    (unsigned long long)fault.value);
        }
    }
}

/* Every reduction that a scenario can name is the library's of that name. */
CT_TEST(arm, each_reduction)
{
    for (int redop = 0; redop < DDP_REDOP_COUNT; redop++) {
        const char *name = ddp_redop_name((enum ddp_redop)redop);
        struct guest_fault fault;
        char action[64];

        (void)snprintf(action, sizeof action, "arg: redop, value: %s", name);
        fault = armed("rank: 1", "collective/pre", action);
        CT_CHECK_EQ_U64(fault.action, GUEST_ACTION_REDOP);
        CT_CHECK_STR(harness_watch_redop_name((uint32_t)fault.value), name);
        for (int a = GUEST_ADAPTER_NONE; a <= GUEST_ADAPTER_NCCL; a++) { /* and each adapter's */
            CT_CHECK(guest_ability_has_redop((enum guest_adapter)a, fault.value));
        }
    }
}

CT_TEST(arm, each_corruption)
{
    static const struct {
        const char *action;
        enum guest_action expected;
        uint64_t elem;
        double number; /* whose bits the value is, if not 0 */
        uint64_t value;
    } rows[] = {
        {"corrupt: zero", GUEST_ACTION_ZERO, 0, 0, 0},
        {"corrupt: double", GUEST_ACTION_SCALE, 0, 2, 0},
        {"corrupt: half", GUEST_ACTION_SCALE, 0, 0.5, 0},
        {"corrupt: scale, value: -0.25", GUEST_ACTION_SCALE, 0, -0.25, 0},
        {"corrupt: shift", GUEST_ACTION_SHIFT, 0, 0, 1},
        {"corrupt: shift, value: 3", GUEST_ACTION_SHIFT, 0, 0, 3},
        {"corrupt: nan, elem: 5", GUEST_ACTION_NAN_VALUE, 5, 0, 0},
        {"corrupt: flip, bit: 30, elem: 6", GUEST_ACTION_FLIP, 6, 0, 30},
        {"corrupt: set, value: 1e30, elem: 7", GUEST_ACTION_SET, 7, 1e30, 0},
    };
    static const char *const points[] = {"collective/pre", "collective/post"};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t p = 0; p < 2; p++) {
            const struct guest_fault fault = armed("rank: 1", points[p], rows[i].action);
            const uint64_t value =
                rows[i].number < 0 || rows[i].number > 0 ? bits_of(rows[i].number) : rows[i].value;

            CT_CHECK_EQ_U64(fault.point, p == 0 ? GUEST_POINT_POST : GUEST_POINT_DONE);
            if (fault.action != rows[i].expected || fault.value != value ||
                fault.elem != rows[i].elem) {
                CT_FAIL("%s: action %llu, value %llx, element %llu", rows[i].action,
                        (unsigned long long)fault.action, (unsigned long long)fault.value,
                        (unsigned long long)fault.elem);
            }
        }
    }
}

/* What is not stated is any. */
CT_TEST(arm, the_least_trigger)
{
    const struct guest_fault fault = armed("rank: 0", "step/begin", "none: true");

    CT_CHECK_EQ_U64(fault.point, GUEST_POINT_STEP);
    CT_CHECK_EQ_U64(fault.rank, 1);
    CT_CHECK(fault.step == 0 && fault.phase == 0 && fault.kind == 0 && fault.seq == 0 &&
             fault.bucket == 0 && fault.elem_count == 0 && fault.comm[0] == 0);
    CT_CHECK_EQ_U64(fault.hit, 1);
    CT_CHECK_EQ_U64(fault.times, 1);
}

/* Each key of a trigger, and 0 as a number that is stated. */
CT_TEST(arm, each_key_of_a_trigger)
{
    struct guest_fault fault =
        armed("rank: last, step: 8, phase: backward, bucket: 0, seq: 41, comm: world, kind: "
              "all_reduce, elems: 5, hit: 3, times: 0",
              "collective/pre", "none: true");
    uint64_t name[GUEST_NAME_BYTES / 8] = {0};

    CT_CHECK_EQ_U64(fault.rank, 4);
    CT_CHECK_EQ_U64(fault.step, 9);
    CT_CHECK_EQ_U64(fault.phase, 1 + DDP_PHASE_BACKWARD);
    CT_CHECK_EQ_U64(fault.bucket, 1);
    CT_CHECK_EQ_U64(fault.seq, 41);
    CT_CHECK_EQ_U64(fault.kind, 1 + DDPROVE_GUEST_ALL_REDUCE);
    CT_CHECK_EQ_U64(fault.elem_count, 6);
    CT_CHECK_EQ_U64(fault.hit, 3);
    CT_CHECK_EQ_U64(fault.times, UINT64_MAX); /* every time */
    memcpy(name, "world", 5);
    CT_CHECK_BYTES(fault.comm, name, sizeof name);
    fault = armed("rank: 1, kind: other, times: 7", "collective/post", "none: true");
    CT_CHECK_EQ_U64(fault.kind, 1 + DDPROVE_GUEST_OTHER);
    CT_CHECK_EQ_U64(fault.times, 7);
}

/* The longest name that the library keeps, whole. A longer one is refused before (scenarios). */
CT_TEST(arm, the_longest_name)
{
    const struct guest_fault fault =
        armed("rank: 1, comm: abcdefghijklmnopqrstuvwxyz01234", "collective/pre", "none: true");

    CT_CHECK_STR((const char *)fault.comm, "abcdefghijklmnopqrstuvwxyz01234");
}
