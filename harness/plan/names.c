/* The lists of names. Those of other layers come from the tables of their owners. */
#include "harness/plan/names.h"

#include <errno.h>
#include <signal.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/plan/plan.h"

struct entry {
    const char *name;
    int value;
};

#define ENTRY(id, name, ...) {name, (int)(id)},
#define X(id, what, table)   static const struct entry entries_##id[] = {table(ENTRY)};
HARNESS_KIND_NAMES_TABLE(X)
#undef X
#undef ENTRY
static const struct entry actions[] = {
#define ACTION_PLAIN(id, takes, where, key, meaning) {#key, HARNESS_ACTION_##id},
#define ACTION(id, takes, where, key, ...)           {#key, HARNESS_ACTION_##id},
#include "harness/plan/key.def"
};
#define ENTRY(id) {#id, id},
static const struct entry signals[] = {HARNESS_SIGNAL_TABLE(ENTRY)};
static const struct entry errnos[] = {HARNESS_ERRNO_TABLE(ENTRY)};
#undef ENTRY
#define ENTRY(id, value, name, meaning) {name, value},
static const struct entry statuses[] = {DDP_STATUS_TABLE(ENTRY)};
#undef ENTRY
/* 1 + the kind, so that 0 is none. */
#define ENTRY(id, name) {name, 1 + DDPROVE_GUEST_##id},
static const struct entry guest_kinds[] = {DDPROVE_GUEST_KIND_TABLE(ENTRY)};
#undef ENTRY
/* Choices that the plan keeps as truth values. */
static const struct entry intos[] = {{"wrapped", true}, {"bare", false}};
static const struct entry equals[] = {{"uninterrupted", true}};
static const struct entry accuse[] = {{"others", true}, {"none", false}};

/* The core's schedules, by name and as they are called over NCCL. */
static const struct schedule {
    enum ddp_coll_kind kind;
    enum ddp_algorithm_id id;
    const char *name, *over_nccl;
} schedules[] = {
#define X(id, kind, name, ...) {DDP_COLL_##kind, DDP_ALGORITHM_##id, name, "nccl/" name},
#include "ddpcore/schedule/algorithm.def"
#undef X
};

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The schedule number `index` of those that all-reduce; NULL past the end. */
static const struct schedule *schedule_at(size_t index)
{
    for (size_t i = 0; i < LENGTH(schedules); i++) {
        if (schedules[i].kind == DDP_COLL_ALL_REDUCE && index-- == 0) {
            return &schedules[i];
        }
    }
    return NULL;
}

static const struct harness_engine_traits engines[HARNESS_ENGINE_COUNT] = {
#define X(id, name, device, meaning) [id] = {name, device, meaning},
    HARNESS_ENGINE_TABLE(X)
#undef X
};

const struct harness_engine_traits *harness_engine_traits(enum harness_engine engine)
{
    DDP_ASSERT((unsigned)engine < HARNESS_ENGINE_COUNT);
    return &engines[engine];
}

bool harness_engine_is_opaque(enum harness_engine engine)
{
    return engine == HARNESS_ENGINE_OPAQUE || harness_engine_traits(engine)->name != NULL;
}

/* The opaque engines, then each schedule as it is and over NCCL. */
bool harness_collective_at(size_t index, struct harness_collective *out, const char **out_name)
{
    const struct schedule *schedule;

    for (unsigned i = 0; i < HARNESS_ENGINE_COUNT; i++) {
        if (engines[i].name != NULL && index-- == 0) {
            *out = (struct harness_collective){.engine = (enum harness_engine)i};
            *out_name = engines[i].name;
            return true;
        }
    }
    schedule = schedule_at(index / 2);
    if (schedule == NULL) {
        return false;
    }
    out->plugin = NULL;
    out->engine = index % 2 == 0 ? HARNESS_ENGINE_SCHEDULE : HARNESS_ENGINE_NCCL_SCHEDULE;
    out->algorithm = schedule->id;
    *out_name = index % 2 == 0 ? schedule->name : schedule->over_nccl;
    return true;
}

const char *harness_collective_name(struct harness_collective collective)
{
    struct harness_collective found;
    const char *name = NULL;

    if (collective.plugin != NULL) {
        return collective.plugin;
    }
    for (size_t i = 0; harness_collective_at(i, &found, &name); i++) {
        if (found.engine == collective.engine && found.algorithm == collective.algorithm) {
            return name;
        }
    }
    return "default";
}

const char *harness_axis_at(enum harness_axis axis, size_t index)
{
    const struct schedule *schedule;

    if (axis == HARNESS_AXIS_CUDA_COLLECTIVES && index == 0) {
        return "nccl";
    }
    schedule = schedule_at(axis == HARNESS_AXIS_CUDA_COLLECTIVES ? index - 1 : index);
    if (schedule == NULL) {
        return NULL;
    }
    return axis == HARNESS_AXIS_CUDA_COLLECTIVES ? schedule->over_nccl : schedule->name;
}

