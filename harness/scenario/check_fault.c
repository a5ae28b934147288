/* What keys of a fault mean together: where it fires, what it does, and whether that can be done
 * there. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "harness/scenario/reader.h"

static ddp_status check_below(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, enum harness_row row,
                              int64_t value, uint32_t limit, const char *what)
{
    if (value < (int64_t)limit || harness_plan_is_guest(reader->plan)) {
        return DDP_OK;
    }
    return harness_yaml_fail(harness_reader_node(map, row), reader->err, DDP_E_INVALID,
                             "%s %lld is never reached: the job has %u %s, counted from 0",
                             harness_key(row)->key, (long long)value, limit, what);
}

ddp_status harness_scenario_check_trigger(const struct harness_reader *reader,
                                          const struct harness_yaml_node *map, void *kept)
{
    const struct harness_job *job = &reader->plan->job;
    const struct harness_trigger *at = kept;

    DDP_TRY(harness_scenario_check_guest_trigger(reader, map, at));
    DDP_TRY(check_below(reader, map, HARNESS_ROW_AT_step, at->step, job->steps, "steps"));
    return check_below(reader, map, HARNESS_ROW_AT_micro, at->micro, job->micro_batches,
                       "micro-batches");
}

/* The one action of a `do`; the other keys say more about it. */
static ddp_status find_action(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, enum harness_action_kind *out)
{
    const struct harness_yaml_node *found = NULL;

    for (size_t i = 0; i < map->count; i++) {
        for (unsigned kind = 0; kind < HARNESS_ACTION_KIND_COUNT; kind++) {
            if (strcmp(map->keys[i]->text, harness_action_name((enum harness_action_kind)kind)) !=
                0) {
                continue;
            }
            if (found != NULL) {
                return harness_yaml_fail(map->keys[i], reader->err, DDP_E_INVALID,
                                         "a fault does one thing: %s or %s; write two faults",
                                         found->text, map->keys[i]->text);
            }
            found = map->keys[i];
            *out = (enum harness_action_kind)kind;
        }
    }
    if (found == NULL) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "do names no action; as in {kill: SIGKILL} or {none: true}");
    }
    return DDP_OK;
}

/* `value` of a corruption: a number; a shift has a default. */
static ddp_status read_amount(const struct harness_reader *reader,
                              const struct harness_yaml_node *map,
                              const struct harness_yaml_node *value, struct harness_action *action)
{
    const char *name = harness_names_of(HARNESS_NAMES_CORRUPTS, (int)action->corrupt);
    bool is_shift = action->corrupt == HARNESS_CORRUPT_SHIFT;

    if (action->ago > 0) {
        bool is_nought = value == NULL || (harness_yaml_number(value, &action->value) &&
                                           action->value == 0.0); /* as plans are printed */

        return is_nought ? DDP_OK
                         : harness_yaml_fail(value, reader->err, DDP_E_INVALID,
                                             "corrupt: set takes value or ago, not both");
    }
    if (value == NULL && is_shift) {
        action->value = 1.0;
        return DDP_OK;
    }
    if (value == NULL) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "corrupt: %s needs value, as in {corrupt: %s, value: 0.5}", name,
                                 name);
    }
    if (!harness_yaml_number(value, &action->value)) {
        return harness_yaml_fail(value, reader->err, DDP_E_INVALID,
                                 "value of corrupt: %s wants a number, not \"%.60s\"", name,
                                 value->text);
    }
    if (is_shift && (!(fabs(action->value) <= 1e9) || floor(action->value) != action->value)) {
        return harness_yaml_fail(value, reader->err, DDP_E_INVALID,
                                 "elements shift by whole places, not by %.60s", value->text);
    }
    return DDP_OK;
}

/* `value` of an argument: a name if the argument has names, else a number. */
static ddp_status read_argument(const struct harness_reader *reader,
                                const struct harness_yaml_node *map,
                                const struct harness_yaml_node *value,
                                struct harness_action *action)
{
    static const enum harness_names lists[HARNESS_ARG_FIELD_COUNT] = {
#define X(id, name, list) [id] = HARNESS_NAMES_##list,
        HARNESS_ARG_TABLE(X)
#undef X
    };
    const char *name = harness_names_of(HARNESS_NAMES_ARGS, (int)action->arg);
    int64_t number = 0;
    size_t index;
    int found;

