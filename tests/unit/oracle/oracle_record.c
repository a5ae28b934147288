/* What a rank records, with the phases that it enters. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/seam/option.h"
#include "harness/plan/bucket.h"
#include "tests/unit/oracle/oracle_job.h"

/* The rank's last event, or NULL. */
static struct harness_trace_event *last_of(struct oracle_job *job, uint32_t rank)
{
    for (size_t i = job->trace.event_count; i > 0; i--) {
        if (job->trace.events[i - 1].rank == rank) {
            return &job->trace.events[i - 1];
        }
    }
    return NULL;
}

static void swap_records(struct ddp_event_entry *a, struct ddp_event_entry *b)
{
    struct ddp_event_entry was = *a;

    *a = *b;
    a->index = was.index;
    a->time_ns = was.time_ns;
    was.index = b->index;
    was.time_ns = b->time_ns;
    *b = was;
}

/* Behind the rank's last event, but before its end. */
static void append(struct oracle_job *job, uint32_t rank, enum ddp_event event, uint32_t step,
                   const uint64_t arg[5])
{
    struct harness_trace *trace = &job->trace;
    struct harness_trace_event *last = last_of(job, rank);
    struct harness_trace_event *added;

    DDP_ASSERT(trace->event_count < trace->event_capacity);
    added = &trace->events[trace->event_count++];
    added->rank = rank;
    added->entry = (struct ddp_event_entry){.index = ++trace->ends[rank].event_count,
                                            .time_ns = trace->event_count,
                                            .step = step,
                                            .phase = (uint8_t)job->phase[rank],
                                            .event = (uint8_t)event};
    memcpy(added->entry.arg, arg, sizeof(added->entry.arg));
    if (last != NULL && last->entry.event == DDP_EVENT_RANK_END) {
        swap_records(&last->entry, &added->entry);
    }
}

void oracle_job_enter(struct oracle_job *job, uint32_t rank, uint32_t step, enum ddp_phase phase)
{
    const uint64_t arg[5] = {(uint64_t)phase, 0, 0, 0, 0};

    if (job->phase[rank] != phase) {
        job->phase[rank] = phase;
        append(job, rank, DDP_EVENT_PHASE, step, arg);
    }
}

/* The phase in which a rank records an event; of others: whichever it is in. */
static enum ddp_phase phase_of(const struct oracle_job *job, uint32_t rank, enum ddp_event event)
{
    switch (event) {
    case DDP_EVENT_DATA_BATCH:
    case DDP_EVENT_DATA_SAMPLE:
        return DDP_PHASE_DATA;
    case DDP_EVENT_LOSS:
        return DDP_PHASE_LOSS;
    case DDP_EVENT_GRAD_READY:
        return DDP_PHASE_BACKWARD;
    case DDP_EVENT_PARAM_UPDATED:
    case DDP_EVENT_OPTIMIZER_STATE:
        return DDP_PHASE_OPTIMIZER;
    default:
        return job->phase[rank];
    }
}

void oracle_job_add_event(struct oracle_job *job, uint32_t rank, enum ddp_event event,
                          uint32_t step, const uint64_t arg[5])
{
    oracle_job_enter(job, rank, step, phase_of(job, rank, event));
    append(job, rank, event, step, arg);
}

