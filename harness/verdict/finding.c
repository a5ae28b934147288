/* Findings and sets of ranks. */
#include <string.h>

#include "harness/verdict/verdict.h"

#define SET_WORDS (HARNESS_RANKS_MAX / 64)

void harness_rank_set_add(struct harness_rank_set *set, uint32_t rank)
{
    DDP_ASSERT(rank < HARNESS_RANKS_MAX);
    set->word[rank / 64] |= UINT64_C(1) << (rank % 64);
}

bool harness_rank_set_has(const struct harness_rank_set *set, uint32_t rank)
{
    return rank < HARNESS_RANKS_MAX && ((set->word[rank / 64] >> (rank % 64)) & 1u) != 0;
}

bool harness_rank_set_is_empty(const struct harness_rank_set *set)
{
    return harness_rank_set_count(set) == 0;
}

bool harness_rank_set_is_equal(const struct harness_rank_set *a, const struct harness_rank_set *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool harness_rank_set_is_subset(const struct harness_rank_set *a, const struct harness_rank_set *of)
{
    for (size_t i = 0; i < SET_WORDS; i++) {
        if ((a->word[i] & ~of->word[i]) != 0) {
            return false;
        }
    }
    return true;
}

uint32_t harness_rank_set_count(const struct harness_rank_set *set)
{
    uint32_t count = 0;

    for (size_t i = 0; i < SET_WORDS; i++) {
        count += (uint32_t)__builtin_popcountll(set->word[i]);
    }
    return count;
}

void harness_finding_init(struct harness_finding *finding, enum harness_verdict verdict,
                          enum harness_oracle_id oracle, enum harness_mode mode)
{
    DDP_ASSERT(verdict < HARNESS_VERDICT_COUNT);
    DDP_ASSERT(oracle != HARNESS_ORACLE_NONE && oracle < HARNESS_ORACLE_COUNT);
    DDP_ASSERT(mode != HARNESS_MODE_NONE && mode < HARNESS_MODE_COUNT);
    memset(finding, 0, sizeof *finding);
    finding->verdict = verdict;
    finding->oracle = oracle;
    finding->mode = mode;
    finding->op.bucket = -1;
    finding->step = -1;
    finding->micro = -1;
    finding->phase = -1;
    finding->detect_ns = -1;
    finding->attribute_ns = -1;
}

void harness_findings_init(struct harness_findings *findings, struct ddp_mem *mem)
{
    memset(findings, 0, sizeof *findings);
    findings->mem = mem;
}

void harness_findings_fini(struct harness_findings *findings)
{
    ddp_mem_free(findings->mem, findings->items);
    findings->items = NULL;
    findings->count = 0;
    findings->capacity = 0;
}

void harness_findings_add(struct harness_findings *findings, const struct harness_finding *finding)
{
    struct harness_finding *items;

    DDP_ASSERT(finding->verdict != HARNESS_VERDICT_NONE);
    items = ddp_mem_grow(findings->mem, findings->items, findings->count, &findings->capacity,
                         sizeof *items);
    if (items == NULL) {
        findings->is_failed = true;
        return;
    }
    findings->items = items;
    findings->items[findings->count++] = *finding;
}
