/* Purpose: find device work whose order no stream or event proves, on every rank that recorded any.
 * Idea: the same work in the same step of several ranks is one finding. What a collective did to
 * memory must have been recorded; otherwise its order is not proved. Where all work is the host's,
 * one order is left to prove: a reduced bucket is used after the rank has seen it completed. */
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"
#include "harness/order/order.h"

struct order_search {
    const struct harness_emulation *e;
    const struct harness_trace_event **events; /* by rank, in each rank's order */
    size_t *first;                             /* [world + 1] */
    struct harness_findings *out;
};

/* One counting pass; the trace is sorted by time, and a rank's own order is part of that. */
static ddp_status sort_by_rank(struct order_search *search)
{
    const struct harness_trace *trace = search->e->input->trace;
    size_t *next;

    search->events = ddp_mem_array(search->e->mem, trace->event_count, sizeof(*search->events));
    search->first = ddp_mem_array(search->e->mem, search->e->world + 1, sizeof(size_t));
    next = ddp_mem_array(search->e->mem, search->e->world + 1, sizeof(size_t));
    if (search->events == NULL || search->first == NULL || next == NULL) {
        ddp_mem_free(search->e->mem, next);
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].rank < search->e->world) {
            search->first[trace->events[i].rank + 1]++;
        }
    }
    for (uint32_t r = 0; r < search->e->world; r++) {
        search->first[r + 1] += search->first[r];
        next[r] = search->first[r];
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (trace->events[i].rank < search->e->world) {
            search->events[next[trace->events[i].rank]++] = &trace->events[i];
        }
    }
    ddp_mem_free(search->e->mem, next);
    return DDP_OK;
}

/* The same words of the same place, on another rank: words name the memory, and who uses it. */
static struct harness_finding *find_same(const struct order_search *search,
                                         const struct harness_finding *finding)
{
    for (size_t i = 0; i < search->out->count; i++) {
        struct harness_finding *other = &search->out->items[i];

        if (other->step == finding->step && other->micro == finding->micro &&
            other->phase == finding->phase && strcmp(other->text, finding->text) == 0) {
            return other;
        }
    }
    return NULL;
}

/* The bucket that is concerned; else another collective that takes part in this. */
static void set_operation(const struct order_search *search, uint32_t rank,
                          const struct harness_disorder *disorder, struct harness_finding *finding)
{
    const struct harness_trace_event *post = NULL;
    const int32_t step = finding->step;
    const int32_t phase = finding->phase;

    if (disorder->bucket >= 0) {
        harness_subject_set_bucket(search->e, (uint32_t)disorder->bucket, finding);
        finding->op.seq = disorder->seq;
        return;
    }
    if (disorder->seq != 0) {
        post = harness_index_with_seq(&search->e->index, rank, DDP_EVENT_COLL_POST, disorder->seq);
    }
    if (post != NULL) {
        harness_subject_set_posted(search->e, post, finding);
        finding->step = step;
        finding->phase = phase;
    }
}

static void add(const struct order_search *search, uint32_t rank,
                const struct harness_disorder *disorder)
{
    struct harness_finding finding;
    struct harness_finding *same;

    harness_finding_init(&finding, search->out->mem, HARNESS_VERDICT_USAGE_UNORDERED,
                         HARNESS_ORACLE_HAPPENS_BEFORE, HARNESS_MODE_PROVABLE);
    finding.step = (int32_t)disorder->step;
    finding.micro = disorder->micro;
    finding.phase = disorder->phase;
    set_operation(search, rank, disorder, &finding);
    if (disorder->param >= 0 && (size_t)disorder->param < search->e->params.count) {
        harness_finding_add_param(&finding, (uint32_t)disorder->param);
    }
    (void)snprintf(finding.text, sizeof(finding.text), "%s", disorder->text);
    same = find_same(search, &finding);
    if (same != NULL) {
        harness_rank_set_add(&same->culprits, rank);
        return;
    }
    harness_rank_set_add(&finding.culprits, rank);
    harness_findings_add(search->out, &finding);
}

/* Whether the accesses of collectives must have been recorded: a group of one rank reduces nothing,
 * and engines without streams of their own record none. */
static bool is_access_due(const struct order_search *search,
                          const struct harness_order_facts *facts)
{
    enum harness_engine engine = search->e->input->plan->job.collective.engine;

    return search->e->world > 1 && (facts->is_coll_recorded ||
                                    harness_engine_traits(engine)->device == HARNESS_DEVICE_CUDA);
}

/* A reduction that the rank completed and hashed; NULL: none. A rank that records hashes records
 * its device as well. */
static const struct harness_trace_event *find_reduction(const struct order_search *search,
                                                        uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&search->e->index, rank, DDP_EVENT_COLL_DONE, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        if (ddp_event_op_unpack(arg[1]).role == DDP_ROLE_BUCKET && arg[4] != 0 &&
            harness_index_status(arg[3]) == DDP_OK) {
            return list[i];
        }
    }
    return NULL;
}

static void lose(const struct order_search *search, uint32_t rank, uint32_t bucket, uint64_t seq)
{
    search->out->is_evidence_lost = true;
    (void)snprintf(search->out->lost_text, sizeof(search->out->lost_text),
                   "rank %u reduced bucket %u (seq %llu) and recorded no access to it", rank,
                   bucket, (unsigned long long)seq);
}

