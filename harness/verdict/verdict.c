/* The tables of verdicts and outcomes: names, meanings, exit codes. */
#include "harness/verdict/verdict.h"

#include <string.h>

struct verdict_row {
    const char *name;
    const char *meaning;
};

static const struct verdict_row verdict_rows[HARNESS_VERDICT_COUNT] = {
    [HARNESS_VERDICT_NONE] = {"NONE", "nothing was found"},
#define X(family, name, meaning) [HARNESS_VERDICT_##family##_##name] = {#family "." #name, meaning},
#include "harness/verdict/verdict.def"
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