void oracle_job_begin(struct oracle_job *job, uint32_t rank)
{
    const uint64_t arg[5] = {0, ORACLE_JOB_RANKS, job->program.hash, 0, 0};

    const uint64_t told[5] = {rank, ORACLE_JOB_RANKS, 0, 0, 0};
    const uint64_t nothing[5] = {0};
    size_t caps[2];

    harness_bucket_caps(&job->plan.job, &caps[1], &caps[0]);
    const uint64_t config[5] = {
        caps[0], caps[1],
        (uint64_t)(job->plan.job.semantics == HARNESS_SEMANTICS_PYTORCH) << DDP_OPTION_SEMANTICS |
            (uint64_t)(job->plan.job.bucket_order == HARNESS_BUCKET_ORDER_PYTORCH)
                << DDP_OPTION_BUCKET_ORDER |
            (uint64_t)job->plan.job.broadcast_buffers << DDP_OPTION_BROADCAST_BUFFERS |
            (uint64_t)job->plan.job.find_unused_parameters << DDP_OPTION_FIND_UNUSED,
        0, 0};

    oracle_job_add_event(job, rank, DDP_EVENT_RANK_BEGIN, 0, arg);
    oracle_job_add_event(job, rank, DDP_EVENT_RANK_HOLDS, 0, nothing);
    oracle_job_enter(job, rank, 0, DDP_PHASE_RENDEZVOUS);
    oracle_job_add_event(job, rank, DDP_EVENT_RANK_TOLD, 0, told);
    oracle_job_add_event(job, rank, DDP_EVENT_DDP_CONFIG, 0, config);
    for (size_t p = 0; p < job->param_count; p++) {
        uint64_t shape[5] = {p};

        for (uint32_t k = 0; k < job->params[p].ndim && k < 4; k++) {
            shape[k + 1] = job->params[p].shape[k];
        }
        oracle_job_add_event(job, rank, DDP_EVENT_PARAM_SHAPE, 0, shape);
    }
    for (size_t b = 0; b < job->program.first.count; b++) {
        const struct harness_bucket *bucket = &job->program.first.items[b];

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            const uint64_t place[5] = {b, bucket->params[i], bucket->offsets[i],
                                       job->params[bucket->params[i]].elem_count, 0};

            oracle_job_add_event(job, rank, DDP_EVENT_BUCKET_PARAM, 0, place);
        }
    }
}

/* Of one rank: a broadcast has one, everything else one there and one back. */
static uint64_t message_count(const struct oracle_job *job)
{
    uint64_t count = 0;

    for (size_t i = 0; i < job->program.op_count; i++) {
        count += job->program.ops[i].kind == DDP_COLL_BROADCAST ? 1 : 2;
    }
    return count;
}

void oracle_job_end(struct oracle_job *job, uint32_t rank)
{
    const uint64_t end[5] = {(uint64_t)DDP_OK, ORACLE_JOB_STEPS, message_count(job), 0, 0};

    oracle_job_add_event(job, rank, DDP_EVENT_RANK_END, ORACLE_JOB_STEPS, end);
}

void oracle_job_write_schedule(const struct oracle_job *job, const struct harness_op *op)
{
    const size_t count = op->elem_count;
    char path[256];

    for (unsigned r = 0; op->role != DDP_ROLE_BUCKET && r < ORACLE_JOB_RANKS; r++) {
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/schedules/%s.own.n%zu.%s.root%u.r%u.txt",
                       job->run_dir, ddp_coll_kind_name(op->kind), count, ddp_dtype_name(op->dtype),
                       op->root, r);
        file = fopen(path, "w");
        DDP_ASSERT(file != NULL);
        (void)fprintf(file,
                      "schedule 1 kind=%s algorithm=own rank=%u size=2 count=%zu dtype=%s root=%u "
                      "in_place=%d\n",
                      ddp_coll_kind_name(op->kind), r, count, ddp_dtype_name(op->dtype), op->root,
                      op->kind != DDP_COLL_ALL_GATHER);
        if (op->kind == DDP_COLL_ALL_GATHER) {
            (void)fprintf(file,
                          "0 round=0 copy dst=out:%zu+%zu src=in:0+%zu deps=\n"
                          "1 round=0 send peer=%u src=in:0+%zu deps=\n"
                          "2 round=0 recv peer=%u dst=out:%zu+%zu deps=\n",
                          r * count, count, count, 1 - r, count, 1 - r, (1 - r) * count, count);
        } else if (op->kind == DDP_COLL_BROADCAST) {
            (void)fprintf(file, "0 round=0 %s peer=%u %s=out:0+%zu deps=\n",
                          r == op->root ? "send" : "recv", 1 - r, r == op->root ? "src" : "dst",
                          count);
        } else {
            (void)fprintf(file,
                          "scratch 0 dtype=u8 count=1\nscratch 1 dtype=u8 count=32\n"
                          "0 round=0 send peer=%u src=s0:0+1 deps=\n"
                          "1 round=0 recv peer=%u dst=s1:0+1 deps=\n",
                          1 - r, 1 - r);
        }
        (void)fputs("end\n", file);
        (void)fclose(file);
    }
}
