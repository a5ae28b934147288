/* The collective lab: what can be said of an algorithm from its schedules alone, without running
 * it. A source gives the schedules of any world and count as text, the check proves them with the
 * judge's prover (harness/sums) and keeps the smallest counterexample of each property. */
#ifndef HARNESS_COLL_COLL_H
#define HARNESS_COLL_COLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/text.h"
#include "ddpcore/seam/recorder.h"
#include "harness/sums/schedule_set.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- sources ---------------------------------------------------------------------------------- */

/* One collective that an algorithm is asked for. */
struct harness_coll_case {
    uint32_t world;
    size_t elem_count;
    size_t segment_elem_count;    /* longest message; 0: any length */
    bool is_in_place;             /* of a reduction to a root: there */
    uint32_t root;                /* broadcast, reduce */
    const uint32_t *node_of_rank; /* [world]; NULL: all on one node */
    enum ddp_dtype dtype;         /* 0 is fp32 */
};

#define HARNESS_COLL_WORLD_MAX 1024u
#define HARNESS_COLL_READ_MAX  9u  /* worlds up to this are proved as they are read from text */
#define HARNESS_COLL_NODES_MAX 16u /* worlds beyond are on one node */

/* Classes of determinism that an algorithm claims, and whether its rounds can be followed; bits, as
 * in ddprove_coll.h. */
enum harness_coll_claim {
    HARNESS_COLL_CLAIM_RANKS = 1,   /* same_bits */
    HARNESS_COLL_CLAIM_ORDER = 2,   /* same_order */
    HARNESS_COLL_CLAIM_ROUNDS = 16, /* rounds */
};

struct harness_coll_source;
struct harness_coll_source_ops {
    /* Appends the schedule of one rank, as ddp_schedule_print does. Errors: E_INVALID with what is
     * wrong with it; others if nothing can be said of it (E_NOMEM, E_IO). */
    ddp_status (*emit)(struct harness_coll_source *source, const struct harness_coll_case *test,
                       uint32_t rank, struct ddp_text *out, struct ddp_err *err);
    void (*destroy)(struct harness_coll_source *source);
    /* The same schedule without text; NULL: it has no other way. Errors: as of emit. */
    ddp_status (*make)(struct harness_coll_source *source, const struct harness_coll_case *test,
                       uint32_t rank, struct ddp_mem *mem, struct harness_schedule *out,
                       struct ddp_err *err);
};
struct harness_coll_source {
    const struct harness_coll_source_ops *ops;
    const char *name; /* of the algorithm; valid until _destroy */
    enum ddp_coll_kind kind;
    unsigned claims;  /* of enum harness_coll_claim */
    bool is_measured; /* it says how much memory an answer left behind: */
    uint64_t leaked_bytes;
    bool is_crashed; /* a built-in one, which may have damaged this process's memory */
};

/* The built-in algorithm of that name. Errors: E_NOT_FOUND with the nearest name; E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_builtin_open(const char *name,
                                                  struct harness_coll_source **out,
                                                  struct ddp_err *err);
/* The algorithm of a shared object (harness/plugin). program: the path of ddprove itself.
 * Errors: E_INVALID: it is no plug-in, and why; E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_plugin_open(const char *program, const char *path,
                                                 struct harness_coll_source **out,
                                                 struct ddp_err *err);
void harness_coll_source_close(struct harness_coll_source *source); /* NULL: nothing to do */

/* Whether this rank is asked in place: of a reduction to a root, other ranks have no output. */
bool harness_coll_is_in_place(const struct harness_coll_source *source,
                              const struct harness_coll_case *test, uint32_t rank);

/* The schedules of all ranks of a case, read back and put in order, in `schedules`, which is
 * initialised and holds one set afterwards. *out_rank: the rank whose schedule is wrong.
 * Errors: E_INVALID, E_PARSE: it cannot be used, and why; others. */
