/* Guests: what their library lets a fault do, and keys that only they or only our own jobs have. */
#include <math.h>
#include <string.h>

#include "harness/guest/ability.h"
#include "harness/scenario/reader.h"

/* Refuse the first of these keys that is stated. */
static ddp_status refuse_stated(const struct harness_reader *reader,
                                const struct harness_yaml_node *map, const enum harness_row *rows,
                                size_t count, const char *why)
{
    for (size_t i = 0; i < count; i++) {
        const struct harness_yaml_node *node = harness_reader_node(map, rows[i]);

        if (node != NULL) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID, "\"%s\": %s; remove it",
                                     harness_key(rows[i])->key, why);
        }
    }
    return DDP_OK;
}

#define REFUSE(reader, map, why, ...)                                   \
    refuse_stated(reader, map, (const enum harness_row[]){__VA_ARGS__}, \
                  sizeof((const enum harness_row[]){__VA_ARGS__}) / sizeof(enum harness_row), why)

static const enum guest_adapter adapters[HARNESS_GUEST_ADAPTER_COUNT] = {
    [HARNESS_GUEST_ADAPTER_NONE] = GUEST_ADAPTER_NONE,
    [HARNESS_GUEST_ADAPTER_MPI] = GUEST_ADAPTER_MPI,
    [HARNESS_GUEST_ADAPTER_NCCL] = GUEST_ADAPTER_NCCL,
    [HARNESS_GUEST_ADAPTER_TORCH] = GUEST_ADAPTER_TORCH};

static const char only_guests[] = "only a guest's calls have it (job.guest)";

/* The library keeps no more of a communicator's name. */
static ddp_status check_comm(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, enum harness_row row)
{
    const struct harness_yaml_node *node = harness_reader_node(map, row);

    return node == NULL || node->text == NULL || strlen(node->text) < GUEST_NAME_BYTES
               ? DDP_OK
               : harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                   "no communicator has a name of more than %d bytes",
                                   GUEST_NAME_BYTES - 1);
}

ddp_status harness_scenario_check_guest_trigger(const struct harness_reader *reader,
                                                const struct harness_yaml_node *map,
                                                const struct harness_trigger *at)
{
    if (!harness_plan_is_guest(reader->plan)) {
        return REFUSE(reader, map, only_guests, HARNESS_ROW_AT_comm, HARNESS_ROW_AT_kind,
                      HARNESS_ROW_AT_elems, HARNESS_ROW_AT_tensor);
    }
    DDP_TRY(check_comm(reader, map, HARNESS_ROW_AT_comm));
    if (at->run == HARNESS_RUN_RESTORE) {
        return REFUSE(reader, map, "a guest is not restored", HARNESS_ROW_AT_run);
    }
    return REFUSE(reader, map, "a guest does not tell it", HARNESS_ROW_AT_micro,
                  HARNESS_ROW_AT_param, HARNESS_ROW_AT_layer);
}

ddp_status harness_scenario_check_guest_op(const struct harness_reader *reader,
                                           const struct harness_yaml_node *map)
{
    if (map == NULL) {
        return DDP_OK;
    }
    if (!harness_plan_is_guest(reader->plan)) {
        if (reader->plan->job.groups.count > 0) {
            return REFUSE(reader, map, only_guests, HARNESS_ROW_OP_kind);
        }
        return REFUSE(reader, map, only_guests, HARNESS_ROW_OP_comm, HARNESS_ROW_OP_kind);
    }
    return check_comm(reader, map, HARNESS_ROW_OP_comm);
}

/* Oracles that look at guests (harness/watch, harness/observed). */
static bool is_guest_oracle(enum harness_oracle_id oracle)
{
    switch (oracle) {
    case HARNESS_ORACLE_PROGRAM:
    case HARNESS_ORACLE_LEDGER:
    case HARNESS_ORACLE_REDUCTION:
    case HARNESS_ORACLE_UPDATE:
    case HARNESS_ORACLE_REPLICAS:
    case HARNESS_ORACLE_BROADCAST:
    case HARNESS_ORACLE_LIVENESS:
    case HARNESS_ORACLE_GRADIENT:
    case HARNESS_ORACLE_USAGE:
    case HARNESS_ORACLE_CHECKPOINT:
        return true;
    default:
        return false;
    }
}

static const char guest_oracles[] = "program, ledger, gradient, reduction, update, replicas, "
                                    "broadcast, usage, checkpoint and liveness do";

