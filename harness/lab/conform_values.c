/* Purpose: what comes out, in every kind of buffer, type and row of calls.
 * Idea: the plain case comes first, and what differs from it in one thing alone is judged under
 * that thing's name: so a collective that is wrong in one way fails in one property. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/lab/conforming.h"

enum { LARGE_COUNT = 10007, COUNTS = 11 };

/* --- plain calls ------------------------------------------------------------------------------ */

/* Beside what came out: the buffers. */
static void judge_buffers(struct harness_conforming *run)
{
    const struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong = {.elem = SIZE_MAX};

    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        int64_t at = shared->slot[r].outcome.guard_at;

        if (at != 0) {
            wrong.rank = r;
            (void)snprintf(wrong.text, sizeof wrong.text, "rank %u writes %lld bytes %s a buffer",
                           r, (long long)(at < 0 ? -at : at), at < 0 ? "before" : "behind");
            break;
        }
    }
    harness_conform_judge(run, HARNESS_CONFORM_BOUNDS, wrong.text[0] != '\0' ? &wrong : NULL);
    wrong.text[0] = '\0';
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        if (shared->slot[r].outcome.input_at >= 0) {
            wrong.rank = r;
            wrong.elem = (size_t)shared->slot[r].outcome.input_at;
            (void)snprintf(wrong.text, sizeof wrong.text, "element %zu of rank %u's input changed",
                           wrong.elem, r);
            break;
        }
    }
    harness_conform_judge(run, HARNESS_CONFORM_INPUT, wrong.text[0] != '\0' ? &wrong : NULL);
}

/* Whole numbers, judged as `property`. Of the plain case how it ended is a property of its own. */
static enum harness_trial_end try_whole(struct harness_conforming *run,
                                        enum harness_conform_property property)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;

    harness_lab_put_whole(shared, 0, 0);
    end = harness_conform_try(run, false, &wrong);
    if (end == HARNESS_TRIAL_BADLY) {
        harness_conform_judge(
            run, property == HARNESS_CONFORM_EXACT ? HARNESS_CONFORM_ENDS : property, &wrong);
    }
    if (end != HARNESS_TRIAL_WELL) {
        return end;
    }
    if (property == HARNESS_CONFORM_EXACT) {
        harness_conform_judge(run, HARNESS_CONFORM_ENDS, NULL);
        judge_buffers(run);
    }
    harness_conform_judge(run, property,
                          harness_lab_judge_whole(shared, 0, 0, &wrong) ? NULL : &wrong);
    return end;
}

/* Roots, buffers and counts. */
void harness_conform_counts(struct harness_conforming *run)
{
    uint32_t world = run->team.shared->request.ranks;
    const size_t counts[COUNTS] = {0, 1,  2,    world - 1,  world, world + 1, 2 * world + 1,
                                   7, 64, 1003, LARGE_COUNT};
    bool has_root = ddp_coll_kind_has_root(run->report->kind);

    for (size_t i = 0; i < (size_t)COUNTS && !harness_conform_is_over(run); i++) {
        for (uint32_t root = 0; root<(has_root ? world : 1); root += world> 1 ? world - 1 : 1) {
            harness_conform_set_trial(run, counts[i]);
            run->team.shared->trial.root = root;
            if (harness_conform_has_failed(run, HARNESS_CONFORM_ENDS) ||
                try_whole(run, HARNESS_CONFORM_EXACT) != HARNESS_TRIAL_WELL ||
                harness_conform_has_failed(run, HARNESS_CONFORM_EXACT)) {
                return;
            }
            run->team.shared->trial.is_in_place = true;
            if (!harness_conform_has_failed(run, HARNESS_CONFORM_IN_PLACE)) {
                (void)try_whole(run, HARNESS_CONFORM_IN_PLACE);
            }
            run->team.shared->trial.is_in_place = false;
            run->team.shared->trial.shift = 1 + (uint32_t)i % 3;
            if (!harness_conform_has_failed(run, HARNESS_CONFORM_SHIFTED)) {
                (void)try_whole(run, HARNESS_CONFORM_SHIFTED);
            }
        }
    }
}

/* "f16, f32 max min prod": a type of which it takes nothing stands alone. */
static void tell_untaken(struct harness_conform_report *report, const unsigned *untaken,
                         unsigned ops)
{
    struct ddp_text text;

    ddp_text_init_fixed(&text, report->untaken, sizeof report->untaken);
    for (unsigned dtype = 0; dtype < (unsigned)DDP_DTYPE_COUNT; dtype++) {
        if (untaken[dtype] == 0) {
            continue;
        }
        ddp_text_add(&text, "%s%s", text.size_bytes > 0 ? ", " : "",
                     ddp_dtype_name((enum ddp_dtype)dtype));
        for (unsigned op = 0; untaken[dtype] + 1 != 1u << ops && op < ops; op++) {
            if ((untaken[dtype] >> op & 1u) != 0) {
                ddp_text_add(&text, " %s", ddp_redop_name((enum ddp_redop)op));
            }
        }
    }
}

