/* The simulator: all ranks as fibers of one thread, a virtual clock, a simulated network, files in
 * memory. Every choice comes from the seed, so the same configuration gives the same bytes. */
#include "harness/sim/sim.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "harness/sim/job.h"

#define START_NS          DDP_NS_PER_MS
#define LINGER_NS         (10 * DDP_NS_PER_S)
#define LATENCY_NS        UINT64_C(2000)
#define LATENCY_JITTER_NS UINT64_C(3000)
#define BYTES_PER_US      UINT64_C(10000)
/* Ranks that do nothing for so long do not just wait for messages. */
#define GAP_NS DDP_NS_PER_MS

static ddp_status map_storage(struct harness_sim *sim)
{
    sim->ring_entry_count =
        harness_launch_ring_entry_count(sim->config->plan, sim->config->program);
    sim->storage_bytes_per_rank = ddp_recorder_size_bytes(sim->ring_entry_count);
    sim->storage_bytes = sim->storage_bytes_per_rank * sim->world_size;
    /* Untouched pages of a ring cost nothing. */
    sim->storage = mmap(NULL, sim->storage_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (sim->storage == MAP_FAILED) {
        sim->storage = NULL;
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

/* Ranks read files from memory, so a checkpoint that is to be restored is copied there first. If it
 * is missing, that is for the rank to find out. */
static ddp_status preload_checkpoint(struct harness_sim *sim, struct ddp_err *err)
{
    struct ddp_files *system = ddp_files_system();
    const char *path = sim->options.checkpoint_path;
    void *data;
    size_t size_bytes;
    ddp_status status;

    if (!sim->options.is_restoring || path == NULL) {
        return DDP_OK;
    }
    status = system->ops->read_all(system, path, sim->mem, &data, &size_bytes, err);
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK;
    }
    DDP_TRY(status);
    status =
        ddp_files_write_atomic(ddp_files_memory_files(sim->files), path, data, size_bytes, err);
    ddp_mem_free(sim->mem, data);
    return status;
}

/* Files of the ranks: those that the caller lends, else some that go with the simulator. */
static ddp_status open_files(struct harness_sim *sim, struct ddp_err *err)
{
    sim->files = sim->config->memory;
    if (sim->files != NULL) {
        return DDP_OK;
    }
    DDP_TRY(ddp_files_memory_create(&sim->files));
    return preload_checkpoint(sim, err);
}

static ddp_status open_data(struct harness_sim *sim, struct ddp_err *err)
{
    struct ref_job job;

    if (sim->options.data != NULL) {
        return DDP_OK;
    }
    DDP_TRY(harness_rank_job(sim->config->plan, &job, err));
    DDP_TRY(ref_data_open(sim->mem, &job.data, &sim->data, err));
    sim->is_data_open = true;
    sim->options.data = &sim->data;
    return DDP_OK;
}

static void wake(void *context, uint32_t rank, uint64_t at_ns)
{
    struct harness_sim *sim = context;

    harness_sim_scheduler_wake(&sim->scheduler, rank, at_ns);
}

static ddp_status open_net(struct harness_sim *sim)
{
    struct ddp_loop_config config = {.world_size = sim->world_size,
                                     .seed = sim->config->seed,
                                     .latency_ns = LATENCY_NS,
                                     .latency_jitter_ns = LATENCY_JITTER_NS,
                                     .bytes_per_us = BYTES_PER_US,
                                     .clock = &sim->scheduler.clock.base,
                                     .wake = wake,
                                     .wake_context = sim};

    DDP_TRY(ddp_mem_pool_create(&sim->net_pool));
    config.mem = ddp_mem_pool_mem(sim->net_pool);
    return ddp_loop_net_create(&config, &sim->net);
}

static ddp_status open_ranks(struct harness_sim *sim, struct ddp_err *err)
{
    struct harness_sim_scheduler_config config = {.actor_count = sim->world_size,
                                                  .seed = sim->config->seed,
                                                  .start_ns = START_NS,
                                                  .entry = harness_sim_rank_main,
                                                  .context_bytes = sizeof sim->ranks[0]};

    sim->ranks = ddp_mem_array(sim->mem, sim->world_size, sizeof sim->ranks[0]);
    if (sim->ranks == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < sim->world_size; i++) {
        sim->ranks[i].sim = sim;
        sim->ranks[i].rank = i;
    }
    config.contexts = (char *)sim->ranks;
    DDP_TRY(harness_sim_scheduler_init(&sim->scheduler, sim->mem, &config));
    DDP_TRY(open_net(sim));
    for (uint32_t i = 0; i < sim->world_size; i++) {
        DDP_TRY(harness_sim_rank_init(sim, i, err));
    }
    return DDP_OK;
}

static ddp_status sim_open(struct harness_sim *sim, struct ddp_err *err)
{
    if (sim->world_size == 0 || sim->world_size > HARNESS_JOB_RANKS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "%u ranks; 1 to %d can be simulated",
                           sim->world_size, HARNESS_JOB_RANKS_MAX);
    }
    DDP_TRY(ddp_blas_open(NULL, err));
    DDP_TRY(harness_inject_open(sim->config->plan, err));
    DDP_TRY(open_data(sim, err));
    DDP_TRY(map_storage(sim));
    DDP_TRY(open_files(sim, err));
    DDP_TRY(open_ranks(sim, err));
    return harness_sim_monitor_init(sim);
}

static void report(struct harness_sim *sim, enum harness_verdict verdict, const char *text,
                   size_t count)
{
    struct harness_finding finding;

    harness_finding_init(&finding, sim->mem, verdict, HARNESS_ORACLE_LAUNCHER,
                         HARNESS_MODE_PROVABLE);
    (void)snprintf(finding.text, sizeof finding.text, "%s: %zu blocks", text, count);
    (void)harness_conclusions_report(&sim->monitor.sampler.conclusions, &finding,
                                     sim->scheduler.clock.time_ns);
}

static void destroy_net(void *context)
{
    const struct harness_sim *sim = context;

    ddp_loop_net_destroy(sim->net);
}

/* The store and the messages, once no rank is left. They are the core's, as what ranks do is: if
 * they keep memory, or it was written past its end, that is found like a rank's. Damaged memory is
 * left as it is: whoever goes through it may be led anywhere. */
static void close_net(struct harness_sim *sim, bool is_told)
{
    if (sim->net != NULL && !ddp_mem_pool_is_whole(sim->net_pool)) {
        if (is_told) {
            report(sim, HARNESS_VERDICT_CRASH_STORE,
                   "memory of the store or of messages was written past its end",
                   ddp_mem_pool_block_count(sim->net_pool));
        }
        sim->net = NULL;
        sim->net_pool = NULL;
    }
    if (sim->net != NULL && (sim->is_net_broken || !harness_sim_guard(sim, destroy_net, sim))) {
        report(sim, HARNESS_VERDICT_CRASH_STORE, "the store or the messages crashed at their end",
               ddp_mem_pool_block_count(sim->net_pool));
        sim->net_pool = NULL;
    }
    sim->net = NULL;
    if (sim->net_pool != NULL && ddp_mem_pool_block_count(sim->net_pool) > 0 && is_told) {
        report(sim, HARNESS_VERDICT_RESOURCE_LEAK,
               "the store or the messages did not give back their memory",
               ddp_mem_pool_block_count(sim->net_pool));
    }
    ddp_mem_pool_destroy(sim->net_pool);
    sim->net_pool = NULL;
}

static void sim_close(struct harness_sim *sim)
{
    for (uint32_t i = 0; sim->ranks != NULL && i < sim->world_size; i++) {
        if (sim->ranks[i].pool != NULL) {
            harness_sim_rank_reap(&sim->ranks[i]);
        }
    }
    close_net(sim, false);
    harness_sim_scheduler_fini(&sim->scheduler);
    harness_sim_monitor_fini(sim);
    ddp_mem_free(sim->mem, sim->ranks);
    if (sim->files != sim->config->memory) {
        ddp_files_memory_destroy(sim->files);
    }
    if (sim->storage != NULL) {
        (void)munmap(sim->storage, sim->storage_bytes);
    }
    if (sim->is_data_open) {
        ref_data_close(&sim->data);
    }
    harness_inject_close();
}

/* After a silence of this length the monitor has reported all that it can conclude from it. */
static uint64_t patience_ns(const struct harness_sim *sim)
{
    uint64_t longest_ns = 0;

    for (unsigned phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        uint64_t budget_ns = harness_monitor_budget_ns(sim->config->plan, (enum ddp_phase)phase);

        longest_ns = budget_ns > longest_ns ? budget_ns : longest_ns;
    }
    /* A hang may be reported when a second cut shows it. */
    return longest_ns + HARNESS_CONCLUSIONS_SETTLE_NS + 3 * HARNESS_SIM_SAMPLE_NS;
}

/* No rank can run before next_ns. The monitor takes samples while time passes, the last one just
 * before next_ns, so that no budget runs out unseen; once it has nothing more to learn, the rest of
 * the gap is skipped. */
static void pass_gap(struct harness_sim *sim, uint64_t next_ns)
{
    struct ddp_clock_virtual *clock = &sim->scheduler.clock;
    uint64_t start_ns = clock->time_ns;
    uint64_t patient_until_ns = start_ns + patience_ns(sim);
    bool is_stable = harness_sim_scheduler_is_stable(&sim->scheduler);

    if (is_stable) {
        harness_sim_monitor_sample(sim, true);
    }
    while (harness_sim_monitor_is_learning(sim) && sim->status == DDP_OK &&
           sim->monitor.next_sample_ns < next_ns &&
           sim->monitor.next_sample_ns < patient_until_ns) {
        ddp_clock_virtual_advance_to(clock, sim->monitor.next_sample_ns);
        harness_sim_monitor_sample(sim, is_stable);
    }
    if (harness_sim_monitor_is_learning(sim) && sim->status == DDP_OK &&
        next_ns < patient_until_ns && next_ns - start_ns >= GAP_NS) {
        ddp_clock_virtual_advance_to(clock, next_ns);
        harness_sim_monitor_sample(sim, is_stable);
    }
}

/* Run one ready rank; sample if it has ended, or if a sample is due. */
static void run_ready(struct harness_sim *sim)
{
    struct harness_sim_scheduler *scheduler = &sim->scheduler;
    struct harness_sim_rank *rank = &sim->ranks[harness_sim_scheduler_run_one(scheduler)];

    if (rank->is_vanished || harness_fiber_is_done(scheduler->actors[rank->rank].fiber)) {
        harness_sim_rank_settle(rank);
        harness_sim_monitor_sample(sim, false);
    } else if (scheduler->clock.time_ns >= sim->monitor.next_sample_ns) {
        harness_sim_monitor_sample(sim, false);
    }
}

/* No rank is ready: move time on to the next event. Returns false when there is none. */
static bool pass_to_next(struct harness_sim *sim, uint64_t reap_ns)
{
    uint64_t next_ns = harness_sim_scheduler_next_ns(&sim->scheduler);
    bool was_decided = sim->monitor.is_decided;

    pass_gap(sim, next_ns);
    if (next_ns == DDP_DEADLINE_NEVER) {
        return false;
    }
    /* A verdict reached in the gap starts the linger before time moves on. */
    if (was_decided == sim->monitor.is_decided) {
        ddp_clock_virtual_advance_to(&sim->scheduler.clock, next_ns < reap_ns ? next_ns : reap_ns);
    }
    return true;
}

/* What all ranks have recorded. */
static uint64_t event_count_of(const struct harness_sim *sim)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < sim->world_size; i++) {
        count += sim->ranks[i].recorder.page->event_count;
    }
    return count;
}