const char *harness_axis_word(enum harness_axis axis)
{
    static const char *const words[HARNESS_AXIS_COUNT] = {
#define X(id, word, meaning) word,
        HARNESS_AXIS_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)axis < HARNESS_AXIS_COUNT);
    return words[axis];
}

const char *harness_axis_meaning(enum harness_axis axis)
{
    static const char *const meanings[HARNESS_AXIS_COUNT] = {
#define X(id, word, meaning) meaning,
        HARNESS_AXIS_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)axis < HARNESS_AXIS_COUNT);
    return meanings[axis];
}

const char *harness_names_what(enum harness_names list)
{
    static const char *const what[HARNESS_NAMES_COUNT] = {
#define X(id, text) [HARNESS_NAMES_##id] = text,
        HARNESS_NAMES_TABLE(X)
#undef X
#define X(id, text, table) [HARNESS_NAMES_##id] = text,
            HARNESS_KIND_NAMES_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)list < HARNESS_NAMES_COUNT);
    return what[list];
}

/* Enumerations that name themselves; index: the value. */
static const char *name_of_owner(enum harness_names list, size_t index)
{
    switch (list) {
#define LIST(id, count, call) \
    case HARNESS_NAMES_##id:  \
        return index < (size_t)(count) ? call : NULL;
        LIST(PHASES, DDP_PHASE_COUNT, ddp_phase_name((enum ddp_phase)index))
        LIST(POINTS, DDP_FAULT_POINT_COUNT, ddp_fault_point_name((enum ddp_fault_point)index))
        LIST(VERDICTS, HARNESS_VERDICT_COUNT, harness_verdict_name((enum harness_verdict)index))
        LIST(OUTCOMES, HARNESS_OUTCOME_SKIP + 1, harness_outcome_name((enum harness_outcome)index))
        LIST(ORACLES, HARNESS_ORACLE_COUNT, harness_oracle_name((enum harness_oracle_id)index))
        LIST(MODES, HARNESS_MODE_COUNT, harness_mode_name((enum harness_mode)index))
        LIST(KINDS, DDP_COLL_POSTED_KIND_COUNT, ddp_coll_kind_name((enum ddp_coll_kind)index))
        LIST(DTYPES, DDP_DTYPE_COUNT, ddp_dtype_name((enum ddp_dtype)index))
        LIST(REDOPS, DDP_REDOP_COUNT, ddp_redop_name((enum ddp_redop)index))
#undef LIST
    default:
        return NULL;
    }
}

const char *harness_names_at(enum harness_names list, size_t index, int *out_value)
{
    static const struct {
        const struct entry *entries;
        size_t count;
    } own[HARNESS_NAMES_COUNT] = {
#define OWN(id, array) [HARNESS_NAMES_##id] = {array, LENGTH(array)},
        OWN(STATUSES, statuses) OWN(SIGNALS, signals) OWN(ERRNOS, errnos) OWN(ACTIONS, actions)
            OWN(GUEST_KINDS, guest_kinds) OWN(INTOS, intos) OWN(EQUALS, equals) OWN(ACCUSE, accuse)
#define X(id, what, table) OWN(id, entries_##id)
                HARNESS_KIND_NAMES_TABLE(X)
#undef X
#undef OWN
    };
    struct harness_collective collective;
    const char *name = NULL;
    int value = (int)index;

    DDP_ASSERT((unsigned)list < HARNESS_NAMES_COUNT);
    if (list == HARNESS_NAMES_COLLECTIVES) {
        name = harness_collective_at(index, &collective, &name) ? name : NULL;
    } else if (list == HARNESS_NAMES_ORACLES || list == HARNESS_NAMES_MODES) {
        name = name_of_owner(list, index + 1); /* their 0 is "none", which has no name */
        value = (int)index + 1;
    } else if (own[list].entries == NULL) {
        name = name_of_owner(list, index);
    } else if (index < own[list].count) {
        name = own[list].entries[index].name;
        value = own[list].entries[index].value;
    }
    if (out_value != NULL) {
        *out_value = value;
    }
    return name;
}

const char *harness_names_of(enum harness_names list, int value)
{
    const char *name;
    int found;

    for (size_t i = 0; (name = harness_names_at(list, i, &found)) != NULL; i++) {
        if (found == value) {
            return name;
        }
    }
    return NULL;
}

int harness_names_absent(enum harness_names list)
{
    return harness_names_of(list, 0) == NULL ? 0 : -1;
}
