/* Scenarios whose job is a guest: what they may say, and their plans as text. */
#include <stdio.h>

#include "tests/unit/scenario/scenario_testing.h"

/* Parses, prints and parses again. Returns the first print; the caller frees it. */
static struct ddp_text check_round_trip(const char *text)
{
    struct harness_scenario scenario;
    struct harness_scenario again;
    struct ddp_text first;
    struct ddp_text second;
    struct ddp_err err = {{0}};

    ddp_text_init(&first, ddp_mem_system());
    ddp_text_init(&second, ddp_mem_system());
    if (scenario_parse(text, NULL, 0, &scenario, &err) != DDP_OK) {
        CT_FAIL("%s\n%s", err.text, text);
        return first;
    }
    harness_plan_print(&scenario.plans[0], &first);
    if (scenario_parse(ddp_text_str(&first), NULL, 0, &again, &err) == DDP_OK) {
        harness_plan_print(&again.plans[0], &second);
        CT_CHECK_STR(ddp_text_str(&second), ddp_text_str(&first));
        harness_scenario_fini(&again);
    } else {
        CT_FAIL("%s\n%s", err.text, ddp_text_str(&first));
    }
    ddp_text_fini(&second);
    harness_scenario_fini(&scenario);
    return first;
}

CT_TEST(guest, a_rich_plan_reads_back)
{
    static const char *const lines[] = {"command: [\"./train\", \"--lr\", \"1e-3\", a b, \"~\"]",
                                        "adapter: mpi",
                                        "ranks: 7",
                                        "comm: \"a: b\"",
                                        "kind: reduce_scatter",
                                        "elems: 5",
                                        "kind: all_gather"};
    struct ddp_text text = check_round_trip(
        "# A guest of many words.\n"
        "id: control.rich\n"
        "job: {guest: {command: [./train, --lr, \"1e-3\", a b, \"~\"], launcher: mpirun, "
        "adapter: mpi}, ranks: 7, timeout_ms: 2500}\n"
        "faults:\n"
        "  - {at: {rank: last, comm: \"a: b\", kind: reduce_scatter, elems: 5, hit: 3, times: 0}, "
        "point: collective/pre, do: {arg: redop, value: max}}\n"
        "  - {at: {rank: middle, seq: 9, bucket: 0, phase: backward}, point: collective/post, do: "
        "{corrupt: flip, bit: 30, elem: 5}}\n"
        "expect: {verdict: MISMATCH.REDUCTION, culprit: injected, op: {comm: \"a: b\", kind: "
        "all_gather}}\n");

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (strstr(ddp_text_str(&text), lines[i]) == NULL) {
            CT_FAIL("%s is not in\n%s", lines[i], ddp_text_str(&text));
        }
    }
    CT_CHECK(strstr(ddp_text_str(&text), "steps") == NULL); /* it announces none */
    CT_CHECK(strstr(ddp_text_str(&text), "model") == NULL); /* its program's business */
    ddp_text_fini(&text);
}

/* A program takes whatever words it likes, and gets them as they are. */
CT_TEST(guest, words_of_a_command_are_kept)
{
    static const char *const words[] = {"sh",   "-c", "a\nb\tc \"d\" \\ 'e' # f: g", "", "\xc3\xa4",
                                        "true", " "};
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    const struct harness_texts *command;
    struct ddp_text text = check_round_trip(
        "# Any words.\nid: control.words\n"
        "job: {guest: {command: [sh, -c, \"a\\nb\\tc \\\"d\\\" \\\\ 'e' # f: g\", \"\", "
        "\"\xc3\xa4\", \"true\", \" \"]}, ranks: 2}\n"
        "expect: {verdict: NONE}\n");

    CT_REQUIRE_OK(scenario_parse(ddp_text_str(&text), NULL, 0, &scenario, &err));
    command = &scenario.plans[0].job.guest.command;
    CT_REQUIRE(command->count == sizeof words / sizeof words[0]);
    for (size_t i = 0; i < command->count; i++) {
        CT_CHECK_STR(command->items[i], words[i]);
    }
    harness_scenario_fini(&scenario);
    ddp_text_fini(&text);
}

/* Without a command: it stands behind "--" of ddprove exec. */
CT_TEST(guest, a_plan_without_a_command_reads_back)
{
    struct ddp_text text = check_round_trip("# A guest.\nid: control.least\n"
                                            "job: {guest: {}, ranks: 2}\n"
                                            "expect: {verdict: NONE}\n");

    ddp_text_fini(&text);
}

