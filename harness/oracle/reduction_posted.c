/* Purpose: what went into and came out of the collectives that a job posts beside those of the DDP
 * core (job.posts).
 * Idea: what goes in the plan says. Where it went in so on every rank, what comes out follows: data
 * that only move, and sums of whole numbers, maxima and minima, in any order; floats by running the
 * dumped schedules. A collective of which ranks posted different ones is not judged: that they did
 * is a finding already. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/oracle/subject.h"
#include "harness/plan/posted.h"
#include "harness/sums/arith.h"

struct posted_job {
    const struct harness_emulation *e;
    const struct harness_op *op;
    struct harness_posted posted;
    struct harness_members members;
    uint32_t size;                          /* of members; those are what is counted below */
    size_t elem_bytes, in_count, out_count; /* elements of a rank */
    uint8_t **input, **output;              /* [size] */
    uint64_t salt;
};

static const struct ddp_event_entry *entry_of(const struct posted_job *job, uint32_t member,
                                              enum ddp_event event)
{
    const struct harness_trace_event *found = harness_index_with_seq(
        &job->e->index, harness_members_rank(&job->members, member), event, job->op->seq);

    return found != NULL ? &found->entry : NULL;
}

/* The hash that a member recorded with it; 0: none. */
static uint64_t recorded_hash(const struct posted_job *job, uint32_t rank, enum ddp_event event)
{
    const struct ddp_event_entry *entry = entry_of(job, rank, event);

    return entry == NULL ? 0 : event == DDP_EVENT_COLL_TAKEN ? entry->arg[1] : entry->arg[4];
}

/* Every member posted and completed just this one, in its group. */
static bool is_met(const struct posted_job *job)
{
    for (uint32_t r = 0; r < job->size; r++) {
        const struct ddp_event_entry *post = entry_of(job, r, DDP_EVENT_COLL_POST);
        const struct ddp_event_entry *done = entry_of(job, r, DDP_EVENT_COLL_DONE);
        struct ddp_event_op op;

        if (post == NULL || done == NULL || harness_index_status(done->arg[3]) != DDP_OK) {
            return false;
        }
        op = ddp_event_op_unpack(post->arg[1]);
        if (op.kind != job->op->kind || op.redop != job->op->redop || op.dtype != job->op->dtype ||
            op.role != DDP_ROLE_USER || op.index != job->op->index || op.root != job->op->root ||
            post->arg[2] != job->op->elem_count ||
            harness_program_is_comm_wrong(job->e->input->program, job->op->seq, post->arg[3])) {
            return false;
        }
    }
    return true;
}

static uint64_t hash_of(const struct posted_job *job, const void *data, size_t count)
{
    return count == 0 ? 0 : ddp_hash_tensor(data, count * job->elem_bytes, job->salt, NULL);
}

static void combine_wholes(const struct posted_job *job, uint8_t *target, const uint8_t *source,
                           size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t a, b;
        int32_t a32, b32;

        if (job->posted.dtype == DDP_DTYPE_I64) {
            memcpy(&a, target + 8 * i, 8);
            memcpy(&b, source + 8 * i, 8);
        } else {
            memcpy(&a32, target + 4 * i, 4);
            memcpy(&b32, source + 4 * i, 4);
            a = a32;
            b = b32;
        }
        switch (job->posted.redop) {
        case DDP_REDOP_MAX:
            a = a > b ? a : b;
            break;
        case DDP_REDOP_MIN:
            a = a < b ? a : b;
            break;
        default:
            a += b;
            break;
        }
        a32 = (int32_t)a;
        memcpy(target + (size_t)job->elem_bytes * i,
               job->posted.dtype == DDP_DTYPE_I64 ? (const void *)&a : (const void *)&a32,
               job->elem_bytes);
    }
}

/* Finite floats, none of them zero: the greater one is one of the two, bit for bit. */
static void choose_floats(const struct posted_job *job, uint8_t *target, const uint8_t *source,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double a, b;

        harness_arith_widen(&a, target + i * job->elem_bytes, job->posted.dtype, 1);
        harness_arith_widen(&b, source + i * job->elem_bytes, job->posted.dtype, 1);
        if (job->posted.redop == DDP_REDOP_MAX ? b > a : b < a) {
            memcpy(target + i * job->elem_bytes, source + i * job->elem_bytes, job->elem_bytes);
        }
    }
}

