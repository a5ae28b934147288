/* Purpose: calls one behind the other and two at once, and what they leave behind. */
#include <stdio.h>

#include "harness/lab/conforming.h"

enum { CALLS = 8, LEAK_CALLS = 32, LEAK_BYTES = 1024 };

/* --- several calls ---------------------------------------------------------------------------- */

void harness_conform_row(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;
    bool is_right = true;

    harness_conform_set_trial(run, 1003);
    shared->trial.calls = CALLS;
    for (uint32_t k = 0; k < (uint32_t)CALLS; k++) {
        harness_lab_put_whole(shared, k, k);
    }
    end = harness_conform_try(run, false, &wrong);
    for (uint32_t k = 0; end == HARNESS_TRIAL_WELL && is_right && k < (uint32_t)CALLS; k++) {
        is_right = harness_lab_judge_whole(shared, k, k, &wrong);
    }
    if (end != HARNESS_TRIAL_UNTAKEN) {
        harness_conform_judge(run, HARNESS_CONFORM_NEXT,
                              end == HARNESS_TRIAL_WELL && is_right ? NULL : &wrong);
    }
}

void harness_conform_two(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;

    harness_conform_set_trial(run, 1003);
    shared->trial.is_twofold = true;
    harness_lab_put_whole(shared, 0, 0);
    harness_lab_put_whole(shared, 1, 1);
    end = harness_conform_try(run, false, &wrong);
    if (end == HARNESS_TRIAL_WELL) {
        harness_conform_judge(run, HARNESS_CONFORM_TWO,
                              harness_lab_judge_whole(shared, 0, 0, &wrong) &&
                                      harness_lab_judge_whole(shared, 1, 1, &wrong)
                                  ? NULL
                                  : &wrong);
    } else if (end == HARNESS_TRIAL_BADLY) {
        harness_conform_judge(run, HARNESS_CONFORM_TWO, &wrong);
    }
    harness_conform_end_team(run);
}

/* What the first calls keep may be kept; what each call keeps is lost. */
void harness_conform_leak(struct harness_conforming *run)
{
    const struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong = {.rank = UINT32_MAX, .elem = SIZE_MAX};
    uint64_t heap[HARNESS_LAB_RANKS_MAX], descriptors[HARNESS_LAB_RANKS_MAX];

    harness_conform_end_team(run);
    for (uint32_t i = 0; i < (uint32_t)LEAK_CALLS; i++) {
        harness_conform_set_trial(run, 64);
        harness_lab_put_whole(run->team.shared, 0, 0);
        if (harness_conform_try(run, false, &wrong) != HARNESS_TRIAL_WELL) {
            return; /* that is another property */
        }
        for (uint32_t r = 0; i == (uint32_t)LEAK_CALLS / 2 && r < shared->request.ranks; r++) {
            heap[r] = shared->slot[r].outcome.heap_bytes;
            descriptors[r] = shared->slot[r].outcome.descriptors;
        }
    }
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        const struct harness_lab_outcome *outcome = &shared->slot[r].outcome;
        uint32_t calls = (uint32_t)LEAK_CALLS - (uint32_t)LEAK_CALLS / 2 - 1;

        if (outcome->descriptors > descriptors[r] || outcome->heap_bytes > heap[r] + LEAK_BYTES) {
            wrong.rank = r;
            (void)snprintf(wrong.text, sizeof wrong.text,
                           "rank %u: %u calls leave %llu bytes and %llu descriptors behind", r,
                           calls, (unsigned long long)(outcome->heap_bytes - heap[r]),
                           (unsigned long long)(outcome->descriptors - descriptors[r]));
            harness_conform_judge(run, HARNESS_CONFORM_FREED, &wrong);
            return;
        }
    }
    harness_conform_judge(run, HARNESS_CONFORM_FREED, NULL);
}
