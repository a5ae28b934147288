/* Purpose: what comes out, in every kind of buffer, type and row of calls.
 * Idea: the plain case comes first, and what differs from it in one thing alone is judged under
 * that thing's name: so a collective that is wrong in one way fails in one property. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/lab/conforming.h"

enum { LARGE_COUNT = 10007, LARGER_COUNT = 100003, FEW = 8, MANY = 1003, SPECIALS = 27 };

/* --- plain calls ------------------------------------------------------------------------------ */

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
    }
    if (harness_lab_judge_whole(shared, 0, 0, &wrong)) {
        harness_conform_judge(run, property, NULL);
        return end;
    }
    if (property == HARNESS_CONFORM_TYPES) {
        size_t used = strlen(wrong.text);

        harness_conform_tell(&shared->trial, wrong.text + used, sizeof wrong.text - used);
    }
    harness_conform_judge(run, property, &wrong);
    return end;
}

/* One count and root in each kind of buffer. False: nothing more is to be tried. */
static bool try_buffers(struct harness_conforming *run, uint32_t shift)
{
    struct harness_lab_trial *trial = &run->team.shared->trial;
    enum harness_trial_end end = try_whole(run, HARNESS_CONFORM_EXACT);

    if (end == HARNESS_TRIAL_UNTAKEN && run->status == DDP_OK) {
        run->is_choosy = true;
        return true;
    }
    if (end != HARNESS_TRIAL_WELL || harness_conform_has_failed(run, HARNESS_CONFORM_EXACT)) {
        return false;
    }
    if (run->taken_count == 0 || run->taken[run->taken_count - 1] != trial->elem_count) {
        run->taken[run->taken_count++] = trial->elem_count;
    }
    trial->is_in_place = true;
    if (!harness_conform_has_failed(run, HARNESS_CONFORM_IN_PLACE)) {
        (void)try_whole(run, HARNESS_CONFORM_IN_PLACE);
    }
    trial->is_in_place = false;
    trial->shift = shift;
    if (!harness_conform_has_failed(run, HARNESS_CONFORM_SHIFTED)) {
        (void)try_whole(run, HARNESS_CONFORM_SHIFTED);
    }
    return true;
}

static void tell_refused(const struct harness_conforming *run, size_t count)
{
    struct harness_conform_report *report = run->report;

    if (run->is_choosy && report->refused[0] == '\0') {
        (void)snprintf(report->refused, sizeof report->refused, "%zu element%s of %u rank%s", count,
                       count == 1 ? "" : "s", run->team.shared->request.ranks,
                       run->team.shared->request.ranks == 1 ? "" : "s");
    }
}

/* Roots, buffers and counts. */
void harness_conform_counts(struct harness_conforming *run)
{
    uint32_t world = run->team.shared->request.ranks;
    const size_t counts[HARNESS_CONFORM_COUNTS] = {
        0, 1,  2,    world - 1,   world,       world + 1, 2 * world + 1,
        7, 64, MANY, LARGE_COUNT, LARGER_COUNT};
    bool has_root = ddp_coll_kind_has_root(run->report->kind);

    run->taken_count = 0;
    run->is_choosy = false;
    for (size_t i = 0; i < (size_t)HARNESS_CONFORM_COUNTS; i++) {
        uint32_t step = world > 1 && i >= (size_t)FEW ? world - 1 : 1;

        for (uint32_t root = 0; root < (has_root ? world : 1); root += step) {
            if (harness_conform_is_over(run) ||
                harness_conform_has_failed(run, HARNESS_CONFORM_ENDS)) {
                return;
            }
            harness_conform_set_trial(run, counts[i]);
            run->team.shared->trial.root = root;
            /* What is compressed only if it is long. */
            run->team.shared->trial.is_wide = counts[i] >= (size_t)LARGE_COUNT;
            if (!try_buffers(run, 1 + (uint32_t)i % 3)) {
                return;
            }
            tell_refused(run, counts[i]);
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

/* Of few elements as plain as can be, then of many, in place and unaligned if that is right of
 * fp32.
 */
static enum harness_trial_end try_type(struct harness_conforming *run, enum ddp_dtype dtype,
                                       enum ddp_redop redop)
{
    uint32_t world = run->team.shared->request.ranks;
    const size_t counts[] = {2 * (size_t)world + 5, MANY};
    enum harness_trial_end end = HARNESS_TRIAL_WELL;

    for (size_t i = 0; i < 2 && end == HARNESS_TRIAL_WELL &&
                       !harness_conform_has_failed(run, HARNESS_CONFORM_TYPES);
         i++) {
        struct harness_lab_trial *trial = &run->team.shared->trial;

        harness_conform_set_trial(run, harness_conform_count(run, counts[i]));
        trial->dtype = dtype;
        trial->redop = redop;
        trial->is_wide = true;
        trial->is_in_place = i > 0 && !harness_conform_has_failed(run, HARNESS_CONFORM_IN_PLACE);
        trial->shift = i > 0 && !harness_conform_has_failed(run, HARNESS_CONFORM_SHIFTED) ? 1 : 0;
        end = try_whole(run, HARNESS_CONFORM_TYPES);
    }
    return end;
}

void harness_conform_types(struct harness_conforming *run)
{
    unsigned ops = ddp_coll_kind_is_sum(run->report->kind) ? (unsigned)DDP_REDOP_COUNT : 1;
    unsigned untaken[DDP_DTYPE_COUNT] = {0};

    for (unsigned dtype = 0; dtype < (unsigned)DDP_DTYPE_COUNT; dtype++) {
        for (unsigned op = 0; op < ops && !harness_conform_is_over(run); op++) {
            if (harness_conform_has_failed(run, HARNESS_CONFORM_TYPES)) {
                return;
            }
            if (try_type(run, (enum ddp_dtype)dtype, (enum ddp_redop)op) == HARNESS_TRIAL_UNTAKEN &&
                run->status == DDP_OK) {
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

    harness_conform_set_trial(run, harness_conform_count(run, SPECIALS));
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

/* What any numbers came to, beside what rounding in some order allows; and on all ranks the same.
 */
static void judge_any(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong = {.rank = UINT32_MAX, .elem = SIZE_MAX};

    harness_conform_judge(run, HARNESS_CONFORM_SAME_BITS,
                          harness_lab_judge_same(shared, &wrong) ? NULL : &wrong);
    harness_conform_judge(run, HARNESS_CONFORM_ROUNDED,
                          harness_lab_judge_any(shared, &wrong) ? NULL : &wrong);
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
    struct harness_lab_wrong wrong;
    uint64_t first = 0;

    for (uint32_t i = 0; i < ROUNDS && !harness_conform_has_failed(run, HARNESS_CONFORM_REPEATS);
         i++) {
        enum harness_trial_end end;

        harness_conform_set_trial(run, harness_conform_count(run, MANY));
        shared->trial.oddity = oddities[i];
        shared->trial.odd_rank = (i / 2) % shared->request.ranks;
        harness_lab_put_any(shared);
        end = harness_conform_try(run, false, &wrong);
        if (end == HARNESS_TRIAL_BADLY) {
            harness_conform_judge(run, HARNESS_CONFORM_REPEATS, &wrong);
        }
        if (end != HARNESS_TRIAL_WELL) {
            return;
        }
        if (i == 0) {
            first = hash_outputs(run);
            judge_any(run);
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
