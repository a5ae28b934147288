/* The lists of names that values are looked up in, and the error for a name that is in none. */
#include <signal.h>
#include <string.h>

#include "harness/scenario/schema.h"

enum { NAMES_MAX = 128, LISTED_MAX = 16 };

static const char *const optimizers[] = {"sgd", "adamw", NULL};
static const char *const orders[] = {"reverse", NULL};
static const char *const scales[] = {"pre", "post", NULL};
static const char *const semantics[] = {"strict", "pytorch", NULL};
static const char *const devices[] = {"cpu", "cuda", NULL};
static const char *const intos[] = {"wrapped", "bare", NULL};
static const char *const prefixes[] = {"auto", "exact", "pytorch", NULL};
static const char *const equals[] = {"uninterrupted", NULL};
static const char *const accuse[] = {"others", "none", NULL};
static const char *const leaks[] = {"process", "shm", "fd", NULL};
static const char *const signals[] = {
#define X(id) #id,
    HARNESS_SIGNAL_TABLE(X)
#undef X
        NULL};
static const char *const statuses[] = {
#define X(id, value, name, meaning) name,
    DDP_STATUS_TABLE(X)
#undef X
        NULL};

const char *harness_names_what(enum harness_names list)
{
    static const char *const what[HARNESS_NAMES_COUNT] = {
#define X(id, text) text,
        HARNESS_NAMES_TABLE(X)
#undef X
    };

    return what[list];
}

/* Lists that are arrays; NULL for the others. */
static const char *const *names_array(const struct harness_scenario_names *names,
                                      enum harness_names list)
{
    switch (list) {
    case HARNESS_NAMES_OPTIMIZERS:
        return optimizers;
    case HARNESS_NAMES_ORDERS:
        return orders;
    case HARNESS_NAMES_SCALES:
        return scales;
    case HARNESS_NAMES_SEMANTICS:
        return semantics;
    case HARNESS_NAMES_DEVICES:
        return devices;
    case HARNESS_NAMES_INTOS:
        return intos;
    case HARNESS_NAMES_PREFIXES:
        return prefixes;
    case HARNESS_NAMES_EQUALS:
        return equals;
    case HARNESS_NAMES_ACCUSE:
        return accuse;
    case HARNESS_NAMES_LEAKS:
        return leaks;
    case HARNESS_NAMES_SIGNALS:
        return signals;
    case HARNESS_NAMES_STATUSES:
        return statuses;
    case HARNESS_NAMES_MODELS:
        return names == NULL ? NULL : names->models;
    case HARNESS_NAMES_DATA:
        return names == NULL ? NULL : names->data;
    case HARNESS_NAMES_COLLECTIVES:
        return names == NULL ? NULL : names->collectives;
    case HARNESS_NAMES_BRANCHES:
        return names == NULL ? NULL : names->branches;
    default:
        return NULL;
    }
}

/* Lists that mirror an enumeration, by its own naming function. */
static const char *names_enumerated(enum harness_names list, size_t index)
{
    switch (list) {
#define LIST(names, count, call) \
    case names:                  \
        return index < (size_t)(count) ? call : NULL;
        LIST(HARNESS_NAMES_DRIVERS, HARNESS_DRIVER_COUNT,
             harness_driver_name((enum harness_driver)index))
        LIST(HARNESS_NAMES_PHASES, DDP_PHASE_COUNT, ddp_phase_name((enum ddp_phase)index))
        LIST(HARNESS_NAMES_POINTS, DDP_FAULT_POINT_COUNT,
             ddp_fault_point_name((enum ddp_fault_point)index))
        LIST(HARNESS_NAMES_VERDICTS, HARNESS_VERDICT_COUNT,
             harness_verdict_name((enum harness_verdict)index))
        LIST(HARNESS_NAMES_OUTCOMES, HARNESS_OUTCOME_SKIP + 1,
             harness_outcome_name((enum harness_outcome)index))
        LIST(HARNESS_NAMES_ORACLES, HARNESS_ORACLE_COUNT - 1,
             harness_oracle_name((enum harness_oracle_id)(index + 1)))
        LIST(HARNESS_NAMES_MODES, HARNESS_MODE_COUNT - 1,
             harness_mode_name((enum harness_mode)(index + 1)))
        LIST(HARNESS_NAMES_CORRUPTS, HARNESS_CORRUPT_KIND_COUNT,
             harness_corrupt_name((enum harness_corrupt_kind)index))
        LIST(HARNESS_NAMES_ARGS, HARNESS_ARG_FIELD_COUNT,
             harness_arg_name((enum harness_arg_field)index))
        LIST(HARNESS_NAMES_EDITS, HARNESS_EDIT_KIND_COUNT,
             harness_edit_name((enum harness_edit_kind)index))
        LIST(HARNESS_NAMES_KINDS, DDP_COLL_KIND_COUNT,
             ddp_coll_kind_name((enum ddp_coll_kind)index))
        LIST(HARNESS_NAMES_DTYPES, DDP_DTYPE_COUNT, ddp_dtype_name((enum ddp_dtype)index))
        LIST(HARNESS_NAMES_REDOPS, DDP_REDOP_COUNT, ddp_redop_name((enum ddp_redop)index))
#undef LIST
    default:
        return NULL;
    }
}

const char *harness_names_at(const struct harness_scenario_names *names, enum harness_names list,
                             size_t index)
{
    const char *const *array = names_array(names, list);

    if (array == NULL) {
        return names_enumerated(list, index);
    }
    for (size_t i = 0; i <= index; i++) {
        if (array[i] == NULL) {
            return NULL;
        }
    }
    return array[index];
}

bool harness_names_is_known(const struct harness_scenario_names *names, enum harness_names list)
{
    return harness_names_at(names, list, 0) != NULL;
}

/* "unknown model "mpl"; did you mean "mlp"?", or the list if it is short and nothing is near. */
static ddp_status refuse_name(const struct harness_reader *reader,
                              const struct harness_yaml_node *node, enum harness_names list,
                              const char *const *all, size_t count)
{
    const char *near = ddp_text_nearest(node->text, all, count);
    const char *what = harness_names_what(list);
    struct ddp_text listed;
    ddp_status status;

    if (near != NULL) {
        return harness_yaml_fail(node, reader->err, DDP_E_PARSE,
                                 "unknown %s \"%.60s\"; did you mean \"%s\"?", what, node->text,
                                 near);
    }
    ddp_text_init(&listed, reader->scratch);
    for (size_t i = 0; i < count && i < LISTED_MAX; i++) {
        ddp_text_add(&listed, "%s%s", i == 0 ? "" : ", ", all[i]);
    }
    status = harness_yaml_fail(node, reader->err, DDP_E_PARSE,
                               "unknown %s \"%.60s\"; there are: %s%s", what, node->text,
                               ddp_text_str(&listed), count > LISTED_MAX ? ", ..." : "");
    ddp_text_fini(&listed);
    return status;
}

ddp_status harness_names_find(const struct harness_reader *reader,
                              const struct harness_yaml_node *node, enum harness_names list,
                              size_t *out)
{
    const char *all[NAMES_MAX];
    const char *name;
    size_t count = 0;

    for (; count < NAMES_MAX && (name = harness_names_at(reader->names, list, count)) != NULL;
         count++) {
        all[count] = name;
        if (strcmp(name, node->text) == 0) {
            *out = count;
            return DDP_OK;
        }
    }
    return refuse_name(reader, node, list, all, count);
}