/* Those that go on after a loss end when their work is done: the linger begins with the last thing
 * that one of them did. */
static bool is_going_on(const struct harness_sim *sim, uint64_t *inout_event_count)
{
    const uint64_t count = event_count_of(sim);
    const bool is_more =
        sim->config->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE && count != *inout_event_count;

    *inout_event_count = count;
    return is_more;
}

/* Until every rank has ended, the linger after a verdict is over and nothing more can be concluded,
 * or nothing can happen. */
static void run_ranks(struct harness_sim *sim)
{
    struct harness_sim_scheduler *scheduler = &sim->scheduler;
    uint64_t linger_ns = sim->config->linger_ns == 0 ? LINGER_NS : sim->config->linger_ns;
    uint64_t reap_ns = DDP_DEADLINE_NEVER;
    uint64_t limit_ns = DDP_DEADLINE_NEVER;
    uint64_t event_count = 0;

    while (scheduler->live_count > 0 && sim->status == DDP_OK && !scheduler->is_out_of_memory) {
        if (sim->monitor.is_decided &&
            (reap_ns == DDP_DEADLINE_NEVER ||
             (scheduler->clock.time_ns >= reap_ns && is_going_on(sim, &event_count)))) {
            reap_ns = scheduler->clock.time_ns + linger_ns;
            limit_ns = reap_ns + patience_ns(sim);
        }
        if (scheduler->clock.time_ns >= reap_ns && reap_ns < limit_ns &&
            harness_sim_monitor_is_learning(sim)) {
            reap_ns = limit_ns;
        }
        if (scheduler->clock.time_ns >= reap_ns) {
            return;
        }
        harness_sim_scheduler_deliver(scheduler);
        if (scheduler->ready_count > 0) {
            run_ready(sim);
        } else if (!pass_to_next(sim, reap_ns)) {
            return;
        }
    }
}

