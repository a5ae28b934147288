/* The reader of records. Internal to this folder. */
#ifndef HARNESS_RECORD_PARSER_H
#define HARNESS_RECORD_PARSER_H

#include "harness/record/record.h"
#include "harness/trace/line.h"

struct record_parser {
    struct harness_line line;
    struct ddp_mem *mem;
    struct harness_watch_record *out;
    uint32_t ranks_read;
    struct harness_watch_member *member; /* whose calls are being read; NULL: nobody's */
    uint64_t calls;                      /* so many it has */
    struct harness_finding_guest about;  /* of the finding that follows */
    uint64_t judged, unjudged;           /* so many oracles' lines follow */
    enum harness_oracle_id last_judged;
    bool has_oracles, has_about, is_ended;
};

/* E_PARSE, at the present line. */
ddp_status record_refuse(struct record_parser *parser, const char *what);
/* name=<number>, at most limit. */
ddp_status record_number_of(struct record_parser *parser, const char *name, uint64_t limit,
                            uint64_t *out);
/* The number behind the line's first word, below limit. */
ddp_status record_subject_of(struct record_parser *parser, uint64_t limit, uint64_t *out);
/* A name that ranks told, and a list of such names. */
ddp_status record_parse_name(struct record_parser *parser);
ddp_status record_parse_list(struct record_parser *parser);
/* Whose bucket a call is of, and what that holds. */
ddp_status record_parse_bucket(struct record_parser *parser, struct harness_watch_call *call);

#endif
