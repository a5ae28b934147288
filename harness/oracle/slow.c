/* Purpose: name ranks that keep the others waiting, and how: by phase, or by the pattern of steps.
 * Idea: the time that a rank itself takes for a phase of a step is what lies between its phase
 * events, less its waits and the time in which it had no CPU. A rank is slow in a step if that
 * exceeds the median of the other ranks by more than the job allows. A single phase is enough: what
 * a rank loses in one, it does not win back before the next collective. The first step is left out:
 * it touches everything for the first time, and writes the schedules down. A step in which the rank
 * had no CPU for longer than that shows nothing: kernels also count sleep as a wait for a CPU now
 * and then (a sleeper that stays on the run queue: delayed dequeue, since Linux 6.12).
 * It judges only if the job says what slow is (slow_after_ms). */
#include <stdio.h>
#include <stdlib.h>

#include "harness/oracle/subject.h"

/* A pattern needs so many steps; fewer have none. */
enum { PATTERN_STEPS = 3, DRIFT_STEPS = 4 };

/* A rank was slow in a step. */
struct lapse {
    uint32_t step;
    enum ddp_phase phase; /* in which it lost most */
    uint64_t excess_ns;
};

struct slow_search {
    const struct harness_emulation *e;
    uint64_t limit_ns;
    uint32_t step_count;
    uint64_t *own_ns;     /* [step][phase][rank] */
    bool *is_timed;       /* the same: the rank was in that phase of that step */
    bool *is_unknown;     /* [rank][step]: the rank had no CPU for longer than the limit */
    uint64_t *others_ns;  /* [world], for a median */
    struct lapse *lapses; /* [rank][step], the first lapse_count[rank] are set */
    uint32_t *lapse_count;
};

static size_t cell_of(const struct slow_search *search, uint32_t step, uint32_t phase,
                      uint32_t rank)
{
    DDP_ASSERT(step < search->step_count && phase < DDP_PHASE_COUNT && rank < search->e->world);
    return ((size_t)step * DDP_PHASE_COUNT + phase) * search->e->world + rank;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* phase: phase, waited, starved; both have been counted since the rank's beginning. */
static void time_rank(struct slow_search *search, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&search->e->index, rank, DDP_EVENT_PHASE, &count);

    for (size_t i = 0; i + 1 < count; i++) {
        const struct ddp_event_entry *from = &list[i]->entry;
        const struct ddp_event_entry *to = &list[i + 1]->entry;
        const uint64_t phase = from->arg[0];
        const uint64_t starved_ns = difference(to->arg[2], from->arg[2]);
        uint64_t idle_ns = difference(to->arg[1], from->arg[1]) + starved_ns;

        if (phase > DDP_PHASE_INIT && phase < DDP_PHASE_JOIN && from->step < search->step_count) {
            size_t cell = cell_of(search, from->step, (uint32_t)phase, rank);

            search->own_ns[cell] += difference(difference(to->time_ns, from->time_ns), idle_ns);
            search->is_timed[cell] = true;
            if (starved_ns > search->limit_ns) {
                search->is_unknown[(size_t)rank * search->step_count + from->step] = true;
            }
        }
    }
}

