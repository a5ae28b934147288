/* Purpose: what DDP says of a rank's job to whoever logs it is so (job.logging).
 * Idea: each rank recorded a hash of the text. The same text is made here, of the plan's model and
 * options, of the buckets that the rank recorded (oracle model has judged them), and of what its
 * last step left without a gradient. */
#include <inttypes.h>
#include <stdio.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"
#include "harness/oracle/subject.h"
#include "harness/plan/bucket.h"
#include "harness/plan/names.h"

/* The event's arguments. */
enum { TEXT, BYTES, STEPS };

struct log {
    const struct harness_emulation *e;
    const struct harness_trace_event *event;
    uint32_t rank;
    bool is_last;  /* behind the last step */
    uint32_t step; /* whose beginning cleared the gradients */
};

static size_t param_bytes(const struct harness_emulation *e, size_t param)
{
    return e->params.items[param].elem_count * ddp_dtype_size_bytes(e->params.items[param].dtype);
}

/* Before the first step no parameter has a gradient. Afterwards those have one that the last pass
 * gave one: in the step whose beginning cleared all of them. */
static bool has_gradient(const struct log *log, size_t param)
{
    const struct harness_index *index = &log->e->index;
    size_t count = 0;
    const struct harness_trace_event *const *list;
    bool is_defined = false;

    if (!log->is_last) {
        return false;
    }
    /* Weights of f32 get theirs from the buckets alone. */
    if (!log->e->input->plan->job.mixed_precision.is_set) {
        list = harness_index_in_step(index, log->rank, DDP_EVENT_GRAD_READY, log->step, &count);
        for (size_t i = 0; i < count; i++) {
            is_defined = is_defined || list[i]->entry.arg[0] == param;
        }
    }
    list = harness_index_in_step(index, log->rank, DDP_EVENT_GRAD_FINAL, log->step, &count);
    for (size_t i = 0; i < count; i++) {
        is_defined = list[i]->entry.arg[0] == param ? list[i]->entry.arg[2] != 0 : is_defined;
    }
    return is_defined;
}

/* The last step in which the rank took a batch. */
static uint32_t last_trained(const struct log *log)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&log->e->index, log->rank, DDP_EVENT_DATA_BATCH, &count);

    return count > 0 ? list[count - 1]->entry.step : log->event->entry.step;
}

static void add_sizes(const struct log *log, struct ddp_text *out)
{
    const struct harness_emulation *e = log->e;
    size_t total = 0;
    size_t unused = 0;

    for (size_t p = 0; p < e->params.count; p++) {
        total += param_bytes(e, p);
        unused += has_gradient(log, p) ? 0 : param_bytes(e, p);
    }
    ddp_text_add(out,
                 "\"num_parameter_tensors\":%zu,\"total_parameter_size_bytes\":%zu,"
                 "\"unused_parameter_size\":%zu,",
                 e->params.count, total, unused);
}

/* A rank records where each parameter lies once for each assignment of buckets. */
static void add_buckets(const struct log *log, struct ddp_text *out)
{
    const struct harness_job *job = &log->e->input->plan->job;
    const size_t param_count = log->e->params.count;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&log->e->index, log->rank, DDP_EVENT_BUCKET_PARAM, &count);
    const size_t first = log->is_last && count > param_count ? count - param_count : 0;

    ddp_text_add(out, "\"bucket_sizes\":\"");
    for (uint64_t b = 0; b < param_count; b++) {
        size_t bytes = 0;

        for (size_t i = first; i < count && i < first + param_count; i++) {
            const uint64_t *arg = list[i]->entry.arg;

            if (arg[0] == b && arg[1] < param_count) {
                bytes +=
                    (size_t)arg[3] * ddp_dtype_size_bytes(job->mixed_precision.is_set
                                                              ? harness_mixed_reduce(job)
                                                              : log->e->params.items[arg[1]].dtype);
            }
        }
        if (bytes > 0) {
            ddp_text_add(out, b == 0 ? "%zu" : ", %zu", bytes);
        }
    }
    ddp_text_add(out, "\",");
}

