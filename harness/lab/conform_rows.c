/* Purpose: calls one behind the other and two at once, and what they leave behind. */
#include <stdio.h>
#include <string.h>

#include "harness/lab/conforming.h"

/* LEAK_SPAN calls are set against as many that come LEAK_APART later, LEAK_ROUNDS times. */
enum {
    CALLS = 8,
    MANY = 1003,
    LEAK_SPAN = 8,
    LEAK_APART = 15,
    LEAK_ROUNDS = 4,
    LEAK_BYTES = 1024,
    LEAK_MAPPED_BYTES = 4096 /* each call */
};

/* --- several calls ---------------------------------------------------------------------------- */

/* The k-th call of a row in which each is another one: judged as a trial of its own. */
static void set_call(const struct harness_conforming *run, bool is_varied, uint32_t k)
{
    struct harness_lab_shared *shared = run->team.shared;

    harness_conform_set_trial(run, harness_conform_count(run, MANY));
    shared->trial.calls = CALLS;
    if (is_varied) {
        shared->trial.slice_elem_count = MANY;
        shared->trial.root = harness_lab_call_root(&shared->request, &shared->trial, k);
        shared->trial.elem_count = harness_lab_call_elems(&shared->trial, k);
    }
}

/* Without a pause in between. */
static void try_row(struct harness_conforming *run, bool is_varied)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;
    bool is_right = true;

    for (uint32_t k = 0; k < (uint32_t)CALLS; k++) {
        set_call(run, is_varied, k);
        harness_lab_put_whole(shared, k, k);
    }
    end = harness_conform_try(run, false, &wrong);
    for (uint32_t k = 0; end == HARNESS_TRIAL_WELL && is_right && k < (uint32_t)CALLS; k++) {
        set_call(run, is_varied, k);
        is_right = harness_lab_judge_whole(shared, k, k, &wrong);
    }
    if (end != HARNESS_TRIAL_UNTAKEN) {
        harness_conform_judge(run, HARNESS_CONFORM_NEXT,
                              end == HARNESS_TRIAL_WELL && is_right ? NULL : &wrong);
    }
}

void harness_conform_row(struct harness_conforming *run)
{
    try_row(run, false);
    if (!run->is_choosy && !harness_conform_is_over(run) &&
        !harness_conform_has_failed(run, HARNESS_CONFORM_NEXT)) {
        try_row(run, true);
    }
}

void harness_conform_two(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;

    harness_conform_set_trial(run, harness_conform_count(run, MANY));
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

/* The least that each rank held behind any of some calls: what its engine's threads hold for a
 * moment is in no least. */
struct held {
    uint64_t heap_bytes[HARNESS_LAB_RANKS_MAX], mapped_bytes[HARNESS_LAB_RANKS_MAX];
    uint64_t descriptors[HARNESS_LAB_RANKS_MAX];
};

static void lower(uint64_t *least, uint64_t value)
{
    *least = value < *least ? value : *least;
}

static uint64_t growth(uint64_t from, uint64_t to)
{
    return to > from ? to - from : 0;
}

/* Makes that many calls. False: one did not end well, which is another property. */
static bool hold(struct harness_conforming *run, uint32_t calls, struct held *least)
{
    const struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;

    memset(least, 0xff, sizeof *least);
    for (uint32_t i = 0; i < calls; i++) {
        harness_conform_set_trial(run, harness_conform_count(run, 64));
        harness_lab_put_whole(run->team.shared, 0, 0);
        if (harness_conform_try(run, false, &wrong) != HARNESS_TRIAL_WELL) {
            return false;
        }
        for (uint32_t r = 0; r < shared->request.ranks; r++) {
            lower(&least->heap_bytes[r], shared->slot[r].outcome.heap_bytes);
            lower(&least->mapped_bytes[r], shared->slot[r].outcome.mapped_bytes);
            lower(&least->descriptors[r], shared->slot[r].outcome.descriptors);
        }
    }
    return true;
}

/* Of the heap, or else of what is mapped beside it, which a heap that has holes moves too; 0: as
 * good as none. */
static uint64_t leaked_bytes(const struct held *before, const struct held *behind, uint32_t r)
{
    uint64_t heap = growth(before->heap_bytes[r], behind->heap_bytes[r]);
    uint64_t mapped = growth(before->mapped_bytes[r], behind->mapped_bytes[r]);

    if (heap > LEAK_BYTES) {
        return heap;
    }
    return mapped >= (uint64_t)LEAK_APART * LEAK_MAPPED_BYTES ? mapped : 0;
}

/* Keeps those of the growing ranks that grew again. Returns the first of them, UINT32_MAX: none. */
static uint32_t keep_growing(uint32_t ranks, const struct held *before, const struct held *behind,
                             bool grows[])
{
    uint32_t first = UINT32_MAX;

    for (uint32_t r = ranks; r-- > 0;) {
        grows[r] = grows[r] && (behind->descriptors[r] > before->descriptors[r] ||
                                leaked_bytes(before, behind, r) > 0);
        first = grows[r] ? r : first;
    }
    return first;
}

/* What the first calls keep may be kept; what each call keeps is lost. Where a rank holds more than
 * before, more calls must show that it goes on so: an engine with threads holds now more, now less.
 */
void harness_conform_leak(struct harness_conforming *run)
{
    struct harness_lab_wrong wrong = {.rank = 0, .elem = SIZE_MAX};
    bool grows[HARNESS_LAB_RANKS_MAX];
    struct held before, behind;

    harness_conform_end_team(run);
    memset(grows, true, sizeof grows);
    if (!hold(run, LEAK_SPAN, &behind) || !hold(run, LEAK_SPAN, &before)) {
        return;
    }
    for (int round = 0; round < LEAK_ROUNDS && wrong.rank != UINT32_MAX; round++) {
        if (!hold(run, LEAK_APART - LEAK_SPAN, &behind) || !hold(run, LEAK_SPAN, &behind)) {
            return;
        }
        wrong.rank = keep_growing(run->team.shared->request.ranks, &before, &behind, grows);
        if (wrong.rank != UINT32_MAX) {
            (void)snprintf(wrong.text, sizeof wrong.text,
                           "rank %u: %u calls leave %llu bytes and %llu descriptors behind",
                           wrong.rank, (uint32_t)LEAK_APART,
                           (unsigned long long)leaked_bytes(&before, &behind, wrong.rank),
                           (unsigned long long)growth(before.descriptors[wrong.rank],
                                                      behind.descriptors[wrong.rank]));
        }
        before = behind;
    }
    harness_conform_judge(run, HARNESS_CONFORM_FREED, wrong.rank != UINT32_MAX ? &wrong : NULL);
}
