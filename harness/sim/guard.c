/* Calls of the core outside of any rank, which may crash: the network closes a rank's end, or
 * itself. The handler of crash.c comes back here. */
#include "harness/sim/job.h"

bool harness_sim_guard(struct harness_sim *sim, void (*call)(void *context), void *context)
{
    DDP_ASSERT(!sim->watch.is_guarded);
    if (sigsetjmp(sim->watch.guarded, 1) != 0) {
        return false;
    }
    sim->watch.is_guarded = sim->watch.is_open;
    call(context);
    sim->watch.is_guarded = false;
    return true;
}
