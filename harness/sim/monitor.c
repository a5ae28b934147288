/* The monitor in the simulator: samples the ranks in virtual time, as the monitor process does in
 * real time. The simulator alone knows whether a message is under way. */
#include "harness/sim/job.h"

static const void *recorder_of(void *context, uint32_t rank)
{
    const struct harness_sim *sim = context;

    return sim->ranks[rank].storage;
}

static struct harness_process process_of(void *context, uint32_t rank)
{
    const struct harness_sim *sim = context;

    return sim->ranks[rank].process;
}

ddp_status harness_sim_monitor_init(struct harness_sim *sim)
{
    static const struct harness_sampler_source source = {.recorder = recorder_of,
                                                         .process = process_of};
    struct harness_sim_monitor *monitor = &sim->monitor;
    struct harness_sampler_config config = {.mem = sim->mem,
                                            .plan = sim->config->plan,
                                            .program = sim->config->program,
                                            .tables = sim->config->tables,
                                            .world_size = sim->world_size,
                                            .ring_entry_count = sim->ring_entry_count,
                                            .source = &source,
                                            .source_context = sim};

    monitor->snapshot = ddp_mem_array(sim->mem, 1, sizeof *monitor->snapshot);
    if (monitor->snapshot == NULL) {
        return DDP_E_NOMEM;
    }
    config.snapshot = monitor->snapshot;
    harness_wait_snapshot_init(monitor->snapshot, sim->scheduler.clock.time_ns);
    monitor->next_sample_ns = sim->scheduler.clock.time_ns + HARNESS_SIM_SAMPLE_NS;
    return harness_sampler_init(&monitor->sampler, &config);
}

void harness_sim_monitor_fini(struct harness_sim *sim)
{
    harness_sampler_fini(&sim->monitor.sampler);
    ddp_mem_free(sim->mem, sim->monitor.snapshot);
}

void harness_sim_monitor_sample(struct harness_sim *sim, bool is_settled)
{
    struct harness_sim_monitor *monitor = &sim->monitor;
    const struct harness_conclusions *conclusions = &monitor->sampler.conclusions;
    uint64_t now_ns = sim->scheduler.clock.time_ns;

    monitor->next_sample_ns = now_ns + HARNESS_SIM_SAMPLE_NS;
    harness_sampler_take(&monitor->sampler, now_ns, is_settled);
    if (conclusions->is_failed) {
        sim->status = DDP_E_NOMEM;
    }
    monitor->is_decided = monitor->is_decided || harness_conclusions_decisive(conclusions) != NULL;
}

bool harness_sim_monitor_is_learning(const struct harness_sim *sim)
{
    return !sim->monitor.is_decided || harness_sampler_is_open(&sim->monitor.sampler);
}

ddp_status harness_sim_monitor_record(struct harness_sim *sim)
{
    const struct harness_conclusion_list *reported = &sim->monitor.sampler.conclusions.reported;

    for (size_t i = 0; i < reported->count; i++) {
        DDP_TRY(harness_trace_add_diagnosis(sim->trace, reported->items[i].time_ns,
                                            &reported->items[i].finding));
    }
    harness_wait_snapshot_print(sim->monitor.snapshot, &sim->trace->graph);
    return DDP_OK;
}
