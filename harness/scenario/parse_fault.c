/* faults: when, where, what. An action must fit its point: data can only be changed where a point
 * shows data, arguments only where it shows arguments. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "harness/scenario/parse.h"

ddp_status harness_parse_rank(const struct harness_reader *reader,
                              const struct harness_yaml_node *node, uint32_t ranks, uint32_t *out)
{
    int64_t rank = 0;

    if (harness_schema_is_int(node, &rank)) {
        if (rank >= (int64_t)ranks) {
            return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                     "rank %s, but the job has %u ranks, counted from 0",
                                     node->text, ranks);
        }
    } else if (strcmp(node->text, "middle") == 0) {
        rank = ranks / 2;
    } else if (strcmp(node->text, "last") == 0) {
        rank = (int64_t)ranks - 1;
    }
    *out = (uint32_t)rank;
    return DDP_OK;
}

static ddp_status check_below(const struct harness_reader *reader,
                              const struct harness_yaml_node *map, enum harness_row row,
                              uint32_t limit, const char *what)
{
    if (harness_schema_optional(map, row) >= (int64_t)limit) {
        const struct harness_yaml_node *node = harness_schema_node(map, row);

        return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                                 "%s %s is never reached: the job has %u %s, counted from 0",
                                 harness_schema_row(row)->key, node->text, limit, what);
    }
    return DDP_OK;
}

static ddp_status parse_at(const struct harness_reader *reader, const struct harness_yaml_node *map,
                           const struct harness_job *job, struct harness_trigger *at)
{
    DDP_TRY(harness_parse_rank(reader, harness_schema_node(map, HARNESS_ROW_AT_rank), job->ranks,
                               &at->rank));
    DDP_TRY(check_below(reader, map, HARNESS_ROW_AT_step, job->steps, "steps"));
    DDP_TRY(check_below(reader, map, HARNESS_ROW_AT_micro, job->micro_batches, "micro-batches"));
    at->step = harness_schema_optional(map, HARNESS_ROW_AT_step);
    at->micro = harness_schema_optional(map, HARNESS_ROW_AT_micro);
    at->phase = (int32_t)harness_schema_name(reader, map, HARNESS_ROW_AT_phase);
    at->bucket = harness_schema_optional(map, HARNESS_ROW_AT_bucket);
    at->param = harness_schema_optional(map, HARNESS_ROW_AT_param);
    at->layer = harness_schema_optional(map, HARNESS_ROW_AT_layer);
    at->seq = harness_schema_optional(map, HARNESS_ROW_AT_seq);
    at->hit = (uint32_t)harness_schema_int(map, HARNESS_ROW_AT_hit);
    at->times = (uint32_t)harness_schema_int(map, HARNESS_ROW_AT_times);
    return DDP_OK;
}

/* The one action of a `do`; value, elem and bit only modify it. */
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

static ddp_status refuse_modifier(const struct harness_reader *reader,
                                  const struct harness_yaml_node *map, enum harness_row row,
                                  const char *action)
{
    const char *key = harness_schema_row(row)->key;

    for (size_t i = 0; i < map->count; i++) {
        if (strcmp(map->keys[i]->text, key) == 0) {
            return harness_yaml_fail(map->keys[i], reader->err, DDP_E_INVALID,
                                     "%s means nothing to %s; remove it", key, action);
        }
    }
    return DDP_OK;
}

static ddp_status refuse_flip_modifiers(const struct harness_reader *reader,
                                        const struct harness_yaml_node *map, const char *action)
{
    static const enum harness_row rows[] = {HARNESS_ROW_DO_bit, HARNESS_ROW_DO_bits,
                                            HARNESS_ROW_DO_count, HARNESS_ROW_DO_stride};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        DDP_TRY(refuse_modifier(reader, map, rows[i], action));
    }
    return DDP_OK;
}

static ddp_status parse_corrupt_value(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map,
                                      const struct harness_yaml_node *value,
                                      struct harness_action *action)
{
    const char *name = harness_corrupt_name(action->corrupt);
    bool is_shift = action->corrupt == HARNESS_CORRUPT_SHIFT;

