/* How the trace prints and reads an event's arguments, by the formats of event.def. Internal. */
#ifndef HARNESS_TRACE_EVENT_FORMAT_H
#define HARNESS_TRACE_EVENT_FORMAT_H

#include "ddpcore/base/text.h"
#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

/* " name=value" in the form that the prefix of format ("u:seq") says. */
void harness_event_arg_print(const char *format, uint64_t value, struct ddp_text *out);
/* A rank may have written it: it is in the range that the prefix of format says. */
bool harness_event_arg_is_possible(const char *format, uint64_t value);
/* The value alone. Errors: E_PARSE, E_NOT_FOUND (a name that is in no table). */
DDP_MUST_USE ddp_status harness_event_arg_parse(const char *format, const char *value,
                                                uint64_t *out);
/* By enum harness_end_how. */
#define HARNESS_END_HOW_COUNT 4
extern const char *const harness_end_names[HARNESS_END_HOW_COUNT];

#ifdef __cplusplus
}
#endif
#endif
