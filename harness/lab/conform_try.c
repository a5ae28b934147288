/* Purpose: make a trial, say how it ended, and keep the smallest counterexample of each property.
 * Idea: of a team in which something went wrong nothing more is expected; the next trial has a new
 * one. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "harness/lab/conforming.h"
#include "harness/plugin/ddprove_coll.h"

/* --- results ---------------------------------------------------------------------------------- */

static bool is_claimed(const struct harness_conforming *run, enum harness_conform_property property)
{
    switch (property) {
    case HARNESS_CONFORM_SAME_BITS:
        return (run->claims & DDPROVE_COLL_SAME_BITS) != 0;
    case HARNESS_CONFORM_SAME_ORDER:
        return (run->claims & DDPROVE_COLL_SAME_ORDER) != 0;
    case HARNESS_CONFORM_MISMATCH:
        return (run->claims & DDPROVE_COLL_TELLS_MISMATCH) != 0;
    case HARNESS_CONFORM_DEATH:
        return (run->claims & DDPROVE_COLL_TELLS_DEATH) != 0;
    default:
        return true;
    }
}

void harness_conform_judge(struct harness_conforming *run, enum harness_conform_property property,
                           const struct harness_lab_wrong *wrong)
{
    struct harness_conform_result *result = &run->report->result[property];
    const struct harness_lab_shared *shared = run->team.shared;

    result->case_count++;
    if (wrong == NULL) {
        result->state =
            result->state == HARNESS_COLL_NOT_JUDGED ? HARNESS_COLL_PASS : result->state;
        return;
    }
    if (result->text[0] != '\0') {
        return; /* a smaller one is known */
    }
    result->state = is_claimed(run, property) ? HARNESS_COLL_FAIL : HARNESS_COLL_NOT_CLAIMED;
    result->world = shared->request.ranks;
    result->elem_count = shared->trial.elem_count;
    result->rank = wrong->rank < shared->request.ranks ? (int64_t)wrong->rank : -1;
    result->elem = wrong->elem < SIZE_MAX ? (int64_t)wrong->elem : -1;
    (void)snprintf(result->text, sizeof result->text, "%s", wrong->text);
}

bool harness_conform_is_over(struct harness_conforming *run)
{
    const struct harness_conform_options *options = run->options;

    if (options->budget_ns > 0 &&
        ddp_clock_now_ns(ddp_clock_monotonic()) - run->start_ns > options->budget_ns) {
        run->report->is_stopped = true;
    }
    return run->report->is_stopped || run->status != DDP_OK;
}

bool harness_conform_has_failed(const struct harness_conforming *run,
                                enum harness_conform_property property)
{
    return run->report->result[property].text[0] != '\0';
}

/* --- trials ----------------------------------------------------------------------------------- */

static void describe_end(const struct harness_conforming *run, uint32_t rank,
                         struct harness_lab_wrong *wrong)
{
    int end = run->end[rank];

    if (WIFSIGNALED(end)) {
        (void)snprintf(wrong->text, sizeof wrong->text, "rank %u was ended by signal %d (%s)", rank,
                       WTERMSIG(end), strsignal(WTERMSIG(end)));
    } else {
        (void)snprintf(wrong->text, sizeof wrong->text, "rank %u ended its process with code %d",
                       rank, WEXITSTATUS(end));
    }
}

/* The first rank that is to blame: one that crashed before one that hangs, that before one that got
 * an error, which may only follow. False: all is well. */
static bool find_culprit(const struct harness_conforming *run, bool is_over,
                         struct harness_lab_wrong *wrong)
{
    const struct harness_lab_shared *shared = run->team.shared;
    double seconds = (double)run->options->timeout_ns / 1e9;

    wrong->elem = SIZE_MAX;
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        if (run->end[r] != -1) {
            wrong->rank = r;
            describe_end(run, r, wrong);
            return true;
        }
    }
    for (uint32_t r = 0; !is_over && r < shared->request.ranks; r++) {
        if (shared->slot[r].done < run->trial_count) {
            wrong->rank = r;
            (void)snprintf(wrong->text, sizeof wrong->text,
                           "rank %u is still in its call after %g s", r, seconds);
            return true;
        }
    }
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        if (shared->slot[r].outcome.status != DDP_OK) {
            wrong->rank = r;
            (void)snprintf(wrong->text, sizeof wrong->text, "rank %u: %s", r,
                           shared->slot[r].outcome.text);
            return true;
        }
    }
    return false;
}

static bool is_untaken(const struct harness_conforming *run)
{
    const struct harness_lab_shared *shared = run->team.shared;

    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        if (run->end[r] != -1 || shared->slot[r].outcome.status != DDP_E_UNSUPPORTED) {
            return false;
        }
    }
    return true;
}

void harness_conform_end_team(struct harness_conforming *run)
{
    harness_lab_team_end(&run->team);
    run->is_running = false;
}

void harness_conform_set_trial(const struct harness_conforming *run, size_t elem_count)
{
    run->team.shared->trial =
        (struct harness_lab_trial){.dtype = DDP_DTYPE_F32, .elem_count = elem_count, .calls = 1};
}