void harness_conform_types(struct harness_conforming *run)
{
    unsigned ops = ddp_coll_kind_is_sum(run->report->kind) ? (unsigned)DDP_REDOP_COUNT : 1;
    unsigned untaken[DDP_DTYPE_COUNT] = {0};

    for (unsigned dtype = 0; dtype < (unsigned)DDP_DTYPE_COUNT; dtype++) {
        for (unsigned op = 0; op < ops && !harness_conform_is_over(run); op++) {
            enum harness_trial_end end;

            if (harness_conform_has_failed(run, HARNESS_CONFORM_TYPES)) {
                return;
            }
            harness_conform_set_trial(run, 2 * run->team.shared->request.ranks + 5);
            run->team.shared->trial.dtype = (enum ddp_dtype)dtype;
            run->team.shared->trial.redop = (enum ddp_redop)op;
            end = try_whole(run, HARNESS_CONFORM_TYPES);
            if (end == HARNESS_TRIAL_UNTAKEN && run->status == DDP_OK) {
                untaken[dtype] |= 1u << op;
            }
        }
    }
    tell_untaken(run->report, untaken, ops);
}

/* --- values ----------------------------------------------------------------------------------- */

void harness_conform_special(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;

    harness_conform_set_trial(run, 27);
    harness_lab_put_special(shared);
    end = harness_conform_try(run, false, &wrong);
    if (end == HARNESS_TRIAL_WELL) {
        harness_conform_judge(run, HARNESS_CONFORM_SPECIAL,
                              harness_lab_judge_special(shared, &wrong) ? NULL : &wrong);
    } else if (end == HARNESS_TRIAL_BADLY) {
        harness_conform_judge(run, HARNESS_CONFORM_SPECIAL, &wrong);
    }
}

static uint64_t hash_outputs(const struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    size_t bytes =
        harness_lab_output_elems(&shared->request, shared->trial.elem_count) * sizeof(float);
    uint64_t hash = 0;

    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        if (shared->request.kind != DDP_COLL_REDUCE || r == shared->trial.root) {
            hash = ddp_hash_bytes(harness_lab_area(shared, r, HARNESS_LAB_EXPECTED), bytes, hash);
        }
    }
    return hash;
}

/* The same numbers again and again, now and then with a rank that comes late, or is stopped. */
void harness_conform_repeats(struct harness_conforming *run)
{
    enum { ROUNDS = 6 };
    static const enum harness_lab_oddity oddities[ROUNDS] = {
        [1] = HARNESS_LAB_LATE, [3] = HARNESS_LAB_STOPPED, [5] = HARNESS_LAB_LATE};
    static const char *const said[ROUNDS] = {"", "; in it a rank came late",
                                             "", "; in it a rank was stopped for a while",
                                             "", "; in it a rank came late"};
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong = {.rank = UINT32_MAX, .elem = SIZE_MAX};
    uint64_t first = 0;

    for (uint32_t i = 0; i < ROUNDS && !harness_conform_has_failed(run, HARNESS_CONFORM_REPEATS);
         i++) {
        harness_conform_set_trial(run, 1003);
        shared->trial.oddity = oddities[i];
        shared->trial.odd_rank = (i / 2) % shared->request.ranks;
        harness_lab_put_any(shared);
        if (harness_conform_try(run, false, &wrong) != HARNESS_TRIAL_WELL) {
            harness_conform_judge(run, HARNESS_CONFORM_REPEATS, &wrong);
            return;
        }
        if (i == 0) {
            first = hash_outputs(run);
            harness_conform_judge(run, HARNESS_CONFORM_SAME_BITS,
                                  harness_lab_judge_same(shared, &wrong) ? NULL : &wrong);
            continue;
        }
        wrong = (struct harness_lab_wrong){.rank = UINT32_MAX, .elem = SIZE_MAX};
        (void)snprintf(wrong.text, sizeof wrong.text,
                       "call %u of the same numbers gives other bits than the first%s", i + 1,
                       said[i]);
        harness_conform_judge(run, HARNESS_CONFORM_REPEATS,
                              hash_outputs(run) == first ? NULL : &wrong);
    }
}
