/* How the monitor's sampler reaches the ranks of the proc driver: everything is in the job's shared
 * memory, and the kernel knows how long a rank had no CPU. */
#include "harness/proc/sampler.h"

static const void *recorder_of(void *context, uint32_t rank)
{
    const struct harness_proc_sampler *sampler = context;

    return harness_proc_recorder(sampler->head, rank);
}

static struct harness_process process_of(void *context, uint32_t rank)
{
    const struct harness_proc_sampler *sampler = context;

    return harness_proc_state_load(&sampler->head->states[rank]);
}

static uint64_t starved_ns_of(void *context, uint32_t rank, uint64_t alive_ns, uint64_t now_ns)
{
    struct harness_proc_sampler *sampler = context;

    return harness_lag_read(&sampler->lags[rank], (pid_t)sampler->head->states[rank].pid, alive_ns,
                            now_ns);
}

ddp_status harness_proc_sampler_init(struct harness_proc_sampler *sampler, struct ddp_mem *mem,
                                     const struct harness_plan *plan,
                                     const struct harness_program *program,
                                     const struct harness_tables *tables,
                                     struct harness_proc_head *head)
{
    static const struct harness_sampler_source source = {
        .recorder = recorder_of, .process = process_of, .starved_ns = starved_ns_of};
    const struct harness_sampler_config config = {
        .mem = mem,
        .plan = plan,
        .program = program,
        .tables = tables,
        .world_size = (uint32_t)head->world_size,
        .ring_entry_count = head->ring_entry_count,
        .source = &source,
        .source_context = sampler,
        .snapshot = head->snapshot_offset_bytes != 0 ? harness_proc_snapshot(head) : NULL};
    ddp_status status;

    *sampler = (struct harness_proc_sampler){.head = head};
    sampler->lags = ddp_mem_array(mem, config.world_size, sizeof(*sampler->lags));
    if (sampler->lags == NULL) {
        return DDP_E_NOMEM;
    }
    status = harness_sampler_init(&sampler->base, &config);
    if (status != DDP_OK) {
        ddp_mem_free(mem, sampler->lags);
        sampler->lags = NULL;
    }
    return status;
}

void harness_proc_sampler_fini(struct harness_proc_sampler *sampler)
{
    struct ddp_mem *mem = sampler->base.config.mem;

    if (mem != NULL) {
        ddp_mem_free(mem, sampler->lags);
        harness_sampler_fini(&sampler->base);
    }
    *sampler = (struct harness_proc_sampler){.lags = NULL};
}