static ddp_status collect(struct harness_sim *sim)
{
    struct harness_trace *trace = sim->trace;

    for (uint32_t i = 0; i < sim->world_size; i++) {
        const struct ddp_recorder *recorder = &sim->ranks[i].recorder;

        DDP_TRY(harness_trace_add_ring(trace, i, recorder->ring, sim->ring_entry_count,
                                       recorder->page->event_count));
        trace->ends[i] = sim->ranks[i].end;
    }
    DDP_TRY(harness_sim_monitor_record(sim));
    trace->start_ns = START_NS;
    trace->end_ns = sim->scheduler.clock.time_ns;
    harness_trace_merge(trace);
    return DDP_OK;
}

static ddp_status sim_finish(struct harness_sim *sim, struct ddp_err *err)
{
    DDP_ASSERT(sim->ranks != NULL); /* the simulator was opened */
    for (uint32_t i = 0; i < sim->world_size; i++) {
        if (sim->ranks[i].pool != NULL) {
            harness_sim_rank_reap(&sim->ranks[i]);
        }
    }
    sim->stats.switch_count = sim->scheduler.switch_count;
    DDP_TRY(sim->status);
    if (sim->scheduler.is_out_of_memory) {
        return DDP_E_NOMEM;
    }
    close_net(sim, true);
    DDP_TRY(collect(sim));
    return sim->options.run_dir == NULL || sim->config->memory != NULL
               ? DDP_OK
               : ddp_files_memory_export(sim->files, err);
}

