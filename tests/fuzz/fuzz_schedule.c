/* Fuzz target: any bytes either are schedules or are refused with a line and a reason; those that
 * are a whole set can be ordered, proven and, if that found nothing, run. Schedules are separated
 * by lines of "---". */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sums/schedule_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { ELEMS_MAX = 64, MEMBERS_MAX = 8 };

/* The longest output is an all-gather's. */
static void check_run(struct harness_schedule_set *set, bool is_proven)
{
    void *input[MEMBERS_MAX];
    void *output[MEMBERS_MAX];
    ddp_status status;

    for (uint32_t i = 0; i < set->size; i++) {
        input[i] = calloc(ELEMS_MAX, sizeof(double));
        output[i] = calloc(ELEMS_MAX * MEMBERS_MAX, sizeof(double));
        DDP_ASSERT(input[i] != NULL && output[i] != NULL);
    }
    status = harness_schedule_set_run(set, input, output);
    /* Types that cannot be converted are only found by running. */
    DDP_ASSERT(!is_proven || status == DDP_OK || status == DDP_E_UNSUPPORTED);
    for (uint32_t i = 0; i < set->size; i++) {
        free(input[i]);
        free(output[i]);
    }
}

static void check_set(struct harness_schedule_set *set)
{
    struct harness_findings findings;
    bool is_small = set->any->elem_count <= ELEMS_MAX && set->size <= MEMBERS_MAX;

    harness_findings_init(&findings, ddp_mem_system());
    DDP_ASSERT(harness_schedule_set_prove(set, &findings) == DDP_OK);
    DDP_ASSERT(!set->is_stuck || findings.count == 1);
    for (uint32_t r = 0; set->is_ordered && r < set->size; r++) {
        for (size_t b = 2; b < set->member[r]->buffer_count; b++) {
            is_small = is_small && set->member[r]->buffer_elem_count[b] <= ELEMS_MAX;
        }
    }
    if (set->is_ordered && is_small) {
        check_run(set, findings.count == 0);
    }
    harness_findings_fini(&findings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    struct harness_schedules schedules;
    char *text = calloc(size_bytes + 1, 1);
    struct ddp_err err = {""};

    DDP_ASSERT(text != NULL);
    if (size_bytes > 0) {
        memcpy(text, data, size_bytes);
    }
    harness_schedules_init(&schedules, ddp_mem_system());
    if (harness_schedules_read(&schedules, text, &err) != DDP_OK) {
        DDP_ASSERT(err.text[0] != '\0');
    }
    DDP_ASSERT(harness_schedules_order(&schedules) == DDP_OK);
    for (size_t s = 0; s < schedules.set_count; s++) {
        check_set(&schedules.sets[s]);
    }
    harness_schedules_fini(&schedules);
    free(text);
    return 0;
}
