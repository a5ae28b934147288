/* Hand-made cuts for the monitor's tests. */
#include "tests/unit/monitor/monitor_cut.h"

#include <string.h>

#include "tests/ct.h"

static void fill_program(struct cut_job *job)
{
    static const char *const names[CUT_PARAMS] = {"fc0.weight", "fc0.bias", "fc1.weight",
                                                  "fc1.bias"};
    size_t count = 0;

    for (uint32_t i = 0; i < CUT_PARAMS; i++) {
        job->params[i] = (struct ddp_param){.name = names[i], .elem_count = 10 + i};
    }
    for (uint32_t b = 0; b < CUT_BUCKETS; b++) {
        job->members[b][0] = b == 0 ? 3 : 1;
        job->members[b][1] = b == 0 ? 2 : 0;
        job->buckets[b] = (struct harness_bucket){
            .elem_count = 100 + b, .params = job->members[b], .param_count = 2};
    }
    job->ops[count++] = (struct harness_op){.step = -1,
                                            .phase = DDP_PHASE_INIT,
                                            .kind = DDP_COLL_ALL_GATHER,
                                            .role = DDP_ROLE_VERIFY,
                                            .is_root_known = true};
    job->ops[count++] = (struct harness_op){.step = -1,
                                            .phase = DDP_PHASE_INIT,
                                            .kind = DDP_COLL_BROADCAST,
                                            .role = DDP_ROLE_PARAM_SYNC,
                                            .is_root_known = true,
                                            .elem_count = 46};
    for (int32_t step = 0; step < CUT_STEPS; step++) {
        for (uint32_t b = 0; b < CUT_BUCKETS; b++) {
            job->ops[count++] = (struct harness_op){.step = step,
                                                    .phase = DDP_PHASE_BACKWARD,
                                                    .kind = DDP_COLL_ALL_REDUCE,
                                                    .role = DDP_ROLE_BUCKET,
                                                    .index = b,
                                                    .is_root_known = true,
                                                    .elem_count = 100 + b};
        }
    }
    job->ops[count++] = (struct harness_op){.step = CUT_STEPS,
                                            .phase = DDP_PHASE_TEARDOWN,
                                            .kind = DDP_COLL_BARRIER,
                                            .role = DDP_ROLE_BARRIER,
                                            .is_root_known = true};
    for (size_t i = 0; i < count; i++) {
        job->ops[i].seq = i + 1;
    }
    job->program = (struct harness_program){.ops = job->ops,
                                            .op_count = count,
                                            .op_capacity = count,
                                            .first = {job->buckets, CUT_BUCKETS},
                                            .params = job->params,
                                            .param_count = CUT_PARAMS};
}

uint64_t cut_seq(uint32_t step, uint32_t bucket)
{
    return 3 + step * CUT_BUCKETS + bucket;
}

void cut_init(struct cut_job *job, uint32_t world_size)
{
    memset(job, 0, sizeof(*job));
    fill_program(job);
    job->plan.job.ranks = world_size;
    job->plan.job.steps = CUT_STEPS;
    for (int phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        job->plan.job.phase_budget_ms[phase] = ddp_phase_budget_ms((enum ddp_phase)phase);
    }
    job->cut = (struct harness_cut){.world_size = world_size,
                                    .now_ns = CUT_NOW_NS,
                                    .pages = job->pages,
                                    .processes = job->processes,
                                    .is_page_valid = job->is_page_valid,
                                    .is_stable = true};
    CT_CHECK_OK(ddp_mem_pool_create(&job->pool));
    harness_findings_init(&job->findings, ddp_mem_pool_mem(job->pool));
    for (uint32_t r = 0; r < world_size; r++) {
        struct ddp_page *page = &job->pages[r];

        job->is_page_valid[r] = true;
        page->magic = DDP_PAGE_MAGIC;
        page->rank = r;
        page->world_size = world_size;
        cut_process(job, r, HARNESS_PROCESS_RUNNING, 0, 500);
        cut_host(job, r, DDP_PHASE_BACKWARD, 1);
        page->step = 1;
        cut_post(job, r, cut_seq(1, 1));
        cut_wait(job, r, cut_seq(1, 1), (int32_t)((r + world_size - 1) % world_size));
    }
}

void cut_fini(struct cut_job *job)
{
    ddp_mem_pool_destroy(job->pool);
}

void cut_post(struct cut_job *job, uint32_t rank, uint64_t seq)
{
    const struct harness_op *planned = harness_program_at(&job->program, seq);
    struct ddp_page *page = &job->pages[rank];
    struct ddp_event_op op = {.kind = DDP_COLL_ALL_REDUCE};

    page->seq_posted = seq;
    page->seq_done = seq > 0 ? seq - 1 : 0;
    page->posted_op = 0;
    page->posted_count = 0;
    if (planned != NULL) {
        op = (struct ddp_event_op){.kind = planned->kind,
                                   .redop = planned->redop,
                                   .dtype = planned->dtype,
                                   .role = planned->role,
                                   .index = planned->index,
                                   .root = planned->root};
        page->posted_op = ddp_event_op_pack(&op);
        page->posted_count = planned->elem_count;
        page->posted_step = planned->step < 0 ? 0 : (uint64_t)planned->step;
        page->posted_phase = planned->phase;
    }
}

void cut_wait(struct cut_job *job, uint32_t rank, uint64_t seq, int32_t peer)
{
    job->pages[rank].wait_kind = DDP_WAIT_COLLECTIVE;
    job->pages[rank].wait_seq = seq;
    job->pages[rank].wait_peer = (uint64_t)(peer + 1);
    job->pages[rank].wait_enter_ns = job->pages[rank].heartbeat_ns;
}