DDP_MUST_USE ddp_status harness_coll_emit(struct harness_coll_source *source,
                                          const struct harness_coll_case *test,
                                          struct harness_schedules *schedules, uint32_t *out_rank,
                                          struct ddp_err *err);

/* --- properties ------------------------------------------------------------------------------- */

/* X(identifier, name, meaning) */
#define HARNESS_COLL_PROPERTY_TABLE(X)                                                          \
    X(HARNESS_COLL_EMITS, "well_formed",                                                        \
      "each rank's steps can be read: ranges lie in their buffers, scratch as it was declared") \
    X(HARNESS_COLL_LIVE, "deadlock_free",                                                       \
      "all steps end, even if a message moves only when both ends are ready")                   \
    X(HARNESS_COLL_MATCHED, "matched", "both ends of a message agree in length and type")       \
    X(HARNESS_COLL_ORDERED, "no_hazard",                                                        \
      "no step touches what another one writes, unless one waits for the other")                \
    X(HARNESS_COLL_COMPLETE, "exactly_once",                                                    \
      "each output element holds each contribution that it should, once, and nothing else")     \
    X(HARNESS_COLL_INPUT_KEPT, "input_kept",                                                    \
      "nothing is written to the input, unless it is the output")                               \
    X(HARNESS_COLL_ROUNDS, "rounds",                                                            \
      ("its rounds can be run one after the other: both ends of a message are of one round, "   \
       "none is left out"))                                                                     \
    X(HARNESS_COLL_SEGMENTED, "segmented", "no message is longer than was asked for")           \
    X(HARNESS_COLL_PURE, "repeatable", "the same question gives the same steps")                \
    X(HARNESS_COLL_FREED, "no_leak", "an answer leaves no memory behind")                       \
    X(HARNESS_COLL_SAME_BITS, "same_bits",                                                      \
      "all ranks add an element in the same order, and so get the same bits")                   \
    X(HARNESS_COLL_SAME_ORDER, "same_order",                                                    \
      "every element is added in one order, whatever the count is: buckets may be merged")
enum harness_coll_property {
#define X(id, name, meaning) id,
    HARNESS_COLL_PROPERTY_TABLE(X)
#undef X
        HARNESS_COLL_PROPERTY_COUNT
};
const char *harness_coll_property_name(enum harness_coll_property property);
const char *harness_coll_property_meaning(enum harness_coll_property property);

/* X(identifier, name) */
#define HARNESS_COLL_STATE_TABLE(X)                           \
    X(HARNESS_COLL_NOT_JUDGED, "NOT JUDGED") /* in no case */ \
    X(HARNESS_COLL_PASS, "PASS")                              \
    X(HARNESS_COLL_FAIL, "FAIL")                              \
    X(HARNESS_COLL_NOT_CLAIMED, "not claimed") /* it does not hold, and need not */
enum harness_coll_state {
#define X(id, name) id,
    HARNESS_COLL_STATE_TABLE(X)
#undef X
        HARNESS_COLL_STATE_COUNT
};
const char *harness_coll_state_name(enum harness_coll_state state);

struct harness_coll_result {
    enum harness_coll_state state;
    size_t case_count; /* in which it was judged */
    /* Where it does not hold, the smallest: by world, then count. */
    struct harness_coll_case at; /* node_of_rank: NULL; it is here: */
    bool has_nodes;
    uint32_t nodes[HARNESS_COLL_NODES_MAX];
    struct harness_step_place place; /* in the schedules of that case */
    char text[700];                  /* what happens there; "": it holds */
};

/* --- check ------------------------------------------------------------------------------------ */

struct harness_coll_range {
    uint64_t first, last;
    bool is_chosen; /* else the check chooses */
};

struct harness_coll_options {
    struct harness_coll_range worlds, counts;
    bool is_full; /* many more of them */
    struct ddp_clock *clock;
    uint64_t budget_ns; /* no case is begun later; 0: no limit */
    /* Called now and then; may be NULL. */
    void (*progress)(void *context, size_t done, size_t total);
    void *context;
};