static void check_unrecorded(const struct order_search *search, uint32_t rank)
{
    const struct harness_trace_event *done =
        search->e->world > 1 && harness_plan_is_cuda(search->e->input->plan)
            ? find_reduction(search, rank)
            : NULL;

    if (done != NULL) {
        lose(search, rank, ddp_event_op_unpack(done->entry.arg[1]).index, done->entry.arg[0]);
    }
}

/* The rank used a gradient of the bucket in the step of `post`, after `post` and before it had
 * waited (NULL: never). grad.final: param. */
static bool is_used_between(const struct order_search *search,
                            const struct harness_trace_event *post,
                            const struct harness_trace_event *waited)
{
    const struct harness_emulation *e = search->e;
    const uint32_t bucket = ddp_event_op_unpack(post->entry.arg[1]).index;
    const uint32_t *bucket_of =
        harness_emulation_bucketing(e, (int32_t)post->entry.step)->bucket_of;
    size_t count = 0;
    const struct harness_trace_event *const *list = harness_index_in_step(
        &e->index, post->rank, DDP_EVENT_GRAD_FINAL, post->entry.step, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_entry *entry = &list[i]->entry;

        if (entry->arg[0] < e->params.count && bucket_of[entry->arg[0]] == bucket &&
            entry->index > post->entry.index &&
            (waited == NULL || entry->index < waited->entry.index)) {
            return true;
        }
    }
    return false;
}

/* The rank posted the bucket once more in that step: an extra operation, for which nobody waits. */
static bool is_posted_again(const struct harness_trace_event *const *posts, size_t count, size_t at)
{
    const struct ddp_event_op op = ddp_event_op_unpack(posts[at]->entry.arg[1]);

    for (size_t i = at + 1; i < count && posts[i]->entry.step == posts[at]->entry.step; i++) {
        const struct ddp_event_op later = ddp_event_op_unpack(posts[i]->entry.arg[1]);

        if (later.role == op.role && later.index == op.index) {
            return true;
        }
    }
    return false;
}

/* Reduced buckets that a rank used without having waited for them. */
static void check_waits(const struct order_search *search, uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *posts =
        harness_index_list(&search->e->index, rank, DDP_EVENT_COLL_POST, &count);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_event_op op = ddp_event_op_unpack(posts[i]->entry.arg[1]);
        const struct harness_trace_event *waited = harness_index_with_seq(
            &search->e->index, rank, DDP_EVENT_COLL_WAITED, posts[i]->entry.arg[0]);
        struct harness_disorder disorder = {.is_set = true,
                                            .step = posts[i]->entry.step,
                                            .micro = posts[i]->entry.micro,
                                            .phase = posts[i]->entry.phase,
                                            .bucket = (int32_t)op.index,
                                            .param = -1,
                                            .seq = posts[i]->entry.arg[0]};

        if (op.role == DDP_ROLE_BUCKET &&
            op.index <
                harness_program_buckets(search->e->input->program, (int32_t)posts[i]->entry.step)
                    ->count &&
            !is_posted_again(posts, count, i) && is_used_between(search, posts[i], waited)) {
            (void)snprintf(
                disorder.text, sizeof(disorder.text),
                "bucket %u was copied back and nothing had waited for its all_reduce (seq "
                "%llu)",
                op.index, (unsigned long long)disorder.seq);
            add(search, rank, &disorder);
        }
    }
}

static ddp_status check_rank(const struct order_search *search, uint32_t rank, struct ddp_err *err)
{
    struct harness_order_facts facts;
    size_t count = 0;

    (void)harness_index_list(&search->e->index, rank, DDP_EVENT_DEVICE_ACCESS, &count);
    if (!harness_plan_is_cuda(search->e->input->plan)) {
        check_waits(search, rank);
    }
    if (count == 0) {
        check_unrecorded(search, rank);
        return DDP_OK;
    }
    DDP_TRY(harness_order_check(
        search->events + search->first[rank], search->first[rank + 1] - search->first[rank],
        search->e->input->params, search->e->params.count, search->e->mem, &facts, err));
    if (facts.disorder.is_set) {
        add(search, rank, &facts.disorder);
    } else if (facts.is_reduction_unseen && is_access_due(search, &facts)) {
        lose(search, rank, facts.unseen_bucket, facts.unseen_seq);
    }
    return DDP_OK;
}

ddp_status harness_check_happens_before(const struct harness_emulation *e,
                                        struct harness_findings *out, struct ddp_err *err)
{
    struct order_search search = {.e = e, .out = out};
    ddp_status status;

    /* If events were lost, ordered work may look unordered; the run is inconclusive anyway. */
    if (e->input->trace->lost_count > 0) {
        return DDP_OK;
    }
    status = sort_by_rank(&search);
    for (uint32_t r = 0; status == DDP_OK && r < e->world; r++) {
        status = check_rank(&search, r, err);
    }
    ddp_mem_free(e->mem, search.events);
    ddp_mem_free(e->mem, search.first);
    return status;
}
