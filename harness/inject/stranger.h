/* Who connects to where a rank listens, and is no rank: a scanner of ports, a monitor, a rank of
 * another job that was told an old address. Its connection is a real one, made by the rank's own
 * process. */
#ifndef HARNESS_INJECT_STRANGER_H
#define HARNESS_INJECT_STRANGER_H

#include "harness/plan/plan.h"

/* It connects to the address that listen_fd listens at, and does what its kind does. errno stays
 * as it was. */
void harness_stranger_come(enum harness_stranger kind, int listen_fd);
/* Those that are still there go. */
void harness_strangers_leave(void);

#endif