/* What the guest library can do, where it can do it. */
CT_TEST(guest, each_action_is_taken_where_it_can_be_done)
{
    static const char *const anywhere[] = {"none: true",    "kill: SIGKILL", "exit: 0",
                                           "abort: true",   "delay: 5",      "hang: true",
                                           "stop: forever", "stop: 20"};
    static const char *const of_data[] = {"corrupt: zero",           "corrupt: shift, value: 0",
                                          "corrupt: flip, bit: 63",  "corrupt: nan, elem: 7",
                                          "corrupt: set, value: -1", "corrupt: scale, value: 3",
                                          "corrupt: set, ago: 1",    "corrupt: flip, stays: true"};
    static const char *const before[] = {"skip: true",           "dup: true",
                                         "arg: count, value: 0", "arg: redop, value: max",
                                         "arg: root, value: 1",  "arg: dtype, value: f16"};
    static const struct {
        const char *point;
        bool has_data, is_before;
    } points[] = {{"step/begin", false, false},
                  {"collective/pre", true, true},
                  {"collective/post", true, false}};

    for (size_t p = 0; p < 3; p++) {
        const char *actions[32];
        size_t count = 0;

        for (size_t i = 0; i < sizeof anywhere / sizeof anywhere[0]; i++) {
            actions[count++] = anywhere[i];
        }
        for (size_t i = 0; points[p].has_data && i < sizeof of_data / sizeof of_data[0]; i++) {
            actions[count++] = of_data[i];
        }
        for (size_t i = 0; points[p].is_before && i < sizeof before / sizeof before[0]; i++) {
            actions[count++] = before[i];
        }
        for (size_t i = 0; i < count; i++) {
            char yaml[512];
            struct ddp_text text;

            (void)snprintf(yaml, sizeof yaml,
                           "# An action.\nid: control.action\njob: {guest: {}, ranks: 2}\n"
                           "faults: [{at: {rank: 1}, point: %s, do: {%s}}]\n"
                           "expect: {verdict: NONE}\n",
                           points[p].point, actions[i]);
            text = check_round_trip(yaml);
            ddp_text_fini(&text);
        }
    }
}

/* What an adapter can do is not refused: MPI's data are the host's, and a program may announce its
 * steps beside any adapter. */
CT_TEST(guest, what_adapters_can_do)
{
    static const char *const faults[][3] = {
        {"mpi", "collective/pre", "corrupt: zero"},
        {"mpi", "collective/post", "corrupt: nan"},
        {"mpi", "collective/post", "kill: SIGKILL"},
        {"mpi", "step/begin", "kill: SIGKILL"},
        {"nccl", "collective/pre", "arg: redop, value: prod"},
        {"nccl", "collective/pre", "skip: true"},
        {"nccl", "collective/pre", "skip: true, later: 1"},
        {"nccl", "collective/pre", "arg: dtype, value: bf16"},
        {"mpi", "collective/pre", "arg: dtype, value: i64"},
        {"mpi", "collective/post", "corrupt: set, ago: 1"},
        {"none", "launch/spawn", "skip: true"},
        {"mpi", "launch/spawn", "kill: SIGKILL"},
        {"nccl", "launch/spawn", "env: RANK, to: unset"},
        {"nccl", "step/begin", "kill: SIGKILL"},
        {"none", "collective/post", "corrupt: zero"},
        {"torch", "data/next", "dup: true"},
        {"torch", "backward/grad_ready", "skip: true"},
        {"torch", "optimizer/pre", "skip: true"},
        {"none", "optimizer/updated", "corrupt: nan"},
        {"none", "checkpoint/key", "edit: strip_prefix"},
        {"mpi", "launch/spawn", "delay: 20"},
    };

    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        char yaml[512];
        struct ddp_text text;

        (void)snprintf(yaml, sizeof yaml,
                       "# An adapter.\nid: control.adapter\n"
                       "job: {guest: {adapter: %s}, ranks: 2, steps: 3}\n"
                       "faults: [{at: {rank: 1}, point: %s, do: {%s}}]\n"
                       "expect: {verdict: NONE}\n",
                       faults[i][0], faults[i][1], faults[i][2]);
        text = check_round_trip(yaml);
        ddp_text_fini(&text);
    }
}

/* As many faults as the arena has room for. One more is in tests/data/broken. */
CT_TEST(guest, as_many_faults_as_can_be_armed)
{
    struct harness_scenario scenario;
    struct ddp_text yaml;
    struct ddp_err err = {{0}};

    ddp_text_init(&yaml, ddp_mem_system());
    ddp_text_add(&yaml, "# Many faults.\nid: control.many\njob: {guest: {}, ranks: 2}\nfaults:\n");
    for (int i = 0; i < HARNESS_GUEST_FAULTS_MAX; i++) {
        ddp_text_add(&yaml, "  - {at: {rank: 0}, point: step/begin, do: {none: true}}\n");
    }
    ddp_text_add(&yaml, "expect: {verdict: NONE}\n");
    CT_CHECK_OK(scenario_parse(ddp_text_str(&yaml), NULL, 0, &scenario, &err));
    CT_CHECK_EQ_U64(scenario.plans[0].fault_count, HARNESS_GUEST_FAULTS_MAX);
    harness_scenario_fini(&scenario);
    ddp_text_fini(&yaml);
}
