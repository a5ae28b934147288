/* How the monitor's sampler reaches the ranks of the proc driver: everything is in the job's shared
 * memory, and the kernel knows how long a rank had no CPU. */
#include "harness/proc/sampler.h"

#include <sys/wait.h>

static const void *recorder_of(void *context, uint32_t rank)
{
    const struct harness_proc_sampler *sampler = context;

    return harness_proc_recorder(sampler->head, rank);
}

static void read_ending(struct harness_proc_ending *self, pid_t pid, uint64_t now_ns)
{
    struct harness_ending ending;

    harness_ending_read(pid, &ending);
    self->read_ns = now_ns;
    self->since_ns = !ending.is_so ? 0 : self->since_ns != 0 ? self->since_ns : now_ns;
    self->status = ending.status;
    /* How one that is over has ended, the launcher is about to say, if it is anybody's fault. */
    self->is_given_up = self->is_given_up || (ending.is_so && !ending.is_over &&
                                              now_ns - self->since_ns >= HARNESS_ENDING_MAX_NS);
}

/* As it will have ended, by what the kernel says. */
static void show_ended(const struct harness_proc_ending *self, struct harness_process *process)
{
    const bool is_signaled = WIFSIGNALED(self->status);

    process->state = is_signaled ? HARNESS_PROCESS_SIGNALED : HARNESS_PROCESS_EXITED;
    process->code = is_signaled ? WTERMSIG(self->status) : WEXITSTATUS(self->status);
    process->since_ns = self->since_ns;
    process->is_unended = true;
}

static bool is_at_work(const struct harness_process *process)
{
    return process->state == HARNESS_PROCESS_RUNNING || process->state == HARNESS_PROCESS_STOPPED;
}

static struct harness_process process_of(void *context, uint32_t rank)
{
    struct harness_proc_sampler *sampler = context;
    const struct harness_proc_state *state = &sampler->head->states[rank];
    const uint64_t now_ns = sampler->base.now_ns;
    const uint64_t heartbeat_ns = sampler->base.pages[rank].heartbeat_ns;
    struct harness_process process = harness_proc_state_load(state);
    struct harness_proc_ending *ending = &sampler->endings[rank];

    if (is_at_work(&process) && !ending->is_given_up &&
        now_ns >= heartbeat_ns + HARNESS_LAG_START_NS &&
        now_ns >= process.since_ns + HARNESS_LAG_START_NS &&
        now_ns >= ending->read_ns + HARNESS_LAG_INTERVAL_NS) {
        read_ending(ending, (pid_t)state->pid, now_ns);
    }
    process.ending_ns = ending->since_ns;
    if (is_at_work(&process) && ending->is_given_up) {
        show_ended(ending, &process);
    }
    return process;
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
    sampler->endings = ddp_mem_array(mem, config.world_size, sizeof(*sampler->endings));
    status = sampler->lags == NULL || sampler->endings == NULL
                 ? DDP_E_NOMEM
                 : harness_sampler_init(&sampler->base, &config);
    if (status != DDP_OK) {
        ddp_mem_free(mem, sampler->lags);
        ddp_mem_free(mem, sampler->endings);
        *sampler = (struct harness_proc_sampler){.lags = NULL};
    }
    return status;
}

void harness_proc_sampler_fini(struct harness_proc_sampler *sampler)
{
    struct ddp_mem *mem = sampler->base.config.mem;

    if (mem != NULL) {
        ddp_mem_free(mem, sampler->lags);
        ddp_mem_free(mem, sampler->endings);
        harness_sampler_fini(&sampler->base);
    }
    *sampler = (struct harness_proc_sampler){.lags = NULL};
}
