/* A hang that happened elsewhere: what its dumps and logs say, put together and explained. */
#ifndef HARNESS_DIAGNOSE_DIAGNOSE_H
#define HARNESS_DIAGNOSE_DIAGNOSE_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/status.h"
#include "ddpcore/base/text.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_diagnosis;
DDP_MUST_USE ddp_status harness_diagnosis_create(struct harness_diagnosis **out);
void harness_diagnosis_destroy(struct harness_diagnosis *diagnosis);

/* Add a file's content: Flight Recorder (pickle, JSON), watchdog and torchrun messages, error
 * files, py-spy, NCCL RAS and NCCL_DEBUG lines. What it is, the content says; path names it, and
 * its rank where the content does not. data ends with a NUL behind size_bytes. written_ns: when it
 * was written, since 1970; 0: unknown. Errors: E_PARSE, E_UNSUPPORTED: one line with the path,
 * place and remedy; what was added before stays. */
DDP_MUST_USE ddp_status harness_diagnosis_read(struct harness_diagnosis *diagnosis,
                                               const char *path, const char *data,
                                               size_t size_bytes, uint64_t written_ns,
                                               struct ddp_err *err);
/* Once, behind all files. FAIL: a fault is named; PASS: all ranks' records agree; INCONCLUSIVE:
 * there is not enough to tell; ERROR: memory is out. */
enum harness_outcome harness_diagnosis_conclude(struct harness_diagnosis *diagnosis);
/* Behind the conclusion. */
void harness_diagnosis_print(const struct harness_diagnosis *diagnosis, struct ddp_text *out);
/* A new reference; NULL when memory is out. */
json_t *harness_diagnosis_json(const struct harness_diagnosis *diagnosis);
/* A scenario in which ddpcore's own ranks go wrong in the same way. path: where it goes, from which
 * its id follows. Errors: E_UNSUPPORTED: nothing of this shape can be written, and why. */
DDP_MUST_USE ddp_status harness_diagnosis_scenario(const struct harness_diagnosis *diagnosis,
                                                   const char *path, struct ddp_text *out,
                                                   struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