static int compare_ns(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* By how much the rank exceeds the median of the others; of an even number, the greater one of the
 * two in the middle. Nobody else writes checkpoints: that takes as long as it takes. */
static uint64_t excess_of(struct slow_search *search, uint32_t step, uint32_t phase, uint32_t rank)
{
    const uint64_t own_ns = search->own_ns[cell_of(search, step, phase, rank)];
    size_t count = 0;

    if (!search->is_timed[cell_of(search, step, phase, rank)]) {
        return 0;
    }
    for (uint32_t r = 0; r < search->e->world; r++) {
        size_t cell = cell_of(search, step, phase, r);

        if (r != rank && search->is_timed[cell]) {
            search->others_ns[count++] = search->own_ns[cell];
        }
    }
    if (count == 0) {
        return phase == DDP_PHASE_CHECKPOINT && search->e->world > 1 ? own_ns : 0;
    }
    qsort(search->others_ns, count, sizeof(*search->others_ns), compare_ns);
    return difference(own_ns, search->others_ns[count / 2]);
}

static void find_lapses(struct slow_search *search, uint32_t rank)
{
    for (uint32_t step = search->e->start_step + 1; step < search->step_count; step++) {
        struct lapse worst = {.step = step};

        for (uint32_t phase = 0; phase < DDP_PHASE_COUNT; phase++) {
            uint64_t excess_ns = excess_of(search, step, phase, rank);

            if (excess_ns > worst.excess_ns) {
                worst.excess_ns = excess_ns;
                worst.phase = (enum ddp_phase)phase;
            }
        }
        if (worst.excess_ns > search->limit_ns) {
            search->lapses[(size_t)rank * search->step_count + search->lapse_count[rank]++] = worst;
        }
    }
}

static enum harness_verdict verdict_of_phase(enum ddp_phase phase)
{
    switch (phase) {
    case DDP_PHASE_DATA:
        return HARNESS_VERDICT_SLOW_DATA;
    case DDP_PHASE_OPTIMIZER:
        return HARNESS_VERDICT_SLOW_OPTIMIZER;
    case DDP_PHASE_CHECKPOINT:
        return HARNESS_VERDICT_SLOW_CHECKPOINT;
    default:
        return HARNESS_VERDICT_SLOW_COMPUTE;
    }
}

/* Slower in each step than in the one before, and in the end half as much again as at first. */
static bool is_growing(const struct lapse *lapses, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        if (lapses[i].step != lapses[i - 1].step + 1 ||
            lapses[i].excess_ns <= lapses[i - 1].excess_ns) {
            return false;
        }
    }
    return count >= DRIFT_STEPS && lapses[count - 1].excess_ns >= lapses[0].excess_ns / 2 * 3;
}

/* Slow in every step from the first such one to the last, as far as can be known. */
static bool is_persistent(const struct lapse *lapses, uint32_t count, const bool *is_unknown)
{
    uint32_t at = 0;

    for (uint32_t step = lapses[0].step; step <= lapses[count - 1].step; step++) {
        if (lapses[at].step == step) {
            at++;
        } else if (!is_unknown[step]) {
            return false;
        }
    }
    return true;
}

/* is_unknown: [step]. */
static enum harness_verdict verdict_of(const struct lapse *lapses, uint32_t count,
                                       const bool *is_unknown)
{
    const uint32_t gap = count > 1 ? lapses[1].step - lapses[0].step : 1;
    bool is_one_phase = true;
    bool is_even = true;

    for (uint32_t i = 1; i < count; i++) {
        is_one_phase = is_one_phase && lapses[i].phase == lapses[0].phase;
        is_even = is_even && lapses[i].step - lapses[i - 1].step == gap;
    }
    /* Checkpoints have a cadence of their own. */
    if (count < PATTERN_STEPS || (is_one_phase && lapses[0].phase == DDP_PHASE_CHECKPOINT)) {
        return verdict_of_phase(lapses[0].phase);
    }
    if (is_growing(lapses, count)) {
        return HARNESS_VERDICT_SLOW_DRIFT;
    }
    if (is_persistent(lapses, count, is_unknown)) {
        return verdict_of_phase(lapses[0].phase);
    }
    return is_even ? HARNESS_VERDICT_SLOW_PERIODIC : HARNESS_VERDICT_SLOW_JITTER;
}

static void begin(enum harness_verdict verdict, const struct lapse *first,
                  struct harness_findings *out, struct harness_finding *finding)
{
    harness_finding_init(finding, out->mem, verdict, HARNESS_ORACLE_SLOW, HARNESS_MODE_BUDGET);
    finding->step = (int32_t)first->step;
    finding->phase = (int32_t)first->phase;
}

static void add_rank(const struct slow_search *search, uint32_t rank, struct harness_findings *out)
{
    const struct lapse *lapses = &search->lapses[(size_t)rank * search->step_count];
    const uint32_t count = search->lapse_count[rank];
    uint64_t worst_ns = 0;
    struct harness_finding finding;

    for (uint32_t i = 0; i < count; i++) {
        worst_ns = lapses[i].excess_ns > worst_ns ? lapses[i].excess_ns : worst_ns;
    }
    begin(verdict_of(lapses, count, &search->is_unknown[(size_t)rank * search->step_count]),
          &lapses[0], out, &finding);
    harness_rank_set_add(&finding.culprits, rank);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %u took up to %.0f ms longer than the median of the others (allowed %.0f "
                   "ms), in %u of %u steps, first in step %u, %s",
                   rank, (double)worst_ns / 1e6, (double)search->limit_ns / 1e6, count,
                   search->step_count - search->e->start_step - 1, lapses[0].step,
                   ddp_phase_name(lapses[0].phase));
    harness_findings_add(out, &finding);
}