    if (value == NULL && is_shift) {
        action->value = 1.0;
        return DDP_OK;
    }
    if (value == NULL) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "corrupt: %s needs value, as in {corrupt: %s, value: 0.5}", name,
                                 name);
    }
    if (!harness_schema_is_number(value, &action->value)) {
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

static ddp_status parse_corrupt(const struct harness_reader *reader,
                                const struct harness_yaml_node *map, struct harness_action *action)
{
    const char *name;
    bool has_value;
    bool has_elem;

    action->corrupt =
        (enum harness_corrupt_kind)harness_schema_name(reader, map, HARNESS_ROW_DO_corrupt);
    name = harness_corrupt_name(action->corrupt);
    has_value = action->corrupt == HARNESS_CORRUPT_SCALE ||
                action->corrupt == HARNESS_CORRUPT_SHIFT || action->corrupt == HARNESS_CORRUPT_SET;
    has_elem = action->corrupt == HARNESS_CORRUPT_NAN || action->corrupt == HARNESS_CORRUPT_FLIP ||
               action->corrupt == HARNESS_CORRUPT_SET;
    if (has_value) {
        DDP_TRY(parse_corrupt_value(reader, map, harness_schema_node(map, HARNESS_ROW_DO_value),
                                    action));
    } else {
        DDP_TRY(refuse_modifier(reader, map, HARNESS_ROW_DO_value, name));
    }
    if (!has_elem) {
        DDP_TRY(refuse_modifier(reader, map, HARNESS_ROW_DO_elem, name));
    }
    if (action->corrupt != HARNESS_CORRUPT_FLIP) {
        DDP_TRY(refuse_flip_modifiers(reader, map, name));
    }
    action->elem = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_elem);
    action->bit = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_bit);
    action->bits = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_bits);
    action->count = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_count);
    action->stride = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_stride);
    return DDP_OK;
}

static ddp_status parse_arg(const struct harness_reader *reader,
                            const struct harness_yaml_node *map, struct harness_action *action)
{
    const struct harness_yaml_node *value = harness_schema_node(map, HARNESS_ROW_DO_value);
    const char *name;
    int64_t number = 0;
    size_t index;
    enum harness_names list = HARNESS_NAMES_NONE;

    action->arg = (enum harness_arg_field)harness_schema_name(reader, map, HARNESS_ROW_DO_arg);
    name = harness_arg_name(action->arg);
    DDP_TRY(refuse_modifier(reader, map, HARNESS_ROW_DO_elem, "arg"));
    DDP_TRY(refuse_flip_modifiers(reader, map, "arg"));
    if (value == NULL) {
        return harness_yaml_fail(map, reader->err, DDP_E_INVALID,
                                 "arg: %s needs value, as in {arg: count, value: 10}", name);
    }
    if (action->arg == HARNESS_ARG_KIND) {
        list = HARNESS_NAMES_KINDS;
    } else if (action->arg == HARNESS_ARG_DTYPE) {
        list = HARNESS_NAMES_DTYPES;
    } else if (action->arg == HARNESS_ARG_REDOP) {
        list = HARNESS_NAMES_REDOPS;
    }
    if (list != HARNESS_NAMES_NONE) {
        DDP_TRY(harness_names_find(reader, value, list, &index));
        action->arg_value = index;
        return DDP_OK;
    }
    if (!harness_schema_is_int(value, &number) || number < 0) {
        return harness_yaml_fail(value, reader->err, DDP_E_INVALID,
                                 "value of arg: %s wants a whole number from 0, not \"%.60s\"",
                                 name, value->text);
    }
    action->arg_value = (uint64_t)number;
    return DDP_OK;
}

static int parse_signal(const char *name)
{
#define X(id)                     \
    if (strcmp(name, #id) == 0) { \
        return id;                \
    }
    HARNESS_SIGNAL_TABLE(X)
#undef X
    return 0;
}

static ddp_status parse_do(const struct harness_reader *reader, const struct harness_yaml_node *map,
                           struct harness_action *action)
{
    DDP_TRY(find_action(reader, map, &action->kind));
    if (action->kind == HARNESS_ACTION_CORRUPT) {
        return parse_corrupt(reader, map, action);
    }
    if (action->kind == HARNESS_ACTION_ARG) {
        return parse_arg(reader, map, action);
    }
    DDP_TRY(refuse_modifier(reader, map, HARNESS_ROW_DO_value, harness_action_name(action->kind)));
    DDP_TRY(refuse_modifier(reader, map, HARNESS_ROW_DO_elem, harness_action_name(action->kind)));
    DDP_TRY(refuse_flip_modifiers(reader, map, harness_action_name(action->kind)));
    switch (action->kind) {
    case HARNESS_ACTION_KILL:
        action->signal = parse_signal(harness_schema_text(map, HARNESS_ROW_DO_kill));
        break;
    case HARNESS_ACTION_EXIT:
        action->exit_code = (int)harness_schema_int(map, HARNESS_ROW_DO_exit);
        break;
    case HARNESS_ACTION_STOP:
        if (strcmp(harness_schema_text(map, HARNESS_ROW_DO_stop), "forever") != 0) {
            action->ms = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_stop);
        }
        break;
    case HARNESS_ACTION_SPIN:
        if (strcmp(harness_schema_text(map, HARNESS_ROW_DO_spin), "forever") != 0) {
            action->ms = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_spin);
        }
        break;
    case HARNESS_ACTION_DELAY:
        action->ms = (uint64_t)harness_schema_int(map, HARNESS_ROW_DO_delay);
        break;
    default:
        break;
    }
    return DDP_OK;
}

