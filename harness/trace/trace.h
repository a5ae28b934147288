/* The trace: everything that ranks recorded in a run, merged, and what the harness observed, in one
 * text file that people can read and `ddprove check` can judge again. Pure data.
 *
 * Text form: lines that begin with # are comments. The header says how the run was made. Then one
 * line an event, sorted by time, then rank, then the rank's own order:
 *   ddprove-trace 2 driver=proc world=4 launcher=own seed=0
 *   <time_ns> r<rank>#<number> <step>.<micro> <phase> <event> <name>=<value> ...
 * Then the harness's observations:
 *   <time_ns> h end rank=1 how=signaled code=9 stopped=0 events=1208 digest=...
 *   <time_ns> h diagnosis verdict=CRASH.SIGNALED oracle=monitor mode=provable culprit=1 ...
 * text=... <time_ns> h files name=schedules count=20 bytes=9480 digest=... <time_ns> h finish
 * start=... lost=0 leak_process=0 leak_shm=0 leak_fd=0 text=... <time_ns> h seal digest=... So that
 * no line can be missing, altered, doubled or moved unnoticed: a rank's events are numbered from 1,
 * its end says how many there are and their digest, and the seal is that of all other lines. A
 * digest is a chain over lines, ddp_hash_bytes(line without its newline, seed = digest so far);
 * comments are in none. The files are what else the judge reads. */
#ifndef HARNESS_TRACE_TRACE_H
#define HARNESS_TRACE_TRACE_H

#include "ddpcore/base/text.h"
#include "ddpcore/seam/recorder.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_trace_event {
    uint32_t rank;
    struct ddp_event_entry entry;
};

enum harness_end_how {
    HARNESS_END_NONE,     /* never started */
    HARNESS_END_EXITED,   /* code = exit status */
    HARNESS_END_SIGNALED, /* code = signal number */
    HARNESS_END_REAPED    /* still running when the run was over, and ended by the harness */
};
struct harness_rank_end {
    enum harness_end_how how;
    int code;
    uint64_t time_ns;
    bool is_stopped; /* it was stopped (SIGSTOP) when the harness ended it */
    uint64_t event_count;
};

/* What the judge reads beside the trace. */
enum harness_files {
    HARNESS_FILES_PLAN,
    HARNESS_FILES_PROGRAM,
    HARNESS_FILES_SCHEDULES,
    HARNESS_FILES_TREES,
    HARNESS_FILES_CHECKPOINT,
    HARNESS_FILES_GIVEN,     /* the checkpoint that a restore run went on from */
    HARNESS_FILES_SURVIVORS, /* what those that went on after a loss left */
    HARNESS_FILES_COUNT
};
struct harness_trace_files {
    uint64_t count, size_bytes; /* 0: there are none */
    uint64_t digest;
};

struct harness_trace {
    struct ddp_mem *mem;
    uint32_t world_size;
    const char *driver;   /* static: "sim", "proc" */
    const char *launcher; /* static: "own", "mpirun"; who started the processes of proc */
    uint64_t seed;        /* of the simulator's scheduler */
    struct harness_trace_event *events;
    size_t event_count, event_capacity;
    struct harness_rank_end *ends; /* [world_size] */
    struct harness_trace_files files[HARNESS_FILES_COUNT];
    /* The monitor's conclusions, in the order in which it came to them. */
    struct harness_findings diagnoses;
    uint64_t *diagnosis_time_ns; /* [diagnoses.count] */
    uint64_t refuted_count;      /* of those that harness_trace_refute has left out */
    char leak_text[512];         /* "" = nothing was left behind */
    bool leak_process, leak_shm, leak_fd;
    uint64_t lost_count; /* entries torn or overwritten: evidence lost */
    uint64_t start_ns, end_ns;
    /* What the monitor saw when it first concluded something, for people; "" if it never did. A
     * file of its own, not part of the text form. */
    struct ddp_text graph;
};

/* By the own launcher, seed 0. */
void harness_trace_init(struct harness_trace *trace, struct ddp_mem *mem, uint32_t world_size,
                        const char *driver);
void harness_trace_fini(struct harness_trace *trace);
/* Read a rank's whole ring into the trace. Overwritten, torn and meaningless entries are counted as
 * lost. */
DDP_MUST_USE ddp_status harness_trace_add_ring(struct harness_trace *trace, uint32_t rank,
                                               const struct ddp_event_entry *ring,
                                               uint64_t ring_entry_count, uint64_t event_count);
DDP_MUST_USE ddp_status harness_trace_add_diagnosis(struct harness_trace *trace, uint64_t time_ns,
                                                    const struct harness_finding *finding);
/* Leave out the diagnoses that call a rank dead which ended by itself, or the other way round: the
 * monitor has seen no such thing, and nobody is to be blamed by them. */
void harness_trace_refute(struct harness_trace *trace);
/* The order of lines: by time, then rank, then index. */
int harness_trace_compare(const struct harness_trace_event *a, const struct harness_trace_event *b);
/* Sort, and number each rank's events from 1: the merge. Call once after all rings were added. */
void harness_trace_merge(struct harness_trace *trace);
void harness_trace_print(const struct harness_trace *trace, struct ddp_text *out);
const char *harness_files_name(enum harness_files files);
/* Each rank's own events. out: struct ddp_text[world_size], initialised. */
void harness_trace_print_ranks(const struct harness_trace *trace, struct ddp_text *out);
/* One event's line. */
void harness_trace_print_event(const struct harness_trace_event *event, struct ddp_text *out);
/* The line of one diagnosis. */
void harness_trace_print_diagnosis(uint64_t time_ns, const struct harness_finding *finding,
                                   struct ddp_text *out);
/* Reads that line, without its newline. mem: a pool, of the finding's sets. Errors: E_PARSE,
 * E_NOMEM. */
DDP_MUST_USE ddp_status harness_trace_parse_diagnosis(struct ddp_mem *mem, const char *line,
                                                      size_t size_bytes, uint64_t *out_time_ns,
                                                      struct harness_finding *out,
                                                      struct ddp_err *err);
/* Strict reader of the text form (header facts included). Errors: E_PARSE with line and column;
 * E_CORRUPT: it can be read, and is not what was written. */
DDP_MUST_USE ddp_status harness_trace_parse(struct ddp_mem *mem, const char *text,
                                            struct harness_trace *out, struct ddp_err *err);

/* Next event of a kind at or after *cursor (0 to begin), any rank if rank < 0; NULL at the end. */
const struct harness_trace_event *harness_trace_next(const struct harness_trace *trace,
                                                     size_t *cursor, int64_t rank,
                                                     enum ddp_event event);
/* Time of the n-th firing of fault number `fault`, or 0. Number of firings in *out_count. */
uint64_t harness_trace_fired_ns(const struct harness_trace *trace, uint32_t fault,
                                uint32_t *out_count);

#ifdef __cplusplus
}
#endif
#endif
