/* A gate in front of a transport: messages that have arrived are seen only once they are let
 * through, and the last one may be spoiled. Internal. */
#ifndef HARNESS_LAB_GATED_H
#define HARNESS_LAB_GATED_H

#include <stdalign.h>

#include "ddpcore/transport/relay.h"

enum { HARNESS_LAB_FLIPPED_BYTES = 4096 };

enum harness_lab_spoiling {
    HARNESS_LAB_KEPT,
    HARNESS_LAB_DROPPED,
    HARNESS_LAB_DOUBLED,
    HARNESS_LAB_CUT,
    HARNESS_LAB_FLIPPED,
    HARNESS_LAB_SPOILINGS
};

/* Messages from one peer. */
struct harness_lab_lane {
    uint32_t allowed, taken;            /* of them */
    bool is_waiting;                    /* one that is not allowed yet has been seen */
    enum harness_lab_spoiling spoiling; /* of the last that was allowed */
};

struct harness_lab_gated {
    struct ddp_relay relay;
    struct harness_lab_lane *lane;                                /* [peer] */
    bool is_deaf;                                                 /* deaths are not passed on */
    alignas(16) unsigned char flipped[HARNESS_LAB_FLIPPED_BYTES]; /* a message in which a bit is
                                                                      another one */
};

/* inner: destroyed with it. lane: of each peer, zero-filled, the owner's. */
void harness_lab_gated_init(struct harness_lab_gated *gate, struct ddp_transport *inner,
                            struct harness_lab_lane *lane);

#endif
