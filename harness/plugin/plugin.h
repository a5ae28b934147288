/* Somebody else's algorithm (ddprove_coll.h), asked through a process of its own: what crashes,
 * hangs or scribbles there is an answer like another, and touches nothing here. */
#ifndef HARNESS_PLUGIN_PLUGIN_H
#define HARNESS_PLUGIN_PLUGIN_H

#include <stdbool.h>

#include "ddpcore/base/status.h"
#include "harness/plugin/ddprove_coll.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_PLUGIN_SCRATCH_MAX 8u
enum { HARNESS_PLUGIN_KINDS = DDPROVE_COLL_ALL_TO_ALL + 1 }; /* that ddprove_coll.h has */

struct harness_plugin_scratch {
    uint32_t dtype;
    uint64_t count;
};

/* The steps of one rank as they were emitted: nothing was checked. Valid until the next question.
 */
struct harness_plugin_answer {
    struct harness_plugin_scratch scratch[HARNESS_PLUGIN_SCRATCH_MAX];
    uint32_t scratch_count;
    const struct ddprove_coll_step *steps;
    size_t step_count;
    uint64_t leaked_bytes; /* allocated while it answered and not freed */
    bool is_refused;       /* by one that is opaque: it does not take the type */
};

struct harness_plugin;
/* Loads the shared object into a new process. program: the path of ddprove itself, whose command
 * `plugin` is that process. Errors: E_INVALID: it is no plug-in, and why; E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_plugin_open(const char *program, const char *path,
                                            struct harness_plugin **out, struct ddp_err *err);
void harness_plugin_close(struct harness_plugin *plugin); /* NULL: nothing to do */
const char *harness_plugin_name(const struct harness_plugin *plugin);
enum ddprove_coll_kind harness_plugin_kind(const struct harness_plugin *plugin);
uint32_t harness_plugin_claims(const struct harness_plugin *plugin);

/* What a plug-in of either form says of itself. */
struct harness_plugin_about {
    char name[32];
    uint32_t kind, claims, needs;
    bool is_opaque; /* it moves the data itself, and emits no schedules */
    bool has_abort;
};
/* Asks a process that it is loaded into, and ends it. Errors: those of _open, which takes none that
 * is opaque. */
DDP_MUST_USE ddp_status harness_plugin_describe(const char *program, const char *path,
                                                struct harness_plugin_about *out,
                                                struct ddp_err *err);

/* Whether an opaque one says that it cannot do this with elements of this type (ddprove_coll_op,
 * _dtype), asked alone, in a process of its own. No is also the answer if it cannot be asked: it
 * needs mpirun, it crashes, hangs or fails. */
bool harness_plugin_refuses(const char *program, const char *path, uint32_t op, uint32_t dtype);

/* question: struct_bytes is filled in. Errors: E_INVALID: it did not answer, and what it did
 * instead (a process that ended is started again for the next question, a few times); E_IO,
 * E_NOMEM. */
DDP_MUST_USE ddp_status harness_plugin_ask(struct harness_plugin *plugin,
                                           const struct ddprove_coll_question *question,
                                           struct harness_plugin_answer *out, struct ddp_err *err);

/* The same, of one who asks for a single rank. */
DDP_MUST_USE ddp_status harness_plugin_ask_one(struct harness_plugin *plugin,
                                               const struct ddprove_coll_question *question,
                                               struct harness_plugin_answer *out,
                                               struct ddp_err *err);

/* The process: `ddprove plugin PATH`, with the socket as descriptor 3. Returns its exit code. */
int harness_plugin_main(const char *path);

#ifdef __cplusplus
}
#endif
#endif
