#include "tests/unit/schedule/schedule_proof.h"

#include <stdio.h>
#include <string.h>

#include "harness/sums/schedule_set.h"

struct ddp_schedule_params schedule_case_params(const struct schedule_case *test, uint32_t rank)
{
    return (struct ddp_schedule_params){.kind = test->algorithm->kind,
                                        .dtype = DDP_DTYPE_F32,
                                        .rank = rank,
                                        .size = test->size,
                                        .elem_count = test->elem_count,
                                        .root = test->root,
                                        .segment_elem_count = test->segment_elem_count,
                                        .is_in_place = test->is_in_place};
}

/* Adds "verdict: what", after the case itself when text is still empty. */
static void say(const struct schedule_case *test, const char *verdict, const char *what, char *text)
{
    size_t used = strlen(text);

    if (used == 0) {
        (void)snprintf(text, SCHEDULE_PROOF_TEXT_BYTES,
                       "%s size %u count %zu root %u segment %zu in_place %d",
                       test->algorithm->name, test->size, test->elem_count, test->root,
                       test->segment_elem_count, test->is_in_place);
        used = strlen(text);
    }
    (void)snprintf(text + used, SCHEDULE_PROOF_TEXT_BYTES - used, "; %s: %s", verdict, what);
}

/* A member's schedule, through its text, into the set. */
static ddp_status add_member(const struct schedule_case *test, uint32_t rank,
                             void (*mutate)(struct ddp_schedule *schedule),
                             struct harness_schedules *schedules, struct ddp_err *err)
{
    const struct ddp_schedule_params params = schedule_case_params(test, rank);
    struct harness_schedule parsed;
    struct ddp_schedule schedule;
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, schedules->mem);
    ddp_schedule_init(&schedule, schedules->mem, test->algorithm->name, &params);
    test->algorithm->emit(&schedule);
    if (mutate != NULL && rank == 0) {
        mutate(&schedule);
    }
    status = schedule.status == DDP_OK ? DDP_OK : ddp_err_set(err, schedule.status, "emission");
    ddp_schedule_print(&schedule, &text);
    ddp_schedule_fini(&schedule);
    if (status == DDP_OK) {
        status = harness_schedule_parse(schedules->mem, ddp_text_str(&text), &parsed, err);
    }
    if (status == DDP_OK) {
        status = harness_schedules_add(schedules, &parsed, err);
    }
    ddp_text_fini(&text);
    return status;
}

void schedule_prove(const struct schedule_case *test, void (*mutate)(struct ddp_schedule *schedule),
                    char *text)
{
    struct ddp_mem_pool *pool = NULL;
    struct harness_schedules schedules;
    struct harness_findings findings;
    struct ddp_err err = {""};
    ddp_status status = ddp_mem_pool_create(&pool);

    text[0] = '\0';
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    for (uint32_t rank = 0; status == DDP_OK && rank < test->size; rank++) {
        status = add_member(test, rank, mutate, &schedules, &err);
    }
    if (status == DDP_OK) {
        status = harness_schedules_order(&schedules);
    }
    if (status == DDP_OK) {
        status = harness_schedule_set_prove(&schedules.sets[0], &findings);
    }
    if (status != DDP_OK || findings.is_failed) {
        say(test, ddp_status_name(status), err.text, text);
    }
    for (size_t i = 0; i < findings.count; i++) {
        say(test, harness_verdict_name(findings.items[i].verdict), findings.items[i].text, text);
    }
    ddp_mem_pool_destroy(pool);
}