/* How many ranks were slow in a step; *out_rank and *out_lapse are the last one's. */
static uint32_t count_slow_in(const struct slow_search *search, uint32_t step, uint32_t *out_rank,
                              const struct lapse **out_lapse)
{
    uint32_t count = 0;

    for (uint32_t r = 0; r < search->e->world; r++) {
        for (uint32_t i = 0; i < search->lapse_count[r]; i++) {
            const struct lapse *lapse = &search->lapses[(size_t)r * search->step_count + i];

            if (lapse->step == step) {
                *out_rank = r;
                *out_lapse = lapse;
                count++;
            }
        }
    }
    return count;
}

/* One rank is slow in each of some steps in a row, each time another one than before. */
static bool add_rotating(const struct slow_search *search, struct harness_findings *out)
{
    const struct lapse *lapse = NULL;
    uint32_t last_rank = search->e->world;
    uint32_t last_step = 0;
    uint32_t turns = 0;
    struct harness_finding finding;

    for (uint32_t step = 0; step < search->step_count; step++) {
        uint32_t rank = last_rank;
        uint32_t count = count_slow_in(search, step, &rank, &lapse);

        if (count == 0) {
            continue;
        }
        if (count > 1 || rank == last_rank || (turns > 0 && step != last_step + 1)) {
            return false;
        }
        if (turns++ == 0) {
            begin(HARNESS_VERDICT_SLOW_ROTATING, lapse, out, &finding);
        }
        harness_rank_set_add(&finding.culprits, rank);
        last_rank = rank;
        last_step = step;
    }
    if (turns < PATTERN_STEPS) {
        return false;
    }
    (void)snprintf(finding.text, sizeof(finding.text),
                   "in %u steps in a row, from step %d on, one rank took more than %.0f ms longer "
                   "than the median of the others, each time another one",
                   turns, finding.step, (double)search->limit_ns / 1e6);
    harness_findings_add(out, &finding);
    return true;
}

static void search_all(struct slow_search *search, struct harness_findings *out)
{
    for (uint32_t r = 0; r < search->e->world; r++) {
        time_rank(search, r);
    }
    for (uint32_t r = 0; r < search->e->world; r++) {
        find_lapses(search, r);
    }
    if (add_rotating(search, out)) {
        return;
    }
    for (uint32_t r = 0; r < search->e->world; r++) {
        if (search->lapse_count[r] > 0) {
            add_rank(search, r, out);
        }
    }
}

ddp_status harness_check_slow(const struct harness_emulation *e, struct harness_findings *out,
                              struct ddp_err *err)
{
    struct slow_search search = {.e = e,
                                 .limit_ns = e->input->plan->job.slow_after_ms * DDP_NS_PER_MS,
                                 .step_count = e->input->plan->job.steps};
    const size_t cells = (size_t)search.step_count * DDP_PHASE_COUNT * e->world;
    ddp_status status = DDP_OK;

    if (search.limit_ns == 0 || e->world < 2) {
        return DDP_OK;
    }
    search.own_ns = ddp_mem_array(e->mem, cells, sizeof(*search.own_ns));
    search.is_timed = ddp_mem_array(e->mem, cells, sizeof(*search.is_timed));
    search.is_unknown =
        ddp_mem_array(e->mem, (size_t)search.step_count * e->world, sizeof(*search.is_unknown));
    search.others_ns = ddp_mem_array(e->mem, e->world, sizeof(*search.others_ns));
    search.lapses =
        ddp_mem_array(e->mem, (size_t)search.step_count * e->world, sizeof(*search.lapses));
    search.lapse_count = ddp_mem_array(e->mem, e->world, sizeof(*search.lapse_count));
    if (search.own_ns == NULL || search.is_timed == NULL || search.is_unknown == NULL ||
        search.others_ns == NULL || search.lapses == NULL || search.lapse_count == NULL) {
        status = ddp_err_set(err, DDP_E_NOMEM, "no memory to time %u ranks", e->world);
    } else {
        search_all(&search, out);
    }
    ddp_mem_free(e->mem, search.own_ns);
    ddp_mem_free(e->mem, search.is_timed);
    ddp_mem_free(e->mem, search.is_unknown);
    ddp_mem_free(e->mem, search.others_ns);
    ddp_mem_free(e->mem, search.lapses);
    ddp_mem_free(e->mem, search.lapse_count);
    return status;
}