ddp_status harness_sim_run(struct ddp_mem *mem, const struct harness_launch_config *config,
                           struct harness_trace *out, struct harness_sim_stats *stats,
                           struct ddp_err *err)
{
    struct harness_sim sim;
    ddp_status status;

    memset(&sim, 0, sizeof sim);
    sim.mem = mem;
    sim.config = config;
    sim.options = config->rank;
    sim.options.program_hash = config->program->hash;
    sim.world_size = config->plan->job.ranks;
    sim.trace = out;
    harness_trace_init(out, mem, sim.world_size, "sim");
    out->seed = config->seed;
    if (err != NULL) {
        err->text[0] = '\0';
    }
    status = sim_open(&sim, err);
    if (status == DDP_OK) {
        harness_sim_watch_open(&sim);
        run_ranks(&sim);
        status = sim_finish(&sim, err);
        harness_sim_watch_close(&sim);
    }
    sim_close(&sim);
    if (stats != NULL) {
        *stats = sim.stats;
    }
    if (status != DDP_OK) {
        (void)ddp_err_wrap(err, status, "the simulator stopped (%s)", ddp_status_name(status));
    }
    return status;
}

static ddp_status run(struct ddp_mem *mem, const struct harness_launch_config *config,
                      struct harness_trace *out, struct ddp_err *err)
{
    return harness_sim_run(mem, config, out, NULL, err);
}

const struct harness_driver_ops *harness_sim_driver(void)
{
    static const struct harness_driver_ops ops = {.name = "sim", .run = run};

    return &ops;
}