ddp_status harness_scenario_check_guest_judged(const struct harness_reader *reader,
                                               const struct harness_yaml_node *map,
                                               const struct harness_expect *expect)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_EXPECT_judged);

    if (!harness_plan_is_guest(reader->plan)) {
        return REFUSE(reader, map, "our own jobs are judged by all oracles, or are INCONCLUSIVE",
                      HARNESS_ROW_EXPECT_judged);
    }
    for (int i = 0; i < HARNESS_ORACLE_COUNT; i++) {
        if (expect->is_judged[i] && !is_guest_oracle((enum harness_oracle_id)i)) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "the oracle %s judges no guest; %s",
                                     harness_oracle_name((enum harness_oracle_id)i), guest_oracles);
        }
    }
    return DDP_OK;
}

static ddp_status check_without(const struct harness_reader *reader,
                                const struct harness_yaml_node *map,
                                const struct harness_plan *plan)
{
    const struct harness_yaml_node *guest =
        harness_reader_node(harness_reader_node(map, HARNESS_ROW_TOP_job), HARNESS_ROW_JOB_guest);
    const struct harness_yaml_node *node = harness_reader_node(guest, HARNESS_ROW_GUEST_without);

    for (int i = 0; i < HARNESS_ORACLE_COUNT; i++) {
        const enum harness_oracle_id oracle = (enum harness_oracle_id)i;

        if (plan->job.guest.is_without[i] && !is_guest_oracle(oracle)) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "the oracle %s judges no guest, so it cannot be left out; %s",
                                     harness_oracle_name(oracle), guest_oracles);
        }
        if (plan->job.guest.is_without[i] && plan->expect.is_judged[i]) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "expect.judged asks for the oracle %s, which is left out here",
                                     harness_oracle_name(oracle));
        }
    }
    return DDP_OK;
}

static ddp_status check_bitwise_steps(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map,
                                      const struct harness_plan *plan)
{
    const struct harness_sizes *steps = &plan->job.guest.bitwise_steps;
    const struct harness_yaml_node *guest =
        harness_reader_node(harness_reader_node(map, HARNESS_ROW_TOP_job), HARNESS_ROW_JOB_guest);
    const bool is_range =
        steps->count < 2 || (steps->count == 2 && steps->items[0] <= steps->items[1]);

    if (steps->count > 0 && is_range && plan->job.steps > 0 &&
        steps->items[steps->count - 1] >= plan->job.steps) {
        return harness_yaml_fail(harness_reader_node(guest, HARNESS_ROW_GUEST_bitwise_steps),
                                 reader->err, DDP_E_INVALID,
                                 "step %zu of a job of %u steps; they count from 0",
                                 steps->items[steps->count - 1], plan->job.steps);
    }
    return is_range ? DDP_OK
                    : harness_yaml_fail(harness_reader_node(guest, HARNESS_ROW_GUEST_bitwise_steps),
                                        reader->err, DDP_E_INVALID,
                                        "bitwise_steps is [step] or [first, last]");
}

/* Steps are played again by PyTorch's adapter. */
static ddp_status check_prove(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, const struct harness_plan *plan)
{
    const struct harness_yaml_node *guest =
        harness_reader_node(harness_reader_node(map, HARNESS_ROW_TOP_job), HARNESS_ROW_JOB_guest);
    const struct harness_sizes *steps = &plan->job.guest.prove;
    const struct harness_yaml_node *node = harness_reader_node(guest, HARNESS_ROW_GUEST_prove);

    for (size_t i = 0; i < steps->count; i++) {
        if (plan->job.steps > 0 && steps->items[i] >= plan->job.steps) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "step %zu of a job of %u steps; they count from 0",
                                     steps->items[i], plan->job.steps);
        }
    }
    return steps->count == 0 || plan->job.guest.adapter == HARNESS_GUEST_ADAPTER_TORCH
               ? DDP_OK
               : harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                   "steps are played again by PyTorch alone: adapter: torch");
}

ddp_status harness_scenario_check_guest_action(const struct harness_reader *reader,
                                               const struct harness_yaml_node *map,
                                               const struct harness_action *action)
{
    if (!harness_plan_is_guest(reader->plan) && action->stays) {
        return REFUSE(reader, map, only_guests, HARNESS_ROW_DO_stays);
    }
    return harness_plan_is_guest(reader->plan)
               ? DDP_OK
               : REFUSE(reader, map, only_guests, HARNESS_ROW_DO_later, HARNESS_ROW_DO_ago);
}

