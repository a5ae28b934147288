/* What is said between ddprove and the process that a plug-in is loaded into. Both are the same
 * program, so structs travel as they are. Internal. */
#ifndef HARNESS_PLUGIN_WIRE_H
#define HARNESS_PLUGIN_WIRE_H

#include "harness/plugin/plugin.h"

#define HARNESS_PLUGIN_MAGIC  UINT32_C(0xdd9c0111)
#define HARNESS_PLUGIN_FD     3 /* the process's end of the socket */
#define HARNESS_PLUGIN_STEPS  (UINT32_C(1) << 20)
#define HARNESS_PLUGIN_MEMORY (UINT64_C(1) << 31) /* address space of the process, in bytes */

/* The first message, from the process. */
struct harness_plugin_hello {
    uint32_t magic;
    uint32_t is_loaded;
    uint32_t is_opaque; /* of the other form: it answers no questions */
    uint32_t kind, claims, needs;
    uint32_t has_abort;
    char name[32];
    char text[512]; /* why it is not loaded */
};

struct harness_plugin_ask {
    uint32_t magic;
    uint32_t has_nodes; /* uint32_t[size] follow */
    uint32_t rank_end;  /* a reply for each rank from question.rank to here */
    struct ddprove_coll_question question;
    uint32_t op; /* of one of the other form */
};

struct harness_plugin_reply {
    uint32_t magic;
    uint32_t is_answered; /* else text says why not */
    uint32_t is_refused;  /* of the other form, which is asked for a sum in a world of one */
    uint64_t leaked_bytes;
    uint32_t scratch_count;
    struct harness_plugin_scratch scratch[HARNESS_PLUGIN_SCRATCH_MAX];
    uint32_t step_count; /* struct ddprove_coll_step[] follow */
    char text[160];
};

#endif
