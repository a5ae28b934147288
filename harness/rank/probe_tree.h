/* A reduction tree, derived from the results of probes. Of rank and lab.
 *
 * In probe (i, j) member i contributes +M, member j -M, all others one unit. M absorbs a unit that
 * is added to it; once +M and -M have met, units are kept. So the result counts the units that were
 * not added below the node where i and j meet; loss(i, j) is the number of the others, i and j
 * included. The method is FPRev's (Xie et al., "FPRev", USENIX ATC 2025), extended by nodes that
 * add several operands at once. */
#ifndef HARNESS_RANK_PROBE_TREE_H
#define HARNESS_RANK_PROBE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "ddpcore/base/text.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_PROBE_MEMBERS_MAX 64u
#define HARNESS_PROBE_NODES_MAX   (2u * HARNESS_PROBE_MEMBERS_MAX)

/* How a node adds its operands, and how it prints. */
enum harness_probe_node {
    HARNESS_PROBE_LEAF,
    HARNESS_PROBE_ROUNDED, /* (a b ...) one rounding of the exact sum to the data's type */
    HARNESS_PROBE_WIDE,    /* [a b ...] the same, to fp32 (16-bit types) or fp64 (fp32) */
    HARNESS_PROBE_OPAQUE   /* {a b ...} neither: its bits cannot be predicted */
};

/* Nodes 0 .. member_count - 1 are the leaves; inner nodes follow, operands before their sum, so the
 * last node is the root. */
struct harness_probe_tree {
    uint32_t member_count, node_count;
    uint8_t parent[HARNESS_PROBE_NODES_MAX];
    uint8_t leaf[HARNESS_PROBE_NODES_MAX]; /* the smallest leaf below a node */
    uint8_t kind[HARNESS_PROBE_NODES_MAX]; /* enum harness_probe_node */
};

/* The number of trees that give these losses: 0, 1, or 2 for several, of which *out is one. loss:
 * uint8_t[member_count * member_count], symmetric; i and j themselves count. 2 <= member_count <=
 * HARNESS_PROBE_MEMBERS_MAX. */
uint32_t harness_probe_tree_build(const uint8_t *loss, uint32_t member_count,
                                  struct harness_probe_tree *out);
/* Members that tell whether an inner node other than the root is rounded: *out_a and *out_b meet at
 * the node, *out_c meets them at its parent. */
void harness_probe_tree_triple(const struct harness_probe_tree *tree, uint32_t node,
                               uint32_t *out_a, uint32_t *out_b, uint32_t *out_c);
bool harness_probe_tree_is_equal(const struct harness_probe_tree *a,
                                 const struct harness_probe_tree *b);
/* "((0 1) (2 3))": operands in the order of their smallest leaf. */
void harness_probe_tree_print(const struct harness_probe_tree *tree, struct ddp_text *out);

#ifdef __cplusplus
}
#endif
#endif
