/* Pickles as PyTorch writes them: numbers, texts, lists, tuples and maps. A Flight Recorder's has
 * nothing else, and no opcode that names, calls or builds anything is taken there. Files of other
 * kinds have such opcodes: their reader says, by its own tables, what a name stands for. Nothing
 * that a file says is ever run. */
#ifndef HARNESS_DUMPS_PICKLE_H
#define HARNESS_DUMPS_PICKLE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_DIAG_PICKLE_DEPTH_MAX 32

/* Whether the bytes begin as a pickle of protocol 2 or later does. */
bool harness_diag_is_pickle(const void *data, size_t size_bytes);
/* *out: a new reference; tuples are arrays. *is_short: the file ends in the middle, and what it
 * held up to there is in *out. Errors: E_PARSE with the offset and what stands there, E_UNSUPPORTED
 * for an opcode that is refused, E_NOMEM. */
DDP_MUST_USE ddp_status harness_diag_pickle_read(const void *data, size_t size_bytes, json_t **out,
                                                 bool *is_short, struct ddp_err *err);

/* What a caller makes of what its pickles name. All values are JSON; those of its own may have keys
 * that no pickle can make, such as HARNESS_PICKLE_OWN "tensor". Each function gives a new reference
 * through *out, or an error, whose text gets the place in front. */
#define HARNESS_PICKLE_OWN "\xff" /* not UTF-8, as texts of pickles are */
struct harness_pickle_rules {
    const char *what; /* "a state dict": it has no other opcodes */
    ddp_status (*name)(void *context, const char *module, const char *name, json_t **out,
                       struct ddp_err *err);
    /* arguments: an array. An empty object is a map that can be filled. */
    ddp_status (*call)(void *context, const json_t *callee, json_t *arguments, json_t **out,
                       struct ddp_err *err);
    ddp_status (*persistent)(void *context, const json_t *id, json_t **out, struct ddp_err *err);
};
/* The same with names, by rules: a map's attributes are dropped, and a key that is no text becomes
 * HARNESS_PICKLE_OWN and its JSON. A file that ends early is an error. *out_used: the bytes up to
 * behind the pickle's end; more may follow. Errors: as above, and those of the rules. */
DDP_MUST_USE ddp_status harness_pickle_read_named(const void *data, size_t size_bytes,
                                                  const struct harness_pickle_rules *rules,
                                                  void *context, json_t **out, size_t *out_used,
                                                  struct ddp_err *err);

/* Says which opcode stands at that offset and is not taken; what: a file of what kind. Returns
 * E_UNSUPPORTED for one that names, calls or builds something, or is of an old form, E_PARSE for
 * what is none. */
ddp_status harness_diag_pickle_refuse(size_t offset, unsigned char code, const char *what,
                                      struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