static bool start_team(struct harness_conforming *run)
{
    if (!run->is_running) {
        struct harness_lab_trial trial = run->team.shared->trial;

        run->status = harness_lab_team_start(&run->team, run->mpirun, run->err);
        run->team.shared->trial = trial;
        run->is_running = run->status == DDP_OK;
        run->trial_count = 0;
    }
    return run->is_running;
}

size_t harness_conform_count(const struct harness_conforming *run, size_t wanted)
{
    size_t below = 0;
    size_t above = SIZE_MAX;

    for (size_t i = 0; run->is_choosy && i < run->taken_count; i++) {
        size_t count = run->taken[i];

        below = count <= wanted && count > below ? count : below;
        above = count > wanted && count < above ? count : above;
    }
    return !run->is_choosy || (below == 0 && above == SIZE_MAX) ? wanted
           : below > 0                                          ? below
                                                                : above;
}

void harness_conform_tell(const struct harness_lab_trial *trial, char *text, size_t size_bytes)
{
    struct ddp_text out;

    ddp_text_init_fixed(&out, text, size_bytes);
    text[0] = '\0';
    if (trial->dtype != DDP_DTYPE_F32) {
        ddp_text_add(&out, " of %s", ddp_dtype_name(trial->dtype));
    }
    if (trial->redop != DDP_REDOP_SUM) {
        ddp_text_add(&out, ", %s", ddp_redop_name(trial->redop));
    }
    ddp_text_add(&out, "%s%s", trial->is_in_place ? ", in place" : "",
                 trial->shift > 0 ? ", unaligned" : "");
}

static void judge_bounds(struct harness_conforming *run, const char *how)
{
    const struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong = {.elem = SIZE_MAX};

    for (uint32_t r = 0; wrong.text[0] == '\0' && r < shared->request.ranks; r++) {
        const struct harness_lab_outcome *outcome = &shared->slot[r].outcome;
        long long at = (long long)outcome->guard_at;

        wrong.rank = r;
        if (at != 0) {
            (void)snprintf(wrong.text, sizeof wrong.text, "rank %u writes %lld bytes %s a buffer%s",
                           r, at < 0 ? -at : at, at < 0 ? "before" : "behind", how);
        } else if (outcome->has_written) {
            (void)snprintf(wrong.text, sizeof wrong.text,
                           "rank %u writes an output, though rank %u alone has one", r,
                           shared->trial.root);
        }
    }
    harness_conform_judge(run, HARNESS_CONFORM_BOUNDS, wrong.text[0] != '\0' ? &wrong : NULL);
}

/* Beside what came out: the buffers. */
static void judge_buffers(struct harness_conforming *run)
{
    const struct harness_lab_shared *shared = run->team.shared;
    struct harness_lab_wrong wrong = {.elem = SIZE_MAX};
    char how[64];

    harness_conform_tell(&shared->trial, how, sizeof how);
    judge_bounds(run, how);
    for (uint32_t r = 0; wrong.text[0] == '\0' && r < shared->request.ranks; r++) {
        if (shared->slot[r].outcome.input_at >= 0) {
            wrong.rank = r;
            wrong.elem = (size_t)shared->slot[r].outcome.input_at;
            (void)snprintf(wrong.text, sizeof wrong.text,
                           "element %zu of rank %u's input changed%s", wrong.elem, r, how);
        }
    }
    harness_conform_judge(run, HARNESS_CONFORM_INPUT, wrong.text[0] != '\0' ? &wrong : NULL);
}

enum harness_trial_end harness_conform_try(struct harness_conforming *run, bool is_odd,
                                           struct harness_lab_wrong *wrong)
{
    struct harness_lab_shared *shared = run->team.shared;
    bool is_over;

    *wrong = (struct harness_lab_wrong){.rank = UINT32_MAX, .elem = SIZE_MAX};
    if (!start_team(run)) {
        return HARNESS_TRIAL_UNTAKEN; /* run->status says why */
    }
    for (uint32_t r = 0; r < shared->request.ranks; r++) {
        shared->slot[r].outcome.status = DDP_PENDING;
    }
    __atomic_store_n(&shared->ready, ++run->trial_count, __ATOMIC_RELEASE);
    is_over =
        harness_lab_team_watch(&run->team, run->trial_count, run->options->timeout_ns, run->end);
    run->report->case_count++;
    if (run->options->progress != NULL && run->report->case_count % 16 == 0) {
        run->options->progress(run->options->context, run->report->case_count, 0);
    }
    if (is_odd) {
        return is_over ? HARNESS_TRIAL_WELL : HARNESS_TRIAL_BADLY;
    }
    if (is_over && is_untaken(run)) {
        harness_conform_end_team(run); /* the communicator was given up with the error */
        return HARNESS_TRIAL_UNTAKEN;
    }
    if (find_culprit(run, is_over, wrong)) {
        harness_conform_end_team(run);
        return HARNESS_TRIAL_BADLY;
    }
    judge_buffers(run);
    return HARNESS_TRIAL_WELL;
}
