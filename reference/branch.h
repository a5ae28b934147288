/* The branch rules of the model "branchy", for those who name them without building a model. */
#ifndef REFERENCE_BRANCH_H
#define REFERENCE_BRANCH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Which branches of "branchy" a forward pass takes. X(identifier, name, meaning) */
#define REF_BRANCH_TABLE(X)                                                             \
    X(REF_BRANCH_BOTH, "both", "every parameter is used everywhere")                    \
    X(REF_BRANCH_ONLY_A, "only_a", "branch b is unused on every rank")                  \
    X(REF_BRANCH_RANK_SKIPS, "rank_skips", "branch b is unused on rank skip_rank only") \
    X(REF_BRANCH_RANK_USES_NONE, "rank_uses_none",                                      \
      "rank skip_rank uses no parameter at all: its loss is of its inputs alone")       \
    X(REF_BRANCH_BY_RANK, "by_rank", "even ranks use a, odd ranks use b")               \
    X(REF_BRANCH_BY_STEP, "by_step", "even steps use a, odd steps use b")               \
    X(REF_BRANCH_BY_DATA, "by_data", "a if the batch's first label is even, else b")
enum ref_branch_rule {
#define X(id, name, meaning) id,
    REF_BRANCH_TABLE(X)
#undef X
        REF_BRANCH_RULE_COUNT
};

#ifdef __cplusplus
}
#endif
#endif