/* Points that tell the hook a device and a stream. */
static bool is_kernel_point(enum ddp_fault_point point)
{
    return point == DDP_FAULT_POINT_FORWARD_LAYER || point == DDP_FAULT_POINT_OPTIMIZER_PRE ||
           point == DDP_FAULT_POINT_COLLECTIVE_LAUNCH;
}

/* What a point cannot do is refused here, with the points that could. */
static ddp_status check_fit(const struct harness_reader *reader,
                            const struct harness_yaml_node *map, const struct harness_job *job,
                            const struct harness_fault *fault)
{
    enum ddp_fault_payload payload = ddp_fault_point_payload(fault->point);
    const struct harness_yaml_node *where = harness_schema_node(map, HARNESS_ROW_FAULT_point);
    const char *point = ddp_fault_point_name(fault->point);

    if (fault->action.kind == HARNESS_ACTION_CORRUPT && payload != DDP_FAULT_PAYLOAD_DATA) {
        return harness_yaml_fail(where, reader->err, DDP_E_INVALID,
                                 "%s carries no data to corrupt; as backward/grad_ready, "
                                 "bucket/launch or collective/post do",
                                 point);
    }
    if (fault->action.kind == HARNESS_ACTION_ARG && payload != DDP_FAULT_PAYLOAD_ARGS) {
        return harness_yaml_fail(where, reader->err, DDP_E_INVALID,
                                 "%s has no arguments to change; collective/pre has", point);
    }
    if ((fault->action.kind == HARNESS_ACTION_SPIN || fault->action.kind == HARNESS_ACTION_TRAP) &&
        (!is_kernel_point(fault->point) || strcmp(job->device, "cuda") != 0)) {
        return harness_yaml_fail(where, reader->err, DDP_E_INVALID,
                                 "%s on device %s has no stream for a kernel; forward/layer, "
                                 "optimizer/pre and collective/launch on cuda do",
                                 point, job->device);
    }
    if (fault->action.kind == HARNESS_ACTION_DUP &&
        fault->point != DDP_FAULT_POINT_COLLECTIVE_PRE) {
        return harness_yaml_fail(where, reader->err, DDP_E_INVALID,
                                 "%s cannot be done twice; collective/pre can", point);
    }
    return DDP_OK;
}

ddp_status harness_parse_faults(const struct harness_reader *reader,
                                const struct harness_yaml_node *top, struct harness_plan *plan)
{
    const struct harness_yaml_node *list = harness_schema_node(top, HARNESS_ROW_TOP_faults);
    size_t count = list == NULL ? 0 : list->count;

    plan->faults = ddp_mem_array(reader->keep, count, sizeof(*plan->faults));
    if (plan->faults == NULL) {
        return ddp_err_set(reader->err, DDP_E_NOMEM, "%.200s: out of memory", reader->path);
    }
    for (size_t i = 0; i < count; i++) {
        const struct harness_yaml_node *map = list->items[i];
        struct harness_fault *fault = &plan->faults[i];

        DDP_TRY(parse_at(reader, harness_schema_node(map, HARNESS_ROW_FAULT_at), &plan->job,
                         &fault->at));
        fault->point =
            (enum ddp_fault_point)harness_schema_name(reader, map, HARNESS_ROW_FAULT_point);
        DDP_TRY(parse_do(reader, harness_schema_node(map, HARNESS_ROW_FAULT_do), &fault->action));
        DDP_TRY(check_fit(reader, map, &plan->job, fault));
    }
    plan->fault_count = (uint32_t)count;
    return DDP_OK;
}
