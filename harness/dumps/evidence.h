/* What dumps and logs of a job say, in one form: groups, calls by rank and sequence, and notes
 * about ranks. Readers add to it (read.h), settling orders it, the analysis (harness/diagnose) only
 * reads it. All of it lies in one pool and is never freed piece by piece. */
#ifndef HARNESS_DUMPS_EVIDENCE_H
#define HARNESS_DUMPS_EVIDENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"
#include "harness/verdict/set.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of calls go up to here; larger ones are damage. */
#define HARNESS_DIAG_SEQ_MAX (INT64_C(1) << 53)

/* Where something stands: a line of a text, or an entry of a record. */
struct harness_diag_place {
    const char *file;
    int64_t line;  /* from 1; 0: none */
    int64_t entry; /* from 0; -1: none */
};

/* Whether a call was done when it was written down. Gloo calls nearly everything retired, so there
 * only "not done" is believed. */
enum harness_diag_state {
    HARNESS_DIAG_UNKNOWN,
    HARNESS_DIAG_PENDING,
    HARNESS_DIAG_STARTED,
    HARNESS_DIAG_DONE
};

struct harness_diag_call {
    int64_t seq;   /* of its group; of messages: of the group's messages */
    int64_t order; /* among all calls of its rank */
    const char *kind;
    bool is_message;
    bool is_send;       /* of a message */
    int64_t peer;       /* of a message: the rank in its group; -1: unknown */
    int64_t root;       /* -1: not recorded */
    const char *redop;  /* "": not recorded */
    const char *counts; /* elements of each input, "100,20"; "": not recorded */
    const char *dtype;
    enum harness_diag_state state;
    uint64_t created_ns; /* 0: unknown */
    const char *site; /* the program's own innermost line, "train.py:12 step"; "": not recorded */
    uint64_t stack;   /* hash of all frames; 0: not recorded */
    struct harness_diag_place place;
};

/* A rank's part in a group. */
struct harness_diag_member {
    uint32_t rank;
    bool has_record; /* something tells how far it is */
    bool is_cut;     /* its first calls are not in the record */
    bool is_log;     /* put together from lines or counts: they say nothing of a call's state */
    bool is_short;   /* its record ends in the middle */
    bool is_open;    /* its last calls may not be: it has posted at least `posted` */
    int64_t posted;  /* the highest sequence that it has posted; 0: none */
    int64_t done;    /* the highest one known as done; -1: not recorded */
    const char *file;
    uint64_t written_ns;             /* when its record was written; 0: unknown */
    struct harness_diag_call *calls; /* collectives, rising by seq, each once */
    size_t call_count, call_capacity;
    struct harness_diag_call *messages; /* in order */
    size_t message_count, message_capacity;
};

struct harness_diag_group {
    const char *name, *desc;
    const char *title; /* how it is called; after settling */
    bool is_local;     /* its ranks are numbers within the communicator (RAS) */
    bool is_gloo;      /* its messages are not recorded */
    bool is_world;     /* every rank of the job is a member */
    bool is_complete;  /* who its members are was written down */
    struct harness_rank_set ranks;
    struct harness_diag_member *members; /* after settling: rising by rank, one for each of ranks */
    size_t member_count, member_capacity;
};

/* What one file says of one rank's calls. */
struct harness_diag_record {
    uint32_t rank;
    bool is_cut;   /* the oldest calls were overwritten */
    bool is_short; /* the newest are missing: the file ends in the middle */
    bool has_stacks;
    bool is_log; /* put together from lines */
    const char *file;
    uint64_t written_ns, newest_ns;
    struct harness_diag_part { /* a group's part of it */
        size_t group;
        int64_t posted, done;            /* as stated; 0 and -1: not */
        struct harness_diag_call *calls; /* collectives and messages, in the order of the record */
        size_t count, capacity;
    } * parts;
    size_t part_count, part_capacity;
};