static ddp_status check_corruption(const struct harness_reader *reader,
                                   const struct harness_yaml_node *node,
                                   const struct harness_action *action)
{
    bool is_backwards = action->corrupt == HARNESS_CORRUPT_SHIFT && action->value < 0;
    bool is_many = action->corrupt == HARNESS_CORRUPT_FLIP &&
                   (action->bits != 1 || action->count != 1 || action->stride != 1);
    bool is_rounding = action->corrupt >= HARNESS_CORRUPT_ROUND_BF16;

    return is_backwards || is_many || is_rounding
               ? harness_yaml_fail(node, reader->err, DDP_E_INVALID, "in a guest, %s",
                                   is_many       ? "flip flips one bit of one element"
                                   : is_rounding ? "values are not rounded"
                                                 : "elements shift upwards only")
               : DDP_OK;
}

/* What a fault may do where a guest posts a call. */
static ddp_status check_call_action(const struct harness_reader *reader,
                                    const struct harness_yaml_node *node,
                                    const struct harness_action *action, bool is_posting)
{
    const char *const plain = harness_action_name(action->kind);

    if (action->kind == HARNESS_ACTION_CORRUPT) {
        return check_corruption(reader, node, action);
    }
    if (!is_posting) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s comes too late at collective/post; collective/pre is the "
                                 "place",
                                 plain);
    }
    if (action->kind == HARNESS_ACTION_ARG && action->arg != HARNESS_ARG_COUNT &&
        action->arg != HARNESS_ARG_DTYPE && action->arg != HARNESS_ARG_REDOP &&
        action->arg != HARNESS_ARG_ROOT) {
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "of a guest's call, count, dtype, redop and root can be changed, "
                                 "not %s",
                                 harness_names_of(HARNESS_NAMES_ARGS, (int)action->arg));
    }
    return DDP_OK;
}

static ddp_status check_action(const struct harness_reader *reader,
                               const struct harness_yaml_node *node,
                               const struct harness_fault *fault)
{
    const struct harness_action *action = &fault->action;
    const bool is_step = fault->point == DDP_FAULT_POINT_STEP_BEGIN;

    switch (action->kind) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_DELAY:
    case HARNESS_ACTION_HANG:
    case HARNESS_ACTION_UNTIL:
    case HARNESS_ACTION_STOP:
        return DDP_OK;
    case HARNESS_ACTION_SKIP:
    case HARNESS_ACTION_DUP:
    case HARNESS_ACTION_ARG:
    case HARNESS_ACTION_CORRUPT:
        return is_step ? harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                           "%s needs a call: point collective/pre",
                                           harness_action_name(action->kind))
                       : check_call_action(reader, node, action,
                                           fault->point == DDP_FAULT_POINT_COLLECTIVE_PRE);
    case HARNESS_ACTION_ENV:
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "env is of launch/spawn: the program has read it by then");
    case HARNESS_ACTION_EDIT:
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "edit is of checkpoint/key: it changes the keys of what is saved");
    default:
        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s cannot be done in a guest; its library can kill, exit, abort, "
                                 "stop, hang, delay, until, skip, dup, arg and corrupt",
                                 harness_action_name(action->kind));
    }
}

/* What a fault may do at a place that the program comes by. */
static ddp_status check_place_action(const struct harness_reader *reader,
                                     const struct harness_yaml_node *node,
                                     const struct harness_fault *fault)
{
    const struct harness_action *action = &fault->action;
    const bool has_tensor =
        fault->point == DDP_FAULT_POINT_GRAD_READY || fault->point == DDP_FAULT_POINT_PARAM_UPDATED;
    bool is_possible = false;

    switch (action->kind) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_DELAY:
    case HARNESS_ACTION_HANG:
    case HARNESS_ACTION_UNTIL:
    case HARNESS_ACTION_STOP:
        is_possible = true;
        break;
    case HARNESS_ACTION_SKIP:
        is_possible = fault->point != DDP_FAULT_POINT_PARAM_UPDATED && action->later == 0;
        break;
    case HARNESS_ACTION_DUP:
        is_possible = fault->point == DDP_FAULT_POINT_DATA_NEXT;
        break;
    case HARNESS_ACTION_CORRUPT:
        is_possible = has_tensor && action->ago == 0;
        DDP_TRY(check_corruption(reader, node, action));
        break;
    case HARNESS_ACTION_EDIT:
        is_possible = fault->point == DDP_FAULT_POINT_CHECKPOINT_KEY;
        break;
    default:
        break;
    }
    return is_possible ? DDP_OK
                       : harness_yaml_fail(
                             node, reader->err, DDP_E_INVALID, "%s cannot be done in a guest at %s",
                             harness_action_name(action->kind), ddp_fault_point_name(fault->point));
}

