/* What comes to a rank over a link that loses messages, brings them twice or out of turn. Private
 * to inject. */
#ifndef HARNESS_INJECT_LINK_H
#define HARNESS_INJECT_LINK_H

#include "ddpcore/seam/env.h"
#include "ddpcore/transport/relay.h"

/* A link in front of a transport, which it takes over; env: its memory and its faults. Errors:
 * E_NOMEM; the transport is the caller's then. */
DDP_MUST_USE ddp_status harness_link_create(struct ddp_env *env, struct ddp_transport *inner,
                                            struct ddp_transport **out);

#endif
