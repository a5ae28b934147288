/* What a watched job left behind, as text: how each rank ended, every communicator with its calls,
 * the faults that fired, and what was found. It is the trace.txt of a guest's run folder; the judge
 * reads nothing else. */
#ifndef HARNESS_RECORD_RECORD_H
#define HARNESS_RECORD_RECORD_H

#include "harness/record/account.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_watch_record {
    struct harness_watch watch;       /* arena: NULL */
    struct harness_findings findings; /* in the order in which they were reported */
    bool is_ended;                    /* the job was ended from outside: by a signal to ddprove,
                                         after a finding, or as ranks outlived their launcher */
    int exit_code;                    /* the worst of the processes that were started */
    struct harness_watch_accounts accounts; /* what was judged, and what was not */
    const bool *without; /* [HARNESS_ORACLE_COUNT]: oracles that judge nothing; NULL: all do. Not
                            written: whoever concludes states it */
};

/* Of a member's calls only the last ones are written, at most so many. */
#define HARNESS_WATCH_RECORD_CALLS_MAX 1024

/* Append the record. */
void harness_watch_record_print(const struct harness_watch_record *record, struct ddp_text *out);
/* mem: a pool; it keeps everything. Errors: E_PARSE with line and column, E_CORRUPT (it is not what
 * was written), E_NOMEM. */
DDP_MUST_USE ddp_status harness_watch_record_parse(struct ddp_mem *mem, const char *text,
                                                   size_t size_bytes,
                                                   struct harness_watch_record *out,
                                                   struct ddp_err *err);

/* Why a fault that did not fire could do nothing to the calls that it came to; NULL: it fired, or
 * came to none. */
const char *harness_watch_record_unable(const struct harness_watch_record *record, uint32_t fault);

/* What only the end of a job shows: ranks that never showed themselves, calls that some members
 * never posted, steps that were announced and never begun (steps: 0 = none were), and evidence that
 * is not there. Nothing is added beside findings that explain it: a job that was ended early is not
 * asked for more. */
void harness_watch_record_conclude(struct harness_watch_record *record, uint32_t ranks,
                                   uint32_t steps);

#ifdef __cplusplus
}
#endif
#endif