static ddp_status check_place(const struct harness_reader *reader,
                              const struct harness_yaml_node *map,
                              const struct harness_fault *fault)
{
    const struct harness_yaml_node *at = harness_reader_node(map, HARNESS_ROW_FAULT_at);
    const enum harness_guest_adapter adapter = reader->plan->job.guest.adapter;
    const char *lack = guest_ability_lack_of_place(adapters[adapter]);

    if (lack != NULL) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                                 DDP_E_INVALID, "%s, adapter %s: %s",
                                 ddp_fault_point_name(fault->point),
                                 harness_guest_adapter_name(adapter), lack);
    }
    DDP_TRY(REFUSE(reader, at, "no call is posted there", HARNESS_ROW_AT_comm, HARNESS_ROW_AT_kind,
                   HARNESS_ROW_AT_elems, HARNESS_ROW_AT_seq, HARNESS_ROW_AT_bucket));
    if (fault->point != DDP_FAULT_POINT_GRAD_READY &&
        fault->point != DDP_FAULT_POINT_PARAM_UPDATED) {
        DDP_TRY(REFUSE(reader, at, "this point is about no parameter", HARNESS_ROW_AT_tensor));
    }
    return check_place_action(reader, harness_reader_node(map, HARNESS_ROW_FAULT_do), fault);
}

/* As the guest library names what a fault does to a call; all kinds of damage are alike to an
 * adapter. */
static enum guest_action action_of(const struct harness_action *action, uint64_t *out_value)
{
    *out_value = 0;
    switch (action->kind) {
    case HARNESS_ACTION_CORRUPT:
        return GUEST_ACTION_ZERO;
    case HARNESS_ACTION_SKIP:
        return action->later > 0 ? GUEST_ACTION_LATER : GUEST_ACTION_SKIP;
    case HARNESS_ACTION_ARG:
        if (action->arg == HARNESS_ARG_DTYPE) {
            *out_value = guest_ability_dtype(ddp_dtype_name((enum ddp_dtype)action->arg_value));
            return GUEST_ACTION_DTYPE;
        }
        return GUEST_ACTION_NOTHING; /* each adapter has every reduction that a plan can name */
    default:
        return GUEST_ACTION_NOTHING;
    }
}

/* What the guest's adapter cannot do: the fault would never fire, or change nothing. */
static ddp_status check_ability(const struct harness_reader *reader,
                                const struct harness_yaml_node *map,
                                const struct harness_fault *fault)
{
    const enum harness_guest_adapter adapter = reader->plan->job.guest.adapter;
    const bool is_post = fault->point == DDP_FAULT_POINT_COLLECTIVE_POST;
    uint64_t value = 0;
    const enum guest_action action = action_of(&fault->action, &value);
    const char *lack = guest_ability_lack(
        adapters[adapter], is_post ? GUEST_POINT_DONE : GUEST_POINT_POST, action, value);
    const bool is_of_action = action != GUEST_ACTION_NOTHING && !is_post;

    if (fault->point == DDP_FAULT_POINT_STEP_BEGIN) {
        lack = adapter != HARNESS_GUEST_ADAPTER_NONE && reader->plan->job.steps == 0
                   ? "only the program itself announces steps, and job.steps does not say that it "
                     "does"
                   : NULL;
    }
    return lack == NULL
               ? DDP_OK
               : harness_yaml_fail(harness_reader_node(map, is_of_action ? HARNESS_ROW_FAULT_do
                                                                         : HARNESS_ROW_FAULT_point),
                                   reader->err, DDP_E_INVALID, "%s, adapter %s: %s",
                                   is_of_action ? harness_action_name(fault->action.kind)
                                                : ddp_fault_point_name(fault->point),
                                   harness_guest_adapter_name(adapter), lack);
}