    if (value == NULL) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "arg: %s needs value, as in {arg: count, value: 10}", name);
    }
    if (lists[action->arg] != HARNESS_NAMES_NONE) {
        DDP_TRY(harness_reader_find(reader, value, lists[action->arg], &index, &found));
        action->arg_value = (uint64_t)found;
        return DDP_OK;
    }
    if (!harness_yaml_int(value, &number) || number < 0) {
        return harness_yaml_fail(value, reader->err, DDP_E_INVALID,
                                 "value of arg: %s wants a whole number from 0, not \"%.60s\"",
                                 name, value->text);
    }
    action->arg_value = (uint64_t)number;
    return DDP_OK;
}

ddp_status harness_scenario_check_action(const struct harness_reader *reader,
                                         const struct harness_yaml_node *map, void *kept)
{
    const struct harness_key *key = harness_key(HARNESS_ROW_DO_value);
    const struct harness_yaml_node *value = harness_reader_node(map, HARNESS_ROW_DO_value);
    struct harness_action *action = kept;

    DDP_TRY(find_action(reader, map, &action->kind));
    DDP_TRY(harness_scenario_check_guest_action(reader, map, action));
    if (!harness_key_applies(key, action)) {
        return DDP_OK;
    }
    return action->kind == HARNESS_ACTION_ARG ? read_argument(reader, map, value, action)
                                              : read_amount(reader, map, value, action);
}

ddp_status harness_scenario_check_io(const struct harness_reader *reader,
                                     const struct harness_yaml_node *map, void *kept)
{
    const struct harness_io_fault *io = kept;
    bool is_message = io->call == HARNESS_IO_SEND || io->call == HARNESS_IO_RECV;
    bool has_size = is_message || io->call == HARNESS_IO_READ || io->call == HARNESS_IO_WRITE;

    if (!io->is_set) {
        return DDP_OK;
    }
    if (io->is_short && !has_size) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_IO_short), reader->err,
                                 DDP_E_INVALID, "only read, write, send and recv can be short");
    }
    if (io->bytes > 0 && !(io->is_short && is_message)) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_IO_bytes), reader->err,
                                 DDP_E_INVALID, "bytes is for send and recv with short: true");
    }
    if (io->flip >= 0 && (io->call != HARNESS_IO_RECV || io->is_short || io->error != 0)) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_IO_flip), reader->err,
                                 DDP_E_INVALID, "flip is for recv, without errno and short");
    }
    if (io->stranger != HARNESS_STRANGER_NONE &&
        (io->call != HARNESS_IO_ACCEPT || io->error != 0 || io->times == 0)) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_IO_stranger), reader->err,
                                 DDP_E_INVALID,
                                 "a stranger is for accept, without errno, and so often as times "
                                 "says, at least once");
    }
    if (!io->is_short && io->error == 0 && io->flip < 0 && io->stranger == HARNESS_STRANGER_NONE) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "io needs errno, or short: true for a call that moves a part, or "
                                 "flip for one that brings something wrong, or a stranger");
    }
    if (io->error == EINTR && io->times == 0) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "an interrupted call is repeated: EINTR needs times above 0");
    }
    return DDP_OK;
}

/* Points that tell the hook a device and a stream. */
static bool is_kernel_point(enum ddp_fault_point point)
{
    return point == DDP_FAULT_POINT_FORWARD_LAYER || point == DDP_FAULT_POINT_OPTIMIZER_PRE ||
           point == DDP_FAULT_POINT_COLLECTIVE_LAUNCH;
}

