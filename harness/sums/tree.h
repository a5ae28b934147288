/* Measured reduction trees, as the judge reads and runs them: for collectives that leave no
 * schedule. The text of the files is all that it shares with the prober. */
#ifndef HARNESS_SUMS_TREE_H
#define HARNESS_SUMS_TREE_H

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/file.h"
#include "ddpcore/base/mem.h"
#include "harness/verdict/verdict.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most members of a tree: the inputs of the probes cannot tell more of them apart. */
#define HARNESS_TREE_MEMBERS_MAX 64u

/* How a node adds its operands, one rounding each: to the data's type; to fp32 (16-bit types) or
 * fp64 (fp32); in a way that is not known. X(identifier, opening, closing) */
#define HARNESS_TREE_NODE_TABLE(X)    \
    X(HARNESS_TREE_ROUNDED, '(', ')') \
    X(HARNESS_TREE_WIDE, '[', ']')    \
    X(HARNESS_TREE_OPAQUE, '{', '}')
enum harness_tree_node {
#define X(id, opening, closing) id,
    HARNESS_TREE_NODE_TABLE(X)
#undef X
        HARNESS_TREE_LEAF
};

/* A tree in the order in which it is worked out: a leaf's value is pushed, a node takes its
 * operands from the top. */
struct harness_tree_op {
    uint8_t kind;  /* enum harness_tree_node */
    uint8_t count; /* leaf: its member; else operands */
};

struct harness_tree_range {
    size_t first, elem_count;
    size_t op_first;
    uint32_t op_count;
};

/* One file: an all-reduce's trees by element, or why there are none. */
struct harness_tree_map {
    struct ddp_mem *mem;
    struct ddp_mem_pool *pool; /* of ranks; NULL until there are any */
    enum ddp_dtype dtype;
    size_t elem_count;
    uint32_t member_count;
    bool is_last;                  /* measured after the last step, else before the first */
    bool is_measured;              /* ranges cover every element */
    enum harness_verdict verdict;  /* inconsistent: what it points to; else NONE */
    struct harness_rank_set ranks; /* the members concerned */
    char text[200];                /* why it is not measured */
    struct harness_tree_range *ranges;
    size_t range_count, range_capacity;
    struct harness_tree_op *ops;
    size_t op_count, op_capacity;
};

/* text: a whole file, NUL-terminated. Errors: E_PARSE with "line n: what"; E_NOMEM. out needs no
 * _fini then. */
DDP_MUST_USE ddp_status harness_tree_parse(struct ddp_mem *mem, const char *text,
                                           struct harness_tree_map *out, struct ddp_err *err);
void harness_tree_fini(struct harness_tree_map *map);
/* Whether every bit of a sum follows from it. If not, `why` (may be NULL) says what is missing. */
bool harness_tree_is_known(const struct harness_tree_map *map, char *why, size_t why_bytes);
/* The range of a measured map that holds an element. */
const struct harness_tree_range *harness_tree_range_at(const struct harness_tree_map *map,
                                                       size_t elem);
/* The first element for which two measured maps differ; elem_count if they are equal. */
size_t harness_tree_compare(const struct harness_tree_map *a, const struct harness_tree_map *b);
/* The tree of one element as text, "((0 1) 2)"; cut off if it does not fit. */
void harness_tree_print(const struct harness_tree_map *map, size_t elem, char *out,
                        size_t size_bytes);

/* tree_run.c: the sums. input, output: one pointer a member, elements of the map's type in host
 * memory, outputs apart from inputs. Errors: E_STATE (not known), E_NOMEM. */
DDP_MUST_USE ddp_status harness_tree_run(const struct harness_tree_map *map, void *const *input,
                                         void *const *output);
/* Add values in the tree of one element: input holds value_count values of each member, output as
 * many sums. Errors: as above. */
DDP_MUST_USE ddp_status harness_tree_apply(const struct harness_tree_map *map, size_t elem,
                                           void *const *input, size_t value_count, void *output);

/* Every file of a run. */
struct harness_trees {
    struct ddp_mem *mem;
    struct harness_tree_map *maps;
    size_t map_count, map_capacity;
};

/* An empty list; its maps live in mem. */
void harness_trees_init(struct harness_trees *trees, struct ddp_mem *mem);
void harness_trees_fini(struct harness_trees *trees);
/* Take over one parsed map. Errors: E_INVALID (a second one of that count, type and round; another
 * number of members than member_count), E_NOMEM. */
DDP_MUST_USE ddp_status harness_trees_add(struct harness_trees *trees,
                                          const struct harness_tree_map *map, uint32_t member_count,
                                          struct ddp_err *err);
/* Read every .txt file of a folder. A missing folder is an empty one. Errors: E_PARSE, E_INVALID
 * with the file, E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_trees_load(struct harness_trees *trees, struct ddp_files *files,
                                           const char *folder, uint32_t member_count,
                                           struct ddp_err *err);
/* The map of a count, type and round (is_last); borrowed. NULL if there is none. */
const struct harness_tree_map *harness_trees_find(const struct harness_trees *trees,
                                                  size_t elem_count, enum ddp_dtype dtype,
                                                  bool is_last);

#ifdef __cplusplus
}
#endif
#endif
