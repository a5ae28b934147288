/* What a rank records, with the phases that it enters. */
#include <string.h>

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

    oracle_job_add_event(job, rank, DDP_EVENT_RANK_BEGIN, 0, arg);
    for (size_t p = 0; p < job->param_count; p++) {
        uint64_t shape[5] = {p};

        for (uint32_t k = 0; k < job->params[p].ndim && k < 4; k++) {
            shape[k + 1] = job->params[p].shape[k];
        }
        oracle_job_add_event(job, rank, DDP_EVENT_PARAM_SHAPE, 0, shape);
    }
    for (size_t b = 0; b < job->program.bucket_count; b++) {
        const struct harness_bucket *bucket = &job->program.buckets[b];

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            const uint64_t place[5] = {b, bucket->params[i], bucket->offsets[i],
                                       job->params[bucket->params[i]].elem_count, 0};

            oracle_job_add_event(job, rank, DDP_EVENT_BUCKET_PARAM, 0, place);
        }
    }
}