static bool is_usable(enum harness_action_place place, enum ddp_fault_point point,
                      const struct harness_job *job)
{
    switch (place) {
    case HARNESS_PLACE_DATA:
        return ddp_fault_point_payload(point) == DDP_FAULT_PAYLOAD_DATA;
    case HARNESS_PLACE_ARGS:
        return ddp_fault_point_payload(point) == DDP_FAULT_PAYLOAD_ARGS;
    case HARNESS_PLACE_STREAM:
        return is_kernel_point(point) && job->device == HARNESS_DEVICE_CUDA;
    case HARNESS_PLACE_TWICE:
        return point == DDP_FAULT_POINT_COLLECTIVE_PRE || point == DDP_FAULT_POINT_DATA_NEXT ||
               point == DDP_FAULT_POINT_MESSAGE_RECV;
    case HARNESS_PLACE_MESSAGE:
        return point == DDP_FAULT_POINT_MESSAGE_RECV;
    case HARNESS_PLACE_LAUNCH:
        return point == DDP_FAULT_POINT_LAUNCH_SPAWN;
    case HARNESS_PLACE_EDITS: /* of our own checkpoints, restore.edit changes them */
    case HARNESS_PLACE_GUEST:
        return false;
    case HARNESS_PLACE_SKIPPABLE:
        return ddp_fault_point_is_skippable(point);
    default:
        return true;
    }
}

/* Why leaving out the work of this point would do nothing, or too much; NULL: neither. */
static const char *skip_lacks(const struct harness_fault *fault, const struct harness_job *job)
{
    if (fault->action.kind != HARNESS_ACTION_SKIP) {
        return NULL;
    }
    /* Other collectives run in one call: who leaves out the wait would leave out the call's end. */
    if (fault->point == DDP_FAULT_POINT_COLLECTIVE_WAIT && fault->at.bucket < 0) {
        return "collective/wait can be left out for a bucket: say at.bucket";
    }
    if (fault->point == DDP_FAULT_POINT_CHECKPOINT_KEY && fault->at.rank != 0 &&
        job->on_loss != HARNESS_ON_LOSS_CONTINUE) {
        return "checkpoint/key leaves nothing out on another rank than 0, which alone writes: say "
               "at.rank 0";
    }
    if (fault->point == DDP_FAULT_POINT_BUCKET_UNFLATTEN && job->gradient_as_bucket_view) {
        return "bucket/unflatten copies nothing where gradient_as_bucket_view is set: gradients "
               "lie in the bucket";
    }
    return NULL;
}

/* Why a job whose data a library moves never comes to this point; NULL: it may. */
static const char *library_lacks(const struct harness_fault *fault, const struct harness_job *job)
{
    if (job->collective.engine == HARNESS_ENGINE_SCHEDULE ||
        job->collective.engine == HARNESS_ENGINE_OPAQUE) {
        return NULL;
    }
    if (fault->point == DDP_FAULT_POINT_COLLECTIVE_SCHEDULE) {
        return "compiles no schedule";
    }
    /* Messages of the library are its own; ranks that agree before each call send some. */
    if (fault->point == DDP_FAULT_POINT_MESSAGE_RECV &&
        job->semantics != HARNESS_SEMANTICS_STRICT) {
        return "moves the data itself; only where ranks agree on each collective do they send "
               "messages: set semantics strict";
    }
    return NULL;
}

/* What a point cannot do is refused here, with the points that could. */
ddp_status harness_scenario_check_fault(const struct harness_reader *reader,
                                        const struct harness_yaml_node *map, void *kept)
{
    static const char *const lacks[HARNESS_PLACE_COUNT] = {
#define X(id, text) text,
        HARNESS_PLACE_TABLE(X)
#undef X
    };
    const struct harness_fault *fault = kept;
    enum harness_action_place place = harness_action_place(fault->action.kind);
    const char *lack = skip_lacks(fault, &reader->plan->job);
    const char *library = library_lacks(fault, &reader->plan->job);

    if (harness_plan_is_guest(reader->plan)) {
        return harness_scenario_check_guest_fault(reader, map, fault);
    }
    if (library != NULL) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                                 DDP_E_INVALID, "%s is never reached: collective %s %s",
                                 ddp_fault_point_name(fault->point),
                                 harness_collective_name(reader->plan->job.collective), library);
    }
    if (lack != NULL) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                                 DDP_E_INVALID, "%s", lack);
    }
    if (fault->point == DDP_FAULT_POINT_MESSAGE_RECV && fault->at.bucket >= 0) {
        return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                                 DDP_E_INVALID,
                                 "a message tells its collective, not the bucket: say at.seq");
    }
    if (is_usable(place, fault->point, &reader->plan->job)) {
        return DDP_OK;
    }
    return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_FAULT_point), reader->err,
                             DDP_E_INVALID, "%s %s", ddp_fault_point_name(fault->point),
                             lacks[place]);
}
