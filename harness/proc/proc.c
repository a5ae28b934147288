/* The proc driver: one process a rank, processes of the monitor and of the rendezvous store beside
 * them, this process as launcher. Whatever happens, every process is reaped and every descriptor is
 * closed before it returns; what ranks left behind all the same is in the trace. */
#include "harness/proc/proc.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/inject/inject.h"
#include "harness/launch/limit.h"
#include "harness/launch/mpi.h"
#include "harness/proc/job.h"

static const uint64_t ceiling_min_ns = 60 * DDP_NS_PER_S;

static ddp_status open_memory(struct harness_proc_job *job)
{
    uint64_t ring = harness_launch_ring_entry_count(job->config->plan, job->config->program);
    uint64_t offset = (sizeof(struct harness_proc_head) + 4095) / 4096 * 4096;
    uint64_t stride;
    uint64_t snapshot;
    void *memory;

    stride = ddp_recorder_size_bytes(ring);
    snapshot = offset + stride * job->world_size;
    job->head_size_bytes = (size_t)snapshot + sizeof(struct harness_wait_snapshot);
    job->job_fd = memfd_create("ddprove-job", MFD_CLOEXEC);
    if (job->job_fd < 0 || ftruncate(job->job_fd, (off_t)job->head_size_bytes) != 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "memory of the job: %s", strerror(errno));
    }
    memory = mmap(NULL, job->head_size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, job->job_fd, 0);
    if (memory == MAP_FAILED) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "memory of the job: %s", strerror(errno));
    }
    job->head = memory;
    job->head->world_size = job->world_size;
    job->head->ring_entry_count = ring;
    job->head->recorder_offset_bytes = offset;
    job->head->recorder_stride_bytes = stride;
    job->head->snapshot_offset_bytes = snapshot;
    harness_wait_snapshot_init(harness_proc_snapshot(job->head), job->start_ns);
    job->head->magic = HARNESS_PROC_MAGIC;
    return DDP_OK;
}

/* A free port for rank 0 to listen at: a socket that is bound to it, and does not listen, keeps it
 * from all that does not ask for it by its number. */
static ddp_status reserve_port(struct harness_proc_job *job)
{
    const int one = 1;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t name_bytes = sizeof(name);

    job->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (setsockopt(job->port_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
        bind(job->port_fd, (const struct sockaddr *)&name, name_bytes) != 0 ||
        getsockname(job->port_fd, (struct sockaddr *)&name, &name_bytes) != 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "a port for rank 0: %s", strerror(errno));
    }
    job->store_port = ntohs(name.sin_port);
    return DDP_OK;
}

static ddp_status open_store(struct harness_proc_job *job)
{
    return job->config->plan->job.store == HARNESS_STORE_RANK_0 ? reserve_port(job)
                                                                : harness_proc_store_start(job);
}

static ddp_status open_folder(const struct harness_launch_config *config, const char *name,
                              struct ddp_mem *mem, struct ddp_err *err)
{
    struct ddp_text path;
    ddp_status status;

    ddp_text_init(&path, mem);
    ddp_text_add(&path, "%s/%s", config->rank.run_dir, name);
    status = path.is_failed ? DDP_E_NOMEM : ddp_files_make_dirs(ddp_text_str(&path), err);
    ddp_text_fini(&path);
    return status;
}

/* Which tensors a replay is to keep. */
static ddp_status write_wanted(const struct harness_launch_config *config, struct ddp_mem *mem,
                               struct ddp_err *err)
{
    struct ddp_text path;
    ddp_status status;

    DDP_TRY(open_folder(config, "payload", mem, err));
    ddp_text_init(&path, mem);
    ddp_text_add(&path, "%s/payload/wanted", config->rank.run_dir);
    status = path.is_failed ? DDP_E_NOMEM
                            : harness_wanted_write(ddp_text_str(&path), config->rank.wanted,
                                                   config->rank.wanted_count, mem, err);
    ddp_text_fini(&path);
    return status;
}

