/* Names and budgets of phases, from the table in phase.h. */
#include "ddpcore/seam/phase.h"

#include <string.h>

struct phase_row {
    const char *name;
    unsigned budget_ms;
};

static const struct phase_row phase_rows[DDP_PHASE_COUNT] = {
#define X(id, name, budget_ms) [id] = {name, budget_ms},
    DDP_PHASE_TABLE(X)
#undef X
};

const char *ddp_phase_name(enum ddp_phase phase)
{
    return (unsigned)phase < DDP_PHASE_COUNT ? phase_rows[phase].name : "unknown";
}

ddp_status ddp_phase_parse(const char *name, enum ddp_phase *out)
{
    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        if (strcmp(phase_rows[i].name, name) == 0) {
            *out = (enum ddp_phase)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

unsigned ddp_phase_budget_ms(enum ddp_phase phase)
{
    return (unsigned)phase < DDP_PHASE_COUNT ? phase_rows[phase].budget_ms : 0;
}
