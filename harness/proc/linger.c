/* Survivors get some time to end by themselves after the first decisive conclusion. After a hang
 * they get more while one of them may turn out to hang too, and after a mismatch that nobody
 * refuses while any of them does something. For as long as one of them was ready to run and had no
 * CPU, it could do neither: that time is given to all. */
#include "harness/launch/lag.h"
#include "harness/proc/job.h"

static const uint64_t linger_default_ns = 2 * DDP_NS_PER_S;
/* Ranks that hang do not end by themselves, and neither do those that wait for them, nor ranks with
 * a mismatch that they do not check for. */
static const uint64_t linger_hang_ns = 300 * DDP_NS_PER_MS;

static bool is_going_on(const struct harness_proc_job *job)
{
    return job->config->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE;
}

/* How long survivors get to end by themselves after this finding. */
static uint64_t linger_ns_of(const struct harness_proc_job *job,
                             const struct harness_finding *finding)
{
    bool is_checked = job->config->plan->job.semantics == HARNESS_SEMANTICS_STRICT;
    enum harness_family family = harness_verdict_family(finding->verdict);

    if (job->config->linger_ns != 0) {
        return job->config->linger_ns;
    }
    return family == HARNESS_FAMILY_HANG || (family == HARNESS_FAMILY_MISMATCH && !is_checked)
               ? linger_hang_ns
               : linger_default_ns;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The longest silence that is not yet a hang. */
static uint64_t longest_budget_ns(const struct harness_plan *plan)
{
    uint64_t longest_ns = 0;

    for (unsigned phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        uint64_t budget_ns = harness_monitor_budget_ns(plan, (enum ddp_phase)phase);

        longest_ns = budget_ns > longest_ns ? budget_ns : longest_ns;
    }
    return longest_ns;
}

/* What all ranks have recorded. */
static uint64_t event_count_of(const struct harness_proc_job *job)
{
    uint64_t count = 0;

    for (uint32_t rank = 0; rank < job->config->plan->job.ranks; rank++) {
        const struct ddp_page *page = harness_proc_recorder(job->head, rank);

        count += __atomic_load_n(&page->event_count, __ATOMIC_RELAXED);
    }
    return count;
}

/* They have recorded something since the last look. */
static bool has_moved(struct harness_proc_job *job)
{
    const uint64_t before = job->event_count;

    job->event_count = event_count_of(job);
    return job->event_count != before;
}

/* Of the time since the linger was last begun, how much some rank had no CPU for. */
static uint64_t starved_ns(struct harness_proc_job *job, uint64_t now_ns)
{
    uint64_t longest_ns = 0;

    for (uint32_t r = 0; r < job->world_size; r++) {
        struct harness_proc_rank *rank = &job->ranks[r];
        uint64_t rank_ns =
            harness_proc_rank_is_alive(rank)
                ? harness_lag_read(&rank->lag, rank->pid, job->linger_from_ns, now_ns)
                : 0;

        longest_ns = rank_ns > longest_ns ? rank_ns : longest_ns;
    }
    return longest_ns;
}

static void begin(struct harness_proc_job *job, const struct harness_finding *finding,
                  uint64_t now_ns)
{
    job->linger_from_ns = now_ns;
    job->linger_ns = linger_ns_of(job, finding);
    if (is_going_on(job)) {
        job->linger_ns += job->config->plan->job.settle_ms * DDP_NS_PER_MS;
    }
}

void harness_proc_linger_update(struct harness_proc_job *job, uint64_t now_ns)
{
    const struct harness_finding *finding = harness_conclusions_decisive(&job->conclusions);
    const bool is_first = job->linger_end_ns == DDP_DEADLINE_NEVER;
    const bool is_exact = job->config->linger_ns != 0;
    enum harness_family family;
    bool is_moving;

    if (finding == NULL) {
        return;
    }
    family = harness_verdict_family(finding->verdict);
    is_moving = has_moved(job);
    /* Those that go on after a loss end when their work is done. */
    if (is_first || (is_going_on(job) && family == HARNESS_FAMILY_CRASH && is_moving)) {
        begin(job, finding, now_ns);
        job->linger_limit_ns = now_ns + job->linger_ns + longest_budget_ns(job->config->plan);
    } else if (!is_exact && (family == HARNESS_FAMILY_HANG
                                 ? __atomic_load_n(&job->head->is_open, __ATOMIC_ACQUIRE) != 0
                                 : family == HARNESS_FAMILY_MISMATCH && is_moving)) {
        begin(job, finding, now_ns);
    }
    job->linger_end_ns =
        earlier(job->linger_from_ns + job->linger_ns + (is_exact ? 0 : starved_ns(job, now_ns)),
                job->linger_limit_ns);
    DDP_ASSERT(job->linger_end_ns >= job->linger_from_ns);
}