static void add_types(const struct log *log, struct ddp_text *out)
{
    bool is_first = true;

    ddp_text_add(out, "\"dtypes\":\"");
    for (int d = 0; d < DDP_DTYPE_COUNT; d++) {
        bool is_there = false;

        for (size_t p = 0; p < log->e->params.count; p++) {
            is_there = is_there || log->e->params.items[p].dtype == (enum ddp_dtype)d;
        }
        if (is_there) {
            ddp_text_add(out, is_first ? "%s" : ", %s", ddp_dtype_name((enum ddp_dtype)d));
            is_first = false;
        }
    }
    ddp_text_add(out, "\",");
}

static void add_hook(const struct harness_job *job, struct ddp_text *out)
{
    ddp_text_add(out, "\"gradient_as_bucket_view\":%d,\"comm_hook\":\"",
                 job->gradient_as_bucket_view);
    if (job->mixed_precision.is_set) {
        ddp_text_add(out, "mixed %s/%s", ddp_dtype_name(harness_mixed_params(job)),
                     ddp_dtype_name(harness_mixed_reduce(job)));
    } else if (job->hook != HARNESS_HOOK_NONE) {
        ddp_text_add(out, "%s", harness_names_of(HARNESS_NAMES_HOOKS, (int)job->hook));
    }
    ddp_text_add(out, "\",");
}

static void make(const struct log *log, struct ddp_text *out)
{
    const struct harness_job *job = &log->e->input->plan->job;
    size_t first_cap_bytes;
    size_t cap_bytes;

    harness_bucket_caps(job, &first_cap_bytes, &cap_bytes);
    ddp_text_add(out, "{\"world_size\":%u,\"rank\":%u,\"iteration\":%u,", log->e->world, log->rank,
                 log->event->entry.step);
    add_sizes(log, out);
    add_buckets(log, out);
    add_types(log, out);
    add_hook(job, out);
    ddp_text_add(out,
                 "\"bucket_cap_bytes\":%zu,\"broadcast_buffers\":%d,\"find_unused_parameters\":%d,"
                 "\"static_graph\":%d,\"join_uneven_inputs\":0,\"has_error\":0,\"error\":\"\"}",
                 cap_bytes, job->broadcast_buffers,
                 job->find_unused_parameters && !job->static_graph, job->static_graph);
}

static ddp_status is_so(const struct log *log, bool *out, struct ddp_text *text)
{
    ddp_text_init(text, log->e->mem);
    make(log, text);
    *out = log->event->entry.arg[TEXT] == ddp_hash_text(ddp_text_str(text));
    return text->is_failed ? DDP_E_NOMEM : DDP_OK;
}

/* Where a step followed the last one that has a batch, it cleared the gradients if the data ended
 * there, and did not if it was left out. */
static ddp_status compare(struct log *log, bool *out_is_so, struct ddp_text *text)
{
    log->step = last_trained(log);
    DDP_TRY(is_so(log, out_is_so, text));
    if (*out_is_so || log->step + 1 >= log->e->input->plan->job.steps) {
        return DDP_OK;
    }
    log->step++;
    ddp_text_fini(text);
    return is_so(log, out_is_so, text);
}

/* The rank, if it recorded another text; of one that failed nobody knows how far it came. */
static ddp_status check_rank(const struct harness_emulation *e, uint32_t rank,
                             struct harness_findings *out)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_DDP_LOGGED, &count);
    ddp_status status = DDP_OK;

    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        struct log log = {.e = e, .event = list[i], .rank = rank, .is_last = i > 0};
        struct harness_finding finding;
        struct ddp_text text;
        bool is_as_made;

        status = compare(&log, &is_as_made, &text);
        if (status == DDP_OK && !is_as_made) {
            harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MODEL,
                                 HARNESS_ORACLE_MODEL, HARNESS_MODE_PROVABLE);
            harness_rank_set_add(&finding.culprits, rank);
            harness_subject_set_comparison(e, 1, &finding);
            (void)snprintf(finding.text, sizeof finding.text,
                           "rank %u: after %" PRIu64 " steps DDP logs something else of the job, "
                           "in %" PRIu64 " bytes, than the %zu of %.300s",
                           rank, list[i]->entry.arg[STEPS], list[i]->entry.arg[BYTES],
                           text.size_bytes, ddp_text_str(&text));
            harness_findings_add(out, &finding);
        }
        ddp_text_fini(&text);
    }
    return status;
}

ddp_status harness_model_check_logged(const struct harness_emulation *e,
                                      struct harness_findings *out)
{
    for (uint32_t r = 0; r < e->world; r++) {
        DDP_TRY(check_rank(e, r, out));
    }
    return DDP_OK;
}