/* Where ranks write: their files' layer makes no folders. */
static ddp_status open_folders(const struct harness_launch_config *config, struct ddp_mem *mem,
                               struct ddp_err *err)
{
    DDP_TRY(open_folder(config, "schedules", mem, err));
    if (harness_plan_is_cuda(config->plan) || harness_plan_is_opaque(config->plan)) {
        DDP_TRY(open_folder(config, "trees", mem, err));
    }
    if (config->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE) {
        DDP_TRY(open_folder(config, "survivors/schedules", mem, err));
    }
    return config->rank.wanted_count > 0 ? write_wanted(config, mem, err) : DDP_OK;
}

/* Longer than a job can take without a finding: the budgets of all phases, in every step. */
static uint64_t ceiling_ns(const struct harness_plan *plan)
{
    uint64_t sum_ms = 0;
    uint64_t total_ns;

    for (int phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        sum_ms += plan->job.phase_budget_ms[phase];
    }
    total_ns = sum_ms * DDP_NS_PER_MS * ((uint64_t)plan->job.steps + 1);
    return total_ns > ceiling_min_ns ? total_ns : ceiling_min_ns;
}

static ddp_status job_open(struct harness_proc_job *job)
{
    job->ranks = ddp_mem_array(job->mem, job->world_size, sizeof(*job->ranks));
    if (job->ranks == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < job->world_size; r++) {
        job->ranks[r].pid_fd = -1;
        job->ranks[r].continue_ns = DDP_DEADLINE_NEVER;
    }
    DDP_TRY(ddp_mem_pool_create(&job->pool));
    DDP_TRY(open_folders(job->config, job->mem, job->err));
    DDP_TRY(harness_proc_loop_open(job));
    DDP_TRY(open_memory(job));
    DDP_TRY(open_store(job));
    DDP_TRY(harness_proc_monitor_start(job));
    DDP_TRY(harness_proc_loop_add(job, job->monitor_fd));
    return job->starter->start(job);
}

static void job_close(struct harness_proc_job *job)
{
    job->starter->close(job);
    for (uint32_t r = 0; job->ranks != NULL && r < job->world_size; r++) {
        if (job->ranks[r].pid_fd >= 0) {
            (void)close(job->ranks[r].pid_fd);
        }
    }
    harness_proc_store_stop(job);
    if (job->wake_fd >= 0) {
        (void)close(job->wake_fd);
    }
    if (job->port_fd >= 0) {
        (void)close(job->port_fd);
    }
    if (job->head != NULL) {
        (void)munmap(job->head, job->head_size_bytes);
    }
    if (job->job_fd >= 0) {
        (void)close(job->job_fd);
    }
    harness_proc_loop_close(job);
    ddp_mem_pool_destroy(job->pool);
}

static void record_end(const struct harness_proc_rank *rank, struct harness_rank_end *out)
{
    if (rank->pid == 0) {
        return;
    }
    out->time_ns = rank->process.since_ns;
    out->code = rank->process.code;
    out->is_stopped = rank->is_stopped_at_end;
    if (rank->process.state == HARNESS_PROCESS_EXITED) {
        out->how = HARNESS_END_EXITED;
    } else {
        out->how = rank->is_ended_by_us ? HARNESS_END_REAPED : HARNESS_END_SIGNALED;
    }
}

static ddp_status job_record(struct harness_proc_job *job, struct harness_trace *out)
{
    DDP_ASSERT(job->ranks != NULL); /* the job was opened */
    for (uint32_t r = 0; r < job->world_size; r++) {
        const void *storage = harness_proc_recorder(job->head, r);
        const struct ddp_page *page = storage;

        record_end(&job->ranks[r], &out->ends[r]);
        DDP_TRY(harness_trace_add_ring(out, r, ddp_recorder_ring(storage),
                                       job->head->ring_entry_count,
                                       __atomic_load_n(&page->event_count, __ATOMIC_ACQUIRE)));
    }
    for (size_t i = 0; i < job->conclusions.reported.count; i++) {
        DDP_TRY(harness_trace_add_diagnosis(out, job->conclusions.reported.items[i].time_ns,
                                            &job->conclusions.reported.items[i].finding));
    }
    harness_wait_snapshot_print(harness_proc_snapshot(job->head), &out->graph);
    return job->conclusions.is_failed ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status check_config(const struct harness_launch_config *config, struct ddp_err *err)
{
    if (config->self_path == NULL || config->plan_path == NULL || config->rank.run_dir == NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "proc needs self_path, plan_path and run_dir");
    }
    if (config->plan->job.ranks == 0 || config->plan->job.ranks > HARNESS_JOB_RANKS_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "proc runs 1 to %d ranks, not %u",
                           HARNESS_JOB_RANKS_MAX, config->plan->job.ranks);
    }
    return DDP_OK;
}

