/* States of processes are read before pages, so that the page of a rank seen as ended is final.
 * Change counters and words are read again after all pages: if none has moved, the copies show the
 * job as it was at one moment. */
#include "harness/monitor/sampler.h"

#include "harness/monitor/graph.h"

ddp_status harness_sampler_init(struct harness_sampler *sampler,
                                const struct harness_sampler_config *config)
{
    struct ddp_mem *mem = config->mem;
    size_t n = config->world_size;

    DDP_ASSERT(n > 0 && config->source->recorder != NULL && config->source->process != NULL);
    *sampler = (struct harness_sampler){.config = *config};
    harness_conclusions_init(&sampler->conclusions, mem);
    sampler->pages = ddp_mem_array(mem, n, sizeof(*sampler->pages));
    sampler->processes = ddp_mem_array(mem, n, sizeof(*sampler->processes));
    sampler->is_page_valid = ddp_mem_array(mem, n, sizeof(*sampler->is_page_valid));
    sampler->progress = ddp_mem_array(mem, n, sizeof(*sampler->progress));
    sampler->progress_ns = ddp_mem_array(mem, n, sizeof(*sampler->progress_ns));
    sampler->starved_ns = ddp_mem_array(mem, n, sizeof(*sampler->starved_ns));
    sampler->ranks = ddp_mem_array(mem, n, sizeof(*sampler->ranks));
    if (harness_regroup_init(&sampler->regroup, mem, config->plan, config->tables,
                             config->world_size) != DDP_OK ||
        sampler->pages == NULL || sampler->processes == NULL || sampler->is_page_valid == NULL ||
        sampler->progress == NULL || sampler->progress_ns == NULL || sampler->starved_ns == NULL ||
        sampler->ranks == NULL) {
        harness_sampler_fini(sampler);
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

void harness_sampler_fini(struct harness_sampler *sampler)
{
    struct ddp_mem *mem = sampler->config.mem;

    if (mem == NULL) {
        return;
    }
    harness_conclusions_fini(&sampler->conclusions);
    harness_regroup_fini(&sampler->regroup);
    ddp_mem_free(mem, sampler->pages);
    ddp_mem_free(mem, sampler->processes);
    ddp_mem_free(mem, sampler->is_page_valid);
    ddp_mem_free(mem, sampler->progress);
    ddp_mem_free(mem, sampler->progress_ns);
    ddp_mem_free(mem, sampler->starved_ns);
    ddp_mem_free(mem, sampler->ranks);
    *sampler = (struct harness_sampler){.pages = NULL};
}

static const struct ddp_page *shared_page(const struct harness_sampler *sampler, uint32_t rank)
{
    return sampler->config.source->recorder(sampler->config.source_context, rank);
}

/* Copy a page whose writer, which does not run, has left it half-written. */
static void copy_torn(const struct ddp_page *shared, struct ddp_page *out)
{
    const uint64_t *from = (const uint64_t *)(const void *)shared;
    uint64_t *to = (uint64_t *)(void *)out;

    for (size_t i = 0; i < sizeof(*shared) / sizeof(*from); i++) {
        to[i] = __atomic_load_n(&from[i], __ATOMIC_ACQUIRE);
    }
}

/* Copy a rank's page. False: it is being written just now, and the previous copy stays. */
static bool read_page(struct harness_sampler *sampler, uint32_t rank)
{
    const struct ddp_page *shared = shared_page(sampler, rank);
    struct ddp_page copy;

    if (__atomic_load_n(&shared->magic, __ATOMIC_ACQUIRE) != DDP_PAGE_MAGIC) {
        return true; /* not initialised yet */
    }
    if (!ddp_page_read(shared, &copy)) {
        if (sampler->processes[rank].state == HARNESS_PROCESS_RUNNING) {
            return false;
        }
        copy_torn(shared, &copy);
    }
    if (copy.change != sampler->pages[rank].change) {
        sampler->change_ns = sampler->now_ns;
    }
    sampler->pages[rank] = copy;
    sampler->is_page_valid[rank] = true;
    return true;
}

/* Copy a rank's progress words. False: they move just now, and the previous copy stays. */
static bool read_progress(struct harness_sampler *sampler, uint32_t rank)
{
    struct ddp_progress copy;

    DDP_ASSERT(sampler->is_page_valid[rank]);
    if (!ddp_progress_read(ddp_recorder_progress_of(shared_page(sampler, rank)), &copy)) {
        return false;
    }
    if (!ddp_progress_is_equal(&copy, &sampler->progress[rank])) {
        sampler->progress[rank] = copy;
        sampler->progress_ns[rank] = sampler->now_ns;
        sampler->change_ns = sampler->now_ns;
    }
    return true;
}

/* What the rank follows: the job's program, or that of the group that it went on with. NULL: it
 * says that it is in one, which is not followed. */
static const struct harness_program *program_of(const struct harness_sampler *sampler,
                                                uint32_t rank)
{
    const struct harness_regroup *regroup = &sampler->regroup;

    if (!harness_regroup_is_followed(regroup) || !regroup->has_come[rank]) {
        return sampler->config.program;
    }
    return regroup->is_open ? &regroup->program : NULL;
}

/* The number of a post that is not the program's: where the rank is in groups of some ranks, its
 * own next one may come before the number that it counted. */
static uint64_t due_seq(const struct harness_program *program, uint64_t last, uint32_t rank,
                        const struct harness_post *post)
{
    struct harness_post at_due = *post;
    bool is_other;

    if (program->group_count > 0 && last < post->seq) {
        at_due.seq = harness_program_next(program, last, rank);
    }
    is_other = at_due.seq < post->seq &&
               harness_program_compare_post(program, &at_due) != HARNESS_VERDICT_NONE;
    return is_other ? at_due.seq : post->seq;
}

static void note_post(struct harness_sampler *sampler, uint32_t rank,
                      const struct ddp_event_entry *entry)
{
    struct harness_sampler_rank *self = &sampler->ranks[rank];
    const struct harness_program *program = program_of(sampler, rank);
    struct harness_post post = {.seq = entry->arg[0],
                                .op = ddp_event_op_unpack(entry->arg[1]),
                                .elem_count = entry->arg[2],
                                .comm = entry->arg[3],
                                .is_waited =
                                    self->waited_seq != 0 && self->waited_seq == self->last_seq};

    if (program == NULL) {
        return;
    }
    post.step = harness_program_step_of(program, entry->phase, entry->step);
    if (harness_program_compare_post(program, &post) != HARNESS_VERDICT_NONE) {
        self->deviation.is_set = true;
        self->deviation.seq = due_seq(program, self->last_seq, rank, &post);
        self->deviation.packed_op = entry->arg[1];
        self->deviation.elem_count = entry->arg[2];
        self->deviation.comm = entry->arg[3];
        self->deviation.step = entry->step;
        self->deviation.phase = entry->phase;
        self->deviation.waited = post.is_waited;
    }
    self->last_seq = self->last_seq == UINT64_MAX ? UINT64_MAX : entry->arg[0];
}

/* Read a rank's ring up to the page's event count, until a post differs from the program; from then
 * on the copied page shows the rank as of that post. An overwritten entry is skipped: the trace
 * counts it as lost. */
static void read_posts(struct harness_sampler *sampler, uint32_t rank)
{
    struct harness_sampler_rank *self = &sampler->ranks[rank];
    struct ddp_page *page = &sampler->pages[rank];
    const struct ddp_event_entry *ring = ddp_recorder_ring(shared_page(sampler, rank));
    const bool is_followed = harness_regroup_is_followed(&sampler->regroup);
    struct ddp_event_entry entry;

    while (self->ring_read_count < page->event_count && (!self->deviation.is_set || is_followed)) {
        ddp_status status =
            ddp_ring_read(ring, sampler->config.ring_entry_count, ++self->ring_read_count, &entry);

        if (status != DDP_OK) {
            self->last_seq = UINT64_MAX;
        }
        if (status == DDP_OK && is_followed) {
            harness_regroup_note(&sampler->regroup, rank, &entry);
            self->deviation.is_set =
                self->deviation.is_set && entry.event != DDP_EVENT_GROUP_CHANGED;
        }
        if (status == DDP_OK && entry.event == DDP_EVENT_COLL_WAITED) {
            self->waited_seq = entry.arg[0];
        }
        if (status == DDP_OK && entry.event == DDP_EVENT_COLL_POST && !self->deviation.is_set) {
            note_post(sampler, rank, &entry);
        }
    }
    if (self->deviation.is_set) {
        page->seq_posted = self->deviation.seq;
        page->posted_op = self->deviation.packed_op;
        page->posted_count = self->deviation.elem_count;
        page->posted_comm = self->deviation.comm;
        page->posted_step = self->deviation.step;
        page->posted_phase = self->deviation.phase;
        page->posted_waited = self->deviation.waited;
    }
}

/* All that a rank shows. False: something of it moved meanwhile. */
static bool read_rank(struct harness_sampler *sampler, const struct harness_cut *cut, uint32_t rank)
{
    bool is_whole;

    if (sampler->ranks[rank].is_final) {
        return true;
    }
    is_whole = read_page(sampler, rank);
    if (sampler->is_page_valid[rank]) {
        is_whole = read_progress(sampler, rank) && is_whole;
        read_posts(sampler, rank);
    }
    sampler->ranks[rank].is_final = is_whole && harness_graph_is_gone(cut, rank);
    return is_whole;
}

/* Neither the rank's page nor its words have moved since they were copied. */
static bool is_unmoved(const struct harness_sampler *sampler, uint32_t rank)
{
    const struct ddp_page *shared;
    struct ddp_progress again;

    if (sampler->ranks[rank].is_final || !sampler->is_page_valid[rank]) {
        return true;
    }
    shared = shared_page(sampler, rank);
    return __atomic_load_n(&shared->change, __ATOMIC_ACQUIRE) == sampler->pages[rank].change &&
           ddp_progress_read(ddp_recorder_progress_of(shared), &again) &&
           ddp_progress_is_equal(&again, &sampler->progress[rank]);
}

static void read_process(struct harness_sampler *sampler, uint32_t rank)
{
    const struct harness_sampler_config *config = &sampler->config;

    sampler->processes[rank] = config->source->process(config->source_context, rank);
    DDP_ASSERT(!sampler->ranks[rank].is_final ||
               sampler->processes[rank].state == HARNESS_PROCESS_EXITED ||
               sampler->processes[rank].state == HARNESS_PROCESS_SIGNALED);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* For how much of its silence the rank is known to have waited by its own doing: from the beginning
 * of its last wait to the last time it looked and could not go on. It had a CPU for that look, and
 * would have had no use for one before. Of a rank that never waited both times are 0. */
static uint64_t own_wait_ns(const struct harness_sampler *sampler, uint32_t rank, uint64_t alive_ns)
{
    const struct ddp_idle_polls *polls = &sampler->pages[rank].polls;
    uint64_t from_ns = polls->started_ns > alive_ns ? polls->started_ns : alive_ns;
    uint64_t to_ns = smaller(polls->polled_ns, sampler->now_ns);

    return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* For how much of this rank's silence nothing was sampled: then the machine stood still, for the
 * rank as for the sampler, or the sampler had no CPU and the rank may not have had one either. */
static uint64_t paused_ns_of(struct harness_sampler *sampler, uint32_t rank, uint64_t alive_ns,
                             uint64_t age_ns)
{
    struct harness_sampler_rank *self = &sampler->ranks[rank];

    if (self->alive_ns != alive_ns) {
        self->alive_ns = alive_ns;
        self->paused_before_ns = sampler->paused_ns - smaller(sampler->last_pause_ns, age_ns);
    }
    DDP_ASSERT(self->paused_before_ns <= sampler->paused_ns);
    return sampler->paused_ns - self->paused_before_ns;
}

static void read_starved(struct harness_sampler *sampler, const struct harness_cut *cut,
                         uint32_t rank)
{
    const struct harness_sampler_config *config = &sampler->config;
    uint64_t alive_ns = harness_monitor_alive_ns(cut, rank);
    uint64_t age_ns = harness_graph_age_ns(cut, alive_ns);
    uint64_t starved_ns = 0;

    if (sampler->processes[rank].state == HARNESS_PROCESS_RUNNING) {
        starved_ns =
            config->source->starved_ns(config->source_context, rank, alive_ns, cut->now_ns);
        starved_ns = smaller(starved_ns, age_ns - own_wait_ns(sampler, rank, alive_ns));
    }
    sampler->starved_ns[rank] =
        smaller(starved_ns + paused_ns_of(sampler, rank, alive_ns, age_ns), age_ns);
}

/* Samples are taken every few milliseconds, unless nothing could run. */
static void note_pause(struct harness_sampler *sampler, uint64_t now_ns)
{
    uint64_t gap_ns = sampler->now_ns != 0 ? now_ns - sampler->now_ns : 0;

    sampler->last_pause_ns = gap_ns >= HARNESS_SAMPLER_PAUSE_NS ? gap_ns : 0;
    sampler->paused_ns += sampler->last_pause_ns;
}

/* *inout: the cut that the findings are about; *out_program: the program that goes with it. Of a
 * group that goes on, what it does; and who of the others has died, which may be seen late. */
static void analyse(struct harness_sampler *sampler, struct harness_cut *inout,
                    const struct harness_plan **out_plan,
                    const struct harness_program **out_program, struct harness_findings *findings)
{
    const struct harness_sampler_config *config = &sampler->config;
    struct harness_regroup *regroup = &sampler->regroup;

    *out_plan = config->plan;
    *out_program = config->program;
    inout->program = config->program;
    if (regroup->is_open) {
        const struct harness_cut lost = harness_regroup_lost(regroup, inout);

        harness_monitor_analyse_ends(config->plan, config->program, &lost, findings);
        *inout = harness_regroup_cut(regroup, inout);
        *out_plan = &regroup->plan;
        *out_program = &regroup->program;
        inout->program = &regroup->program;
    }
    harness_monitor_analyse(*out_plan, *out_program, inout, findings);
    sampler->conclusions.is_failed |= regroup->is_failed;
}

static void conclude(struct harness_sampler *sampler, const struct harness_cut *whole)
{
    const struct harness_sampler_config *config = &sampler->config;
    struct harness_cut seen = *whole;
    const struct harness_cut *cut = &seen;
    const struct harness_plan *plan;
    const struct harness_program *program;
    struct harness_findings findings;
    struct ddp_mem_pool *pool; /* of this cut's sets */

    if (ddp_mem_pool_create(&pool) != DDP_OK) {
        sampler->conclusions.is_failed = true;
        return;
    }
    harness_findings_init(&findings, ddp_mem_pool_mem(pool));
    analyse(sampler, &seen, &plan, &program, &findings);
    harness_conclusions_note(&sampler->conclusions, &findings, cut->now_ns);
    sampler->conclusions.is_failed |= findings.is_failed;
    ddp_mem_pool_destroy(pool);
    /* After the reports, which must not wait for it. */
    if (config->snapshot != NULL) {
        harness_wait_snapshot_take(config->snapshot, plan, program, cut, &sampler->conclusions);
    }
}

void harness_sampler_take(struct harness_sampler *sampler, uint64_t now_ns, bool is_settled)
{
    uint32_t world_size = sampler->config.world_size;
    bool is_starving = sampler->config.source->starved_ns != NULL;
    struct harness_cut cut = {.world_size = world_size,
                              .now_ns = now_ns,
                              .pages = sampler->pages,
                              .processes = sampler->processes,
                              .is_page_valid = sampler->is_page_valid,
                              .progress = sampler->progress,
                              .progress_ns = sampler->progress_ns,
                              .starved_ns = is_starving ? sampler->starved_ns : NULL,
                              .is_stable = is_settled};

    DDP_ASSERT(now_ns >= sampler->now_ns);
    note_pause(sampler, now_ns);
    sampler->now_ns = now_ns;
    for (uint32_t r = 0; r < world_size; r++) {
        read_process(sampler, r);
    }
    for (uint32_t r = 0; r < world_size; r++) {
        cut.is_stable = read_rank(sampler, &cut, r) && cut.is_stable;
    }
    for (uint32_t r = 0; r < world_size && cut.is_stable; r++) {
        cut.is_stable = is_unmoved(sampler, r);
    }
    for (uint32_t r = 0; r < world_size && is_starving; r++) {
        read_starved(sampler, &cut, r);
    }
    cut.change_ns = sampler->change_ns;
    /* What a rank writes is not asserted: it may write anything. */
    DDP_ASSERT(cut.change_ns <= now_ns && (is_settled || !cut.is_stable));
    conclude(sampler, &cut);
}

bool harness_sampler_is_open(const struct harness_sampler *sampler)
{
    const struct harness_cut cut = {.world_size = sampler->config.world_size,
                                    .now_ns = sampler->now_ns,
                                    .pages = sampler->pages,
                                    .processes = sampler->processes,
                                    .program = sampler->config.program,
                                    .is_page_valid = sampler->is_page_valid};

    for (uint32_t r = 0; r < cut.world_size; r++) {
        if (harness_graph_is_live(&cut, r) && !harness_graph_is_waiting(&cut, r) &&
            !harness_conclusions_is_named(&sampler->conclusions, r)) {
            return true;
        }
    }
    return false;
}
