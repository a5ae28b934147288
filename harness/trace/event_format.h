/* How the trace prints and reads an event's arguments; one table for both directions. Internal. */
#ifndef HARNESS_TRACE_EVENT_FORMAT_H
#define HARNESS_TRACE_EVENT_FORMAT_H

#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_EVENT_ARGS 5

struct harness_event_format {
    const char *name;
    const char *arg[HARNESS_EVENT_ARGS]; /* "u:seq", "" past the last */
};

/* By enum ddp_event. */
extern const struct harness_event_format harness_event_formats[DDP_EVENT_COUNT];
/* By enum harness_end_how. */
#define HARNESS_END_HOW_COUNT 4
extern const char *const harness_end_names[HARNESS_END_HOW_COUNT];

#ifdef __cplusplus
}
#endif
#endif
