/* Purpose: where all ranks of a team meet, whatever moves their data.
 * Idea: a counter and a round in shared memory. Nobody sleeps, since who wakes late would be
 * measured late; who has no core of its own lets others go first. */
#include <sched.h>

#include "harness/lab/shared.h"

enum { SPINS = 20000 };

bool harness_lab_gate(struct harness_lab_shared *shared, bool may_spin)
{
    uint32_t round = __atomic_load_n(&shared->gate_round, __ATOMIC_ACQUIRE);
    int spins = 0;

    if (__atomic_add_fetch(&shared->gate_count, 1, __ATOMIC_ACQ_REL) == shared->request.ranks) {
        __atomic_store_n(&shared->gate_count, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&shared->gate_round, round + 1, __ATOMIC_RELEASE);
        return true;
    }
    while (__atomic_load_n(&shared->gate_round, __ATOMIC_ACQUIRE) == round) {
        if (!may_spin || ++spins > SPINS) {
            (void)sched_yield();
        } else {
            __builtin_ia32_pause();
        }
    }
    return true;
}