static ddp_status harness_proc_run(struct ddp_mem *mem, const struct harness_launch_config *config,
                                   struct harness_trace *out, struct ddp_err *err)
{
    struct harness_proc_job job = {.config = config,
                                   .mem = mem,
                                   .clock = ddp_clock_monotonic(),
                                   .err = err,
                                   .world_size = config->plan->job.ranks,
                                   .starter = config->launcher == HARNESS_LAUNCHER_MPIRUN
                                                  ? harness_proc_starter_mpirun()
                                                  : harness_proc_starter_own(),
                                   .job_fd = -1,
                                   .port_fd = -1,
                                   .store_fd = -1,
                                   .epoll_fd = -1,
                                   .signal_fd = -1,
                                   .timer_fd = -1,
                                   .monitor_fd = -1,
                                   .wake_fd = -1,
                                   .linger_end_ns = DDP_DEADLINE_NEVER};
    struct harness_proc_audit audit;
    ddp_status status;

    harness_trace_init(out, mem, config->plan->job.ranks, "proc");
    out->launcher = harness_launcher_name(config->launcher);
    out->seed = config->seed;
    DDP_TRY(check_config(config, err));
    DDP_TRY(harness_mpi_check(config->plan, config->launcher, err));
    DDP_TRY(harness_limits_prepare(config->plan, err));
    if (out->ends == NULL) {
        return DDP_E_NOMEM;
    }
    harness_proc_audit_begin(&audit, mem);
    harness_conclusions_init(&job.conclusions, mem);
    ddp_text_init(&job.reports, mem);
    job.start_ns = ddp_clock_now_ns(job.clock);
    job.ceiling_ns = job.start_ns + ceiling_ns(config->plan);
    out->start_ns = job.start_ns;
    status = job_open(&job);
    status = status == DDP_OK ? harness_proc_loop_run(&job) : status;
    /* The monitor first: it must not see the ranks that are ended now as crashed. */
    harness_proc_monitor_stop(&job);
    if (job.ranks != NULL) {
        harness_proc_loop_reap(&job);
    }
    harness_proc_store_stop(&job);
    out->end_ns = ddp_clock_now_ns(job.clock);
    status = status == DDP_OK ? harness_proc_loop_interrupted(&job) : status;
    status = status == DDP_OK ? job_record(&job, out) : status;
    job_close(&job);
    harness_conclusions_fini(&job.conclusions);
    ddp_text_fini(&job.reports);
    if (job.ranks != NULL) {
        harness_proc_audit_end(&audit, job.ranks, job.world_size, out);
    }
    ddp_mem_free(mem, job.ranks);
    harness_proc_audit_fini(&audit);
    harness_trace_merge(out);
    return status;
}

bool harness_proc_can_strike(const struct harness_plan *plan)
{
    bool can = true;

    for (uint32_t i = 0; harness_plan_strikes_process(plan) && i < plan->fault_count; i++) {
        const struct harness_fault *fault = &plan->faults[i];

        can = can && (fault->action.kind != HARNESS_ACTION_IO ||
                      harness_inject_preload(plan, fault->at.rank) != NULL);
    }
    return can;
}

const struct harness_driver_ops *harness_proc_driver(void)
{
    static const struct harness_driver_ops ops = {.name = "proc", .run = harness_proc_run};

    return &ops;
}
