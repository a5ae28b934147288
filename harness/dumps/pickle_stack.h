/* The stack and the memo of a pickle that is being read: values as JSON, owned by them. */
#ifndef HARNESS_DUMPS_PICKLE_STACK_H
#define HARNESS_DUMPS_PICKLE_STACK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What may be on the stack. PICKLE_LIST and PICKLE_MAP can still grow; PICKLE_HELD is one of them
 * that the memo was asked for, so that it would hold itself if it did. */
enum harness_pickle_form { PICKLE_MARK, PICKLE_SHARED, PICKLE_LIST, PICKLE_MAP, PICKLE_HELD };

struct harness_pickle_item {
    enum harness_pickle_form form;
    json_t *value; /* owned; NULL: a mark */
    unsigned depth;
    size_t weight;  /* values in it, itself too, each time that it is there */
    size_t memo;    /* 1 + its number in the memo; 0: it has none */
    bool is_closed; /* in the memo: it grows no more */
};

struct harness_pickle_rules;

struct harness_pickle {
    const unsigned char *data;
    size_t size_bytes, at; /* at: of the opcode that is being read */
    size_t next;
    struct harness_pickle_item *stack;
    size_t count, capacity;
    struct harness_pickle_item *memo;
    size_t memo_count, memoized;
    size_t unfolded;                          /* weights of all that was fetched */
    bool is_short;                            /* the bytes ended before STOP */
    const struct harness_pickle_rules *rules; /* NULL: nothing is named */
    void *context;                            /* of the rules */
    struct ddp_err *err;
};

/* Returns status; the text begins with the opcode's place. */
ddp_status harness_pickle_fail(const struct harness_pickle *reader, ddp_status status,
                               const char *what);
/* Takes over value. Errors: E_PARSE if it is NULL or too deep, E_NOMEM. */
ddp_status harness_pickle_push(struct harness_pickle *reader, enum harness_pickle_form form,
                               json_t *value, unsigned depth);
/* Where the items above the last mark begin; 0: there is no mark. */
size_t harness_pickle_above_mark(const struct harness_pickle *reader);
/* Leave only so many items on the stack. */
void harness_pickle_drop_to(struct harness_pickle *reader, size_t count);
/* Move items from first on into the list, or the map, below `below`. Errors: E_PARSE, E_UNSUPPORTED
 * where that would then hold itself, E_NOMEM. */
ddp_status harness_pickle_append(struct harness_pickle *reader, size_t below, size_t first);
ddp_status harness_pickle_set_items(struct harness_pickle *reader, size_t below, size_t first);
/* Items from first on become one array. */
ddp_status harness_pickle_make_tuple(struct harness_pickle *reader, size_t first, bool has_mark);
/* Note the top of the stack in the memo; push what was noted there. Errors: E_PARSE, E_NOMEM,
 * E_UNSUPPORTED if it unfolds to many times the file's size. */
ddp_status harness_pickle_put(struct harness_pickle *reader, uint64_t index);
ddp_status harness_pickle_get(struct harness_pickle *reader, uint64_t index);
/* pickle_named.c: opcodes that name, call or build something, by the rules, which are there. */
DDP_MUST_USE ddp_status harness_pickle_named(struct harness_pickle *reader, unsigned char code);

#ifdef __cplusplus
}
#endif
#endif