/* The types that algorithms are asked for. */
enum { HARNESS_COLL_TYPES = 3 };
enum ddp_dtype harness_coll_type(size_t index); /* fp32 first */

/* What a world costs, by the events of its schedules. */
struct harness_coll_cost {
    uint32_t world;
    size_t elem_count;                  /* of the longer of a rank's input and output */
    uint64_t messages, elems;           /* sent by all ranks */
    uint64_t rank_messages, rank_elems; /* sent by the rank that sends most */
    /* The time that all takes if a message of n elements takes alpha + n beta, a rank sends and
     * receives one at a time, and adding n elements takes n gamma; in units of one of the three,
     * the others 0. */
    double rounds, transfers, additions;
    double least_rounds, least_transfers, least_additions; /* of any algorithm of the kind */
    uint32_t depth; /* most additions on the way of a contribution */
    /* Most that an element of a sum may be wrong by, as a part of the sum of its contributions'
     * magnitudes (harness_schedule_sums_bound). */
    double bound[HARNESS_COLL_TYPES];
};
enum { HARNESS_COLL_COSTS = 4 };

struct harness_coll_report {
    char name[64];
    enum ddp_coll_kind kind;
    struct harness_coll_result result[HARNESS_COLL_PROPERTY_COUNT];
    size_t case_count, case_total; /* judged; planned */
    struct harness_coll_range worlds, counts;
    bool is_measured; /* no_leak is asked */
    bool is_stopped;  /* the budget was used up before all cases were */
    uint64_t elapsed_ns;
    struct harness_coll_cost cost[HARNESS_COLL_COSTS];
    size_t cost_count; /* 0: something is wrong with it, or it adds nothing */
};

/* Judges all cases. Errors: E_NOMEM, E_IO with what failed; a wrong algorithm is none. */
DDP_MUST_USE ddp_status harness_coll_check(struct harness_coll_source *source,
                                           const struct harness_coll_options *options,
                                           struct harness_coll_report *out, struct ddp_err *err);
/* Of all properties: FAIL, else INCONCLUSIVE if it was stopped or a property never judged. */
enum harness_outcome harness_coll_outcome(const struct harness_coll_report *report);

/* Whether the property means anything for the kind and worlds of the report. */
bool harness_coll_is_asked(const struct harness_coll_report *report,
                           enum harness_coll_property property);

/* "3 ranks, 5 elements, in place, messages of at most 2". nodes: of its ranks, or NULL. */
void harness_coll_print_case(const struct harness_coll_case *test, const uint32_t *nodes,
                             struct ddp_text *out);

/* The cost of an ordered set. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_cost_of(const struct harness_schedule_set *set,
                                             struct ddp_mem *mem, struct harness_coll_cost *out);

/* The cost of one case; world and elem_count are those of the case. Errors: E_INVALID: its ranks
 * wait for each other, or those of harness_coll_emit; E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_cost_at(struct harness_coll_source *source,
                                             const struct harness_coll_case *test,
                                             struct harness_coll_cost *out, struct ddp_err *err);

/* --- pictures --------------------------------------------------------------------------------- */

/* Who does what when, a column a rank, a line a moment, and what never happens if some wait for
 * ever. _sums: in which tree each element is added, of a set that was proved. _svg: ranks as lines,
 * messages as arrows. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_draw(const struct harness_schedule_set *set,
                                          struct ddp_mem *mem, struct ddp_text *out);
DDP_MUST_USE ddp_status harness_coll_draw_sums(const struct harness_schedule_set *set,
                                               struct ddp_mem *mem, struct ddp_text *out);
DDP_MUST_USE ddp_status harness_coll_draw_svg(const struct harness_schedule_set *set,
                                              struct ddp_mem *mem, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
