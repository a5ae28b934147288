/* The tables of verdicts, oracles, modes and outcomes: names, meanings, exit codes. */
#include "harness/verdict/verdict.h"

#include <string.h>

struct verdict_row {
    enum harness_family family;
    const char *name;
    const char *meaning;
};

static const struct verdict_row verdict_rows[HARNESS_VERDICT_COUNT] = {
    [HARNESS_VERDICT_NONE] = {HARNESS_FAMILY_NONE, "NONE", "nothing was found"},
#define X(family, name, meaning) \
    [HARNESS_VERDICT_##family##_##name] = {HARNESS_FAMILY_##family, #family "." #name, meaning},
#include "harness/verdict/verdict.def"
#undef X
};

struct oracle_row {
    bool is_checker;
    const char *name;
    const char *gives;
    const char *proves;
};

enum oracle_kind { SOURCE, ORACLE };

static const struct oracle_row oracle_rows[HARNESS_ORACLE_COUNT] = {
#define X(kind, id, name, gives, proves) \
    [HARNESS_ORACLE_##id] = {(kind) == ORACLE, #name, gives, proves},
#include "harness/verdict/oracle.def"
#undef X
};

static const char *const mode_names[HARNESS_MODE_COUNT] = {
#define X(id, name) [HARNESS_MODE_##id] = (name),
    HARNESS_MODE_TABLE(X)
#undef X
};

static const char *const outcome_names[] = {
    [HARNESS_OUTCOME_PASS] = "PASS",
    [HARNESS_OUTCOME_FAIL] = "FAIL",
    [HARNESS_OUTCOME_INCONCLUSIVE] = "INCONCLUSIVE",
    [HARNESS_OUTCOME_ERROR] = "ERROR",
    [HARNESS_OUTCOME_SKIP] = "SKIP",
};
#define OUTCOME_COUNT (sizeof outcome_names / sizeof outcome_names[0])

const char *harness_verdict_name(enum harness_verdict verdict)
{
    return verdict < HARNESS_VERDICT_COUNT ? verdict_rows[verdict].name : "UNKNOWN";
}

enum harness_family harness_verdict_family(enum harness_verdict verdict)
{
    DDP_ASSERT(verdict < HARNESS_VERDICT_COUNT);
    return verdict_rows[verdict].family;
}

bool harness_verdict_is_of_device(enum harness_verdict verdict)
{
    return verdict == HARNESS_VERDICT_HANG_DEVICE_COMPUTE ||
           verdict == HARNESS_VERDICT_HANG_DEVICE_COMM ||
           verdict == HARNESS_VERDICT_HANG_NOT_LAUNCHED;
}

const char *harness_verdict_meaning(enum harness_verdict verdict)
{
    return verdict < HARNESS_VERDICT_COUNT ? verdict_rows[verdict].meaning : "";
}

ddp_status harness_verdict_parse(const char *name, enum harness_verdict *out)
{
    for (unsigned i = 0; i < HARNESS_VERDICT_COUNT; i++) {
        if (strcmp(name, verdict_rows[i].name) == 0) {
            *out = (enum harness_verdict)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *harness_oracle_name(enum harness_oracle_id oracle)
{
    DDP_ASSERT(oracle < HARNESS_ORACLE_COUNT);
    return oracle_rows[oracle].name;
}

ddp_status harness_oracle_parse(const char *name, enum harness_oracle_id *out)
{
    for (unsigned i = HARNESS_ORACLE_NONE + 1; i < HARNESS_ORACLE_COUNT; i++) {
        if (strcmp(name, oracle_rows[i].name) == 0) {
            *out = (enum harness_oracle_id)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *harness_oracle_proves(enum harness_oracle_id oracle)
{
    DDP_ASSERT(oracle < HARNESS_ORACLE_COUNT);
    return oracle_rows[oracle].proves;
}

const char *harness_oracle_gives(enum harness_oracle_id oracle)
{
    DDP_ASSERT(oracle < HARNESS_ORACLE_COUNT);
    return oracle_rows[oracle].gives;
}

/* A word of `gives` is a verdict's whole name, or that of its family. */
bool harness_oracle_can_give(enum harness_oracle_id oracle, enum harness_verdict verdict)
{
    const char *name = harness_verdict_name(verdict);
    const char *word = harness_oracle_gives(oracle);

    while (word != NULL && *word != '\0') {
        size_t size = strcspn(word, " ");

        if (strncmp(name, word, size) == 0 && (name[size] == '\0' || name[size] == '.')) {
            return true;
        }
        word += size;
        word += strspn(word, " ");
    }
    return false;
}

bool harness_oracle_is_checker(enum harness_oracle_id oracle)
{
    DDP_ASSERT(oracle < HARNESS_ORACLE_COUNT);
    return oracle_rows[oracle].is_checker;
}

const char *harness_mode_name(enum harness_mode mode)
{
    DDP_ASSERT(mode < HARNESS_MODE_COUNT);
    return mode_names[mode];
}

ddp_status harness_mode_parse(const char *name, enum harness_mode *out)
{
    for (unsigned i = HARNESS_MODE_NONE + 1; i < HARNESS_MODE_COUNT; i++) {
        if (strcmp(name, mode_names[i]) == 0) {
            *out = (enum harness_mode)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *harness_outcome_name(enum harness_outcome outcome)
{
    return (size_t)outcome < OUTCOME_COUNT ? outcome_names[outcome] : "UNKNOWN";
}

ddp_status harness_outcome_parse(const char *name, enum harness_outcome *out)
{
    for (size_t i = 0; i < OUTCOME_COUNT; i++) {
        if (strcmp(name, outcome_names[i]) == 0) {
            *out = (enum harness_outcome)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

int harness_outcome_exit_code(enum harness_outcome outcome)
{
    switch (outcome) {
    case HARNESS_OUTCOME_PASS:
        return 0;
    case HARNESS_OUTCOME_FAIL:
        return 1;
    case HARNESS_OUTCOME_INCONCLUSIVE:
        return 4;
    case HARNESS_OUTCOME_SKIP:
        return 77;
    case HARNESS_OUTCOME_ERROR:
        break;
    }
    return 3;
}

/* How bad an outcome makes a whole run; SKIP loses to everything. */
static int outcome_severity(enum harness_outcome outcome)
{
    switch (outcome) {
    case HARNESS_OUTCOME_SKIP:
        return 0;
    case HARNESS_OUTCOME_PASS:
        return 1;
    case HARNESS_OUTCOME_INCONCLUSIVE:
        return 2;
    case HARNESS_OUTCOME_FAIL:
        return 3;
    case HARNESS_OUTCOME_ERROR:
        break;
    }
    return 4;
}

enum harness_outcome harness_outcome_worse(enum harness_outcome a, enum harness_outcome b)
{
    return outcome_severity(a) >= outcome_severity(b) ? a : b;
}