/* Elements first ... of all ranks' inputs, combined. */
static void combine_all(const struct posted_job *job, size_t first, size_t count, uint8_t *target)
{
    bool is_whole = job->posted.dtype == DDP_DTYPE_I32 || job->posted.dtype == DDP_DTYPE_I64;

    memcpy(target, job->input[0] + first * job->elem_bytes, count * job->elem_bytes);
    for (uint32_t r = 1; r < job->size; r++) {
        const uint8_t *source = job->input[r] + first * job->elem_bytes;

        if (is_whole) {
            combine_wholes(job, target, source, count);
        } else {
            choose_floats(job, target, source, count);
        }
    }
}

/* What does not depend on the order in which it is added. */
static void expect_rank(const struct posted_job *job, uint32_t rank)
{
    const size_t count = job->op->elem_count;
    const size_t block_bytes = count * job->elem_bytes;
    uint8_t *out = job->output[rank];

    switch (job->op->kind) {
    case DDP_COLL_BROADCAST:
        memcpy(out, job->input[job->op->root], block_bytes);
        break;
    case DDP_COLL_ALL_GATHER:
    case DDP_COLL_ALL_TO_ALL:
        for (uint32_t r = 0; r < job->size; r++) {
            const size_t from = job->op->kind == DDP_COLL_ALL_TO_ALL ? rank * block_bytes : 0;

            memcpy(out + r * block_bytes, job->input[r] + from, block_bytes);
        }
        break;
    case DDP_COLL_REDUCE_SCATTER:
        combine_all(job, rank * count, count, out);
        break;
    case DDP_COLL_ALL_REDUCE:
    case DDP_COLL_REDUCE:
        combine_all(job, 0, count, out);
        break;
    default:
        break;
    }
}

/* In place a rank's sum was made in its block of what went in: to the front with it. */
static void take_blocks(const struct posted_job *job, const struct harness_schedule_set *set)
{
    for (uint32_t r = 0; r < job->size; r++) {
        const struct harness_span sum = harness_schedule_output(set->member[r]);

        memmove(job->output[r], job->output[r] + sum.first * job->elem_bytes,
                sum.elem_count * job->elem_bytes);
    }
}

/* *out_known: the outputs are filled in. */
static ddp_status expect_all(const struct posted_job *job, bool *out_known)
{
    bool is_whole = job->posted.dtype == DDP_DTYPE_I32 || job->posted.dtype == DDP_DTYPE_I64;
    struct harness_schedule_set *set;
    const char *name = NULL;

    *out_known = true;
    if (!ddp_coll_kind_is_sum(job->op->kind) || is_whole || job->posted.redop != DDP_REDOP_SUM) {
        for (uint32_t r = 0; r < job->size; r++) {
            expect_rank(job, r);
        }
        return DDP_OK;
    }
    set = harness_schedules_find(&job->e->schedules, job->size, job->op->kind, name,
                                 job->op->elem_count, job->op->dtype, job->op->root);
    *out_known = set != NULL && set->is_ordered;
    if (*out_known) {
        const ddp_status status =
            harness_schedule_set_run(set, (void *const *)job->input, (void *const *)job->output);

        *out_known = status == DDP_OK;
        if (*out_known) {
            take_blocks(job, set);
        }
        /* Schedules that do not fit each other: the schedule oracle says so. */
        return status == DDP_E_INVALID ? DDP_OK : status;
    }
    return DDP_OK;
}

static void report(const struct posted_job *job, const struct harness_rank_set *ranks,
                   const char *what, struct harness_findings *out)
{
    struct harness_finding finding;
    char text[96];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE);
    finding.culprits = *ranks;
    finding.step = job->op->step;
    finding.phase = (int32_t)job->op->phase;
    finding.op = (struct harness_finding_op){
        true, job->op->seq, job->op->kind, job->op->role, -1, job->op->elem_count, job->op->index};
    (void)snprintf(finding.guest.comm, sizeof finding.guest.comm, "%s",
                   job->members.group != NULL ? job->members.group->name : "");
    (void)snprintf(finding.text, sizeof finding.text,
                   "%s: collective %llu of step %d (%s %s %llu, number %u of "
                   "job.posts) on %s",
                   what, (unsigned long long)job->op->seq, job->op->step,
                   ddp_coll_kind_name(job->op->kind), ddp_dtype_name(job->op->dtype),
                   (unsigned long long)job->op->elem_count, job->op->index,
                   harness_subject_ranks_text(ranks, text, sizeof text));
    harness_findings_add(out, &finding);
}

static size_t out_count_of(const struct posted_job *job, uint32_t rank)
{
    return job->op->elem_count *
           ddp_coll_output_blocks(job->op->kind, job->size, rank == job->op->root);
}

