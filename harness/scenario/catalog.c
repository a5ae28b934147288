/* Does a plan inject the fault of a row of the catalog?
 *
 * A plan has words: one for each fault, `action[:what]@point`, and some for what else may be a
 * fault, of its job or its checkpoint. The row's injectors are patterns of words. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/names.h"
#include "harness/scenario/scenario.h"

enum { WORD_BYTES = 96, PATTERN_BYTES = 64 };

static bool is_injector(const struct harness_fault_row *row, const char *word)
{
    const char *next = row->injectors;

    while (*next != '\0') {
        char pattern[PATTERN_BYTES];
        const size_t size = strcspn(next, " ");

        DDP_ASSERT(size < sizeof pattern);
        memcpy(pattern, next, size);
        pattern[size] = '\0';
        if (fnmatch(pattern, word, 0) == 0) {
            return true;
        }
        next += size;
        next += strspn(next, " ");
    }
    return false;
}

static void io_word(const struct harness_io_fault *io, char out[WORD_BYTES])
{
    const char *how = io->error != 0  ? harness_names_of(HARNESS_NAMES_ERRNOS, io->error)
                      : io->is_short  ? "short"
                      : io->flip >= 0 ? "flip"
                                      : "stranger";

    (void)snprintf(out, WORD_BYTES, "io:%s:%s",
                   harness_names_of(HARNESS_NAMES_IO_CALLS, (int)io->call), how);
}

/* What the action does, without its point. */
static void action_word(const struct harness_action *action, char out[WORD_BYTES])
{
    const char *name = harness_action_name(action->kind);
    const char *what = NULL;

    switch (action->kind) {
    case HARNESS_ACTION_KILL:
        what = harness_names_of(HARNESS_NAMES_SIGNALS, action->signal);
        break;
    case HARNESS_ACTION_EXIT:
        what = action->exit_code == 0 ? "0" : "n";
        break;
    case HARNESS_ACTION_STOP:
        what = action->stop_ms == 0 ? "forever" : "ms";
        break;
    case HARNESS_ACTION_SPIN:
        what = action->spin_ms == 0 ? "forever" : "ms";
        break;
    case HARNESS_ACTION_CORRUPT:
        what = harness_names_of(HARNESS_NAMES_CORRUPTS, (int)action->corrupt);
        break;
    case HARNESS_ACTION_ARG:
        what = harness_names_of(HARNESS_NAMES_ARGS, (int)action->arg);
        break;
    case HARNESS_ACTION_ENV:
        what = harness_names_of(HARNESS_NAMES_VARIABLES, (int)action->env);
        break;
    case HARNESS_ACTION_EDIT:
        what = harness_names_of(HARNESS_NAMES_KEY_EDITS, (int)action->key_edit);
        break;
    case HARNESS_ACTION_IO:
        io_word(&action->io, out);
        return;
    default:
        break;
    }
    if (action->kind == HARNESS_ACTION_CORRUPT && action->ago > 0) {
        (void)snprintf(out, WORD_BYTES, "stale");
        return;
    }
    (void)snprintf(out, WORD_BYTES, "%s%s%s", name, what != NULL ? ":" : "",
                   what != NULL ? what : "");
}

static bool is_death(const struct harness_action *action)
{
    return action->kind == HARNESS_ACTION_KILL || action->kind == HARNESS_ACTION_EXIT ||
           action->kind == HARNESS_ACTION_ABORT;
}

static bool is_by_faults(const struct harness_fault_row *row, const struct harness_plan *plan)
{
    uint32_t death_count = 0;
    uint32_t real_count = 0;

    for (uint32_t i = 0; i < plan->fault_count; i++) {
        const struct harness_fault *fault = &plan->faults[i];
        char action[WORD_BYTES];
        char word[2 * WORD_BYTES];

        action_word(&fault->action, action);
        (void)snprintf(word, sizeof word, "%s@%s", action, ddp_fault_point_name(fault->point));
        if (is_injector(row, word) || (fault->at.rank == 0 &&
                                       (fault->action.kind == HARNESS_ACTION_HANG ||
                                        fault->action.kind == HARNESS_ACTION_STOP) &&
                                       is_injector(row, "silent:first"))) {
            return true;
        }
        death_count += is_death(&fault->action) ? 1 : 0;
        real_count += fault->action.kind != HARNESS_ACTION_NONE ? 1 : 0;
    }
    return (death_count > 1 && is_injector(row, "two_deaths")) ||
           (real_count == 0 && is_injector(row, harness_plan_is_guest(plan) ? "guest" : "none")) ||
           (plan->fault_count == 0 && is_injector(row, "none"));
}

static bool is_by_job(const struct harness_fault_row *row, const struct harness_job *job)
{
    const bool finds_unused = job->find_unused_parameters || job->static_graph;
    bool is_batch_alike = true;

    for (uint32_t rank = 1; job->batch_per_rank != NULL && rank < job->ranks; rank++) {
        is_batch_alike = is_batch_alike && job->batch_per_rank[rank] == job->batch_per_rank[0];
    }
    return (finds_unused && is_injector(row, "job:unused")) ||
           (!job->find_unused_parameters && is_injector(row, "job:flag_off")) ||
           (job->join.is_set && is_injector(row, "job:join")) ||
           (job->shard_sizes != NULL && is_injector(row, "job:uneven")) ||
           (!is_batch_alike && is_injector(row, "job:batches"));
}

static bool is_by_restore(const struct harness_fault_row *row,
                          const struct harness_restore *restore)
{
    char word[WORD_BYTES];

    if (!restore->is_set) {
        return false;
    }
    (void)snprintf(word, sizeof word, "edit:%s",
                   harness_names_of(HARNESS_NAMES_EDITS, (int)restore->edit));
    return is_injector(row, word) || is_injector(row, "restore") ||
           (restore->skip_optimizer_state && is_injector(row, "restore:no_state")) ||
           (restore->ranks > 0 && is_injector(row, "restore:ranks"));
}

bool harness_fault_row_is_injected(const struct harness_fault_row *row,
                                   const struct harness_plan *plan)
{
    return is_by_faults(row, plan) || is_by_restore(row, &plan->restore) ||
           (!harness_plan_is_guest(plan) && is_by_job(row, &plan->job)) ||
           (plan->canary.is_set && is_injector(row, "canary"));
}
