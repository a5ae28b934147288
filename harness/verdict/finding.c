/* Findings. */
#include <string.h>

#include "harness/verdict/verdict.h"

void harness_finding_init(struct harness_finding *finding, struct ddp_mem *mem,
                          enum harness_verdict verdict, enum harness_oracle_id oracle,
                          enum harness_mode mode)
{
    DDP_ASSERT(verdict < HARNESS_VERDICT_COUNT);
    DDP_ASSERT(oracle != HARNESS_ORACLE_NONE && oracle < HARNESS_ORACLE_COUNT);
    DDP_ASSERT(mode != HARNESS_MODE_NONE && mode < HARNESS_MODE_COUNT);
    memset(finding, 0, sizeof *finding);
    finding->verdict = verdict;
    finding->oracle = oracle;
    finding->mode = mode;
    finding->culprits = harness_rank_set_in(mem);
    finding->victims = harness_rank_set_in(mem);
    finding->params = harness_list_in(mem);
    finding->op.bucket = -1;
    finding->step = -1;
    finding->micro = -1;
    finding->phase = -1;
    finding->stage = -1;
    finding->place = HARNESS_STEP_PLACE_NONE;
    finding->cause = -1;
    finding->detect_ns = -1;
    finding->attribute_ns = -1;
}

void harness_finding_add_param(struct harness_finding *finding, uint32_t param)
{
    if (!harness_list_has(&finding->params, param)) {
        harness_list_add(&finding->params, param);
    }
}

bool harness_finding_is_failed(const struct harness_finding *finding)
{
    return finding->culprits.ranks.is_failed || finding->victims.ranks.is_failed ||
           finding->params.is_failed;
}

struct harness_finding harness_finding_copy(const struct harness_finding *finding,
                                            struct ddp_mem *mem)
{
    struct harness_finding copy = *finding;

    copy.culprits.ranks = harness_list_copy(&finding->culprits.ranks, mem);
    copy.victims.ranks = harness_list_copy(&finding->victims.ranks, mem);
    copy.params = harness_list_copy(&finding->params, mem);
    return copy;
}

void harness_finding_free(struct harness_finding *finding)
{
    harness_list_free(&finding->culprits.ranks);
    harness_list_free(&finding->victims.ranks);
    harness_list_free(&finding->params);
}

void harness_findings_init(struct harness_findings *findings, struct ddp_mem *mem)
{
    memset(findings, 0, sizeof *findings);
    findings->mem = mem;
}

void harness_findings_fini(struct harness_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        harness_finding_free(&findings->items[i]);
    }
    ddp_mem_free(findings->mem, findings->items);
    *findings = (struct harness_findings){.mem = findings->mem};
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
    findings->items[findings->count] = harness_finding_copy(finding, findings->mem);
    findings->is_failed |= harness_finding_is_failed(&findings->items[findings->count]);
    findings->count++;
}