static ddp_status judge(const struct posted_job *job, struct harness_findings *out)
{
    struct harness_rank_set wrong = harness_rank_set_in(out->mem);
    bool is_known = false;

    for (uint32_t r = 0; r < job->size; r++) {
        bool is_sender = job->op->kind != DDP_COLL_BROADCAST || r == job->op->root;
        uint64_t got = recorded_hash(job, r, DDP_EVENT_COLL_POST);

        harness_posted_fill(&job->posted, job->e->input->plan->job.seed, (uint32_t)job->op->step,
                            job->op->index, harness_members_rank(&job->members, r), job->in_count,
                            job->input[r]);
        if (is_sender && got != hash_of(job, job->input[r], job->in_count)) {
            harness_rank_set_add(&wrong, harness_members_rank(&job->members, r));
        }
    }
    if (!harness_rank_set_is_empty(&wrong)) {
        report(job, &wrong, "what went in is not what the plan says", out);
        return DDP_OK;
    }
    DDP_TRY(expect_all(job, &is_known));
    for (uint32_t r = 0; is_known && r < job->size; r++) {
        uint64_t got = recorded_hash(job, r, DDP_EVENT_COLL_DONE);

        if (got != hash_of(job, job->output[r], out_count_of(job, r))) {
            harness_rank_set_add(&wrong, harness_members_rank(&job->members, r));
        }
    }
    if (!harness_rank_set_is_empty(&wrong)) {
        report(job, &wrong, "what came out does not follow from what went in", out);
        return DDP_OK;
    }
    /* It came out right, and was then changed. Whoever has recorded nothing of it may have ended.
     */
    for (uint32_t r = 0; is_known && r < job->size; r++) {
        if (entry_of(job, r, DDP_EVENT_COLL_TAKEN) != NULL &&
            recorded_hash(job, r, DDP_EVENT_COLL_TAKEN) !=
                hash_of(job, job->output[r], out_count_of(job, r))) {
            harness_rank_set_add(&wrong, harness_members_rank(&job->members, r));
        }
    }
    if (!harness_rank_set_is_empty(&wrong)) {
        report(job, &wrong, "what came out was changed before it was used", out);
    }
    return DDP_OK;
}

static ddp_status check_one(const struct harness_emulation *e, const struct harness_op *op,
                            struct harness_findings *out, struct ddp_err *err)
{
    const struct harness_members members = harness_emulation_planned(e, op);
    struct posted_job job = {.e = e, .op = op, .members = members, .size = members.size};
    ddp_status status = DDP_OK;
    char salt[64];

    DDP_TRY(harness_posted_parse(e->input->plan->job.posts.items[op->index], &job.posted, err));
    if (op->kind == DDP_COLL_BARRIER || op->elem_count == 0 || !is_met(&job)) {
        return DDP_OK;
    }
    (void)snprintf(salt, sizeof salt, "%s/%u", ddp_coll_role_name(op->role), op->index);
    job.salt = ddp_hash_text(salt);
    job.elem_bytes = ddp_dtype_size_bytes(op->dtype);
    job.in_count = op->elem_count * ddp_coll_input_blocks(op->kind, job.size);
    job.out_count = op->elem_count * ddp_coll_output_blocks(op->kind, job.size, true);
    job.input = ddp_mem_array(e->mem, job.size, sizeof *job.input);
    job.output = ddp_mem_array(e->mem, job.size, sizeof *job.output);
    for (uint32_t r = 0; job.input != NULL && job.output != NULL && r < job.size; r++) {
        job.input[r] = ddp_mem_array(e->mem, job.in_count, job.elem_bytes);
        /* In place as long as the longer one. */
        job.output[r] = ddp_mem_array(
            e->mem, job.in_count > job.out_count ? job.in_count : job.out_count, job.elem_bytes);
        status = job.input[r] == NULL || job.output[r] == NULL ? DDP_E_NOMEM : status;
    }
    status = job.input == NULL || job.output == NULL ? DDP_E_NOMEM : status;
    if (status == DDP_OK) {
        status = judge(&job, out);
    }
    for (uint32_t r = 0; job.input != NULL && job.output != NULL && r < job.size; r++) {
        ddp_mem_free(e->mem, job.input[r]);
        ddp_mem_free(e->mem, job.output[r]);
    }
    ddp_mem_free(e->mem, job.input);
    ddp_mem_free(e->mem, job.output);
    return status;
}

ddp_status harness_reduction_check_posted(const struct harness_emulation *e,
                                          struct harness_findings *out, struct ddp_err *err)
{
    for (size_t i = 0; e->is_hashed && i < e->input->program->op_count; i++) {
        const struct harness_op *op = &e->input->program->ops[i];

        if (op->role == DDP_ROLE_USER && op->step >= (int32_t)e->start_step) {
            DDP_TRY(check_one(e, op, out, err));
        }
    }
    return DDP_OK;
}
