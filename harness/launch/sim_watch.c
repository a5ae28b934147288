/* The monitor as an actor of the simulator: it looks at the same pages as in real runs. What the
 * simulator knows better is when a cut is stable: nothing can run and nothing is under way. */
#include <string.h>

#include "harness/launch/sim.h"

ddp_status harness_sim_watch_init(struct harness_sim *sim)
{
    struct harness_sim_watch *watch = &sim->watch;
    uint32_t count = sim->world_size;

    watch->pages = ddp_mem_array(sim->mem, count, sizeof watch->pages[0]);
    watch->processes = ddp_mem_array(sim->mem, count, sizeof watch->processes[0]);
    watch->is_page_valid = ddp_mem_array(sim->mem, count, sizeof watch->is_page_valid[0]);
    if (watch->pages == NULL || watch->processes == NULL || watch->is_page_valid == NULL) {
        return DDP_E_NOMEM;
    }
    watch->next_look_ns = sim->scheduler.clock.time_ns + HARNESS_SIM_LOOK_NS;
    return DDP_OK;
}

void harness_sim_watch_fini(struct harness_sim *sim)
{
    ddp_mem_free(sim->mem, sim->watch.pages);
    ddp_mem_free(sim->mem, sim->watch.processes);
    ddp_mem_free(sim->mem, sim->watch.is_page_valid);
}

static bool is_known(const struct harness_trace *trace, const struct harness_finding *finding)
{
    for (size_t i = 0; i < trace->diagnoses.count; i++) {
        const struct harness_finding *known = &trace->diagnoses.items[i];

        if (known->verdict == finding->verdict &&
            harness_rank_set_is_equal(&known->culprits, &finding->culprits)) {
            return true;
        }
    }
    return false;
}

static bool is_slowness(const struct harness_finding *finding)
{
    return strncmp(harness_verdict_name(finding->verdict), "SLOW.", 5) == 0;
}

static void take_findings(struct harness_sim *sim, const struct harness_findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_finding *finding = &findings->items[i];

        if (!is_slowness(finding)) {
            sim->watch.is_decided = true;
        }
        if (!is_known(sim->trace, finding)) {
            ddp_status status =
                harness_trace_add_diagnosis(sim->trace, sim->scheduler.clock.time_ns, finding);

            sim->status = sim->status == DDP_OK ? status : sim->status;
        }
    }
}

void harness_sim_watch_look(struct harness_sim *sim, bool is_stable)
{
    struct harness_sim_watch *watch = &sim->watch;
    struct harness_findings findings;
    const struct harness_cut cut = {.world_size = sim->world_size,
                                    .now_ns = sim->scheduler.clock.time_ns,
                                    .pages = watch->pages,
                                    .processes = watch->processes,
                                    .is_page_valid = watch->is_page_valid,
                                    .is_stable = is_stable};

    /* Who is to blame is decided once; what follows from it is not evidence of anything new. */
    if (watch->is_decided) {
        return;
    }
    watch->next_look_ns = cut.now_ns + HARNESS_SIM_LOOK_NS;
    for (uint32_t i = 0; i < sim->world_size; i++) {
        watch->is_page_valid[i] = ddp_page_read(sim->ranks[i].recorder.page, &watch->pages[i]);
        watch->processes[i] = sim->ranks[i].process;
    }
    harness_findings_init(&findings, sim->mem);
    harness_monitor_analyse(sim->config->plan, sim->config->program, &cut, &findings);
    take_findings(sim, &findings);
    if (findings.is_failed) {
        sim->status = DDP_E_NOMEM;
    }
    harness_findings_fini(&findings);
}
