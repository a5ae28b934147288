/* How the trace prints and reads an event's arguments; one table for both directions. Internal. */
#ifndef HARNESS_TRACE_EVENT_FORMAT_H
#define HARNESS_TRACE_EVENT_FORMAT_H

#include "ddpcore/seam/recorder.h"

#define HARNESS_EVENT_ARGS 5

struct harness_event_format {
    const char *name;
    const char *arg[HARNESS_EVENT_ARGS]; /* "u:seq", "" past the last */
};

static const struct harness_event_format harness_event_formats[DDP_EVENT_COUNT] = {
#define X(id, name, a0, a1, a2, a3, a4) [DDP_EVENT_##id] = {name, {a0, a1, a2, a3, a4}},
#include "ddpcore/seam/event.def"
#undef X
};

static const char *const harness_end_names[] = {"none", "exited", "signaled", "reaped"};

#endif
