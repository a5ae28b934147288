/* The monitor as an actor of the simulator: it looks at the same pages as in real runs. What the
 * simulator knows better is when a cut is stable: nothing can run and nothing is under way. */
#include <string.h>

#include "harness/sim/sim.h"

ddp_status harness_sim_watch_init(struct harness_sim *sim)
{
    struct harness_sim_watch *watch = &sim->watch;
    uint32_t count = sim->world_size;

    watch->pages = ddp_mem_array(sim->mem, count, sizeof watch->pages[0]);
    watch->processes = ddp_mem_array(sim->mem, count, sizeof watch->processes[0]);
    watch->is_page_valid = ddp_mem_array(sim->mem, count, sizeof watch->is_page_valid[0]);
    watch->histories = ddp_mem_array(sim->mem, count, sizeof watch->histories[0]);
    watch->changes = ddp_mem_array(sim->mem, count, sizeof watch->changes[0]);
    watch->progress = ddp_mem_array(sim->mem, count, sizeof watch->progress[0]);
    watch->progress_ns = ddp_mem_array(sim->mem, count, sizeof watch->progress_ns[0]);
    watch->picture = ddp_mem_array(sim->mem, 1, sizeof *watch->picture);
    harness_watch_init(&watch->conclusions, sim->mem);
    if (watch->pages == NULL || watch->processes == NULL || watch->is_page_valid == NULL ||
        watch->histories == NULL || watch->changes == NULL || watch->progress == NULL ||
        watch->progress_ns == NULL || watch->picture == NULL) {
        return DDP_E_NOMEM;
    }
    harness_picture_init(watch->picture, sim->scheduler.clock.time_ns);
    watch->next_look_ns = sim->scheduler.clock.time_ns + HARNESS_SIM_LOOK_NS;
    return DDP_OK;
}

void harness_sim_watch_fini(struct harness_sim *sim)
{
    if (sim->watch.conclusions.mem != NULL) {
        harness_watch_fini(&sim->watch.conclusions);
    }
    ddp_mem_free(sim->mem, sim->watch.histories);
    ddp_mem_free(sim->mem, sim->watch.changes);
    ddp_mem_free(sim->mem, sim->watch.progress);
    ddp_mem_free(sim->mem, sim->watch.progress_ns);
    ddp_mem_free(sim->mem, sim->watch.picture);
    ddp_mem_free(sim->mem, sim->watch.pages);
    ddp_mem_free(sim->mem, sim->watch.processes);
    ddp_mem_free(sim->mem, sim->watch.is_page_valid);
}

static bool is_slowness(const struct harness_finding *finding)
{
    return harness_verdict_family(finding->verdict) == HARNESS_FAMILY_SLOW;
}

static void read_rank(struct harness_sim *sim, uint32_t rank)
{
    struct harness_sim_watch *watch = &sim->watch;
    const struct ddp_recorder *recorder = &sim->ranks[rank].recorder;
    struct ddp_page *page = &watch->pages[rank];

    watch->processes[rank] = sim->ranks[rank].process;
    watch->is_page_valid[rank] = ddp_page_read(recorder->page, page);
    if (!watch->is_page_valid[rank]) {
        return;
    }
    if (page->change != watch->changes[rank]) {
        watch->changes[rank] = page->change;
        watch->change_ns = sim->scheduler.clock.time_ns;
    }
    /* Nobody writes while the monitor looks. */
    if (!ddp_progress_is_equal(recorder->progress, &watch->progress[rank])) {
        watch->progress[rank] = *recorder->progress;
        watch->progress_ns[rank] = sim->scheduler.clock.time_ns;
        watch->change_ns = sim->scheduler.clock.time_ns;
    }
    harness_history_follow(&watch->histories[rank], sim->config->program, recorder->ring,
                           sim->ring_entry_count, page);
}

void harness_sim_watch_look(struct harness_sim *sim, bool is_stable)
{
    struct harness_sim_watch *watch = &sim->watch;
    struct harness_findings findings;
    struct harness_cut cut = {.world_size = sim->world_size,
                              .now_ns = sim->scheduler.clock.time_ns,
                              .pages = watch->pages,
                              .processes = watch->processes,
                              .is_page_valid = watch->is_page_valid,
                              .progress = watch->progress,
                              .progress_ns = watch->progress_ns,
                              .is_stable = is_stable};

    watch->next_look_ns = cut.now_ns + HARNESS_SIM_LOOK_NS;
    for (uint32_t i = 0; i < sim->world_size; i++) {
        read_rank(sim, i);
    }
    cut.change_ns = watch->change_ns;
    harness_findings_init(&findings, sim->mem);
    harness_monitor_analyse(sim->config->plan, sim->config->program, &cut, &findings);
    harness_watch_note(&watch->conclusions, &findings, cut.now_ns);
    harness_picture_take(watch->picture, sim->config->plan, sim->config->program, &cut,
                         &watch->conclusions);
    if (findings.is_failed || watch->conclusions.is_failed) {
        sim->status = DDP_E_NOMEM;
    }
    harness_findings_fini(&findings);
    for (size_t i = 0; i < watch->conclusions.said.count && !watch->is_decided; i++) {
        watch->is_decided = !is_slowness(&watch->conclusions.said.items[i].finding);
    }
}

ddp_status harness_sim_watch_conclude(struct harness_sim *sim)
{
    const struct harness_sightings *said = &sim->watch.conclusions.said;

    for (size_t i = 0; i < said->count; i++) {
        DDP_TRY(harness_trace_add_diagnosis(sim->trace, said->items[i].time_ns,
                                            &said->items[i].finding));
    }
    harness_picture_print(sim->watch.picture, &sim->trace->graph);
    return DDP_OK;
}
