/* Purpose: what the others get if one rank asks for something else, is killed, or is not there and
 * the call is aborted; and that a new communicator works afterwards. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "harness/lab/conforming.h"

enum { PLAIN_COUNT = 64 };

static void set_odd(const struct harness_conforming *run, enum harness_lab_oddity oddity)
{
    run->team.shared->trial =
        (struct harness_lab_trial){.dtype = DDP_DTYPE_F32,
                                   .elem_count = harness_conform_count(run, PLAIN_COUNT),
                                   .calls = 1,
                                   .oddity = oddity,
                                   .odd_rank = run->team.shared->request.ranks - 1};
}

/* Another count that the collective takes: what it refuses by itself is no mismatch, of which the
 * others could be told. 0: there is none. */
static size_t other_count(const struct harness_conforming *run)
{
    const size_t plain = harness_conform_count(run, PLAIN_COUNT);
    size_t other = 0;

    for (size_t i = 0; run->is_choosy && i < run->taken_count; i++) {
        other = run->taken[i] < plain && run->taken[i] > other ? run->taken[i] : other;
    }
    return run->is_choosy ? other : plain + 1;
}

/* Every rank that lives must have got an error; *wrong: one that did not. killed: UINT32_MAX, or
 * the rank whose end is meant. */
static bool all_got_errors(const struct harness_conforming *run, uint32_t killed, const char *what,
                           struct harness_lab_wrong *wrong)
{
    const struct harness_lab_shared *shared = run->team.shared;

    *wrong = (struct harness_lab_wrong){.elem = SIZE_MAX};
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        ddp_status status = shared->slot[r].outcome.status;
        const char *did = NULL;

        if (r != killed && run->end[r] != -1) {
            did = "ended its process";
        } else if (r != killed && status == DDP_PENDING) {
            did = "waits for ever";
        } else if (r != killed && status == DDP_OK) {
            did = "is told that all is well";
        }
        if (did != NULL) {
            wrong->rank = r;
            (void)snprintf(wrong->text, sizeof wrong->text, "rank %u %s, though rank %u %s", r, did,
                           shared->trial.odd_rank, what);
            return false;
        }
    }
    return true;
}

/* True: the team can go on. */
static bool is_whole(const struct harness_conforming *run)
{
    for (uint32_t r = 0; r < run->team.shared->request.ranks; r++) {
        if (run->end[r] != -1 || run->team.shared->slot[r].outcome.status == DDP_PENDING) {
            return false;
        }
    }
    return true;
}

/* The same processes with a new communicator, which every rank opens by itself after what was odd.
 */
static void try_again(struct harness_conforming *run)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    enum harness_trial_end end;

    if (!run->report->result[HARNESS_CONFORM_REOPENS].is_asked || !is_whole(run)) {
        harness_conform_end_team(run);
        return;
    }
    harness_conform_set_trial(run, harness_conform_count(run, PLAIN_COUNT));
    harness_lab_put_whole(shared, 0, 0);
    end = harness_conform_try(run, false, &wrong);
    if (end == HARNESS_TRIAL_UNTAKEN) {
        return;
    }
    harness_conform_judge(
        run, HARNESS_CONFORM_REOPENS,
        end == HARNESS_TRIAL_WELL && harness_lab_judge_whole(shared, 0, 0, &wrong) ? NULL : &wrong);
}

/* is_used: the communicator has made a call before. */
static void try_odd(struct harness_conforming *run, enum harness_lab_oddity oddity,
                    enum harness_conform_property property, bool is_used, const char *what)
{
    struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong;
    uint32_t killed = oddity == HARNESS_LAB_DIES ? shared->request.ranks - 1 : UINT32_MAX;

    if (!run->report->result[property].is_asked || run->report->result[property].text[0] != '\0') {
        return;
    }
    harness_conform_end_team(run);
    set_odd(run, HARNESS_LAB_NOTHING_ODD);
    harness_lab_put_whole(shared, 0, 0);
    if (is_used && harness_conform_try(run, false, &wrong) != HARNESS_TRIAL_WELL) {
        return;
    }
    set_odd(run, oddity);
    shared->trial.odd_elem_count = oddity == HARNESS_LAB_OTHER_COUNT ? other_count(run) : 0;
    harness_lab_put_whole(shared, 0, 0);
    (void)harness_conform_try(run, true, &wrong);
    harness_conform_judge(run, property, all_got_errors(run, killed, what, &wrong) ? NULL : &wrong);
    if (oddity == HARNESS_LAB_DIES) {
        harness_conform_end_team(run);
    } else {
        try_again(run);
    }
}

/* Where ranks did not outlive what was odd: after a call like any other. */
static void reopen_anyway(struct harness_conforming *run)
{
    const struct harness_conform_result *result = &run->report->result[HARNESS_CONFORM_REOPENS];
    struct harness_lab_wrong wrong;

    if (!result->is_asked || result->state != HARNESS_COLL_NOT_JUDGED) {
        return;
    }
    harness_conform_end_team(run);
    set_odd(run, HARNESS_LAB_NOTHING_ODD);
    harness_lab_put_whole(run->team.shared, 0, 0);
    if (harness_conform_try(run, false, &wrong) == HARNESS_TRIAL_WELL) {
        try_again(run);
    }
}

void harness_conform_oddities(struct harness_conforming *run)
{
    if (other_count(run) > 0) {
        try_odd(run, HARNESS_LAB_OTHER_COUNT, HARNESS_CONFORM_MISMATCH, true,
                run->is_choosy ? "asked for fewer elements" : "asked for one element more");
    } else { /* it takes one count alone: nobody can ask for another one */
        run->report->result[HARNESS_CONFORM_MISMATCH].is_asked =
            run->report->result[HARNESS_CONFORM_MISMATCH].case_count > 0;
    }
    try_odd(run, HARNESS_LAB_DIES, HARNESS_CONFORM_DEATH, true, "was killed");
    try_odd(run, HARNESS_LAB_ABORTED, HARNESS_CONFORM_ABORT, true,
            "was not there, and the call was aborted");
    try_odd(run, HARNESS_LAB_ABORTED_BEFORE, HARNESS_CONFORM_ABORT, false,
            "was not there, and the first call had been aborted before it began");
    try_odd(run, HARNESS_LAB_ABORTED_BEFORE, HARNESS_CONFORM_ABORT, true,
            "was not there, and an abort had come after the call before");
    try_odd(run, HARNESS_LAB_ABORTED_POSTED, HARNESS_CONFORM_ABORT, true,
            "was not there, and the call was aborted as soon as it was posted");
    reopen_anyway(run);
    harness_conform_end_team(run);
}
