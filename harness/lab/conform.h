/* Whether a collective keeps what callers rely on, found out by running it: values, buffers, types,
 * orders of additions, calls in a row and at once, ranks that ask for something else, are late or
 * die. Of algorithms, of plug-ins, and of libraries behind a plug-in. */
#ifndef HARNESS_LAB_CONFORM_H
#define HARNESS_LAB_CONFORM_H

#include <jansson.h>

#include "harness/coll/coll.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(identifier, name, meaning), in the order in which they are judged. */
#define HARNESS_CONFORM_TABLE(X)                                                                  \
    X(HARNESS_CONFORM_ENDS, "ends", "every call ends by itself and well: no crash, no hang")      \
    X(HARNESS_CONFORM_EXACT, "exact",                                                             \
      "whole numbers come out exactly: each contribution once, and where it belongs")             \
    X(HARNESS_CONFORM_ROUNDED, "rounding",                                                        \
      "a sum is as near to the exact one as additions in some order are")                         \
    X(HARNESS_CONFORM_BOUNDS, "in_bounds", "nothing beside a buffer is written")                  \
    X(HARNESS_CONFORM_INPUT, "input_kept", "the input is what it was, unless it is the output")   \
    X(HARNESS_CONFORM_IN_PLACE, "in_place", "it is right if input and output are one buffer")     \
    X(HARNESS_CONFORM_SHIFTED, "unaligned", "it is right if buffers begin between alignments")    \
    X(HARNESS_CONFORM_TYPES, "types", "it is right with every type and operation that it takes")  \
    X(HARNESS_CONFORM_SPECIAL, "special_values",                                                  \
      "subnormal numbers, zeros of both signs, infinities and NaNs are added as IEEE 754 says")   \
    X(HARNESS_CONFORM_TREES, "one_tree",                                                          \
      "each element is added in one tree that holds every rank once, as probes show")             \
    X(HARNESS_CONFORM_SAME_BITS, "same_bits", "all ranks get the same bits")                      \
    X(HARNESS_CONFORM_SAME_ORDER, "same_order",                                                   \
      "every element is added in one order, whatever the count is: buckets may be merged")        \
    X(HARNESS_CONFORM_REPEATS, "repeatable",                                                      \
      "the same numbers give the same bits, also if a rank comes late or is stopped for a while") \
    X(HARNESS_CONFORM_NEXT, "back_to_back",                                                       \
      "calls in a row are right, though buffers are used again at once")                          \
    X(HARNESS_CONFORM_FREED, "no_leak", "more calls leave no memory and no descriptor behind")    \
    X(HARNESS_CONFORM_LARGE, "large",                                                             \
      "it is right if a buffer has more than 2^31 bytes, and elements if it takes u8")            \
    X(HARNESS_CONFORM_TWO, "two_at_once", "two communicators in two threads are both right")      \
    X(HARNESS_CONFORM_MISMATCH, "tells_mismatch",                                                 \
      "if a rank asks for another count, every rank gets an error")                               \
    X(HARNESS_CONFORM_DEATH, "tells_death", "if a rank is killed, the others get an error")       \
    X(HARNESS_CONFORM_ABORT, "aborts",                                                            \
      "a call ends that is aborted, twice, before or behind its post or while it waits")          \
    X(HARNESS_CONFORM_REOPENS, "reopens", "a new communicator works, also after an error")        \
    X(HARNESS_CONFORM_ORDERS, "any_order",                                                        \
      "messages may arrive in any order: every rank ends well, with the same bits")               \
    X(HARNESS_CONFORM_SPOILED, "no_silent_loss",                                                  \
      "a message is lost, comes twice or cut short: no rank takes a wrong result for right")      \
    X(HARNESS_CONFORM_KILLED, "dies_anywhere",                                                    \
      "a rank dies before any message: the others get an error or the right result")
enum harness_conform_property {
#define X(id, name, meaning) id,
    HARNESS_CONFORM_TABLE(X)
#undef X
        HARNESS_CONFORM_COUNT
};
const char *harness_conform_name(enum harness_conform_property property);
const char *harness_conform_meaning(enum harness_conform_property property);

struct harness_conform_result {
    enum harness_coll_state state;
    bool is_asked; /* it means anything for this collective */
    size_t case_count;
    /* Where it does not hold, the smallest: */
    uint32_t world;
    size_t elem_count;
    int64_t rank, elem; /* -1: not of one */
    char text[400];     /* "": it holds */
};

struct harness_conform_options {
    const char *name; /* of an algorithm, or the path of a plug-in of either form */
    const char *program;
    struct harness_coll_range worlds;
    bool is_full;        /* more orders of messages, and a call of more than 2^31 bytes */
    bool is_tcp;         /* ranks are connected by TCP, not by shared memory */
    uint64_t budget_ns;  /* no case is begun later; 0: no limit */
    uint64_t timeout_ns; /* a call that takes longer hangs */
    void (*progress)(void *context, size_t done, size_t total);
    void *context;
};

struct harness_conform_report {
    char name[64];
    enum ddp_coll_kind kind;
    struct harness_conform_result result[HARNESS_CONFORM_COUNT];
    uint32_t first_world, last_world;
    size_t case_count;
    uint64_t order_count; /* in which messages were let through one by one, in one process */
    bool is_stopped;
    uint64_t elapsed_ns;
    char untried[200]; /* why LARGE is not; "": it was, or was not to be */
    char untaken[200]; /* types and operations that it does not take; "": it takes all */
    char refused[120]; /* counts that it does not take; "": it takes all that were tried */
    uint32_t tree_world;
    char tree[600]; /* as probes found it, of that world; "": not measured */
};

/* Errors: E_INVALID, E_NOT_FOUND: it cannot be tried at all; E_NOMEM, E_SYSTEM. */
DDP_MUST_USE ddp_status harness_conform_run(const struct harness_conform_options *options,
                                            struct harness_conform_report *out,
                                            struct ddp_err *err);
enum harness_outcome harness_conform_outcome(const struct harness_conform_report *report);

/* conform_render.c */
void harness_conform_print(const struct harness_conform_report *report, struct ddp_text *out);
json_t *harness_conform_json(const struct harness_conform_report *report);
json_t *harness_conform_verdicts(const struct harness_conform_report *report);

#ifdef __cplusplus
}
#endif
#endif