void cut_host(struct cut_job *job, uint32_t rank, enum ddp_phase phase, uint64_t ms)
{
    struct ddp_page *page = &job->pages[rank];

    page->phase = (uint64_t)phase;
    page->phase_enter_ns = CUT_NOW_NS - ms * CUT_MS;
    page->heartbeat_ns = page->phase_enter_ns;
    page->wait_kind = DDP_WAIT_NONE;
    page->wait_seq = 0;
    page->wait_peer = 0;
    page->wait_enter_ns = 0;
    if (job->processes[rank].since_ns > page->phase_enter_ns) {
        job->processes[rank].since_ns = page->phase_enter_ns;
    }
}

void cut_process(struct cut_job *job, uint32_t rank, enum harness_process_state state, int code,
                 uint64_t since_ms)
{
    job->processes[rank] = (struct harness_process){
        .state = state, .code = code, .since_ns = CUT_NOW_NS - since_ms * CUT_MS};
}

void cut_still(struct cut_job *job, uint32_t rank, uint64_t ms)
{
    struct ddp_page *page = &job->pages[rank];

    page->heartbeat_ns = CUT_NOW_NS - ms * CUT_MS;
    page->phase_enter_ns = page->heartbeat_ns;
    page->wait_enter_ns = page->wait_kind == DDP_WAIT_NONE ? 0 : page->heartbeat_ns;
    job->progress_ns[rank] = page->heartbeat_ns;
    job->processes[rank].since_ns = page->heartbeat_ns;
}

void cut_map(struct cut_job *job)
{
    job->cut.progress = job->progress;
    job->cut.progress_ns = job->progress_ns;
    for (uint32_t r = 0; r < job->cut.world_size; r++) {
        job->progress[r].is_mapped = 1;
        job->progress_ns[r] = job->pages[r].heartbeat_ns;
        cut_compute(job, r, DDP_MARK_IDLE, 0, 0);
        cut_comm(job, r, job->pages[r].seq_posted, CUT_COMM_ENDED);
        job->pages[r].wait_peer = 0;
    }
}

void cut_compute(struct cut_job *job, uint32_t rank, enum ddp_mark mark, uint32_t index,
                 uint32_t behind)
{
    struct ddp_progress_words *words = &job->progress[rank].stream[DDP_PROGRESS_COMPUTE];

    words->reached = ddp_mark_pack(37, mark, index);
    words->enqueued = behind == 0 ? words->reached : ddp_mark_pack(37 + behind, DDP_MARK_IDLE, 0);
}

void cut_comm(struct cut_job *job, uint32_t rank, uint64_t seq, enum cut_comm comm)
{
    struct ddp_progress_words *words = &job->progress[rank].stream[DDP_PROGRESS_COMM];

    words->enqueued = ddp_mark_pack(2 * seq, DDP_MARK_COLL_END, seq);
    words->reached = words->enqueued;
    if (comm == CUT_COMM_INSIDE || comm == CUT_COMM_OPEN) {
        words->reached = ddp_mark_pack(2 * seq - 1, DDP_MARK_COLL, seq);
        words->enqueued = comm == CUT_COMM_OPEN ? words->reached : words->enqueued;
    } else if (comm == CUT_COMM_BEFORE) {
        words->reached = seq > 1 ? ddp_mark_pack(2 * seq - 2, DDP_MARK_COLL_END, seq - 1) : 0;
    }
}

void cut_open_device(struct cut_job *job, uint32_t world_size)
{
    cut_init(job, world_size);
    cut_map(job);
    for (uint32_t r = 0; r < world_size; r++) {
        cut_comm(job, r, cut_seq(1, 1), CUT_COMM_INSIDE);
        cut_still(job, r, CUT_LATE_MS);
    }
}

void cut_end(struct cut_job *job, uint32_t rank, ddp_status status)
{
    cut_host(job, rank, DDP_PHASE_END, 0);
    job->pages[rank].end_status = 1 + (uint64_t)(uint32_t)status;
}

void cut_analyse(struct cut_job *job)
{
    harness_findings_init(&job->findings, ddp_mem_pool_mem(job->pool));
    harness_monitor_analyse(&job->plan, &job->program, &job->cut, &job->findings);
}

const struct harness_finding *cut_only(struct cut_job *job, enum harness_verdict verdict)
{
    cut_analyse(job);
    if (job->findings.count != 1) {
        CT_FAIL("%zu findings instead of one (%s); the first: %s", job->findings.count,
                harness_verdict_name(verdict),
                job->findings.count > 0 ? job->findings.items[0].text : "-");
        return NULL;
    }
    CT_CHECK_STR(harness_verdict_name(job->findings.items[0].verdict),
                 harness_verdict_name(verdict));
    return &job->findings.items[0];
}

void cut_check_culprit(const struct harness_finding *finding, uint32_t rank)
{
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 1);
    CT_CHECK(harness_rank_set_has(&finding->culprits, rank));
}

void cut_check_others_wait(const struct harness_finding *finding, uint32_t rank)
{
    cut_check_culprit(finding, rank);
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), CUT_RANKS - 1);
    CT_CHECK(!harness_rank_set_has(&finding->victims, rank));
}

void cut_check_silent(struct cut_job *job, const char *what)
{
    cut_analyse(job);
    if (job->findings.count != 0) {
        CT_FAIL("%s: %s: %s", what, harness_verdict_name(job->findings.items[0].verdict),
                job->findings.items[0].text);
    }
}