/* What can be done to a rank as it is started: by whoever starts it. */
static ddp_status check_launch(const struct harness_reader *reader,
                               const struct harness_yaml_node *map,
                               const struct harness_fault *fault)
{
    const struct harness_yaml_node *at = harness_reader_node(map, HARNESS_ROW_FAULT_at);

    if (reader->plan->job.guest.launcher != HARNESS_GUEST_LAUNCHER_OWN) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                                 DDP_E_INVALID,
                                 "launch/spawn needs launcher: own; another one starts the ranks "
                                 "by itself");
    }
    DDP_TRY(REFUSE(reader, at, "nothing of the rank runs yet at launch/spawn", HARNESS_ROW_AT_comm,
                   HARNESS_ROW_AT_kind, HARNESS_ROW_AT_elems, HARNESS_ROW_AT_seq,
                   HARNESS_ROW_AT_bucket, HARNESS_ROW_AT_step, HARNESS_ROW_AT_phase,
                   HARNESS_ROW_AT_tensor));
    switch (fault->action.kind) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_ENV:
    case HARNESS_ACTION_DELAY:
        return DDP_OK;
    case HARNESS_ACTION_SKIP:
        return fault->action.later == 0
                   ? DDP_OK
                   : harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_do), reader->err,
                                       DDP_E_INVALID, "later needs a call: point collective/pre");
    default:
        break;
    }
    return harness_yaml_fail(
        harness_reader_node(map, HARNESS_ROW_FAULT_do), reader->err, DDP_E_INVALID,
        "at launch/spawn a guest can be given env, delayed, skipped, and ended by kill, "
        "exit and abort, not %s",
        harness_action_name(fault->action.kind));
}

ddp_status harness_scenario_check_guest_fault(const struct harness_reader *reader,
                                              const struct harness_yaml_node *map,
                                              const struct harness_fault *fault)
{
    const struct harness_yaml_node *at = harness_reader_node(map, HARNESS_ROW_FAULT_at);

    if (fault->point == DDP_FAULT_POINT_LAUNCH_SPAWN) {
        return check_launch(reader, map, fault);
    }
    if (guest_ability_place(ddp_fault_point_name(fault->point)) >= 0) {
        return check_place(reader, map, fault);
    }
    if (fault->point != DDP_FAULT_POINT_STEP_BEGIN &&
        fault->point != DDP_FAULT_POINT_COLLECTIVE_PRE &&
        fault->point != DDP_FAULT_POINT_COLLECTIVE_POST) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                                 DDP_E_INVALID,
                                 "a guest does not pass %s; its points are launch/spawn, "
                                 "data/next, step/begin, backward/grad_ready, collective/pre, "
                                 "collective/post, optimizer/pre, optimizer/updated and "
                                 "checkpoint/key",
                                 ddp_fault_point_name(fault->point));
    }
    DDP_TRY(REFUSE(reader, at, "this point is about no parameter", HARNESS_ROW_AT_tensor));
    if (fault->point == DDP_FAULT_POINT_STEP_BEGIN) {
        DDP_TRY(REFUSE(reader, at, "no call is posted at step/begin", HARNESS_ROW_AT_comm,
                       HARNESS_ROW_AT_kind, HARNESS_ROW_AT_elems, HARNESS_ROW_AT_seq,
                       HARNESS_ROW_AT_bucket));
    }
    DDP_TRY(check_action(reader, harness_reader_node(map, HARNESS_ROW_FAULT_do), fault));
    return check_ability(reader, map, fault);
}

ddp_status harness_scenario_check_guest_top(const struct harness_reader *reader,
                                            const struct harness_yaml_node *map,
                                            const struct harness_plan *plan)
{
    const struct harness_yaml_node *expect = harness_reader_node(map, HARNESS_ROW_TOP_expect);

    DDP_TRY(REFUSE(reader, map, "a guest is not restored", HARNESS_ROW_TOP_restore));
    DDP_TRY(REFUSE(reader, expect, "a guest does not tell it", HARNESS_ROW_EXPECT_restore,
                   HARNESS_ROW_EXPECT_survivors, HARNESS_ROW_EXPECT_says));
    if (plan->fault_count > HARNESS_GUEST_FAULTS_MAX) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_TOP_faults), reader->err,
                                 DDP_E_INVALID, "%u faults; in a guest at most %d can be armed",
                                 plan->fault_count, HARNESS_GUEST_FAULTS_MAX);
    }
    DDP_TRY(check_bitwise_steps(reader, map, plan));
    DDP_TRY(check_prove(reader, map, plan));
    DDP_TRY(check_without(reader, map, plan));
    return plan->is_driver[HARNESS_DRIVER_PROC]
               ? DDP_OK
               : harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_TOP_drivers), reader->err,
                                   DDP_E_INVALID,
                                   "a guest has real processes only: drivers: [proc]");
}
