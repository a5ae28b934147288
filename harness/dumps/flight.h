/* PyTorch's Flight Recorder, versions 2.1 to 2.10. */
#ifndef HARNESS_DUMPS_FLIGHT_H
#define HARNESS_DUMPS_FLIGHT_H

#include <jansson.h>

#include "harness/dumps/evidence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether this is such a record: it has a version and entries, or the status of groups. */
bool harness_diag_is_flight(json_t *root);
/* Take it as rank's. written_ns: when the file was written, 0 if that is not known. is_short: its
 * end is missing. Errors: E_PARSE. */
DDP_MUST_USE ddp_status harness_diag_flight_read(struct harness_diag_evidence *evidence,
                                                 json_t *root, const char *file, uint32_t rank,
                                                 uint64_t written_ns, bool is_short,
                                                 struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
