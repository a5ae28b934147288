/* Pickles as PyTorch's Flight Recorder writes them, and nothing else: numbers, texts, lists, tuples
 * and maps with texts as keys. No opcode that names, calls or builds anything is known here, so
 * nothing that a file says is ever run. */
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

/* Says which opcode stands at that offset and is not taken. Returns E_UNSUPPORTED for one that
 * names, calls or builds something, or is of an old form, E_PARSE for what is none. */
ddp_status harness_diag_pickle_refuse(size_t offset, unsigned char code, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