/* Something else that is known of a rank. */
enum harness_diag_note_kind {
    HARNESS_DIAG_NOTE_SIGNAL,  /* ended by a signal; number */
    HARNESS_DIAG_NOTE_EXIT,    /* exited; number */
    HARNESS_DIAG_NOTE_RAISED,  /* an error of its own; number 1: it ended with it */
    HARNESS_DIAG_NOTE_LOST,    /* an error that a lost or late peer causes; text */
    HARNESS_DIAG_NOTE_TIMEOUT, /* a call of its took too long */
    HARNESS_DIAG_NOTE_INSIDE,  /* its stack is inside a collective */
    HARNESS_DIAG_NOTE_OUTSIDE, /* its stack is in code of its own */
    HARNESS_DIAG_NOTE_LOADING, /* its stack fetches data */
    HARNESS_DIAG_NOTE_DEAD,    /* others report that it does not answer */
    HARNESS_DIAG_NOTE_ODD,     /* it has posted other kinds of calls than the others */
    HARNESS_DIAG_NOTE_COUNTS,  /* how many calls it has made */
    HARNESS_DIAG_NOTE_AUDIT    /* about the evidence itself; rank may be -1 */
};
struct harness_diag_note {
    enum harness_diag_note_kind kind;
    int64_t rank; /* -1: nobody's */
    int64_t number;
    const char *text;
    struct harness_diag_place place;
};

struct harness_diag_evidence {
    struct ddp_mem *mem; /* a pool */
    bool is_failed;      /* out of memory */
    struct harness_diag_group *groups;
    size_t group_count, group_capacity;
    struct harness_diag_record *records;
    size_t record_count, record_capacity;
    struct harness_diag_note *notes;
    size_t note_count, note_capacity;
    struct harness_rank_set named; /* every rank that some file is about */
    uint32_t world;                /* 0: not known */
    unsigned timed_errors;         /* error files with a time, which has no fractions */
};

void harness_diag_evidence_init(struct harness_diag_evidence *evidence, struct ddp_mem *mem);
/* A copy in the pool; "" when memory is out. */
const char *harness_diag_keep(struct harness_diag_evidence *evidence, const char *text);
const char *harness_diag_keep_format(struct harness_diag_evidence *evidence, const char *format,
                                     ...) DDP_PRINTF(2, 3);
/* The group of that name, made if there is none; SIZE_MAX when memory is out. "" and "0" both are
 * the default group. desc may be "". */
size_t harness_diag_group(struct harness_diag_evidence *evidence, const char *name,
                          const char *desc);
/* NULL when memory is out; valid until the next one is added. */
struct harness_diag_record *harness_diag_record_add(struct harness_diag_evidence *evidence,
                                                    uint32_t rank, const char *file);
struct harness_diag_part *harness_diag_record_part(struct harness_diag_evidence *evidence,
                                                   struct harness_diag_record *record,
                                                   size_t group);
/* A call whose number is none is left out. */
void harness_diag_call_add(struct harness_diag_evidence *evidence, struct harness_diag_part *part,
                           const struct harness_diag_call *call);
void harness_diag_note(struct harness_diag_evidence *evidence, enum harness_diag_note_kind kind,
                       int64_t rank, int64_t number, struct harness_diag_place place,
                       const char *text);
/* Once all files are read: one record for each rank, members of each group with their calls. */
void harness_diag_settle(struct harness_diag_evidence *evidence);
/* After settling: the member of that rank, or NULL. */
struct harness_diag_member *harness_diag_member_of(const struct harness_diag_group *group,
                                                   uint32_t rank);
/* The call of that sequence, or NULL. */
const struct harness_diag_call *harness_diag_call_at(const struct harness_diag_member *member,
                                                     int64_t seq);
/* "default_pg", "group 2 (dp)"; after settling. */
const char *harness_diag_group_name(const struct harness_diag_group *group);
/* Whether the group is put together from a watchdog's lines, and dumps tell as much of all of its
 * members, and more: then nothing is concluded from the lines. After settling. */
bool harness_diag_is_retold(const struct harness_diag_evidence *evidence, size_t group);
/* "all_reduce 5 (100 x Float, sum)". */
const char *harness_diag_call_text(struct harness_diag_evidence *evidence,
                                   const struct harness_diag_call *call);
/* "dump_1, entry 6", "log:12". */
const char *harness_diag_place_text(struct harness_diag_evidence *evidence,
                                    struct harness_diag_place place);

#ifdef __cplusplus
}
#endif
#endif
